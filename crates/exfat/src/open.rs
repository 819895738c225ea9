//! Opening a volume: reads boot region, root directory, bitmap and up-case table.

use crate::bitmap::Bitmap;
use crate::directory::rules;
use crate::family::ExfatFamily;
use crate::layout::{
    Attributes, BitmapEntry, BootRegion, BootSector, FileInfo, Geometry, Primary, SLOT, Upcase, UpcaseEntry,
    VolumeFlags, is_benign, kind, table_checksum,
};
use crate::taken::find_free;

use platter_clusters::{
    Core, Disk, FreeSpace, Heap, Link, Runs, Slots, Storage, TABLE_CACHE, Table, first_sector, in_sectors_of,
};
use platter_device::{Device, is_damaged_like};
use platter_vfs::{Error, Result};
use std::sync::Arc;

/// Returns the boot sector of a device that holds exFAT: the main one, or the backup if the fields by which the main
/// one is recognised are damaged.
///
/// # Errors
/// [`Error::NotThisFormat`] if the device does not hold exFAT, and the errors of the device.
pub(crate) fn read_boot(device: &dyn Device) -> Result<BootSector> {
    let Some(bytes) = first_sector(device)? else {
        let reason = "the device is smaller than a boot sector".into();
        return Err(Error::NotThisFormat { format: "exFAT", reason });
    };
    let boot = BootSector::from_bytes(&bytes);
    let Err(error) = boot.claims() else { return Ok(boot) };
    // A backup alone does not prove that the device holds exFAT, since it may remain from an earlier volume. So the
    // first sector must resemble the backup, and the main boot region must not have the right checksum.
    let backup = backup(device, &sizes(&boot))
        .filter(|(backup, ..)| is_damaged_like(&bytes, &backup.to_bytes()))
        .filter(|(_, geometry, _)| !is_whole(device, geometry.sector as usize));
    backup.map(|(backup, ..)| backup).ok_or(error)
}

/// Returns the possible sizes of a sector in bytes, beginning with the one that the boot sector states.
fn sizes(boot: &BootSector) -> Vec<usize> {
    let mut sizes = vec![512, 1024, 2048, 4096];
    sizes.sort_by_key(|&size: &usize| usize::from(size.trailing_zeros() != u32::from(boot.sector_shift)));
    sizes
}

/// Whether the main boot region has the right checksum if sectors are of this size.
fn is_whole(device: &dyn Device, sector: usize) -> bool {
    read_region(device, 0, sector).is_ok_and(|(_, verified)| verified.is_ok())
}

/// Returns the backup of the boot region, with its boot sector and geometry, if there is a valid backup for one of
/// these sector sizes.
fn backup(device: &dyn Device, sizes: &[usize]) -> Option<(BootSector, Geometry, Vec<u8>)> {
    sizes.iter().find_map(|&sector| {
        let at = (BootRegion::SECTORS * sector) as u64;
        // Every device that is asked what it holds comes here, and most have nothing of exFAT at this place: so its sector
        // is looked at before the whole region is read.
        let mut first = [0; BootSector::SIZE];
        Disk::new(device).read(at, &mut first).ok()?;
        let boot = BootSector::from_bytes(&first);
        let geometry =
            boot.geometry(device.len()).ok().filter(|geometry| geometry.sector as usize == sector)?;
        let (region, verified) = read_region(device, at, sector).ok()?;
        verified.ok()?;
        Some((boot, geometry, region))
    })
}

/// The system entries in the root directory.
struct SystemEntries {
    bitmap: Option<BitmapEntry>,
    upcase: Option<UpcaseEntry>,
}

/// Finds bitmap and up-case table in the root directory. Unknown entries that are not benign are added to `doubts`.
fn find(slots: &Slots, active: u32, place: u64, doubts: &mut Vec<Error>) -> SystemEntries {
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
                // 8.2: a volume with such an entry must not be written to.
                let (expected, found) = ("an entry of a known type", format!("type {other:02X}"));
                let at = place + u64::from(at) * SLOT as u64;
                doubts.push(Error::damaged("root directory", at, expected, found));
            }
            _ => {}
        }
    }
    found
}

/// Returns what was read, or, if it is damaged or unreadable, adds the error to `doubts` and returns a substitute.
fn or_without<T>(read: Result<T>, doubts: &mut Vec<Error>, instead: impl FnOnce() -> T) -> Result<T> {
    match read {
        Err(error @ (Error::Damaged(_) | Error::Device(_))) => {
            doubts.push(error);
            Ok(instead())
        }
        read => read,
    }
}

/// Returns the boot region to use, with its sector and geometry: the main one, or the backup (3.2) if the main one's
/// checksum is wrong.
fn boot_region(device: &dyn Device, doubts: &mut Vec<Error>) -> Result<(BootSector, Geometry, Vec<u8>)> {
    let main = read_boot(device)?;
    let geometry = main.geometry(device.len());
    let sizes = sizes(&main);
    let own = geometry.and_then(|geometry| {
        let region = read_region(device, 0, geometry.sector as usize);
        Ok((geometry, region?))
    });
    let (error, main_one) = match own {
        Ok((geometry, (region, Ok(())))) => return Ok((main, geometry, region)),
        Ok((geometry, (region, Err(error)))) => (error, Some((geometry, region))),
        Err(error) => {
            // A main boot region with the right checksum was written with these values, so its error is returned: the
            // backup may be of an older volume.
            if sizes.iter().any(|&sector| is_whole(device, sector)) {
                return Err(error);
            }
            (error, None)
        }
    };
    let found = match (backup(device, &sizes), main_one) {
        (Some(backup), _) => backup,
        (None, Some((geometry, region))) => (main, geometry, region),
        (None, None) => return Err(error),
    };
    doubts.push(error);
    Ok(found)
}

/// Reads a boot region, and verifies its checksum.
fn read_region(device: &dyn Device, at: u64, sector: usize) -> Result<(Vec<u8>, Result<()>)> {
    let mut region = vec![0; BootRegion::SECTORS * sector];
    // The device's own sectors may be larger.
    Disk::new(device).read(at, &mut region)?;
    let verified = BootRegion::verify(&region, sector).map_err(|(found, expected)| {
        let place = at + (BootRegion::SUMMED * sector) as u64;
        Error::damaged("boot checksum", place, format!("{expected:08X}"), format!("{found:08X}"))
    });
    Ok((region, verified))
}

/// Returns the clusters of a table of `bytes` bytes: its chain has as many as these need, no fewer and no more. Only then
/// is it certain that the entry's fields and the FAT are right.
fn place(
    geometry: &Geometry,
    table: &mut Table<Geometry>,
    what: &'static str,
    (first, bytes): (u32, u64),
) -> Result<Runs> {
    let heap = geometry.heap;
    let needed = heap.clusters_for(bytes);
    let wrong = |found: String| {
        Error::damaged(what, geometry.fat_entry_offset(first), format!("{needed} clusters"), found)
    };
    if needed > u64::from(heap.count) {
        return Err(wrong(format!("a volume of {}", heap.count)));
    }
    let runs = table.walk(first, Some(needed as u32), heap.count)?;
    match runs.last().map(|last| table.link(last)) {
        Some(Ok(Link::End)) if u64::from(runs.clusters()) == needed => Ok(runs),
        Some(Err(error)) => Err(error),
        _ => Err(wrong("a chain that goes on".into())),
    }
}

/// Reads the allocation bitmap.
fn read_bitmap(
    device: &dyn Device,
    geometry: &Geometry,
    table: &mut Table<Geometry>,
    entry: &BitmapEntry,
) -> Result<Bitmap> {
    let heap = geometry.heap;
    let bytes = geometry.bitmap_bytes();
    if entry.length < bytes {
        let expected = format!("at least {bytes} bytes");
        return Err(Error::damaged("allocation bitmap", heap.offset(2), expected, entry.length));
    }
    let runs = place(geometry, table, "allocation bitmap", (entry.cluster, entry.length))?;
    Bitmap::read(device, heap, geometry.sector, runs)
}

/// Returns what is wrong if the clusters of root directory, bitmap and up-case table are not different ones, or not all
/// taken in the bitmap: a new file could be given them.
fn overlap(heap: Heap, bitmap: &Bitmap, tables: [&Runs; 3]) -> Option<Error> {
    let mut runs: Vec<(u32, u32)> =
        tables.iter().flat_map(|runs| runs.iter()).map(|run| (run.cluster, run.count)).collect();
    runs.sort_unstable();
    let damaged = |cluster: u32, expected: &str, found: &str| {
        Error::damaged(
            "allocation bitmap",
            heap.offset(cluster),
            expected,
            format!("cluster {cluster} {found}"),
        )
    };
    if let Some(pair) = runs.windows(2).find(|pair| pair[0].0 + pair[0].1 > pair[1].0) {
        return Some(damaged(pair[1].0, "system structures in clusters of their own", "of two"));
    }
    let free = runs.iter().flat_map(|(first, count)| *first..first + count).find(|at| !bitmap.get(*at));
    free.map(|cluster| damaged(cluster, "system structures in taken clusters", "free"))
}

/// Reads the metadata that an open volume needs.
///
/// # Errors
/// [`Error::NotThisFormat`] and [`Error::Damaged`] if there is no valid boot region, and the errors of the device.
pub(crate) fn open(device: Arc<dyn Device>, read_only: bool) -> Result<Core<ExfatFamily>> {
    let mut doubts: Vec<Error> = Vec::new();
    let (boot, geometry, mut region) = boot_region(&*device, &mut doubts)?;
    let device = in_sectors_of(device, geometry.sector);
    region.truncate(geometry.sector as usize);

    let heap = geometry.heap;
    let mut table = Table::new(device.clone(), geometry.clone(), geometry.fat_place(), TABLE_CACHE);
    let first = geometry.root_cluster;
    let chain = table.walk(first, None, geometry.most_of_a_directory())?;
    let slots = Slots::read(&*device, rules(geometry.sector), heap, Storage::Chain(chain.clone()))?;
    let found = find(&slots, geometry.active_fat, heap.offset(first), &mut doubts);
    let missing = |what| Error::damaged("root directory", heap.offset(first), what, "none");

    // Reading works without the bitmap, and for most names with the recommended up-case table.
    let entry = found.bitmap.ok_or_else(|| missing("an entry for the allocation bitmap"));
    let bitmap = entry.and_then(|entry| read_bitmap(&*device, &geometry, &mut table, &entry));
    let bitmap = or_without(bitmap, &mut doubts, || Bitmap::full(heap, geometry.sector))?;
    let entry = found.upcase.ok_or_else(|| missing("an entry for the up-case table"));
    let upcase = entry.and_then(|entry| read_upcase(&*device, &geometry, &mut table, &entry));
    let (upcase, upcase_runs) = or_without(upcase, &mut doubts, || (Upcase::recommended(), Runs::default()))?;
    let upcase = Arc::new(upcase);
    doubts.extend(overlap(heap, &bitmap, [&chain, bitmap.runs(), &upcase_runs]));
    // Of a volume that is only read, no cluster is given away.
    if !read_only && doubts.is_empty() {
        doubts.extend(find_free(&*device, &geometry, &mut table, &bitmap, &chain));
    }

    let mut space = FreeSpace::new(heap.last(), heap.cluster_size());
    bitmap.free_runs(|start, count| space.give(start, count));
    let root =
        FileInfo { attributes: Attributes(Attributes::DIRECTORY), cluster: first, ..FileInfo::default() };
    let was_dirty = boot.flags.has(VolumeFlags::DIRTY);
    let two = geometry.fat_count == 2;
    let family = ExfatFamily { geometry, table, bitmap, upcase, boot: region };
    let core = Core::new(device, heap, family, space, root, was_dirty);
    if let Some(error) = doubts.first() {
        core.health.close(format!("{error}; see check"));
    }
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
) -> Result<(Upcase, Runs)> {
    let heap = geometry.heap;
    if !(2..=Upcase::MOST_BYTES).contains(&entry.length) {
        let expected = format!("2 to {} bytes", Upcase::MOST_BYTES);
        return Err(Error::damaged("up-case table", 0, expected, entry.length));
    }
    let runs = place(geometry, table, "up-case table", (entry.cluster, entry.length))?;
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
    Ok((Upcase::from_bytes(&bytes, place)?, runs))
}
