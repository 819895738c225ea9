//! The boot record: the first sector of a volume, with a copy in its last.
//!
//! Source: forefst `docs/structures/vbr.md`, libfsrefs' documentation, and boot records that Windows wrote.

use super::bytes::{FieldAt, put, u16_at, u32_at, u64_at};
use platter_vfs::{Error, Result};

/// A version of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The major version: 3 for every volume that this code reads.
    pub major: u8,
    /// The minor version: 4 (Windows 10 1803) to 14 (Windows 11 24H2).
    pub minor: u8,
}

impl Version {
    /// Windows 10 1803, Windows Server 2019.
    pub const V3_4: Version = Version { major: 3, minor: 4 };
    /// Windows 11 21H2.
    pub const V3_7: Version = Version { major: 3, minor: 7 };
    /// The first version with compact page references.
    pub const V3_10: Version = Version { major: 3, minor: 10 };
    /// Windows 11 24H2, Windows Server 2025.
    pub const V3_14: Version = Version { major: 3, minor: 14 };

    /// Whether volumes of this version are made and written here, not only read.
    pub fn is_written(self) -> bool {
        matches!(self, Version::V3_4 | Version::V3_14)
    }

    /// Whether files can have several names.
    pub fn has_hard_links(self) -> bool {
        self >= Version::V3_14
    }

    /// Whether a file keeps its home directory and its number when it moves to another directory, and directories have
    /// no numbers. What earlier versions do is not known.
    ///
    /// Source: forefst `docs/concepts/file_ids.md`, and what Windows 11 logged on volumes of 3.14.
    pub fn keeps_homes(self) -> bool {
        self >= Version::V3_14
    }

    /// Whether clusters can have several owners. Before 3.14 they cannot here: how such clusters are counted is not
    /// known.
    pub fn has_shared_clusters(self) -> bool {
        self >= Version::V3_14
    }

    /// The schema of a file's record.
    pub fn file_schema(self) -> u32 {
        match self {
            Version { minor: ..=6, .. } => 0x180,
            Version { minor: ..=13, .. } => 0x1C0,
            _ => 0x1E0,
        }
    }

    /// The schema of a directory's own record.
    pub fn directory_schema(self) -> u32 {
        self.file_schema() + 0x10
    }

    /// The smallest size in bytes at which content is put into clusters and not into the record. Before 3.11 other
    /// bounds held, which are not known for certain; content in clusters is valid at any size.
    pub fn least_outside(self) -> u64 {
        if self >= Version::V3_10 { 0x800 } else { 1 }
    }

    /// Whether the medium allocator has rows of all containers, in which those of other allocators are wholly in use.
    /// At 3.4 each container has a row in one allocator only (forefst `allocators.md`); the versions after 3.4 are
    /// taken to be like the later ones.
    pub fn has_shared_allocators(self) -> bool {
        self > Version::V3_4
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The boot record: the version and the sizes of the volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootRecord {
    /// The number of sectors of the volume.
    pub sectors: u64,
    /// Bytes per sector.
    pub sector: u32,
    /// Sectors per cluster.
    pub sectors_per_cluster: u32,
    /// The version that last wrote the volume.
    pub version: Version,
    /// The metadata checksum chosen when the volume was made: 0 none, 2 CRC64, 4 SHA-256.
    pub checksum: u16,
    /// Flags whose meaning is not known: 0x06 on 3.4, 0x26 from 3.7, 0x66 from 3.10.
    pub flags: u32,
    /// The volume's serial number.
    pub serial: u64,
    /// Bytes per container.
    pub container: u64,
    /// 16 bytes that are set when a volume is made, from 3.10 on; zero before. Their purpose is not known.
    pub instance: [u8; 16],
}

impl BootRecord {
    /// The places where a volume on a device of `length` bytes can end, most likely first: after its last whole
    /// container, as those of Windows do, or after its last whole cluster or sector. The last sector before the end
    /// holds the copy of the boot record.
    pub fn ends(length: u64, sector: u64) -> [u64; 4] {
        [64 << 20, 65536, 4096, sector].map(|unit| length / unit * unit)
    }

    /// The number of sectors of the volume.
    pub const SECTORS: FieldAt<u64> = FieldAt::new(0x18);
    const MAJOR: FieldAt<u8> = FieldAt::new(0x28);
    const MINOR: FieldAt<u8> = FieldAt::new(0x29);

    /// The version in a sector, whether it is one that is read or not.
    pub fn version_of(bytes: &[u8]) -> Version {
        Version { major: BootRecord::MAJOR.of(bytes), minor: BootRecord::MINOR.of(bytes) }
    }

    /// Bytes of the boot record that have a meaning; the rest of the sector is zero.
    pub const SIZE: usize = 512;

    /// Whether a sector has the names with which a ReFS volume of any version begins.
    pub fn is_refs(bytes: &[u8]) -> bool {
        bytes.get(3..11) == Some(b"ReFS\0\0\0\0") && bytes.get(16..20) == Some(b"FSRS")
    }

    /// Reads the record and checks the fields that everything else depends on.
    ///
    /// # Errors
    /// [`Error::NotThisFormat`] if the sector is no ReFS boot record or its version is not read, [`Error::Damaged`] for
    /// a wrong checksum or an impossible geometry.
    pub fn from_bytes(bytes: &[u8; BootRecord::SIZE], at: u64) -> Result<BootRecord> {
        let not_this = |reason: String| Err(Error::NotThisFormat { format: "ReFS", reason });
        if !BootRecord::is_refs(bytes) {
            return not_this("the boot record lacks the names \"ReFS\" and \"FSRS\"".into());
        }
        let version = BootRecord::version_of(bytes);
        if version.major != 3 || !(4..=15).contains(&version.minor) {
            return not_this(format!("it is version {version}; 3.4 to 3.15 are read"));
        }
        let (stored, found) = (u16_at(bytes, 0x16), checksum(bytes));
        if stored != found {
            return Err(Error::damaged(
                "boot record checksum",
                at + 0x16,
                format!("{found:#06x}"),
                format!("{stored:#06x}"),
            ));
        }
        let record = BootRecord {
            sectors: BootRecord::SECTORS.of(bytes),
            sector: u32_at(bytes, 0x20),
            sectors_per_cluster: u32_at(bytes, 0x24),
            version,
            checksum: u16_at(bytes, 0x2A),
            flags: u32_at(bytes, 0x2C),
            serial: u64_at(bytes, 0x38),
            container: u64_at(bytes, 0x40),
            instance: bytes[0x48..0x58].try_into().expect("16 bytes"),
        };
        if !matches!(record.sector, 512 | 4096) {
            return Err(Error::damaged("bytes per sector", at + 0x20, "512 or 4096", record.sector));
        }
        let cluster = u64::from(record.sector) * u64::from(record.sectors_per_cluster);
        if !matches!(cluster, 4096 | 65536) {
            return Err(Error::damaged("bytes per cluster", at + 0x24, "4096 or 65536", cluster));
        }
        let container = record.container;
        if !container.is_power_of_two() || !(1 << 22..=1 << 30).contains(&container) {
            return Err(Error::damaged(
                "bytes per container",
                at + 0x40,
                "a power of two near 64 MiB",
                container,
            ));
        }
        if !matches!(record.checksum, 0 | 2 | 4) {
            return Err(Error::damaged("checksum selector", at + 0x2A, "0, 2 or 4", record.checksum));
        }
        if record.sectors.checked_mul(u64::from(record.sector)).is_none_or(|length| length < 64 * cluster) {
            return Err(Error::damaged(
                "sectors of the volume",
                at + BootRecord::SECTORS.at() as u64,
                "at least 64 clusters",
                record.sectors,
            ));
        }
        Ok(record)
    }

    /// The record as it stands on disk.
    pub fn to_bytes(&self) -> [u8; BootRecord::SIZE] {
        let mut bytes = [0; BootRecord::SIZE];
        bytes[3..7].copy_from_slice(b"ReFS");
        bytes[16..20].copy_from_slice(b"FSRS");
        put(&mut bytes, 0x14, BootRecord::SIZE as u16);
        BootRecord::SECTORS.put(&mut bytes, self.sectors);
        put(&mut bytes, 0x20, self.sector);
        put(&mut bytes, 0x24, self.sectors_per_cluster);
        put(&mut bytes, 0x28, self.version.major);
        put(&mut bytes, 0x29, self.version.minor);
        put(&mut bytes, 0x2A, self.checksum);
        put(&mut bytes, 0x2C, self.flags);
        put(&mut bytes, 0x38, self.serial);
        put(&mut bytes, 0x40, self.container);
        bytes[0x48..0x58].copy_from_slice(&self.instance);
        let sum = checksum(&bytes);
        put(&mut bytes, 0x16, sum);
        bytes
    }

    /// The offset of the number of bytes that the checksum covers: always [`BootRecord::SIZE`].
    pub const COVERED: FieldAt<u16> = FieldAt::new(0x14);

    /// The sector of a boot record with that number put right; `None` if it is right.
    pub fn mended(sector: &[u8]) -> Option<Vec<u8>> {
        if BootRecord::COVERED.of(sector) == BootRecord::SIZE as u16 {
            return None;
        }
        let mut mended = sector.to_vec();
        BootRecord::COVERED.put(&mut mended, BootRecord::SIZE as u16);
        let sum = checksum(mended.first_chunk()?);
        put(&mut mended, 0x16, sum);
        Some(mended)
    }

    /// Whether `older` is this record as it was before the volume was upgraded. Windows writes its version into the first
    /// sector of an older volume that it mounts, and not into the copy (forefst `docs/structures/vbr.md`: two volumes).
    pub fn is_upgraded_from(&self, older: &BootRecord) -> bool {
        let former = BootRecord { version: older.version, flags: older.flags, ..self.clone() };
        older.version < self.version && former == *older
    }

    /// Bytes per cluster.
    pub fn cluster(&self) -> u32 {
        self.sector * self.sectors_per_cluster
    }

    /// Whole clusters of the volume.
    pub fn clusters(&self) -> u64 {
        self.sectors * u64::from(self.sector) / u64::from(self.cluster())
    }
}

/// The checksum of a boot record: rotate right and add, over everything but the first three bytes and the checksum
/// itself.
pub(crate) fn checksum(bytes: &[u8; BootRecord::SIZE]) -> u16 {
    let counted = bytes[3..0x16].iter().chain(&bytes[0x18..]);
    counted.fold(0, |sum: u16, &byte| sum.rotate_right(1).wrapping_add(u16::from(byte)))
}
