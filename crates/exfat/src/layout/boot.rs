//! The boot regions (3), and the geometry that they state.

use super::{LARGEST_DIRECTORY, array, checksum32, le16, le32, le64};
use platter_clusters::{Entries, Heap, Link, TablePlace};
use platter_vfs::{Error, Result};

/// The first 512 bytes of a boot sector (3.1).
///
/// Every byte belongs to a field, so that `from_bytes` followed by `to_bytes` changes nothing. The fields are as they
/// are on disk and may be wrong; [`BootSector::geometry`] checks them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootSector {
    /// `JumpBoot`: EB 76 90.
    pub jump: [u8; 3],
    /// `FileSystemName`: "EXFAT   ".
    pub name: [u8; 8],
    /// `MustBeZero`: 53 bytes, where FAT has its parameters.
    pub zero: [u8; 53],
    /// `PartitionOffset`: the sectors on the disk before this volume; 0 if unknown.
    pub partition_offset: u64,
    /// `VolumeLength`: the length of the volume in sectors.
    pub volume_length: u64,
    /// `FatOffset`: the first sector of the first FAT.
    pub fat_offset: u32,
    /// `FatLength`: the length of one FAT in sectors.
    pub fat_length: u32,
    /// `ClusterHeapOffset`: the first sector of cluster 2.
    pub heap_offset: u32,
    /// `ClusterCount`: the number of clusters.
    pub cluster_count: u32,
    /// `FirstClusterOfRootDirectory`.
    pub root_cluster: u32,
    /// `VolumeSerialNumber`.
    pub serial: u32,
    /// `FileSystemRevision`: major number in the high byte.
    pub revision: u16,
    /// `VolumeFlags`, which the checksum does not cover.
    pub flags: VolumeFlags,
    /// `BytesPerSectorShift`: 9 to 12.
    pub sector_shift: u8,
    /// `SectorsPerClusterShift`: clusters have at most 32 MiB.
    pub cluster_shift: u8,
    /// `NumberOfFats`: 1, or 2 on TexFAT volumes.
    pub fat_count: u8,
    /// `DriveSelect`: the BIOS's drive number.
    pub drive: u8,
    /// `PercentInUse`: the share of clusters that are taken, 0 to 100, or FF for unknown. The checksum does not cover
    /// it.
    pub percent: u8,
    /// `Reserved`.
    pub reserved: [u8; 7],
    /// `BootCode`.
    pub code: [u8; 390],
    /// `BootSignature`: 55 AA.
    pub signature: [u8; 2],
}

/// `VolumeFlags` (3.1.13).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeFlags(pub u16);

impl VolumeFlags {
    /// The second FAT and bitmap are the active ones.
    pub const ACTIVE_FAT: u16 = 0x01;
    /// The volume was not cleanly unmounted.
    pub const DIRTY: u16 = 0x02;
    /// I/O errors were met.
    pub const MEDIA_FAILURE: u16 = 0x04;
    /// `ClearToZero`: a flag to be cleared before the volume is changed.
    pub const CLEAR_TO_ZERO: u16 = 0x08;

    /// Whether all of these flags are set.
    pub fn has(self, flags: u16) -> bool {
        self.0 & flags == flags
    }
}

impl BootSector {
    /// The value of `revision`: 1.00.
    pub const REVISION: u16 = 0x0100;
    /// The size of the structure in bytes.
    pub const SIZE: usize = 512;
    /// The offset of `VolumeFlags` in the sector.
    pub const FLAGS: usize = 106;
    /// The offset of `PercentInUse` in the sector.
    pub const PERCENT: usize = 112;
    /// The value of `percent` for an unknown share.
    pub const PERCENT_UNKNOWN: u8 = 0xFF;
    /// The value of `jump` in every boot sector.
    pub const JUMP: [u8; 3] = [0xEB, 0x76, 0x90];
    /// The value of `name` in every boot sector.
    pub const NAME: [u8; 8] = *b"EXFAT   ";
    /// The value of `signature` in every boot sector.
    pub const SIGNATURE: [u8; 2] = [0x55, 0xAA];
    /// The highest number of clusters (3.1.9).
    pub const MOST_CLUSTERS: u32 = u32::MAX - 10;
    /// The smallest volume in bytes (3.1.5).
    pub const LEAST_BYTES: u64 = 1 << 20;

    /// Parses the sector. Never fails: [`BootSector::geometry`] checks the values.
    pub fn from_bytes(bytes: &[u8; BootSector::SIZE]) -> BootSector {
        BootSector {
            jump: array(bytes, 0),
            name: array(bytes, 3),
            zero: array(bytes, 11),
            partition_offset: le64(bytes, 64),
            volume_length: le64(bytes, 72),
            fat_offset: le32(bytes, 80),
            fat_length: le32(bytes, 84),
            heap_offset: le32(bytes, 88),
            cluster_count: le32(bytes, 92),
            root_cluster: le32(bytes, 96),
            serial: le32(bytes, 100),
            revision: le16(bytes, 104),
            flags: VolumeFlags(le16(bytes, 106)),
            sector_shift: bytes[108],
            cluster_shift: bytes[109],
            fat_count: bytes[110],
            drive: bytes[111],
            percent: bytes[112],
            reserved: array(bytes, 113),
            code: array(bytes, 120),
            signature: array(bytes, 510),
        }
    }

    /// Returns the first 512 bytes of the sector.
    pub fn to_bytes(&self) -> [u8; BootSector::SIZE] {
        let mut bytes = [0; BootSector::SIZE];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &self.jump);
        put(3, &self.name);
        put(11, &self.zero);
        put(64, &self.partition_offset.to_le_bytes());
        put(72, &self.volume_length.to_le_bytes());
        put(80, &self.fat_offset.to_le_bytes());
        put(84, &self.fat_length.to_le_bytes());
        put(88, &self.heap_offset.to_le_bytes());
        put(92, &self.cluster_count.to_le_bytes());
        put(96, &self.root_cluster.to_le_bytes());
        put(100, &self.serial.to_le_bytes());
        put(104, &self.revision.to_le_bytes());
        put(106, &self.flags.0.to_le_bytes());
        put(108, &[self.sector_shift, self.cluster_shift, self.fat_count, self.drive, self.percent]);
        put(113, &self.reserved);
        put(120, &self.code);
        put(510, &self.signature);
        bytes
    }

    /// Succeeds if the sector has the name and the signature of an exFAT boot sector.
    ///
    /// # Errors
    /// [`Error::NotThisFormat`] if not.
    pub fn claims(&self) -> Result<()> {
        if self.name != BootSector::NAME {
            return Err(not_exfat("it does not have the name \"EXFAT   \" at offset 3".into()));
        }
        if self.signature != BootSector::SIGNATURE {
            let found = u16::from_be_bytes(self.signature);
            return Err(not_exfat(format!("bytes 510 and 511 are {found:04X}, not 55AA")));
        }
        Ok(())
    }

    /// Returns the length of the volume in bytes if it is longer than a device of `device_bytes`, but its first
    /// cluster is on the device and its fields are consistent.
    pub fn cut_off(&self, device_bytes: u64) -> Option<u64> {
        let length = self
            .volume_length
            .checked_shl(u32::from(self.sector_shift))
            .filter(|_| self.sector_shift < 13)?;
        let geometry = self.geometry(length).ok().filter(|_| length > device_bytes)?;
        (geometry.heap.start < device_bytes).then_some(length)
    }

    /// Checks the fields against each other and against the size of the device in bytes, and returns the geometry.
    ///
    /// # Errors
    /// [`Error::NotThisFormat`] if the sector is no exFAT boot sector, or is of an unknown version;
    /// [`Error::Damaged`] if a field has an impossible value.
    pub fn geometry(&self, device_bytes: u64) -> Result<Geometry> {
        self.claims()?;
        if self.jump != BootSector::JUMP {
            let [a, b, c] = self.jump;
            return Err(damaged(0, "EB 76 90", format!("{a:02X} {b:02X} {c:02X}")));
        }
        if self.zero != [0; 53] {
            return Err(damaged(11, "53 zeroes", "something else"));
        }
        if self.revision >> 8 != 1 || self.revision & 0xFF > 99 {
            let revision = self.revision;
            return Err(not_exfat(format!("it has revision {}.{:02}", revision >> 8, revision & 0xFF)));
        }
        if !(9..=12).contains(&self.sector_shift) {
            return Err(damaged(108, "sectors of 2^9 to 2^12 bytes", format!("2^{}", self.sector_shift)));
        }
        let most = 25 - self.sector_shift;
        if self.cluster_shift > most {
            let expected = format!("clusters of at most 2^{most} sectors");
            return Err(damaged(109, expected, format!("2^{}", self.cluster_shift)));
        }
        if !matches!(self.fat_count, 1 | 2) {
            return Err(damaged(110, "1 or 2 FATs", self.fat_count));
        }
        let device_sectors = device_bytes >> self.sector_shift;
        let least = BootSector::LEAST_BYTES >> self.sector_shift;
        if !(least..=device_sectors).contains(&self.volume_length) {
            let expected = format!("{least} sectors to the device's {device_sectors}");
            return Err(damaged(72, expected, self.volume_length));
        }
        let (fat, heap) = (u64::from(self.fat_offset), u64::from(self.heap_offset));
        let fats = u64::from(self.fat_length) * u64::from(self.fat_count);
        if fat < BootRegion::SECTORS as u64 * 2 || fat + fats > heap {
            let expected = format!("{} to {}", BootRegion::SECTORS * 2, heap.saturating_sub(fats));
            return Err(damaged(80, expected, fat));
        }
        let count = u64::from(self.cluster_count);
        if heap > self.volume_length || self.cluster_count > BootSector::MOST_CLUSTERS {
            return Err(damaged(88, format!("a sector up to {}", self.volume_length), heap));
        }
        let room = (self.volume_length - heap) >> self.cluster_shift;
        if count == 0 || count > room {
            return Err(damaged(92, format!("1 to {room} clusters"), count));
        }
        let needed = ((count + 2) * 4).div_ceil(1 << self.sector_shift);
        if u64::from(self.fat_length) < needed {
            return Err(damaged(84, format!("at least {needed} sectors per FAT"), self.fat_length));
        }
        let active = self.flags.has(VolumeFlags::ACTIVE_FAT);
        if active && self.fat_count == 1 {
            return Err(damaged(106, "the only FAT to be the active one", "the second"));
        }
        let geometry = Geometry {
            sector: 1 << self.sector_shift,
            fat_start: fat << self.sector_shift,
            fat_bytes: u64::from(self.fat_length) << self.sector_shift,
            fat_count: u32::from(self.fat_count),
            active_fat: u32::from(active),
            heap: Heap {
                start: heap << self.sector_shift,
                shift: u32::from(self.sector_shift) + u32::from(self.cluster_shift),
                count: self.cluster_count,
            },
            root_cluster: self.root_cluster,
            volume_bytes: self.volume_length << self.sector_shift,
        };
        if !geometry.heap.has(self.root_cluster) {
            let expected = format!("a root cluster from 2 to {}", geometry.heap.last());
            return Err(damaged(96, expected, self.root_cluster));
        }
        Ok(geometry)
    }
}

fn not_exfat(reason: String) -> Error {
    Error::NotThisFormat { format: "exFAT", reason }
}

fn damaged(offset: u64, expected: impl std::fmt::Display, found: impl std::fmt::Display) -> Error {
    Error::damaged("boot sector", offset, expected, found)
}

/// A boot region: twelve sectors, of which the last is filled with the checksum of the others (2, 3.4).
pub struct BootRegion;

impl BootRegion {
    /// The number of sectors in a region.
    pub const SECTORS: usize = 12;
    /// The number of sectors that the checksum covers.
    pub const SUMMED: usize = 11;
    /// The last four bytes of sectors 1 to 8 (3.2.2).
    pub const EXTENDED_SIGNATURE: [u8; 4] = [0x00, 0x00, 0x55, 0xAA];

    /// Returns the checksum of the first eleven sectors. `region` holds at least these, and `sector` is the size of
    /// one.
    pub fn checksum(region: &[u8], sector: usize) -> u32 {
        let summed = &region[..(BootRegion::SUMMED * sector).min(region.len())];
        let rest = BootSector::PERCENT + 1;
        let parts = [
            &summed[..BootSector::FLAGS],
            &summed[BootSector::FLAGS + 2..BootSector::PERCENT],
            &summed[rest..],
        ];
        parts.into_iter().fold(0, checksum32)
    }

    /// Checks that the last of the twelve sectors is filled with the right checksum.
    ///
    /// # Errors
    /// The first wrong value of four bytes, and the right checksum.
    pub fn verify(region: &[u8], sector: usize) -> std::result::Result<(), (u32, u32)> {
        let sum = BootRegion::checksum(region, sector);
        let wrong = region[BootRegion::SUMMED * sector..]
            .as_chunks::<4>()
            .0
            .iter()
            .find(|word| **word != sum.to_le_bytes());
        wrong.map_or(Ok(()), |word| Err((u32::from_le_bytes(*word), sum)))
    }

    /// Fills the last of the twelve sectors with the checksum.
    pub fn seal(region: &mut [u8], sector: usize) {
        let sum = BootRegion::checksum(region, sector).to_le_bytes();
        region[BootRegion::SUMMED * sector..].as_chunks_mut::<4>().0.fill(sum);
    }
}

/// The layout of a volume, checked for consistency and against the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes per sector: 512, 1,024, 2,048 or 4,096.
    pub sector: u32,
    /// The device offset of the first FAT.
    pub fat_start: u64,
    /// The length of a FAT in bytes, in whole sectors.
    pub fat_bytes: u64,
    /// The number of FATs and of bitmaps: 1, or 2 on TexFAT volumes.
    pub fat_count: u32,
    /// The number of the active FAT: 0 or 1.
    pub active_fat: u32,
    /// The place of the clusters on the device.
    pub heap: Heap,
    /// The first cluster of the root directory.
    pub root_cluster: u32,
    /// The length of the volume in bytes.
    pub volume_bytes: u64,
}

impl Geometry {
    /// The FAT entry of the last cluster of a chain.
    pub const END: u32 = 0xFFFF_FFFF;
    /// The FAT entry of a bad cluster.
    pub const BAD: u32 = 0xFFFF_FFF7;
    /// The value of entry 0 of the FAT (4.1.1).
    pub const MEDIA: u32 = 0xFFFF_FFF8;

    /// Returns the highest number of clusters in a directory.
    pub fn most_of_a_directory(&self) -> u32 {
        ((LARGEST_DIRECTORY >> self.heap.shift) as u32).clamp(1, self.heap.count)
    }

    /// Returns the device offset of the active FAT.
    pub fn active_fat_offset(&self) -> u64 {
        self.fat_start + u64::from(self.active_fat) * self.fat_bytes
    }

    /// Returns the place of the active FAT on the device.
    pub fn fat_place(&self) -> TablePlace {
        let (start, heap) = (self.active_fat_offset(), self.heap);
        TablePlace { start, bytes: self.fat_bytes, sector: self.sector, heap }
    }

    /// Returns the device offset of an entry of the active FAT.
    pub fn fat_entry_offset(&self, cluster: u32) -> u64 {
        self.active_fat_offset() + u64::from(cluster) * 4
    }

    /// Returns the length of an allocation bitmap in bytes.
    pub fn bitmap_bytes(&self) -> u64 {
        u64::from(self.heap.count).div_ceil(8)
    }
}

impl Entries for Geometry {
    fn bits(&self) -> u32 {
        32
    }

    fn get(&self, table: &[u8], index: u32) -> Option<u32> {
        let at = index as usize * 4;
        table.get(at..at + 4).map(|entry| le32(entry, 0))
    }

    fn set(&self, table: &mut [u8], index: u32, value: u32) -> bool {
        let at = index as usize * 4;
        match table.get_mut(at..at + 4) {
            Some(entry) => {
                entry.copy_from_slice(&value.to_le_bytes());
                true
            }
            None => false,
        }
    }

    fn link(&self, value: u32) -> Link {
        match value {
            0 => Link::Free,
            Geometry::END => Link::End,
            Geometry::BAD => Link::Bad,
            next if self.heap.has(next) => Link::Next(next),
            other => Link::Invalid(other),
        }
    }

    fn end(&self) -> u32 {
        Geometry::END
    }
}

const _: () = assert!(
    BootSector::PERCENT < BootSector::SIZE && BootSector::FLAGS + 2 <= BootSector::PERCENT,
    "what the checksum leaves out is inside the sector"
);

#[cfg(test)]
mod tests {
    use super::*;
    use platter_testing::model::Random;

    #[test]
    fn any_bytes_come_back_unchanged() {
        for seed in 0..64 {
            let mut bytes = [0; 512];
            Random::new(seed).fill(&mut bytes);
            assert_eq!(BootSector::from_bytes(&bytes).to_bytes(), bytes, "seed {seed}");
        }
    }

    #[test]
    fn the_checksum_leaves_out_what_changes_from_mount_to_mount() {
        let mut region = vec![7; 12 * 512];
        BootRegion::seal(&mut region, 512);
        assert_eq!(BootRegion::verify(&region, 512), Ok(()));
        (region[106], region[107], region[112]) = (1, 2, 3);
        assert_eq!(BootRegion::verify(&region, 512), Ok(()));
        region[113] ^= 1;
        assert!(BootRegion::verify(&region, 512).is_err());
    }
}
