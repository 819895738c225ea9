//! What backup programs compare to tell whether a file is unchanged, after mounting again. Needs root and `/dev/fuse`.

use crate::common::Place;
use crate::common::mount::{FORMATS, Mount};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

/// Of each file: inode number, times of the last change of content and of attributes, and size, as restic and borg do.
type Seen = BTreeMap<String, (u64, i64, i64, i64, i64, u64)>;

fn look(at: &Path, path: &str, is_backwards: bool, seen: &mut Seen) {
    let mut names: Vec<String> =
        fs::read_dir(at).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    if is_backwards {
        names.reverse();
    }
    for name in names {
        let (at, path) = (at.join(&name), format!("{path}/{name}"));
        let found = fs::metadata(&at).unwrap();
        if found.is_dir() {
            look(&at, &path, is_backwards, seen);
        }
        let times = (found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec());
        seen.insert(path, (found.ino(), times.0, times.1, times.2, times.3, found.len()));
    }
}

fn seen(place: &Place, is_backwards: bool) -> Seen {
    let mut seen = Seen::new();
    look(&place.path("m"), "", is_backwards, &mut seen);
    let numbers: std::collections::BTreeSet<u64> = seen.values().map(|one| one.0).collect();
    assert_eq!(numbers.len(), seen.len());
    seen
}

#[test]
fn unchanged_files_look_the_same_after_mounting_again() {
    // Zones in which it is winter and summer at one time: whenever this test runs, one of them has summer time.
    for zone in ["CET-1CEST,M3.5.0,M10.5.0/3", "AEST-10AEDT,M10.1.0,M4.1.0/3"] {
        for format in FORMATS {
            let mount = Mount::made("numbers", format, "disk.img", "400M");
            mount.end();
            let place = &mount.place;
            let again = || {
                let mut command = place.command(env!("CARGO_BIN_EXE_platter"), &["mount", "disk.img", "m"]);
                let output = command.env("TZ", zone).output().unwrap();
                assert!(output.status.success(), "{output:?}");
            };
            again();
            for directory in 0..5 {
                fs::create_dir_all(mount.at(&format!("{directory}/below"))).unwrap();
                for number in 0..40 {
                    let path = mount.at(&format!("{directory}/below/a file {number}"));
                    fs::write(&path, vec![b'x'; number * 100]).unwrap();
                    // In winter and in summer.
                    let time = Duration::from_secs(1_736_938_800 + number as u64 * 14 * 86_400);
                    File::options().write(true).open(path).unwrap().set_modified(UNIX_EPOCH + time).unwrap();
                }
            }
            mount.end();
            again();
            let before = seen(place, false);
            // What changes others' names and places.
            for number in 0..10 {
                fs::remove_file(mount.at(&format!("0/below/a file {number}"))).unwrap();
                fs::rename(
                    mount.at(&format!("1/below/a file {number}")),
                    mount.at(&format!("moved {number}")),
                )
                .unwrap();
                fs::write(mount.at(&format!("2/new {number}")), "new").unwrap();
                fs::write(mount.at("t"), "new").unwrap();
                fs::rename(mount.at("t"), mount.at(&format!("3/below/a file {number}"))).unwrap();
            }
            let (during, changed) = (seen(place, false), "0 1 2 3");
            mount.end();
            again();
            let after = seen(place, true);
            let is_untouched = |path: &&String| {
                let is_in = |directory: &str| path.starts_with(&format!("/{directory}/below/a file"));
                !changed.split(' ').any(is_in) || path.len() == "/0/below/a file 10".len()
            };
            let mut count = 0;
            for path in before.keys().filter(is_untouched).filter(|path| path.contains("a file")) {
                assert_eq!(
                    (before[path], before[path]),
                    (during[path], after[path]),
                    "{format} {zone}: {path}"
                );
                count += 1;
            }
            assert_eq!(count, 160, "{format}");
            mount.end();
        }
    }
}
