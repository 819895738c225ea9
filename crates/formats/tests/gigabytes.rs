//! Changes at random on volumes of gigabytes: long runs, runs in many parts, and clusters of many owners, which small volumes
//! have none of. Memory is taken only for what is written. After each round the volume is checked, its data verified,
//! and every file compared with what was written.

use platter_device::{Device, MemoryDevice, Sectors};
use platter_formats::by_name;
use platter_testing::model::{Random, seed};
use platter_vfs::{
    Change, CheckOptions, Error, FileSystem, Format, FormatOptions, Kind, Name, Node, OpenOptions, Result,
    ScrubOptions, Silent,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The unit of changes and of the model: a multiple of every cluster size here.
const BLOCK: u64 = 64 << 10;

/// The formats, each with the size of its volume in GiB.
const VOLUMES: [(&str, u64); 6] =
    [("fat16", 2), ("fat32", 3), ("exfat", 8), ("ntfs", 8), ("refs", 8), ("refs+integrity", 4)];

/// The most files at a time, and the most bytes of one.
const FILES: usize = 12;
const LARGEST: u64 = 1 << 30;

/// What a file has: the mark of each block that is not zero, and the size in blocks.
#[derive(Clone, Default)]
struct File {
    marks: BTreeMap<u64, u32>,
    size: u64,
}

impl File {
    /// Cuts off or adds blocks at the end.
    fn resize(&mut self, size: u64) {
        drop(self.marks.split_off(&size));
        self.size = size;
    }

    /// Takes the blocks of a range away, and returns them with their places in it.
    fn take(&mut self, from: u64, count: u64) -> Vec<(u64, u32)> {
        let within: Vec<u64> = self.marks.range(from..from + count).map(|(&at, _)| at).collect();
        within.into_iter().map(|at| (at - from, self.marks.remove(&at).expect("seen just now"))).collect()
    }

    fn copy(&self, from: u64, count: u64) -> Vec<(u64, u32)> {
        self.marks.range(from..from + count).map(|(&at, &mark)| (at - from, mark)).collect()
    }
}

/// The bytes of a block with this mark; the mark 0 is none.
fn block(mark: u32) -> Vec<u8> {
    (0..BLOCK as u32 / 4)
        .flat_map(|at| at.wrapping_mul(0x9E37_79B9).wrapping_add(mark).to_le_bytes())
        .collect()
}

/// A volume, and what it should hold.
struct Volume {
    format: &'static dyn Format,
    device: Arc<dyn Device>,
    system: Arc<dyn FileSystem>,
    files: BTreeMap<String, File>,
    /// Snapshots, by the name of the file and their own.
    kept: BTreeMap<(String, String), File>,
    random: Random,
    last: u32,
    largest: u64,
}

impl Volume {
    fn new(name: &'static str, gib: u64, seed: u64) -> Volume {
        let format = by_name(name).expect("registered");
        let device: Arc<dyn Device> = Arc::new(MemoryDevice::new(gib << 30, Sectors::SMALL));
        format.make(&*device, &FormatOptions::default(), &Silent).expect("a new volume");
        let system = format.open(device.clone(), OpenOptions::default()).expect("the volume just made");
        let (files, kept) = Default::default();
        let largest = LARGEST.min(gib << 28) / BLOCK;
        Volume { format, device, system, files, kept, random: Random::new(seed), last: 0, largest }
    }

    fn mark(&mut self) -> u32 {
        self.last += 1;
        self.last
    }

    fn node(&self, name: &str) -> Result<Node> {
        self.system.lookup(Node::ROOT, &Name::from(name))
    }

    /// A length in blocks: mostly short, at times very long.
    fn length(&mut self) -> u64 {
        let most = *self.random.pick(&[1, 2, 8, 40, 40, self.largest / 4, self.largest]);
        1 + self.random.below(most)
    }

    fn any(&mut self) -> Option<String> {
        let names: Vec<&String> = self.files.keys().collect();
        (!names.is_empty()).then(|| (*self.random.pick(&names)).clone())
    }

    /// Carries out one change. What the format does not have, or has no room for, changes nothing.
    fn change(&mut self) -> Result<()> {
        if self.files.len() < 3 || self.files.len() < FILES && self.random.chance(10) {
            let name = format!("file {}", self.mark());
            let node = self.system.create(Node::ROOT, &Name::from(&*name), Kind::File)?;
            self.system.forget(node, 1);
            self.files.insert(name, File::default());
            return Ok(());
        }
        let Some(name) = self.any() else { return Ok(()) };
        let node = self.node(&name)?;
        let done = self.change_file(&name, node);
        self.system.forget(node, 1);
        done
    }

    fn change_file(&mut self, name: &str, node: Node) -> Result<()> {
        let size = self.files[name].size;
        let bytes = |blocks: u64| blocks * BLOCK;
        let (length, from) = (self.length(), self.random.below(size + 1));
        match self.random.below(20) {
            // Writes of a few blocks, one by one: files that are written in turns lie in many parts.
            0..=8 => {
                let end = (from + length.min(24)).min(self.largest);
                for at in from..end {
                    let mark = self.mark();
                    self.system.write(node, bytes(at), &block(mark))?;
                    let file = self.files.get_mut(name).expect("it is there");
                    file.marks.insert(at, mark);
                    file.size = file.size.max(at + 1);
                }
            }
            9 | 10 => {
                let end = (from + length).min(self.largest);
                let keep = self.random.chance(50);
                if end > from {
                    self.system.allocate(node, bytes(from)..bytes(end), keep)?;
                    let file = self.files.get_mut(name).expect("it is there");
                    file.size = if keep { file.size } else { file.size.max(end) };
                }
            }
            11 | 12 => {
                let count = length.min(size.saturating_sub(from));
                if count > 0 {
                    self.system.punch(node, bytes(from)..bytes(from + count))?;
                    self.files.get_mut(name).expect("it is there").take(from, count);
                }
            }
            13..=16 => {
                let Some(other) = self.any() else { return Ok(()) };
                let count = length.min(size.saturating_sub(from));
                let to =
                    self.random.below(self.files[&other].size + 1).min(self.largest.saturating_sub(count));
                let is_apart = other != name || to + count <= from || from + count <= to;
                if count > 0 && is_apart && to <= self.files[&other].size {
                    let target = self.node(&other)?;
                    let done = self.system.clone_range(node, bytes(from), target, bytes(to), bytes(count));
                    self.system.forget(target, 1);
                    done?;
                    let marks = self.files[name].copy(from, count);
                    let file = self.files.get_mut(&other).expect("it is there");
                    file.take(to, count);
                    file.marks.extend(marks.into_iter().map(|(at, mark)| (to + at, mark)));
                    file.size = file.size.max(to + count);
                }
            }
            17 => {
                let blocks = if self.random.chance(60) { from } else { (size + length).min(self.largest) };
                let change = Change { size: Some(bytes(blocks)), ..Change::default() };
                self.system.set_attributes(node, &change)?;
                self.files.get_mut(name).expect("it is there").resize(blocks);
            }
            18 => {
                let of_file: Vec<String> =
                    self.kept.keys().filter(|(file, _)| file == name).map(|(_, kept)| kept.clone()).collect();
                if let [first, .., _] = &of_file[..] {
                    self.system.snapshots()?.remove(node, &Name::from(&**first))?;
                    self.kept.remove(&(name.to_owned(), first.clone()));
                } else {
                    let kept = format!("kept {}", self.mark());
                    self.system.snapshots()?.create(node, &Name::from(&*kept))?;
                    self.kept.insert((name.to_owned(), kept), self.files[name].clone());
                }
            }
            _ => {
                self.system.unlink(Node::ROOT, &Name::from(name))?;
                self.files.remove(name);
                self.kept.retain(|(file, _), _| file != name);
            }
        }
        Ok(())
    }

    /// Whether an error of a change says that it was refused, and no more.
    fn is_refusal(error: &Error) -> bool {
        matches!(
            error,
            Error::NoSpace | Error::Unsupported { .. } | Error::FileTooLarge { .. } | Error::NotPermitted(_)
        )
    }

    /// Compares every file and snapshot with what was written.
    fn compare(&self) {
        let mut found = vec![0; BLOCK as usize];
        let same = |node: Node, file: &File, name: &str, found: &mut Vec<u8>| {
            let size = self.system.attributes(node).expect("attributes").size;
            assert_eq!(size, file.size * BLOCK, "{name}");
            for (&at, &mark) in &file.marks {
                let read = self.system.read(node, at * BLOCK, found).expect("content");
                assert!(read == found.len() && *found == block(mark), "{name}, block {at} of mark {mark}");
            }
            // Of the zeroes some hundred blocks are enough.
            let step = (file.size / 200).max(1);
            for at in (0..file.size).step_by(step as usize).filter(|at| !file.marks.contains_key(at)) {
                self.system.read(node, at * BLOCK, found).expect("content");
                assert!(found.iter().all(|&byte| byte == 0), "{name}, block {at} of zeroes");
            }
        };
        for (name, file) in &self.files {
            let node = self.node(name).expect("the name is there");
            same(node, file, name, &mut found);
            self.system.forget(node, 1);
        }
        for ((name, kept), file) in &self.kept {
            let node = self.node(name).expect("the name is there");
            let part = self
                .system
                .streams()
                .expect("the snapshot is there")
                .open(node, &Name::from(&**kept), false)
                .expect("the snapshot is there");
            same(part, file, &format!("{name}:{kept}"), &mut found);
            for node in [part, node] {
                self.system.forget(node, 1);
            }
        }
    }

    /// Unmounts, checks the volume and its data, opens it again and compares.
    fn judge(&mut self) {
        self.system.unmount().expect("an unmount");
        let report = self.format.check(&*self.device, CheckOptions::default(), &Silent).expect("a check");
        assert!(report.is_clean(), "{:#?}", &report.findings[..report.findings.len().min(9)]);
        match self.format.scrub(self.device.clone(), &ScrubOptions::default(), &Silent) {
            Ok(scrub) => assert!(scrub.damaged.is_empty(), "{:#?}", scrub.damaged),
            Err(error) => assert!(matches!(error, Error::Unsupported { .. }), "{error:?}"),
        }
        self.system = self.format.open(self.device.clone(), OpenOptions::default()).expect("the volume");
        self.compare();
    }
}

/// Makes `rounds` times 60 changes of one volume.
fn run(name: &'static str, gib: u64, seed: u64, rounds: u64) {
    println!("{name}, {gib} GiB, seed {seed}, {rounds} rounds");
    let mut volume = Volume::new(name, gib, seed);
    let mut refused = 0;
    for _ in 0..rounds {
        for _ in 0..60 {
            match volume.change() {
                Ok(()) => {}
                Err(error) if Volume::is_refusal(&error) => refused += 1,
                Err(error) => panic!("{name}, seed {seed}: {error:?}"),
            }
        }
        volume.compare();
        volume.judge();
    }
    println!(
        "{name}: {} files, {} snapshots, {refused} changes refused",
        volume.files.len(),
        volume.kept.len()
    );
}

#[test]
fn long_runs_with_many_owners_stay_whole() {
    for (name, gib) in VOLUMES {
        run(name, gib, 1, 1);
    }
}

/// `cargo test --release -p platterfs-formats --test gigabytes -- --ignored --nocapture`: `PLATTER_SEED` for others,
/// `PLATTER_FORMAT` for one format, and `PLATTER_COUNT` for the number of rounds on each volume.
#[test]
#[ignore = "a campaign: 40 rounds on each of 8 volumes of each format"]
fn volumes_of_gigabytes_stay_whole() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    let only = std::env::var("PLATTER_FORMAT").ok();
    let (first, rounds) = (seed() * 1000, number("PLATTER_COUNT").unwrap_or(40));
    for (name, gib) in
        VOLUMES.into_iter().filter(|(name, _)| only.as_deref().is_none_or(|only| only == *name))
    {
        for seed in first..first + 8 {
            run(name, gib, seed, rounds);
        }
    }
}
