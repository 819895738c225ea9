//! What an open volume needs, read from the device: boot region, root directory, bitmap and up-case table.

use crate::bitmap::Bitmap;
use crate::directory::rules;
use crate::family::ExfatFamily;
use crate::layout::{
    Attributes, BitmapEntry, BootRegion, BootSector, FileInfo, Geometry, Primary, SLOT, Upcase, UpcaseEntry,
    VolumeFlags, is_benign, kind, table_checksum,
};

use platter_clusters::{Core, FreeSpace, Slots, Storage, TABLE_CACHE, Table, first_sector};
use platter_device::Device;
use platter_vfs::{Error, Result};
use std::sync::Arc;

/// The boot sector of a device, if it is exFAT's.
///
/// # Errors
/// [`Error::NotThisFormat`] if it is not, and the device's.
pub fn read_boot(device: &dyn Device) -> Result<BootSector> {
    let Some(bytes) = first_sector(device)? else {
        let reason = "the device is smaller than a boot sector".into();
        return Err(Error::NotThisFormat { format: "exFAT", reason });
    };
    let boot = BootSector::from_bytes(&bytes);
    boot.claims()?;
    Ok(boot)
}

/// What the root directory has besides names.
struct SystemEntries {
    bitmap: Option<BitmapEntry>,
    upcase: Option<UpcaseEntry>,
}

/// Finds bitmap and up-case table in the root directory.
fn find(slots: &Slots, active: u32, place: u64) -> Result<SystemEntries> {
    let mut found = SystemEntries { bitmap: None, upcase: None };
    for at in 0..slots.end() {
        let slot = slots.slot(at);
        match Primary::of(slot) {
            Primary::Other(kind::BITMAP) => {
                let entry = BitmapEntry::from_bytes(slot);
                if u32::from(entry.flags & 1) == active {
                    found.bitmap = found.bitmap.or(Some(entry));
                }
            }
            Primary::Other(kind::UPCASE) => {
                found.upcase = found.upcase.or(Some(UpcaseEntry::from_bytes(slot)))
            }
            Primary::Other(kind::LABEL) => {}
            Primary::Other(other) if !is_benign(other) => {
                // 8.2: such a volume is not to be mounted.
                let (expected, found) = ("an entry of a known type", format!("type {other:02X}"));
                return Err(Error::damaged(
                    "root directory",
                    place + u64::from(at) * SLOT as u64,
                    expected,
                    found,
                ));
            }
            _ => {}
        }
    }
    Ok(found)
}

/// Reads what an open volume needs.
///
/// # Errors
/// [`Error::NotThisFormat`] and [`Error::Damaged`] if what the device begins with makes no sense, and the device's.
pub fn open(device: Arc<dyn Device>) -> Result<Core<ExfatFamily>> {
    let boot = read_boot(&*device)?;
    let geometry = boot.geometry(device.len())?;
    let sector = geometry.sector as usize;
    if sector < device.sectors().logical as usize {
        let reason = "its sectors are smaller than the device's".into();
        return Err(Error::NotThisFormat { format: "exFAT", reason });
    }
    let mut region = vec![0; BootRegion::SECTORS * sector];
    device.read_at(0, &mut region)?;
    if let Err((found, expected)) = BootRegion::verify(&region, sector) {
        let place = (BootRegion::SUMMED * sector) as u64;
        return Err(Error::damaged(
            "boot checksum",
            place,
            format!("{expected:08X}"),
            format!("{found:08X}"),
        ));
    }
    region.truncate(sector);

    let heap = geometry.heap;
    let mut table = Table::new(device.clone(), geometry.clone(), geometry.fat_place(), TABLE_CACHE);
    let first = geometry.root_cluster;
    let chain = table.walk(first, None, geometry.most_of_a_directory())?;
    let slots = Slots::read(&*device, rules(geometry.sector), heap, Storage::Chain(chain))?;
    let found = find(&slots, geometry.active_fat, heap.offset(first))?;
    let missing = |what| Error::damaged("root directory", heap.offset(first), what, "none");

    let entry = found.bitmap.ok_or_else(|| missing("an entry for the allocation bitmap"))?;
    let needed = heap.clusters_for(geometry.bitmap_bytes()) as u32;
    let runs = table.walk(entry.cluster, Some(needed), heap.count)?;
    let bitmap = Bitmap::read(&*device, heap, geometry.sector, runs)?;

    let entry = found.upcase.ok_or_else(|| missing("an entry for the up-case table"))?;
    let upcase = Arc::new(read_upcase(&*device, &geometry, &mut table, &entry)?);

    let mut space = FreeSpace::new(heap.last(), heap.cluster_size());
    bitmap.free_runs(|start, count| space.give(start, count));
    let root =
        FileInfo { attributes: Attributes(Attributes::DIRECTORY), cluster: first, ..FileInfo::default() };
    let was_dirty = boot.flags.has(VolumeFlags::DIRTY);
    let two = geometry.fat_count == 2;
    let family = ExfatFamily { geometry, table, bitmap, upcase, boot: region };
    let core = Core::new(device, heap, family, space, root, was_dirty);
    if two {
        core.health.close("TexFAT volumes, which have two FATs, are only read");
    }
    Ok(core)
}

/// Reads the up-case table and verifies its checksum.
fn read_upcase(
    device: &dyn Device,
    geometry: &Geometry,
    table: &mut Table<Geometry>,
    entry: &UpcaseEntry,
) -> Result<Upcase> {
    let heap = geometry.heap;
    if !(2..=Upcase::MOST_BYTES).contains(&entry.length) {
        let expected = format!("2 to {} bytes", Upcase::MOST_BYTES);
        return Err(Error::damaged("up-case table", 0, expected, entry.length));
    }
    let runs = table.walk(entry.cluster, Some(heap.clusters_for(entry.length) as u32), heap.count)?;
    let place = heap.offset(entry.cluster);
    let mut bytes = Vec::new();
    for run in runs.iter() {
        let sector = u64::from(geometry.sector);
        let rest = (entry.length - bytes.len() as u64).next_multiple_of(sector);
        let length = rest.min(u64::from(run.count) << heap.shift) as usize;
        let at = bytes.len();
        bytes.resize(at + length, 0);
        device.read_at(heap.offset(run.cluster), &mut bytes[at..])?;
        if bytes.len() as u64 >= entry.length {
            break;
        }
    }
    bytes.truncate(entry.length as usize);
    let sum = table_checksum(&bytes);
    if sum != entry.checksum {
        let (expected, found) = (format!("checksum {:08X}", entry.checksum), format!("{sum:08X}"));
        return Err(Error::damaged("up-case table", place, expected, found));
    }
    Upcase::from_bytes(&bytes, place)
}
