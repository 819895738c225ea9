//! PostgreSQL and fsx on mounted volumes, while the power of the disk is cut, or the database and the process that serves
//! the mount are killed. Needs root, `/dev/fuse`, setpriv, PostgreSQL and fsx.

mod common;

use common::durable::on_volatile_disk;
use common::mount::{Campaign, FORMATS, Mount, Random, campaign_kinds, kill, mount_known, recover};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Returns the directory with the programs of the newest PostgreSQL.
fn programs() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest =
        versions.map(|version| version.path().join("bin")).filter(|bin| bin.join("initdb").exists()).max();
    newest.expect("PostgreSQL is needed for this test")
}

/// A PostgreSQL cluster on a mount. It runs as the user nobody, who owns everything on the mount.
struct Cluster {
    mount: Mount,
}

const OWNER: &str = "uid=65534,gid=65534,umask=077";

impl Cluster {
    fn user(&self, line: &str) -> String {
        let line = format!(
            "setpriv --reuid=65534 --regid=65534 --clear-groups env PGHOST=\"$PWD\" PATH={}:\"$PATH\" {line}",
            programs().display()
        );
        self.mount.shell(&line)
    }

    /// Starts the server, and returns the number of its first process.
    fn start(&self) -> u32 {
        self.user("pg_ctl -D m/db -l log -o \"-k $PWD -c listen_addresses=''\" -w -t 120 start >/dev/null");
        let first = fs::read_to_string(self.mount.at("db/postmaster.pid")).unwrap();
        first.lines().next().unwrap().parse().unwrap()
    }

    fn ask(&self, query: &str) -> String {
        self.user(&format!("psql -qtA -d postgres -c '{query}'")).trim().to_string()
    }

    /// Ends what the database is on by `end`, and kills the server, whose first process is `first`.
    fn crash(first: u32, end: impl FnOnce()) {
        // The server's first process is stopped before its children are listed: it would start new ones as others
        // end.
        kill("-STOP", first);
        let children = fs::read_to_string(format!("/proc/{first}/task/{first}/children")).unwrap();
        end();
        let all: Vec<u32> =
            children.split_whitespace().map(|number| number.parse().unwrap()).chain([first]).collect();
        for process in &all {
            // A child that noticed the failure may have ended by itself.
            let _ = Command::new("kill").args(["-KILL", &process.to_string()]).stderr(Stdio::null()).status();
        }
        let start = Instant::now();
        for process in &all {
            let is_there = || {
                fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|state| !state.contains(") Z "))
            };
            while is_there() {
                assert!(start.elapsed() < Duration::from_secs(20), "the server does not end");
                thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

/// In turns cuts the power of the disk, or kills the process that serves the mount, each at its moment: milliseconds
/// from the start of the load. The database is killed at the same time. Returns how many transactions were found again.
fn crash_at(format: &str, rounds: impl Iterator<Item = (u64, Random)>) -> u64 {
    let (mount, disk) = on_volatile_disk("pg", format);
    fs::set_permissions(&mount.place.0, fs::Permissions::from_mode(0o777)).unwrap();
    mount_known(&mount, &["-o", OWNER]);
    let cluster = Cluster { mount };
    cluster.user("initdb -D m/db -A trust -N >/dev/null");
    // What initdb wrote is not durable before.
    cluster.mount.end();
    let mut serves = mount_known(&cluster.mount, &["-o", OWNER]);
    let mut first = cluster.start();
    cluster.user("pgbench -qi -s 1 postgres 2>/dev/null");
    let mut all = 0;
    for (number, (moment, mut random)) in rounds.enumerate() {
        let is_power_cut = number % 2 == 0;
        let what = if is_power_cut { "power cut" } else { "kill" };
        let what = format!("{format}: {what} after {moment} ms, round {number}");
        let done = thread::scope(|scope| {
            let clients = scope.spawn(|| {
                // pgbench ends with an error when the server is killed.
                cluster.user("pgbench -n -c 4 -T 30 -l --log-prefix=done postgres >/dev/null 2>&1 || true")
            });
            let noise = cluster.mount.noise(random.next() >> 32);
            thread::sleep(Duration::from_millis(moment));
            Cluster::crash(first, || {
                if is_power_cut {
                    disk.cut(&mut random);
                }
                kill("-KILL", serves);
            });
            noise.end();
            clients.join().unwrap();
            // Every transaction that a client was told is committed is one line of these files.
            cluster.mount.shell("cat done.* | wc -l").trim().parse::<u64>().unwrap()
        });
        disk.turn_on();
        let mount = &cluster.mount;
        recover(mount);
        serves = mount_known(mount, &["-o", OWNER]);
        mount.shell("rm -f m/db/postmaster.pid .s.PGSQL.*");
        first = cluster.start();
        let sums = "select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history), \
                    (select sum(tbalance) from pgbench_tellers) = (select sum(delta) from pgbench_history)";
        assert_eq!(cluster.ask(sums), "t|t", "{what}");
        let kept: u64 = cluster.ask("select count(*) from pgbench_history").parse().unwrap();
        assert!(kept >= done, "{what}: {done} were told as committed, {kept} are there");
        all = done;
    }
    assert!(all > 0, "{format}: nothing was committed");
    cluster.user("pg_ctl -D m/db -m fast -w stop >/dev/null");
    cluster.mount.end();
    all
}

#[test]
fn what_was_committed_survives() {
    for format in FORMATS {
        crash_at(format, [1_500, 2_200].into_iter().zip((1..).map(Random)));
    }
}

/// Run by `cargo xtask campaign mount`.
#[test]
#[ignore = "a campaign"]
fn what_was_committed_survives_at_random_moments() {
    for format in campaign_kinds() {
        let campaign = Campaign::new();
        let mut moments = 0;
        let rounds = campaign.rounds().inspect(|_| moments += 1);
        let found = crash_at(format, rounds.map(|mut random| (200 + random.below(1_300), random)));
        println!(
            "{format}: PostgreSQL met {} power cuts and {} kills, {found} transactions found again",
            moments - moments / 2,
            moments / 2
        );
    }
}
