//! Every bit of every entry, flipped one by one: a repair takes of the possible readings of an entry the one that the long
//! name's checksum, the FAT, the dot entries and the rest of the volume confirm.

use crate::damaged::Volume;
use platter_device::{MemoryDevice, Sectors};
use platter_fat::layout::FatKind;
use platter_fat::{Fat, FatVolume};
use platter_testing::model::told;
use platter_vfs::{
    CheckOptions, FileSystem, Format, FormatOptions, Kind, Name, Names, Node, OpenOptions, Silent,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A small volume that has a file or directory of each kind.
fn volume(kind: FatKind) -> Vec<u8> {
    let (format, length) = match kind {
        FatKind::Fat12 => (Fat::FAT12, 256 << 10),
        FatKind::Fat16 => (Fat::FAT16, 3 << 20),
        FatKind::Fat32 => (Fat::FAT32, 36 << 20),
    };
    let device = Arc::new(MemoryDevice::new(length, Sectors::SMALL));
    let options = FormatOptions {
        cluster: Some(512),
        label: Some("BITS".into()),
        serial: Some(8664),
        ..FormatOptions::default()
    };
    format.make(&*device, &options, &Silent).unwrap();
    let volume = FatVolume::open(device.clone(), OpenOptions::default()).unwrap();
    let make = |above: Node, name: &str, kind| volume.create(above, &Name::from(name), kind).unwrap();
    let fill = |node: Node, from: u64, size: usize, seed: u8| {
        let bytes: Vec<u8> = (0..size).map(|at| (at as u8).wrapping_mul(seed) | 1).collect();
        volume.write(node, from, &bytes).unwrap();
    };
    let directory = make(Node::ROOT, "dir", Kind::Directory);
    let letter = make(directory, "letter to the editor.txt", Kind::File);
    fill(letter, 0, 5000, 3);
    let inner = make(Node::ROOT, "an inner directory", Kind::Directory);
    let deeper = make(inner, "deeper", Kind::Directory);
    fill(make(deeper, "bottom", Kind::File), 0, 700, 5);
    make(Node::ROOT, "empty directory", Kind::Directory);
    make(Node::ROOT, "empty file", Kind::File);
    let [one, two] = ["in pieces.data", "PARTS.TXT"].map(|name| make(Node::ROOT, name, Kind::File));
    for turn in 0..3 {
        fill(one, turn * 1024, 1024, 7);
        volume.sync_all().unwrap();
        fill(two, turn * 600, 600, 11);
        volume.sync_all().unwrap();
    }
    let long = make(Node::ROOT, "A file with a name that takes more than three of the slots", Kind::File);
    fill(long, 0, 2048, 13);
    volume.unmount().unwrap();
    device.to_image()
}

type Tree = BTreeMap<String, (bool, Vec<u8>)>;

/// Returns what a volume shows: the kind and content of each path.
fn tree(image: &[u8]) -> Tree {
    let volume = Volume::new(image.to_vec());
    let contents = volume.contents();
    let entry = |path: &String, is_directory| {
        (path.clone(), (is_directory, contents.get(path).cloned().unwrap_or_default()))
    };
    volume.found.iter().map(|found| entry(&found.path, found.entry.attributes.directory())).collect()
}

/// Whether nothing on the volume says what a bit was: the characters of a long name, a short name and its case without a long
/// one, and how much of the last two clusters belongs to a file.
fn is_open(is_part: bool, has_long_name: bool, bit: usize) -> bool {
    match (is_part, bit / 8) {
        (true, byte) => matches!(byte, 1..11 | 14..26 | 28..32),
        (false, 0..=10 | 12) => !has_long_name,
        (false, 28) => true,
        // A chain that is one cluster longer may be due to a wrong link as well.
        (false, 29) => bit % 8 <= 1,
        _ => false,
    }
}

#[test]
fn no_bit_of_an_entry_costs_a_file() {
    let image = volume(FatKind::Fat12);
    let before = tree(&image);
    let found = Volume::new(image.clone()).found;
    let mut wrong = Vec::new();
    let mut flips = 0;
    for (path, slots) in found.into_iter().map(|found| (found.path, found.slots)) {
        for (number, slot) in slots.iter().enumerate() {
            for bit in 0..256 {
                // A number that becomes 0 is an end mark.
                let is_end = bit < 8 && image[*slot] == 1 << bit;
                if is_end || is_open(number + 1 < slots.len(), slots.len() > 1, bit) {
                    continue;
                }
                let mut damaged = image.clone();
                damaged[slot + bit / 8] ^= 1 << (bit % 8);
                let device = MemoryDevice::from_image(&damaged, Sectors::SMALL);
                let report = Fat::ANY.check(&device, CheckOptions { repair: true }, &Silent).unwrap();
                let after = tree(&device.to_image());
                flips += 1;
                if after != before {
                    let what = if number + 1 == slots.len() { "entry" } else { "part" };
                    let differs = before.iter().filter(|(path, value)| after.get(*path) != Some(value));
                    let lost: Vec<&String> = differs.map(|(path, _)| path).collect();
                    let new: Vec<&String> = after.keys().filter(|path| !before.contains_key(*path)).collect();
                    wrong.push(format!(
                        "{what} {number} of {path}, byte {}, bit {}: without {lost:?}, new {new:?}\n{}",
                        bit / 8,
                        bit % 8,
                        told(&report)
                    ));
                }
            }
        }
    }
    println!("{flips} flips, {} wrong", wrong.len());
    assert!(wrong.is_empty(), "{} of {flips}:\n{}", wrong.len(), wrong.join("\n"));
}
