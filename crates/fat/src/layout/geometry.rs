//! The layout of a volume, derived from a valid boot sector.

use super::{BootSector, Fat32Fields, ShortEntry};
use platter_clusters::{Heap, Link, TablePlace};
use platter_vfs::{Error, Result};

/// The width of a FAT entry.
///
/// The kind follows from the number of clusters alone (fatgen103, "FAT Type Determination"): fewer than 4,085 is
/// FAT12, fewer than 65,525 is FAT16, more is FAT32. The rule does not cover a boot sector of the FAT32 layout
/// (16-bit FAT size 0) with fewer than 65,525 clusters. It cannot be read as anything but FAT32, and Windows, Linux
/// and the DOS tools do so; so does Platter, which never makes such a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FatKind {
    /// 12 bits.
    Fat12,
    /// 16 bits.
    Fat16,
    /// 28 bits of an entry of 32; the upper 4 are not changed.
    Fat32,
}

impl FatKind {
    /// The most clusters of a FAT12 volume.
    pub const MOST_12: u32 = 4_084;
    /// The most clusters of a FAT16 volume.
    pub const MOST_16: u32 = 65_524;
    /// The most clusters of a FAT32 volume: numbers 2 to 0FFFFFF6, as 0FFFFFF7 marks a bad one.
    pub const MOST_32: u32 = 0x0FFF_FFF5;

    /// Returns the kind of a volume with so many clusters.
    pub fn of(clusters: u32) -> FatKind {
        match clusters {
            _ if clusters <= FatKind::MOST_12 => FatKind::Fat12,
            _ if clusters <= FatKind::MOST_16 => FatKind::Fat16,
            _ => FatKind::Fat32,
        }
    }

    /// Returns the size of a FAT entry in bits.
    pub fn bits(self) -> u32 {
        match self {
            FatKind::Fat12 => 12,
            FatKind::Fat16 => 16,
            FatKind::Fat32 => 32,
        }
    }

    /// Returns the bits of an entry that hold its value.
    pub fn mask(self) -> u32 {
        match self {
            FatKind::Fat12 => 0xFFF,
            FatKind::Fat16 => 0xFFFF,
            FatKind::Fat32 => 0x0FFF_FFFF,
        }
    }

    /// Returns the FAT entry of a bad cluster.
    pub fn bad(self) -> u32 {
        self.mask() - 8
    }

    /// Returns the value that is written as the FAT entry of the last cluster of a chain. When read, the seven values
    /// below it mean the same.
    pub fn end(self) -> u32 {
        self.mask()
    }

    /// Returns the size in bytes of a table with `entries` entries.
    pub fn table_bytes(self, entries: u64) -> u64 {
        (entries * u64::from(self.bits())).div_ceil(8)
    }

    /// Returns the number of whole entries in a table of `bytes` bytes.
    pub fn entries_in(self, bytes: u64) -> u64 {
        bytes * 8 / u64::from(self.bits())
    }

    /// Returns "FAT12", "FAT16" or "FAT32".
    pub fn name(self) -> &'static str {
        match self {
            FatKind::Fat12 => "FAT12",
            FatKind::Fat16 => "FAT16",
            FatKind::Fat32 => "FAT32",
        }
    }
}

/// The layout of a volume, checked for consistency and against the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The kind of FAT, which is the width of its entries.
    pub kind: FatKind,
    /// Bytes per sector: 512, 1024, 2048 or 4096.
    pub bytes_per_sector: u32,
    /// Bytes per cluster: 512 to 524,288, a power of two.
    pub cluster_size: u32,
    /// The number of sectors before the first FAT.
    pub reserved_sectors: u32,
    /// The number of copies of the FAT, at least 1.
    pub fat_count: u32,
    /// The number of sectors of one FAT.
    pub fat_sectors: u32,
    /// The number of slots in the fixed root directory; 0 on FAT32.
    pub root_entries: u32,
    /// The number of sectors of the fixed root directory; 0 on FAT32.
    pub root_sectors: u32,
    /// The first cluster of the root directory on FAT32; else 0.
    pub root_cluster: u32,
    /// The number of sectors of the volume.
    pub total_sectors: u32,
    /// The first sector of cluster 2.
    pub first_data_sector: u32,
    /// The number of clusters that the FAT has entries for. The first one has the number 2. The volume may have sectors
    /// for more clusters ([`Geometry::short_fat`]), which are not used.
    pub clusters: u32,
    /// The number of the only FAT in use, if FAT32's mirroring is off; `None` if all are in use.
    pub active_fat: Option<u32>,
    /// The sector of the FAT32 information sector, if there is one.
    pub info_sector: Option<u32>,
    /// The sector of the copy of the boot sector, if there is one.
    pub backup_sector: Option<u32>,
}

impl BootSector {
    /// Returns the length of the volume in bytes if it is longer than a device of `device_bytes`, but its first
    /// cluster is on the device and its fields are consistent.
    pub fn cut_off(&self, device_bytes: u64) -> Option<u64> {
        let length = u64::from(self.total_sectors()) * u64::from(self.bytes_per_sector);
        let geometry = self.geometry(length).ok().filter(|_| length > device_bytes)?;
        (geometry.heap().start < device_bytes).then_some(length)
    }

    /// Checks the fields against each other and against the size of the device in bytes, and returns the layout.
    ///
    /// # Errors
    /// [`Error::NotThisFormat`] if the sector is no FAT boot sector, [`Error::Damaged`] if a field has an impossible
    /// value.
    pub fn geometry(&self, device_bytes: u64) -> Result<Geometry> {
        if self.signature != BootSector::SIGNATURE {
            let found = u16::from_be_bytes(self.signature);
            return Err(not_fat(format!("bytes 510 and 511 are {found:04X}, not 55AA")));
        }
        if !self.has_jump() {
            let [a, b, c] = self.jump;
            return Err(not_fat(format!("it starts with {a:02X} {b:02X} {c:02X}, which is no boot jump")));
        }
        self.check_counts()?;
        let bytes_per_sector = u32::from(self.bytes_per_sector);
        let sectors_per_cluster = u32::from(self.sectors_per_cluster);
        let fat_sectors = self.fat_sectors();
        let root_entries = u32::from(self.root_entries);
        let root_sectors = root_entries / (bytes_per_sector / 32);
        let total_sectors = self.total_sectors();
        let total_offset = if self.total_sectors_16 == 0 { 32 } else { 19 };
        let device_sectors = device_bytes / u64::from(bytes_per_sector);
        if u64::from(total_sectors) > device_sectors {
            let expected = format!("at most the device's {device_sectors} sectors");
            return Err(damaged(total_offset, expected, total_sectors));
        }
        let first_data_sector = u64::from(self.reserved_sectors)
            + u64::from(self.fat_count) * u64::from(fat_sectors)
            + u64::from(root_sectors);
        let least = first_data_sector + u64::from(sectors_per_cluster);
        if u64::from(total_sectors) < least {
            let expected = format!("at least {least} sectors, so that one cluster fits");
            return Err(damaged(total_offset, expected, total_sectors));
        }
        // Fits 32 bits, because it is less than the total number of sectors.
        let first_data_sector = first_data_sector as u32;
        let clusters = (total_sectors - first_data_sector) / sectors_per_cluster;
        let kind = if self.fat32.is_some() { FatKind::Fat32 } else { FatKind::of(clusters) };
        if self.fat32.is_none() && kind == FatKind::Fat32 {
            let expected = format!("at most {} clusters without FAT32's fields", FatKind::MOST_16);
            return Err(damaged(total_offset, expected, clusters));
        }
        if clusters > FatKind::MOST_32 {
            return Err(damaged(total_offset, format!("at most {} clusters", FatKind::MOST_32), clusters));
        }
        // Some volumes are sold with a FAT that is too short by a few entries. The kind follows from the sectors all the
        // same, and the clusters without an entry are not used, as in Linux.
        let entries = kind.entries_in(u64::from(fat_sectors) * u64::from(bytes_per_sector));
        let clusters = u64::from(clusters).min(entries - 2) as u32;
        let mut geometry = Geometry {
            kind,
            bytes_per_sector,
            cluster_size: bytes_per_sector * sectors_per_cluster,
            reserved_sectors: u32::from(self.reserved_sectors),
            fat_count: u32::from(self.fat_count),
            fat_sectors,
            root_entries,
            root_sectors,
            root_cluster: 0,
            total_sectors,
            first_data_sector,
            clusters,
            active_fat: None,
            info_sector: None,
            backup_sector: None,
        };
        if let Some(fat32) = &self.fat32 {
            geometry.take_fat32(fat32)?;
        }
        Ok(geometry)
    }

    /// Checks that there is at least one sector of every part that a volume has, and that the root directory is where
    /// its kind has it.
    fn check_counts(&self) -> Result<()> {
        let bytes_per_sector = u32::from(self.bytes_per_sector);
        if !matches!(bytes_per_sector, 512 | 1024 | 2048 | 4096) {
            return Err(damaged(11, "512, 1024, 2048 or 4096 bytes per sector", bytes_per_sector));
        }
        let sectors_per_cluster = u32::from(self.sectors_per_cluster);
        if !sectors_per_cluster.is_power_of_two() {
            return Err(damaged(13, "a power of two of sectors per cluster", sectors_per_cluster));
        }
        if self.reserved_sectors == 0 {
            return Err(damaged(14, "at least 1 reserved sector", 0));
        }
        if self.fat_count == 0 {
            return Err(damaged(16, "at least 1 FAT", 0));
        }
        if self.fat_sectors() == 0 {
            return Err(damaged(if self.fat32.is_some() { 36 } else { 22 }, "at least 1 sector per FAT", 0));
        }
        let slots_per_sector = bytes_per_sector / 32;
        let root_entries = u32::from(self.root_entries);
        if self.fat32.is_some() && root_entries != 0 {
            return Err(damaged(17, "no fixed root directory on FAT32", root_entries));
        }
        if self.fat32.is_none() && (root_entries == 0 || root_entries % slots_per_sector != 0) {
            return Err(damaged(17, format!("a multiple of {slots_per_sector} root entries"), root_entries));
        }
        Ok(())
    }
}

fn not_fat(reason: String) -> Error {
    Error::NotThisFormat { format: "FAT", reason }
}

fn damaged(offset: u64, expected: impl std::fmt::Display, found: impl std::fmt::Display) -> Error {
    Error::damaged("boot sector", offset, expected, found)
}

// The number of clusters decides the kind, and a number of each kind fits its entries.
const _: () = assert!(FatKind::MOST_12 < FatKind::MOST_16 && FatKind::MOST_16 < FatKind::MOST_32);
// Clusters are numbered from 2 on; the numbers from FF6 on are marks.
const _: () = assert!(
    FatKind::MOST_12 + 1 < 0xFF7 && FatKind::MOST_16 + 1 < 0xFFF7 && FatKind::MOST_32 + 1 < 0x0FFF_FFF7
);

impl Geometry {
    /// Checks the fields that only FAT32 has and takes over what they say.
    fn take_fat32(&mut self, fat32: &Fat32Fields) -> Result<()> {
        if fat32.version != 0 {
            return Err(not_fat(format!("FAT32 version {:04X}, not 0", fat32.version)));
        }
        if !self.has_cluster(fat32.root_cluster) {
            let expected = format!("a root cluster from 2 to {}", self.last_cluster());
            return Err(damaged(44, expected, fat32.root_cluster));
        }
        self.root_cluster = fat32.root_cluster;
        if fat32.flags & 0x80 != 0 {
            let active = u32::from(fat32.flags & 0x0F);
            if active >= self.fat_count {
                let expected = format!("an active FAT below {}", self.fat_count);
                return Err(damaged(40, expected, active));
            }
            self.active_fat = Some(active);
        }
        let is_reserved = |sector: u32| sector != 0 && sector < self.reserved_sectors;
        self.info_sector = Some(u32::from(fat32.info_sector)).filter(|sector| is_reserved(*sector));
        self.backup_sector = Some(u32::from(fat32.backup_sector)).filter(|sector| is_reserved(*sector));
        Ok(())
    }

    /// Returns the number of clusters that the volume has sectors for, whether the FAT has entries for them or not.
    pub fn clusters_by_sectors(&self) -> u32 {
        (self.total_sectors - self.first_data_sector) / (self.cluster_size / self.bytes_per_sector)
    }

    /// Returns what is wrong with a FAT that has no entries for the last clusters of the volume; `None` if it has an entry
    /// for each cluster.
    pub fn short_fat(&self) -> Option<Error> {
        let clusters = self.clusters_by_sectors();
        let needed = self.kind.table_bytes(u64::from(clusters) + 2);
        let found = u64::from(self.fat_sectors) * u64::from(self.bytes_per_sector);
        let offset = if self.kind == FatKind::Fat32 { 36 } else { 22 };
        let expected = || format!("a FAT of at least {needed} bytes for {clusters} clusters");
        (clusters > self.clusters).then(|| damaged(offset, expected(), found))
    }

    /// Returns the number of the last cluster.
    pub fn last_cluster(&self) -> u32 {
        self.clusters + 1
    }

    /// Returns the place of the clusters on the device.
    pub fn heap(&self) -> Heap {
        Heap {
            start: u64::from(self.first_data_sector) * u64::from(self.bytes_per_sector),
            shift: self.cluster_size.trailing_zeros(),
            count: self.clusters,
        }
    }

    /// Whether the volume has a cluster with this number.
    pub fn has_cluster(&self, cluster: u32) -> bool {
        (2..=self.last_cluster()).contains(&cluster)
    }

    /// Returns the device offset of a cluster that the volume has.
    pub fn cluster_offset(&self, cluster: u32) -> u64 {
        debug_assert!(self.has_cluster(cluster));
        u64::from(self.first_data_sector) * u64::from(self.bytes_per_sector)
            + u64::from(cluster - 2) * u64::from(self.cluster_size)
    }

    /// Returns the device offset of a sector.
    pub fn sector_offset(&self, sector: u32) -> u64 {
        u64::from(sector) * u64::from(self.bytes_per_sector)
    }

    /// Returns the device offset of a copy of the FAT, counted from 0.
    pub fn fat_offset(&self, copy: u32) -> u64 {
        let sector = u64::from(self.reserved_sectors) + u64::from(copy) * u64::from(self.fat_sectors);
        sector * u64::from(self.bytes_per_sector)
    }

    /// Returns the place of a copy of the FAT, counted from 0, on the device.
    pub fn fat_place(&self, copy: u32) -> TablePlace {
        let sector = self.bytes_per_sector;
        let bytes = u64::from(self.fat_sectors) * u64::from(sector);
        TablePlace { start: self.fat_offset(copy), bytes, sector, heap: self.heap() }
    }

    /// Returns the number of bytes of one FAT that hold entries. The remaining bytes of its sectors are unused.
    pub fn fat_bytes(&self) -> u64 {
        self.kind.table_bytes(u64::from(self.clusters) + 2)
    }

    /// Returns the device offset of the fixed root directory of FAT12 and FAT16.
    pub fn root_offset(&self) -> u64 {
        self.sector_offset(self.first_data_sector - self.root_sectors)
    }

    /// Returns the device offset of the end of the last cluster.
    pub fn end_offset(&self) -> u64 {
        u64::from(self.first_data_sector) * u64::from(self.bytes_per_sector)
            + u64::from(self.clusters) * u64::from(self.cluster_size)
    }

    /// Returns the number of the FAT to read: the only active one, or the first.
    pub fn primary_fat(&self) -> u32 {
        self.active_fat.unwrap_or(0)
    }

    /// Returns the numbers of the FATs to write.
    pub fn written_fats(&self) -> std::ops::Range<u32> {
        match self.active_fat {
            Some(active) => active..active + 1,
            None => 0..self.fat_count,
        }
    }

    /// Returns the first cluster that an entry names. FAT12 and FAT16 have 16 bits for it; the upper half of the
    /// field belongs to other systems (OS/2 and Windows NT kept extended attributes there).
    pub fn first_cluster(&self, entry: &ShortEntry) -> u32 {
        match self.kind {
            FatKind::Fat32 => entry.cluster,
            _ => entry.cluster & 0xFFFF,
        }
    }

    /// Returns the number of clusters that hold so many bytes.
    pub fn clusters_for(&self, bytes: u64) -> u64 {
        bytes.div_ceil(u64::from(self.cluster_size))
    }

    /// Returns what the value of a FAT entry, already masked, means.
    pub fn link(&self, value: u32) -> Link {
        match value {
            0 => Link::Free,
            _ if self.has_cluster(value) => Link::Next(value),
            _ if value == self.kind.bad() => Link::Bad,
            _ if value > self.kind.bad() => Link::End,
            _ => Link::Invalid(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A 1.44 MB floppy disk as every version of DOS formatted it.
    fn floppy() -> BootSector {
        let mut bytes = [0; 512];
        bytes[..36].copy_from_slice(&[
            0xEB, 0x3C, 0x90, b'M', b'S', b'D', b'O', b'S', b'5', b'.', b'0', 0x00, 0x02, 0x01, 0x01, 0x00,
            0x02, 0xE0, 0x00, 0x40, 0x0B, 0xF0, 0x09, 0x00, 0x12, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00,
        ]);
        bytes[510..].copy_from_slice(&BootSector::SIGNATURE);
        BootSector::from_bytes(&bytes)
    }

    #[test]
    fn golden_floppy() {
        let geometry = floppy().geometry(1_474_560).unwrap();
        assert_eq!(geometry.kind, FatKind::Fat12);
        assert_eq!((geometry.root_sectors, geometry.first_data_sector, geometry.clusters), (14, 33, 2847));
        assert_eq!((geometry.fat_offset(1), geometry.root_offset()), (512 * 10, 512 * 19));
        assert_eq!((geometry.cluster_offset(2), geometry.end_offset()), (512 * 33, 1_474_560));
        assert_eq!(geometry.link(0xFF7), Link::Bad);
        assert_eq!(geometry.link(0xFF8), Link::End);
        assert_eq!(geometry.link(1), Link::Invalid(1));
        assert_eq!(geometry.link(2848), Link::Next(2848));
        assert_eq!(geometry.link(2849), Link::Invalid(2849));
    }

    #[test]
    fn kind_by_cluster_count() {
        for (clusters, kind) in [
            (1, FatKind::Fat12),
            (4084, FatKind::Fat12),
            (4085, FatKind::Fat16),
            (65524, FatKind::Fat16),
            (65525, FatKind::Fat32),
        ] {
            assert_eq!(FatKind::of(clusters), kind, "{clusters}");
        }
    }

    #[test]
    fn each_impossible_field_is_named() {
        type Spoil = fn(&mut BootSector);
        let cases: [(Spoil, u64); 7] = [
            (|boot| boot.bytes_per_sector = 513, 11),
            (|boot| boot.sectors_per_cluster = 3, 13),
            (|boot| boot.reserved_sectors = 0, 14),
            (|boot| boot.fat_count = 0, 16),
            (|boot| boot.root_entries = 17, 17),
            (|boot| boot.total_sectors_16 = 2881, 19),
            (|boot| boot.total_sectors_16 = 33, 19),
        ];
        for (number, (spoil, at)) in cases.into_iter().enumerate() {
            let mut boot = floppy();
            spoil(&mut boot);
            match boot.geometry(1_474_560) {
                Err(Error::Damaged(damage)) => assert_eq!(damage.offset, at, "case {number}: {damage}"),
                other => panic!("case {number}: {other:?}"),
            }
        }
        let mut boot = floppy();
        boot.signature = [0, 0];
        assert!(matches!(boot.geometry(1_474_560), Err(Error::NotThisFormat { .. })));
    }

    #[test]
    fn clusters_that_the_fat_has_no_entry_for_do_not_count() {
        assert!(floppy().geometry(1_474_560).unwrap().short_fat().is_none());
        let boot = BootSector { fat_sectors_16: 8, ..floppy() };
        let geometry = boot.geometry(1_474_560).unwrap();
        // 8 sectors have 2,730 entries of 12 bits, two of which belong to no cluster.
        assert_eq!((geometry.clusters, geometry.clusters_by_sectors()), (2728, 2849));
        assert_eq!(geometry.link(2729), Link::Next(2729));
        assert_eq!(geometry.link(2730), Link::Invalid(2730));
        assert!(geometry.fat_bytes() <= 8 * 512);
        let Some(Error::Damaged(damage)) = geometry.short_fat() else { panic!("no fault") };
        assert_eq!((damage.offset, damage.found.as_str()), (22, "4096"));
        // The sectors of the volume say what kind it is, not the entries of its FAT: 5,000 clusters are FAT16.
        let boot = BootSector { total_sectors_16: 5_000, fat_sectors_16: 10, ..floppy() };
        let geometry = boot.geometry(5_000 * 512).unwrap();
        assert_eq!((geometry.kind, geometry.clusters), (FatKind::Fat16, 2558));
    }
}
