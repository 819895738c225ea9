//! Tests of mounts that run longer than the test suite: `cargo xtask campaign mount`. They need root, `/dev/fuse`,
//! fusermount3, attr and fsx. Each prints its seed and what it did; `PLATTER_SEED` sets the seed, `PLATTER_SECONDS`
//! the time, and `PLATTER_VOLUME` selects one kind of volume.

mod common;

use common::content;
use common::mount::{Campaign, Mount, campaign_kinds, kill, mount_known, recover};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// The number of operations of one run of fsx.
const OPERATIONS: u64 = 20_000;

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

/// The data that was durable when the process that served the mount was killed.
#[derive(Default)]
struct Durable {
    /// The files, and the seed of each one's content.
    files: Vec<(String, u64)>,
    /// The blocks of one file that are overwritten again and again: the seed of the content that was last durable,
    /// and of the content being written.
    blocks: Vec<(u64, u64)>,
}

const FILE: usize = 20_000;
const BLOCK: usize = 8192;
const BLOCKS: u64 = 64;

/// Makes files, overwrites blocks of another file, renames and removes, until the mount is gone.
fn write_until_killed(at: &Path, writer: u64, seed: u64) -> Durable {
    let mut durable = Durable { blocks: vec![(0, 0); BLOCKS as usize], ..Durable::default() };
    let mut work = || -> std::io::Result<()> {
        let shared = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(at.join(format!("blocks {writer}")))?;
        for number in 1.. {
            let own = seed.wrapping_add(number);
            match number % 3 {
                0 => {
                    // Written under another name and then renamed, as programs do that replace a file.
                    let (draft, name) = (format!("draft {writer}"), format!("file {writer} {number}"));
                    let file = File::create(at.join(&draft))?;
                    file.write_all_at(&content(own, FILE), 0)?;
                    file.sync_all()?;
                    fs::rename(at.join(&draft), at.join(&name))?;
                    // A name is durable only when its directory is synced.
                    File::open(at)?.sync_all()?;
                    durable.files.push((name, own));
                    if durable.files.len() > 20 {
                        let (name, _) = durable.files.remove(0);
                        fs::remove_file(at.join(name))?;
                    }
                }
                _ => {
                    let index = own % BLOCKS;
                    durable.blocks[index as usize].1 = own;
                    shared.write_all_at(&content(own, BLOCK), index * BLOCK as u64)?;
                    shared.sync_data()?;
                    durable.blocks[index as usize].0 = own;
                }
            }
        }
        Ok(())
    };
    // Ends with an error when the mount is gone.
    let _ = work();
    durable
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
            let durable: Vec<Durable> = thread::scope(|scope| {
                // Besides the writers, fsx changes another file in all ways; its content is not checked afterwards.
                let mut exerciser = mount.exerciser(1 << 40, seed >> 32);
                let exerciser = exerciser.stdout(Stdio::null()).stderr(Stdio::null());
                let mut noise = exerciser.spawn().expect("fsx is needed for this test");
                let writers: Vec<_> = (0..3)
                    .map(|writer| {
                        let at = mount.at("");
                        scope.spawn(move || write_until_killed(&at, writer, seed ^ writer << 40))
                    })
                    .collect();
                thread::sleep(Duration::from_millis(moment));
                kill("-KILL", process);
                // fsx reads what its own sendfile(2) puts into a socket, and waits forever when that fails.
                noise.kill().unwrap();
                noise.wait().unwrap();
                writers.into_iter().map(|writer| writer.join().unwrap()).collect()
            });
            recover(&mount);
            mount.mount("");
            for (writer, durable) in durable.iter().enumerate() {
                for (name, own) in &durable.files {
                    let what = format!("{format}, seed {seed}, {moment} ms: {name}");
                    let is = fs::read(mount.at(name)).unwrap_or_else(|error| panic!("{what}: {error}"));
                    assert!(is == content(*own, FILE), "{what} is another");
                }
                let blocks = fs::read(mount.at(&format!("blocks {writer}"))).unwrap_or_default();
                for (index, (last, next)) in
                    durable.blocks.iter().enumerate().filter(|(_, block)| block.0 > 0)
                {
                    let is = blocks.get(index * BLOCK..(index + 1) * BLOCK).unwrap_or_default();
                    let what = format!("{format}, seed {seed}, {moment} ms: block {index} of {writer}");
                    // Each 512 bytes are either of the last durable content or of the content that was being written.
                    let (old, new) = (content(*last, BLOCK), content(*next, BLOCK));
                    let is_known = (0..BLOCK).step_by(512).all(|at| {
                        let part = is.get(at..at + 512).unwrap_or_default();
                        part == &old[at..at + 512] || part == &new[at..at + 512]
                    });
                    assert!(is_known, "{what} is another");
                    found += 1;
                }
                found += durable.files.len() as u64;
            }
            mount.shell("rm -f m/file* m/draft* m/blocks*");
            mount.end();
            moments += 1;
        }
        println!("{format}: killed at {moments} moments, {found} durable files and blocks found again");
        assert!(found > 0, "{format}: nothing was durable");
    }
}

/// Returns the most memory that a process had in use so far, in kilobytes.
fn memory(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
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
