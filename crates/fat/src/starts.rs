//! Checking whether the structures are where the boot sector places them.
//!
//! FAT has no checksum of its boot sector, and FAT12 and FAT16 have no copy of it: with one flipped bit in the number
//! of FATs a volume seems empty, and a repair that relied on it would clear its content. But each FAT begins with an
//! entry that repeats the media byte (fatgen103, "FAT Data Structure"), each directory begins with an entry that
//! names its own cluster, and no FAT entry after the last cluster's is in use. These facts are checked.

use crate::layout::{
    BootSector, Geometry, InfoSector, Link, SLOT, ShortEntry, ShortName, Slot, get, is_sound, set,
};
use platter_clusters::Disk;
use platter_vfs::{Error, Result};

/// How many directories of the root are checked, and in how many bytes of the root they are searched for.
const MOST_DIRECTORIES: usize = 8;
const ROOT_BYTES: u64 = 16 << 10;
/// The most bytes of a FAT after the last cluster's entry that are checked.
const MOST_BEHIND: u64 = 64 << 10;

/// A boot sector with consistent fields, and the layout that it states.
pub(crate) struct Boot {
    pub sector: BootSector,
    pub geometry: Geometry,
}

impl Boot {
    /// Returns a boot sector with the layout that it states, for a volume that ends where the device does, or before.
    ///
    /// # Errors
    /// Those of [`BootSector::geometry`], and [`Error::Damaged`] if the FAT is too short for the volume and this looks like
    /// damage of the boot sector.
    pub(crate) fn new(disk: &Disk, sector: BootSector) -> Result<Boot> {
        Boot::within(disk, sector, disk.device().len())
    }

    /// The same for a volume of at most `length` bytes, of which the device may be only the beginning.
    ///
    /// # Errors
    /// Those of [`Boot::new`].
    pub(crate) fn within(disk: &Disk, sector: BootSector, length: u64) -> Result<Boot> {
        let geometry = sector.geometry(length)?;
        let boot = Boot { sector, geometry };
        match boot.geometry.short_fat() {
            Some(error) if !boot.was_made_short(disk, length) => Err(error),
            _ => Ok(boot),
        }
    }

    /// Whether a volume whose FAT is too short was made so. One wrong bit in the boot sector can make the FAT seem too
    /// short too, and the clusters or the end of the volume are then elsewhere.
    fn was_made_short(&self, disk: &Disk, length: u64) -> bool {
        let geometry = &self.geometry;
        // A copy that says the same proves it, and one that does not makes it doubtful.
        if let Some(copy) = geometry.backup_sector.and_then(|sector| {
            let mut bytes = [0; BootSector::SIZE];
            disk.read(geometry.sector_offset(sector), &mut bytes).ok()?;
            BootSector::from_bytes(&bytes).geometry(length).ok()
        }) {
            return copy == *geometry;
        }
        // Without a copy, a second FAT in its place confirms the length of the FAT. On FAT12 and FAT16 a directory in its
        // place confirms the length of the root directory, which lies between the FATs and the clusters. A volume that is
        // longer than its FAT and than the device is more likely to have a wrong length.
        let is_root_confirmed = geometry.root_sectors == 0 || !self.directories(disk).is_empty();
        let is_whole = geometry.sector_offset(geometry.total_sectors) <= disk.device().end();
        geometry.written_fats().len() > 1 && is_root_confirmed && is_whole && self.fits(disk)
    }

    /// Returns the value that FAT entry 0 should have.
    pub(crate) fn first_entry(&self) -> u32 {
        self.geometry.kind.end() & !0xFF | u32::from(self.sector.media)
    }

    /// Returns how many of the structures that the boot sector places are found there, and how many are expected.
    pub(crate) fn fit(&self, disk: &Disk) -> (u32, u32) {
        let geometry = &self.geometry;
        let mut found = Vec::new();
        for copy in geometry.written_fats() {
            let mut start = [0; 12];
            let is_read = disk.read(geometry.fat_offset(copy), &mut start).is_ok();
            let entry = |index| get(geometry.kind, &start, index).unwrap_or(0);
            let begins = is_read && entry(0) == self.first_entry();
            found.push(begins);
            // Most bytes are an end mark, so the second entry proves nothing without the first one.
            found.push(begins && entry(1) > geometry.kind.bad() >> 5);
        }
        let root = match geometry.root_cluster {
            0 => geometry.root_offset(),
            cluster => geometry.cluster_offset(cluster),
        };
        let mut slot = [0; SLOT];
        found.push(disk.read(root, &mut slot).is_ok() && is_sound(geometry, &slot));
        if let Some(info) = geometry.info_sector {
            let mut bytes = [0; InfoSector::SIZE];
            let is_read = disk.read(geometry.sector_offset(info), &mut bytes).is_ok();
            found.push(is_read && InfoSector::from_bytes(&bytes).is_valid());
        }
        found.extend(self.directories(disk));
        found.push(self.freed_behind(disk).is_none());
        (found.iter().filter(|is_there| **is_there).count() as u32, found.len() as u32)
    }

    /// Whether all structures are found where the boot sector places them.
    pub(crate) fn fits(&self, disk: &Disk) -> bool {
        let (found, of) = self.fit(disk);
        found == of
    }

    /// Whether more speaks for this boot sector than for another one: each structure that is found where it places it,
    /// less each that is not. Neither suffices alone: a sector that states many FATs expects more to be found, and one that
    /// places the root directory wrongly expects no directories.
    pub(crate) fn fits_better(&self, other: &Boot, disk: &Disk) -> bool {
        let weight = |boot: &Boot| {
            let (found, of) = boot.fit(disk);
            let of_root = if boot.is_root_in_use(disk) { 1 } else { -1 };
            i64::from(found) * 2 - i64::from(of) + of_root
        };
        weight(self) > weight(other)
    }

    /// Whether the entry of the first cluster of FAT32's root directory is in use.
    fn is_root_in_use(&self, disk: &Disk) -> bool {
        let geometry = &self.geometry;
        let mut entry = [0; 4];
        let at = geometry.fat_offset(geometry.primary_fat())
            + geometry.kind.table_bytes(geometry.root_cluster.into());
        let is_read = disk.read(at, &mut entry).is_ok();
        let value = get(geometry.kind, &entry, 0).unwrap_or(0);
        is_read && !self.is_unused(value)
    }

    /// For each of the root's first directories, whether it begins with an entry that names its own cluster.
    fn directories(&self, disk: &Disk) -> Vec<bool> {
        let geometry = &self.geometry;
        let (at, length) = match geometry.root_cluster {
            0 => (geometry.root_offset(), u64::from(geometry.root_entries) * SLOT as u64),
            cluster => (geometry.cluster_offset(cluster), u64::from(geometry.cluster_size)),
        };
        let mut root = vec![0; length.min(ROOT_BYTES) as usize];
        if disk.read(at, &mut root).is_err() {
            return Vec::new();
        }
        let slots = root.as_chunks::<SLOT>().0.iter().map(Slot::from_bytes);
        let starts = slots.take_while(|slot| !matches!(slot, Slot::End)).filter_map(|slot| match slot {
            Slot::Short(entry)
                if entry.attributes.directory() && !entry.attributes.label() && entry.name.is_valid() =>
            {
                Some(geometry.first_cluster(&entry))
            }
            _ => None,
        });
        let is_directory = |start: u32| {
            let mut slot = [0; SLOT];
            let is_read =
                geometry.has_cluster(start) && disk.read(geometry.cluster_offset(start), &mut slot).is_ok();
            let entry = ShortEntry::from_bytes(&slot);
            is_read && entry.name == ShortName::DOT && geometry.first_cluster(&entry) == start
        };
        starts.take(MOST_DIRECTORIES).map(is_directory).collect()
    }

    /// Returns the entries of the first FAT after that of the last cluster, freed, with their offset on the device. `None`
    /// if no entry there is in use, or if they cannot be read.
    pub(crate) fn freed_behind(&self, disk: &Disk) -> Option<(u64, Vec<u8>)> {
        let geometry = &self.geometry;
        let kind = geometry.kind;
        let entries = u64::from(geometry.clusters) + 2;
        let used = kind.table_bytes(entries);
        let room = u64::from(geometry.fat_sectors) * u64::from(geometry.bytes_per_sector);
        // Two entries of FAT12 share three bytes, so reading begins at a whole pair.
        let (first, at) = match kind.bits() {
            12 => (entries / 2 * 2, entries / 2 * 3),
            _ => (entries, used),
        };
        let length = room.saturating_sub(at).min(MOST_BEHIND) / 12 * 12;
        let at = geometry.fat_offset(geometry.primary_fat()) + at;
        let mut bytes = vec![0; length as usize];
        disk.read(at, &mut bytes).ok()?;
        let behind = (entries - first) as u32..(length * 8 / u64::from(kind.bits())) as u32;
        let mut is_changed = false;
        for index in behind {
            if !self.is_unused(get(kind, &bytes, index).unwrap_or(0)) {
                is_changed |= set(kind, &mut bytes, index, 0);
            }
        }
        is_changed.then_some((at, bytes))
    }

    fn is_unused(&self, value: u32) -> bool {
        matches!(self.geometry.link(value), Link::Free | Link::Bad)
    }

    /// Returns the boot sector as it was before a bit flipped in a field that places structures: a sector one bit
    /// away with which all structures are found. `None` if there is no such sector, or if all are found with this
    /// one.
    pub(crate) fn before_a_flip(&self, disk: &Disk) -> Option<Boot> {
        if self.fits(disk) {
            return None;
        }
        let length = disk.device().len();
        let others = one_bit_away(&self.sector).into_iter().filter_map(|sector| {
            let geometry = sector.geometry(length).ok().filter(|geometry| geometry.short_fat().is_none())?;
            let boot = Boot { sector, geometry }.with_media_of_fat(disk);
            let fit = boot.fit(disk);
            // With another size of the root directory or of the volume, the FATs are found in the same place; so a
            // directory in the root, or the end of the device, must confirm it.
            let is_told = match () {
                () if boot.geometry.root_entries != self.geometry.root_entries => {
                    !boot.directories(disk).is_empty()
                }
                () if boot.geometry.total_sectors != self.geometry.total_sectors => {
                    u64::from(boot.geometry.total_sectors)
                        == length / u64::from(boot.geometry.bytes_per_sector)
                }
                () => true,
            };
            (fit.0 == fit.1 && is_told).then_some((fit.0, boot))
        });
        // With fewer copies of the FAT all structures may be found too, so the candidate with the most structures is
        // taken.
        others.max_by_key(|(found, _)| *found).map(|(_, boot)| boot)
    }

    /// Takes the media byte, which places nothing, from the FAT that repeats it, in case it was damaged too.
    fn with_media_of_fat(mut self, disk: &Disk) -> Boot {
        let mut media = [0];
        let is_read = disk.read(self.geometry.fat_offset(0), &mut media).is_ok();
        if is_read && is_media(media[0]) {
            self.sector.media = media[0];
        }
        self
    }

    /// Returns the error if the boot sector states more than the usual two FATs, and not one of the others is there. A
    /// repair would write FATs over what is in these places.
    pub(crate) fn missing_fats(&self, disk: &Disk) -> Option<Error> {
        let mut others = (2..self.geometry.fat_count).map(|copy| {
            let mut start = [0; 12];
            let is_read = disk.read(self.geometry.fat_offset(copy), &mut start).is_ok();
            is_read && get(self.geometry.kind, &start, 0) == Some(self.first_entry())
        });
        (self.geometry.fat_count > 2 && !others.any(|is_there| is_there)).then(|| {
            let expected = "1 or 2 FATs, as no more are where they would be";
            Error::damaged("boot sector", 16, expected, self.geometry.fat_count)
        })
    }

    /// Returns the error that describes how this sector differs from `right`, the sector before the damage.
    pub(crate) fn damage(&self, right: &Boot) -> Error {
        let told = |Boot { geometry, .. }: &Boot| {
            let Geometry { fat_count, fat_sectors, reserved_sectors, root_entries, total_sectors, .. } =
                geometry;
            let cluster = geometry.cluster_size;
            format!(
                "{fat_count} FATs of {fat_sectors} sectors from sector {reserved_sectors} on, {root_entries} entries of \
                 the root, {total_sectors} sectors, clusters of {cluster} bytes"
            )
        };
        let (ours, theirs) = (self.sector.to_bytes(), right.sector.to_bytes());
        let at = ours.iter().zip(theirs).position(|(ours, theirs)| *ours != theirs).unwrap_or(0);
        Error::damaged("boot sector", at as u64, told(right), told(self))
    }
}

/// Whether a byte is one that names a medium (fatgen103, `BPB_Media`).
pub(crate) fn is_media(byte: u8) -> bool {
    matches!(byte, 0xF0 | 0xF8..)
}

/// Returns all boot sectors that differ in one bit of a field that places structures.
fn one_bit_away(sector: &BootSector) -> Vec<BootSector> {
    let mut others = Vec::new();
    let mut with = |change: &dyn Fn(&mut BootSector)| {
        let mut other = sector.clone();
        change(&mut other);
        others.push(other);
    };
    (0..8).for_each(|bit| with(&|other| other.fat_count ^= 1 << bit));
    (0..16).for_each(|bit| with(&|other| other.reserved_sectors ^= 1 << bit));
    match sector.total_sectors_16 {
        0 => (0..32).for_each(|bit| with(&|other| other.total_sectors_32 ^= 1 << bit)),
        _ => (0..16).for_each(|bit| with(&|other| other.total_sectors_16 ^= 1 << bit)),
    }
    if sector.fat32.is_none() {
        (0..16).for_each(|bit| with(&|other| other.root_entries ^= 1 << bit));
    }
    match sector.fat32 {
        None => (0..16).for_each(|bit| with(&|other| other.fat_sectors_16 ^= 1 << bit)),
        Some(_) => (0..32).for_each(|bit| {
            with(&|other| other.fat32.iter_mut().for_each(|fields| fields.fat_sectors ^= 1 << bit));
        }),
    }
    others.retain(|other| other.fat32.is_some() || other.fat_sectors_16 != 0);
    others
}
