//! The boot regions and the first two entries of the FAT.

use crate::layout::{BootRegion, BootSector, Geometry, VolumeFlags};
use platter_clusters::Disk;
use platter_vfs::{CheckReport, Error, Finding, Result, Severity};

/// A boot region whose fields are consistent: its first sector, the geometry that it states, and its bytes.
pub(super) struct Boot {
    pub sector: BootSector,
    pub geometry: Geometry,
    region: Vec<u8>,
}

/// What is wrong with a boot region.
enum Fault {
    /// The fields contradict each other or the device.
    Fields(Error),
    /// Only the checksum is wrong.
    Checksum(Box<Boot>),
}

fn finding(
    report: &mut CheckReport,
    code: &'static str,
    severity: Severity,
    message: String,
    repaired: bool,
) {
    report.add(Finding { code, severity, path: None, message, repaired });
}

/// Reads the boot region that begins at the device offset `first`, with sectors of `size` bytes.
fn read(disk: &Disk, first: u64, size: usize) -> Result<std::result::Result<Boot, Fault>> {
    let length = disk.device().len();
    let mut region = vec![0; BootRegion::SECTORS * size];
    if first + region.len() as u64 > length {
        let reason = format!("the device has {length} bytes");
        return Ok(Err(Fault::Fields(Error::NotThisFormat { format: "exFAT", reason })));
    }
    match disk.read(first, &mut region) {
        // A region that cannot be read is one that is damaged: it is put back from the other.
        Err(error @ Error::Device(platter_device::Error::Io { .. })) => {
            return Ok(Err(Fault::Fields(error)));
        }
        read => read?,
    }
    let sector =
        BootSector::from_bytes(region[..BootSector::SIZE].try_into().expect("a boot sector's length"));
    let geometry = match sector.geometry(length) {
        Ok(geometry) if geometry.sector as usize == size => geometry,
        Ok(geometry) => {
            let found = geometry.sector;
            return Ok(Err(Fault::Fields(Error::damaged(
                "boot sector",
                first,
                format!("{size}-byte sectors"),
                found,
            ))));
        }
        Err(error) => return Ok(Err(Fault::Fields(error))),
    };
    let boot = Boot { sector, geometry, region };
    Ok(match BootRegion::verify(&boot.region, size) {
        Ok(()) => Ok(boot),
        Err(_) => Err(Fault::Checksum(Box::new(boot))),
    })
}

/// Returns the sector sizes to try: the size that the boot sector at the start of the device states, if it is a valid
/// one, and then the other valid sizes.
fn sizes(disk: &Disk) -> Result<Vec<usize>> {
    let mut first = [0; BootSector::SIZE];
    disk.read(0, &mut first)?;
    let stated = BootSector::from_bytes(&first).sector_shift;
    let mut sizes = Vec::new();
    if (9..=12).contains(&stated) {
        sizes.push(1 << stated);
    }
    sizes.extend(
        [512, 1024, 2048, 4096]
            .iter()
            .filter(|size| Some(*size) != sizes.first())
            .copied()
            .collect::<Vec<_>>(),
    );
    Ok(sizes)
}

/// Finds the boot region to use: the main one, or the backup where the main one is not valid.
///
/// # Errors
/// The fault of the main region, if the backup is not usable either.
pub(super) fn find(disk: &Disk, report: &mut CheckReport, repair: bool) -> Result<Boot> {
    let length = disk.device().len();
    if length < u64::from(disk.device().sectors().logical.max(4096)) {
        let reason = format!("the device has {length} bytes");
        return Err(Error::NotThisFormat { format: "exFAT", reason });
    }
    let sizes = sizes(disk)?;
    let main = read(disk, 0, sizes[0])?;
    if let Ok(main) = main {
        let at = (BootRegion::SECTORS * sizes[0]) as u64;
        let backup = read(disk, at, sizes[0])?;
        let same = matches!(&backup, Ok(backup) if settled(&backup.region) == settled(&main.region));
        if !same {
            let message = format!("the backup of the boot region at offset {at} differs from the main one");
            finding(report, "boot-backup", Severity::Inconsistent, message, repair);
            if repair {
                write_backup(disk, &main)?;
            }
        }
        return Ok(main);
    }
    // The first region whose checksum is right; else the main one, if its fields are consistent; else the backup.
    let mut doubtful = None;
    let mut error = None;
    for (number, size) in sizes.iter().enumerate() {
        for at in [0, (BootRegion::SECTORS * size) as u64] {
            match read(disk, at, *size)? {
                Ok(boot) => return use_instead(disk, report, repair, boot, "its backup is good"),
                Err(Fault::Checksum(boot)) => doubtful = doubtful.or(Some(boot)),
                Err(Fault::Fields(fault)) if number == 0 && at == 0 => error = Some(fault),
                Err(Fault::Fields(_)) => {}
            }
        }
    }
    match (doubtful, error) {
        (Some(mut boot), _) => {
            // A newer minor revision, which the checksum does not confirm, is damage: there is none but 1.00.
            boot.sector.revision = BootSector::REVISION;
            use_instead(disk, report, repair, *boot, "its fields can be true all the same")
        }
        (None, Some(error)) => Err(error),
        (None, None) => {
            Err(Error::NotThisFormat { format: "exFAT", reason: "no boot region is good".into() })
        }
    }
}

/// Returns a region without the fields that change from mount to mount.
fn settled(region: &[u8]) -> Vec<u8> {
    let mut region = region.to_vec();
    region[BootSector::FLAGS..BootSector::FLAGS + 2].fill(0);
    region[BootSector::PERCENT] = 0;
    region
}

/// Uses this region, and, in a repair, writes it as main region and backup.
fn use_instead(
    disk: &Disk,
    report: &mut CheckReport,
    repair: bool,
    mut boot: Boot,
    why: &str,
) -> Result<Boot> {
    let message = format!("the boot region's fields or its checksum are wrong; {why}");
    finding(report, "boot-region", Severity::Inconsistent, message, repair);
    // The backup's values of these fields are stale (3.1).
    boot.sector.flags.0 &= VolumeFlags::ACTIVE_FAT;
    boot.sector.percent = BootSector::PERCENT_UNKNOWN;
    boot.region[..BootSector::SIZE].copy_from_slice(&boot.sector.to_bytes());
    BootRegion::seal(&mut boot.region, boot.geometry.sector as usize);
    if repair {
        write_backup(disk, &boot)?;
        disk.write(0, &boot.region)?;
        disk.flush()?;
    }
    Ok(boot)
}

fn write_backup(disk: &Disk, boot: &Boot) -> Result<()> {
    disk.write(boot.region.len() as u64, &settled(&boot.region))?;
    disk.flush()
}

/// Reports a volume whose flags say that it was not cleanly unmounted or that I/O errors were met.
pub(super) fn dirty(boot: &Boot, report: &mut CheckReport, repair: bool) {
    if boot.sector.flags.0 & (VolumeFlags::DIRTY | VolumeFlags::MEDIA_FAILURE) != 0 {
        let message = "the volume was not cleanly unmounted, or I/O errors were met".to_owned();
        finding(report, "dirty", Severity::Inconsistent, message, repair);
    }
}

/// Checks entries 0 and 1 of the FAT, which belong to no cluster.
pub(super) fn reserved_entries(
    disk: &Disk,
    geometry: &Geometry,
    report: &mut CheckReport,
    repair: bool,
) -> Result<()> {
    let mut found = [0; 8];
    disk.read(geometry.active_fat_offset(), &mut found)?;
    let mut right = [0xFF; 8];
    right[..4].copy_from_slice(&Geometry::MEDIA.to_le_bytes());
    if found == right {
        return Ok(());
    }
    let message = format!("the first two entries of the FAT are {found:02X?}, not {right:02X?}");
    finding(report, "fat-reserved", Severity::Notice, message, repair);
    if repair {
        disk.write(geometry.active_fat_offset(), &right)?;
    }
    Ok(())
}

/// Checks `PercentInUse`. An outdated value is no damage: Linux' exfat never changes the field, and exfat-fuse rounds
/// to the nearest percent where the specification rounds down (3.1.17).
pub(super) fn percent(boot: &Boot, report: &mut CheckReport, repair: bool) {
    let found = boot.sector.percent;
    if found > 100 && found != BootSector::PERCENT_UNKNOWN {
        let message = format!("{found} of 100 clusters are said to be in use");
        finding(report, "percent-in-use", Severity::Notice, message, repair);
    }
}

/// Writes the boot sector as it is after a clean unmount.
pub(super) fn make_clean(disk: &Disk, boot: &mut Boot, percent: u8) -> Result<()> {
    boot.sector.flags.0 &= !(VolumeFlags::DIRTY | VolumeFlags::MEDIA_FAILURE);
    boot.sector.percent = percent;
    disk.flush()?;
    disk.write(0, &boot.sector.to_bytes())?;
    disk.flush()
}
