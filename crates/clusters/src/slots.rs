//! A directory's slots in memory, as they are to be on disk.
//!
//! New and changed slots are in [`Slots::slot`] at once and their sectors are marked; removed ones stay there as they
//! are, and in the way, until a commit takes both states: first everything new, then, after that is durable, the same
//! sectors with the removed slots erased. That order is what lets a rename lose power anywhere without losing the
//! file.
//!
//! Of a directory that ends long before its last cluster does only the beginning is in memory. What stands on disk
//! behind it is not trusted to be zero: it is written when the directory comes to reach it.

use crate::gaps::Gaps;
use crate::{Heap, Images, Runs, join};
use platter_device::Device;
use platter_vfs::{Name, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Bytes of a slot.
pub const SLOT: usize = 32;

/// Bytes in which a directory is read, and brought into memory where it grows.
const PIECE: usize = 64 << 10;

/// Where a directory's slots are.
#[derive(Clone, Debug)]
pub enum Storage {
    /// At this device offset, with so many bytes: the fixed root directory of FAT12 and FAT16.
    Fixed(u64, u64),
    /// In clusters.
    Chain(Runs),
}

impl Storage {
    /// Bytes of all slots.
    pub fn bytes(&self, heap: &Heap) -> u64 {
        match self {
            Storage::Fixed(_, bytes) => *bytes,
            Storage::Chain(runs) => u64::from(runs.clusters()) << heap.shift,
        }
    }

    /// Device offset of a byte, and how many from it on lie together.
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

/// An entry whose slots are to be erased.
struct Removed {
    key: u32,
    slots: Range<u32>,
}

/// What a commit writes for a directory.
#[derive(Default)]
pub struct DirectoryImages {
    /// Changed sectors with all that is new, and what is removed still in place.
    pub added: Images,
    /// The sectors that also lose slots.
    pub removed: Images,
}

/// How a format uses its slots.
#[derive(Clone, Copy)]
pub struct SlotRules {
    /// Bytes of a sector: what the device writes whole or not at all.
    pub sector: u32,
    /// How many slots at the beginning of an entry must not be parted by the end of a sector, being changed together.
    pub together: u32,
    /// Erases a slot.
    pub erase: fn(&mut [u8; SLOT]),
    /// Whether a slot says that it and all behind it were never used.
    pub is_end: fn(&[u8; SLOT]) -> bool,
    /// An erased slot that never held anything.
    pub blank: [u8; SLOT],
}

/// See the module. An entry is known by its *key*: that one of its slots by which the format tells entries apart.
pub struct Slots {
    rules: SlotRules,
    heap: Heap,
    storage: Storage,
    /// The slots that are in memory: a whole number of sectors.
    data: Vec<u8>,
    /// The first slot that was never used: it and all after it are zero.
    end: u32,
    /// The slots of each entry, by key.
    entries: BTreeMap<u32, Range<u32>>,
    /// Runs of erased slots below `end`: start and length.
    gaps: Gaps,
    /// Changed sectors.
    dirty: BTreeSet<u32>,
    removed: BTreeMap<Name, Vec<Removed>>,
    /// What lies after `end` on disk is not zero and must be, before `end` moves.
    rubbish: bool,
    /// The slots in memory behind the end, from the first that is not zero on, as they were read.
    behind: Vec<u8>,
}

impl Slots {
    /// Reads a directory up to its end.
    ///
    /// # Errors
    /// What reading gives.
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

    /// A directory that starts with these bytes: all of it, or as much as reaches behind its end.
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

    /// Where a slot stands on the device.
    pub fn place(&self, slot: u32) -> u64 {
        self.storage.place(u64::from(slot) * SLOT as u64, &self.heap).map_or(0, |(place, _)| place)
    }

    /// Takes what stood behind the end, from the first slot that is not zero on: a format can tell whether it is remains
    /// or was cut off.
    pub fn take_behind(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.behind)
    }

    /// Notes an entry that stands there.
    pub fn note(&mut self, key: u32, slots: Range<u32>) {
        self.entries.insert(key, slots);
    }

    /// Where the slots are.
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    /// The first slot that was never used.
    pub fn end(&self) -> u32 {
        self.end
    }

    /// The slots in memory: those before the end, and some that are zero.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// Whether it has no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether nothing waits for a commit.
    pub fn is_clean(&self) -> bool {
        self.dirty.is_empty() && self.removed.is_empty()
    }

    /// Every entry's key, in order.
    pub fn keys(&self) -> impl Iterator<Item = u32> + '_ {
        self.keys_from(0)
    }

    /// The keys of the entries from this one on.
    pub fn keys_from(&self, key: u32) -> impl Iterator<Item = u32> + '_ {
        self.entries.range(key..).map(|(key, _)| *key)
    }

    /// The slots of the entry with a key.
    pub fn slots_of(&self, key: u32) -> Range<u32> {
        self.entries.get(&key).cloned().unwrap_or(key..key + 1)
    }

    /// What stands in a slot, which is one before the end.
    pub fn slot(&self, slot: u32) -> &[u8; SLOT] {
        self.data[slot as usize * SLOT..][..SLOT].try_into().expect("a slot's length")
    }

    fn sector_of(&self, slot: u32) -> u32 {
        slot / (self.rules.sector / SLOT as u32)
    }

    /// Whether the first slots of an entry here lie in one sector.
    pub fn is_together(&self, first: u32) -> bool {
        self.gaps.is_together(first)
    }

    /// Writes slots.
    pub fn put(&mut self, first: u32, bytes: &[u8]) {
        let at = first as usize * SLOT;
        self.data[at..at + bytes.len()].copy_from_slice(bytes);
        let last = first + (bytes.len() / SLOT) as u32 - 1;
        self.dirty.extend(self.sector_of(first)..=self.sector_of(last));
    }

    /// How many slots the directory has, used or not.
    pub fn capacity(&self) -> u32 {
        u32::try_from(self.storage.bytes(&self.heap) / SLOT as u64).unwrap_or(u32::MAX)
    }

    /// Where `count` slots in a row are free, growing into never-used ones: where they and the free ones before them
    /// begin. `None` if the directory must grow.
    fn room(&self, count: u32) -> Option<(u32, u32)> {
        let begin = |start| (start, self.gaps.begin(start, count));
        self.gaps.find(count).map(begin).or_else(|| {
            // A gap just before the end goes on into what was never used.
            let (start, first) = match self.gaps.last() {
                Some((start, length)) if start + length == self.end => begin(start),
                _ => begin(self.end),
            };
            (u64::from(first) + u64::from(count) <= u64::from(self.capacity())).then_some((start, first))
        })
    }

    /// Whether so many more slots in a row fit without growing.
    pub fn has_room(&self, count: usize) -> bool {
        self.room(count as u32).is_some()
    }

    /// Takes over clusters that were added to the directory, which are zero on disk.
    pub fn grow(&mut self, storage: Storage) {
        self.storage = storage;
    }

    /// Brings never-used slots up to `slot` into memory, and one sector more: what is there on disk is to become zero.
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

    /// Takes `count` slots in a row, for which there is room, out of the free ones.
    pub fn occupy(&mut self, count: u32) -> u32 {
        let (start, first) = self.room(count).expect("whoever adds slots has made room");
        let length = self.gaps.take(start);
        if first + count < start + length {
            self.gaps.add(first + count, start + length - first - count);
        }
        let end = self.end;
        if first + count > end {
            // The slot behind the last says that nothing follows: it too must be zero.
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

    /// Adds an entry for which there is room. `key` counts from its first slot. Returns its key.
    pub fn insert(&mut self, bytes: &[u8], key: u32) -> u32 {
        let count = (bytes.len() / SLOT) as u32;
        let first = self.occupy(count);
        self.put(first, bytes);
        self.entries.insert(first + key, first..first + count);
        first + key
    }

    /// Removes an entry now, and from the disk with the next commit.
    pub fn remove(&mut self, key: u32, name: Name) {
        if let Some(slots) = self.entries.remove(&key) {
            self.removed.entry(name).or_default().push(Removed { key, slots });
        }
    }

    /// Takes back the removal of an entry of exactly this name, if one waits: its slots can be given a new content in
    /// place, and the name is on disk at every moment.
    pub fn revive(&mut self, name: &Name) -> Option<u32> {
        let named = self.removed.get_mut(name)?;
        let Removed { key, slots } = named.remove(0);
        if named.is_empty() {
            self.removed.remove(name);
        }
        self.entries.insert(key, slots);
        Some(key)
    }

    /// Whether the removal of an entry of exactly this name waits.
    pub fn can_revive(&self, name: &Name) -> bool {
        self.removed.contains_key(name)
    }

    /// Erases slots that are no entry's.
    pub fn erase(&mut self, slots: Range<u32>) {
        for at in slots.clone() {
            let mut slot = *self.slot(at);
            (self.rules.erase)(&mut slot);
            self.put(at, &slot);
        }
        self.add_gap(slots.start, slots.end - slots.start);
    }

    /// Adds erased slots to the gaps, joining them with their neighbours.
    pub fn add_gap(&mut self, start: u32, length: u32) {
        self.gaps.add(start, length);
    }

    /// Takes what a commit is to write, at device offsets, and carries out the removals in memory. `dropped` is told
    /// the key of each, whose slots stand there still.
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
