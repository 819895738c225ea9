//! A directory in memory: its slots as they are to be on disk, and an index of its names.
//!
//! Names are found by their folded form, aliases too. New and changed slots are in [`Directory::data`] at once and
//! their sectors are marked; removed slots stay there as they are, and in the way, until a commit takes both states:
//! first everything new, then, after that is durable, the same sectors with the removed slots erased. That order is
//! what lets a rename lose power anywhere without losing the file.

use crate::chain::{Images, Runs, join};
use crate::layout::{
    Attributes, EntrySet, Geometry, LongName, MOST_SLOTS, SLOT, ShortEntry, ShortName, Slot,
};
use platter_device::Device;
use platter_vfs::{CaseRule, Error, Name, Result};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Where a directory's slots are.
#[derive(Clone, Debug)]
pub(crate) enum Storage {
    /// The fixed root directory of FAT12 and FAT16.
    Fixed,
    /// A cluster chain.
    Chain(Runs),
}

/// An entry whose slots are to be erased.
struct Removed {
    name: Name,
    first: u32,
    short: u32,
}

/// Erased slots and added ones: what a commit writes for a directory.
pub(crate) struct DirectoryImages {
    /// Changed sectors with all that is new, and what is removed still in place.
    pub added: Images,
    /// The sectors that also lose slots.
    pub removed: Images,
}

/// A directory in memory.
pub(crate) struct Directory {
    pub storage: Storage,
    /// Every slot there is room for.
    data: Vec<u8>,
    /// The first slot that was never used: it and all after it are zero.
    end: u32,
    /// The slot of each entry, and of the first part of its long name.
    entries: BTreeMap<u32, u32>,
    names: HashMap<Box<[u16]>, u32>,
    shorts: HashMap<ShortName, u32>,
    /// Runs of erased slots below `end`: start and length.
    gaps: BTreeMap<u32, u32>,
    /// Changed sectors.
    dirty: BTreeSet<u32>,
    removed: Vec<Removed>,
    /// The slot of the volume's label.
    pub label: Option<u32>,
    /// What lies after `end` on disk is not zero and must be, before `end` moves.
    rubbish: bool,
    /// When it was last used, for choosing which to drop.
    pub used: u64,
}

impl Directory {
    /// Takes a directory's content apart.
    pub fn parse(storage: Storage, mut data: Vec<u8>, root: bool) -> Directory {
        let total = (data.len() / SLOT) as u32;
        let mut end = total;
        let mut label = None;
        let mut entries = BTreeMap::new();
        let mut gaps: BTreeMap<u32, u32> = BTreeMap::new();
        let mut long = LongName::default();
        for slot in 0..total {
            match read_slot(&data, slot) {
                Slot::End => {
                    end = slot;
                    break;
                }
                Slot::Deleted => {
                    let _ = long.abandon();
                    match gaps.last_entry() {
                        Some(mut last) if last.key() + last.get() == slot => *last.get_mut() += 1,
                        _ => {
                            gaps.insert(slot, 1);
                        }
                    }
                }
                Slot::Long(part) => {
                    let _ = long.push(&part);
                }
                Slot::Short(short) if short.attributes.label() => {
                    let _ = long.abandon();
                    if root && label.is_none() && !short.attributes.directory() {
                        label = Some(slot);
                    }
                }
                Slot::Short(short) if short.name.is_dots() => {
                    let _ = long.abandon();
                }
                Slot::Short(short) => {
                    let parts = long.slots() as u32;
                    let first = match long.finish(&short.name) {
                        Ok(Some(_)) => slot - parts,
                        _ => slot,
                    };
                    entries.insert(slot, first);
                }
            }
        }
        let after = &mut data[end as usize * SLOT..];
        let rubbish = after.iter().any(|&byte| byte != 0);
        after.fill(0);
        let mut directory = Directory {
            storage,
            data,
            end,
            entries,
            names: HashMap::new(),
            shorts: HashMap::new(),
            gaps,
            dirty: BTreeSet::new(),
            removed: Vec::new(),
            label,
            rubbish,
            used: 0,
        };
        // Long names first: an alias never hides another entry's name.
        let slots: Vec<u32> = directory.entries.keys().copied().collect();
        for &slot in &slots {
            let folded = directory.name(slot).folded(CaseRule::Insensitive);
            directory.names.entry(folded).or_insert(slot);
        }
        for &slot in &slots {
            let short = directory.short(slot);
            directory.shorts.entry(short.name).or_insert(slot);
            let folded = short.name.to_name(0).folded(CaseRule::Insensitive);
            directory.names.entry(folded).or_insert(slot);
        }
        directory
    }

    /// The content of a new directory: "." and "..", and zeroes.
    pub fn fresh(storage: Storage, size: usize, dot: ShortEntry, parent: u32) -> Directory {
        let mut data = vec![0; size];
        data[..SLOT].copy_from_slice(&ShortEntry { name: ShortName::DOT, ..dot.clone() }.to_bytes());
        let dots = ShortEntry { name: ShortName::DOT_DOT, cluster: parent, ..dot };
        data[SLOT..2 * SLOT].copy_from_slice(&dots.to_bytes());
        Directory::parse(storage, data, false)
    }

    /// All of its content.
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

    /// The slot that a name, or an alias, leads to.
    pub fn find(&self, name: &Name) -> Option<u32> {
        self.names.get(&name.folded(CaseRule::Insensitive)).copied()
    }

    /// The slots of the entries from `slot` on.
    pub fn slots_from(&self, slot: u32) -> impl Iterator<Item = u32> + '_ {
        self.entries.range(slot..).map(|(slot, _)| *slot)
    }

    /// The entry in a slot that is known to hold one.
    pub fn short(&self, slot: u32) -> ShortEntry {
        ShortEntry::from_bytes(slot_bytes(&self.data, slot))
    }

    /// The name of the entry in a slot.
    pub fn name(&self, slot: u32) -> Name {
        let short = self.short(slot);
        let first = self.entries.get(&slot).copied().unwrap_or(slot);
        let mut long = LongName::default();
        for part in first..slot {
            if let Slot::Long(part) = read_slot(&self.data, part) {
                let _ = long.push(&part);
            }
        }
        match long.finish(&short.name) {
            Ok(Some(name)) => name,
            _ => short.name.to_name(short.nt),
        }
    }

    fn sector_of(slot: u32, geometry: &Geometry) -> u32 {
        slot / (geometry.bytes_per_sector / SLOT as u32)
    }

    /// Writes slots.
    fn put(&mut self, first: u32, bytes: &[u8], geometry: &Geometry) {
        let at = first as usize * SLOT;
        self.data[at..at + bytes.len()].copy_from_slice(bytes);
        let last = first + (bytes.len() / SLOT) as u32 - 1;
        for sector in Directory::sector_of(first, geometry)..=Directory::sector_of(last, geometry) {
            self.dirty.insert(sector);
        }
    }

    /// Replaces the entry in a slot, whose name stays.
    pub fn update(&mut self, slot: u32, entry: &ShortEntry, geometry: &Geometry) {
        let old = self.short(slot);
        let entry = ShortEntry { name: old.name, nt: old.nt, ..entry.clone() };
        if entry != old {
            self.put(slot, &entry.to_bytes(), geometry);
        }
    }

    /// Points ".." to another parent.
    pub fn set_parent(&mut self, cluster: u32, geometry: &Geometry) {
        let dots = self.short(1);
        if self.data.len() > SLOT && dots.name == ShortName::DOT_DOT {
            self.put(1, &ShortEntry { cluster, ..dots }.to_bytes(), geometry);
        }
    }

    /// How the entry of a new name will look. A short name counts as taken also while its removal waits; that of
    /// the entry in slot `but` does not, which is about to be renamed.
    pub fn compose(&self, name: &Name, entry: &ShortEntry, but: Option<u32>) -> Result<EntrySet> {
        EntrySet::new(name, entry.clone(), |short| {
            let other = |slot: Option<&u32>| slot.is_some_and(|slot| Some(*slot) != but);
            // An alias must not look like a long name either.
            other(self.shorts.get(short))
                || other(self.names.get(&short.to_name(0).folded(CaseRule::Insensitive)))
        })
    }

    /// Where `count` slots in a row are free, growing into never-used ones. `None` if the directory must grow.
    fn room(&self, count: u32) -> Option<u32> {
        let gap = self.gaps.iter().find(|(_, length)| **length >= count).map(|(start, _)| *start);
        gap.or_else(|| {
            // A gap just before the end goes on into what was never used.
            let start = match self.gaps.last_key_value() {
                Some((start, length)) if start + length == self.end => *start,
                _ => self.end,
            };
            (start as usize + count as usize <= self.data.len() / SLOT).then_some(start)
        })
    }

    /// Whether so many more slots in a row fit without growing.
    pub fn has_room(&self, count: usize) -> bool {
        self.room(count as u32).is_some()
    }

    /// How many slots the directory has, used or not.
    pub fn capacity(&self) -> u32 {
        (self.data.len() / SLOT) as u32
    }

    /// Makes room for more slots, which are zero on disk already.
    pub fn grow(&mut self, bytes: usize) {
        self.data.resize(self.data.len() + bytes, 0);
    }

    /// Whether it may grow by so many bytes.
    pub fn may_grow(&self, bytes: usize) -> bool {
        self.data.len() + bytes <= MOST_SLOTS as usize * SLOT
    }

    /// Takes `count` slots in a row, for which there is room, out of the free ones.
    fn occupy(&mut self, count: u32, geometry: &Geometry) -> u32 {
        let first = self.room(count).expect("whoever adds slots has made room");
        if let Some(length) = self.gaps.remove(&first)
            && length > count
        {
            self.gaps.insert(first + count, length - count);
        }
        if first + count > self.end {
            if std::mem::take(&mut self.rubbish) {
                let last = Directory::sector_of(self.capacity() - 1, geometry);
                self.dirty.extend(Directory::sector_of(self.end, geometry)..=last);
            }
            self.end = first + count;
        }
        first
    }

    /// Adds an entry for which there is room, and returns its slot.
    pub fn insert(&mut self, name: &Name, set: &EntrySet, geometry: &Geometry) -> u32 {
        let first = self.occupy(set.slots() as u32, geometry);
        let slot = first + set.slots() as u32 - 1;
        self.put(first, &set.to_bytes(), geometry);
        self.entries.insert(slot, first);
        self.index(slot, name, &set.short.name);
        slot
    }

    fn index(&mut self, slot: u32, name: &Name, short: &ShortName) {
        self.names.insert(name.folded(CaseRule::Insensitive), slot);
        self.shorts.insert(*short, slot);
        self.names.entry(short.to_name(0).folded(CaseRule::Insensitive)).or_insert(slot);
    }

    /// Takes back the removal of an entry of exactly this name, if one waits: its slot can be given a new content in
    /// place, and the name is on disk at every moment.
    pub fn revive(&mut self, name: &Name) -> Option<u32> {
        let at = self.removed.iter().position(|removed| removed.name == *name)?;
        let Removed { first, short, .. } = self.removed.swap_remove(at);
        let alias = self.short(short).name;
        self.entries.insert(short, first);
        self.index(short, name, &alias);
        Some(short)
    }

    /// Whether the removal of an entry of exactly this name waits.
    pub fn can_revive(&self, name: &Name) -> bool {
        self.removed.iter().any(|removed| removed.name == *name)
    }

    /// Removes an entry from the index now, and from the disk with the next commit.
    pub fn remove(&mut self, slot: u32) {
        let name = self.name(slot);
        let alias = self.short(slot).name.to_name(0);
        for key in [name.folded(CaseRule::Insensitive), alias.folded(CaseRule::Insensitive)] {
            if self.names.get(&key) == Some(&slot) {
                self.names.remove(&key);
            }
        }
        if let Some(first) = self.entries.remove(&slot) {
            self.removed.push(Removed { name, first, short: slot });
        }
    }

    /// Sets, changes or removes the volume's label, which is a slot of the root directory. There must be room.
    pub fn set_label(&mut self, label: Option<ShortEntry>, geometry: &Geometry) {
        match (self.label, label) {
            (Some(slot), Some(entry)) => self.put(slot, &entry.to_bytes(), geometry),
            (None, Some(entry)) => {
                let slot = self.occupy(1, geometry);
                self.put(slot, &entry.to_bytes(), geometry);
                self.label = Some(slot);
            }
            (Some(slot), None) => {
                let mut erased = *slot_bytes(&self.data, slot);
                erased[0] = ERASED;
                self.put(slot, &erased, geometry);
                self.add_gap(slot, 1);
                self.label = None;
            }
            (None, None) => {}
        }
    }

    /// Adds erased slots to the gaps, joining them with their neighbours.
    fn add_gap(&mut self, mut start: u32, mut length: u32) {
        if let Some((&before, &size)) = self.gaps.range(..start).next_back()
            && before + size == start
        {
            self.gaps.remove(&before);
            (start, length) = (before, size + length);
        }
        if let Some(size) = self.gaps.remove(&(start + length)) {
            length += size;
        }
        self.gaps.insert(start, length);
    }

    /// Takes what a commit is to write, at device offsets, and carries out the removals in memory.
    pub fn take_images(&mut self, geometry: &Geometry) -> DirectoryImages {
        let mut images = DirectoryImages { added: Images::new(), removed: Images::new() };
        for &sector in &self.dirty {
            join(&mut images.added, self.place(sector, geometry), self.sector(sector, geometry));
        }
        self.dirty.clear();
        let mut touched = BTreeSet::new();
        for Removed { first, short, .. } in std::mem::take(&mut self.removed) {
            let alias = self.short(short).name;
            if self.shorts.get(&alias) == Some(&short) {
                self.shorts.remove(&alias);
            }
            for slot in first..=short {
                self.data[slot as usize * SLOT] = ERASED;
                touched.insert(Directory::sector_of(slot, geometry));
            }
            self.add_gap(first, short - first + 1);
        }
        for sector in touched {
            join(&mut images.removed, self.place(sector, geometry), self.sector(sector, geometry));
        }
        images
    }

    fn sector(&self, sector: u32, geometry: &Geometry) -> &[u8] {
        let size = geometry.bytes_per_sector as usize;
        &self.data[sector as usize * size..][..size]
    }

    /// Device offset of one of its sectors.
    fn place(&self, sector: u32, geometry: &Geometry) -> u64 {
        let at = u64::from(sector) * u64::from(geometry.bytes_per_sector);
        match &self.storage {
            Storage::Fixed => geometry.root_offset() + at,
            Storage::Chain(runs) => {
                let size = u64::from(geometry.cluster_size);
                let (cluster, _) =
                    runs.at((at / size) as u32).expect("a directory's data fills its clusters");
                geometry.cluster_offset(cluster) + at % size
            }
        }
    }
}

/// First byte of an erased slot.
const ERASED: u8 = 0xE5;

fn slot_bytes(data: &[u8], slot: u32) -> &[u8; SLOT] {
    data[slot as usize * SLOT..][..SLOT].try_into().expect("a slot's length")
}

fn read_slot(data: &[u8], slot: u32) -> Slot {
    Slot::from_bytes(slot_bytes(data, slot))
}

/// Reads the content of a directory.
pub(crate) fn read(device: &dyn Device, geometry: &Geometry, storage: &Storage) -> Result<Vec<u8>> {
    match storage {
        Storage::Fixed => {
            let size = geometry.root_sectors as usize * geometry.bytes_per_sector as usize;
            let mut data = vec![0; size];
            device.read_at(geometry.root_offset(), &mut data)?;
            Ok(data)
        }
        Storage::Chain(runs) => {
            let size = geometry.cluster_size as usize;
            let mut data = vec![0; runs.clusters() as usize * size];
            let mut at = 0;
            for run in runs.iter() {
                let length = run.count as usize * size;
                device.read_at(geometry.cluster_offset(run.cluster), &mut data[at..at + length])?;
                at += length;
            }
            Ok(data)
        }
    }
}

/// The most clusters a directory can have.
pub(crate) fn most_clusters(geometry: &Geometry) -> u32 {
    (MOST_SLOTS * SLOT as u32 / geometry.cluster_size).max(1)
}

/// Refuses a directory's entry that names no cluster.
pub(crate) fn check_first(entry: &ShortEntry, offset: u64) -> Result<()> {
    if entry.attributes.0 & Attributes::DIRECTORY != 0 && entry.cluster == 0 {
        return Err(Error::damaged("directory entry", offset, "the first cluster of a directory", 0));
    }
    Ok(())
}
