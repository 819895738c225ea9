//! Attributes: the rows of a record, each with the data, a name, a stream or another property of a file.
//!
//! Source: as of [`record`](super::record).

use super::Row;
use super::bytes::{put, u16_at, u32_at};

/// An attribute: a row of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// The row's key: the value's length, whether there may be several of the type, type, subtype, name.
    pub key: Vec<u8>,
    /// The flags of the row.
    pub flags: u16,
    /// The row's value.
    pub value: Vec<u8>,
}

/// Word of a key: a record has at most one attribute of this type.
pub const SINGLE: u32 = 0x8000_0001;
/// Word of a key: a record may have several attributes of this type.
pub const MULTIPLE: u32 = 0x8000_0002;

/// Type of the rows that hold the extents of large named streams.
pub const STREAM_EXTENTS: u16 = 0x00;
/// Type of the rows with the directory that a record belongs to, and its name there.
pub const OBJECT_LINK: u16 = 0x39;
/// Type of the file's own data.
pub const DATA: u16 = 0x80;
/// Type of the row `$I30`, which marks a record as that of a directory.
pub const INDEX: u16 = 0x90;
/// Type of a named stream, and of a snapshot of a stream.
pub const NAMED_DATA: u16 = 0xB0;
/// Type of a reparse point.
pub const REPARSE: u16 = 0xC0;
/// Type of the row with the sizes of the extended attributes.
pub const EA_INFORMATION: u16 = 0xD0;
/// Type of the row that holds the extended attributes.
pub const EA: u16 = 0xE0;
/// Type of the row that says which keys decrypt the content.
pub const EFS: u16 = 0x100;

/// The number of the row of [`DATA`] that holds the extents of the live data; those of snapshots follow.
pub const LIVE: u64 = 0x1000;
/// The number of the row of [`DATA`] that holds the number for the next snapshot, and no extents.
pub const COUNTER: u64 = 8;
/// Bytes of a stream's summary; content that is in the record follows it.
pub const SUMMARY: usize = 0x3C;

impl Attribute {
    /// An attribute whose key has this marker ([`SINGLE`] or [`MULTIPLE`]), type and subtype, with `rest` after them.
    pub fn new(marker: u32, kind: u16, subtype: u16, rest: &[u8], flags: u16, value: Vec<u8>) -> Attribute {
        let mut key = vec![0; 16];
        put(&mut key, 0x00, value.len() as u64);
        put(&mut key, 0x08, marker);
        put(&mut key, 0x0C, kind);
        put(&mut key, 0x0E, subtype);
        key.extend_from_slice(rest);
        Attribute { key, flags, value }
    }

    /// The attribute's type.
    pub fn kind(&self) -> u16 {
        u16_at(&self.key, 0x0C)
    }

    /// Whether a record has at most one attribute of this type.
    pub fn is_single(&self) -> bool {
        u32_at(&self.key, 0x08) == SINGLE
    }

    /// The end of the key, after type and subtype: a name, or the number of a stream.
    pub fn rest(&self) -> &[u8] {
        self.key.get(16..).unwrap_or(&[])
    }

    /// The name at the end of the key, up to the first zero unit.
    pub fn name(&self) -> Vec<u16> {
        let units = self.rest().chunks_exact(2).map(|unit| u16_at(unit, 0));
        units.take_while(|&unit| unit != 0).collect()
    }

    /// The parts of the key by which the attributes of a record are ordered.
    pub fn order(&self) -> (u32, u16, &[u8]) {
        (u32_at(&self.key, 0x08), self.kind(), self.rest())
    }
}

impl From<Row<'_>> for Attribute {
    fn from(row: Row<'_>) -> Attribute {
        Attribute { key: row.key.to_vec(), flags: row.flags, value: row.value.to_vec() }
    }
}
