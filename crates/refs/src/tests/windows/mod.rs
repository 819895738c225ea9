//! Tests with structures that Windows writes and Platter does not. They are made here by hand, after the layouts that
//! forefst and refsprogs document; none of their bytes are from Windows.

mod bounds;
mod cased;
mod log;
mod runs;
mod sharing;
mod version_holes;
mod versions;

use crate::container::Tier;
use crate::core::{Core, ROOT_DIRECTORY};
use crate::layout::attribute::{DATA, EFS, MULTIPLE, NAMED_DATA, OBJECT_LINK, SINGLE};
use crate::layout::bytes::{put, u32_at, u64_at};
use crate::layout::record::key;
use crate::layout::{Attribute, Record, TreeNode, TreeNodeMut};
use crate::pages::Page;
use crate::{Refs, RefsVolume, attributes};
use platter_device::{MemoryDevice, Sectors};
use platter_vfs::{
    CheckOptions, Cursor, Entry, Error, FileSystem, Format, FormatOptions, Kind, Name, Names, Node,
    OpenOptions, Reparse, Result, ScrubOptions, Silent,
};
use std::sync::Arc;

pub(crate) fn name(text: &str) -> Name {
    Name::from(text)
}

/// Makes a new volume in memory.
pub(crate) fn made() -> Arc<MemoryDevice> {
    let device = Arc::new(MemoryDevice::new(384 << 20, Sectors::SMALL));
    let options = FormatOptions { serial: Some(8664), ..FormatOptions::default() };
    Refs::ANY.make(&*device, &options, &Silent).unwrap();
    device
}

pub(crate) fn open(device: &Arc<MemoryDevice>) -> RefsVolume {
    RefsVolume::open(device.clone(), OpenOptions::default()).unwrap()
}

/// Makes a file with this content in the root directory.
pub(crate) fn file(volume: &RefsVolume, called: &str, content: &[u8]) -> Node {
    let node = volume.create(Node::ROOT, &name(called), Kind::File).unwrap();
    volume.write(node, 0, content).unwrap();
    node
}

/// Opens the volume and changes the record of a file in the root directory.
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

pub(crate) fn content(volume: &RefsVolume, node: Node) -> Result<Vec<u8>> {
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

/// Asserts that a check finds exactly `codes` and a scrub finds no damage.
pub(crate) fn checked(device: &Arc<MemoryDevice>, codes: &[&str]) {
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
    volume.extended_attributes().unwrap().set(node, "user.a", Some(b"value")).unwrap();
    let stream = volume.streams().unwrap().open(node, &name("more"), true).unwrap();
    volume.write(stream, 0, &wanted[..9000]).unwrap();
    file(&volume, "beside", b"beside");
    volume.unmount().unwrap();
    change(&device, "outside", |core, record| {
        // A page of attributes, with another number than the directory's, and a node whose only row has an empty key
        // and refers to the page.
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
        assert!(TreeNodeMut::empty(&mut value[Record::HEADER..], 1, 3).insert(0, &[], 0, &target));
        put(&mut value, 0x18, 1u64);
        put(&mut value, 0x20, rows.len() as u64);
        Some(value)
    });
    checked(&device, &[]);
    let volume = open(&device);
    assert_eq!(listed(&volume).len(), 2);
    let node = volume.lookup(Node::ROOT, &name("outside")).unwrap();
    assert_eq!(content(&volume, node).unwrap(), wanted);
    assert_eq!(volume.extended_attributes().unwrap().get(node, "user.a").unwrap(), b"value");
    let stream = volume.streams().unwrap().open(node, &name("more"), false).unwrap();
    assert_eq!(content(&volume, stream).unwrap(), &wanted[..9000]);
    // The file is only read; the rest of the volume can be changed.
    let refused =
        |outcome: Result<()>| assert!(matches!(outcome, Err(Error::NotPermitted(_))), "{outcome:?}");
    refused(volume.write(node, 0, b"x"));
    refused(volume.write(stream, 0, b"x"));
    refused(volume.unlink(Node::ROOT, &name("outside")));
    refused(volume.rename(Node::ROOT, &name("outside"), Node::ROOT, &name("other"), Default::default()));
    refused(volume.link(node, Node::ROOT, &name("other")));
    refused(volume.extended_attributes().and_then(|part| part.set(node, "user.b", Some(b""))));
    refused(volume.streams().and_then(|part| part.open(node, &name("third"), true)).map(drop));
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

/// Sets the valid data length of a file.
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
        volume
            .integrity()
            .unwrap()
            .set(node, platter_vfs::Integrity { enabled: integrity, enforced: true })
            .unwrap();
        volume.unmount().unwrap();
        cut_valid(&device, "f", 10_000);
        checked(&device, &[]);
        let volume = open(&device);
        let node = volume.lookup(Node::ROOT, &name("f")).unwrap();
        let mut wanted = vec![0; 40_000];
        wanted[..10_000].fill(7);
        assert_eq!(content(&volume, node).unwrap(), wanted);
        // A write after the valid data length: the bytes between read as zeroes from now on.
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

/// Records of Windows have 1 as the number of their names, whatever it is, and some have the link to a name twice.
#[test]
fn names_are_counted_by_the_links_of_a_record() {
    let device = made();
    let volume = open(&device);
    let node = file(&volume, "one", b"content");
    volume.link(node, Node::ROOT, &name("two")).unwrap();
    let id = {
        let core = volume.core();
        core.entity(node.0).unwrap().id
    };
    let crate::core::Id::File(home, ordinal) = id else { panic!("{id:?}") };
    volume.unmount().unwrap();
    let volume = open(&device);
    {
        let mut core = volume.core();
        let row = key::body(ordinal, home);
        let (tree, pages) = core.tree_mut(home).unwrap();
        let value = tree.get(pages, &row, |row| row.value.to_vec()).unwrap().unwrap();
        let mut record = Record::from_bytes(&value, 0).unwrap();
        // The field for the number of names is 1 on volumes of Windows, however many there are.
        record.links = 1;
        let link = record.rows.iter().find(|row| row.kind() == OBJECT_LINK).unwrap().clone();
        let at = record.rows.iter().position(|row| row.kind() == OBJECT_LINK).unwrap();
        record.rows.insert(at, link);
        tree.put(pages, &row, 1, &record.to_bytes()).unwrap();
    }
    volume.unmount().unwrap();
    checked(&device, &[]);
    let volume = open(&device);
    let node = volume.lookup(Node::ROOT, &name("one")).unwrap();
    assert_eq!(volume.attributes(node).unwrap().links, 2);
    volume.unlink(Node::ROOT, &name("one")).unwrap();
    assert_eq!(volume.attributes(node).unwrap().links, 1);
    volume.forget(node, 1);
    volume.unmount().unwrap();
    checked(&device, &[]);
    let volume = open(&device);
    let node = volume.lookup(Node::ROOT, &name("two")).unwrap();
    assert_eq!(content(&volume, node).unwrap(), b"content");
    volume.forget(node, 1);
    volume.unlink(Node::ROOT, &name("two")).unwrap();
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
    // A further file, so that the clusters allocated for "f" are not the last that were ever written.
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
    // The write went to clusters that were allocated before.
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
    volume.reparse_points().unwrap().set(node, Some(&pipe)).unwrap();
    // The data of a tag that is not Microsoft's begins with a GUID, which its length does not count.
    let foreign = file(&volume, "foreign", b"");
    let point = Reparse { tag: 0x0000_0042, data: vec![7; 24] };
    volume.reparse_points().unwrap().set(foreign, Some(&point)).unwrap();
    assert_eq!(volume.reparse_points().unwrap().get(foreign).unwrap().unwrap(), point);
    assert!(
        volume
            .reparse_points()
            .and_then(|part| part.set(foreign, Some(&Reparse { data: vec![7; 15], ..point })))
            .is_err()
    );
    volume.unlink(Node::ROOT, &name("foreign")).unwrap();
    let link = file(&volume, "linux", b"");
    let mut data = vec![2, 0, 0, 0];
    data.extend("/etc/pässwd".bytes());
    volume
        .reparse_points()
        .unwrap()
        .set(link, Some(&Reparse { tag: platter_vfs::reparse::LINUX_SYMLINK, data }))
        .unwrap();
    let full = file(&volume, "full", b"x");
    let symlink = platter_vfs::reparse::link_to("elsewhere").unwrap();
    assert!(volume.reparse_points().and_then(|part| part.set(full, Some(&symlink))).is_err());
    assert!(
        volume
            .reparse_points()
            .and_then(|part| part.set(full, Some(&Reparse { tag: 0x8000_0013, data: Vec::new() })))
            .is_err()
    );
    // A directory that is a junction.
    let junction = volume.create(Node::ROOT, &name("junction"), Kind::Directory).unwrap();
    let target: Vec<u8> = r"\??\C:\a".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let mut data = vec![0; 8];
    put(&mut data, 2, target.len() as u16);
    data.extend(&target);
    let point = Reparse { tag: platter_vfs::reparse::JUNCTION, data };
    volume.reparse_points().unwrap().set(junction, Some(&point)).unwrap();
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
    assert_eq!(volume.reparse_points().unwrap().get(find("pipe")).unwrap(), Some(pipe));
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
    volume.reparse_points().unwrap().set(pipe, None).unwrap();
    assert_eq!(volume.reparse_points().unwrap().get(pipe).unwrap(), None);
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
    let inherited = volume.security_descriptors().unwrap().get(node).unwrap();
    assert_eq!(inherited, crate::layout::system::file_descriptor());
    let everything = Ace { flags: Ace::HERE, mask: Ace::FULL, trustee: Sid::USERS };
    let own = descriptor(Sid::USERS, Sid::SYSTEM, &[everything]);
    volume.security_descriptors().unwrap().set(node, &own).unwrap();
    volume.security_descriptors().unwrap().set(Node::ROOT, &own).unwrap();
    for wrong in [&[][..], &own[..19], &[2; 40], &[0; 5000]] {
        assert!(volume.security_descriptors().and_then(|part| part.set(node, wrong)).is_err());
    }
    volume.unmount().unwrap();
    checked(&device, &[]);
    let volume = open(&device);
    let node = volume.lookup(Node::ROOT, &name("f")).unwrap();
    assert_eq!(volume.security_descriptors().unwrap().get(node).unwrap(), own);
    assert_eq!(volume.security_descriptors().unwrap().get(Node::ROOT).unwrap(), own);
    let below = volume.create(Node::ROOT, &name("d"), Kind::Directory).unwrap();
    assert_eq!(volume.security_descriptors().unwrap().get(below).unwrap(), own);
}

#[test]
fn security_descriptors_with_one_hash() {
    use crate::layout::system::file_descriptor;
    use crate::layout::system::security::descriptor_hash;
    let device = made();
    let volume = open(&device);
    // Appends two words whose effects on the hash cancel out: the first is rotated by three bits before the second is
    // added.
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
    volume.security_descriptors().unwrap().set(first, &one).unwrap();
    volume.security_descriptors().unwrap().set(second, &two).unwrap();
    volume.unmount().unwrap();
    checked(&device, &[]);
    let volume = open(&device);
    for (called, wanted) in [("one", one), ("two", two)] {
        let node = volume.lookup(Node::ROOT, &name(called)).unwrap();
        assert_eq!(volume.security_descriptors().unwrap().get(node).unwrap(), wanted);
    }
}
