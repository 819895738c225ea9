//! Files that get more names, streams, attributes and content, on volumes that are full or whose free space lies in
//! single clusters: changes that are accepted are there after the volume is closed, and those that have no room are
//! refused and change nothing.

use crate::common::{USUAL, Volume, check_clean, open};
use crate::judges::{ImageFile, ntfsfix};
use platter_ntfs::NtfsVolume;
use platter_testing::model::Random;
use platter_vfs::{Change, FileSystem, Kind, Name, Names, Node, Result};
use std::collections::{BTreeMap, BTreeSet};

/// The names, streams and extended attributes that a file must have.
#[derive(Default)]
struct Expected {
    names: BTreeSet<String>,
    streams: BTreeMap<String, Vec<u8>>,
    attributes: BTreeMap<String, Vec<u8>>,
}

struct Run {
    volume: Volume,
    seed: u64,
    system: NtfsVolume,
    directory: Node,
    files: Vec<(Node, Expected)>,
    open: Vec<Node>,
    random: Random,
    made: u64,
    refused: u64,
}

/// Stands for the file's unnamed stream among the names of streams.
const OWN: &str = "";

impl Run {
    fn name(&mut self) -> String {
        let number = self.random.below(400);
        let length = [4, 30, 240][self.random.below(3) as usize];
        format!("{number:03}{}", "n".repeat(length))
    }

    fn node(&mut self, file: usize, stream: &str, create: bool) -> Result<Node> {
        match stream {
            OWN => Ok(self.files[file].0),
            name => self
                .system
                .streams()
                .and_then(|part| part.open(self.files[file].0, &Name::from(name), create)),
        }
    }

    fn let_go(&mut self, node: Node, stream: &str) {
        if stream == OWN {
            return;
        }
        match self.random.below(4) == 0 && self.open.len() < 200 {
            true => self.open.push(node),
            false => self.system.forget(node, 1),
        }
    }

    fn step(&mut self) -> Result<()> {
        let file = self.random.below(self.files.len() as u64) as usize;
        let known: Vec<String> = self.files[file].1.streams.keys().cloned().collect();
        let some = known[self.random.below(known.len() as u64) as usize].clone();
        match self.random.below(100) {
            // From here on streams are made, written, punched, cut off, and removed.
            0..25 => {
                let name = self.name();
                let node = self.node(file, &name, true)?;
                self.files[file].1.streams.entry(name.clone()).or_default();
                self.let_go(node, &name);
            }
            25..45 => {
                let node = self.node(file, &some, false)?;
                let (at, most) = match self.random.below(4) {
                    0 => (self.random.below(200_000), 20_000),
                    _ => (self.random.below(600), 3_000),
                };
                let (length, byte) = (self.random.below(most) + 1, self.random.below(255) as u8 + 1);
                let data = vec![byte; length as usize];
                let outcome = self.system.write(node, at, &data);
                self.let_go(node, &some);
                outcome?;
                let content = self.files[file].1.streams.get_mut(&some).unwrap();
                content.resize(content.len().max((at + length) as usize), 0);
                content[at as usize..(at + length) as usize].copy_from_slice(&data);
            }
            45..52 => {
                let node = self.node(file, &some, false)?;
                let length = self.files[file].1.streams[&some].len() as u64;
                let (from, to) = (self.random.below(length + 1), self.random.below(length + 1));
                let range = from.min(to)..from.max(to) + 1;
                let outcome = self.system.punch(node, range.clone());
                self.let_go(node, &some);
                outcome?;
                let content = self.files[file].1.streams.get_mut(&some).unwrap();
                let end = content.len();
                content[(range.start as usize).min(end)..(range.end as usize).min(end)].fill(0);
            }
            52..58 => {
                let node = self.node(file, &some, false)?;
                let size = self.random.below(4_000);
                let change = Change { size: Some(size), ..Change::default() };
                let outcome = self.system.set_attributes(node, &change);
                self.let_go(node, &some);
                outcome?;
                self.files[file].1.streams.get_mut(&some).unwrap().resize(size as usize, 0);
            }
            58..64 if some != OWN => {
                self.system.streams()?.remove(self.files[file].0, &Name::from(&*some))?;
                self.files[file].1.streams.remove(&some);
            }
            64..80 => {
                let name = self.name();
                if self.files.iter().all(|(_, expected)| !expected.names.contains(&name)) {
                    self.system.link(self.files[file].0, self.directory, &Name::from(&*name))?;
                    self.files[file].1.names.insert(name);
                }
            }
            80..86 => {
                let names = &self.files[file].1.names;
                if names.len() > 1 {
                    let name = names.iter().nth(self.random.below(names.len() as u64) as usize).unwrap();
                    let name = name.clone();
                    self.system.unlink(self.directory, &Name::from(&*name))?;
                    self.files[file].1.names.remove(&name);
                }
            }
            86..93 => {
                let name = format!("EA{}", self.random.below(8));
                let value = vec![7; self.random.below(2_000) as usize];
                self.system.extended_attributes()?.set(self.files[file].0, &name, Some(&value))?;
                self.files[file].1.attributes.insert(name, value);
            }
            93..96 => {
                for node in std::mem::take(&mut self.open) {
                    self.system.forget(node, 1);
                }
            }
            _ => self.system.sync_all().unwrap_or_else(|error| {
                panic!("{:?} seed {} after {}: sync: {error}", self.volume, self.seed, self.made)
            }),
        }
        Ok(())
    }

    fn compare(&self, system: &NtfsVolume) {
        let what = format!("{:?} seed {}", self.volume, self.seed);
        let directory = system.lookup(Node::ROOT, &"names".into()).unwrap();
        for (_, expected) in &self.files {
            let first = expected.names.first().unwrap();
            let file = system.lookup(directory, &Name::from(&**first)).unwrap();
            for name in &expected.names {
                let node = system.lookup(directory, &Name::from(&**name));
                assert_eq!(node.unwrap_or_else(|error| panic!("{what}: {name}: {error}")), file, "{what}");
            }
            let streams = system
                .streams()
                .and_then(|part| part.list(file))
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(streams.len(), expected.streams.len() - 1, "{what}");
            for (name, content) in &expected.streams {
                let node = match &**name {
                    OWN => file,
                    name => system.streams().unwrap().open(file, &Name::from(name), false).unwrap(),
                };
                let mut found = vec![0; content.len() + 10];
                let length = system.read(node, 0, &mut found).unwrap();
                let differs = found.iter().zip(content).position(|(found, expected)| found != expected);
                assert_eq!((length, differs), (content.len(), None), "{what}: {name}");
            }
            for (name, value) in &expected.attributes {
                assert_eq!(system.extended_attributes().unwrap().get(file, name).unwrap(), *value, "{what}");
            }
        }
    }
}

/// Takes all clusters but about `left`; if `is_scattered`, leaves free space in single clusters.
fn fill(system: &NtfsVolume, is_scattered: bool, left: u64) {
    let space = system.space().unwrap();
    let directory = system.create(Node::ROOT, &"fill".into(), Kind::Directory).unwrap();
    let mut length = 64;
    for number in 0.. {
        let file = system.create(directory, &Name::from(&*format!("{number}")), Kind::File);
        let Ok(file) = file else { break };
        while length > 0 && system.allocate(file, 0..length * space.cluster, false).is_err() {
            length /= 2;
        }
        if is_scattered {
            for at in (0..length).step_by(2) {
                let _ = system.punch(file, at * space.cluster..(at + 1) * space.cluster);
            }
        }
        system.forget(file, 1);
        let free = system.space().unwrap().free;
        if length == 0 || !is_scattered && free < left || is_scattered && number * 32 > space.total / 2 {
            break;
        }
    }
    system.sync_all().unwrap();
}

fn run(volume: Volume, is_scattered: bool, left: u64, seed: u64, steps: u64) {
    let device = volume.make();
    let system = open(device.clone());
    let directory = system.create(Node::ROOT, &"names".into(), Kind::Directory).unwrap();
    fill(&system, is_scattered, left);
    let random = Random::new(seed);
    let mut run = Run {
        volume,
        seed,
        system,
        directory,
        files: Vec::new(),
        open: Vec::new(),
        random,
        made: 0,
        refused: 0,
    };
    for number in 0..3 {
        let name = format!("file {number}");
        let Ok(node) = run.system.create(directory, &Name::from(&*name), Kind::File) else { break };
        let mut expected = Expected { names: [name].into(), ..Expected::default() };
        expected.streams.insert(OWN.into(), Vec::new());
        run.files.push((node, expected));
    }
    if run.files.is_empty() {
        return;
    }
    for step in 0..steps {
        match run.step() {
            Ok(()) => run.made += 1,
            Err(error) if error.is_full() => run.refused += 1,
            Err(error) => panic!("{volume:?} seed {seed} step {step}: {error}"),
        }
        if step % (steps / 4) == steps / 4 - 1 {
            run.open.clear();
            run.system.unmount().unwrap_or_else(|error| panic!("{volume:?} seed {seed} {step}: {error}"));
            check_clean(&*device).unwrap_or_else(|fault| panic!("{volume:?} seed {seed} {step}: {fault}"));
            let system = open(device.clone());
            run.compare(&system);
            drop(system);
            run.system = open(device.clone());
            run.directory = run.system.lookup(Node::ROOT, &"names".into()).unwrap();
            for (node, expected) in &mut run.files {
                let first = Name::from(&**expected.names.first().unwrap());
                *node = run.system.lookup(run.directory, &first).unwrap();
            }
        }
    }
    let verdict = ntfsfix(&ImageFile::of(&*device));
    assert!(verdict.clean, "{volume:?} seed {seed}: {}", verdict.output);
    println!("{volume:?} {is_scattered} {left} seed {seed}: {} made, {} refused", run.made, run.refused);
}

fn runs(seeds: std::ops::Range<u64>, steps: u64) {
    for seed in seeds {
        for cluster in [512, 1024, 4096, 65536] {
            let bytes = if cluster == 65536 { 24 << 20 } else { 8 << 20 };
            let volume = Volume { cluster, bytes, ..USUAL };
            run(volume, true, 0, seed, steps);
            for left in [10, 60, 400] {
                run(volume, false, left, seed, steps);
            }
        }
    }
}

#[test]
fn what_grows_on_full_and_scattered_volumes_stays_whole() {
    runs(1..2, 400);
}

/// Run with `cargo test --release -p platterfs-ntfs --test suite grown:: -- --ignored --nocapture`.
#[test]
#[ignore = "a campaign: takes many minutes"]
fn what_grows_stays_whole_after_many_operations() {
    let seed = std::env::var("PLATTER_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(100);
    runs(seed..seed + 40, 5_000);
}
