//! What Windows leaves on its volumes and Platter does not write: made here by hand, after the layouts that forefst and
//! refsprogs document. No bytes of Windows are among it.

use crate::core::{Core, ROOT_DIRECTORY};
use crate::layout::bytes::{put, u32_at, u64_at};
use crate::layout::record::{DATA, EFS, MULTIPLE, NAMED_DATA, SINGLE, key};
use crate::layout::{Attribute, Node as TreeNode, NodeMut, Record};
use crate::pages::Page;
use crate::space::Tier;
use crate::{Refs, RefsVolume, attributes};
use platter_device::{MemoryDevice, Sectors};
use platter_vfs::{
    CheckOptions, Cursor, Entry, Error, FileSystem, Format, FormatOptions, Kind, Name, Node, OpenOptions,
    Reparse, Result, ScrubOptions, Silent,
};
use std::sync::Arc;

pub fn name(text: &str) -> Name {
    Name::from(text)
}

/// A new volume.
pub fn made() -> Arc<MemoryDevice> {
    let device = Arc::new(MemoryDevice::new(384 << 20, Sectors::SMALL));
    let options = FormatOptions { serial: Some(8664), ..FormatOptions::default() };
    Refs::ANY.make(&*device, &options, &Silent).unwrap();
    device
}

pub fn open(device: &Arc<MemoryDevice>) -> RefsVolume {
    RefsVolume::open(device.clone(), OpenOptions::default()).unwrap()
}

/// Makes a file with this content in the root directory.
pub fn file(volume: &RefsVolume, called: &str, content: &[u8]) -> Node {
    let node = volume.create(Node::ROOT, &name(called), Kind::File).unwrap();
    volume.write(node, 0, content).unwrap();
    node
}

/// Changes the record of a file in the root directory, on a volume that is opened for it.
fn change(
    device: &Arc<MemoryDevice>,
    called: &str,
    with: impl FnOnce(&mut Core, &mut Record) -> Option<Vec<u8>>,
) {
    let volume = open(device);
    {
        let mut core = volume.core();
        let row = key::name(key::LONG, name(called).units());
        let (tree, pages) = core.tree(ROOT_DIRECTORY).unwrap();
        let value = tree.get(pages, &row, |row| row.value.to_vec()).unwrap().unwrap();
        let mut record = Record::from_bytes(&value, 0).unwrap();
        let value = with(&mut core, &mut record).unwrap_or_else(|| record.to_bytes());
        let (tree, pages) = core.tree_mut(ROOT_DIRECTORY).unwrap();
        tree.put(pages, &row, 1, &value).unwrap();
    }
    volume.unmount().unwrap();
}

pub fn content(volume: &RefsVolume, node: Node) -> Result<Vec<u8>> {
    let mut buffer = vec![0xEE; 1 << 20];
    let length = volume.read(node, 0, &mut buffer)?;
    buffer.truncate(length);
    Ok(buffer)
}

fn listed(volume: &RefsVolume) -> Vec<Entry> {
    let mut entries = Vec::new();
    volume.read_directory(Node::ROOT, Cursor::START, 100, &mut entries).unwrap();
    entries
}

/// What a check and a scrub find, which is nothing unless `codes` names it.
pub fn checked(device: &Arc<MemoryDevice>, codes: &[&str]) {
    let report = Refs::ANY.check(&**device, CheckOptions::default(), &Silent).unwrap();
    let mut found: Vec<&str> = report.findings.iter().map(|finding| finding.code).collect();
    found.dedup();
    assert_eq!(found, codes, "{:#?}", report.findings);
    let report = Refs::ANY.scrub(device.clone(), &ScrubOptions::default(), &Silent).unwrap();
    assert!(report.damaged.is_empty(), "{:#?}", report.damaged);
}

#[test]
fn attributes_outside_the_record() {
    let device = made();
    let volume = open(&device);
    let wanted: Vec<u8> = (0..50_000u32).map(|at| at as u8).collect();
    let node = file(&volume, "outside", &wanted);
    volume.set_extended_attribute(node, "user.a", Some(b"value")).unwrap();
    let stream = volume.stream(node, &name("more"), true).unwrap();
    volume.write(stream, 0, &wanted[..9000]).unwrap();
    file(&volume, "beside", b"beside");
    volume.unmount().unwrap();
    change(&device, "outside", |core, record| {
        // A page of attributes, whose number is not that of the directory, and a node with an empty key that names it.
        let rows = std::mem::take(&mut record.rows);
        let mut page = Page::new(core.geometry().page(), 0);
        for (position, row) in rows.iter().enumerate() {
            assert!(page.node_mut().insert(position, &row.key, row.flags, &row.value));
        }
        let place = core.pages.add(page, Tier::Medium).unwrap();
        let sealed = core.pages.seal(&[place], 0x1234, Tier::Medium, core.checkpoint.clock + 1);
        let reference = sealed[0];
        let mut value = record.to_bytes();
        value.resize(Record::HEADER + 0x100, 0);
        let mut target = vec![0; core.geometry().reference];
        reference.store(&mut target);
        assert!(NodeMut::empty(&mut value[Record::HEADER..], 1, 3).insert(0, &[], 0, &target));
        put(&mut value, 0x18, 1u64);
        put(&mut value, 0x20, rows.len() as u64);
        Some(value)
    });
    checked(&device, &[]);
    let volume = open(&device);
    assert_eq!(listed(&volume).len(), 2);
    let node = volume.lookup(Node::ROOT, &name("outside")).unwrap();
    assert_eq!(content(&volume, node).unwrap(), wanted);
    assert_eq!(volume.extended_attribute(node, "user.a").unwrap(), b"value");
    let stream = volume.stream(node, &name("more"), false).unwrap();
    assert_eq!(content(&volume, stream).unwrap(), &wanted[..9000]);
    // It is only read; the rest of the volume is not concerned.
    let refused =
        |outcome: Result<()>| assert!(matches!(outcome, Err(Error::NotPermitted(_))), "{outcome:?}");
    refused(volume.write(node, 0, b"x"));
    refused(volume.write(stream, 0, b"x"));
    refused(volume.unlink(Node::ROOT, &name("outside")));
    refused(volume.rename(Node::ROOT, &name("outside"), Node::ROOT, &name("other"), Default::default()));
    refused(volume.link(node, Node::ROOT, &name("other")));
    refused(volume.set_extended_attribute(node, "user.b", Some(b"")));
    refused(volume.stream(node, &name("third"), true).map(drop));
    refused(volume.set_attributes(node, &Default::default()).map(drop));
    volume.unlink(Node::ROOT, &name("beside")).unwrap();
    volume.unmount().unwrap();
    checked(&device, &[]);
}

#[test]
fn content_that_is_not_in_the_clusters() {
    let device = made();
    let volume = open(&device);
    for called in ["encrypted", "keys", "deduplicated", "plain"] {
        file(&volume, called, &[7; 6000]);
    }
    volume.unmount().unwrap();
    change(&device, "encrypted", |_, record| {
        record.attributes |= 0x4000;
        None
    });
    change(&device, "keys", |_, record| {
        let name: Vec<u8> = "$EFS".encode_utf16().flat_map(u16::to_le_bytes).collect();
        record.rows.push(Attribute::new(SINGLE, EFS, 5, &name, 0, vec![0; 676]));
        None
    });
    change(&device, "deduplicated", |_, record| {
        record.reparse = 0x8000_0013;
        None
    });
    let volume = open(&device);
    assert_eq!(listed(&volume).len(), 4);
    for (called, word) in [("encrypted", "EFS"), ("keys", "EFS"), ("deduplicated", "Deduplication")] {
        let node = volume.lookup(Node::ROOT, &name(called)).unwrap();
        assert_eq!(volume.attributes(node).unwrap().size, 6000);
        let refused = |error: Error| assert!(matches!(error, Error::Unreadable(why) if why.contains(word)));
        refused(content(&volume, node).unwrap_err());
        refused(volume.write(node, 0, b"x").unwrap_err());
        refused(volume.extents(node).unwrap_err());
    }
    let node = volume.lookup(Node::ROOT, &name("plain")).unwrap();
    assert_eq!(content(&volume, node).unwrap(), [7; 6000]);
    volume.unlink(Node::ROOT, &name("encrypted")).unwrap();
}

#[test]
fn compressed_containers() {
    let device = made();
    let volume = open(&device);
    file(&volume, "f", &[7; 6000]);
    volume.unmount().unwrap();
    let volume = open(&device);
    let node = volume.lookup(Node::ROOT, &name("f")).unwrap();
    let mut data = 0;
    {
        let mut core = volume.core();
        for root in [crate::layout::Root::Containers, crate::layout::Root::ContainersCopy] {
            let mut rows = Vec::new();
            let (tree, pages) = core.root(root);
            tree.scan(pages, &[], |row| {
                rows.push((row.key.to_vec(), row.value.to_vec()));
                Ok(true)
            })
            .unwrap();
            for (row_key, mut value) in rows {
                if u32_at(&value, 0x14) & crate::layout::ContainerRow::DATA != 0 {
                    let flags = u32_at(&value, 0x14);
                    put(&mut value, 0x14, flags | 0x800);
                    data += 1;
                    let (tree, pages) = core.root(root);
                    tree.put(pages, &row_key, 0, &value).unwrap();
                }
            }
        }
        core.news = true;
    }
    assert!(data > 0);
    volume.forget(node, 1);
    volume.unmount().unwrap();
    let volume = open(&device);
    let node = volume.lookup(Node::ROOT, &name("f")).unwrap();
    let error = content(&volume, node).unwrap_err();
    assert!(matches!(error, Error::Unreadable(why) if why.contains("compressed")), "{error}");
    let error = volume.create(Node::ROOT, &name("g"), Kind::File).unwrap_err();
    assert!(matches!(&error, Error::ReadOnly(why) if why.contains("compressed")), "{error}");
    checked(&device, &["compressed"]);
}

#[test]
fn runs_of_an_unknown_kind() {
    let device = made();
    let volume = open(&device);
    file(&volume, "f", &[7; 6000]);
    volume.unmount().unwrap();
    change(&device, "f", |_, record| {
        let row = record.rows.iter_mut().find(|row| row.flags & 1 != 0).unwrap();
        let at = 0x88 + TreeNode::new(&row.value[0x88..]).offset(0);
        put(&mut row.value, at + 8, 0x20u16);
        None
    });
    let volume = open(&device);
    assert_eq!(listed(&volume).len(), 1);
    let error = volume.lookup(Node::ROOT, &name("f")).unwrap_err();
    assert!(error.to_string().contains("kind of a run"), "{error}");
    checked(&device, &["run-kind"]);
}

/// Sets how much of a file was ever written.
fn cut_valid(device: &Arc<MemoryDevice>, called: &str, valid: u64) {
    change(device, called, |_, record| {
        let row = record.rows.iter_mut().find(|row| row.flags & 1 != 0).unwrap();
        put(&mut row.value, 0x40, valid);
        None
    });
}

#[test]
fn what_was_never_written_reads_as_zeroes() {
    for integrity in [false, true] {
        let device = made();
        let volume = open(&device);
        let node = file(&volume, "f", &[7; 40_000]);
        volume.set_integrity(node, platter_vfs::Integrity { enabled: integrity, enforced: true }).unwrap();
        volume.unmount().unwrap();
        cut_valid(&device, "f", 10_000);
        checked(&device, &[]);
        let volume = open(&device);
        let node = volume.lookup(Node::ROOT, &name("f")).unwrap();
        let mut wanted = vec![0; 40_000];
        wanted[..10_000].fill(7);
        assert_eq!(content(&volume, node).unwrap(), wanted);
        // A write after it: what lies between reads as zeroes for good.
        volume.write(node, 20_001, &[8; 999]).unwrap();
        wanted[20_001..21_000].fill(8);
        assert_eq!(content(&volume, node).unwrap(), wanted);
        volume.write(node, 100, &[9; 9]).unwrap();
        wanted[100..109].fill(9);
        volume.unmount().unwrap();
        checked(&device, &[]);
        let volume = open(&device);
        let node = volume.lookup(Node::ROOT, &name("f")).unwrap();
        assert_eq!(content(&volume, node).unwrap(), wanted);
        let aligned = vec![5; 8192];
        volume.write(node, 24_576, &aligned).unwrap();
        wanted[24_576..32_768].fill(5);
        volume
            .set_attributes(node, &platter_vfs::Change { size: Some(36_000), ..Default::default() })
            .unwrap();
        volume
            .set_attributes(node, &platter_vfs::Change { size: Some(60_000), ..Default::default() })
            .unwrap();
        wanted.resize(36_000, 0);
        wanted.resize(60_000, 0);
        assert_eq!(content(&volume, node).unwrap(), wanted);
        volume.unmount().unwrap();
        checked(&device, &[]);
        let volume = open(&device);
        let node = volume.lookup(Node::ROOT, &name("f")).unwrap();
        assert_eq!(content(&volume, node).unwrap(), wanted);
    }
}

/// Gives a file a version of its data, as its own was, that a snapshot names. The clusters are the same, so the record
/// is the only thing that knows of it: Windows counts references in a table of their own.
fn keep_version(device: &Arc<MemoryDevice>, called: &str, snapshot: &str) {
    change(device, called, |_, record| {
        let live = record.rows.iter().find(|row| row.flags & 1 != 0).unwrap().clone();
        let mut kept = live.clone();
        put(&mut kept.key, 0x10, 0x1001u64);
        let units: Vec<u8> = snapshot.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let mut head = vec![0; 0x74];
        for (at, word) in [(0x04, 0x68u32), (0x08, 0x0C), (0x0C, 0x30), (0x10, 2), (0x38, 2), (0x44, 0x1001)]
        {
            put(&mut head, at, word);
        }
        put(&mut head, 0x02, 0x1C00u16);
        for (at, from) in [(0x18, 0x30), (0x20, 0x38), (0x28, 0x40), (0x30, 0x30)] {
            put(&mut head, at, u64_at(&live.value, from));
        }
        put(&mut head, 0x4C, 0x01DC_0000_0000_0000u64);
        record.rows.push(Attribute::new(MULTIPLE, NAMED_DATA, 5, &units, 0, head));
        // The live data is another: here only its end.
        let own = record.rows.iter_mut().find(|row| row.flags & 1 != 0).unwrap();
        *own = Attribute::new(MULTIPLE, DATA, 0x0E, &own.key[16..], 1, {
            let mut value = vec![0; 0xF8];
            value[..0x88].copy_from_slice(&live.value[..0x88]);
            for at in [0x20, 0x30, 0x38, 0x40, 0x48] {
                put(&mut value, at, 0u64);
            }
            NodeMut::empty(&mut value[0x88..], 0, 6);
            value
        });
        (record.size, record.allocated) = (0, 0);
        record.rows.push(kept);
        None
    });
}

#[test]
fn snapshots_of_streams() {
    let device = made();
    let volume = open(&device);
    let wanted: Vec<u8> = (0..50_000u32).map(|at| at as u8).collect();
    file(&volume, "f", &wanted);
    volume.unmount().unwrap();
    keep_version(&device, "f", "before");
    checked(&device, &[]);
    let volume = open(&device);
    let free = volume.space().unwrap().free;
    let node = volume.lookup(Node::ROOT, &name("f")).unwrap();
    assert_eq!(volume.snapshots(node).unwrap(), [name("before")]);
    assert_eq!(volume.streams(node).unwrap().len(), 0);
    let kept = volume.stream(node, &name("before"), false).unwrap();
    assert_eq!(content(&volume, kept).unwrap(), wanted);
    assert!(matches!(volume.write(kept, 0, b"x"), Err(Error::NotPermitted(_))));
    assert!(matches!(volume.remove_stream(node, &name("before")), Err(Error::NotFound)));
    // The live data is written, the file moved: the snapshot stays.
    volume.write(node, 0, &[1; 9000]).unwrap();
    let below = volume.create(Node::ROOT, &name("d"), Kind::Directory).unwrap();
    volume.rename(Node::ROOT, &name("f"), below, &name("g"), Default::default()).unwrap();
    for node in [node, kept, below] {
        volume.forget(node, 1);
    }
    volume.unmount().unwrap();
    checked(&device, &[]);
    let volume = open(&device);
    let below = volume.lookup(Node::ROOT, &name("d")).unwrap();
    let node = volume.lookup(below, &name("g")).unwrap();
    assert_eq!(content(&volume, node).unwrap(), [1; 9000]);
    let kept = volume.stream(node, &name("before"), false).unwrap();
    assert_eq!(content(&volume, kept).unwrap(), wanted);
    volume.forget(kept, 1);
    volume.remove_snapshot(node, &name("before")).unwrap();
    assert_eq!(volume.snapshots(node).unwrap(), []);
    volume.forget(node, 1);
    volume.unlink(below, &name("g")).unwrap();
    volume.forget(below, 1);
    volume.rmdir(Node::ROOT, &name("d")).unwrap();
    volume.sync_all().unwrap();
    assert_eq!(volume.space().unwrap().free, free + 13);
    volume.unmount().unwrap();
    checked(&device, &[]);
}

#[test]
fn a_record_with_attributes_outside_is_completed_once() {
    let device = made();
    let volume = open(&device);
    let mut core = volume.core();
    let mut record = Record::new(0x1E0, 0, 0x20, 0);
    record.rows.push(Attribute::new(SINGLE, DATA, 0, &[], 0, vec![0; 0x3C]));
    let before = record.clone();
    attributes::complete(&mut record, &mut core.pages).unwrap();
    assert_eq!(record, before);
}

/// How often the volume's table says that a cluster is referred to.
fn counted(volume: &RefsVolume) -> u64 {
    let mut sum = 0;
    let mut core = volume.core();
    let (tree, pages) = core.root(crate::layout::Root::References);
    tree.scan(pages, &[], |row| {
        sum += u64::from(u32_at(row.value, 0x18));
        Ok(true)
    })
    .unwrap();
    sum
}

#[test]
fn clones() {
    for integrity in [false, true] {
        let device = made();
        let volume = open(&device);
        let empty = volume.space().unwrap().free;
        let mut wanted: Vec<u8> = (0..400_000u32).map(|at| (at / 7) as u8).collect();
        let one = volume.create(Node::ROOT, &name("one"), Kind::File).unwrap();
        volume.set_integrity(one, platter_vfs::Integrity { enabled: integrity, enforced: true }).unwrap();
        volume.write(one, 0, &wanted).unwrap();
        let two = volume.create(Node::ROOT, &name("two"), Kind::File).unwrap();
        volume.set_integrity(two, platter_vfs::Integrity { enabled: integrity, enforced: true }).unwrap();
        volume.sync_all().unwrap();
        let before = volume.space().unwrap().free;
        volume.clone_range(one, 0, two, 0, 400_000).unwrap();
        volume.sync_all().unwrap();
        // 98 clusters are there twice, and take only their row in a table.
        assert!(before - volume.space().unwrap().free <= 12);
        assert_eq!((content(&volume, two).unwrap(), counted(&volume)), (wanted.clone(), 196));
        volume.unmount().unwrap();
        checked(&device, &[]);
        // What is written to one does not reach the other: whole clusters, parts, the end.
        let volume = open(&device);
        let (one, two) = (
            volume.lookup(Node::ROOT, &name("one")).unwrap(),
            volume.lookup(Node::ROOT, &name("two")).unwrap(),
        );
        let before = wanted.clone();
        for (at, length) in [(8192, 12288), (100_000, 5), (399_000, 3000)] {
            volume.write(one, at as u64, &vec![9; length]).unwrap();
            wanted.resize(wanted.len().max(at + length), 0);
            wanted[at..at + length].fill(9);
        }
        assert_eq!(content(&volume, one).unwrap(), wanted);
        assert_eq!(content(&volume, two).unwrap(), before);
        // A part of a file to another place of it, over what is shared.
        volume.clone_range(one, 0, one, 204_800, 16_384).unwrap();
        wanted.copy_within(0..16_384, 204_800);
        assert_eq!(content(&volume, one).unwrap(), wanted);
        assert!(volume.clone_range(one, 0, one, 4096, 8192).is_err());
        assert!(volume.clone_range(one, 1, two, 0, 4096).is_err());
        volume.punch(two, 0..40_960).unwrap();
        let mut other = before;
        other[..40_960].fill(0);
        // A file that lost its name still has what it shares, whatever becomes of the other.
        volume.unlink(Node::ROOT, &name("one")).unwrap();
        volume.sync_all().unwrap();
        volume.write(two, 50_000, &[3; 100_000]).unwrap();
        other[50_000..150_000].fill(3);
        volume.sync_all().unwrap();
        let fill = file(&volume, "fill", &vec![0xAB; 3 << 20]);
        volume.sync_all().unwrap();
        assert_eq!(content(&volume, one).unwrap(), wanted);
        assert_eq!(content(&volume, two).unwrap(), other);
        volume.unlink(Node::ROOT, &name("two")).unwrap();
        volume.sync_all().unwrap();
        file(&volume, "more", &vec![0xCD; 3 << 20]);
        assert_eq!(content(&volume, one).unwrap(), wanted);
        assert_eq!(content(&volume, two).unwrap(), other);
        checked_beside(&volume, &device);
        for node in [one, two, fill] {
            volume.forget(node, 1);
        }
        for called in ["fill", "more"] {
            volume.unlink(Node::ROOT, &name(called)).unwrap();
        }
        assert_eq!(counted(&volume), 0);
        volume.unmount().unwrap();
        checked(&device, &[]);
        let free = open(&device).space().unwrap().free;
        assert!(empty - free <= 24, "{empty} {free}");
    }
}

/// Commits, and checks what a power cut would leave then.
fn checked_beside(volume: &RefsVolume, device: &Arc<MemoryDevice>) {
    volume.sync_all().unwrap();
    let report = Refs::ANY.check(&**device, CheckOptions::default(), &Silent).unwrap();
    assert!(report.is_clean(), "{:#?}", report.findings);
}

#[test]
fn snapshots_that_are_made() {
    for size in [0, 700, 90_000] {
        let device = made();
        let volume = open(&device);
        let mut wanted: Vec<u8> = (0..size).map(|at: u32| at as u8).collect();
        let node = file(&volume, "f", &wanted);
        volume.create_snapshot(node, &name("first")).unwrap();
        assert!(matches!(volume.create_snapshot(node, &name("FIRST")), Err(Error::Exists)));
        let first = wanted.clone();
        volume.write(node, 10, &[1; 5000]).unwrap();
        wanted.resize(wanted.len().max(5010), 0);
        wanted[10..5010].fill(1);
        volume.create_snapshot(node, &name("second")).unwrap();
        let second = wanted.clone();
        volume.write(node, 0, &[2; 4096]).unwrap();
        wanted[..4096].fill(2);
        volume.unmount().unwrap();
        checked(&device, &[]);
        let volume = open(&device);
        let node = volume.lookup(Node::ROOT, &name("f")).unwrap();
        assert_eq!(volume.snapshots(node).unwrap(), [name("first"), name("second")]);
        for (called, kept) in [("first", &first), ("second", &second)] {
            let part = volume.stream(node, &name(called), false).unwrap();
            assert_eq!(&content(&volume, part).unwrap(), kept, "{called}");
            volume.forget(part, 1);
        }
        assert_eq!(content(&volume, node).unwrap(), wanted);
        volume.remove_snapshot(node, &name("first")).unwrap();
        volume.create_snapshot(node, &name("third")).unwrap();
        volume.sync_all().unwrap();
        checked_beside(&volume, &device);
        volume.unlink(Node::ROOT, &name("f")).unwrap();
        assert_eq!(content(&volume, node).unwrap(), wanted);
        checked_beside(&volume, &device);
        volume.forget(node, 1);
        assert_eq!(counted(&volume), 0);
        volume.unmount().unwrap();
        checked(&device, &[]);
    }
}

#[test]
fn wrong_reference_counts_are_found_and_put_right() {
    for damage in [1u16, 3, 0] {
        let device = made();
        let volume = open(&device);
        let one = file(&volume, "one", &vec![7; 100_000]);
        let two = file(&volume, "two", b"");
        volume.clone_range(one, 0, two, 0, 100_000).unwrap();
        {
            let mut core = volume.core();
            let (tree, pages) = core.root(crate::layout::Root::References);
            let mut rows = Vec::new();
            tree.scan(pages, &[], |row| {
                rows.push((row.key.to_vec(), row.value.to_vec()));
                Ok(true)
            })
            .unwrap();
            let (row_key, value) = rows.remove(0);
            let mut row = crate::layout::ShareRow::from_bytes(&value, 0).unwrap();
            row.counts.iter_mut().filter(|count| **count > 0).for_each(|count| *count = damage);
            let (tree, pages) = core.root(crate::layout::Root::References);
            tree.put(pages, &row_key, 0, &row.to_bytes()).unwrap();
        }
        volume.unmount().unwrap();
        checked(&device, &["reference-count"]);
        let options = CheckOptions { repair: true };
        Refs::ANY.check(&*device, options, &Silent).unwrap();
        checked(&device, &[]);
        let volume = open(&device);
        assert_eq!(counted(&volume), 50);
    }
}

#[test]
fn deduplicated_volumes_are_only_read() {
    let device = made();
    let volume = open(&device);
    file(&volume, "one", &vec![7; 100_000]);
    {
        let mut core = volume.core();
        let start = crate::geometry::ContainerMap::FIRST << 15;
        let mut row = crate::layout::ShareRow::new(start);
        row.counts[5] = 0x8000;
        let (tree, pages) = core.root(crate::layout::Root::References);
        tree.put(pages, &crate::layout::ShareRow::key(start), 0, &row.to_bytes()).unwrap();
    }
    volume.unmount().unwrap();
    let volume = open(&device);
    let node = volume.lookup(Node::ROOT, &name("one")).unwrap();
    assert_eq!(content(&volume, node).unwrap(), vec![7; 100_000]);
    let error = volume.write(node, 0, b"x").unwrap_err();
    assert!(matches!(&error, Error::ReadOnly(why) if why.contains("deduplicated")), "{error}");
}

#[test]
fn allocated_ahead() {
    let device = made();
    let volume = open(&device);
    let node = file(&volume, "f", &[7; 10_000]);
    let before = volume.attributes(node).unwrap().allocated;
    volume.allocate(node, 0..1 << 20, true).unwrap();
    let attributes = volume.attributes(node).unwrap();
    assert_eq!((attributes.size, attributes.allocated), (10_000, 1 << 20));
    assert!(before < attributes.allocated);
    assert_eq!(content(&volume, node).unwrap(), [7; 10_000]);
    // Files beside it, so that what it was given is not at the end of what was ever written.
    file(&volume, "g", &vec![0x55; 200_000]);
    let extents = volume.extents(node).unwrap();
    assert!(extents.iter().all(|extent| matches!(extent.place, platter_vfs::Place::Device(_))));
    volume.allocate(node, 0..500_000, false).unwrap();
    let unwritten = |extent: &platter_vfs::Extent| matches!(extent.place, platter_vfs::Place::Unwritten(_));
    assert!(volume.extents(node).unwrap().iter().any(unwritten));
    volume.unmount().unwrap();
    checked(&device, &[]);
    let volume = open(&device);
    let node = volume.lookup(Node::ROOT, &name("f")).unwrap();
    let mut wanted = vec![0; 500_000];
    wanted[..10_000].fill(7);
    assert_eq!(content(&volume, node).unwrap(), wanted);
    volume.write(node, 300_000, &[8; 70_000]).unwrap();
    wanted[300_000..370_000].fill(8);
    assert_eq!(content(&volume, node).unwrap(), wanted);
    // It takes no more than it was given.
    assert_eq!(volume.attributes(node).unwrap().allocated, 1 << 20);
    volume.write(node, 600_000, &[9; 10]).unwrap();
    wanted.resize(600_010, 0);
    wanted[600_000..].fill(9);
    volume.unmount().unwrap();
    checked(&device, &[]);
    let volume = open(&device);
    let node = volume.lookup(Node::ROOT, &name("f")).unwrap();
    assert_eq!(content(&volume, node).unwrap(), wanted);
    volume.set_attributes(node, &platter_vfs::Change { size: Some(5000), ..Default::default() }).unwrap();
    assert_eq!(volume.attributes(node).unwrap().allocated, 8192);
    volume.unmount().unwrap();
    checked(&device, &[]);
}

#[test]
fn reparse_points() {
    let device = made();
    let volume = open(&device);
    let node = file(&volume, "pipe", b"");
    let pipe = Reparse { tag: 0x8000_0024, data: Vec::new() };
    volume.set_reparse_point(node, Some(&pipe)).unwrap();
    let link = file(&volume, "linux", b"");
    let mut data = vec![2, 0, 0, 0];
    data.extend("/etc/pässwd".bytes());
    volume
        .set_reparse_point(link, Some(&Reparse { tag: platter_vfs::reparse::LINUX_SYMLINK, data }))
        .unwrap();
    let full = file(&volume, "full", b"x");
    let symlink = platter_vfs::reparse::link_to("elsewhere").unwrap();
    assert!(volume.set_reparse_point(full, Some(&symlink)).is_err());
    assert!(volume.set_reparse_point(full, Some(&Reparse { tag: 0x8000_0013, data: Vec::new() })).is_err());
    // A directory that Windows made a junction of.
    let junction = volume.create(Node::ROOT, &name("junction"), Kind::Directory).unwrap();
    assert!(volume.set_reparse_point(junction, Some(&symlink)).is_err());
    {
        let mut core = volume.core();
        let target: Vec<u8> = r"\??\C:\a".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let mut data = vec![0; 8];
        put(&mut data, 2, target.len() as u16);
        data.extend(&target);
        let record = &mut core.entity_mut(junction.0).unwrap().record;
        attributes::set_reparse_point(record, Some(&Reparse { tag: platter_vfs::reparse::JUNCTION, data }));
    }
    for node in [node, link, full, junction] {
        volume.forget(node, 1);
    }
    volume.unmount().unwrap();
    checked(&device, &[]);
    let volume = open(&device);
    let kinds: Vec<_> =
        listed(&volume).into_iter().map(|entry| (entry.name.to_string(), entry.attributes.kind)).collect();
    let wanted = [
        ("full", Kind::File),
        ("junction", Kind::SymbolicLink),
        ("linux", Kind::SymbolicLink),
        ("pipe", Kind::File),
    ];
    assert_eq!(kinds, wanted.map(|(called, kind)| (called.to_string(), kind)));
    let find = |called: &str| volume.lookup(Node::ROOT, &name(called)).unwrap();
    assert_eq!(volume.reparse_point(find("pipe")).unwrap(), Some(pipe));
    assert_eq!(volume.read_link(find("linux")).unwrap(), "/etc/pässwd");
    let junction = find("junction");
    assert_eq!(volume.attributes(junction).unwrap().kind, Kind::SymbolicLink);
    assert_eq!(volume.read_link(junction).unwrap(), "C:/a");
    assert!(matches!(volume.lookup(junction, &name("x")), Err(Error::NotADirectory)));
    assert!(matches!(volume.rmdir(Node::ROOT, &name("junction")), Err(Error::NotADirectory)));
    volume.rename(Node::ROOT, &name("junction"), Node::ROOT, &name("other"), Default::default()).unwrap();
    volume.forget(junction, 1);
    volume.unlink(Node::ROOT, &name("other")).unwrap();
    let pipe = find("pipe");
    volume.set_reparse_point(pipe, None).unwrap();
    assert_eq!(volume.reparse_point(pipe).unwrap(), None);
    volume.write(pipe, 0, b"content").unwrap();
    volume.unmount().unwrap();
    checked(&device, &[]);
}

#[test]
fn security_descriptors() {
    use platter_vfs::security::{Ace, Sid, descriptor};
    let device = made();
    let volume = open(&device);
    let node = file(&volume, "f", b"x");
    let inherited = volume.security_descriptor(node).unwrap();
    assert_eq!(inherited, crate::system::file_descriptor());
    let everything = Ace { flags: Ace::HERE, mask: Ace::FULL, trustee: Sid::USERS };
    let own = descriptor(Sid::USERS, Sid::SYSTEM, &[everything]);
    volume.set_security_descriptor(node, &own).unwrap();
    volume.set_security_descriptor(Node::ROOT, &own).unwrap();
    for wrong in [&[][..], &own[..19], &[2; 40], &[0; 5000]] {
        assert!(volume.set_security_descriptor(node, wrong).is_err());
    }
    volume.unmount().unwrap();
    checked(&device, &[]);
    let volume = open(&device);
    let node = volume.lookup(Node::ROOT, &name("f")).unwrap();
    assert_eq!(volume.security_descriptor(node).unwrap(), own);
    assert_eq!(volume.security_descriptor(Node::ROOT).unwrap(), own);
    let below = volume.create(Node::ROOT, &name("d"), Kind::Directory).unwrap();
    assert_eq!(volume.security_descriptor(below).unwrap(), own);
}

#[test]
fn security_descriptors_with_one_hash() {
    use crate::system::file_descriptor;
    use crate::system::security::descriptor_hash;
    let device = made();
    let volume = open(&device);
    // Two more words whose parts in the hash cancel out: the first is turned by three bits before the second comes.
    let with = |first: u32| {
        let mut bytes = file_descriptor();
        let start = descriptor_hash(&bytes);
        let one = start.rotate_left(3).wrapping_add(first);
        let second = 0x1234_5678u32.wrapping_sub(one.rotate_left(3));
        bytes.extend(first.to_le_bytes());
        bytes.extend(second.to_le_bytes());
        bytes
    };
    let (one, two) = (with(1), with(2));
    assert_eq!(descriptor_hash(&one), descriptor_hash(&two));
    let (first, second) = (file(&volume, "one", b""), file(&volume, "two", b""));
    volume.set_security_descriptor(first, &one).unwrap();
    volume.set_security_descriptor(second, &two).unwrap();
    volume.unmount().unwrap();
    checked(&device, &[]);
    let volume = open(&device);
    for (called, wanted) in [("one", one), ("two", two)] {
        let node = volume.lookup(Node::ROOT, &name(called)).unwrap();
        assert_eq!(volume.security_descriptor(node).unwrap(), wanted);
    }
}

/// Puts a record of changes where the oldest that matters would be.
fn live_log(device: &Arc<MemoryDevice>, records: u64) {
    use crate::system::LOG_BLOCK;
    let area = {
        let volume = open(device);
        let geometry = volume.core().geometry().clone();
        let mut core = volume.core();
        let oldest = core.checkpoint.log;
        let mut rows = Vec::new();
        let (tree, pages) = core.tree(0x0A).unwrap();
        tree.scan(pages, &[], |row| {
            rows.push((row.key.to_vec(), row.value.to_vec()));
            Ok(true)
        })
        .unwrap();
        let rows = rows.iter().map(|(key, value)| (&key[..], &value[..]));
        let area = crate::system::LogArea::from_rows(rows).unwrap();
        (geometry.offset(area.data.start), oldest)
    };
    for index in 0..records {
        let mut block = vec![0; LOG_BLOCK];
        block[..4].copy_from_slice(b"MLog");
        put(&mut block, 0x28, area.1 + index);
        put(&mut block, 0x38, 1u32);
        put(&mut block, 0x54, 0x78u32);
        put(&mut block, 0x78 + 0x28, 0x38u32);
        put(&mut block, 0x78 + 0x30, 2u32);
        put(&mut block, 0xB0, 8u32 + 2 * 0x40);
        put(&mut block, 0xB4, 8u32);
        put(&mut block, 0xB8, 0x40u32);
        put(&mut block, 0xF8, 0x40u32);
        let place = area.0 + ((area.1 & 0xFFFF_FFFF) + index) * LOG_BLOCK as u64;
        platter_device::Device::write_at(&**device, place, &block).unwrap();
    }
}

#[test]
fn a_live_log_keeps_a_volume_from_being_written() {
    let device = made();
    let volume = open(&device);
    file(&volume, "f", b"x");
    volume.unmount().unwrap();
    live_log(&device, 3);
    let volume = open(&device);
    let error = volume.create(Node::ROOT, &name("g"), Kind::File).unwrap_err();
    assert!(matches!(&error, Error::ReadOnly(why) if why.contains("6 changes in 3 records")), "{error}");
    assert!(volume.info().unwrap().dirty);
    let node = volume.lookup(Node::ROOT, &name("f")).unwrap();
    assert_eq!(content(&volume, node).unwrap(), b"x");
    checked(&device, &["log-live"]);
}

#[test]
fn a_live_log_is_found_through_either_table() {
    for lost in [&[0x09][..], &[0x0A], &[0x09, 0x0A]] {
        let device = made();
        let volume = open(&device);
        for &object in lost {
            volume.core().remove_object(object).unwrap();
        }
        volume.unmount().unwrap();
        if lost.len() == 1 {
            assert!(open(&device).create(Node::ROOT, &name("g"), Kind::File).is_ok());
            if lost == [0x09] {
                live_log(&device, 1);
            }
        }
        let made = open(&device).create(Node::ROOT, &name("g"), Kind::File);
        match lost.len() {
            2 => assert!(matches!(&made, Err(Error::ReadOnly(why)) if why.contains("log")), "{made:?}"),
            _ if lost == [0x09] => assert!(matches!(&made, Err(Error::ReadOnly(_))), "{made:?}"),
            _ => assert!(made.is_ok()),
        }
    }
}

/// Random changes of a few files that share clusters, compared with plain bytes, and the volume checked on the way.
fn shared_files(seed: u64, operations: usize, integrity: bool) {
    struct Random(u64);
    impl Random {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % bound
        }
    }
    struct File {
        node: Node,
        called: String,
        bytes: Vec<u8>,
        kept: Vec<(String, Vec<u8>)>,
        is_named: bool,
    }
    let mut random = Random(seed | 1);
    let device = made();
    let mut volume = open(&device);
    let mut files: Vec<File> = Vec::new();
    let mut number = 0;
    for operation in 0..operations {
        while files.len() < 5 {
            number += 1;
            let called = format!("f{number}");
            let node = volume.create(Node::ROOT, &name(&called), Kind::File).unwrap();
            volume
                .set_integrity(node, platter_vfs::Integrity { enabled: integrity, enforced: true })
                .unwrap();
            files.push(File { node, called, bytes: Vec::new(), kept: Vec::new(), is_named: true });
        }
        let one = random.below(files.len() as u64) as usize;
        let place = random.below(120_000) as usize;
        let length = [5, 4096, 9000, 40_960][random.below(4) as usize];
        match random.below(14) {
            0..=3 => {
                let place = if random.below(2) == 0 { place & !4095 } else { place };
                let byte = operation as u8;
                volume.write(files[one].node, place as u64, &vec![byte; length]).unwrap();
                let bytes = &mut files[one].bytes;
                bytes.resize(bytes.len().max(place + length), 0);
                bytes[place..place + length].fill(byte);
            }
            4..=7 => {
                let two = random.below(files.len() as u64) as usize;
                let (from, to) = (place & !4095, random.below(120_000) as usize & !4095);
                let mut length = (1 + random.below(12) as usize) * 4096;
                let size = files[one].bytes.len();
                if from + length > size && from < size && to + (size - from) >= files[two].bytes.len() {
                    length = size - from;
                }
                let cloned = volume.clone_range(
                    files[one].node,
                    from as u64,
                    files[two].node,
                    to as u64,
                    length as u64,
                );
                let is_apart = one != two || from + length <= to || to + length <= from;
                let is_allowed = from + length <= size && is_apart;
                assert_eq!(cloned.is_ok(), is_allowed, "{cloned:?} {from} {to} {length} {size}");
                if is_allowed {
                    let part = files[one].bytes[from..from + length].to_vec();
                    let bytes = &mut files[two].bytes;
                    bytes.resize(bytes.len().max(to + length), 0);
                    bytes[to..to + length].copy_from_slice(&part);
                }
            }
            8 => {
                let size = random.below(140_000) as usize;
                let change = platter_vfs::Change { size: Some(size as u64), ..Default::default() };
                volume.set_attributes(files[one].node, &change).unwrap();
                files[one].bytes.resize(size, 0);
            }
            9 => {
                volume.punch(files[one].node, place as u64..(place + length) as u64).unwrap();
                let end = files[one].bytes.len();
                files[one].bytes[place.min(end)..(place + length).min(end)].fill(0);
            }
            10 if files[one].is_named && files[one].kept.len() < 3 => {
                number += 1;
                let called = format!("s{number}");
                volume.create_snapshot(files[one].node, &name(&called)).unwrap();
                let bytes = files[one].bytes.clone();
                files[one].kept.push((called, bytes));
            }
            11 if files[one].is_named && !files[one].kept.is_empty() => {
                let position = random.below(files[one].kept.len() as u64) as usize;
                let (called, _) = files[one].kept.remove(position);
                volume.remove_snapshot(files[one].node, &name(&called)).unwrap();
            }
            12 => {
                let range = place as u64..(place + length) as u64;
                volume.allocate(files[one].node, range, random.below(2) == 0).unwrap();
                let size = volume.attributes(files[one].node).unwrap().size as usize;
                files[one].bytes.resize(size, 0);
            }
            13 => {
                if std::mem::replace(&mut files[one].is_named, false) {
                    volume.unlink(Node::ROOT, &name(&files[one].called)).unwrap();
                    files[one].kept.clear();
                } else {
                    volume.forget(files[one].node, 1);
                    files.remove(one);
                }
            }
            _ => {}
        }
        if operation % 40 == 39 {
            for file in &files {
                assert!(
                    content(&volume, file.node).unwrap() == file.bytes,
                    "{} after {operation}",
                    file.called
                );
            }
            checked_beside(&volume, &device);
        }
        if operation % 120 == 119 {
            files.retain(|file| {
                volume.forget(file.node, 1);
                file.is_named
            });
            volume.unmount().unwrap();
            checked(&device, &[]);
            volume = open(&device);
            for file in &mut files {
                file.node = volume.lookup(Node::ROOT, &name(&file.called)).unwrap();
                assert!(content(&volume, file.node).unwrap() == file.bytes, "{} opened again", file.called);
                for (called, bytes) in &file.kept {
                    let part = volume.stream(file.node, &name(called), false).unwrap();
                    assert!(&content(&volume, part).unwrap() == bytes, "{}:{called}", file.called);
                    volume.forget(part, 1);
                }
            }
        }
    }
    for file in &files {
        volume.forget(file.node, 1);
        if file.is_named {
            volume.unlink(Node::ROOT, &name(&file.called)).unwrap();
        }
    }
    assert_eq!(counted(&volume), 0);
    volume.unmount().unwrap();
    checked(&device, &[]);
}

#[test]
fn many_changes_of_shared_files() {
    for seed in 1..5 {
        shared_files(seed * 0x9E37_79B9, 600, seed % 2 == 0);
    }
}

#[test]
#[ignore = "a campaign"]
fn many_more_changes_of_shared_files() {
    for seed in 100..300 {
        shared_files(seed * 0x9E37_79B9, 3000, seed % 2 == 0);
    }
}
