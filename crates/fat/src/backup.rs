//! The boot sector that reading goes by: the first, or, on FAT32, its copy where the first is damaged.

use crate::layout::BootSector;
use crate::starts::Boot;
use platter_clusters::{Disk, first_sector};
use platter_device::{Device, is_damaged_like};
use platter_vfs::{Error, Result};

/// The boot sector at this offset.
pub fn read(disk: &Disk, offset: u64) -> Result<BootSector> {
    let mut bytes = [0; BootSector::SIZE];
    disk.read(offset, &mut bytes)?;
    Ok(BootSector::from_bytes(&bytes))
}

/// A boot sector to go by.
pub struct Chosen {
    pub boot: Boot,
    /// Device offset of the sector.
    pub offset: u64,
    /// What is wrong with the first one, if this is another.
    pub doubt: Option<Error>,
}

/// The boot sector to go by. The copy is gone by where all that it points to is there, and the first sector is its own but
/// for a few bytes: one that was left of another volume has nothing of it in the first sector.
///
/// # Errors
/// What is wrong with the first one, if the copy does not help, and the device's.
pub fn choose(device: &dyn Device) -> Result<Chosen> {
    let Some(bytes) = first_sector(device)? else {
        let reason = "the device is smaller than a boot sector".into();
        return Err(Error::NotThisFormat { format: "FAT", reason });
    };
    let disk = Disk::new(device);
    let sector = BootSector::from_bytes(&bytes);
    let first = match sector.geometry(device.len()).map(|geometry| Boot { geometry, sector }) {
        Ok(boot) if boot.fits(&disk) => return Ok(Chosen { boot, offset: 0, doubt: None }),
        first => first,
    };
    let is_like = |copy: &BootSector| is_damaged_like(&bytes, &copy.to_bytes());
    let copy = search(&disk)?.filter(|(_, copy)| is_like(copy)).and_then(|(offset, sector)| {
        let geometry = sector.geometry(device.len()).ok()?;
        let boot = Boot { sector, geometry };
        boot.fits(&disk).then_some((offset, boot))
    });
    let boot = match (first, copy) {
        (Ok(first), Some((_, copy))) if first.geometry == copy.geometry => first,
        (first, Some((offset, boot))) => {
            let doubt = first.map_or_else(|error| error, |first| first.damage(&boot));
            return Ok(Chosen { boot, offset, doubt: Some(doubt) });
        }
        (first, None) => first?,
    };
    if let Some(right) = boot.before_a_flip(&disk) {
        return Err(boot.damage(&right));
    }
    Ok(Chosen { boot, offset: 0, doubt: None })
}

/// The copy of a FAT32 boot sector, looked for where formatters put it: in sector 6, for every size of sector.
pub fn search(disk: &Disk) -> Result<Option<(u64, BootSector)>> {
    for size in [512, 1024, 2048, 4096] {
        let offset = 6 * size;
        if offset + size > disk.device().len() {
            break;
        }
        let sector = read(disk, offset)?;
        if let Ok(geometry) = sector.geometry(disk.device().len())
            && u64::from(geometry.bytes_per_sector) == size
            && geometry.backup_sector == Some(6)
        {
            return Ok(Some((offset, sector)));
        }
    }
    Ok(None)
}
