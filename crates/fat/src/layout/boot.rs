//! The boot sector with its BIOS parameter block (fatgen103, "Boot Sector and BPB").

use super::{array, le16, le32};

/// The first 512 bytes of a volume, even if its sectors are larger.
///
/// Every byte belongs to a field, so that `from_bytes` followed by `to_bytes` changes nothing. The fields are as they
/// are on disk and may be wrong; [`BootSector::geometry`] checks them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootSector {
    /// `BS_jmpBoot`: a jump over the parameter block, `EB xx 90` or `E9 xx xx`.
    pub jump: [u8; 3],
    /// `BS_OEMName`: the system that formatted the volume. Some systems trust only "MSWIN4.1".
    pub oem_name: [u8; 8],
    /// `BPB_BytsPerSec`: 512, 1024, 2048 or 4096.
    pub bytes_per_sector: u16,
    /// `BPB_SecPerClus`: a power of two up to 128.
    pub sectors_per_cluster: u8,
    /// `BPB_RsvdSecCnt`: the number of sectors before the first FAT, including this one.
    pub reserved_sectors: u16,
    /// `BPB_NumFATs`: the number of copies of the FAT, nearly always 2.
    pub fat_count: u8,
    /// `BPB_RootEntCnt`: the number of slots in the fixed root directory; 0 on FAT32.
    pub root_entries: u16,
    /// `BPB_TotSec16`: the number of sectors of the volume if it fits 16 bits; else 0.
    pub total_sectors_16: u16,
    /// `BPB_Media`: F8 for fixed media, F0 for removable; repeated in the low byte of FAT entry 0.
    pub media: u8,
    /// `BPB_FATSz16`: the number of sectors of one FAT; 0 on FAT32, which distinguishes the two layouts of this
    /// sector.
    pub fat_sectors_16: u16,
    /// `BPB_SecPerTrk`: sectors per track, for the BIOS only.
    pub sectors_per_track: u16,
    /// `BPB_NumHeads`: the number of heads, for the BIOS only.
    pub heads: u16,
    /// `BPB_HiddSec`: the number of sectors on the disk before this volume.
    pub hidden_sectors: u32,
    /// `BPB_TotSec32`: the number of sectors of the volume if `total_sectors_16` is 0.
    pub total_sectors_32: u32,
    /// The fields that only FAT32 has.
    pub fat32: Option<Fat32Fields>,
    /// `BS_DrvNum`: the BIOS's drive number, 0x80 for fixed disks.
    pub drive_number: u8,
    /// `BS_Reserved1`: flags of Windows NT and Linux, see [`VolumeState`].
    pub state: VolumeState,
    /// `BS_BootSig`: 0x29 if the three fields after it are present.
    pub extended_signature: u8,
    /// `BS_VolID`: serial number.
    pub serial: u32,
    /// `BS_VolLab`: the label, a copy of the one in the root directory; "NO NAME    " for none.
    pub label: [u8; 11],
    /// `BS_FilSysType`: a text for people, which does not determine the kind of FAT.
    pub type_text: [u8; 8],
    /// The boot program: 448 bytes, on FAT32 420.
    pub code: Vec<u8>,
    /// The signature 55 AA.
    pub signature: [u8; 2],
}

/// The fields between the common ones and the drive number on FAT32 (fatgen103, "FAT32 Structure Starting at Offset
/// 36").
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fat32Fields {
    /// `BPB_FATSz32`: the number of sectors of one FAT.
    pub fat_sectors: u32,
    /// `BPB_ExtFlags`: if bit 7 is set only the FAT with the number in bits 0 to 3 is in use, otherwise all are
    /// copies of each other.
    pub flags: u16,
    /// `BPB_FSVer`: 0.
    pub version: u16,
    /// `BPB_RootClus`: the first cluster of the root directory, usually 2.
    pub root_cluster: u32,
    /// `BPB_FSInfo`: the sector of the [`super::InfoSector`], usually 1; 0 or FFFF for none.
    pub info_sector: u16,
    /// `BPB_BkBootSec`: the sector of the copy of the boot sector, usually 6; 0 for none.
    pub backup_sector: u16,
    /// `BPB_Reserved`: zero.
    pub reserved: [u8; 12],
}

/// The flags in `BS_Reserved1`, which Windows NT and Linux set while a volume is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeState(pub u8);

impl VolumeState {
    /// The volume was not cleanly unmounted.
    pub const DIRTY: u8 = 0x01;
    /// I/O errors were met, so that the surface should be tested.
    pub const SURFACE_TEST: u8 = 0x02;

    /// Whether the volume was not cleanly unmounted.
    pub fn dirty(self) -> bool {
        self.0 & VolumeState::DIRTY != 0
    }
}

impl BootSector {
    /// The size of the structure in bytes.
    pub const SIZE: usize = 512;
    /// The jump of FAT12 and FAT16 over their parameter block.
    pub const JUMP: [u8; 3] = [0xEB, 0x3C, 0x90];
    /// The value of `signature` in every boot sector.
    pub const SIGNATURE: [u8; 2] = [0x55, 0xAA];
    /// The value of `extended_signature` if serial, label and type are present.
    pub const EXTENDED: u8 = 0x29;
    /// The value of `label` for a volume without one.
    pub const NO_NAME: [u8; 11] = *b"NO NAME    ";
    /// The media byte of fixed disks, which all new volumes get.
    pub const FIXED_MEDIA: u8 = 0xF8;

    /// Parses the sector. Never fails: [`BootSector::geometry`] checks the values.
    pub fn from_bytes(bytes: &[u8; BootSector::SIZE]) -> BootSector {
        let fat_sectors_16 = le16(bytes, 22);
        let fat32 = (fat_sectors_16 == 0).then(|| Fat32Fields {
            fat_sectors: le32(bytes, 36),
            flags: le16(bytes, 40),
            version: le16(bytes, 42),
            root_cluster: le32(bytes, 44),
            info_sector: le16(bytes, 48),
            backup_sector: le16(bytes, 50),
            reserved: array(bytes, 52),
        });
        let tail = BootSector::tail(fat32.is_some());
        BootSector {
            jump: array(bytes, 0),
            oem_name: array(bytes, 3),
            bytes_per_sector: le16(bytes, 11),
            sectors_per_cluster: bytes[13],
            reserved_sectors: le16(bytes, 14),
            fat_count: bytes[16],
            root_entries: le16(bytes, 17),
            total_sectors_16: le16(bytes, 19),
            media: bytes[21],
            fat_sectors_16,
            sectors_per_track: le16(bytes, 24),
            heads: le16(bytes, 26),
            hidden_sectors: le32(bytes, 28),
            total_sectors_32: le32(bytes, 32),
            fat32,
            drive_number: bytes[tail],
            state: VolumeState(bytes[tail + 1]),
            extended_signature: bytes[tail + 2],
            serial: le32(bytes, tail + 3),
            label: array(bytes, tail + 7),
            type_text: array(bytes, tail + 18),
            code: bytes[tail + 26..510].to_vec(),
            signature: array(bytes, 510),
        }
    }

    /// Returns the first 512 bytes of the sector. `fat32` must be `Some` exactly if `fat_sectors_16` is 0; `code` is
    /// truncated or padded with zeroes.
    pub fn to_bytes(&self) -> [u8; BootSector::SIZE] {
        let mut bytes = [0; BootSector::SIZE];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &self.jump);
        put(3, &self.oem_name);
        put(11, &self.bytes_per_sector.to_le_bytes());
        put(13, &[self.sectors_per_cluster]);
        put(14, &self.reserved_sectors.to_le_bytes());
        put(16, &[self.fat_count]);
        put(17, &self.root_entries.to_le_bytes());
        put(19, &self.total_sectors_16.to_le_bytes());
        put(21, &[self.media]);
        put(22, &self.fat_sectors_16.to_le_bytes());
        put(24, &self.sectors_per_track.to_le_bytes());
        put(26, &self.heads.to_le_bytes());
        put(28, &self.hidden_sectors.to_le_bytes());
        put(32, &self.total_sectors_32.to_le_bytes());
        if let Some(fat32) = &self.fat32 {
            put(36, &fat32.fat_sectors.to_le_bytes());
            put(40, &fat32.flags.to_le_bytes());
            put(42, &fat32.version.to_le_bytes());
            put(44, &fat32.root_cluster.to_le_bytes());
            put(48, &fat32.info_sector.to_le_bytes());
            put(50, &fat32.backup_sector.to_le_bytes());
            put(52, &fat32.reserved);
        }
        let tail = BootSector::tail(self.fat32.is_some());
        put(tail, &[self.drive_number, self.state.0, self.extended_signature]);
        put(tail + 3, &self.serial.to_le_bytes());
        put(tail + 7, &self.label);
        put(tail + 18, &self.type_text);
        let room = 510 - (tail + 26);
        put(tail + 26, &self.code[..self.code.len().min(room)]);
        put(510, &self.signature);
        bytes
    }

    /// Returns the offset of the drive number, which the remaining fields follow.
    fn tail(fat32: bool) -> usize {
        if fat32 { 64 } else { 36 }
    }

    /// Returns the offset of the flags (`state`) in the sector.
    pub fn state_offset(&self) -> usize {
        BootSector::tail(self.fat32.is_some()) + 1
    }

    /// Returns the number of sectors of the volume.
    pub fn total_sectors(&self) -> u32 {
        match self.total_sectors_16 {
            0 => self.total_sectors_32,
            sectors => u32::from(sectors),
        }
    }

    /// Sets the number of sectors of the volume, which becomes smaller, in the field that has it.
    pub fn shorten(&mut self, sectors: u32) {
        match u16::try_from(sectors) {
            Ok(sectors) if self.total_sectors_16 != 0 => self.total_sectors_16 = sectors,
            _ => self.total_sectors_32 = sectors,
        }
    }

    /// Returns the number of sectors of one FAT.
    pub fn fat_sectors(&self) -> u32 {
        match &self.fat32 {
            Some(fat32) => fat32.fat_sectors,
            None => u32::from(self.fat_sectors_16),
        }
    }

    /// Whether the sector begins with a jump.
    pub fn has_jump(&self) -> bool {
        matches!(self.jump, [0xEB, _, 0x90] | [0xE9, _, _])
    }

    /// The sector with the jump and the signature that every boot sector should have.
    pub fn marked(&self) -> BootSector {
        let jump = if self.has_jump() { self.jump } else { BootSector::JUMP };
        BootSector { jump, signature: BootSector::SIGNATURE, ..self.clone() }
    }

    /// Whether serial number, label and type are present.
    pub fn is_extended(&self) -> bool {
        self.extended_signature == BootSector::EXTENDED
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_testing::model::Random;

    /// The first 90 bytes that mkfs.fat 4.2 wrote for `mkfs.fat -F 32 -s 8 -i 8664ABCD -n TEST` on 1 GiB.
    const FAT32: [u8; 90] = [
        0xEB, 0x58, 0x90, 0x6D, 0x6B, 0x66, 0x73, 0x2E, 0x66, 0x61, 0x74, 0x00, 0x02, 0x08, 0x20, 0x00, 0x02,
        0x00, 0x00, 0x00, 0x00, 0xF8, 0x00, 0x00, 0x3F, 0x00, 0x40, 0x00, 0x00, 0x00, 0x00, 0x00, 0xF8, 0xFF,
        0x1F, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x01, 0x00, 0x06,
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x80, 0x00, 0x29, 0xCD,
        0xAB, 0x64, 0x86, 0x54, 0x45, 0x53, 0x54, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x46, 0x41, 0x54,
        0x33, 0x32, 0x20, 0x20, 0x20,
    ];

    #[test]
    fn golden_fat32() {
        let mut bytes = [0; 512];
        bytes[..90].copy_from_slice(&FAT32);
        bytes[510..].copy_from_slice(&BootSector::SIGNATURE);
        let boot = BootSector::from_bytes(&bytes);
        assert_eq!((boot.bytes_per_sector, boot.sectors_per_cluster, boot.reserved_sectors), (512, 8, 32));
        assert_eq!((boot.total_sectors(), boot.fat_sectors(), boot.serial), (0x1F_FFF8, 0x800, 0x8664_ABCD));
        assert_eq!(&boot.label, b"TEST       ");
        let fat32 = boot.fat32.as_ref().unwrap();
        assert_eq!((fat32.root_cluster, fat32.info_sector, fat32.backup_sector), (2, 1, 6));
        assert_eq!(boot.state_offset(), 65);
        assert_eq!(boot.to_bytes(), bytes);
    }

    #[test]
    fn any_bytes_come_back_unchanged() {
        for seed in 0..64 {
            let mut bytes = [0; 512];
            Random::new(seed).fill(&mut bytes);
            if seed % 2 == 0 {
                bytes[22..24].fill(0);
            }
            assert_eq!(BootSector::from_bytes(&bytes).to_bytes(), bytes, "seed {seed}");
        }
    }
}
