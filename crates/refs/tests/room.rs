//! Accepted changes are stored: none is accepted that the next commit has no room for, and an operation that fails
//! gives back the clusters that it took.

use crate::common::{V3_14, VOLUMES, Volume, check_clean, content, open};
use platter_device::{Device, MemoryDevice, Sectors};
use platter_refs::RefsVolume;
use platter_vfs::{Cursor, Error, FileSystem, Integrity, Kind, Name, Names, Node};
use std::sync::Arc;

fn volume(of: Volume, bytes: u64) -> Arc<MemoryDevice> {
    let sectors = Sectors { logical: of.sector, physical: of.sector };
    let device = Arc::new(MemoryDevice::new(bytes, sectors));
    of.make_on(&*device);
    device
}

fn file(system: &RefsVolume, name: &str) -> Node {
    system.create(Node::ROOT, &Name::from(name), Kind::File).unwrap()
}

fn names(system: &RefsVolume) -> Vec<String> {
    let mut entries = Vec::new();
    system.read_directory(Node::ROOT, Cursor::START, usize::MAX, &mut entries).unwrap();
    entries.into_iter().map(|entry| entry.name.to_string()).collect()
}

/// Fills a volume with files until there is no room; `put` puts something into each. At first a large file takes the
/// space except for `leave` bytes. Checks that all files are there afterwards and that the volume can still be changed.
/// Returns the number of files.
fn fill(of: Volume, leave: u64, put: impl Fn(&RefsVolume, Node, u64) -> Result<(), Error>) -> u64 {
    let device = volume(of, 400 << 20);
    let system = open(device.clone());
    // The space that this file leaves is for pages.
    let large = file(&system, "large");
    let mut at = 0;
    while system.space().unwrap().free * of.cluster > leave {
        match system.write(large, at, &vec![7; 1 << 20]) {
            Err(Error::NoSpace) => break,
            written => written.unwrap(),
        }
        at += 1 << 20;
    }
    let mut count = 0;
    let refused = loop {
        let name = Name::from(format!("{count}").as_str());
        let made = system.create(Node::ROOT, &name, Kind::File).and_then(|node| {
            let put = put(&system, node, count);
            system.forget(node, 1);
            put
        });
        match made {
            Ok(()) => count += 1,
            Err(error) => break error,
        }
        assert!(count < 1_000_000);
    };
    assert!(matches!(refused, Error::NoSpace), "{of:?}: after {count}: {refused}");
    system.sync_all().unwrap_or_else(|error| panic!("{of:?}: after {count}: {error}"));
    system.unmount().unwrap();
    drop(system);
    check_clean(&*device).unwrap_or_else(|fault| panic!("{of:?}: {fault}"));
    let system = open(device.clone() as Arc<dyn Device>);
    let found = names(&system).len() as u64;
    // The last file may be there without the part that was refused.
    assert!((count + 1..=count + 2).contains(&found), "{of:?}: {found} of {count}");
    // Once files are removed, there is room again.
    system.unlink(Node::ROOT, &Name::from("large")).unwrap();
    for number in 0..count.min(2000) {
        system.unlink(Node::ROOT, &Name::from(format!("{number}").as_str())).unwrap();
    }
    system.sync_all().unwrap();
    let node = file(&system, "again");
    system.write(node, 0, &vec![1; 1 << 20]).unwrap();
    system.unmount().unwrap();
    check_clean(&*device).unwrap_or_else(|fault| panic!("{of:?}: {fault}"));
    count
}

#[test]
fn attributes_are_refused_when_there_is_no_room_for_them() {
    for of in [VOLUMES[0], VOLUMES[2]] {
        let count = fill(of, 64 << 20, |system, node, number| {
            system
                .extended_attributes()
                .and_then(|part| part.set(node, "user.some", Some(&content(number, 3000))))
        });
        assert!(count > 5_000, "{of:?}: {count}");
    }
}

#[test]
fn content_in_records_is_refused_when_there_is_no_room_for_it() {
    let count = fill(V3_14, 32 << 20, |system, node, number| system.write(node, 0, &content(number, 1500)));
    assert!(count > 5_000, "{count}");
}

#[test]
fn streams_are_refused_when_there_is_no_room_for_them() {
    fill(V3_14, 32 << 20, |system, node, number| {
        for name in ["one", "two", "three"] {
            let stream = system.streams()?.open(node, &Name::from(name), true)?;
            let written = system.write(stream, 0, &content(number, 1800));
            system.forget(stream, 1);
            written?;
        }
        Ok(())
    });
}

/// Runs of single clusters: every second cluster of a full volume is given back, and another file takes them.
#[test]
fn runs_are_refused_when_there_is_no_room_for_them() {
    for of in [V3_14, VOLUMES[1]] {
        let device = volume(of, 400 << 20);
        let system = open(device.clone());
        let large = file(&system, "large");
        let mut at = 0;
        while system.write(large, at, &vec![7; 1 << 20]).is_ok() {
            at += 1 << 20;
        }
        system.sync_all().unwrap();
        for cluster in (0..at / 4096).step_by(2) {
            system.punch(large, cluster * 4096..cluster * 4096 + 4096).unwrap();
        }
        system.sync_all().unwrap();
        let other = file(&system, "other");
        let mut end = 0;
        while system.write(other, end * 8192, &content(end, 4096)).is_ok() {
            end += 1;
        }
        system.sync_all().unwrap();
        assert!(end > 5_000, "{of:?}: {end}");
        system.unmount().unwrap();
        drop(system);
        check_clean(&*device).unwrap_or_else(|fault| panic!("{of:?}: {fault}"));
        let system = open(device.clone() as Arc<dyn Device>);
        let other = system.lookup(Node::ROOT, &Name::from("other")).unwrap();
        let mut bytes = vec![0; 4096];
        for number in 0..end {
            system.read(other, number * 8192, &mut bytes).unwrap();
            assert!(bytes == content(number, 4096), "{of:?}: {number} of {end}");
        }
        system.unlink(Node::ROOT, &Name::from("other")).unwrap();
        system.unlink(Node::ROOT, &Name::from("large")).unwrap();
        system.unmount().unwrap();
        check_clean(&*device).unwrap_or_else(|fault| panic!("{of:?}: {fault}"));
    }
}

/// Many files are written in place. No room is reserved for their times before a commit stores these.
#[test]
fn times_of_what_was_written_in_place_find_room() {
    let device = volume(V3_14, 400 << 20);
    let system = open(device.clone());
    let large = file(&system, "large");
    let many: Vec<Node> = (0..8_000)
        .map(|number| {
            let node = file(&system, &format!("{number}"));
            system.write(node, 0, &[1; 4096]).unwrap();
            node
        })
        .collect();
    let mut at = 0;
    while system.write(large, at, &vec![7; 1 << 20]).is_ok() {
        at += 1 << 20;
    }
    let mut count = 0;
    while let Ok(node) =
        system.create(Node::ROOT, &Name::from(format!("directory {count}").as_str()), Kind::Directory)
    {
        system.forget(node, 1);
        count += 1;
    }
    system.sync_all().unwrap();
    for _ in 0..2 {
        many.iter().for_each(|&node| system.write(node, 0, &[2; 4096]).unwrap());
        system.sync_all().unwrap();
    }
    system.unmount().unwrap();
    check_clean(&*device).unwrap();
}

#[test]
fn a_failed_allocation_gives_back_what_it_took() {
    for of in VOLUMES.into_iter().filter(|of| !of.integrity) {
        let device = volume(of, 400 << 20);
        let system = open(device.clone());
        let node = file(&system, "file");
        let before = system.space().unwrap().free;
        for keep_size in [true, false] {
            let refused = system.allocate(node, 0..1 << 30, keep_size);
            assert!(matches!(refused, Err(Error::NoSpace)), "{of:?}: {refused:?}");
            let attributes = system.attributes(node).unwrap();
            assert_eq!((attributes.size, attributes.allocated), (0, 0), "{of:?}");
        }
        // Data leaves room for the pages of the next commit, so an allocation of all free clusters may be refused after
        // it has taken most of them.
        let refused = system.allocate(node, 0..before * of.cluster, true);
        assert!(matches!(refused, Err(Error::NoSpace) | Ok(())), "{of:?}: {refused:?}");
        system.unlink(Node::ROOT, &Name::from("file")).unwrap();
        system.forget(node, 1);
        file(&system, "file");
        system.sync_all().unwrap();
        // All clusters are free again but those of the log of syncs, which the first sync makes.
        let after = system.space().unwrap().free * of.cluster;
        assert!(after + (1 << 20) > before * of.cluster, "{of:?}: {after}");
        system.unmount().unwrap();
        drop(system);
        check_clean(&*device).unwrap_or_else(|fault| panic!("{of:?}: {fault}"));
        let system = open(device.clone() as Arc<dyn Device>);
        assert!(system.space().unwrap().free * of.cluster + (1 << 20) > before * of.cluster, "{of:?}");
        let node = system.lookup(Node::ROOT, &Name::from("file")).unwrap();
        system.write(node, 0, &vec![1; 64 << 20]).unwrap();
    }
}

#[test]
fn allocation_for_a_file_with_integrity_is_refused() {
    let device = volume(V3_14, 400 << 20);
    let system = open(device);
    let node = file(&system, "file");
    system.integrity().unwrap().set(node, Integrity { enabled: true, enforced: true }).unwrap();
    let refused = system.allocate(node, 0..1 << 30, false);
    assert!(matches!(refused, Err(Error::Unsupported { .. })), "{refused:?}");
    assert_eq!(system.attributes(node).unwrap().size, 0);
}

#[test]
fn a_label_that_would_come_back_otherwise_is_refused() {
    let device = volume(V3_14, 400 << 20);
    let system = open(device);
    system.set_label("label").unwrap();
    for label in ["\0", "a\0b", "a\0"] {
        let refused = system.set_label(label);
        assert!(matches!(refused, Err(Error::InvalidName { .. })), "{label:?}: {refused:?}");
    }
    assert_eq!(system.info().unwrap().label, "label");
}
