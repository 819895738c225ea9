//! Every bit of every entry set, flipped one by one: a repair takes of the possible readings of a set the one that its
//! checksum, the hash of its name and the rest of the volume confirm.

use crate::damaged::Volume;
use platter_device::{MemoryDevice, Sectors};
use platter_exfat::layout::{EntrySet, SLOT, Upcase};
use platter_exfat::{Exfat, ExfatVolume};
use platter_testing::model::{Clock, ClockedDevice, told};
use platter_vfs::{
    Change, CheckOptions, FileSystem, Format, FormatOptions, Kind, Name, Names, Node, OpenOptions, Silent,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// A small volume that has a file or directory of each kind.
fn volume() -> Vec<u8> {
    let memory = Arc::new(MemoryDevice::new(1 << 20, Sectors::SMALL));
    // All times are the same, so that a bit of one of them is seen to be wrong.
    let device = Arc::new(ClockedDevice::new(memory.clone(), Clock::new(Duration::from_secs(1_700_000_000))));
    let options = FormatOptions {
        cluster: Some(512),
        label: Some("Bits".into()),
        serial: Some(8664),
        ..FormatOptions::default()
    };
    Exfat.make(&*device, &options, &Silent).unwrap();
    let volume = ExfatVolume::open(device.clone(), OpenOptions::default()).unwrap();
    let make = |above: Node, name: &str, kind| volume.create(above, &Name::from(name), kind).unwrap();
    let fill = |node: Node, from: u64, size: usize, seed: u8| {
        let bytes: Vec<u8> = (0..size).map(|at| (at as u8).wrapping_mul(seed) | 1).collect();
        volume.write(node, from, &bytes).unwrap();
    };
    let directory = make(Node::ROOT, "dir", Kind::Directory);
    let letter = make(directory, "letter to the editor.txt", Kind::File);
    fill(letter, 0, 5000, 3);
    let inner = make(Node::ROOT, "inner", Kind::Directory);
    let deeper = make(inner, "deeper", Kind::Directory);
    fill(make(deeper, "bottom", Kind::File), 0, 700, 5);
    make(Node::ROOT, "empty directory", Kind::Directory);
    make(Node::ROOT, "empty file", Kind::File);
    let [one, two] = ["in pieces.data", "IN PARTS"].map(|name| make(Node::ROOT, name, Kind::File));
    for turn in 0..3 {
        fill(one, turn * 1024, 1024, 7);
        volume.sync_all().unwrap();
        fill(two, turn * 600, 600, 11);
        volume.sync_all().unwrap();
    }
    let long =
        make(Node::ROOT, "A file with a name that takes more than three of the slots for names", Kind::File);
    fill(long, 0, 2048, 13);
    fill(make(Node::ROOT, "one cluster", Kind::File), 0, 512, 17);
    let room = make(Node::ROOT, "room", Kind::File);
    fill(room, 0, 900, 19);
    volume.set_attributes(room, &Change { size: Some(3000), ..Change::default() }).unwrap();
    volume.unmount().unwrap();
    memory.to_image()
}

type Tree = BTreeMap<String, (bool, Vec<u8>)>;

/// Returns what a volume shows: the kind and content of each path.
fn tree(image: &[u8]) -> Tree {
    let volume = Volume::new(image.to_vec());
    let contents = volume.contents();
    let entry = |path: &String, is_directory| {
        (path.clone(), (is_directory, contents.get(path).cloned().unwrap_or_default()))
    };
    volume.found.iter().map(|found| entry(&found.path, found.is_directory())).collect()
}

/// Whether nothing but the name of a file differs, and the checksum and the hash allow several names: both sum up the units
/// of a name in the same way, so they confirm some names that differ in one bit each.
fn is_name_open(damaged: &[u8], slots: &[usize], before: &Tree, after: &Tree, path: &str) -> bool {
    let upcase = Upcase::recommended();
    let mut set: Vec<[u8; SLOT]> =
        slots.iter().map(|&at| damaged[at..at + SLOT].try_into().unwrap()).collect();
    let mut names = BTreeSet::new();
    for bit in 0..set.len() * 256 {
        let (slot, byte) = (bit / 256, bit / 8 % 32);
        set[slot][byte] ^= 1 << (bit % 8);
        if let Ok(set) = EntrySet::read(&set, &upcase) {
            names.insert(set.name().to_string());
        }
        set[slot][byte] ^= 1 << (bit % 8);
    }
    let (above, own) = path.rsplit_once('/').unwrap();
    let renamed = |name: &String| -> Tree {
        let moved = |at: &String| match at.strip_prefix(path) {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{above}/{name}{rest}"),
            _ => at.clone(),
        };
        before.iter().map(|(at, value)| (moved(at), value.clone())).collect()
    };
    names.len() > 1 && names.contains(own) && names.iter().any(|name| renamed(name) == *after)
}

#[test]
fn no_bit_of_an_entry_set_costs_a_file() {
    let image = volume();
    let before = tree(&image);
    let sets: Vec<(String, Vec<usize>)> =
        Volume::new(image.clone()).found.into_iter().map(|found| (found.path, found.slots)).collect();
    let mut wrong = Vec::new();
    let (mut flips, mut open) = (0, 0);
    for (path, slots) in &sets {
        for (number, slot) in slots.iter().enumerate() {
            for bit in 0..256 {
                let mut damaged = image.clone();
                damaged[slot + bit / 8] ^= 1 << (bit % 8);
                let device = MemoryDevice::from_image(&damaged, Sectors::SMALL);
                let report = Exfat.check(&device, CheckOptions { repair: true }, &Silent).unwrap();
                let after = tree(&device.to_image());
                flips += 1;
                // Of a file that is not wholly written nothing but the checksum confirms how much of it is, and how long it
                // is; and a wrong bit of the checksum itself looks the same.
                let is_length = path == "/room" && number == 1 && matches!(bit / 8, 8..16 | 24..32);
                if after == before || is_length {
                    continue;
                }
                if is_name_open(&damaged, slots, &before, &after, path) {
                    open += 1;
                } else {
                    let differs = before.iter().filter(|(path, value)| after.get(*path) != Some(value));
                    let lost: Vec<&String> = differs.map(|(path, _)| path).collect();
                    let new: Vec<&String> = after.keys().filter(|path| !before.contains_key(*path)).collect();
                    wrong.push(format!(
                        "{path}, slot {number}, byte {}, bit {}: without {lost:?}, new {new:?}\n{}",
                        bit / 8,
                        bit % 8,
                        told(&report)
                    ));
                }
            }
        }
    }
    println!("{flips} flips, {} wrong, {open} with several names", wrong.len());
    assert!(wrong.is_empty(), "{} of {flips}:\n{}", wrong.len(), wrong.join("\n"));
}
