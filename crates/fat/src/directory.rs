//! A FAT directory in memory: its slots and an index of its names. The key of an entry is the slot of its short
//! entry.
//!
//! Names are found by their case-folded form. The short name of an entry with a long one is not shown, and nothing is
//! found by it: a new entry may have it, and then its former owner gets another one first.

use crate::layout::{
    EntrySet, Geometry, LongName, LongNameFault, MOST_SLOTS, SLOT, ShortEntry, ShortName, Slot,
};
use platter_clusters::{Directory, DirectoryImages, Heap, Runs, SlotRules, Slots, Storage};
use platter_vfs::{CaseRule, Damage, Name, Result};
use std::collections::HashMap;

/// Returns how FAT uses slots.
pub(crate) fn rules(geometry: &Geometry) -> SlotRules {
    SlotRules {
        sector: geometry.bytes_per_sector,
        // All fields of an entry that can change are in its short entry.
        together: 1,
        erase: |slot| slot[0] = ERASED,
        is_end: |slot| slot[0] == 0,
        blank: [ERASED; SLOT],
    }
}

/// The bytes of a slot with the upper half of the first cluster (`DIR_FstClusHI`).
const UPPER: std::ops::Range<usize> = 20..22;

/// A directory in memory.
pub struct FatDirectory {
    slots: Slots,
    names: HashMap<Box<[u16]>, u32>,
    /// The entries with a long name, by the case-folded form of their short one.
    aliases: HashMap<Box<[u16]>, u32>,
    shorts: HashMap<ShortName, u32>,
    /// The slot of the volume's label.
    label: Option<u32>,
    /// Whether only the lower half of the field for the first cluster counts: on FAT12 and FAT16 the upper half
    /// belongs to other systems (OS/2 and Windows NT kept extended attributes there).
    is_narrow: bool,
    /// The first fault of the slots when they were read.
    damage: Option<Damage>,
}

impl FatDirectory {
    /// Parses the slots of a directory. `cut_off` says whether there are entries after its end mark.
    pub(crate) fn parse(mut slots: Slots, root: bool, is_narrow: bool, cut_off: bool) -> FatDirectory {
        let mut label = None;
        let mut long = LongName::default();
        // The fault of a long name part that did not follow from the part before it, if the slots just before this
        // one are parts of a long name.
        let mut torn = None;
        let mut fault: Option<(u32, &str, String)> = None;
        let mut note = |slot, expected, found: &dyn std::fmt::Debug| {
            fault.get_or_insert_with(|| (slot, expected, format!("{found:?}")));
        };
        for slot in 0..slots.end() {
            let bytes = *slots.slot(slot);
            // Parts of a long name without a short entry are no damage: systems that do not support long names leave
            // them behind when they delete files.
            match Slot::from_bytes(&bytes) {
                Slot::Deleted | Slot::End => {
                    slots.add_gap(slot, 1);
                    let _ = long.abandon();
                    torn = None;
                }
                Slot::Long(part) => {
                    if part.cluster != 0 {
                        note(slot, "a part of a long name without a cluster", &part.cluster);
                    }
                    torn = match long.push(&part) {
                        Ok(()) | Err(LongNameFault::Orphan) => None,
                        Err(fault) => Some(fault),
                    };
                }
                Slot::Short(short) if short.attributes.label() => {
                    let cluster = if is_narrow { short.cluster & 0xFFFF } else { short.cluster };
                    let is_label = !short.attributes.directory() && cluster == 0 && short.size == 0;
                    // A label with clusters or a size is a file whose attributes are damaged.
                    if !is_label {
                        note(slot, "a volume label without content", &short.attributes);
                    }
                    if root && label.is_none() && !short.attributes.directory() {
                        label = Some(slot);
                    }
                    let _ = long.abandon();
                }
                Slot::Short(short) if short.name.is_dots() => {
                    if root || slot > 1 {
                        note(slot, "\".\" and \"..\" at the beginning", &short.name);
                    }
                    let _ = long.abandon();
                }
                Slot::Short(short) => {
                    let parts = long.slots() as u32;
                    let name = long.finish(&short.name);
                    let name =
                        name.and_then(|name| torn.take().filter(|_| name.is_none()).map_or(Ok(name), Err));
                    let first = match name {
                        Ok(Some(_)) => slot - parts,
                        Ok(None) => {
                            if !short.name.is_valid() {
                                note(slot, "a name of characters that a name may have", &short.name);
                            }
                            slot
                        }
                        // The file is listed, but under its short name.
                        Err(fault) => {
                            note(slot, "the parts of a long name before their entry", &fault);
                            slot
                        }
                    };
                    slots.note(slot, first..slot + 1);
                }
            }
        }
        if cut_off {
            note(slots.end(), "nothing behind the end", &"entries");
        }
        let damage = fault.map(|(slot, expected, found)| Damage {
            structure: "directory",
            offset: slots.place(slot),
            expected: expected.to_owned(),
            found,
        });
        let mut directory = FatDirectory {
            slots,
            names: HashMap::new(),
            aliases: HashMap::new(),
            shorts: HashMap::new(),
            label,
            is_narrow,
            damage,
        };
        let keys: Vec<u32> = directory.slots.keys().collect();
        for &slot in &keys {
            let folded = directory.name(slot).folded(CaseRule::Insensitive);
            let short = directory.entry(slot).name;
            let alias = folded_alias(&short);
            if alias != folded {
                directory.aliases.entry(alias).or_insert(slot);
            }
            directory.names.entry(folded).or_insert(slot);
            directory.shorts.entry(short).or_insert(slot);
        }
        directory
    }

    /// Makes a new directory of one cluster: ".", "..", and zeroes.
    pub(crate) fn fresh(
        rules: SlotRules,
        heap: Heap,
        dot: ShortEntry,
        parent: u32,
        is_narrow: bool,
    ) -> FatDirectory {
        let mut runs = Runs::default();
        runs.push(dot.cluster, 1);
        let mut data = vec![0; heap.cluster_size() as usize];
        data[..SLOT].copy_from_slice(&ShortEntry { name: ShortName::DOT, ..dot.clone() }.to_bytes());
        let dots = ShortEntry { name: ShortName::DOT_DOT, cluster: parent, ..dot };
        data[SLOT..2 * SLOT].copy_from_slice(&dots.to_bytes());
        FatDirectory::parse(Slots::new(rules, heap, Storage::Chain(runs), data), false, is_narrow, false)
    }

    /// Changes the cluster that ".." names.
    pub(crate) fn set_parent(&mut self, cluster: u32) {
        let dots = (self.slots.end() > 1).then(|| self.entry(1));
        if let Some(dots) = dots.filter(|dots| dots.name == ShortName::DOT_DOT) {
            self.slots.put(1, &ShortEntry { cluster, ..dots }.to_bytes());
        }
    }

    /// Composes the slots of an entry with a new name. A short name counts as taken while its removal waits for a
    /// commit, except that of the entry in slot `but`, which is being renamed.
    fn compose(&self, name: &Name, entry: &ShortEntry, but: Option<u32>) -> Result<EntrySet> {
        EntrySet::new(name, entry.clone(), |short| {
            let other = |slot: Option<&u32>| slot.is_some_and(|slot| Some(*slot) != but);
            // An alias must not equal a long name in the directory either.
            other(self.shorts.get(short)) || other(self.names.get(&folded_alias(short)))
        })
    }

    fn index(&mut self, slot: u32, name: &Name, short: &ShortName) {
        let (folded, alias) = (name.folded(CaseRule::Insensitive), folded_alias(short));
        if alias != folded {
            self.aliases.insert(alias, slot);
        }
        self.names.insert(folded, slot);
        self.shorts.insert(*short, slot);
    }

    /// Returns the volume's label, if this is the root directory and has one.
    pub(crate) fn label(&self) -> Option<ShortEntry> {
        self.label.map(|slot| self.entry(slot))
    }

    /// Sets, changes or removes the volume's label, which is a slot of the root directory. There must be a free slot.
    pub(crate) fn set_label(&mut self, label: Option<ShortEntry>) {
        match (self.label, label) {
            (Some(slot), Some(entry)) => self.slots.put(slot, &entry.to_bytes()),
            (None, Some(entry)) => {
                let slot = self.slots.occupy(1);
                self.slots.put(slot, &entry.to_bytes());
                self.label = Some(slot);
            }
            (Some(slot), None) => {
                self.slots.erase(slot..slot + 1);
                self.label = None;
            }
            (None, None) => {}
        }
    }
}

impl Directory for FatDirectory {
    type Entry = ShortEntry;

    fn slots(&self) -> &Slots {
        &self.slots
    }

    fn slots_mut(&mut self) -> &mut Slots {
        &mut self.slots
    }

    fn damage(&self) -> Option<&Damage> {
        self.damage.as_ref()
    }

    fn find(&self, name: &Name) -> Option<u32> {
        self.names.get(&name.folded(CaseRule::Insensitive)).copied()
    }

    fn find_short(&self, name: &Name) -> Option<u32> {
        self.aliases.get(&name.folded(CaseRule::Insensitive)).copied()
    }

    fn entry(&self, slot: u32) -> ShortEntry {
        let mut entry = ShortEntry::from_bytes(self.slots.slot(slot));
        if self.is_narrow {
            entry.cluster &= 0xFFFF;
        }
        entry
    }

    fn name(&self, slot: u32) -> Name {
        let short = self.entry(slot);
        let mut long = LongName::default();
        for part in self.slots.slots_of(slot).start..slot {
            if let Slot::Long(part) = Slot::from_bytes(self.slots.slot(part)) {
                let _ = long.push(&part);
            }
        }
        match long.finish(&short.name) {
            Ok(Some(name)) => name,
            _ => short.name.to_name(short.nt),
        }
    }

    fn update(&mut self, slot: u32, entry: &ShortEntry) -> u32 {
        let old = self.entry(slot);
        let entry = ShortEntry { name: old.name, nt: old.nt, ..entry.clone() };
        if entry != old {
            let mut bytes = entry.to_bytes();
            if self.is_narrow {
                bytes[UPPER].copy_from_slice(&self.slots.slot(slot)[UPPER]);
            }
            self.slots.put(slot, &bytes);
        }
        slot
    }

    fn slots_for(&self, name: &Name, entry: &ShortEntry, but: Option<u32>) -> Result<usize> {
        Ok(self.compose(name, entry, but)?.slots())
    }

    fn insert(&mut self, name: &Name, entry: &ShortEntry, but: Option<u32>) -> Result<u32> {
        let set = self.compose(name, entry, but)?;
        let slot = self.slots.insert(&set.to_bytes(), set.slots() as u32 - 1);
        self.index(slot, name, &set.short.name);
        Ok(slot)
    }

    fn remove(&mut self, slot: u32) {
        let name = self.name(slot);
        let keys = (name.folded(CaseRule::Insensitive), folded_alias(&self.entry(slot).name));
        for (map, key) in [(&mut self.names, keys.0), (&mut self.aliases, keys.1)] {
            if map.get(&key) == Some(&slot) {
                map.remove(&key);
            }
        }
        self.slots.remove(slot, name);
    }

    fn revive(&mut self, name: &Name) -> Option<u32> {
        let slot = self.slots.revive(name)?;
        let alias = self.entry(slot).name;
        self.index(slot, name, &alias);
        Some(slot)
    }

    fn take_images(&mut self) -> DirectoryImages {
        let FatDirectory { slots, shorts, .. } = self;
        slots.take_images(|slots, slot| {
            let alias = ShortEntry::from_bytes(slots.slot(slot)).name;
            if shorts.get(&alias) == Some(&slot) {
                shorts.remove(&alias);
            }
        })
    }
}

/// The case-folded form of a short name.
fn folded_alias(short: &ShortName) -> Box<[u16]> {
    short.to_name(0).folded(CaseRule::Insensitive)
}

/// The first byte of an erased slot.
const ERASED: u8 = 0xE5;

/// Returns the highest number of clusters in a directory.
pub(crate) fn most_clusters(geometry: &Geometry) -> u32 {
    (MOST_SLOTS * SLOT as u32 / geometry.cluster_size).max(1)
}
