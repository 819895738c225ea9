//! Tests of mounts that run longer than the test suite: `cargo xtask campaign mount`. They need root, `/dev/fuse`,
//! fusermount3, attr and fsx. Each prints its seed and what it did; `PLATTER_SEED` sets the seed, `PLATTER_SECONDS`
//! the time, and `PLATTER_VOLUME` selects one kind of volume.

mod common;

use common::durable;
use common::mount::{Campaign, Mount, campaign_kinds, kill, memory, mount_known, recover};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// The number of operations of one run of fsx. It keeps all its memory maps, so operations of a longer run take longer.
const OPERATIONS: u64 = 2_000;

#[test]
#[ignore = "a campaign"]
fn fsx_finds_no_difference() {
    for format in campaign_kinds() {
        let campaign = Campaign::new();
        let mount = Mount::new("fsx", format);
        let (mut operations, changes) = (0, AtomicU64::new(0));
        for mut random in campaign.rounds() {
            let (seed, is_over) = (random.next() >> 32, AtomicBool::new(false));
            thread::scope(|scope| {
                if format.starts_with("refs") {
                    scope.spawn(|| toggle_integrity(&mount, &is_over, &changes));
                }
                // `is_over` is set even if fsx fails, because otherwise the other thread would never end.
                let run = std::panic::catch_unwind(|| mount.exercise(OPERATIONS, seed));
                is_over.store(true, Ordering::Relaxed);
                run.unwrap();
            });
            operations += OPERATIONS;
            fs::remove_file(mount.at("file")).unwrap();
        }
        mount.end();
        let changes = changes.into_inner();
        println!(
            "{format}: fsx found no difference in {operations} operations, with {changes} changes of integrity"
        );
        assert!(!format.starts_with("refs") || changes > 0, "integrity was never changed");
    }
}

/// Turns integrity (checksums of data) of the file that fsx works on off and on.
fn toggle_integrity(mount: &Mount, is_over: &AtomicBool, changes: &AtomicU64) {
    while !is_over.load(Ordering::Relaxed) {
        for value in ["on", "off"] {
            thread::sleep(Duration::from_millis(20));
            // The file does not exist before fsx has made it, nor after it was removed.
            let arguments = ["-n", "system.refs_integrity", "-v", value, "m/file"];
            let output = mount.place.command("setfattr", &arguments).output().expect("setfattr is needed");
            let text = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() || text.contains("No such file"), "{text}");
            changes.fetch_add(u64::from(output.status.success()), Ordering::Relaxed);
        }
    }
}

#[test]
#[ignore = "a campaign"]
fn what_was_synced_outlives_the_server_at_random_moments() {
    for format in campaign_kinds() {
        let campaign = Campaign::new();
        let mount = Mount::new("killed", format);
        mount.end();
        let (mut moments, mut found) = (0, 0u64);
        for mut random in campaign.rounds() {
            let (seed, moment) = (random.next(), 50 + random.below(950));
            let process = mount_known(&mount, &[]);
            let durable = durable::write_until(&mount, seed, || {
                thread::sleep(Duration::from_millis(moment));
                kill("-KILL", process);
            });
            recover(&mount);
            mount.mount("");
            found += durable::find_again(&mount, &durable, &format!("{format}, seed {seed}, {moment} ms"));
            mount.end();
            moments += 1;
        }
        println!("{format}: killed at {moments} moments, {found} durable files and blocks found again");
        assert!(found > 0, "{format}: nothing was durable");
    }
}

#[test]
#[ignore = "a campaign"]
fn what_was_synced_outlives_power_cuts_at_random_moments() {
    for format in campaign_kinds() {
        let campaign = Campaign::new();
        let (moments, found) = durable::power_cuts(format, campaign.rounds());
        println!("{format}: power cut at {moments} moments, {found} durable files and blocks found again");
    }
}

/// Needs Linux 6.18 or later, where the kernel forgets unused files when a FUSE server asks for it.
#[test]
#[ignore = "a campaign"]
fn what_serves_a_mount_does_not_keep_all_files_that_were_ever_seen() {
    const MOST: u64 = 256 << 10;
    // ReFS keeps the most memory for each file.
    let mount = Mount::new("seen", "refs");
    mount.end();
    let process = mount_known(&mount, &[]);
    let used = File::create(mount.at("used")).unwrap();
    let (directories, files) = (200, 1_500);
    for directory in 0..directories {
        let directory = mount.at(&format!("directory {directory}"));
        fs::create_dir(&directory).unwrap();
        for file in 0..files {
            fs::write(directory.join(format!("file {file}")), "something").unwrap();
        }
    }
    assert_eq!(mount.shell("find m -type f -size -2 | wc -l").trim(), (directories * files + 1).to_string());
    let kilobytes = memory(process);
    println!("{directories} times {files} files: at most {kilobytes} KiB in memory");
    assert!(kilobytes <= MOST, "{kilobytes} KiB");
    // A file in use is kept, and files that were forgotten are found again.
    used.write_all_at(b"still", 0).unwrap();
    drop(used);
    assert_eq!(fs::read_to_string(mount.at("used")).unwrap(), "still");
    assert_eq!(fs::read_dir(mount.at("directory 0")).unwrap().count(), files);
    mount.end();
}
