//! Whether the clusters of files are taken in the allocation bitmap. A cluster of a file whose bit says that it is free would
//! be given to the next file that needs one.
//!
//! The bitmap has no checksum, and nothing but the directories tells which clusters are in use. So before a volume is written
//! to, the directories are read, breadth first from the root, up to a number that takes no noticeable time. Damage behind
//! that is for a check to find.

use crate::bitmap::Bitmap;
use crate::layout::{EntrySet, FileInfo, Geometry, SLOT, kind, set_checksum};
use platter_clusters::{Disk, Heap, Link, Runs, Table};
use platter_device::Device;
use platter_vfs::Error;
use std::collections::{HashSet, VecDeque};

/// The most directories that are read.
const MOST: usize = 512;
/// The most bytes of directories that are read.
const MOST_BYTES: u64 = 32 << 20;
/// The bytes that are read at a time: most directories end in them.
const PIECE: u64 = 16 << 10;

// What is kept is whole pieces.
const _: () = assert!(MOST_BYTES.is_multiple_of(PIECE));

/// Returns what is wrong if a cluster of a file or directory is free in the bitmap. What cannot be read is passed over:
/// whoever opens it is told.
pub(crate) fn find_free(
    device: &dyn Device,
    geometry: &Geometry,
    table: &mut Table<Geometry>,
    bitmap: &Bitmap,
    root: &Runs,
) -> Option<Error> {
    let heap = geometry.heap;
    let mut search = Search { heap, table, bitmap, steps: 2 * u64::from(heap.count) };
    let mut met = HashSet::new();
    let mut waiting = VecDeque::from([root.clone()]);
    let (mut seen, mut bytes) = (1, MOST_BYTES);
    while let Some(runs) = waiting.pop_front() {
        for info in entries(&read(device, heap, &runs, &mut bytes)) {
            let is_directory = info.attributes.directory();
            let is_new = heap.has(info.cluster) && !(is_directory && met.contains(&info.cluster));
            if !is_new {
                continue;
            }
            let runs = match search.clusters(&info) {
                Ok(runs) => runs,
                Err(cluster) => {
                    let found = format!("cluster {cluster}, which a file has, free");
                    let place = heap.offset(cluster);
                    return Some(Error::damaged(
                        "allocation bitmap",
                        place,
                        "clusters of files taken",
                        found,
                    ));
                }
            };
            if is_directory && seen < MOST {
                met.insert(info.cluster);
                seen += 1;
                waiting.push_back(runs);
            }
        }
    }
    None
}

struct Search<'s> {
    heap: Heap,
    table: &'s mut Table<Geometry>,
    bitmap: &'s Bitmap,
    /// How many more clusters are looked at: files of a volume without damage have each once.
    steps: u64,
}

impl Search<'_> {
    /// The clusters of a file or directory, as far as they can be told, or the first of them that is free.
    fn clusters(&mut self, info: &FileInfo) -> Result<Runs, u32> {
        let wanted = self.heap.clusters_for(info.length).min(u64::from(self.heap.count));
        let (mut runs, mut cluster) = (Runs::default(), info.cluster);
        while u64::from(runs.clusters()) < wanted && self.heap.has(cluster) && self.steps > 0 {
            self.steps -= 1;
            if !self.bitmap.get(cluster) {
                return Err(cluster);
            }
            runs.push(cluster, 1);
            cluster = match info.contiguous {
                true => cluster + 1,
                false => match self.table.link(cluster) {
                    Ok(Link::Next(next)) => next,
                    _ => break,
                },
            };
        }
        Ok(runs)
    }
}

/// Reads the slots of a directory up to its end mark, and no more bytes than `most`, which becomes less.
fn read(device: &dyn Device, heap: Heap, runs: &Runs, most: &mut u64) -> Vec<u8> {
    let mut slots = Vec::new();
    for run in runs.iter() {
        let (start, length) = (heap.offset(run.cluster), u64::from(run.count) << heap.shift);
        let mut at = 0;
        while at < length {
            let piece = PIECE.min(length - at);
            let begin = slots.len();
            if *most < piece {
                return slots;
            }
            *most -= piece;
            slots.resize(begin + piece as usize, 0);
            if Disk::new(device).read(start + at, &mut slots[begin..]).is_err() {
                slots.truncate(begin);
                return slots;
            }
            if slots[begin..].chunks_exact(SLOT).any(|slot| slot[0] == kind::END) {
                return slots;
            }
            at += piece;
        }
    }
    slots
}

/// The files and directories in these slots whose sets are whole.
fn entries(slots: &[u8]) -> Vec<FileInfo> {
    let slots = slots.as_chunks::<SLOT>().0;
    let end = slots.iter().position(|slot| slot[0] == kind::END).unwrap_or(slots.len());
    let slots = &slots[..end];
    let (mut found, mut at) = (Vec::new(), 0);
    while at < slots.len() {
        let set = (slots[at][0] == kind::FILE).then(|| EntrySet::read_loosely(&slots[at..]).ok()).flatten();
        at += 1;
        if let Some(set) = set.filter(|set| set.checksum() == set_checksum(set.slots())) {
            at += set.slots().len() - 1;
            found.push(set.info());
        }
    }
    found
}
