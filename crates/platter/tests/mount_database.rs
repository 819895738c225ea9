//! PostgreSQL on mounted volumes, while its server and the process that serves the mount are killed. Needs root,
//! `/dev/fuse`, setpriv and PostgreSQL.

mod common;

use common::mount::{Campaign, FORMATS, Mount, campaign_kinds, kill, mount_known, recover};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
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

    fn start(&self) {
        self.user("pg_ctl -D m/db -l log -o \"-k $PWD -c listen_addresses=''\" -w -t 120 start >/dev/null");
    }

    fn ask(&self, query: &str) -> String {
        self.user(&format!("psql -qtA -d postgres -c '{query}'")).trim().to_string()
    }

    /// Kills the database server and the process that serves the mount at the same time: like a power cut, except
    /// that the device goes on.
    fn crash(&self, serves_mount: u32) {
        let first = fs::read_to_string(self.mount.at("db/postmaster.pid")).unwrap();
        let first: u32 = first.lines().next().unwrap().parse().unwrap();
        // The server's first process is stopped before its children are listed: it would start new ones as others
        // end.
        kill("-STOP", first);
        let children = fs::read_to_string(format!("/proc/{first}/task/{first}/children")).unwrap();
        kill("-KILL", serves_mount);
        let all: Vec<u32> =
            children.split_whitespace().map(|number| number.parse().unwrap()).chain([first]).collect();
        for process in &all {
            // A child that noticed the failure may have ended by itself.
            let _ = std::process::Command::new("kill").args(["-KILL", &process.to_string()]).output();
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

/// Kills the database and the process that serves its mount at each of these moments, in milliseconds from the start
/// of the load.
fn crash_at(format: &str, moments: impl Iterator<Item = u64>) {
    let mount = Mount::new("pg", format);
    let open = |mode| fs::set_permissions(&mount.place.0, fs::Permissions::from_mode(mode)).unwrap();
    open(0o777);
    mount.end();
    let mut serves = mount_known(&mount, "disk.img", &["-o", OWNER]);
    let cluster = Cluster { mount };
    cluster.user("initdb -D m/db -A trust -N >/dev/null");
    cluster.start();
    cluster.user("pgbench -qi -s 1 postgres 2>/dev/null");
    let mut all = 0;
    for moment in moments {
        let done = thread::scope(|scope| {
            let clients = scope.spawn(|| {
                // pgbench ends with an error when the server is killed.
                cluster.user("pgbench -n -c 4 -T 30 -l --log-prefix=done postgres >/dev/null 2>&1 || true")
            });
            thread::sleep(Duration::from_millis(moment));
            cluster.crash(serves);
            clients.join().unwrap();
            // Every transaction that a client was told is committed is one line of these files.
            cluster.mount.shell("cat done.* | wc -l").trim().parse::<u64>().unwrap()
        });
        let mount = &cluster.mount;
        recover(mount);
        serves = mount_known(mount, "disk.img", &["-o", OWNER]);
        mount.shell("rm -f m/db/postmaster.pid .s.PGSQL.*");
        cluster.start();
        let sums = "select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history), \
                    (select sum(tbalance) from pgbench_tellers) = (select sum(delta) from pgbench_history)";
        assert_eq!(cluster.ask(sums), "t|t", "{format}, {moment} ms");
        let kept: u64 = cluster.ask("select count(*) from pgbench_history").parse().unwrap();
        assert!(kept >= done, "{format}, {moment} ms: {done} were told as committed, {kept} are there");
        all = done;
    }
    assert!(all > 0, "{format}: nothing was committed");
    cluster.user("pg_ctl -D m/db -m fast -w stop >/dev/null");
    cluster.mount.end();
}

#[test]
fn what_was_committed_survives() {
    FORMATS.iter().for_each(|format| crash_at(format, [1_500, 2_200].into_iter()));
}

/// Run by `cargo xtask campaign mount`.
#[test]
#[ignore = "a campaign"]
fn what_was_committed_survives_at_random_moments() {
    for format in campaign_kinds() {
        let campaign = Campaign::new();
        let moments = std::cell::Cell::new(0u64);
        crash_at(
            format,
            campaign.rounds().map(|mut random| {
                moments.set(moments.get() + 1);
                800 + random.below(2_500)
            }),
        );
        println!("{format}: PostgreSQL was killed at {} moments", moments.get());
    }
}
