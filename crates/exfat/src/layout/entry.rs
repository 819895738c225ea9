//! Directory entries of 32 bytes (6, 7), other than those that make up a file's entry set: see [`super::EntrySet`].

use super::{SLOT, le16, le32, le64};
use platter_vfs::{Error, NameRule, Result};

/// The types of entries: the value of the first byte while the entry is in use (6.2.1, 7).
pub mod kind {
    /// The end mark: this slot and all after it are unused.
    pub const END: u8 = 0x00;
    /// An allocation bitmap (7.1).
    pub const BITMAP: u8 = 0x81;
    /// The up-case table (7.2).
    pub const UPCASE: u8 = 0x82;
    /// The volume's label (7.3).
    pub const LABEL: u8 = 0x83;
    /// A file or directory (7.4).
    pub const FILE: u8 = 0x85;
    /// The volume's GUID (7.5).
    pub const GUID: u8 = 0xA0;
    /// What fills directories of TexFAT volumes, which have two FATs. Its content is not defined (7.10).
    pub const PADDING: u8 = 0xA1;
    /// A stream extension: where a file's content is (7.6).
    pub const STREAM: u8 = 0xC0;
    /// A part of a file's name (7.7).
    pub const NAME: u8 = 0xC1;
    /// A vendor extension (7.8).
    pub const VENDOR: u8 = 0xE0;
    /// A vendor allocation: a vendor extension that has clusters (7.9).
    pub const VENDOR_ALLOCATION: u8 = 0xE1;
}

/// Whether an entry of this type is in use (6.2.1.4). Slots of unused entries are free for new ones.
pub fn is_in_use(kind: u8) -> bool {
    kind & 0x80 != 0
}

/// Whether an entry of this type is benign: implementations that do not understand it may ignore it (6.2.1.2).
pub fn is_benign(kind: u8) -> bool {
    kind & 0x20 != 0
}

/// What a slot holds, judged by its type alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Primary {
    /// The end mark: this slot and all after it are unused.
    End,
    /// An entry that is not in use.
    Unused,
    /// The first entry of a file's entry set.
    File,
    /// Another primary entry, with its type.
    Other(u8),
    /// A secondary entry, with its type. It belongs to the primary entry before it.
    Secondary(u8),
}

impl Primary {
    /// Returns what a slot holds.
    pub fn of(slot: &[u8; SLOT]) -> Primary {
        match slot[0] {
            kind::END => Primary::End,
            kind if !is_in_use(kind) => Primary::Unused,
            kind::FILE => Primary::File,
            kind if kind & 0x40 != 0 => Primary::Secondary(kind),
            kind => Primary::Other(kind),
        }
    }
}

/// The attributes of a file (7.4.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes(pub u16);

impl Attributes {
    /// A directory.
    pub const DIRECTORY: u16 = 0x10;
    /// The bits that have a meaning.
    pub const KNOWN: u16 = 0x37;

    /// Whether this is a directory.
    pub fn directory(self) -> bool {
        self.0 & Attributes::DIRECTORY != 0
    }
}

/// An allocation bitmap entry (7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitmapEntry {
    /// `BitmapFlags`: bit 0 is the number of the FAT that the bitmap belongs to.
    pub flags: u8,
    /// The first cluster of the bitmap's chain.
    pub cluster: u32,
    /// The length of the bitmap in bytes.
    pub length: u64,
}

impl BitmapEntry {
    /// Parses an entry.
    pub fn from_bytes(slot: &[u8; SLOT]) -> BitmapEntry {
        BitmapEntry { flags: slot[1], cluster: le32(slot, 20), length: le64(slot, 24) }
    }

    /// Returns the entry's bytes.
    pub fn to_bytes(&self) -> [u8; SLOT] {
        let mut slot = [0; SLOT];
        (slot[0], slot[1]) = (kind::BITMAP, self.flags);
        slot[20..24].copy_from_slice(&self.cluster.to_le_bytes());
        slot[24..].copy_from_slice(&self.length.to_le_bytes());
        slot
    }
}

/// An up-case table entry (7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpcaseEntry {
    /// `TableChecksum`.
    pub checksum: u32,
    /// The first cluster of the table's chain.
    pub cluster: u32,
    /// The length of the table in bytes.
    pub length: u64,
}

impl UpcaseEntry {
    /// Parses an entry.
    pub fn from_bytes(slot: &[u8; SLOT]) -> UpcaseEntry {
        UpcaseEntry { checksum: le32(slot, 4), cluster: le32(slot, 20), length: le64(slot, 24) }
    }

    /// Returns the entry's bytes.
    pub fn to_bytes(&self) -> [u8; SLOT] {
        let mut slot = [0; SLOT];
        slot[0] = kind::UPCASE;
        slot[4..8].copy_from_slice(&self.checksum.to_le_bytes());
        slot[20..24].copy_from_slice(&self.cluster.to_le_bytes());
        slot[24..].copy_from_slice(&self.length.to_le_bytes());
        slot
    }
}

/// The volume's label (7.3), in UTF-16 units.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelEntry(pub Vec<u16>);

impl LabelEntry {
    /// The longest label in UTF-16 units.
    pub const LONGEST: usize = 11;
    /// The longest label that is read, in UTF-16 units: some programs use the 8 reserved bytes after the label too.
    pub const LONGEST_READ: usize = 15;

    /// Makes a label entry with this text.
    ///
    /// # Errors
    /// [`Error::InvalidName`] if it is too long.
    pub fn new(text: &str) -> Result<LabelEntry> {
        let units: Vec<u16> = text.encode_utf16().collect();
        if units.len() > LabelEntry::LONGEST {
            return Err(Error::InvalidName {
                name: text.into(),
                rule: NameRule::Length,
                reason: "a label is too long with more than 11 units",
            });
        }
        Ok(LabelEntry(units))
    }

    /// Parses an entry. A count that is too large is taken for the largest possible one.
    pub fn from_bytes(slot: &[u8; SLOT]) -> LabelEntry {
        let count = usize::from(slot[1]).min(LabelEntry::LONGEST_READ);
        LabelEntry((0..count).map(|at| le16(slot, 2 + at * 2)).collect())
    }

    /// Returns the entry's bytes.
    pub fn to_bytes(&self) -> [u8; SLOT] {
        let mut slot = [0; SLOT];
        (slot[0], slot[1]) = (kind::LABEL, self.0.len() as u8);
        for (at, unit) in self.0.iter().enumerate() {
            slot[2 + at * 2..4 + at * 2].copy_from_slice(&unit.to_le_bytes());
        }
        slot
    }

    /// Returns the label as text.
    pub fn text(&self) -> String {
        String::from_utf16_lossy(&self.0)
    }
}
