//! Writers that sync, and what of their data must be there after a mount came to an end, whatever ended it.

use super::content;
use super::mount::{Mount, Random, kill, mount_known, recover};
use super::volatile::Disk;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// The data that was durable when a mount came to its end.
#[derive(Default)]
pub(crate) struct Durable {
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

/// Has three writers work on a mount until `end`, which makes it fail, and returns what was durable by then.
pub(crate) fn write_until(mount: &Mount, seed: u64, end: impl FnOnce()) -> Vec<Durable> {
    thread::scope(|scope| {
        let noise = mount.noise(seed >> 32);
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                let at = mount.at("");
                scope.spawn(move || write_until_killed(&at, writer, seed ^ writer << 40))
            })
            .collect();
        end();
        noise.end();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    })
}

/// Finds what was durable on the mounted volume, removes it, and returns how many files and blocks it was.
pub(crate) fn find_again(mount: &Mount, durable: &[Durable], what: &str) -> u64 {
    let mut found = 0;
    for (writer, durable) in durable.iter().enumerate() {
        for (name, own) in &durable.files {
            let is = fs::read(mount.at(name)).unwrap_or_else(|error| panic!("{what}: {name}: {error}"));
            assert!(is == content(*own, FILE), "{what}: {name} is another");
        }
        let blocks = fs::read(mount.at(&format!("blocks {writer}"))).unwrap_or_default();
        for (index, (last, next)) in durable.blocks.iter().enumerate().filter(|(_, block)| block.0 > 0) {
            let is = blocks.get(index * BLOCK..(index + 1) * BLOCK).unwrap_or_default();
            // Each 512 bytes are either of the last durable content or of the content that was being written.
            let (old, new) = (content(*last, BLOCK), content(*next, BLOCK));
            let is_known = (0..BLOCK).step_by(512).all(|at| {
                let part = is.get(at..at + 512).unwrap_or_default();
                part == &old[at..at + 512] || part == &new[at..at + 512]
            });
            assert!(is_known, "{what}: block {index} of {writer} is another");
            found += 1;
        }
        found += durable.files.len() as u64;
    }
    mount.shell("rm -f m/file* m/draft* m/blocks*");
    found
}

/// Cuts the power of a mounted disk with a volatile cache once in each round, at a random moment. Returns the number of
/// rounds, and how many durable files and blocks were found again.
pub(crate) fn power_cuts(format: &str, rounds: impl Iterator<Item = Random>) -> (u64, u64) {
    let (mount, disk) = on_volatile_disk("power", format);
    let (mut moments, mut found) = (0, 0);
    for mut random in rounds {
        let (seed, moment) = (random.next(), 50 + random.below(950));
        let process = mount_known(&mount, &[]);
        let durable = write_until(&mount, seed, || {
            thread::sleep(Duration::from_millis(moment));
            disk.cut(&mut random);
            kill("-KILL", process);
        });
        disk.turn_on();
        recover(&mount);
        mount.mount("");
        found += find_again(&mount, &durable, &format!("{format}, seed {seed}, {moment} ms"));
        mount.end();
        moments += 1;
    }
    assert!(found > 0, "{format}: nothing was durable");
    (moments, found)
}

/// Makes a volume on a disk with a volatile cache. It is not mounted.
pub(crate) fn on_volatile_disk(test: &str, format: &str) -> (Mount, Disk) {
    let mut mount = Mount::new(test, format);
    mount.end();
    let place = mount.place.path("disk");
    fs::create_dir(&place).unwrap();
    let disk = Disk::serve(&mount.place.path("disk.img"), &place);
    mount.source = "disk/disk.img";
    (mount, disk)
}
