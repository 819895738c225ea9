//! mtools and dosfstools read what Platter writes, and Platter reads what they write.

use crate::common::{VOLUMES, Volume, open, tested};
use crate::judges::{ImageFile, fsck, run as tool};
use platter_device::{MemoryDevice, Sectors};
use platter_testing::model::judge::{Tree, assert_same, on_host, ours, without_leap_day_in_2100};
use platter_testing::model::{Clock, Operation, Random, Runner, generate, seed};
use platter_vfs::{Cursor, FileSystem, Kind, Names, Node};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, UNIX_EPOCH};

/// One volume of each kind.
const JUDGED: [Volume; 3] = [VOLUMES[0], VOLUMES[2], VOLUMES[5]];

/// A directory of the host that is removed when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("platter-interchange-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).expect("a writable temporary directory");
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// Returns everything in an image, as mtools reads it.
fn theirs(image: &ImageFile) -> Tree {
    let names: BTreeSet<String> = tool("mdir", &["-/", "-b", "-a", "-i", image.path(), "::/"])
        .lines()
        .map(|line| line.trim_start_matches("::").trim_end_matches('/').to_owned())
        .filter(|line| !line.is_empty())
        .collect();
    let target = Scratch::new();
    if !names.is_empty() {
        let target = target.0.to_str().expect("a path in UTF-8");
        tool("mcopy", &["-s", "-n", "-m", "-i", image.path(), "::*", target]);
    }
    let mut tree = on_host(&target.0);
    without_leap_day_in_2100(&mut tree);
    assert_eq!(names, tree.keys().cloned().collect(), "mdir and mcopy");
    tree
}

/// Carries out random operations; after every `step` of them, and at the end, mtools and fsck.fat read the volume.
fn judge(volume: Volume, seed: u64, count: usize, step: usize) {
    let device = volume.make();
    let clock = Clock::new(Duration::from_secs(1_700_000_000));
    let mut runner = Runner::new(tested(device.clone(), &clock), clock).unwrap();
    let mut files = 0;
    for (number, operation) in generate(seed, count, &volume.shape(60_000)).iter().enumerate() {
        // Operations are left out with names that the host cannot hold (not Unicode) or mtools cannot (beyond 16
        // bits, or with a leading space).
        let text = format!("{operation:?}");
        if !text.contains("units(") && !text.contains('😀') && !text.contains("named(\" ") {
            runner.step(operation).unwrap_or_else(|difference| panic!("seed {seed}, {number}: {difference}"));
        }
        if (number + 1) % step != 0 {
            continue;
        }
        // Unmounts, and runs fsck.fat.
        let what = format!("{volume:?} seed {seed}, after {number} operations");
        runner.step(&Operation::Remount).unwrap_or_else(|difference| panic!("{what}: {difference}"));
        let tree = ours(&**runner.system());
        let image = ImageFile::of(&*device);
        tool("minfo", &["-i", image.path(), "::"]);
        assert_same(&what, &tree, &theirs(&image));
        files += tree.values().flatten().count();
    }
    assert!(files > 5, "{volume:?} seed {seed}: hardly anything to judge");
}

#[test]
fn mtools_and_fsck_agree_after_random_operations() {
    for (number, volume) in JUDGED.into_iter().enumerate() {
        judge(volume, 8664 + number as u64, 5_000, 1_000);
    }
}

/// Run with `cargo test --release -p platterfs-fat --test suite interchange:: -- --ignored`; `PLATTER_SEED=n` selects
/// other operations.
#[test]
#[ignore = "a campaign: takes many minutes"]
fn mtools_and_fsck_agree_after_200_000_random_operations() {
    for (number, volume) in JUDGED.into_iter().enumerate() {
        judge(volume, seed() + number as u64, 200_000, 5_000);
        println!("{volume:?}: 200,000 operations");
    }
}

#[test]
fn what_others_write_reads_back_identically() {
    for (kind, kilobytes, cluster) in [("12", "1440", "1"), ("16", "20480", "2"), ("32", "65536", "1")] {
        let mut random = Random::new(8664);
        let source = Scratch::new();
        let mut directories = vec![source.0.clone()];
        for number in 0..60 {
            let base = directories[random.below(directories.len() as u64) as usize].clone();
            let name = match number % 4 {
                0 => format!("FILE{number}.TXT"),
                1 => format!("file{number}.dat"),
                2 => format!("A name with more than eight letters {number}.text"),
                _ => format!("Ünïcödé {number} имя"),
            };
            let path = base.join(name);
            if random.chance(20) {
                std::fs::create_dir(&path).unwrap();
                directories.push(path);
            } else {
                let mut content = vec![0; random.below(30_000) as usize];
                random.fill(&mut content);
                std::fs::write(&path, content).unwrap();
                let time = UNIX_EPOCH + Duration::from_secs(1_000_000_000 + 2 * random.below(100_000_000));
                std::fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
            }
        }
        let file = ImageFile::new(&[]);
        std::fs::remove_file(file.path()).unwrap();
        tool("mkfs.fat", &["-F", kind, "-s", cluster, "-C", file.path(), kilobytes]);
        for entry in std::fs::read_dir(&source.0).unwrap() {
            let entry = entry.unwrap().path();
            tool("mcopy", &["-s", "-m", "-i", file.path(), entry.to_str().unwrap(), "::"]);
        }
        let device = Arc::new(MemoryDevice::from_image(&file.bytes(), Sectors::SMALL));
        let system = open(device.clone());
        assert_same(&format!("FAT{kind}"), &ours(&system), &on_host(&source.0));
        // fsck.fat accepts the volume after Platter has changed it.
        let moved = system.create(Node::ROOT, &"moved here".into(), Kind::Directory).unwrap();
        let mut entries = Vec::new();
        system.read_directory(Node::ROOT, Cursor::START, 1000, &mut entries).unwrap();
        for entry in entries.iter().filter(|entry| entry.name != "moved here".into()) {
            let replace = platter_vfs::RenameFlags::Replace;
            system.rename(Node::ROOT, &entry.name, moved, &entry.name, replace).unwrap();
        }
        system.unmount().unwrap();
        let changed = ImageFile::of(&*device);
        let verdict = fsck(&changed);
        assert!(verdict.clean, "FAT{kind}: {}", verdict.output);
        assert_same(&format!("FAT{kind}, moved"), &ours(&open(device)), &theirs(&changed));
    }
}
