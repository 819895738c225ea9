//! Backup programs read no unchanged file again after the volume was mounted anew, in winter and in summer. Needs root,
//! `/dev/fuse`, restic, borg, rsync and faketime.

use crate::common::mount::{FORMATS, Mount};
use std::fs::{self, File};
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

/// Files in each of the directories.
const FILES: u64 = 40;
const DIRECTORIES: [&str; 3] = ["a", "b", "b/below"];
/// One file more: borg does not trust the newest times that it has seen, since the clock may not have moved on when such
/// a file changes again, and reads that file each time.
const NEWEST: &str = "newest";

/// A day of winter and one of summer in the zone of the tests, and in the middle of them midnight UTC.
const DAYS: [(&str, u64); 2] =
    [("2026-01-20 12:00:00", 1_768_867_200), ("2026-07-20 12:00:00", 1_784_505_600)];
const ZONE: &str = "CET-1CEST,M3.5.0,M10.5.0/3";

struct Backups {
    mount: Mount,
}

impl Backups {
    fn new(format: &str) -> Backups {
        let mount = Mount::made("backups", format, "disk.img", "400M");
        for directory in DIRECTORIES {
            fs::create_dir(mount.at(directory)).unwrap();
            for number in 0..FILES {
                let path = mount.at(&format!("{directory}/A file {number}"));
                fs::write(&path, vec![b'x'; number as usize * 100 + 1]).unwrap();
                let time = DAYS[number as usize % 2].1 + number * 1_801;
                set_time(&path, time);
            }
        }
        fs::write(mount.at(NEWEST), "x").unwrap();
        set_time(&mount.at(NEWEST), DAYS[1].1 + 100 * 86_400);
        mount.end();
        let backups = Backups { mount };
        backups.run("restic", &["init", "--quiet", "--no-cache", "--repo", "restic"]);
        backups.run("borg", &["init", "--encryption", "none", "borg"]);
        fs::create_dir(backups.mount.place.path("copy")).unwrap();
        backups
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = self.mount.place.command(program, arguments);
        command
            .env("TZ", ZONE)
            .env("RESTIC_PASSWORD", "x")
            .env("BORG_BASE_DIR", self.mount.place.path("base"));
        command.env("BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK", "yes");
        command
    }

    fn run(&self, program: &str, arguments: &[&str]) -> (String, String) {
        let output = self.command(program, arguments).output();
        let output = output.unwrap_or_else(|error| panic!("{program} is needed for this test: {error}"));
        assert!(output.status.success(), "{program}: {output:?}");
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(output.stdout), text(output.stderr))
    }

    /// Mounts the volume on this day, has each program make a backup, and returns what they read: how many files restic calls
    /// unmodified, and the lines that borg and rsync have of what is new or changed.
    fn on(&self, day: &str) -> (u64, Vec<String>, Vec<String>) {
        self.run("faketime", &[day, env!("CARGO_BIN_EXE_platter"), "mount", "disk.img", "m"]);
        let (said, _) = self.run("restic", &["backup", "--json", "--no-cache", "--repo", "restic", "m"]);
        let summary: serde_json::Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
        let archive = format!("borg::{}", self.archives());
        // Borg lists on standard error.
        let (_, listed) = self.run("borg", &["create", "--list", "--filter", "AMC", &archive, "m"]);
        let listed = listed.lines().filter(|line| !line.ends_with(NEWEST)).map(String::from).collect();
        let (copied, _) = self.run("rsync", &["-a", "-i", "m/", "copy/"]);
        self.mount.end();
        (summary["files_unmodified"].as_u64().unwrap(), listed, copied.lines().map(String::from).collect())
    }

    /// How many backups borg has.
    fn archives(&self) -> usize {
        self.run("borg", &["list", "--short", "borg"]).0.lines().count()
    }
}

fn set_time(path: &std::path::Path, seconds: u64) {
    let time = UNIX_EPOCH + Duration::from_secs(seconds);
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

#[test]
fn backup_programs_read_no_unchanged_file_again() {
    let count = FILES * DIRECTORIES.len() as u64 + 1;
    let [winter, summer] = DAYS.map(|(day, _)| day);
    for format in FORMATS {
        let backups = Backups::new(format);
        let (unmodified, listed, copied) = backups.on(winter);
        // With the directories.
        let everything = count as usize + DIRECTORIES.len() + 1;
        assert_eq!((unmodified, listed.len()), (0, count as usize - 1), "{format}");
        assert_eq!(copied.len(), everything, "{format}: {copied:?}");
        for day in [winter, summer, winter] {
            assert_eq!(backups.on(day), (count, vec![], vec![]), "{format}, {day}");
        }
        // What did change is read.
        backups.mount.mount("");
        fs::write(backups.mount.at("a/A file 3"), "other").unwrap();
        backups.mount.end();
        let (unmodified, listed, copied) = backups.on(summer);
        assert_eq!(unmodified, count - 1, "{format}");
        let is_changed = |lines: &[String]| lines.len() == 1 && lines[0].ends_with("a/A file 3");
        assert!(is_changed(&listed) && is_changed(&copied), "{format}: {listed:?} {copied:?}");
    }
}
