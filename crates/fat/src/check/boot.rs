//! The boot sector, its copy, and the information sector.

use super::table::Table;
use crate::backup::{read, search, unmarked};
use crate::layout::{BootSector, FatKind, Geometry, InfoSector, VolumeState, clean_bits};
use crate::starts::{Boot, is_media};
use platter_clusters::Disk;
use platter_vfs::{CheckReport, Error, Finding, Result, Severity};

/// Returns the sector without the bits that change from mount to mount.
fn settled(sector: &BootSector) -> BootSector {
    BootSector { state: VolumeState(0), ..sector.clone() }
}

/// Finds the boot sector to use: the first one, or its copy where the first is not valid.
///
/// # Errors
/// The fault of the first boot sector, if no copy is usable.
pub(super) fn find(disk: &Disk, report: &mut CheckReport, repair: bool) -> Result<Boot> {
    let length = disk.device().len();
    if length < disk.device().sectors().logical.max(BootSector::SIZE as u32).into() {
        let reason = format!("the device has {length} bytes");
        return Err(Error::NotThisFormat { format: "FAT", reason });
    }
    let sector = read(disk, 0)?;
    let mut finding = |code, message: String| {
        report.add(Finding { code, severity: Severity::Inconsistent, path: None, message, repaired: repair });
    };
    let mut first = Boot::new(disk, sector.clone());
    if let Ok(boot) = &mut first
        && let Some(right) = boot.before_a_flip(disk)
    {
        finding("boot-sector", format!("{}; everything is where the former says", boot.damage(&right)));
        if repair {
            disk.write(0, &right.sector.to_bytes())?;
        }
        *boot = right;
    }
    if let Ok(boot) = &first
        && let Some(error) = boot.missing_fats(disk)
    {
        first = Err(error);
    }
    let copy = match &first {
        Ok(Boot { geometry, .. }) => match geometry.backup_sector {
            Some(backup) => {
                Some((geometry.sector_offset(backup), read(disk, geometry.sector_offset(backup))?))
            }
            None => None,
        },
        Err(_) => search(disk)?,
    };
    let good_copy = copy.as_ref().and_then(|(_, sector)| Boot::new(disk, sector.clone()).ok());
    let good_copy = good_copy.filter(|copy| copy.missing_fats(disk).is_none());
    match (first, good_copy) {
        (Err(error), None) => match unmarked(disk, &sector) {
            Some(boot) => {
                finding("boot-mark", format!("{error}; everything else is as the boot sector says"));
                if repair {
                    disk.write(0, &boot.sector.to_bytes())?;
                }
                Ok(boot)
            }
            None => Err(error),
        },
        (Err(error), Some(copy)) => {
            finding("boot-sector", format!("{error}; its copy is good"));
            if repair {
                disk.write(0, &copy.sector.to_bytes())?;
            }
            Ok(copy)
        }
        (Ok(first), Some(copy)) if first.geometry != copy.geometry && copy.fits_better(&first, disk) => {
            finding(
                "boot-sector",
                "the boot sector describes another volume than its copy, which fits".into(),
            );
            if repair {
                disk.write(0, &copy.sector.to_bytes())?;
            }
            Ok(copy)
        }
        (Ok(first), _) => {
            if let Some((offset, sector)) = copy
                && settled(&sector) != settled(&first.sector)
            {
                let (ours, theirs) = (settled(&first.sector).to_bytes(), settled(&sector).to_bytes());
                let at = ours.iter().zip(theirs).position(|(ours, theirs)| *ours != theirs).unwrap_or(0);
                finding(
                    "boot-backup",
                    format!("the copy of the boot sector at offset {offset} differs from byte {at} on"),
                );
                if repair {
                    disk.write(offset, &settled(&first.sector).to_bytes())?;
                }
            }
            Ok(first)
        }
    }
}

/// Reports a FAT that has no entries for the last clusters of the volume.
///
/// Programs that do not notice this write those entries over what follows the FAT. So a repair makes the volume end with
/// the last cluster that has an entry, unless it would then be of another kind by the number of its clusters. No cluster
/// is moved, and those after the end could not be in use.
pub(super) fn short_fat(boot: &mut Boot, report: &mut CheckReport, repair: bool) {
    let Boot { sector, geometry } = boot;
    let Some(error) = geometry.short_fat() else { return };
    let stated = geometry.clusters_by_sectors();
    let repaired = repair && FatKind::of(geometry.clusters) == FatKind::of(stated);
    let message = format!("{error}; the last {} clusters are not used", stated - geometry.clusters);
    report.add(Finding {
        code: "short-fat",
        severity: Severity::Inconsistent,
        path: None,
        message,
        repaired,
    });
    if repaired {
        let sectors_per_cluster = geometry.cluster_size / geometry.bytes_per_sector;
        geometry.total_sectors = geometry.first_data_sector + geometry.clusters * sectors_per_cluster;
        sector.shorten(geometry.total_sectors);
    }
}

fn read_info(disk: &Disk, offset: u64) -> Result<InfoSector> {
    let mut bytes = [0; InfoSector::SIZE];
    disk.read(offset, &mut bytes)?;
    Ok(InfoSector::from_bytes(&bytes))
}

/// Checks the media byte and the two entries of the FAT that belong to no cluster, and corrects them in memory.
/// Whether the volume was cleanly unmounted is checked by [`is_dirty`].
pub(super) fn reserved_entries(boot: &mut Boot, table: &mut Table, report: &mut CheckReport, repair: bool) {
    let mut finding = |code, severity, message: String| {
        report.add(Finding { code, severity, path: None, message, repaired: repair });
    };
    if !is_media(boot.sector.media) {
        let found = boot.sector.media;
        finding(
            "media",
            Severity::Inconsistent,
            format!("the boot sector's media byte is {found:02X}, not F0 or F8 to FF"),
        );
        // Entry 0 of the FAT repeats the media byte.
        let of_fat = table.get(0) as u8;
        boot.sector.media = if is_media(of_fat) { of_fat } else { BootSector::FIXED_MEDIA };
    }
    let (expected, found) = (boot.first_entry(), table.get(0));
    if found != expected {
        finding("fat-entry-0", Severity::Notice, format!("FAT entry 0 is {found:X}, not {expected:X}"));
        table.set(0, expected);
    }
    let kind = boot.geometry.kind;
    let bits = clean_bits(kind).map_or(0, |(clean, no_error)| clean | no_error);
    let found = table.get(1);
    if found | bits <= kind.bad() {
        finding("fat-entry-1", Severity::Notice, format!("FAT entry 1 is {found:X}, which is no end mark"));
        table.set(1, kind.end());
    }
}

/// Frees entries of the FAT after that of the last cluster, which belong to nothing. On a volume that needs no repair they
/// are left alone, but after a repair they would make the next check doubt the boot sector.
pub(super) fn free_behind(disk: &Disk, boot: &Boot, report: &mut CheckReport) -> Result<()> {
    let Some((at, bytes)) = boot.freed_behind(disk) else { return Ok(()) };
    disk.write(at, &bytes)?;
    report.add(Finding {
        code: "fat-behind",
        severity: Severity::Notice,
        path: None,
        message: format!("the FAT at offset {at} has entries for clusters behind the last one"),
        repaired: true,
    });
    Ok(())
}

/// Checks the extended signature: if the type is present, it must say that serial number, label and type are.
pub(super) fn extended(boot: &mut Boot, report: &mut CheckReport, repair: bool) {
    // 28 means that only the serial number is present, as OS/2 and Windows NT write it.
    let found = boot.sector.extended_signature;
    if matches!(found, 0x28 | BootSector::EXTENDED) || !boot.sector.type_text.starts_with(b"FAT") {
        return;
    }
    report.add(Finding {
        code: "boot-signature",
        severity: Severity::Inconsistent,
        path: None,
        message: format!(
            "the boot sector's extended signature is {found:02X}, not 29, before a label and a type"
        ),
        repaired: repair,
    });
    boot.sector.extended_signature = BootSector::EXTENDED;
}

/// Whether the volume's flags say that it was not cleanly unmounted or that I/O errors were met.
pub(super) fn is_dirty(boot: &Boot, table: &Table) -> bool {
    let bits = clean_bits(boot.geometry.kind).map_or(0, |(clean, no_error)| clean | no_error);
    boot.sector.state.0 & (VolumeState::DIRTY | VolumeState::SURFACE_TEST) != 0 || table.get(1) & bits != bits
}

/// Sets the flags for a cleanly unmounted volume, in the boot sector and the table in memory.
pub(super) fn make_clean(boot: &mut Boot, table: &mut Table) {
    boot.sector.state.0 &= !(VolumeState::DIRTY | VolumeState::SURFACE_TEST);
    let bits = clean_bits(boot.geometry.kind).map_or(0, |(clean, no_error)| clean | no_error);
    table.set(1, table.get(1) | bits);
}

/// Writes the boot sector and, on FAT32, its copy, which comes first.
pub(super) fn write(disk: &Disk, boot: &Boot) -> Result<()> {
    if let Some(backup) = boot.geometry.backup_sector {
        disk.write(boot.geometry.sector_offset(backup), &settled(&boot.sector).to_bytes())?;
        disk.flush()?;
    }
    disk.write(0, &boot.sector.to_bytes())
}

/// Checks the free count in the information sector against the number of free clusters.
pub(super) fn info(
    disk: &Disk,
    geometry: &Geometry,
    free: u32,
    report: &mut CheckReport,
    repair: bool,
) -> Result<()> {
    let Some(sector) = geometry.info_sector else { return Ok(()) };
    let offset = geometry.sector_offset(sector);
    let found = read_info(disk, offset)?;
    let mut right = found.clone();
    let mut finding = |code, severity, message: String| {
        report.add(Finding { code, severity, path: None, message, repaired: repair });
    };
    if !found.is_valid() {
        let message = format!("the information sector at offset {offset} does not have its signatures");
        finding("info-signature", Severity::Inconsistent, message);
        right = InfoSector::new(free, InfoSector::UNKNOWN);
    } else if found.free != free && found.free != InfoSector::UNKNOWN {
        let message = format!("the information sector counts {} free clusters; there are {free}", found.free);
        finding("info-free", Severity::Inconsistent, message);
        right.free = free;
    }
    if right.next != InfoSector::UNKNOWN && !geometry.has_cluster(right.next) {
        let message = format!("the information sector sends the search for a free cluster to {}", right.next);
        finding("info-next", Severity::Notice, message);
        right.next = InfoSector::UNKNOWN;
    }
    if repair && right != found {
        disk.write(offset, &right.to_bytes())?;
    }
    Ok(())
}
