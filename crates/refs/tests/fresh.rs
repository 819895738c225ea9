//! Data that was replaced before a commit referred to it takes no room where room is short: its clusters are free at once.

use crate::common::{BYTES, VOLUMES, Volume, check_clean, content, open};
use platter_device::{Device, MemoryDevice, Recorder};
use platter_refs::RefsVolume;
use platter_testing::model::Random;
use platter_vfs::{FileSystem, Kind, Names, Node, OpenOptions, SyncScope};
use std::sync::Arc;

const SIZE: usize = 16 << 20;

/// The most flushes while a file is written over fifteen times or more. How many commits come depends on how the thread in the
/// background is scheduled: up to 8 flushes were seen, and 22 to 44 where all that is given up waits for a commit.
const MOST_FLUSHES: u64 = 12;

/// A file with integrity, made durable, on a volume that has room for little more than another one like it.
fn full_volume(kind: Volume) -> (Arc<Recorder>, RefsVolume, Node) {
    let recorder = Arc::new(Recorder::new(kind.make()));
    let volume = open(recorder.clone());
    let node = volume.create(Node::ROOT, &"file".into(), Kind::File).unwrap();
    volume.write(node, 0, &vec![1; SIZE]).unwrap();
    let rest = volume.create(Node::ROOT, &"rest".into(), Kind::File).unwrap();
    let space = volume.space().unwrap();
    let left = (space.free * space.cluster).saturating_sub(5 * SIZE as u64 / 2);
    assert!(left > 4 * SIZE as u64 && left < BYTES, "the other file takes most of the volume: {left}");
    (0..left >> 20).for_each(|at| volume.write(rest, at << 20, &vec![2; 1 << 20]).unwrap());
    volume.sync_all().unwrap();
    (recorder, volume, node)
}

/// Ends the volume, and looks at the content on the device.
fn ended(recorder: &Arc<Recorder>, volume: RefsVolume, expected: &[u8]) {
    volume.unmount().unwrap();
    check_clean(&**recorder).unwrap();
    let again = open(recorder.clone());
    let node = again.lookup(Node::ROOT, &"file".into()).unwrap();
    let mut found = vec![0; SIZE];
    assert_eq!(again.read(node, 0, &mut found).unwrap(), SIZE);
    assert!(found == expected, "the content is what was written last");
}

#[test]
fn a_full_volume_needs_no_commits_for_what_is_written_over_and_over() {
    for kind in [VOLUMES[1], VOLUMES[3]] {
        let (recorder, volume, node) = full_volume(kind);
        let before = recorder.traffic();
        let rounds = 20;
        let piece = 1 << 20;
        for round in 0..rounds {
            for at in (0..SIZE).step_by(piece) {
                volume.write(node, at as u64, &content(round * 100 + (at / piece) as u64, piece)).unwrap();
            }
        }
        let seen = recorder.traffic().since(&before);
        // Of what was committed, all must be kept until the next commit. Without the rest being free at once, each round would
        // need one.
        assert!(seen.flushes <= MOST_FLUSHES, "{kind:?}: {} flushes in {rounds} rounds", seen.flushes);
        let expected: Vec<u8> =
            (0..SIZE / piece).flat_map(|at| content((rounds - 1) * 100 + at as u64, piece)).collect();
        ended(&recorder, volume, &expected);
    }
}

#[test]
fn scattered_writes_take_no_room_either() {
    let kind = VOLUMES[1];
    let (recorder, volume, node) = full_volume(kind);
    let mut expected = vec![1; SIZE];
    let mut random = Random::new(8664);
    let before = recorder.traffic();
    let writes = 15 * SIZE / 4096;
    for count in 0..writes {
        let at = random.below(SIZE as u64 / 4096) as usize * 4096;
        let data = [count as u8; 4096];
        volume.write(node, at as u64, &data).unwrap();
        expected[at..at + 4096].copy_from_slice(&data);
    }
    let seen = recorder.traffic().since(&before);
    assert!(seen.flushes <= MOST_FLUSHES, "{} flushes in {writes} writes", seen.flushes);
    ended(&recorder, volume, &expected);
}

/// A file of which each cluster holds the number of its last write, many times.
struct Numbered {
    name: &'static str,
    node: Node,
    latest: Vec<u64>,
    durable: Vec<u64>,
}

impl Numbered {
    fn new(volume: &RefsVolume, name: &'static str, clusters: usize, cluster: usize) -> Numbered {
        let node = volume.create(Node::ROOT, &name.into(), Kind::File).unwrap();
        volume.write(node, 0, &vec![0; clusters * cluster]).unwrap();
        Numbered { name, node, latest: vec![0; clusters], durable: vec![0; clusters] }
    }

    fn write(&mut self, volume: &RefsVolume, at: usize, number: u64, cluster: usize) {
        volume.write(self.node, (at * cluster) as u64, &number.to_le_bytes().repeat(cluster / 8)).unwrap();
        self.latest[at] = number;
    }

    fn is_durable(&mut self) {
        self.durable.clone_from(&self.latest);
    }

    /// Checks what is on a device whose power failed.
    fn check(&self, cut: &RefsVolume, cluster: usize) {
        let node = cut.lookup(Node::ROOT, &self.name.into()).unwrap();
        let mut found = vec![0; self.latest.len() * cluster];
        cut.read(node, 0, &mut found).unwrap_or_else(|error| panic!("{}: {error}", self.name));
        for (at, bytes) in found.chunks(cluster).enumerate() {
            let number = u64::from_le_bytes(bytes[..8].try_into().unwrap());
            let expected = self.durable[at]..=self.latest[at];
            assert!(expected.contains(&number), "{}: cluster {at}: {number}, not {expected:?}", self.name);
            assert!(bytes == number.to_le_bytes().repeat(cluster / 8), "{}: cluster {at} is torn", self.name);
        }
    }
}

/// A volume with two numbered files of 4 MiB and 12 MiB left.
fn numbered(kind: Volume) -> (Arc<MemoryDevice>, RefsVolume, [Numbered; 2]) {
    let cluster = kind.cluster as usize;
    let device = kind.make();
    let volume = open(device.clone());
    let files = ["one", "other"].map(|name| Numbered::new(&volume, name, (4 << 20) / cluster, cluster));
    let rest = volume.create(Node::ROOT, &"rest".into(), Kind::File).unwrap();
    let space = volume.space().unwrap();
    let left = (space.free * space.cluster).saturating_sub(12 << 20) >> 20;
    (0..left).for_each(|at| volume.write(rest, at << 20, &vec![2; 1 << 20]).unwrap());
    volume.sync_all().unwrap();
    (device, volume, files)
}

/// Checks what would be on the device if the power failed now.
fn check_cut(device: &Arc<MemoryDevice>, files: &[Numbered], cluster: usize) {
    let options = OpenOptions { read_only: true, ..OpenOptions::default() };
    let cut = RefsVolume::open(device.clone() as Arc<dyn Device>, options).unwrap();
    files.iter().for_each(|file| file.check(&cut, cluster));
}

#[test]
fn what_an_entry_of_the_log_tells_of_is_kept() {
    for kind in [VOLUMES[1], VOLUMES[3]] {
        let cluster = kind.cluster as usize;
        let (device, volume, mut files) = numbered(kind);
        let clusters = files[0].latest.len() / 4;
        // The first sync makes the log, and so is a commit; the second one is an entry.
        for number in [1, 2] {
            (0..clusters).for_each(|at| files[0].write(&volume, at, number, cluster));
            volume.sync(files[0].node, SyncScope::Data).unwrap();
            files[0].is_durable();
        }
        // Room gets short, what the entry tells of is replaced, and then all that is free is written to.
        let whole = |file: &mut Numbered, number: u64, clusters: usize| {
            (0..clusters).for_each(|at| file.write(&volume, at, number, cluster));
        };
        let all = files[1].latest.len();
        whole(&mut files[1], 3, all);
        whole(&mut files[0], 3, clusters);
        for number in 4..9 {
            whole(&mut files[1], number, all);
            check_cut(&device, &files, cluster);
        }
        volume.unmount().unwrap();
        check_clean(&*device).unwrap();
    }
}

/// Syncs go to the log, or are commits; whichever it was, nothing durable is overwritten before the next one.
#[test]
fn nothing_durable_is_overwritten() {
    for kind in [VOLUMES[1], VOLUMES[3]] {
        let cluster = kind.cluster as usize;
        let (device, volume, mut files) = numbered(kind);
        let mut random = Random::new(8664);
        let mut number = 0;
        for round in 0..400 {
            for _ in 0..1 + random.below(40) {
                number += 1;
                let file = &mut files[random.below(2) as usize];
                let at = random.below(file.latest.len() as u64) as usize;
                file.write(&volume, at, number, cluster);
            }
            match random.below(10) {
                0..=2 => {
                    let file = &mut files[random.below(2) as usize];
                    volume.sync(file.node, SyncScope::Data).unwrap();
                    file.is_durable();
                }
                3 => {
                    volume.sync_all().unwrap();
                    files.iter_mut().for_each(Numbered::is_durable);
                }
                // From here on syncs are commits, until there was one.
                4 => {
                    volume.create(Node::ROOT, &format!("{round}").as_str().into(), Kind::File).unwrap();
                }
                _ => {}
            }
            if round % 4 == 0 {
                check_cut(&device, &files, cluster);
            }
        }
        volume.unmount().unwrap();
        check_clean(&*device).unwrap();
    }
}
