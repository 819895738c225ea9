//! Tests of rows of runs that Windows writes and Platter does not: holes, runs with other flags, and rows with the
//! checksums of several clusters.

use super::*;
use platter_testing::model::Random;
use platter_vfs::{Integrity, Names, Place};

const CLUSTER: usize = 4096;

/// A row of runs, as it stands on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RawRun {
    pub cluster: u64,
    pub flags: u16,
    pub at: u32,
    pub count: u32,
    pub sums: Vec<u32>,
}

/// The rows of the runs in a record whose runs stand in it, in the order of their places in the file.
fn rows_in(value: &[u8]) -> Vec<RawRun> {
    let node = &value[0x88..];
    let (index, count) = (u32_at(node, 0x10) as usize, u32_at(node, 0x14) as usize);
    let row = |position: usize| {
        let at = u32_at(node, index + 4 * position) as usize & 0xFFFF;
        let (size, flags) = (u32_at(node, at + 8) as usize >> 16, u32_at(node, at + 8) as u16);
        let sums = (24..size).step_by(4).map(|sum| u32_at(node, at + sum)).collect();
        let (cluster, place) = (u64_at(node, at), u32_at(node, at + 12));
        RawRun { cluster, flags, at: place, count: u32_at(node, at + 20), sums }
    };
    let mut rows: Vec<RawRun> = (0..count).map(row).collect();
    rows.sort_by_key(|row| row.at);
    rows
}

/// Puts these rows in the place of those in an attribute.
pub(super) fn put_rows(attribute: &mut Attribute, rows: &[RawRun]) {
    let value = &mut attribute.value;
    let size = |row: &RawRun| 24 + 4 * row.sums.len();
    let bytes: usize = rows.iter().map(|row| size(row).next_multiple_of(8) + 4).sum();
    value.truncate(0x88);
    value.resize(0x88 + (0x28 + bytes).next_multiple_of(8).max(0x70), 0);
    put(value, 0x20, rows.len() as u64);
    let node = &mut value[0x88..];
    TreeNodeMut::fresh(node, 0, 0x0E);
    let index = node.len() - 4 * rows.len();
    let mut at = 0x28;
    for (position, row) in rows.iter().enumerate() {
        put(node, at, row.cluster);
        put(node, at + 8, row.flags);
        put(node, at + 10, size(row) as u16);
        put(node, at + 12, row.at);
        put(node, at + 20, row.count);
        row.sums.iter().enumerate().for_each(|(sum, word)| put(node, at + 24 + 4 * sum, *word));
        put(node, index + 4 * position, at as u16);
        put(node, index + 4 * position + 2, row.at.min(0xFFFF) as u16);
        at += size(row).next_multiple_of(8);
    }
    put(node, 0x04, at as u32);
    put(node, 0x08, (index - at) as u32);
    put(node, 0x10, index as u32);
    put(node, 0x14, rows.len() as u32);
    let length = value.len() as u64;
    put(&mut attribute.key, 0, length);
}

/// Changes the rows of a file's runs on disk.
pub(super) fn change_rows(device: &Arc<MemoryDevice>, called: &str, with: impl FnOnce(&mut Vec<RawRun>)) {
    change(device, called, |_, record| {
        let row = record.rows.iter_mut().find(|row| row.flags & 1 != 0).unwrap();
        let mut rows = rows_in(&row.value);
        with(&mut rows);
        put_rows(row, &rows);
        None
    });
}

/// The rows of a file's runs on disk.
fn rows_of(device: &Arc<MemoryDevice>, called: &str) -> Vec<RawRun> {
    let volume = open(device);
    let mut core = volume.core();
    let row = key::name(key::LONG, name(called).units());
    let (tree, pages) = core.tree(ROOT_DIRECTORY).unwrap();
    let value = tree.get(pages, &row, |row| row.value.to_vec()).unwrap().unwrap();
    let record = Record::from_bytes(&value, 0).unwrap();
    rows_in(&record.rows.iter().find(|row| row.flags & 1 != 0).unwrap().value)
}

pub(super) fn bytes(seed: u64, clusters: usize) -> Vec<u8> {
    Random::new(seed).bytes(clusters * CLUSTER)
}

/// Makes a file of 40 clusters with holes from 10 to 20 and from 30 to 40, for which it has rows as Windows does.
pub(super) fn with_holes(flags: [u16; 2]) -> (Arc<MemoryDevice>, Vec<u8>) {
    let device = made();
    let mut wanted = bytes(1, 40);
    let volume = open(&device);
    let node = file(&volume, "sparse", &wanted);
    for range in [10..20, 30..40] {
        volume.punch(node, range.start * CLUSTER as u64..range.end * CLUSTER as u64).unwrap();
        wanted[range.start as usize * CLUSTER..range.end as usize * CLUSTER].fill(0);
    }
    volume.unmount().unwrap();
    change_rows(&device, "sparse", |rows| {
        for (at, flags) in [(10, flags[0]), (30, flags[1])] {
            rows.push(RawRun { cluster: 0, flags, at, count: 10, sums: Vec::new() });
        }
        rows.sort_by_key(|row| row.at);
    });
    (device, wanted)
}

fn resize(volume: &RefsVolume, node: Node, size: u64) {
    let change = platter_vfs::Change { size: Some(size), ..Default::default() };
    volume.set_attributes(node, &change).unwrap();
}

fn is_hole(row: &RawRun) -> bool {
    matches!(row.flags, 0x60 | 0x64)
}

#[test]
fn rows_of_holes_read_as_zeroes_and_stay() {
    for flags in [[0x60, 0x60], [0x64, 0x60], [0x60, 0x64]] {
        let (device, mut wanted) = with_holes(flags);
        checked(&device, &[]);
        let before = rows_of(&device, "sparse");
        assert_eq!(before.iter().filter(|row| is_hole(row)).count(), 2);
        let volume = open(&device);
        let node = volume.lookup(Node::ROOT, &name("sparse")).unwrap();
        assert_eq!(content(&volume, node).unwrap(), wanted);
        let holes: Vec<(u64, u64)> = volume
            .extents(node)
            .unwrap()
            .iter()
            .filter(|extent| extent.place == Place::Hole)
            .map(|extent| (extent.offset / CLUSTER as u64, extent.length / CLUSTER as u64))
            .collect();
        assert_eq!(holes, [(10, 10), (30, 10)]);
        // A change elsewhere in the file leaves them as they are.
        volume.write(node, 0, &bytes(2, 1)).unwrap();
        wanted[..CLUSTER].copy_from_slice(&bytes(2, 1));
        volume.extended_attributes().unwrap().set(node, "user.a", Some(b"b")).unwrap();
        volume.unmount().unwrap();
        checked(&device, &[]);
        let after = rows_of(&device, "sparse");
        let holes = |rows: &[RawRun]| rows.iter().filter(|row| is_hole(row)).cloned().collect::<Vec<_>>();
        assert_eq!(holes(&after), holes(&before));
        // Writes into a hole, and cuts through another.
        let volume = open(&device);
        let node = volume.lookup(Node::ROOT, &name("sparse")).unwrap();
        volume.write(node, 12 * CLUSTER as u64 + 100, &[7; 5000]).unwrap();
        wanted[12 * CLUSTER + 100..12 * CLUSTER + 5100].fill(7);
        resize(&volume, node, 35 * CLUSTER as u64);
        wanted.truncate(35 * CLUSTER);
        assert_eq!(content(&volume, node).unwrap(), wanted);
        volume.unmount().unwrap();
        checked(&device, &[]);
        let rows = rows_of(&device, "sparse");
        let holes: Vec<_> =
            rows.iter().filter(|row| is_hole(row)).map(|row| (row.at, row.count, row.flags)).collect();
        assert_eq!(holes, [(10, 2, flags[0]), (14, 6, flags[0]), (30, 5, flags[1])]);
        assert!(rows.iter().filter(|row| is_hole(row)).all(|row| row.cluster == 0));
        // Snapshots, clones and integrity.
        let volume = open(&device);
        let node = volume.lookup(Node::ROOT, &name("sparse")).unwrap();
        volume.snapshots().unwrap().create(node, &name("kept")).unwrap();
        volume.write(node, 31 * CLUSTER as u64, &[8; 10]).unwrap();
        let copy = volume.create(Node::ROOT, &name("copy"), Kind::File).unwrap();
        let length = 35 * CLUSTER as u64;
        volume.clone_range(node, 0, copy, 0, length).unwrap();
        let kept = volume.streams().unwrap().open(node, &name("kept"), false).unwrap();
        assert_eq!(content(&volume, kept).unwrap(), wanted);
        wanted[31 * CLUSTER..31 * CLUSTER + 10].fill(8);
        assert_eq!(content(&volume, copy).unwrap(), wanted);
        assert_eq!(content(&volume, node).unwrap(), wanted);
        volume.unmount().unwrap();
        checked(&device, &[]);
        let volume = open(&device);
        let node = volume.lookup(Node::ROOT, &name("copy")).unwrap();
        volume.integrity().unwrap().set(node, Integrity { enabled: true, enforced: true }).unwrap();
        assert_eq!(content(&volume, node).unwrap(), wanted);
        volume.unmount().unwrap();
        checked(&device, &[]);
        let volume = open(&device);
        volume.unlink(Node::ROOT, &name("sparse")).unwrap();
        volume.unlink(Node::ROOT, &name("copy")).unwrap();
        volume.unmount().unwrap();
        checked(&device, &[]);
    }
}

/// Random changes of a file with rows of holes, compared with a copy in memory.
#[test]
fn files_with_rows_of_holes_change_as_others_do() {
    for seed in 0..8 {
        let mut random = Random::new(seed);
        let (device, mut wanted) = with_holes([0x60, 0x64]);
        for _ in 0..6 {
            let volume = open(&device);
            let node = volume.lookup(Node::ROOT, &name("sparse")).unwrap();
            for _ in 0..5 {
                let at = random.below(50 * CLUSTER as u64);
                let length = 1 + random.below(6 * CLUSTER as u64);
                match random.below(4) {
                    0 | 1 => {
                        let data = random.bytes(length as usize);
                        volume.write(node, at, &data).unwrap();
                        wanted.resize(wanted.len().max((at + length) as usize), 0);
                        wanted[at as usize..][..length as usize].copy_from_slice(&data);
                    }
                    2 => {
                        resize(&volume, node, at);
                        wanted.resize(at as usize, 0);
                    }
                    _ => {
                        let end = (at + length).min(wanted.len() as u64);
                        if at < end {
                            volume.punch(node, at..end).unwrap();
                            wanted[at as usize..end as usize].fill(0);
                        }
                    }
                }
                assert_eq!(content(&volume, node).unwrap(), wanted, "seed {seed}");
            }
            volume.unmount().unwrap();
            checked(&device, &[]);
        }
    }
}

/// The flag 0x10 of runs stays with a file, whatever is done to it.
#[test]
fn the_flags_of_runs_are_kept() {
    let device = made();
    let volume = open(&device);
    file(&volume, "marked", &bytes(1, 40));
    volume.unmount().unwrap();
    change_rows(&device, "marked", |rows| rows.iter_mut().for_each(|row| row.flags = 0x50));
    checked(&device, &[]);
    type Change = fn(&RefsVolume, Node);
    let changes: [Change; 6] = [
        |volume, node| volume.write(node, 40 * CLUSTER as u64, &bytes(2, 7)).unwrap(),
        |volume, node| volume.write(node, 100, &[7; 9000]).unwrap(),
        |volume, node| volume.punch(node, 8 * CLUSTER as u64..12 * CLUSTER as u64).unwrap(),
        |volume, node| volume.write(node, 9 * CLUSTER as u64, &bytes(3, 1)).unwrap(),
        |volume, node| resize(volume, node, 30 * CLUSTER as u64 + 5),
        |volume, node| {
            volume.snapshots().unwrap().create(node, &name("kept")).unwrap();
            volume.write(node, 3 * CLUSTER as u64, &bytes(4, 2)).unwrap();
        },
    ];
    for change in changes {
        let volume = open(&device);
        let node = volume.lookup(Node::ROOT, &name("marked")).unwrap();
        change(&volume, node);
        // The first sync may go to the log of syncs, which keeps flags too.
        volume.sync(node, platter_vfs::SyncScope::All).unwrap();
        volume.unmount().unwrap();
        checked(&device, &[]);
        let rows = rows_of(&device, "marked");
        assert!(rows.iter().all(|row| row.flags == 0x50), "{rows:x?}");
    }
}

/// Rows of Windows that no source explains are named, and nothing else is said against the file.
#[test]
fn unexplained_flags_are_named() {
    for flags in [0x54, 0x850] {
        let device = made();
        let volume = open(&device);
        file(&volume, "odd", &bytes(1, 3));
        volume.unmount().unwrap();
        change_rows(&device, "odd", |rows| rows[0].flags = flags);
        checked(&device, &["run-kind"]);
        let report = Refs::ANY.check(&*device, CheckOptions::default(), &Silent).unwrap();
        assert!(report.is_clean(), "{:#?}", report.findings);
        let volume = open(&device);
        let found = volume.lookup(Node::ROOT, &name("odd")).and_then(|node| content(&volume, node));
        assert!(found.unwrap_err().to_string().contains(&format!("{flags:#x}")));
    }
}

/// Rows with the checksums of several clusters are read, verified, scrubbed and changed.
#[test]
fn rows_with_several_checksums() {
    let device = made();
    let volume = open(&device);
    let node = volume.create(Node::ROOT, &name("checked"), Kind::File).unwrap();
    volume.integrity().unwrap().set(node, Integrity { enabled: true, enforced: true }).unwrap();
    let mut wanted = bytes(1, 12);
    volume.write(node, 0, &wanted).unwrap();
    volume.unmount().unwrap();
    // One row of 7 clusters, the size of which is no multiple of 8, and one of 5.
    change_rows(&device, "checked", |rows| {
        assert!(rows.windows(2).all(|pair| pair[0].cluster + 1 == pair[1].cluster));
        let join = |rows: &[RawRun]| RawRun {
            count: rows.len() as u32,
            sums: rows.iter().map(|row| row.sums[0]).collect(),
            ..rows[0].clone()
        };
        *rows = vec![join(&rows[..7]), join(&rows[7..])];
    });
    checked(&device, &[]);
    let volume = open(&device);
    let node = volume.lookup(Node::ROOT, &name("checked")).unwrap();
    assert_eq!(content(&volume, node).unwrap(), wanted);
    volume.unmount().unwrap();
    assert_eq!(rows_of(&device, "checked").len(), 2, "what is only read stays");
    // Each cluster is verified by its own checksum.
    let first = rows_of(&device, "checked")[0].cluster;
    let place = {
        let volume = open(&device);
        let core = volume.core();
        core.pages.offset(crate::pages::Address { real: false, cluster: first }).unwrap()
    };
    let third = place + 3 * CLUSTER as u64;
    let mut cluster = vec![0; CLUSTER];
    platter_device::Device::read_at(&*device, third, &mut cluster).unwrap();
    cluster[99] ^= 1;
    platter_device::Device::write_at(&*device, third, &cluster).unwrap();
    let report = Refs::ANY.scrub(device.clone(), &ScrubOptions::default(), &Silent).unwrap();
    assert_eq!(report.damaged.len(), 1, "{:#?}", report.damaged);
    let volume = open(&device);
    let node = volume.lookup(Node::ROOT, &name("checked")).unwrap();
    assert!(matches!(content(&volume, node), Err(Error::Damaged(_))));
    // The damaged cluster and one of the other row are overwritten, and the file grows.
    for (at, count) in [(3, 1), (8, 2), (12, 3)] {
        let data = bytes(at as u64, count);
        volume.write(node, (at * CLUSTER) as u64, &data).unwrap();
        wanted.resize(wanted.len().max((at + count) * CLUSTER), 0);
        wanted[at * CLUSTER..][..count * CLUSTER].copy_from_slice(&data);
    }
    assert_eq!(content(&volume, node).unwrap(), wanted);
    volume.unmount().unwrap();
    checked(&device, &[]);
    let volume = open(&device);
    let node = volume.lookup(Node::ROOT, &name("checked")).unwrap();
    assert_eq!(content(&volume, node).unwrap(), wanted);
}

/// A row may have more checksums than a page has room for rows of one each.
#[test]
fn a_row_with_hundreds_of_checksums_becomes_pages() {
    let device = made();
    let volume = open(&device);
    let node = volume.create(Node::ROOT, &name("checked"), Kind::File).unwrap();
    volume.integrity().unwrap().set(node, Integrity { enabled: true, enforced: true }).unwrap();
    let wanted = bytes(1, 250);
    volume.write(node, 0, &wanted).unwrap();
    volume.unmount().unwrap();
    let all = {
        let volume = open(&device);
        let node = volume.lookup(Node::ROOT, &name("checked")).unwrap();
        let stream = volume.core().entity(node.0).unwrap().stream.clone().unwrap();
        let mut core = volume.core();
        let mut state = stream.write();
        let crate::stream::StreamContent::Extents(extents) = &mut state.content else { panic!("runs") };
        extents.load_range(&mut core.pages, 0, 250).unwrap();
        extents.iter().collect::<Vec<_>>()
    };
    assert!(all.windows(2).all(|pair| pair[0].cluster + 1 == pair[1].cluster));
    change(&device, "checked", |core, record| {
        let row = record.rows.iter_mut().find(|row| row.flags & 1 != 0).unwrap();
        // The leaf is freed, and all rows stand in the record as one.
        let node = TreeNode::new(&row.value[0x88..]);
        let leaf = crate::layout::PageReference::from_bytes(node.row(0).value, 0).unwrap();
        assert_eq!((node.level(), node.len()), (1, 1));
        core.pages.free(&leaf, Tier::Medium).unwrap();
        let sums = all.iter().map(|run| run.checksum().unwrap()).collect();
        let joined = RawRun { cluster: all[0].cluster, flags: 0xD0, at: 0, count: 250, sums };
        put_rows(row, &[joined]);
        put(&mut row.value, 0x18, 0u64);
        None
    });
    checked(&device, &[]);
    let volume = open(&device);
    let node = volume.lookup(Node::ROOT, &name("checked")).unwrap();
    assert_eq!(content(&volume, node).unwrap(), wanted);
    volume.write(node, 100 * CLUSTER as u64, &bytes(2, 1)).unwrap();
    volume.unmount().unwrap();
    checked(&device, &[]);
}

/// One wrong bit in the number of clusters of a run makes it longer than any device. What reads it ends all the same, and
/// other files are not harmed.
#[test]
fn a_run_longer_than_the_volume_ends() {
    for integrity in [false, true] {
        let device = made();
        let volume = open(&device);
        let node = volume.create(Node::ROOT, &name("long"), Kind::File).unwrap();
        volume.integrity().unwrap().set(node, Integrity { enabled: integrity, enforced: true }).unwrap();
        volume.write(node, 0, &bytes(1, 12)).unwrap();
        file(&volume, "other", &bytes(2, 5));
        volume.unmount().unwrap();
        change_rows(&device, "long", |rows| rows.last_mut().unwrap().count |= 1 << 31);
        let mut found = Vec::new();
        let report = Refs::ANY.recover(device.clone(), &Silent, &mut |one, data| {
            let mut buffer = vec![0; one.size as usize];
            let read = data.read(0, &mut buffer).is_ok();
            found.push((one.path.last().map(Name::to_string), one.deleted, read && buffer == bytes(2, 5)));
            Ok(())
        });
        assert!(report.is_ok());
        assert!(found.contains(&(Some("other".into()), false, true)), "{found:?}");
        let report = Refs::ANY.check(&*device, CheckOptions::default(), &Silent).unwrap();
        assert!(!report.is_clean());
        let volume = open(&device);
        let other = volume.lookup(Node::ROOT, &name("other")).unwrap();
        assert_eq!(content(&volume, other).unwrap(), bytes(2, 5));
        if let Ok(node) = volume.lookup(Node::ROOT, &name("long")) {
            assert!(content(&volume, node).is_err() || !integrity);
        }
        drop(volume);
        Refs::ANY.scrub(device.clone(), &ScrubOptions::default(), &Silent).unwrap();
    }
}
