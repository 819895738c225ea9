//! The numbers of nodes, which a mount shows as inode numbers: they are the same whenever a volume is opened.

use crate::common::{V3_14, VOLUMES, open};
use platter_device::MemoryDevice;
use platter_refs::RefsVolume;
use platter_vfs::{Cursor, FileSystem, Kind, Name, Names, Node, RenameFlags};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The numbers of all entries by path, in the order in which they are looked up; a listing must say the same.
fn numbers(volume: &RefsVolume, backwards: bool) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![(Node::ROOT, String::new())];
    while let Some((directory, path)) = waiting.pop() {
        let mut entries = Vec::new();
        volume.read_directory(directory, Cursor::START, 1000, &mut entries).unwrap();
        if backwards {
            entries.reverse();
        }
        for entry in entries {
            let listed = entry.node.expect("known without a look-up");
            let node = volume.lookup(directory, &entry.name).unwrap();
            assert_eq!(node, listed, "{path}/{}", entry.name);
            let path = format!("{path}/{}", entry.name);
            found.insert(path.clone(), node.0);
            match entry.attributes.kind {
                Kind::Directory => waiting.push((node, path)),
                _ => volume.forget(node, 1),
            }
        }
    }
    found
}

fn rename(volume: &RefsVolume, from: Node, name: &str, to: Node, new: &str) {
    volume.rename(from, &name.into(), to, &new.into(), RenameFlags::default()).unwrap();
}

fn make(device: &Arc<MemoryDevice>, has_links: bool) {
    let volume = open(device.clone());
    for directory in ["a", "b", "c"] {
        let above = volume.create(Node::ROOT, &directory.into(), Kind::Directory).unwrap();
        for number in 0..50 {
            let file = volume.create(above, &Name::from(&*number.to_string()), Kind::File).unwrap();
            if has_links && number == 7 {
                volume.link(file, Node::ROOT, &Name::from(&*format!("{directory} link"))).unwrap();
            }
        }
        volume.symlink(above, &"symlink".into(), "target").unwrap();
    }
    let [a, b] = ["a", "b"].map(|name| volume.lookup(Node::ROOT, &name.into()).unwrap());
    rename(&volume, a, "1", b, "moved");
    rename(&volume, a, "2", a, "renamed");
    rename(&volume, Node::ROOT, "c", b, "c");
    volume.unmount().unwrap();
}

#[test]
fn a_node_has_the_same_number_whenever_the_volume_is_opened() {
    for kind in VOLUMES {
        let device = kind.make();
        make(&device, kind.version == "3.14");
        let [first, second] = [false, true].map(|backwards| {
            let volume = open(device.clone());
            let found = numbers(&volume, backwards);
            volume.unmount().unwrap();
            found
        });
        assert_eq!(first, second, "{kind:?}");
        let distinct: BTreeSet<u64> = first.values().copied().collect();
        let shared = if kind.version == "3.14" { 3 } else { 0 };
        assert_eq!(distinct.len() + shared, first.len(), "{kind:?}");
        assert!(distinct.first().is_some_and(|least| *least > u64::from(u32::MAX)));
    }
}

/// While a node is in use it keeps its number, although its home is removed.
#[test]
fn a_node_in_use_keeps_its_number() {
    let device = V3_14.make();
    let volume = open(device.clone());
    let home = volume.create(Node::ROOT, &"home".into(), Kind::Directory).unwrap();
    let file = volume.create(home, &"file".into(), Kind::File).unwrap();
    volume.write(file, 0, b"content").unwrap();
    rename(&volume, home, "file", Node::ROOT, "file");
    volume.forget(home, 1);
    volume.rmdir(Node::ROOT, &"home".into()).unwrap();
    assert_eq!(volume.lookup(Node::ROOT, &"file".into()).unwrap(), file);
    let other = volume.create(Node::ROOT, &"other".into(), Kind::File).unwrap();
    assert_ne!(other, file);
    volume.sync_all().unwrap();
    let mut read = [0; 7];
    assert_eq!(volume.read(file, 0, &mut read).unwrap(), 7);
    assert_eq!(&read, b"content");
    volume.unmount().unwrap();
    crate::common::check_clean(&*device).unwrap();
}

/// A file that is removed while it is open and one that is made meanwhile are never taken for each other.
#[test]
fn a_number_is_that_of_one_file() {
    let device = V3_14.make();
    let volume = open(device.clone());
    let mut seen = BTreeSet::new();
    let mut open_files = Vec::new();
    for round in 0..20u8 {
        let file = volume.create(Node::ROOT, &"file".into(), Kind::File).unwrap();
        assert!(seen.insert(file));
        volume.write(file, 0, &[round; 3000]).unwrap();
        volume.unlink(Node::ROOT, &"file".into()).unwrap();
        open_files.push((file, round));
        if round % 5 == 4 {
            volume.sync_all().unwrap();
        }
    }
    for (file, round) in open_files {
        let mut read = [0; 3000];
        assert_eq!(volume.read(file, 0, &mut read).unwrap(), 3000);
        assert_eq!(read, [round; 3000]);
        volume.forget(file, 1);
    }
    volume.unmount().unwrap();
    crate::common::check_clean(&*device).unwrap();
}
