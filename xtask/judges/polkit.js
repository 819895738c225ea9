// Stands for polkit: a rule that is added is asked about units, and its answers are checked (polkit(8), "AUTHORIZATION RULES").
// Run before the file with the rule, by the same interpreter.
var polkit = {
    Result: { YES: "yes", NOT_HANDLED: "not handled" },
    addRule: function (rule) {
        function ask(id, unit, verb, subject) {
            var known = { unit: unit, verb: verb };
            var action = { id: id, lookup: function (key) { return known[key]; } };
            return rule(action, subject) === polkit.Result.YES;
        }
        var units = "org.freedesktop.systemd1.manage-units";
        var here = { local: true, active: true };
        var cases = [
            [true, units, "platter-mount@sdb1.service", "stop", here],
            [false, units, "platter-mount@sdb1.service", "start", here],
            [false, units, "ssh.service", "stop", here],
            [false, units, "platter-mount@sdb1.service.d/../ssh.service", "stop", here],
            [false, units, undefined, "stop", here],
            [false, "org.freedesktop.login1.reboot", "platter-mount@sdb1.service", "stop", here],
            [false, units, "platter-mount@sdb1.service", "stop", { local: false, active: true }],
            [false, units, "platter-mount@sdb1.service", "stop", { local: true, active: false }]
        ];
        cases.forEach(function (one) {
            if (ask(one[1], one[2], one[3], one[4]) !== one[0]) {
                throw new Error("the rule is wrong: " + JSON.stringify(one));
            }
        });
        print("the rule of polkit answers as it should");
    }
};
