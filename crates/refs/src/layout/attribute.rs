//! Attributes: the rows of a record, each with the data, a name, a stream or another property of a file.
//!
//! Source: as of [`record`](super::record).

use super::Row;
use super::bytes::{FieldAt, u16_at};

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
    /// In the key: the bytes of the value.
    const LENGTH: FieldAt<u64> = FieldAt::new(0x00);
    /// In the key: [`SINGLE`] or [`MULTIPLE`].
    const MARKER: FieldAt<u32> = FieldAt::new(0x08);
    const KIND: FieldAt<u16> = FieldAt::new(0x0C);
    const SUBTYPE: FieldAt<u16> = FieldAt::new(0x0E);
    /// Where the end of the key begins.
    const REST: usize = 16;

    /// An attribute whose key has this marker ([`SINGLE`] or [`MULTIPLE`]), type and subtype, with `rest` after them.
    pub fn new(marker: u32, kind: u16, subtype: u16, rest: &[u8], flags: u16, value: Vec<u8>) -> Attribute {
        let mut key = vec![0; Attribute::REST];
        Attribute::LENGTH.put(&mut key, value.len() as u64);
        Attribute::MARKER.put(&mut key, marker);
        Attribute::KIND.put(&mut key, kind);
        Attribute::SUBTYPE.put(&mut key, subtype);
        key.extend_from_slice(rest);
        Attribute { key, flags, value }
    }

    /// The attribute's type.
    pub fn kind(&self) -> u16 {
        Attribute::KIND.of(&self.key)
    }

    /// The word of the key that is [`SINGLE`] or [`MULTIPLE`].
    pub fn marker(&self) -> u32 {
        Attribute::MARKER.of(&self.key)
    }

    /// The length of the value as the key has it.
    pub fn stated_length(&self) -> u64 {
        Attribute::LENGTH.of(&self.key)
    }

    /// Puts the length of the value into the key, if that is long enough to hold it.
    pub fn state_length(&mut self) {
        if self.key.len() >= Attribute::LENGTH.end() {
            Attribute::LENGTH.put(&mut self.key, self.value.len() as u64);
        }
    }

    /// Whether a record has at most one attribute of this type.
    pub fn is_single(&self) -> bool {
        self.marker() == SINGLE
    }

    /// The end of the key, after type and subtype: a name, or the number of a stream.
    pub fn rest(&self) -> &[u8] {
        self.key.get(Attribute::REST..).unwrap_or(&[])
    }

    /// The name at the end of the key, up to the first zero unit.
    pub fn name(&self) -> Vec<u16> {
        let units = self.rest().chunks_exact(2).map(|unit| u16_at(unit, 0));
        units.take_while(|&unit| unit != 0).collect()
    }

    /// The parts of the key by which the attributes of a record are ordered.
    pub fn order(&self) -> (u32, u16, &[u8]) {
        (self.marker(), self.kind(), self.rest())
    }
}

impl From<Row<'_>> for Attribute {
    fn from(row: Row<'_>) -> Attribute {
        Attribute { key: row.key.to_vec(), flags: row.flags, value: row.value.to_vec() }
    }
}

const _: () = assert!(Attribute::SUBTYPE.end() == Attribute::REST, "a name follows type and subtype");
