//! An attribute: a row of a record.
//!
//! Source: as of [`record`](super::record).

use super::Row;
use super::bytes::{put, u16_at, u32_at};

/// An attribute: a row of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Its key: the value's length, whether there may be several, type, subtype, name.
    pub key: Vec<u8>,
    /// Its row's flags.
    pub flags: u16,
    /// Its value.
    pub value: Vec<u8>,
}

/// There is at most one attribute of this type in a record.
pub const SINGLE: u32 = 0x8000_0001;
/// There may be several.
pub const MULTIPLE: u32 = 0x8000_0002;

/// Type of the rows that hold the extents of large named streams.
pub const STREAM_EXTENTS: u16 = 0x00;
/// Which directory a record belongs to, and its name there.
pub const OBJECT_LINK: u16 = 0x39;
/// The file's own data.
pub const DATA: u16 = 0x80;
/// What makes a record a directory's.
pub const INDEX: u16 = 0x90;
/// A named stream, or a snapshot of one.
pub const NAMED_DATA: u16 = 0xB0;
/// A reparse point.
pub const REPARSE: u16 = 0xC0;
/// How large the extended attributes are.
pub const EA_INFORMATION: u16 = 0xD0;
/// The extended attributes.
pub const EA: u16 = 0xE0;
/// Which keys decrypt the content.
pub const EFS: u16 = 0x100;

/// The number of the row of [`DATA`] that holds the extents of the live data; those of snapshots follow.
pub const LIVE: u64 = 0x1000;
/// The number of the row of [`DATA`] that names the next number of a snapshot, instead of holding one's extents.
pub const COUNTER: u64 = 8;
/// Bytes of a stream's summary, after which content stands that is in the record.
pub const SUMMARY: usize = 0x3C;

impl Attribute {
    /// An attribute with this type and what follows it in the key.
    pub fn new(marker: u32, kind: u16, subtype: u16, rest: &[u8], flags: u16, value: Vec<u8>) -> Attribute {
        let mut key = vec![0; 16];
        put(&mut key, 0x00, value.len() as u64);
        put(&mut key, 0x08, marker);
        put(&mut key, 0x0C, kind);
        put(&mut key, 0x0E, subtype);
        key.extend_from_slice(rest);
        Attribute { key, flags, value }
    }

    /// Its type.
    pub fn kind(&self) -> u16 {
        u16_at(&self.key, 0x0C)
    }

    /// Whether there is at most one of its type.
    pub fn is_single(&self) -> bool {
        u32_at(&self.key, 0x08) == SINGLE
    }

    /// What follows the type in its key: a name, or the number of a stream.
    pub fn rest(&self) -> &[u8] {
        self.key.get(16..).unwrap_or(&[])
    }

    /// The name in its key.
    pub fn name(&self) -> Vec<u16> {
        let units = self.rest().chunks_exact(2).map(|unit| u16_at(unit, 0));
        units.take_while(|&unit| unit != 0).collect()
    }

    /// What records are ordered by.
    pub fn order(&self) -> (u32, u16, &[u8]) {
        (u32_at(&self.key, 0x08), self.kind(), self.rest())
    }
}

impl From<Row<'_>> for Attribute {
    fn from(row: Row<'_>) -> Attribute {
        Attribute { key: row.key.to_vec(), flags: row.flags, value: row.value.to_vec() }
    }
}
