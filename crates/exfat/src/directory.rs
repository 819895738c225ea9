//! An exFAT directory in memory: its slots and an index of its names. The key of an entry is the number of its first
//! slot.
//!
//! A set that is incomplete, or whose checksum is wrong, is not used as an entry, but it keeps its slots, and the
//! directory does not count as empty.

use crate::layout::{
    EntrySet, FileInfo, LabelEntry, Primary, SLOT, Upcase, is_benign, is_whole, kind, secondary_count,
};
use platter_clusters::{Directory, DirectoryImages, SlotRules, Slots};
use platter_vfs::{Damage, Name, Result};
use std::collections::HashMap;
use std::sync::Arc;

/// Returns how exFAT uses slots.
pub(crate) fn rules(sector: u32) -> SlotRules {
    let mut blank = [0; SLOT];
    blank[0] = kind::FILE & 0x7F;
    SlotRules {
        sector,
        // A change of size or time changes the file entry, which has the checksum, and the stream extension. If both
        // are in the same sector they are written together.
        together: 2,
        erase: |slot| slot[0] &= 0x7F,
        is_end: |slot| slot[0] == kind::END,
        blank,
    }
}

/// A directory in memory.
pub struct ExfatDirectory {
    slots: Slots,
    upcase: Arc<Upcase>,
    names: HashMap<Box<[u16]>, u32>,
    /// The slots of the label and of the volume's GUID; only the root directory has them.
    label: Option<u32>,
    guid: Option<u32>,
    /// Whether the directory holds a set or an entry that is not understood.
    foreign: bool,
    /// The first fault of the slots when they were read.
    damage: Option<Damage>,
}

impl ExfatDirectory {
    /// Parses the slots of a directory.
    pub(crate) fn parse(mut slots: Slots, upcase: Arc<Upcase>) -> ExfatDirectory {
        let mut names = HashMap::new();
        let (mut label, mut guid, mut foreign) = (None, None, false);
        let mut fault: Option<(u32, &str, String)> = None;
        let mut note = |slot, expected, found: String| {
            fault.get_or_insert((slot, expected, found));
        };
        let behind = slots.take_behind();
        let end = slots.end();
        let mut at = 0;
        while at < end {
            let here = at;
            at += 1;
            match Primary::of(slots.slot(here)) {
                Primary::End | Primary::Unused => slots.add_gap(here, 1),
                Primary::File => match EntrySet::read(
                    &slots.data().as_chunks::<SLOT>().0[here as usize..end as usize],
                    &upcase,
                ) {
                    Ok(set) => {
                        at = here + set.slots().len() as u32;
                        slots.note(here, here..at);
                        names.entry(upcase.fold(set.name().units())).or_insert(here);
                    }
                    Err(wrong) => {
                        foreign = true;
                        note(here, "a whole entry set", format!("a fault of its {wrong:?}"));
                    }
                },
                Primary::Other(kind::LABEL) => label = label.or(Some(here)),
                Primary::Other(kind::GUID) => guid = guid.or(Some(here)),
                Primary::Other(kind::BITMAP | kind::UPCASE) => foreign = true,
                Primary::Other(other) => {
                    foreign = true;
                    let slots = &slots.data().as_chunks::<SLOT>().0[here as usize..end as usize];
                    if is_benign(other) && (other == kind::PADDING || is_whole(slots)) {
                        // The secondary entries of a benign set are skipped with it.
                        let most = at + secondary_count(&slots[0]) as u32;
                        let is_part = |at: u32| {
                            let slot = slots.get((at - here) as usize);
                            slot.is_some_and(|slot| matches!(Primary::of(slot), Primary::Secondary(_)))
                        };
                        while at < most && is_part(at) {
                            at += 1;
                        }
                    } else {
                        note(here, "a primary entry of a known type", format!("{other:#04x}"));
                    }
                }
                Primary::Secondary(other) => {
                    foreign = true;
                    note(here, "a primary entry", format!("a secondary one, of type {other:#04x}"));
                }
            }
        }
        // Slots after the end mark may hold anything. But a whole set there means that a slot before it was
        // overwritten with zeroes.
        let behind = behind.as_chunks::<SLOT>().0;
        let is_set =
            |at: usize| behind[at][0] == kind::FILE && EntrySet::read(&behind[at..], &upcase).is_ok();
        if (0..behind.len()).any(is_set) {
            note(end, "nothing behind the end", "whole entry sets".to_owned());
        }
        let damage = fault.map(|(slot, expected, found)| Damage {
            structure: "directory",
            offset: slots.place(slot),
            expected: expected.to_owned(),
            found,
        });
        ExfatDirectory { slots, upcase, names, label, guid, foreign, damage }
    }

    fn set(&self, key: u32) -> EntrySet {
        let range = self.slots.slots_of(key);
        let slots = &self.slots.data().as_chunks::<SLOT>().0[range.start as usize..range.end as usize];
        EntrySet::read_loosely(slots).expect("only whole sets are entries")
    }

    /// Returns the volume's label, if this is the root directory and has one.
    pub(crate) fn label(&self) -> Option<LabelEntry> {
        self.label.map(|slot| LabelEntry::from_bytes(self.slots.slot(slot)))
    }

    /// Whether a slot for the label exists.
    pub(crate) fn has_label(&self) -> bool {
        self.label.is_some()
    }

    /// Returns the volume's GUID, if this is the root directory and has one.
    pub(crate) fn guid(&self) -> Option<[u8; 16]> {
        self.guid.map(|slot| EntrySet::guid(self.slots.slot(slot)))
    }

    /// Sets or changes the label. There must be a free slot.
    pub(crate) fn set_label(&mut self, label: &LabelEntry) {
        let slot = match self.label {
            Some(slot) => slot,
            None => self.slots.occupy(1),
        };
        self.slots.put(slot, &label.to_bytes());
        self.label = Some(slot);
    }
}

impl Directory for ExfatDirectory {
    type Entry = FileInfo;

    fn slots(&self) -> &Slots {
        &self.slots
    }

    fn slots_mut(&mut self) -> &mut Slots {
        &mut self.slots
    }

    fn damage(&self) -> Option<&Damage> {
        self.damage.as_ref()
    }

    fn is_empty(&self) -> bool {
        self.slots.is_empty() && !self.foreign
    }

    fn find(&self, name: &Name) -> Option<u32> {
        self.names.get(&self.upcase.fold(name.units())).copied()
    }

    fn entry(&self, key: u32) -> FileInfo {
        self.set(key).info()
    }

    fn name(&self, key: u32) -> Name {
        self.set(key).name()
    }

    fn update(&mut self, key: u32, entry: &FileInfo) -> u32 {
        let mut set = self.set(key);
        if set.info() == *entry {
            return key;
        }
        set.set_info(entry);
        // A set whose first two entries are in different sectors could be torn by a power cut: a new copy is written,
        // and the old one erased afterwards.
        let count = set.slots().len();
        if !self.slots.is_together(key) && self.slots.has_room(count) {
            let name = set.name();
            self.slots.remove(key, name.clone());
            let new = self.slots.insert(set.slots().as_flattened(), 0);
            self.names.insert(self.upcase.fold(name.units()), new);
            return new;
        }
        self.slots.put(key, set.slots()[..2].as_flattened());
        key
    }

    fn slots_for(&self, name: &Name, entry: &FileInfo, _but: Option<u32>) -> Result<usize> {
        Ok(EntrySet::slots_for(name, entry))
    }

    fn insert(&mut self, name: &Name, entry: &FileInfo, _but: Option<u32>) -> Result<u32> {
        let set = EntrySet::new(name, entry, &self.upcase);
        let key = self.slots.insert(set.slots().as_flattened(), 0);
        self.names.insert(self.upcase.fold(name.units()), key);
        Ok(key)
    }

    fn remove(&mut self, key: u32) {
        let name = self.name(key);
        let folded = self.upcase.fold(name.units());
        if self.names.get(&folded) == Some(&key) {
            self.names.remove(&folded);
        }
        self.slots.remove(key, name);
    }

    fn revive(&mut self, name: &Name) -> Option<u32> {
        let key = self.slots.revive(name)?;
        self.names.insert(self.upcase.fold(name.units()), key);
        Some(key)
    }

    fn take_images(&mut self) -> DirectoryImages {
        self.slots.take_images(|_, _| {})
    }
}
