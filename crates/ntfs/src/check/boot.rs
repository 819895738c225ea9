//! The boot sector, and its copy in the volume's last sector.

use super::disk::Disk;
use super::records::Table;
use super::{Pending, Severity};
use crate::layout::{BootSector, Geometry};
use platter_vfs::{Error, Result};

/// How well a boot sector is confirmed: by the number of records that it leads to, by the system files that have as
/// many clusters as it says, by `$MFT` in its place, by `$MFTMirr` in its place, and by its copy.
type Rank = ((u64, u64), u8, bool, bool, bool);

/// Finds the boot sector that leads to `$MFT`. Damage in it or in its copy is reported, and repaired if `is_repairing`.
///
/// # Errors
/// [`Error::NotThisFormat`] or [`Error::Damaged`] if neither is usable.
pub(crate) fn find(
    disk: &mut Disk,
    pending: &mut Vec<Pending>,
    is_repairing: bool,
) -> Result<(Geometry, Table)> {
    let length = disk.len();
    let own = read(disk, 0, length);
    let mut fault = None;
    let mut found: Vec<(BootSector, Geometry)> = Vec::new();
    match own {
        Ok(own) => found.push(own),
        Err(error) => fault = Some(error),
    }
    // The copy is behind the end of the volume, which only a boot sector says; so the usual places are tried too.
    let ends = [512, 1024, 2048, 4096].into_iter().filter_map(|sector| length.checked_sub(sector));
    let places: Vec<u64> = found.iter().map(|(_, geometry)| geometry.length).chain(ends).collect();
    for at in places {
        if let Ok((boot, geometry)) = read(disk, at / 512 * 512, length)
            && geometry.length == at
            && found.iter().all(|(_, other)| *other != geometry)
        {
            found.push((boot, geometry));
        }
    }
    // Some fields are zero in every boot sector. A sector where one is not is damaged, and is tried last even if its
    // other fields are usable.
    found.sort_by_key(|(boot, _)| !is_sound(boot));
    let own_clusters = read(disk, 0, length).ok().map(|(_, geometry)| geometry.clusters);
    let mut best: Option<(usize, Rank, Table)> = None;
    for (index, (_, geometry)) in found.iter().enumerate() {
        let table = match Table::find(disk, geometry) {
            Ok(table) => table,
            Err(error) => {
                fault = fault.or(Some(error));
                continue;
            }
        };
        let agreeing = table.agreeing(disk, geometry);
        // A program that makes a volume larger or smaller may leave the copy of its former boot sector where it was:
        // ntfsresize does, and writes no copy of the new one. So the copy of a volume of another size says nothing
        // against a boot sector in its place.
        let has_copy = own_clusters.is_none_or(|clusters| clusters == geometry.clusters)
            && read(disk, geometry.length, length).is_ok_and(|copy| copy.1 == *geometry);
        let rank = (table.score, agreeing, !table.is_from_mirror, table.has_mirror, has_copy);
        if best.as_ref().is_none_or(|best| rank > best.1) {
            best = Some((index, rank, table));
        }
    }
    let Some((index, _, table)) = best else {
        return Err(fault.unwrap_or_else(|| Error::damaged("boot sector", 0, "a volume", "none")));
    };
    let (mut boot, geometry) = found.swap_remove(index);
    if !is_sound(&boot) {
        ZERO.into_iter().flatten().for_each(|at| boot.raw[at] = 0);
        boot.raw[510..].copy_from_slice(&MARK);
    }
    let mut told = |code, message| {
        let severity = Severity::Inconsistent;
        pending.push(Pending { code, severity, record: None, message, repaired: is_repairing });
    };
    if read(disk, 0, length).ok().is_none_or(|own| own.1 != geometry || !is_sound(&own.0)) {
        let found = fault.map_or("another volume".into(), |error| error.to_string());
        told("boot", format!("boot sector at offset 0: expected what its copy says, found {found}"));
        if is_repairing {
            disk.write(0, &boot.to_bytes())?;
        }
    }
    // Sectors of less than 512 bytes are made by mkntfs alone, which puts the copy elsewhere.
    let has_place = geometry.sector >= 512 && geometry.length + 512 <= length;
    let copy = read(disk, geometry.length, length);
    if has_place && copy.ok().is_none_or(|copy| copy.0 != boot) {
        let message = format!(
            "copy of the boot sector at offset {}: expected what the boot sector says, found something else",
            geometry.length
        );
        told("boot-copy", message);
        if is_repairing {
            disk.write(geometry.length, &boot.to_bytes())?;
        }
    }
    Ok((geometry, table))
}

/// The offsets of fields of older formats, which are zero.
const ZERO: [std::ops::Range<usize>; 3] = [0x0E..0x15, 0x16..0x18, 0x20..0x24];
/// The last two bytes of a boot sector.
const MARK: [u8; 2] = [0x55, 0xAA];

fn is_sound(boot: &BootSector) -> bool {
    ZERO.into_iter().flatten().all(|at| boot.raw[at] == 0) && boot.raw[510..] == MARK
}

fn read(disk: &Disk, at: u64, length: u64) -> Result<(BootSector, Geometry)> {
    let mut bytes = [0; 512];
    if at.saturating_add(512) > length {
        let reason = format!("the device has {length} bytes");
        return Err(Error::NotThisFormat { format: "NTFS", reason });
    }
    disk.read(at, &mut bytes)?;
    let boot = BootSector::from_bytes(&bytes)?;
    let geometry = boot.geometry(length)?;
    Ok((boot, geometry))
}
