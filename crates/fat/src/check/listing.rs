//! The slots of one directory, read and changed one by one.

use super::table::Table;
use crate::layout::{Geometry, Link, LongName, LongNameFault, MOST_SLOTS, SLOT, ShortEntry, Slot};
use platter_clusters::Disk;
use platter_vfs::{Name, Result};
use std::ops::Range;

/// The slots of a directory, and their places.
pub(super) struct Listing {
    pub bytes: Vec<u8>,
    place: ListingPlace,
}

enum ListingPlace {
    /// The fixed root directory, at this device offset.
    Fixed(u64),
    /// Clusters of this size in bytes, at these device offsets.
    Clusters(usize, Vec<u64>),
}

/// One item of a directory: consecutive slots that belong together.
pub(super) enum Item {
    /// An entry: its short entry in `slot`, the parts of its long name from slot `first` on.
    Entry { first: usize, slot: usize, short: ShortEntry, long: Option<Name>, torn: bool },
    /// Parts of a long name without a short entry.
    Orphan { slots: Range<usize>, fault: LongNameFault },
}

impl Listing {
    /// Reads a directory of `count` clusters from the cluster `first` on; with 0, the fixed root directory.
    pub(super) fn read(
        disk: &Disk,
        geometry: &Geometry,
        table: &Table,
        first: u32,
        count: u32,
    ) -> Result<Listing> {
        if first == 0 {
            let offset = geometry.root_offset();
            let mut bytes = vec![0; geometry.root_entries as usize * SLOT];
            disk.read_slots(offset, &mut bytes)?;
            return Ok(Listing { bytes, place: ListingPlace::Fixed(offset) });
        }
        let size = geometry.cluster_size as usize;
        let most = (MOST_SLOTS as usize * SLOT).div_ceil(size);
        let mut offsets = Vec::new();
        let mut bytes = Vec::new();
        let mut cluster = first;
        for _ in 0..(count as usize).min(most) {
            let offset = geometry.cluster_offset(cluster);
            let start = bytes.len();
            bytes.resize(start + size, 0);
            disk.read_slots(offset, &mut bytes[start..])?;
            offsets.push(offset);
            let Link::Next(next) = table.link(geometry, cluster) else { break };
            cluster = next;
        }
        bytes.truncate(MOST_SLOTS as usize * SLOT);
        Ok(Listing { bytes, place: ListingPlace::Clusters(size, offsets) })
    }

    /// Returns slots that are looked at for themselves, and never changed.
    pub(super) fn of(bytes: Vec<u8>) -> Listing {
        Listing { bytes, place: ListingPlace::Fixed(0) }
    }

    /// Adds an empty cluster at the end.
    pub(super) fn extend(&mut self, geometry: &Geometry, cluster: u32) {
        if let ListingPlace::Clusters(size, offsets) = &mut self.place {
            offsets.push(geometry.cluster_offset(cluster));
            self.bytes.resize(self.bytes.len() + *size, 0);
        }
    }

    /// Returns the number of slots.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() / SLOT
    }

    /// Returns the bytes of a slot.
    pub(super) fn slot(&self, at: usize) -> [u8; SLOT] {
        let mut slot = [0; SLOT];
        slot.copy_from_slice(&self.bytes[at * SLOT..(at + 1) * SLOT]);
        slot
    }

    /// Returns the device offset of a slot.
    pub(super) fn offset(&self, at: usize) -> u64 {
        match &self.place {
            ListingPlace::Fixed(offset) => offset + (at * SLOT) as u64,
            ListingPlace::Clusters(size, offsets) => offsets[at * SLOT / size] + (at * SLOT % size) as u64,
        }
    }

    /// Changes a slot in memory and notes the change to be written.
    pub(super) fn change(&mut self, disk: &mut Disk, at: usize, slot: [u8; SLOT]) {
        self.bytes[at * SLOT..(at + 1) * SLOT].copy_from_slice(&slot);
        disk.edit(self.offset(at), slot);
    }

    /// Marks slots as deleted.
    pub(super) fn delete(&mut self, disk: &mut Disk, slots: Range<usize>) {
        for at in slots {
            let mut slot = self.slot(at);
            slot[0] = 0xE5;
            self.change(disk, at, slot);
        }
    }

    /// Whether a slot is in use: neither deleted nor an end mark.
    pub(super) fn is_live(&self, at: usize) -> bool {
        !matches!(self.bytes[at * SLOT], 0x00 | 0xE5)
    }

    /// Returns the number of the first slot with an end mark, or else the number of slots.
    pub(super) fn end(&self) -> usize {
        (0..self.len()).find(|&at| self.bytes[at * SLOT] == 0).unwrap_or(self.len())
    }

    /// Returns the items in the slots from `start` to the end mark.
    pub(super) fn items(&self, start: usize) -> Vec<Item> {
        let mut items = Vec::new();
        let mut long = LongName::default();
        let mut first = start;
        let end = self.end();
        for at in start..end {
            match Slot::from_bytes(&self.slot(at)) {
                Slot::Long(part) => match long.push(&part) {
                    Ok(()) if long.slots() == 1 => first = at,
                    Ok(()) => {}
                    Err(fault @ LongNameFault::Orphan) => {
                        items.push(Item::Orphan { slots: first..at, fault });
                        first = at;
                    }
                    Err(fault) => {
                        items.push(Item::Orphan { slots: first..at + 1, fault });
                        first = at + 1;
                    }
                },
                Slot::Short(short) => {
                    // The slot where the entry's long name starts, or else the slot of the short entry.
                    let from = at - long.slots();
                    match long.finish(&short.name) {
                        Ok(Some(name)) => {
                            items.push(Item::Entry {
                                first: from,
                                slot: at,
                                short,
                                long: Some(name),
                                torn: false,
                            });
                        }
                        Ok(None) => {
                            items.push(Item::Entry { first: at, slot: at, short, long: None, torn: false });
                        }
                        Err(fault) => {
                            items.push(Item::Orphan { slots: from..at, fault });
                            items.push(Item::Entry { first: at, slot: at, short, long: None, torn: true });
                        }
                    }
                    first = at + 1;
                }
                Slot::Deleted | Slot::End => {
                    if let Err(fault) = long.abandon() {
                        items.push(Item::Orphan { slots: first..at, fault });
                    }
                    first = at + 1;
                }
            }
        }
        if let Err(fault) = long.abandon() {
            items.push(Item::Orphan { slots: first..end, fault });
        }
        items
    }
}
