//! Directory slots of 32 bytes (fatgen103, "FAT Directory Structure" and "FAT Long Directory Entries").

use super::{DosTime, SLOT, ShortName, array, le16, le32};

/// The attribute byte of a directory entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes(pub u8);

impl Attributes {
    /// Not to be written.
    pub const READ_ONLY: u8 = 0x01;
    /// Not listed by default.
    pub const HIDDEN: u8 = 0x02;
    /// Part of the operating system.
    pub const SYSTEM: u8 = 0x04;
    /// The volume's label, in the root directory only.
    pub const LABEL: u8 = 0x08;
    /// A directory.
    pub const DIRECTORY: u8 = 0x10;
    /// Changed since the last backup.
    pub const ARCHIVE: u8 = 0x20;
    /// The attribute byte of a part of a long name.
    pub const LONG: u8 = 0x0F;
    /// The bits by which a part of a long name is recognised: they equal [`Attributes::LONG`].
    pub const LONG_MASK: u8 = 0x3F;

    /// Whether this is a directory.
    pub fn directory(self) -> bool {
        self.0 & Attributes::DIRECTORY != 0
    }

    /// Whether this is the volume's label.
    pub fn label(self) -> bool {
        self.0 & Attributes::LABEL != 0
    }
}

/// The content of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slot {
    /// The end mark, first byte 00: this slot and all after it are unused.
    End,
    /// A deleted entry: first byte E5.
    Deleted,
    /// A part of a long name.
    Long(LongEntry),
    /// A file, a directory or the volume's label.
    Short(ShortEntry),
}

impl Slot {
    /// Parses a slot.
    pub fn from_bytes(bytes: &[u8; SLOT]) -> Slot {
        match bytes[0] {
            0x00 => Slot::End,
            0xE5 => Slot::Deleted,
            _ if bytes[11] & Attributes::LONG_MASK == Attributes::LONG => {
                Slot::Long(LongEntry::from_bytes(bytes))
            }
            _ => Slot::Short(ShortEntry::from_bytes(bytes)),
        }
    }
}

/// The short entry of a file, a directory or the label.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShortEntry {
    /// `DIR_Name`.
    pub name: ShortName,
    /// `DIR_Attr`.
    pub attributes: Attributes,
    /// `DIR_NTRes`: the flags of [`super::NtCase`].
    pub nt: u8,
    /// `DIR_CrtTimeTenth`, `DIR_CrtTime`, `DIR_CrtDate`: the time of creation.
    pub created: DosTime,
    /// `DIR_LstAccDate`: the day of the last access.
    pub accessed: DosTime,
    /// `DIR_WrtTime`, `DIR_WrtDate`: the time of the last change of the content.
    pub modified: DosTime,
    /// `DIR_FstClusHI` and `DIR_FstClusLO`: the first cluster; 0 for an empty file, and for ".." if the parent is the
    /// root.
    pub cluster: u32,
    /// `DIR_FileSize`: the size in bytes; 0 for a directory.
    pub size: u32,
}

impl ShortEntry {
    /// Parses a slot.
    pub fn from_bytes(bytes: &[u8; SLOT]) -> ShortEntry {
        ShortEntry {
            name: ShortName(array(bytes, 0)),
            attributes: Attributes(bytes[11]),
            nt: bytes[12],
            created: DosTime { hundredths: bytes[13], time: le16(bytes, 14), date: le16(bytes, 16) },
            accessed: DosTime { date: le16(bytes, 18), ..DosTime::default() },
            modified: DosTime { time: le16(bytes, 22), date: le16(bytes, 24), ..DosTime::default() },
            cluster: u32::from(le16(bytes, 20)) << 16 | u32::from(le16(bytes, 26)),
            size: le32(bytes, 28),
        }
    }

    /// Returns the bytes of the slot.
    pub fn to_bytes(&self) -> [u8; SLOT] {
        let mut bytes = [0; SLOT];
        bytes[..11].copy_from_slice(&self.name.0);
        bytes[11..14].copy_from_slice(&[self.attributes.0, self.nt, self.created.hundredths]);
        bytes[14..16].copy_from_slice(&self.created.time.to_le_bytes());
        bytes[16..18].copy_from_slice(&self.created.date.to_le_bytes());
        bytes[18..20].copy_from_slice(&self.accessed.date.to_le_bytes());
        bytes[20..22].copy_from_slice(&((self.cluster >> 16) as u16).to_le_bytes());
        bytes[22..24].copy_from_slice(&self.modified.time.to_le_bytes());
        bytes[24..26].copy_from_slice(&self.modified.date.to_le_bytes());
        bytes[26..28].copy_from_slice(&(self.cluster as u16).to_le_bytes());
        bytes[28..].copy_from_slice(&self.size.to_le_bytes());
        bytes
    }
}

/// A part of a long name: thirteen UTF-16 units. The parts precede the short entry, the last part first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongEntry {
    /// `LDIR_Ord`: the number of the part from 1, with [`LongEntry::LAST`] on the last part.
    pub order: u8,
    /// `LDIR_Attr`.
    pub attributes: u8,
    /// `LDIR_Type`: 0.
    pub kind: u8,
    /// `LDIR_Chksum`: the [`ShortName::checksum`] of the short entry that the name belongs to.
    pub checksum: u8,
    /// `LDIR_Name1`, `LDIR_Name2`, `LDIR_Name3`: the units. A name that does not fill its last part is terminated by
    /// 0000 and padded with FFFF.
    pub units: [u16; LongEntry::UNITS],
    /// `LDIR_FstClusLO`: 0.
    pub cluster: u16,
}

impl LongEntry {
    /// The number of UTF-16 units in one part.
    pub const UNITS: usize = 13;
    /// The flag in `order` that marks the last part.
    pub const LAST: u8 = 0x40;
    const PLACES: [usize; LongEntry::UNITS] = [1, 3, 5, 7, 9, 14, 16, 18, 20, 22, 24, 28, 30];

    /// Parses a slot.
    pub fn from_bytes(bytes: &[u8; SLOT]) -> LongEntry {
        LongEntry {
            order: bytes[0],
            attributes: bytes[11],
            kind: bytes[12],
            checksum: bytes[13],
            units: LongEntry::PLACES.map(|at| le16(bytes, at)),
            cluster: le16(bytes, 26),
        }
    }

    /// Returns the bytes of the slot.
    pub fn to_bytes(&self) -> [u8; SLOT] {
        let mut bytes = [0; SLOT];
        bytes[0] = self.order;
        bytes[11..14].copy_from_slice(&[self.attributes, self.kind, self.checksum]);
        for (at, unit) in LongEntry::PLACES.into_iter().zip(self.units) {
            bytes[at..at + 2].copy_from_slice(&unit.to_le_bytes());
        }
        bytes[26..28].copy_from_slice(&self.cluster.to_le_bytes());
        bytes
    }

    /// Returns the number of the part, from 1.
    pub fn number(&self) -> u8 {
        self.order & !LongEntry::LAST
    }

    /// Whether this is the name's last part, which is the first one on disk.
    pub fn is_last(&self) -> bool {
        self.order & LongEntry::LAST != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_short() {
        // fatgen103's example name, a directory, cluster 0x12345, changed 2000-12-06 12:00:02.
        let bytes = *b"THEQUI~1FOX\x10\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x01\x60\x86\x29\x45\x23\x00\x00\x00\x00";
        let entry = ShortEntry::from_bytes(&bytes);
        assert_eq!(&entry.name.0, b"THEQUI~1FOX");
        assert!(entry.attributes.directory() && !entry.attributes.label());
        assert_eq!((entry.cluster, entry.size), (0x12345, 0));
        assert_eq!(entry.modified.to_timestamp(0).seconds, 976_104_002);
        assert_eq!(Slot::from_bytes(&bytes), Slot::Short(entry.clone()));
        assert_eq!(entry.to_bytes(), bytes);
    }

    #[test]
    fn golden_long() {
        let bytes =
            *b"\x42w\0n\0.\0f\0o\0\x0F\0\x07x\0\0\0\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\0\0\xFF\xFF\xFF\xFF";
        let Slot::Long(entry) = Slot::from_bytes(&bytes) else { panic!("a part of a long name") };
        assert_eq!((entry.number(), entry.is_last(), entry.checksum), (2, true, 7));
        assert_eq!(String::from_utf16(&entry.units[..6]).unwrap(), "wn.fox");
        assert_eq!((entry.units[6], entry.units[12]), (0, 0xFFFF));
        assert_eq!(entry.to_bytes(), bytes);
    }

    #[test]
    fn any_bytes_come_back_unchanged() {
        let bytes: [u8; 32] = std::array::from_fn(|at| (at * 57 + 11) as u8);
        assert_eq!(ShortEntry::from_bytes(&bytes).to_bytes(), bytes);
        assert_eq!(LongEntry::from_bytes(&bytes).to_bytes(), bytes);
        assert_eq!(Slot::from_bytes(&[0; 32]), Slot::End);
        let mut deleted = bytes;
        deleted[0] = 0xE5;
        assert_eq!(Slot::from_bytes(&deleted), Slot::Deleted);
    }
}
