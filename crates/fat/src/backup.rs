//! Chooses the boot sector by which a volume is read: the first sector or, on FAT32, its copy if the first is damaged.

use crate::layout::BootSector;
use crate::starts::Boot;
use platter_clusters::{Disk, first_sector};
use platter_device::{Device, is_damaged_like};
use platter_vfs::{Error, Result};

/// Reads the boot sector at this offset of the device in bytes.
pub(crate) fn read(disk: &Disk, offset: u64) -> Result<BootSector> {
    let mut bytes = [0; BootSector::SIZE];
    disk.read(offset, &mut bytes)?;
    Ok(BootSector::from_bytes(&bytes))
}

/// The boot sector by which a volume is read.
pub(crate) struct Chosen {
    pub boot: Boot,
    /// The offset of the sector on the device in bytes.
    pub offset: u64,
    /// What is wrong with the first sector of the device, if the copy was chosen.
    pub doubt: Option<Error>,
}

/// Returns the boot sector by which a volume is read. The copy is chosen if the first sector is damaged, all structures
/// are where the copy places them, and the first sector differs from the copy in a few bytes only: a copy that remains
/// from an older volume does not resemble the first sector.
///
/// # Errors
/// The fault of the first sector, if the copy cannot replace it, and the errors of the device.
pub(crate) fn choose(device: &dyn Device) -> Result<Chosen> {
    let Some(bytes) = first_sector(device)? else {
        let reason = "the device is smaller than a boot sector".into();
        return Err(Error::NotThisFormat { format: "FAT", reason });
    };
    let disk = Disk::new(device);
    let sector = BootSector::from_bytes(&bytes);
    let first = match Boot::new(&disk, sector.clone()) {
        Ok(boot) if boot.fits(&disk) => return Ok(Chosen { boot, offset: 0, doubt: None }),
        first => first,
    };
    let is_like = |copy: &BootSector| is_damaged_like(&bytes, &copy.to_bytes());
    let copy = search(&disk)?.filter(|(_, copy)| is_like(copy)).and_then(|(offset, sector)| {
        let boot = Boot::new(&disk, sector).ok()?;
        boot.fits(&disk).then_some((offset, boot))
    });
    let boot = match (first, copy) {
        (Ok(first), Some((_, copy))) if first.geometry == copy.geometry => first,
        (first, Some((offset, boot))) => {
            let doubt = first.map_or_else(|error| error, |first| first.damage(&boot));
            return Ok(Chosen { boot, offset, doubt: Some(doubt) });
        }
        (Ok(first), None) => first,
        (Err(error), None) => {
            return match unmarked(&disk, &sector) {
                Some(boot) => Ok(Chosen { boot, offset: 0, doubt: Some(error) }),
                None => Err(error),
            };
        }
    };
    let damage = boot.before_a_flip(&disk).map(|right| boot.damage(&right));
    if let Some(error) = damage.or_else(|| boot.missing_fats(&disk)) {
        return Err(error);
    }
    Ok(Chosen { boot, offset: 0, doubt: None })
}

/// Returns the boot sector of a FAT12 or FAT16 volume with its jump and its signature, if nothing but these is missing:
/// all structures are where the sector places them. Early systems wrote no signature, and some that are no PCs write
/// another jump; neither has a copy that a damaged mark could be put back from.
pub(crate) fn unmarked(disk: &Disk, sector: &BootSector) -> Option<Boot> {
    let boot = Boot::new(disk, sector.marked()).ok()?;
    (boot.sector.fat32.is_none() && boot.fits(disk)).then_some(boot)
}

/// Searches for the copy of a FAT32 boot sector where formatters put it, in sector 6, for every possible sector size.
/// Returns the offset of the copy on the device in bytes, and the copy.
pub(crate) fn search(disk: &Disk) -> Result<Option<(u64, BootSector)>> {
    for size in [512, 1024, 2048, 4096] {
        let offset = 6 * size;
        if offset + size > disk.device().len() {
            break;
        }
        let sector = match read(disk, offset) {
            // A copy that cannot be read is none.
            Err(Error::Device(platter_device::Error::Io { .. })) => continue,
            read => read?,
        };
        if let Ok(geometry) = sector.geometry(disk.device().len())
            && u64::from(geometry.bytes_per_sector) == size
            && geometry.backup_sector == Some(6)
        {
            return Ok(Some((offset, sector)));
        }
    }
    Ok(None)
}
