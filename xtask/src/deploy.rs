//! Tests of the files in `deploy/`, each by the program it is for: Slurm runs its job on this machine; Kubernetes'
//! schema, `systemd-analyze` and Ansible check theirs.

use crate::command::{Scratch, run, said, write};
use crate::tools::{self, Tool};
use crate::{Outcome, bindings, tables};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const TOOLS: &[Tool] = &[
    ("slurmctld", "slurm-wlm"),
    ("slurmd", "slurm-wlm"),
    ("sbatch", "slurm-wlm"),
    ("munged", "munge"),
    ("systemd-analyze", "systemd"),
    ("python3", "python3"),
];

/// The checking programs from PyPI, with the versions that the files were written for.
const JUDGES: [&str; 2] = ["kubernetes-validate==1.37.0", "ansible-core==2.19.14"];

/// The options of a comparison that takes a second.
const SHORT: &str = "--workloads overhead --targets raw,fat32 --span 16M --time 0.1 --repeat 1";

/// The number of tasks in Slurm's job array.
const TASKS: usize = 20;

pub(crate) fn judge() -> Outcome {
    if !tools::is_root() {
        return Err("Slurm's daemons need root".into());
    }
    tools::provide(TOOLS)?;
    let program = tables::program()?;
    let here = Scratch::new("deploy")?;
    let environment = bindings::target_directory()?.join("deploy");
    bindings::environment(&environment, &JUDGES)?;
    let judge = |name: &str| environment.join("bin").join(name).display().to_string();
    run(&judge("kubernetes-validate"), &["--strict", "deploy/kubernetes/compare.yaml"], &[])?;
    systemd(&program, &here)?;
    ansible(&judge("ansible-playbook"), &judge("python"), &program, &here)?;
    slurm(&program, &here)
}

/// Checks that `systemd-analyze` accepts the units, and reports a unit with a wrong line.
fn systemd(program: &str, here: &Scratch) -> Outcome {
    let folder = here.folder("systemd")?;
    let (service, timer, mount) =
        ("platter-compare.service", "platter-compare.timer", "platter-mount@.service");
    for (unit, line) in
        [(service, ""), (timer, ""), (service, "Colour=red\n"), (mount, ""), (mount, "Colour=red\n")]
    {
        let name = format!("deploy/systemd/{unit}");
        let text = std::fs::read_to_string(&name).map_err(|error| format!("{name}: {error}"))?;
        // The path of this build's program is put in; the manual is not checked, because it is not installed.
        let text = text.replace("/usr/bin/platter", program).replace("[Unit]\n", &format!("[Unit]\n{line}"));
        write(&folder.join(unit), &text)?;
        let path = folder.join(unit).display().to_string();
        // The service is judged with its timer, which is judged after it.
        if unit != service || !line.is_empty() {
            let said = output("systemd-analyze", &["verify", "--man=no", &path])?;
            if said.is_empty() != line.is_empty() {
                return Err(format!("systemd-analyze verify, with {line:?} in it: {said:?}"));
            }
        }
    }
    eprintln!("systemd-analyze has nothing to say of the units");
    Ok(())
}

/// Runs the playbook on this machine, and checks that the report was fetched.
fn ansible(playbook: &str, python: &str, program: &str, here: &Scratch) -> Outcome {
    let folder = here.folder("ansible")?;
    let inventory = folder.join("inventory");
    write(&inventory, &format!("node1 ansible_connection=local ansible_python_interpreter={python}\n"))?;
    let inventory = inventory.display().to_string();
    let play = "deploy/ansible/compare.yml";
    run(playbook, &["--syntax-check", "-i", &inventory, play], &[])?;
    let options: Vec<String> = SHORT.split(' ').map(|word| format!("{word:?}")).collect();
    let variables = format!(
        "{{\"platter_program\": {program:?}, \"platter_reports\": {:?}, \"platter_options\": [{}]}}",
        folder.display().to_string(),
        options.join(", ")
    );
    run(playbook, &["-i", &inventory, play, "-e", &variables], &[])?;
    grouped(program, &folder.join("node1.json"), "label.inventory", "node1")
}

/// Checks that a report exists and that its value for `key` is `expected`.
fn grouped(program: &str, reports: &Path, key: &str, expected: &str) -> Outcome {
    let said = output(program, &["report", &reports.display().to_string(), "--group-by", key, "--markdown"])?;
    match said.contains(&format!("| {expected} | 1 |")) {
        true => Ok(()),
        false => Err(format!("{}: {key} is not {expected}: {said}", reports.display())),
    }
}

/// Daemons that are stopped when this is dropped.
#[derive(Default)]
struct Daemons(Vec<Child>);

impl Daemons {
    fn start(&mut self, program: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Outcome {
        let mut command = Command::new(program);
        command.args(arguments).envs(environment.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.0.push(command.spawn().map_err(|error| format!("{program}: {error}"))?);
        Ok(())
    }
}

impl Drop for Daemons {
    fn drop(&mut self) {
        for child in self.0.iter_mut().rev() {
            // Asked to end, the daemons remove their own files.
            let _ = Command::new("kill").arg(child.id().to_string()).status();
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_secs(10) && matches!(child.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(50));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Runs twenty tasks on a cluster of this machine alone, one of which is requeued while it runs.
fn slurm(program: &str, here: &Scratch) -> Outcome {
    let folder = here.folder("slurm")?;
    for name in ["state", "spool", "reports"] {
        here.folder(&format!("slurm/{name}"))?;
    }
    let at = |name: &str| folder.join(name).display().to_string();
    let host = output("hostname", &["-s"])?.trim().to_owned();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let configuration = format!(
        "ClusterName=platter\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\n\
         AuthType=auth/munge\nAuthInfo=socket={munge}\nCredType=cred/munge\n\
         StateSaveLocation={state}\nSlurmdSpoolDir={spool}\nSlurmctldPidFile={ctld}\nSlurmdPidFile={slurmd}\n\
         SlurmctldLogFile={ctld}.log\nSlurmdLogFile={slurmd}.log\n\
         SlurmctldPort=16817\nSlurmdPort=16818\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n\
         JobAcctGatherType=jobacct_gather/none\nMpiDefault=none\nReturnToService=2\nMailProg=/bin/true\n\
         SchedulerType=sched/builtin\nSelectType=select/cons_tres\n\
         NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} State=UNKNOWN\n\
         PartitionName=main Nodes={host} Default=YES State=UP MaxTime=INFINITE\n",
        munge = at("munge.socket"),
        state = at("state"),
        spool = at("spool"),
        ctld = at("slurmctld"),
        slurmd = at("slurmd"),
    );
    write(&folder.join("slurm.conf"), &configuration)?;
    let settings = at("slurm.conf");
    let environment = [("SLURM_CONF", settings.as_str())];
    run(
        "dd",
        &["if=/dev/urandom", &format!("of={}", at("munge.key")), "bs=1024", "count=1", "status=none"],
        &[],
    )?;
    run("chmod", &["400", &at("munge.key")], &[])?;
    let mut daemons = Daemons::default();
    let files =
        ["key", "pid", "log", "seed"].map(|kind| format!("--{kind}-file={}", at(&format!("munge.{kind}"))));
    let socket = format!("--socket={}", at("munge.socket"));
    let mut arguments = vec!["--foreground", "--force", &socket];
    arguments.extend(files.iter().map(String::as_str));
    daemons.start("/usr/sbin/munged", &arguments, &[])?;
    wait("munged", || Ok(Path::new(&at("munge.socket")).exists()))?;
    daemons.start("/usr/sbin/slurmctld", &["-D", "-f", &settings], &environment)?;
    daemons.start("/usr/sbin/slurmd", &["-D", "-f", &settings], &environment)?;
    let ask =
        |program: &str, arguments: &[&str]| said(Command::new(program).args(arguments).envs(environment));
    wait("a node", || Ok(ask("sinfo", &["-h", "-o", "%T"]).is_ok_and(|state| state.contains("idle"))))?;
    let reports = at("reports");
    let variables = [
        ("SLURM_CONF", settings.as_str()),
        ("PLATTER", program),
        ("PLATTER_DEVICE", "mem:512M"),
        ("PLATTER_OPTIONS", SHORT),
        ("PLATTER_REPORTS", &reports),
    ];
    let array = format!("--array=0-{}", TASKS - 1);
    let log = format!("--output={}", at("%A_%a.log"));
    run("sbatch", &[&array, &log, "deploy/slurm/compare.sbatch"], &variables)?;
    // A task that has begun to compare is stopped and requeued.
    let running = || ask("squeue", &["-h", "-t", "R", "-o", "%A %F_%a"]);
    let unfinished = || {
        let entries = std::fs::read_dir(&reports).map_err(|error| format!("{reports}: {error}"))?;
        Ok(entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with(".unfinished")))
    };
    wait("a task that compares", unfinished)?;
    let job = running()?;
    let job = job.split_whitespace().next().ok_or("no task runs")?.to_owned();
    ask("scontrol", &["requeue", &job])?;
    let begin = Instant::now();
    while !ask("squeue", &["-h"])?.trim().is_empty() {
        if begin.elapsed() > Duration::from_secs(1200) {
            return Err(format!("the tasks do not end: {}", ask("squeue", &[])?));
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    let entries = std::fs::read_dir(&reports).map_err(|error| format!("{reports}: {error}"))?;
    let names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let is_whole = |name: &String| {
        let text = std::fs::read_to_string(folder.join("reports").join(name).join("report.json"));
        text.is_ok_and(|text| text.contains("\"answer\"") && !text.contains("\"partial\""))
    };
    if names.len() != TASKS || !names.iter().all(is_whole) {
        return Err(format!(
            "of {TASKS} tasks these left reports: {names:?}; logs are in {}",
            folder.display()
        ));
    }
    let said =
        output(program, &["report", &reports, "--group-by", "label.task,label.restarts", "--markdown"])?;
    let restarted = (0..TASKS).filter(|task| said.contains(&format!("| {task}, 1 | 1 |"))).count();
    let once = (0..TASKS).filter(|task| said.contains(&format!("| {task}, 0 | 1 |"))).count();
    match (restarted, once) {
        (1, others) if others == TASKS - 1 => {}
        _ => return Err(format!("{restarted} tasks ran again, {once} once: {said}")),
    }
    eprintln!(
        "Slurm: {TASKS} tasks, one requeued, {TASKS} whole reports in {:.0} s",
        begin.elapsed().as_secs_f64()
    );
    Ok(())
}

fn wait(what: &str, is_so: impl Fn() -> Result<bool, String>) -> Outcome {
    let begin = Instant::now();
    while !is_so()? {
        if begin.elapsed() > Duration::from_secs(60) {
            return Err(format!("{what}: not within a minute"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Runs a program and returns its standard output and standard error.
fn output(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output =
        Command::new(program).args(arguments).output().map_err(|error| format!("{program}: {error}"))?;
    Ok([output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat())
}
