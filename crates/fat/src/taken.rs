//! Whether the clusters of files are taken in the FAT. A cluster of a file whose entry says that it is free would be given
//! to the next file that needs one.
//!
//! Of the clusters after a file's first, the table tells: an entry leads to each. Of the first only the directories tell. So
//! before a volume is written to, directories are read, breadth first from the root, up to a number that takes no noticeable
//! time. Damage behind that is for a check to find.

use crate::layout::{Geometry, SLOT, ShortEntry, Slot};
use platter_clusters::{Disk, Link, Table};
use platter_device::Device;
use platter_vfs::Error;
use std::collections::{HashSet, VecDeque};

/// The most directories that are read.
const MOST: usize = 512;
/// The most bytes of directories that are read.
const MOST_BYTES: u64 = 32 << 20;
/// The bytes that are read at a time: most directories end in them.
const PIECE: u64 = 4 << 10;

// What is kept is whole pieces.
const _: () = assert!(MOST_BYTES.is_multiple_of(PIECE));

/// Returns what is wrong if the first cluster of a file or directory is free in the table. What cannot be read is passed
/// over: whoever opens it is told.
pub(crate) fn find_free(
    device: &dyn Device,
    geometry: &Geometry,
    table: &mut Table<Geometry>,
) -> Option<Error> {
    let heap = geometry.heap();
    let mut met = HashSet::new();
    let mut bytes = MOST_BYTES;
    let mut seen = 1;
    let root_length = u64::from(geometry.root_entries) * SLOT as u64;
    let mut slots = match geometry.root_cluster {
        0 => piece(device, geometry.root_offset(), root_length, &mut bytes),
        first => chain(device, geometry, table, first, &mut bytes),
    };
    let mut waiting = VecDeque::new();
    loop {
        for entry in entries(&slots) {
            let first = geometry.first_cluster(&entry);
            let has_content = entry.attributes.directory() || entry.size > 0;
            if !has_content || !heap.has(first) {
                continue;
            }
            if matches!(table.link(first), Ok(Link::Free)) {
                let found = format!("cluster {first}, the first of a file, free");
                return Some(Error::damaged("FAT", heap.offset(first), "clusters of files taken", found));
            }
            if entry.attributes.directory() && !met.contains(&first) && seen < MOST {
                met.insert(first);
                seen += 1;
                waiting.push_back(first);
            }
        }
        slots = chain(device, geometry, table, waiting.pop_front()?, &mut bytes);
    }
}

/// The files and directories in these slots.
fn entries(slots: &[u8]) -> impl Iterator<Item = ShortEntry> {
    let slots = slots.as_chunks::<SLOT>().0.iter().map(Slot::from_bytes);
    slots.take_while(|slot| !matches!(slot, Slot::End)).filter_map(|slot| match slot {
        Slot::Short(short) if !short.attributes.label() && !short.name.is_dots() => Some(short),
        _ => None,
    })
}

/// Reads the slots in a chain up to the end mark, and no more bytes than `most`, which becomes less.
fn chain(
    device: &dyn Device,
    geometry: &Geometry,
    table: &mut Table<Geometry>,
    first: u32,
    most: &mut u64,
) -> Vec<u8> {
    let heap = geometry.heap();
    let (mut slots, mut cluster) = (Vec::new(), first);
    while heap.has(cluster) {
        let found = piece(device, heap.offset(cluster), heap.cluster_size(), most);
        let is_whole = found.len() as u64 == heap.cluster_size();
        slots.extend(found);
        if !is_whole || has_end(&slots) {
            break;
        }
        match table.link(cluster) {
            Ok(Link::Next(next)) => cluster = next,
            _ => break,
        }
    }
    slots
}

/// Reads a range up to an end mark.
fn piece(device: &dyn Device, start: u64, length: u64, most: &mut u64) -> Vec<u8> {
    let mut slots = Vec::new();
    let mut at = 0;
    while at < length && !has_end(&slots) {
        let piece = PIECE.min(length - at);
        if *most < piece {
            break;
        }
        *most -= piece;
        let begin = slots.len();
        slots.resize(begin + piece as usize, 0);
        if Disk::new(device).read(start + at, &mut slots[begin..]).is_err() {
            slots.truncate(begin);
            break;
        }
        at += piece;
    }
    slots
}

/// Whether the last slots that were read have an end mark.
fn has_end(slots: &[u8]) -> bool {
    let last = slots.len().saturating_sub(PIECE as usize) / SLOT * SLOT;
    slots[last..].chunks_exact(SLOT).any(|slot| slot[0] == 0)
}
