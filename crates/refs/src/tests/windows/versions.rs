//! Tests of files whose versions take clusters from each other, as on volumes of Windows: each version has runs only for
//! what was written since the snapshot before it.

use super::runs::{RawRun, bytes, put_rows};
use super::*;
use platter_vfs::{Place, Recovered, RecoveredData};
use std::collections::BTreeMap;

const CLUSTER: usize = 4096;

/// A version of the data: its number, its size in bytes, the clusters that it counts as allocated, and its runs.
struct Version<'r> {
    number: u64,
    size: usize,
    allocated: u64,
    rows: &'r [RawRun],
}

/// Makes the row of a version from that of a file's live data.
fn version(live: &Attribute, version: &Version<'_>, count: u32) -> Attribute {
    let mut row = live.clone();
    put(&mut row.key, 0x10, version.number);
    put_rows(&mut row, version.rows);
    let own: u32 = version.rows.iter().filter(|row| row.cluster > 0).map(|row| row.count).sum();
    let value = &mut row.value;
    put(value, 0x30, version.allocated * CLUSTER as u64);
    put(value, 0x38, version.size as u64);
    put(value, 0x40, version.size as u64);
    put(value, 0x48, u64::from(own) * CLUSTER as u64);
    put(value, 0x50, count);
    row
}

/// Makes the row that names a snapshot.
fn head(called: &str, number: u64, size: usize, allocated: u64) -> Attribute {
    let units: Vec<u8> = called.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let mut head = vec![0; 0x74];
    for (at, word) in [(0x04, 0x68), (0x08, 0x0C), (0x0C, 0x30), (0x10, 2), (0x38, 2), (0x44, number as u32)]
    {
        put(&mut head, at, word);
    }
    put(&mut head, 0x02, 0x1C00u16);
    for (at, number) in [(0x18, size as u64), (0x20, size as u64), (0x28, size as u64)] {
        put(&mut head, at, number);
    }
    put(&mut head, 0x30, allocated * CLUSTER as u64);
    put(&mut head, 0x4C, 0x01DC_0000_0000_0000u64);
    Attribute::new(MULTIPLE, NAMED_DATA, 5, &units, 0, head)
}

/// Makes a file with two snapshots out of the seven clusters of `blocks`. The first has clusters 0 to 2; the second
/// another 1, and 3; the live data another 4 and 5, and a hole at 2. `is_shared` says whether the table of reference
/// counts counts the versions that have no runs for a cluster. Returns the content of each version by its name.
fn spread(is_shared: bool) -> (Arc<MemoryDevice>, BTreeMap<&'static str, Vec<u8>>) {
    let blocks = bytes(5, 7);
    let block = |index: usize| blocks[index * CLUSTER..(index + 1) * CLUSTER].to_vec();
    let device = made();
    let volume = open(&device);
    file(&volume, "f", &blocks);
    file(&volume, "beside", &[7; 9000]);
    volume.unmount().unwrap();
    let sizes = [3 * CLUSTER, 4 * CLUSTER - 100, 22_688];
    change(&device, "f", |core, record| {
        let live = record.rows.iter().position(|row| row.flags & 1 != 0).unwrap();
        let old = record.rows.remove(live);
        let start = u64_at(&old.value, 0x88 + 0x28);
        let run = |at, count, block: u64| RawRun {
            cluster: if block == 99 { 0 } else { start + block },
            flags: if block == 99 { 0x60 } else { 0x40 },
            at,
            count,
            sums: Vec::new(),
        };
        let versions = [
            Version { number: 0x1001, size: sizes[0], allocated: 3, rows: &[run(0, 3, 0)] },
            Version { number: 0x1002, size: sizes[1], allocated: 4, rows: &[run(1, 1, 3), run(3, 1, 4)] },
            Version { number: 0x1000, size: sizes[2], allocated: 6, rows: &[run(2, 1, 99), run(4, 2, 5)] },
        ];
        record.rows.push(version(&old, &versions[2], 3));
        for (called, kept) in [("first", &versions[0]), ("second", &versions[1])] {
            record.rows.push(version(&old, kept, 1));
            record.rows.push(head(called, kept.number, kept.size, kept.allocated));
        }
        let counter = record.rows.iter_mut().find(|row| row.kind() == DATA && row.flags & 1 == 0).unwrap();
        put(&mut counter.value, 0x20, 0x1003u64);
        (record.size, record.allocated) = (sizes[2] as u64, 6 * CLUSTER as u64);
        if is_shared {
            core.share(&[(start, 5)]).unwrap();
        }
        None
    });
    let cut = |mut content: Vec<u8>, size| {
        content.truncate(size);
        content
    };
    let hole = vec![0; CLUSTER];
    let wanted = BTreeMap::from([
        ("first", blocks[..sizes[0]].to_vec()),
        ("second", cut([block(0), block(3), block(2), block(4)].concat(), sizes[1])),
        ("", cut([block(0), block(3), hole, block(4), block(5), block(6)].concat(), sizes[2])),
    ]);
    (device, wanted)
}

#[test]
fn each_version_has_the_clusters_that_only_older_ones_have_runs_for() {
    for is_shared in [false, true] {
        let (device, wanted) = spread(is_shared);
        checked(&device, &[]);
        let volume = open(&device);
        let node = volume.lookup(Node::ROOT, &name("f")).unwrap();
        assert_eq!(volume.snapshots().unwrap().list(node).unwrap(), [name("first"), name("second")]);
        assert!(content(&volume, node).unwrap() == wanted[""]);
        for called in ["first", "second"] {
            let kept = volume.streams().unwrap().open(node, &name(called), false).unwrap();
            assert!(content(&volume, kept).unwrap() == wanted[called], "{called}");
            volume.forget(kept, 1);
        }
        let extents = volume.extents(node).unwrap();
        let holes = extents.iter().filter(|extent| extent.place == Place::Hole);
        let holes: Vec<u64> = holes.map(|hole| hole.offset / CLUSTER as u64).collect();
        assert_eq!(holes, [2]);
        volume.forget(node, 1);
        volume.unmount().unwrap();
    }
}

#[test]
fn such_a_file_is_only_read_and_a_repair_leaves_it() {
    for is_shared in [false, true] {
        let (device, wanted) = spread(is_shared);
        let volume = open(&device);
        let node = volume.lookup(Node::ROOT, &name("f")).unwrap();
        let refused =
            |outcome: Result<()>| assert!(matches!(outcome, Err(Error::NotPermitted(_))), "{outcome:?}");
        refused(volume.write(node, 0, b"x"));
        refused(volume.punch(node, 0..4096));
        refused(volume.unlink(Node::ROOT, &name("f")));
        refused(volume.snapshots().and_then(|part| part.create(node, &name("third"))));
        refused(volume.snapshots().and_then(|part| part.remove(node, &name("first"))));
        volume.unlink(Node::ROOT, &name("beside")).unwrap();
        let other = file(&volume, "other", &[9; 40_000]);
        volume.forget(other, 1);
        volume.forget(node, 1);
        volume.unmount().unwrap();
        checked(&device, &[]);
        let before = whole(&device);
        Refs::ANY.check(&*device, CheckOptions { repair: true }, &Silent).unwrap();
        assert!(whole(&device) == before, "a repair changes a healthy volume");
        let volume = open(&device);
        let node = volume.lookup(Node::ROOT, &name("f")).unwrap();
        assert!(content(&volume, node).unwrap() == wanted[""]);
    }
}

/// The blocks of a device that are not zero, each with its place.
pub(super) fn whole(device: &MemoryDevice) -> Vec<(u64, Vec<u8>)> {
    use platter_device::Device;
    let mut blocks = Vec::new();
    for at in (0..device.len()).step_by(1 << 16) {
        let mut bytes = vec![0; 1 << 16];
        device.read_at(at, &mut bytes).unwrap();
        if bytes.iter().any(|&byte| byte != 0) {
            blocks.push((at, bytes));
        }
    }
    blocks
}

#[test]
fn a_recovery_copies_every_version_whole() {
    let (device, wanted) = spread(true);
    let mut seen = 0;
    let mut keep = |found: &Recovered, data: &mut dyn RecoveredData| -> Result<()> {
        let called = found.stream.as_ref().map_or(String::new(), ToString::to_string);
        if found.path.last() == Some(&name("f"))
            && let Some(wanted) = wanted.get(called.as_str())
        {
            let mut bytes = vec![0xEE; found.size as usize];
            data.read(0, &mut bytes)?;
            assert!(&bytes == wanted, "{called}");
            seen += 1;
        }
        Ok(())
    };
    Refs::ANY.recover(device.clone(), &Silent, &mut keep).unwrap();
    assert_eq!(seen, 3);
}
