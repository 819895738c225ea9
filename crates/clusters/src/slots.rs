//! The slots of a directory in memory, in the state in which they are to be on disk.
//!
//! New and changed slots are in [`Slots::slot`] at once and their sectors are marked as changed. The slots of removed
//! entries stay as they are, and occupied, until a commit takes both states: first the sectors with everything new,
//! then, after these are durable, the same sectors with the removed slots erased. In that order a power cut at any
//! moment of a rename loses no file.
//!
//! If a directory ends long before its last cluster, only the beginning is in memory. The content on disk behind the
//! end is not trusted to be zero: it is overwritten when the directory grows into it.

use crate::gaps::Gaps;
use crate::{Heap, Images, Runs, join};
use platter_device::Device;
use platter_vfs::{Name, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The size of a slot in bytes.
pub const SLOT: usize = 32;

/// The number of bytes in which a directory is read, and brought into memory where it grows.
const PIECE: usize = 64 << 10;

// No slot lies in two pieces, and a piece is whole sectors.
const _: () = assert!(PIECE.is_multiple_of(SLOT) && PIECE.is_multiple_of(4096));

/// The place of a directory's slots.
#[derive(Clone, Debug)]
pub enum Storage {
    /// At this device offset, of this length in bytes: the fixed root directory of FAT12 and FAT16.
    Fixed(u64, u64),
    /// In these clusters.
    Chain(Runs),
}

impl Storage {
    /// The bytes of all slots.
    pub fn bytes(&self, heap: &Heap) -> u64 {
        match self {
            Storage::Fixed(_, bytes) => *bytes,
            Storage::Chain(runs) => u64::from(runs.clusters()) << heap.shift,
        }
    }

    /// The device offset of byte `at`, and how many bytes from it on are contiguous.
    fn place(&self, at: u64, heap: &Heap) -> Option<(u64, u64)> {
        match self {
            Storage::Fixed(start, bytes) => (at < *bytes).then(|| (start + at, bytes - at)),
            Storage::Chain(runs) => {
                let (cluster, count) = runs.at(u32::try_from(at >> heap.shift).ok()?)?;
                let inside = at & (heap.cluster_size() - 1);
                Some((heap.offset(cluster) + inside, (u64::from(count) << heap.shift) - inside))
            }
        }
    }
}

/// A removed entry whose slots are to be erased.
struct Removed {
    key: u32,
    slots: Range<u32>,
}

/// The sectors that a commit writes for a directory.
#[derive(Default)]
pub struct DirectoryImages {
    /// The changed sectors with everything new, and removed entries still in place.
    pub added: Images,
    /// The sectors with the slots of removed entries erased.
    pub removed: Images,
}

/// The rules by which a format uses its slots.
#[derive(Clone, Copy)]
pub struct SlotRules {
    /// The sector size in bytes: the unit that the device writes as a whole.
    pub sector: u32,
    /// How many slots at the beginning of an entry must be in one sector, because they are changed together.
    pub together: u32,
    /// Erases a slot.
    pub erase: fn(&mut [u8; SLOT]),
    /// Whether a slot marks the end of the directory: it and all slots behind it were never used.
    pub is_end: fn(&[u8; SLOT]) -> bool,
    /// An erased slot that never held anything.
    pub blank: [u8; SLOT],
}

/// The slots of a directory; see the module. An entry is identified by its *key*: the number of that one of its slots
/// by which the format identifies entries.
pub struct Slots {
    rules: SlotRules,
    heap: Heap,
    storage: Storage,
    /// The bytes of the slots in memory, in whole sectors.
    data: Vec<u8>,
    /// The first slot that was never used. This slot and all after it are zero in memory.
    end: u32,
    /// The slots of each entry, by key.
    entries: BTreeMap<u32, Range<u32>>,
    /// Runs of erased slots below `end`: start and length.
    gaps: Gaps,
    /// The numbers of the changed sectors.
    dirty: BTreeSet<u32>,
    removed: BTreeMap<Name, Vec<Removed>>,
    /// Whether the bytes after `end` on disk are not all zero, and must be overwritten before `end` moves.
    rubbish: bool,
    /// The bytes that were read behind the end, from the first slot that is not zero on.
    behind: Vec<u8>,
}

impl Slots {
    /// Reads a directory up to its end.
    ///
    /// # Errors
    /// The errors of reading.
    pub fn read(device: &dyn Device, rules: SlotRules, heap: Heap, storage: Storage) -> Result<Slots> {
        let bytes = storage.bytes(&heap);
        let mut data: Vec<u8> = Vec::new();
        while (data.len() as u64) < bytes {
            let at = data.len();
            let Some((offset, length)) = storage.place(at as u64, &heap) else { break };
            let length = length.min(bytes - at as u64).min(PIECE as u64) as usize;
            data.resize(at + length, 0);
            device.read_at(offset, &mut data[at..])?;
            if data[at..].as_chunks::<SLOT>().0.iter().any(rules.is_end) {
                break;
            }
        }
        Ok(Slots::new(rules, heap, storage, data))
    }

    /// Makes the slots of a directory from its bytes: all of them, or as many as reach behind its end.
    pub fn new(rules: SlotRules, heap: Heap, storage: Storage, mut data: Vec<u8>) -> Slots {
        let total = data.len() / SLOT;
        let end = data.as_chunks::<SLOT>().0.iter().position(rules.is_end).unwrap_or(total);
        let after = &mut data[end * SLOT..];
        let first = after.iter().position(|&byte| byte != 0);
        let behind = first.map_or(Vec::new(), |first| after[first / SLOT * SLOT..].to_vec());
        after.fill(0);
        Slots {
            rules,
            heap,
            storage,
            data,
            end: end as u32,
            entries: BTreeMap::new(),
            gaps: Gaps::new(rules.sector / SLOT as u32, rules.together),
            dirty: BTreeSet::new(),
            removed: BTreeMap::new(),
            rubbish: first.is_some(),
            behind,
        }
    }

    /// The device offset of a slot.
    pub fn place(&self, slot: u32) -> u64 {
        self.storage.place(u64::from(slot) * SLOT as u64, &self.heap).map_or(0, |(place, _)| place)
    }

    /// Takes the bytes that were read behind the end, from the first slot that is not zero on. The format decides
    /// whether they are remains of removed entries, or entries that damage has cut off.
    pub fn take_behind(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.behind)
    }

    /// Registers an entry that is in these slots.
    pub fn note(&mut self, key: u32, slots: Range<u32>) {
        self.entries.insert(key, slots);
    }

    /// The place of the slots.
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    /// The first slot that was never used.
    pub fn end(&self) -> u32 {
        self.end
    }

    /// The bytes of the slots in memory: those before the end, and some zero ones behind it.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// Whether the directory has no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether no change waits for a commit.
    pub fn is_clean(&self) -> bool {
        self.dirty.is_empty() && self.removed.is_empty()
    }

    /// The keys of all entries, in order.
    pub fn keys(&self) -> impl Iterator<Item = u32> + '_ {
        self.keys_from(0)
    }

    /// The keys of the entries from this one on.
    pub fn keys_from(&self, key: u32) -> impl Iterator<Item = u32> + '_ {
        self.entries.range(key..).map(|(key, _)| *key)
    }

    /// The slots of the entry with this key.
    pub fn slots_of(&self, key: u32) -> Range<u32> {
        self.entries.get(&key).cloned().unwrap_or(key..key + 1)
    }

    /// The content of a slot, which is before the end.
    pub fn slot(&self, slot: u32) -> &[u8; SLOT] {
        self.data[slot as usize * SLOT..][..SLOT].try_into().expect("a slot's length")
    }

    fn sector_of(&self, slot: u32) -> u32 {
        slot / (self.rules.sector / SLOT as u32)
    }

    /// Whether the first slots of an entry that begins here are in one sector.
    pub fn is_together(&self, first: u32) -> bool {
        self.gaps.is_together(first)
    }

    /// Replaces the content of slots and marks their sectors as changed.
    pub fn put(&mut self, first: u32, bytes: &[u8]) {
        let at = first as usize * SLOT;
        self.data[at..at + bytes.len()].copy_from_slice(bytes);
        let last = first + (bytes.len() / SLOT) as u32 - 1;
        self.dirty.extend(self.sector_of(first)..=self.sector_of(last));
    }

    /// The number of slots of the directory, used or not.
    pub fn capacity(&self) -> u32 {
        u32::try_from(self.storage.bytes(&self.heap) / SLOT as u64).unwrap_or(u32::MAX)
    }

    /// Finds `count` consecutive free slots, which may include never-used ones: returns the start of the gap and the
    /// first of the slots. `None` if the directory must grow.
    fn room(&self, count: u32) -> Option<(u32, u32)> {
        let begin = |start| (start, self.gaps.begin(start, count));
        self.gaps.find(count).map(begin).or_else(|| {
            // A gap just before the end continues in the never-used slots.
            let (start, first) = match self.gaps.last() {
                Some((start, length)) if start + length == self.end => begin(start),
                _ => begin(self.end),
            };
            (u64::from(first) + u64::from(count) <= u64::from(self.capacity())).then_some((start, first))
        })
    }

    /// Whether an entry of `count` slots fits without growing the directory.
    pub fn has_room(&self, count: usize) -> bool {
        self.room(count as u32).is_some()
    }

    /// Sets the new storage after clusters, which are zero on disk, were added to the directory.
    pub fn grow(&mut self, storage: Storage) {
        self.storage = storage;
    }

    /// Brings never-used slots up to `slot` into memory as zeroes, and marks them as changed, so that they are zeroed
    /// on disk.
    fn reach(&mut self, slot: u32) {
        let bytes = self.storage.bytes(&self.heap);
        while self.data.len() <= slot as usize * SLOT && (self.data.len() as u64) < bytes {
            let start = self.data.len();
            let length = (bytes - start as u64).min(PIECE as u64) as usize;
            self.data.resize(start + length, 0);
            let first = self.sector_of((start / SLOT) as u32);
            let last = self.sector_of(((start + length) / SLOT) as u32 - 1);
            self.dirty.extend(first..=last);
        }
    }

    /// Allocates `count` consecutive slots, for which there is room; returns the first.
    pub fn occupy(&mut self, count: u32) -> u32 {
        let (start, first) = self.room(count).expect("whoever adds slots has made room");
        let length = self.gaps.take(start);
        if first + count < start + length {
            self.gaps.add(first + count, start + length - first - count);
        }
        let end = self.end;
        if first + count > end {
            // The slot behind the last one marks the end, so it must be zero too.
            self.reach(first + count);
            if std::mem::take(&mut self.rubbish) {
                let last = self.sector_of((self.data.len() / SLOT) as u32 - 1);
                self.dirty.extend(self.sector_of(end)..=last);
            }
            self.end = first + count;
        }
        if first > start {
            if start >= end {
                let blank = self.rules.blank;
                self.put(start, &blank);
            }
            self.gaps.add(start, first - start);
        }
        first
    }

    /// Adds an entry for which there is room. `key` is the index of its key slot within the entry. Returns the key.
    pub fn insert(&mut self, bytes: &[u8], key: u32) -> u32 {
        let count = (bytes.len() / SLOT) as u32;
        let first = self.occupy(count);
        self.put(first, bytes);
        self.entries.insert(first + key, first..first + count);
        first + key
    }

    /// Removes an entry in memory at once, and from the disk with the next commit.
    pub fn remove(&mut self, key: u32, name: Name) {
        if let Some(slots) = self.entries.remove(&key) {
            self.removed.entry(name).or_default().push(Removed { key, slots });
        }
    }

    /// Reverts the removal of an entry with exactly this name, if it has not been committed: the entry's slots can then
    /// be changed in place, so that the name is on disk at every moment. Returns the key.
    pub fn revive(&mut self, name: &Name) -> Option<u32> {
        let named = self.removed.get_mut(name)?;
        let Removed { key, slots } = named.remove(0);
        if named.is_empty() {
            self.removed.remove(name);
        }
        self.entries.insert(key, slots);
        Some(key)
    }

    /// Whether the removal of an entry with exactly this name has not been committed.
    pub fn can_revive(&self, name: &Name) -> bool {
        self.removed.contains_key(name)
    }

    /// Erases slots that belong to no entry.
    pub fn erase(&mut self, slots: Range<u32>) {
        for at in slots.clone() {
            let mut slot = *self.slot(at);
            (self.rules.erase)(&mut slot);
            self.put(at, &slot);
        }
        self.add_gap(slots.start, slots.end - slots.start);
    }

    /// Adds erased slots to the gaps.
    pub fn add_gap(&mut self, start: u32, length: u32) {
        self.gaps.add(start, length);
    }

    /// Takes the sectors that a commit is to write, at device offsets, and erases the removed entries in memory.
    /// `dropped` is called with the key of each, before its slots are erased.
    pub fn take_images(&mut self, mut dropped: impl FnMut(&Slots, u32)) -> DirectoryImages {
        let mut images = DirectoryImages::default();
        for sector in std::mem::take(&mut self.dirty) {
            self.image(sector, &mut images.added);
        }
        for Removed { key, slots } in std::mem::take(&mut self.removed).into_values().flatten() {
            dropped(self, key);
            self.erase(slots);
        }
        for sector in std::mem::take(&mut self.dirty) {
            self.image(sector, &mut images.removed);
        }
        images
    }

    fn image(&self, sector: u32, images: &mut Images) {
        let size = self.rules.sector as usize;
        let at = sector as usize * size;
        if let Some((place, _)) = self.storage.place(at as u64, &self.heap)
            && let Some(bytes) = self.data.get(at..at + size)
        {
            join(images, place, bytes);
        }
    }
}

const _: () = assert!(PIECE.is_multiple_of(SLOT), "slots are read in whole ones");
