//! Tests of what Windows makes of Platter's own snapshots: a reader that takes what a version has no row for from the
//! newest version before it, whatever their sizes say, sees the content that Platter has.

use super::runs::bytes;
use super::*;
use crate::extents::{Extent, Extents};
use crate::layout::attribute::{COUNTER, LIVE};
use crate::layout::stream::{extents, extents_area, version_number};
use platter_device::Device;
use platter_testing::model::Random;
use platter_vfs::SyncScope;
use std::collections::BTreeMap;

const CLUSTER: usize = 4096;
/// The clusters that the file has at most.
const CLUSTERS: u64 = 20;

/// The versions of a file's data, the oldest first and the live one last, with their sizes and rows.
fn versions(volume: &RefsVolume, called: &str) -> Vec<(usize, Vec<Extent>)> {
    let mut core = volume.core();
    let row = key::name(key::LONG, name(called).units());
    let (tree, pages) = core.tree(ROOT_DIRECTORY).unwrap();
    let value = tree.get(pages, &row, |row| row.value.to_vec()).unwrap().unwrap();
    let record = Record::from_bytes(&value, 0).unwrap();
    let is_version = |row: &&Attribute| row.kind() == DATA && version_number(row) != COUNTER;
    let rows = record.rows.iter().filter(is_version);
    let mut versions = BTreeMap::new();
    for row in rows {
        let (size, area) = (extents::SIZE.of(&row.value) as usize, extents_area(&row.value).unwrap());
        let mut runs = Extents::open(pages, ROOT_DIRECTORY, area, (0, 0)).unwrap();
        runs.load_range(pages, 0, u32::MAX).unwrap();
        let number = version_number(row);
        versions.insert((number == LIVE, number), (size, runs.rows().collect()));
    }
    versions.into_values().collect()
}

/// The content of each version as such a reader finds it.
fn as_windows_reads(
    device: &MemoryDevice,
    volume: &RefsVolume,
    versions: &[(usize, Vec<Extent>)],
) -> Vec<Vec<u8>> {
    let core = volume.core();
    let geometry = core.geometry();
    let mut places: Vec<Option<u64>> = Vec::new();
    let mut all = Vec::new();
    for (size, rows) in versions {
        for row in rows {
            places.resize(places.len().max((row.at + row.count) as usize), None);
            for at in 0..row.count {
                places[(row.at + at) as usize] = (!row.is_hole()).then_some(row.cluster + u64::from(at));
            }
        }
        let mut content = vec![0; size.next_multiple_of(CLUSTER)];
        for (block, place) in content.chunks_mut(CLUSTER).zip(&places) {
            if let Some(cluster) = place {
                let real = core.pages.map.real(geometry, *cluster, 1).unwrap();
                device.read_at(geometry.offset(real), block).unwrap();
            }
        }
        content.truncate(*size);
        all.push(content);
    }
    all
}

/// A file of the test, and the content that each of its versions must have; the live one is the last.
struct Subject {
    node: Node,
    wanted: Vec<Vec<u8>>,
}

impl Subject {
    fn live(&mut self) -> &mut Vec<u8> {
        self.wanted.last_mut().unwrap()
    }

    fn resize(&mut self, volume: &RefsVolume, size: u64) {
        let change = platter_vfs::Change { size: Some(size), ..Default::default() };
        volume.set_attributes(self.node, &change).unwrap();
        self.live().resize(size as usize, 0);
    }

    fn write(&mut self, volume: &RefsVolume, offset: u64, data: &[u8]) {
        volume.write(self.node, offset, data).unwrap();
        let end = offset as usize + data.len();
        let live = self.live();
        live.resize(live.len().max(end), 0);
        live[offset as usize..end].copy_from_slice(data);
    }

    fn punch(&mut self, volume: &RefsVolume, from: u64, to: u64) {
        volume.punch(self.node, from..to).unwrap();
        let live = self.live();
        let to = live.len().min(to as usize);
        live.get_mut(from as usize..to).into_iter().for_each(|part| part.fill(0));
    }

    fn keep(&mut self, volume: &RefsVolume) {
        let called = format!("kept{}", self.wanted.len());
        volume.snapshots().unwrap().create(self.node, &name(&called)).unwrap();
        let live = self.live().clone();
        self.wanted.push(live);
    }

    fn verify(&mut self, device: &Arc<MemoryDevice>, what: &str) {
        let volume = open(device);
        let found = versions(&volume, "f");
        let seen = as_windows_reads(device, &volume, &found);
        assert_eq!(seen.len(), self.wanted.len(), "{what}");
        for (index, (seen, wanted)) in seen.iter().zip(&self.wanted).enumerate() {
            assert_eq!(seen.len(), wanted.len(), "{what}: size of version {index}");
            let other = seen.iter().zip(wanted).position(|(seen, wanted)| seen != wanted);
            assert_eq!(other, None, "{what}: version {index} of {found:?}");
        }
        volume.unmount().unwrap();
        checked(device, &[]);
    }
}

/// Makes a file with random content and one snapshot.
fn kept_once(device: &Arc<MemoryDevice>, integrity: bool) -> Subject {
    let volume = open(device);
    let node = file(&volume, "f", b"");
    if integrity {
        let on = platter_vfs::Integrity { enabled: true, enforced: true };
        volume.integrity().unwrap().set(node, on).unwrap();
    }
    let mut subject = Subject { node, wanted: vec![Vec::new()] };
    subject.write(&volume, 0, &bytes(1, 16));
    subject.keep(&volume);
    volume.forget(node, 1);
    volume.unmount().unwrap();
    subject
}

/// Opens the volume, changes the file, and verifies what is on disk then.
fn changed(
    device: &Arc<MemoryDevice>,
    subject: &mut Subject,
    what: &str,
    with: impl FnOnce(&mut Subject, &RefsVolume),
) {
    let volume = open(device);
    subject.node = volume.lookup(Node::ROOT, &name("f")).unwrap();
    with(subject, &volume);
    volume.forget(subject.node, 1);
    volume.unmount().unwrap();
    subject.verify(device, what);
}

#[test]
fn each_way_to_a_hole_hides_the_clusters_of_a_snapshot() {
    let cluster = CLUSTER as u64;
    for integrity in [false, true] {
        let device = made();
        let mut file = kept_once(&device, integrity);
        changed(&device, &mut file, "punched", |file, volume| file.punch(volume, 2 * cluster, 5 * cluster));
        changed(&device, &mut file, "written in the hole", |file, volume| {
            file.write(volume, 3 * cluster, &[7; CLUSTER]);
        });
        changed(&device, &mut file, "made shorter", |file, volume| file.resize(volume, 7 * cluster + 100));
        changed(&device, &mut file, "made longer", |file, volume| file.resize(volume, 10 * cluster + 1));
        changed(&device, &mut file, "written past the end", |file, volume| {
            file.write(volume, 12 * cluster, &[8; CLUSTER]);
        });
        changed(&device, &mut file, "kept again", |file, volume| file.keep(volume));
        changed(&device, &mut file, "emptied and written far out", |file, volume| {
            file.resize(volume, 0);
            file.write(volume, 15 * cluster + 5, b"end");
        });
    }
}

#[test]
fn whatever_is_done_to_a_file_with_snapshots_windows_sees_what_platter_has() {
    for seed in 0..24 {
        let mut random = Random::new(seed);
        let device = made();
        let mut subject = kept_once(&device, seed % 2 == 1);
        for round in 0..6 {
            let what = format!("seed {seed}, round {round}");
            changed(&device, &mut subject, &what, |subject, volume| {
                for _ in 0..1 + random.below(4) {
                    let at = random.below(CLUSTERS * CLUSTER as u64 - 2 * CLUSTER as u64);
                    let whole = at / CLUSTER as u64 * CLUSTER as u64;
                    match random.below(8) {
                        0 | 1 => subject.punch(volume, whole, whole + CLUSTER as u64 * (1 + random.below(5))),
                        2 => subject.punch(volume, at, at + 1 + random.below(20_000)),
                        3 => subject.resize(volume, at),
                        4 => subject.write(volume, at, &random.bytes(3000)),
                        5 => subject.write(volume, whole, &random.bytes(2 * CLUSTER)),
                        6 => subject.resize(volume, whole),
                        _ if subject.wanted.len() < 4 => subject.keep(volume),
                        _ => volume.sync(subject.node, SyncScope::All).unwrap(),
                    }
                }
            });
        }
    }
}
