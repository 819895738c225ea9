//! File records, of which `$MFT` is made.

use super::bytes::{put, u16_at, u32_at, u64_at};
use super::{Attribute, Kind, Reference, fixup};
use platter_vfs::{Error, Result};

const STRUCTURE: &str = "file record";
/// Where the update sequence is in records of NTFS 3.1.
const SEQUENCE_AT: usize = 0x30;

/// Flags of a record.
pub mod record_flags {
    /// The record is in use.
    pub const IN_USE: u16 = 0x0001;
    /// Has an index of file names.
    pub const DIRECTORY: u16 = 0x0002;
    /// Belongs to `$Extend`.
    pub const EXTEND: u16 = 0x0004;
    /// Has an index of something else.
    pub const VIEW_INDEX: u16 = 0x0008;
}

/// A record as a whole: its header and its attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Log sequence number of its last change, at 0x08.
    pub lsn: u64,
    /// The record's sequence number, which changes when the record is given up, at 0x10.
    pub sequence: u16,
    /// How many names lead to it, at 0x12.
    pub links: u16,
    /// The record's [`record_flags`], at 0x16.
    pub flags: u16,
    /// The base record that it extends, or 0, at 0x20.
    pub base: Reference,
    /// The number that the next new attribute gets, at 0x28.
    pub next_id: u16,
    /// The record's own number (the low 32 bits), at 0x2C.
    pub number: u32,
    /// The number of its update sequence as it was last written.
    pub update: u16,
    /// The record's attributes in their order.
    pub attributes: Vec<Attribute>,
}

impl Record {
    /// The bytes that a record begins with.
    pub const SIGNATURE: &'static [u8; 4] = b"FILE";

    /// An unused record of this number.
    pub fn new(number: u64) -> Record {
        Record {
            lsn: 0,
            sequence: 1,
            links: 0,
            flags: 0,
            base: Reference::default(),
            next_id: 0,
            number: number as u32,
            update: 1,
            attributes: Vec::new(),
        }
    }

    /// Whether it has a file, or a part of one.
    pub fn in_use(&self) -> bool {
        self.flags & record_flags::IN_USE != 0
    }

    /// [`Record::from_bytes`] for a record whose update sequence was not removed and whose signature or update sequence
    /// may be damaged. Returns the record's bytes as they are without that damage, and the strides of the update sequence
    /// that end with another number; `None` if the bytes do not begin as a record does.
    pub fn mended(bytes: &[u8]) -> Option<(Vec<u8>, Vec<usize>)> {
        /// What Windows writes over the signature of a record that it could not read whole.
        const BAD: &[u8; 4] = b"BAAD";
        let found: [u8; 4] = bytes.get(..4)?.try_into().ok()?;
        let flipped = u32::from_le_bytes(found) ^ u32::from_le_bytes(*Record::SIGNATURE);
        if flipped.count_ones() > 1 && found != *BAD || !bytes.len().is_multiple_of(fixup::STRIDE) {
            return None;
        }
        let mut mended = bytes.to_vec();
        mended[..4].copy_from_slice(Record::SIGNATURE);
        let torn = fixup::remove_loosely(&mut mended, SEQUENCE_AT);
        Some((mended, torn))
    }

    /// Bytes in a record of `size` before its attributes.
    pub fn header_length(size: usize) -> usize {
        (SEQUENCE_AT + fixup::fields(size) * 2).next_multiple_of(8)
    }

    /// Bytes for attributes in a record of `size`, those of the mark at the end not counted.
    pub fn room(size: usize) -> usize {
        size.saturating_sub(Record::header_length(size) + 8)
    }

    /// Bytes that its attributes take.
    pub fn length(&self) -> usize {
        self.attributes.iter().map(Attribute::length).sum()
    }

    /// Reads a record whose update sequence was removed.
    ///
    /// # Errors
    /// [`Error::Damaged`] if it is no record, an attribute is not inside it, or the mark at the end is missing.
    pub fn from_bytes(bytes: &[u8], at: u64) -> Result<Record> {
        if bytes.get(..4) != Some(Record::SIGNATURE) {
            let found = String::from_utf8_lossy(bytes.get(..4).unwrap_or(bytes)).into_owned();
            return Err(Error::damaged(STRUCTURE, at, "\"FILE\"", format!("{found:?}")));
        }
        let used = u32_at(bytes, 0x18) as usize;
        if used > bytes.len() || used < 0x30 {
            let expected = format!("48 to {} used bytes", bytes.len());
            return Err(Error::damaged(STRUCTURE, at + 0x18, expected, used));
        }
        let first = usize::from(u16_at(bytes, 0x14));
        if first < 0x28 || first > used || !first.is_multiple_of(8) {
            let expected = format!("attributes from 40 to {used}, at a multiple of 8");
            return Err(Error::damaged(STRUCTURE, at + 0x14, expected, first));
        }
        let mut attributes = Vec::new();
        let mut position = first;
        loop {
            if position + 4 > used {
                return Err(Error::damaged(
                    STRUCTURE,
                    at + position as u64,
                    "an attribute or the end mark",
                    "the end",
                ));
            }
            if Kind(u32_at(bytes, position)) == Kind::END {
                break;
            }
            let (attribute, length) = Attribute::from_bytes(&bytes[position..used], at + position as u64)?;
            attributes.push(attribute);
            position += length;
        }
        let sequence_at = usize::from(u16_at(bytes, 4));
        Ok(Record {
            lsn: u64_at(bytes, 0x08),
            sequence: u16_at(bytes, 0x10),
            links: u16_at(bytes, 0x12),
            flags: u16_at(bytes, 0x16),
            base: Reference(u64_at(bytes, 0x20)),
            next_id: u16_at(bytes, 0x28),
            // Before 3.1 records had no number, and the update sequence was in the number's place.
            number: if sequence_at >= SEQUENCE_AT { u32_at(bytes, 0x2C) } else { 0 },
            update: u16_at(bytes, sequence_at),
            attributes,
        })
    }

    /// The record's bytes for a record of `size`, its update sequence not yet applied; `None` if the attributes do not
    /// fit.
    pub fn to_bytes(&self, size: usize) -> Option<Vec<u8>> {
        let first = Record::header_length(size);
        let mut bytes = Vec::with_capacity(size);
        bytes.resize(first, 0);
        for attribute in &self.attributes {
            attribute.append_to(&mut bytes);
        }
        let end = bytes.len();
        if end + 8 > size {
            return None;
        }
        bytes.resize(size, 0);
        put(&mut bytes, end, Kind::END.0);
        bytes[..4].copy_from_slice(Record::SIGNATURE);
        put(&mut bytes, 4, SEQUENCE_AT as u16);
        put(&mut bytes, 6, fixup::fields(size) as u16);
        put(&mut bytes, 0x08, self.lsn);
        put(&mut bytes, 0x10, self.sequence);
        put(&mut bytes, 0x12, self.links);
        put(&mut bytes, 0x14, first as u16);
        put(&mut bytes, 0x16, self.flags);
        put(&mut bytes, 0x18, (end + 8) as u32);
        put(&mut bytes, 0x1C, size as u32);
        put(&mut bytes, 0x20, self.base.0);
        put(&mut bytes, 0x28, self.next_id);
        put(&mut bytes, 0x2C, self.number);
        put(&mut bytes, SEQUENCE_AT, self.update);
        Some(bytes)
    }

    /// Adds an attribute in its place among the others (by type, then name as units, then first virtual cluster), gives
    /// it a number and returns that number.
    pub fn add(&mut self, mut attribute: Attribute) -> u16 {
        let id = self.next_id;
        attribute.id = id;
        self.next_id = self.next_id.wrapping_add(1);
        self.put(attribute);
        id
    }

    /// Puts an attribute that has a number in its place among the others.
    pub fn put(&mut self, attribute: Attribute) {
        let place = self
            .attributes
            .partition_point(|other| (other.kind, &other.name) <= (attribute.kind, &attribute.name));
        self.attributes.insert(place, attribute);
    }

    /// The attribute of this type and name.
    pub fn find(&self, kind: Kind, name: &str) -> Option<&Attribute> {
        self.attributes.iter().find(|attribute| {
            attribute.kind == kind && attribute.name.iter().copied().eq(name.encode_utf16())
        })
    }
}
