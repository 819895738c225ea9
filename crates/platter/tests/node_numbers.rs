//! The numbers of nodes on FAT and exFAT, which a mount shows as inode numbers: they come from the places of entries and
//! clusters.

use crate::common::mount::Random;
use platter_device::{Device, MemoryDevice, Sectors};
use platter_vfs::{
    Cursor, Error, FileSystem, FormatOptions, Kind, Name, Node, OpenOptions, RenameFlags, Silent,
};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

const FORMATS: [(&str, u64); 4] = [("fat12", 4), ("fat16", 32), ("fat32", 64), ("exfat", 32)];

fn made(format: &str, megabytes: u64) -> Arc<MemoryDevice> {
    let device = Arc::new(MemoryDevice::new(megabytes << 20, Sectors::SMALL));
    let options = FormatOptions { cluster: Some(512), ..FormatOptions::default() };
    let format = platter_formats::by_name(format).unwrap();
    let options = if format.name() == "fat32" { options } else { FormatOptions::default() };
    format.make(&*device, &options, &Silent).unwrap();
    device
}

fn open(device: &Arc<MemoryDevice>) -> Arc<dyn FileSystem> {
    platter_formats::open(device.clone() as Arc<dyn Device>, OpenOptions::default()).unwrap()
}

/// The numbers of all entries by path, looked up in one order or the other; a listing must say the same.
fn numbers(volume: &Arc<dyn FileSystem>, backwards: bool) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![(Node::ROOT, String::new())];
    while let Some((directory, path)) = waiting.pop() {
        let mut entries = Vec::new();
        volume.read_directory(directory, Cursor::START, 100_000, &mut entries).unwrap();
        if backwards {
            entries.reverse();
        }
        for entry in entries {
            let node = volume.lookup(directory, &entry.name).unwrap();
            assert_eq!(entry.node, Some(node), "{path}/{}", entry.name);
            let path = format!("{path}/{}", entry.name);
            assert_eq!(found.insert(path.clone(), node.0), None);
            match entry.attributes.kind {
                Kind::Directory => waiting.push((node, path)),
                _ => volume.forget(node, 1),
            }
        }
    }
    let distinct: std::collections::BTreeSet<&u64> = found.values().collect();
    assert_eq!(distinct.len(), found.len());
    found
}

/// Whatever was done before: nodes in memory have numbers of their own all the time, which stay with them, and the next
/// opening has the same ones as the one after, in whatever order it asks.
#[test]
fn numbers_are_unique_and_the_same_whenever_the_volume_is_opened() {
    for (format, megabytes) in FORMATS {
        let device = made(format, megabytes);
        let mut random = Random(7);
        let mut below = |end: usize| random.below(end as u64) as usize;
        let volume = open(&device);
        let mut directories = vec![Node::ROOT];
        for number in 0..4 {
            let name = Name::from(format!("directory {number}").as_str());
            let above = directories[below(directories.len())];
            directories.push(volume.create(above, &name, Kind::Directory).unwrap());
        }
        // Files that are held, with a tag in their size that tells which is which.
        let mut held: HashMap<u64, u64> = HashMap::new();
        let mut next = 1;
        for step in 0..4000 {
            let directory = directories[below(directories.len())];
            let name = |number: usize| Name::from(format!("a file with a name {number}").as_str());
            let one = name(below(25));
            match below(6) {
                0 | 1 => match volume.create(directory, &one, Kind::File) {
                    Ok(node) => {
                        volume.write(node, next, b"x").unwrap();
                        assert_eq!(held.insert(node.0, next + 1), None, "{format} {step}");
                        next = next % 5000 + 1;
                    }
                    Err(Error::Exists) => {}
                    Err(error) => panic!("{format}: {error}"),
                },
                2 => drop(volume.unlink(directory, &one)),
                3 => {
                    let (to, other) = (directories[below(directories.len())], name(below(25)));
                    drop(volume.rename(directory, &one, to, &other, RenameFlags::Replace));
                }
                4 => {
                    // One that is held is given back, also without a name.
                    if let Some(&node) = held.keys().min().filter(|_| held.len() > 20) {
                        held.remove(&node);
                        volume.forget(Node(node), 1);
                    }
                }
                _ => {
                    if let Ok(node) = volume.lookup(directory, &one) {
                        let size = volume.attributes(node).unwrap().size;
                        if let Some(known) = held.get(&node.0) {
                            assert_eq!(*known, size, "{format} {step}: another file has the number");
                        }
                        volume.forget(node, 1);
                    }
                    volume.sync_all().unwrap();
                }
            }
            for (node, size) in &held {
                assert_eq!(volume.attributes(Node(*node)).unwrap().size, *size, "{format} {step}");
            }
        }
        volume.unmount().unwrap();
        drop(volume);
        let [first, second] = [false, true].map(|backwards| {
            let volume = open(&device);
            let found = numbers(&volume, backwards);
            volume.unmount().unwrap();
            found
        });
        assert_eq!(first, second, "{format}");
        assert!(first.len() > 20 && first.values().all(|number| *number < 1 << 32), "{format}");
    }
}
