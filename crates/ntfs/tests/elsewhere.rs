//! Files whose content a filter driver of Windows keeps elsewhere: nothing reads or writes what their unnamed stream
//! lacks, and everything else works. A file that has such a tag and all of its content is read as any other.

use crate::common::{USUAL, Volume, check_clean, names, open};
use platter_device::MemoryDevice;
use platter_ntfs::NtfsVolume;
use platter_vfs::{
    Change, Error, FileSystem, Kind, Names, Node, Plan, RenameFlags, Reparse, Result, Silent, Transfers,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Windows Overlay Filter, Data Deduplication, a cloud service, Hierarchical Storage Management.
const TAGS: [u32; 4] = [0x8000_0017, 0x8000_0013, 0x9000_601A, 0xC000_0004];
const SIZE: u64 = 300_000;

/// Reparse data that fits into the record, and data that needs a cluster of its own.
fn point(tag: u32, index: usize) -> Reparse {
    Reparse { tag, data: vec![1; if index.is_multiple_of(2) { 16 } else { 3000 }] }
}

/// A new file; `fill` says how much of its size is written.
fn file(system: &NtfsVolume, name: &str, fill: u64) -> Node {
    let node = system.create(Node::ROOT, &name.into(), Kind::File).unwrap();
    if fill > 0 {
        system.write(node, 0, &vec![7; fill as usize]).unwrap();
    }
    system.set_attributes(node, &Change { size: Some(SIZE), ..Change::default() }).unwrap();
    node
}

fn is_refused<T: std::fmt::Debug>(what: &str, outcome: Result<T>) {
    assert!(matches!(outcome, Err(Error::Unreadable(_))), "{what}: {outcome:?}");
}

fn refuses(system: &NtfsVolume, node: Node) {
    let mut buffer = vec![0; 5000];
    is_refused("read", system.read(node, 0, &mut buffer));
    is_refused("read within a sector", system.read(node, 700, &mut buffer[..9]));
    is_refused("read of the last byte", system.read(node, SIZE - 1, &mut buffer));
    is_refused("plan of a read", system.plan_read(node, 0, 4096, &mut Plan::default()));
    is_refused("write", system.write(node, 0, &[1; 8192]));
    is_refused("write within a sector", system.write(node, 5, &[1; 20]));
    is_refused("write at the end", system.write(node, SIZE, &[1; 20]));
    is_refused("plan of a write", system.plan_write(node, 4096, &[1; 4096], &mut Plan::default()));
    is_refused("truncation", system.set_attributes(node, &Change { size: Some(10), ..Change::default() }));
    is_refused("allocation", system.allocate(node, 0..SIZE, true));
    is_refused("hole", system.punch(node, 0..65536));
    // Its holes are no zeroes that a copy may leave out.
    is_refused("extents", system.extents(node));
}

#[test]
fn content_that_is_elsewhere_is_neither_read_nor_written() {
    for volume in [USUAL, Volume { cluster: 512, ..USUAL }, Volume { compress: true, ..USUAL }] {
        let device = volume.make();
        for (index, tag) in TAGS.into_iter().enumerate() {
            // A file to which nothing was ever written, and, without compression, one that has a part of its content.
            for fill in if volume.compress { &[0][..] } else { &[0, 50_000] } {
                println!("{volume:?}, tag {tag:#x}, {fill} bytes are there");
                let system = open(device.clone());
                let node = file(&system, "file", *fill);
                system.reparse_points().unwrap().set(node, Some(&point(tag, index))).unwrap();
                refuses(&system, node);
                system.unmount().unwrap();
                drop(system);

                let system = open(device.clone());
                let node = system.lookup(Node::ROOT, &"file".into()).unwrap();
                refuses(&system, node);
                assert_eq!(system.attributes(node).unwrap().size, SIZE);
                assert_eq!(system.reparse_points().unwrap().get(node).unwrap().unwrap().tag, tag);
                let stream = system.streams().unwrap().open(node, &"WofCompressedData".into(), true).unwrap();
                system.write(stream, 0, b"packed").unwrap();
                let mut buffer = [0; 6];
                assert_eq!(system.read(stream, 0, &mut buffer).unwrap(), 6);
                assert_eq!(&buffer, b"packed");
                system
                    .rename(Node::ROOT, &"file".into(), Node::ROOT, &"other".into(), RenameFlags::NoReplace)
                    .unwrap();
                assert!(names(&system, Node::ROOT).contains("other"));
                // Without its reparse point it is a file with holes.
                system.reparse_points().unwrap().set(node, None).unwrap();
                let mut buffer = vec![1; 1000];
                system.read(node, SIZE - 1000, &mut buffer).unwrap();
                assert!(buffer.iter().all(|&byte| byte == 0));
                system.reparse_points().unwrap().set(node, Some(&point(tag, index))).unwrap();
                refuses(&system, node);
                system.unlink(Node::ROOT, &"other".into()).unwrap();
                [stream, node].into_iter().for_each(|node| system.forget(node, 1));
                system.unmount().unwrap();
                check_clean(&*device).unwrap();
            }
        }
    }
}

/// The content of each file and stream that is recovered, by its path.
type Harvest = BTreeMap<String, Vec<u8>>;

/// What `recover` gives, and the files that it reports as lost, each with the reason.
fn recovered(device: Arc<MemoryDevice>) -> (Harvest, Vec<(String, String)>) {
    let mut found = BTreeMap::new();
    let report = platter_ntfs::recover(device, &Silent, &mut |file, data| {
        let mut path: String = file.path.iter().map(|name| format!("/{name}")).collect();
        path.extend(file.stream.iter().map(|stream| format!(":{stream}")));
        let mut bytes = vec![0; file.size as usize];
        assert_eq!(data.read(0, &mut bytes).unwrap(), bytes.len());
        assert!(found.insert(path, bytes).is_none());
        Ok(())
    });
    (found, report.unwrap().lost)
}

#[test]
fn content_that_is_there_is_read_whatever_the_tag() {
    let device = USUAL.make();
    let system = open(device.clone());
    let mut expected = BTreeMap::new();
    for (index, tag) in TAGS.into_iter().enumerate() {
        for (name, length) in [("empty", 0), ("small", 100), ("large", 200_000)] {
            let name = format!("{name} {index}");
            let node = system.create(Node::ROOT, &(&*name).into(), Kind::File).unwrap();
            let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            system.write(node, 0, &bytes).unwrap();
            system.reparse_points().unwrap().set(node, Some(&point(tag, index))).unwrap();
            expected.insert(name, bytes);
        }
        let gone = file(&system, &format!("gone {index}"), 0);
        system.reparse_points().unwrap().set(gone, Some(&point(tag, index))).unwrap();
        let stream = system.streams().unwrap().open(gone, &"s".into(), true).unwrap();
        system.write(stream, 0, b"of its own").unwrap();
    }
    system.unmount().unwrap();
    drop(system);
    let system = open(device.clone());
    for (name, bytes) in &expected {
        let node = system.lookup(Node::ROOT, &(&**name).into()).unwrap();
        let mut buffer = vec![0; bytes.len() + 1];
        assert_eq!(system.read(node, 0, &mut buffer).unwrap(), bytes.len(), "{name}");
        assert!(buffer[..bytes.len()] == bytes[..], "{name}");
        system.write(node, 0, &bytes[..bytes.len().min(1000)]).unwrap();
    }
    system.unmount().unwrap();
    check_clean(&*device).unwrap();

    let (mut found, lost) = recovered(device);
    for (name, bytes) in expected {
        assert!(found.remove(&format!("/{name}")) == Some(bytes), "{name}");
    }
    for index in 0..TAGS.len() {
        assert_eq!(found.remove(&format!("/gone {index}:s")).as_deref(), Some(&b"of its own"[..]));
    }
    assert!(found.is_empty(), "{:?}", found.keys());
    let paths: Vec<&str> = lost.iter().map(|(path, _)| &**path).collect();
    assert_eq!(paths, ["/gone 0", "/gone 1", "/gone 2", "/gone 3"]);
    assert!(lost[0].1.contains("Windows Overlay Filter") && lost[2].1.contains("cloud"), "{lost:?}");
}
