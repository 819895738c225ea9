//! The boot sector, which is first on the volume and, as a copy, in the last sector of its partition.

use super::bytes::{put, u16_at, u64_at};
use platter_vfs::{Error, Result};

const STRUCTURE: &str = "boot sector";

/// The boot sector's fields. The bytes of boot code are kept as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootSector {
    /// All 512 bytes as read; [`BootSector::to_bytes`] writes the fields over them.
    pub raw: Box<[u8; 512]>,
    /// Bytes per sector, at 0x0B.
    pub sector: u16,
    /// Sectors per cluster at 0x0D: up to 0x80 the number itself, above that the negative of its base-2 logarithm.
    pub sectors_per_cluster: u8,
    /// Sectors of the volume without the last one, which has the copy, at 0x28.
    pub sectors: u64,
    /// First cluster of `$MFT`, at 0x30.
    pub mft: u64,
    /// First cluster of `$MFTMirr`, at 0x38.
    pub mirror: u64,
    /// Size of a record at 0x40: in clusters or, if negative, the negative of the base-2 logarithm of the size in
    /// bytes.
    pub record_size: i8,
    /// Size of an index block at 0x44, coded as the size of a record is.
    pub index_size: i8,
    /// Serial number, at 0x48.
    pub serial: u64,
}

/// Sizes and places that follow from a boot sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes per sector.
    pub sector: u32,
    /// Bytes per cluster, 512 to 2 MiB.
    pub cluster: u64,
    /// Clusters of the volume.
    pub clusters: u64,
    /// Bytes of the volume without the sector with the boot sector's copy.
    pub length: u64,
    /// Bytes per record, 512 to 64 KiB.
    pub record: u32,
    /// Bytes per index block, 512 to 64 KiB, of directories that do not say otherwise.
    pub index: u32,
    /// First cluster of `$MFT`.
    pub mft: u64,
    /// First cluster of `$MFTMirr`.
    pub mirror: u64,
}

impl BootSector {
    /// The name of the format, which is at 3.
    pub const NAME: &'static [u8; 8] = b"NTFS    ";

    /// A boot sector with default values of these fields and no boot code.
    pub fn new() -> BootSector {
        let mut raw = Box::new([0; 512]);
        raw[..3].copy_from_slice(&[0xEB, 0x52, 0x90]);
        raw[3..11].copy_from_slice(BootSector::NAME);
        raw[0x15] = 0xF8;
        put(&mut raw[..], 0x18, 63u16);
        put(&mut raw[..], 0x1A, 255u16);
        put(&mut raw[..], 0x24, 0x0080_0080u32);
        put(&mut raw[..], 510, 0xAA55u16);
        BootSector {
            raw,
            sector: 512,
            sectors_per_cluster: 8,
            sectors: 0,
            mft: 0,
            mirror: 0,
            record_size: -10,
            index_size: 1,
            serial: 0,
        }
    }

    /// Reads the first 512 bytes of a boot sector.
    ///
    /// # Errors
    /// [`Error::NotThisFormat`] if its name is not that of NTFS.
    pub fn from_bytes(bytes: &[u8]) -> Result<BootSector> {
        let raw: &[u8; 512] = bytes.get(..512).and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| {
            Error::NotThisFormat { format: "NTFS", reason: "the device is shorter than a boot sector".into() }
        })?;
        if &raw[3..11] != BootSector::NAME {
            let reason = format!("the boot sector's name is {:?}", String::from_utf8_lossy(&raw[3..11]));
            return Err(Error::NotThisFormat { format: "NTFS", reason });
        }
        Ok(BootSector {
            sector: u16_at(raw, 0x0B),
            sectors_per_cluster: raw[0x0D],
            sectors: u64_at(raw, 0x28),
            mft: u64_at(raw, 0x30),
            mirror: u64_at(raw, 0x38),
            record_size: raw[0x40] as i8,
            index_size: raw[0x44] as i8,
            serial: u64_at(raw, 0x48),
            raw: Box::new(*raw),
        })
    }

    /// The sector's first 512 bytes.
    pub fn to_bytes(&self) -> [u8; 512] {
        let mut raw = *self.raw;
        put(&mut raw, 0x0B, self.sector);
        raw[0x0D] = self.sectors_per_cluster;
        put(&mut raw, 0x28, self.sectors);
        put(&mut raw, 0x30, self.mft);
        put(&mut raw, 0x38, self.mirror);
        raw[0x40] = self.record_size as u8;
        raw[0x44] = self.index_size as u8;
        put(&mut raw, 0x48, self.serial);
        raw
    }

    /// Stores the cluster's size. [`BootSector::sector`] must be stored before.
    pub fn set_cluster(&mut self, cluster: u64) {
        let sectors = cluster / u64::from(self.sector);
        self.sectors_per_cluster =
            if sectors <= 0x80 { sectors as u8 } else { (sectors.trailing_zeros() as u8).wrapping_neg() };
    }

    /// How a record's or index block's size is coded in clusters of `cluster` bytes.
    pub fn coded_size(size: u32, cluster: u64) -> i8 {
        match u64::from(size) / cluster {
            0 => -(size.trailing_zeros() as i8),
            clusters => clusters as i8,
        }
    }

    /// The length in bytes of a volume whose end is missing on a device of `device` bytes, if the fields are valid for
    /// that length and `$MFT` begins on the device.
    pub fn cut_off(&self, device: u64) -> Option<u64> {
        let length = self.sectors.checked_mul(u64::from(self.sector)).filter(|length| *length > device)?;
        let geometry = self.geometry(length).ok()?;
        (geometry.mft.checked_mul(geometry.cluster)? < device).then_some(length)
    }

    /// The sizes and places that follow from the fields, on a device of `device` bytes.
    ///
    /// # Errors
    /// [`Error::Damaged`] for any field that no volume can have.
    pub fn geometry(&self, device: u64) -> Result<Geometry> {
        fn damaged<T>(at: u64, expected: &str, found: u64) -> Result<T> {
            Err(Error::damaged(STRUCTURE, at, expected, found))
        }
        if !self.sector.is_power_of_two() || !(256..=4096).contains(&self.sector) {
            return damaged(0x0B, "a sector of 256 to 4096 bytes, a power of two", u64::from(self.sector));
        }
        let sector = u64::from(self.sector);
        let per_cluster = match self.sectors_per_cluster {
            small @ ..=0x80 => u64::from(small),
            exponent => 1u64.checked_shl(u32::from(exponent.wrapping_neg())).unwrap_or(0),
        };
        let cluster = per_cluster.saturating_mul(sector);
        if !cluster.is_power_of_two() || !(512..=2 << 20).contains(&cluster) {
            let found = u64::from(self.sectors_per_cluster);
            return damaged(0x0D, "a cluster of 512 bytes to 2 MiB, a power of two", found);
        }
        let size = |at, coded: i8| -> Result<u32> {
            let size = match coded {
                1.. => u64::from(coded.unsigned_abs()).saturating_mul(cluster),
                _ => 1u64.checked_shl(u32::from(coded.unsigned_abs())).unwrap_or(0),
            };
            if !size.is_power_of_two() || !(512..=65536).contains(&size) {
                return damaged(at, "a size of 512 bytes to 64 KiB, a power of two", u64::from(coded as u8));
            }
            Ok(size as u32)
        };
        let (record, index) = (size(0x40, self.record_size)?, size(0x44, self.index_size)?);
        let Some(length) = self.sectors.checked_mul(sector).filter(|length| *length <= device) else {
            return damaged(0x28, &format!("at most {} sectors", device / sector), self.sectors);
        };
        let clusters = length / cluster;
        if !(8..=1 << 48).contains(&clusters) {
            return damaged(0x28, "8 to 2^48 clusters", self.sectors);
        }
        for (at, place) in [(0x30, self.mft), (0x38, self.mirror)] {
            if place == 0 || place >= clusters {
                return damaged(at, &format!("a cluster from 1 to {}", clusters - 1), place);
            }
        }
        let (mft, mirror) = (self.mft, self.mirror);
        Ok(Geometry { sector: sector as u32, cluster, clusters, length, record, index, mft, mirror })
    }
}

impl Default for BootSector {
    fn default() -> BootSector {
        BootSector::new()
    }
}
