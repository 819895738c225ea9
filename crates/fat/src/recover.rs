//! Copying out what is left of a volume that may be too damaged to open.

use crate::check::find_boot;
use crate::layout::{
    Attributes, Geometry, Link, LongEntry, LongName, MOST_LONG_ENTRIES, MOST_SLOTS, SLOT, ShortEntry,
    ShortName, Slot, is_garbage, is_sound,
};
use crate::search::{Layout, search};
use platter_clusters::{DirectoryEntry, Disk, Heap, Remains, Remnant, TABLE_CACHE, Table, in_sectors_of};
use platter_device::Device;
use platter_vfs::{LocalTime, Progress, RecoverReport, Recovered, RecoveredData, Result, Visit};
use std::sync::Arc;

/// Calls `visit` for everything that is left of a volume. If neither the boot sector nor its copy is valid, the layout of
/// the volume is searched for.
///
/// # Errors
/// [`Error::NotThisFormat`](platter_vfs::Error::NotThisFormat) or [`Error::Damaged`](platter_vfs::Error::Damaged) if
/// nothing tells the layout, and the errors of `visit`.
pub(crate) fn recover(
    device: Arc<dyn Device>,
    progress: &dyn Progress,
    visit: Visit<'_>,
) -> Result<RecoverReport> {
    let disk = Disk::new(&*device);
    let (geometry, is_doubtful) = match find_boot(&disk) {
        Ok(geometry) => (geometry, false),
        Err(error) => {
            let Layout { geometry, is_doubtful } = search(&disk, progress).ok_or(error)?;
            (geometry, is_doubtful)
        }
    };
    // What another layout would find elsewhere is not passed off as whole.
    let visit: Visit<'_> = &mut |found: &Recovered, data: &mut dyn RecoveredData| match is_doubtful {
        false => visit(found, data),
        true => visit(&Recovered { damaged: true, ..found.clone() }, data),
    };
    let mut root = vec![0; geometry.root_entries as usize * SLOT];
    if disk.read(geometry.root_offset(), &mut root).is_err() {
        // The directories below the root are then found by their content.
        root.fill(0);
    }
    let first = geometry.root_cluster;
    let table = (geometry.fat_count > 0).then(|| {
        let place = geometry.fat_place(best_table(&disk, &geometry));
        let device = in_sectors_of(device.clone(), geometry.bytes_per_sector);
        Table::new(device, geometry.clone(), place, TABLE_CACHE)
    });
    platter_clusters::recover(device, FatRemains { geometry, table }, &root, first, progress, visit)
}

/// Returns the number of the first copy of the FAT that begins with a valid entry 0 (fatgen103, "FAT[0]"); the
/// primary one if none does.
fn best_table(disk: &Disk, geometry: &Geometry) -> u32 {
    let primary = geometry.primary_fat();
    let begins = |copy: &u32| {
        let mut start = [0; 3];
        disk.read(geometry.fat_offset(*copy), &mut start).is_ok() && start[0] >= 0xF0 && start[1] == 0xFF
    };
    std::iter::once(primary).chain(geometry.written_fats()).find(begins).unwrap_or(primary)
}

struct FatRemains {
    geometry: Geometry,
    /// `None` if no FAT is left.
    table: Option<Table<Geometry>>,
}

impl FatRemains {
    /// Returns how many slots hold sound entries, and how many are in use at all.
    fn sound_of_live(&self, slots: &[[u8; SLOT]]) -> (usize, usize) {
        let live = || slots.iter().filter(|slot| !matches!(slot[0], 0 | 0xE5));
        (live().filter(|slot| is_sound(&self.geometry, slot)).count(), live().count())
    }

    /// Returns the deleted entry in a slot, of which the `parts` before it are what is left of its long name. A deletion
    /// overwrites the first byte of each slot. For a short name that byte follows from the checksum in the long name's parts;
    /// without these it is unknown.
    fn deleted(&self, slot: &[u8; SLOT], parts: &[LongEntry]) -> Option<Remnant> {
        let mut slot = *slot;
        // What follows the byte is moved by it, and the sum of all eleven is known.
        let first = parts.first().and_then(|part| {
            (0x21..=0xFF).find(|first| {
                slot[0] = *first;
                ShortEntry::from_bytes(&slot).name.checksum() == part.checksum
            })
        });
        slot[0] = first.unwrap_or(b'_');
        let short = ShortEntry::from_bytes(&slot);
        let mut long = LongName::default();
        for (part, number) in parts.iter().zip((1..=parts.len() as u8).rev()) {
            let is_last = usize::from(number) == parts.len();
            let order = if is_last { number | LongEntry::LAST } else { number };
            long.push(&LongEntry { order, ..part.clone() }).ok();
        }
        if short.attributes.0 & !Attributes::LONG_MASK != 0 || !short.name.is_valid() {
            return None;
        }
        Some(Remnant { is_deleted: true, ..self.remnant(short, &mut long)? })
    }

    fn remnant(&self, short: ShortEntry, long: &mut LongName) -> Option<Remnant> {
        let name = match long.finish(&short.name) {
            Ok(Some(name)) => name,
            _ => short.name.to_name(short.nt),
        };
        if short.attributes.label() || short.name.is_dots() || is_garbage(&self.geometry, &short) {
            return None;
        }
        let [_, modified, accessed] = short.times(LocalTime::default());
        let is_directory = short.attributes.directory();
        let size = u64::from(short.size);
        Some(Remnant {
            name,
            is_directory,
            is_deleted: false,
            cluster: self.geometry.first_cluster(&short),
            size,
            valid: size,
            contiguous: false,
            modified: modified.unwrap_or_default(),
            accessed: accessed.unwrap_or_default(),
        })
    }
}

impl Remains for FatRemains {
    fn heap(&self) -> Heap {
        self.geometry.heap()
    }

    fn link(&mut self, cluster: u32) -> Result<Link> {
        self.table.as_mut().map_or(Ok(Link::Free), |table| table.link(cluster))
    }

    fn next_entry(&self, cluster: u32) -> u32 {
        let Some((device, place)) = self.table.as_ref().map(Table::place) else { return cluster };
        let bits = u64::from(self.geometry.kind.bits());
        let at = place.start + u64::from(cluster) * bits / 8;
        match device.next_data(at) {
            // Entries before this one may share a byte with it.
            next if next > at + 4 => ((next - place.start - 2) * 8 / bits).min(u64::from(u32::MAX)) as u32,
            _ => cluster,
        }
        .max(cluster)
    }

    fn entries(&self, slots: &[u8]) -> Vec<Remnant> {
        let mut long = LongName::default();
        let mut found = Vec::new();
        let mut parts = Vec::new();
        for slot in slots.as_chunks::<SLOT>().0 {
            if slot[0] == 0xE5 {
                long.abandon().ok();
                if slot[11] & Attributes::LONG_MASK != Attributes::LONG {
                    found.extend(self.deleted(slot, &parts));
                    parts.clear();
                } else if parts.len() < MOST_LONG_ENTRIES {
                    parts.push(LongEntry::from_bytes(slot));
                }
                continue;
            }
            parts.clear();
            match Slot::from_bytes(slot) {
                Slot::Long(part) => drop(long.push(&part)),
                Slot::Short(short) => found.extend(self.remnant(short, &mut long)),
                // The walk goes on after an end mark, which may be a slot in the middle that was overwritten with
                // zeroes.
                Slot::Deleted | Slot::End => drop(long.abandon()),
            }
        }
        found
    }

    fn looks_like_directory(&self, slots: &[u8]) -> bool {
        let slots = slots.as_chunks::<SLOT>().0;
        let names = [ShortName::DOT, ShortName::DOT_DOT];
        let is_dot = |(slot, name): (&[u8; SLOT], ShortName)| match Slot::from_bytes(slot) {
            Slot::Short(short) => short.name == name && short.attributes.directory() && short.size == 0,
            _ => false,
        };
        let (sound, live) = self.sound_of_live(slots);
        slots.len() >= 2 && slots.iter().zip(names).all(is_dot) && sound * 2 >= live
    }

    fn goes_on(&self, next: &[u8]) -> bool {
        let (sound, live) = self.sound_of_live(next.as_chunks::<SLOT>().0);
        // A cluster that begins with "." is the first one of another directory.
        !self.looks_like_directory(next) && sound * 2 > live
    }

    fn largest_directory(&self) -> u64 {
        u64::from(MOST_SLOTS) * SLOT as u64
    }
}
