//! The slots of one directory, read and changed one by one.

use super::clusters::Clusters;
use crate::layout::{EntrySet, LARGEST_DIRECTORY, Primary, SLOT};
use platter_clusters::{Claims, Disk, Link};
use platter_vfs::Result;
use std::ops::Range;

/// The number of bytes read at once.
const PIECE: usize = 1 << 20;

// No entry lies in two pieces.
const _: () = assert!(PIECE.is_multiple_of(32));

/// The slots of a directory. Trailing slots that are all zero are not kept.
pub(super) struct Listing {
    slots: Vec<[u8; SLOT]>,
    /// The number of the first slot with an end mark, or else the number of slots. Kept, because it is needed for
    /// every entry.
    end: usize,
    /// The device offsets of the directory's clusters, and the number of slots in each.
    clusters: Vec<u64>,
    in_cluster: usize,
}

impl Listing {
    /// Reads a directory of `count` clusters from `first` on: consecutive ones, or linked by the FAT.
    pub(super) fn read(
        disk: &Disk,
        clusters: &mut Clusters,
        first: u32,
        count: u32,
        contiguous: bool,
    ) -> Result<Listing> {
        let size = clusters.heap.cluster_size() as usize;
        let most = ((LARGEST_DIRECTORY as usize) / size).max(1);
        let mut offsets = Vec::new();
        let mut slots: Vec<[u8; SLOT]> = Vec::new();
        let mut cluster = first;
        for index in 0..(count as usize).min(most) {
            let offset = clusters.heap.offset(cluster);
            offsets.push(offset);
            for at in (0..size).step_by(PIECE) {
                let mut piece = vec![[0; SLOT]; size.min(PIECE) / SLOT];
                disk.read_slots(offset + at as u64, piece.as_flattened_mut())?;
                let used = piece.iter().rposition(|slot| *slot != [0; SLOT]).map_or(0, |last| last + 1);
                if used > 0 {
                    slots.resize((index * size + at) / SLOT, [0; SLOT]);
                    slots.extend_from_slice(&piece[..used]);
                }
            }
            cluster = match contiguous {
                true => cluster + 1,
                false => match clusters.link(cluster)? {
                    Link::Next(next) => next,
                    _ => break,
                },
            };
        }
        let mut listing = Listing { slots, end: 0, clusters: offsets, in_cluster: size / SLOT };
        listing.look_for_end(0);
        Ok(listing)
    }

    /// Returns the slots up to the last that is not all zero.
    pub(super) fn slots(&self) -> &[[u8; SLOT]] {
        &self.slots
    }

    /// Returns the number of slots in the directory's clusters.
    pub(super) fn capacity(&self) -> usize {
        self.clusters.len() * self.in_cluster
    }

    /// Returns the content of a slot; zeroes if it is one of the trailing slots that are not kept.
    pub(super) fn slot(&self, at: usize) -> [u8; SLOT] {
        self.slots.get(at).copied().unwrap_or([0; SLOT])
    }

    /// Returns the device offset of a slot.
    pub(super) fn offset(&self, at: usize) -> u64 {
        self.clusters[at / self.in_cluster] + (at % self.in_cluster * SLOT) as u64
    }

    /// Returns the number of the first slot with an end mark, or else the number of slots.
    pub(super) fn end(&self) -> usize {
        self.end
    }

    /// Searches for the end mark from slot `from` on; the slots before `from` have none.
    fn look_for_end(&mut self, from: usize) {
        let is_end = |slot: &[u8; SLOT]| Primary::of(slot) == Primary::End;
        self.end = from + self.slots[from..].iter().take_while(|slot| !is_end(slot)).count();
    }

    /// Changes a slot in memory and notes the change to be written.
    pub(super) fn change(&mut self, disk: &mut Disk, at: usize, slot: [u8; SLOT]) {
        if self.slots.len() <= at {
            self.slots.resize(at + 1, [0; SLOT]);
        }
        self.slots[at] = slot;
        if at < self.end && Primary::of(&slot) == Primary::End {
            self.end = at;
        } else if at == self.end {
            self.look_for_end(at);
        }
        disk.edit(self.offset(at), slot);
    }

    /// Writes an entry set over the slots that it occupies.
    pub(super) fn put(&mut self, disk: &mut Disk, at: usize, set: &EntrySet) {
        for (number, slot) in set.slots().iter().enumerate() {
            if self.slot(at + number) != *slot {
                self.change(disk, at + number, *slot);
            }
        }
    }

    /// Marks slots as unused. A slot that was never used becomes an erased entry, because an end mark would hide the
    /// slots after it.
    pub(super) fn delete(&mut self, disk: &mut Disk, slots: Range<usize>) {
        for at in slots {
            let mut slot = self.slot(at);
            slot[0] = if slot[0] & 0x7F == 0 { 0x05 } else { slot[0] & 0x7F };
            self.change(disk, at, slot);
        }
    }

    /// Adds a cluster of zeroes at a device offset.
    pub(super) fn extend(&mut self, offset: u64) {
        self.clusters.push(offset);
    }
}
