//! `$ATTRIBUTE_LIST`: where the attributes are that do not fit into a file's base record.

use super::bytes::{put, u16_at, u32_at, u64_at};
use super::{Kind, Reference};
use platter_vfs::{Error, Result};

/// One entry: an attribute or a piece of one. Entries are in the order of type, name and first virtual cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListEntry {
    /// The attribute's type.
    pub kind: Kind,
    /// The attribute's name.
    pub name: Box<[u16]>,
    /// The piece's first virtual cluster.
    pub first: u64,
    /// The record that holds the piece, which may be the base record.
    pub record: Reference,
    /// The piece's attribute number in that record.
    pub id: u16,
}

impl ListEntry {
    /// The most bytes of a list: Windows makes and reads no longer ones (the Linux-NTFS project's documentation of
    /// `$ATTRIBUTE_LIST`).
    pub const LONGEST: u64 = 256 << 10;
    /// Bytes before the name.
    const HEADER: usize = 0x1A;

    /// Bytes of an entry with a name of `units` units.
    pub fn length_of(units: usize) -> usize {
        (ListEntry::HEADER + units * 2).next_multiple_of(8)
    }

    /// The key by which entries are ordered and told apart.
    pub fn order(&self) -> (Kind, &[u16], u64, Reference, u16) {
        (self.kind, &self.name, self.first, self.record, self.id)
    }

    /// Reads a whole list.
    ///
    /// # Errors
    /// [`Error::Damaged`] if an entry or its name is not inside `bytes`.
    pub fn read_all(bytes: &[u8], at: u64) -> Result<Vec<ListEntry>> {
        let mut entries = Vec::new();
        let mut position = 0;
        while position < bytes.len() {
            let rest = &bytes[position..];
            let (length, units, name_at) =
                (usize::from(u16_at(rest, 4)), usize::from(rest.get(6).copied().unwrap_or(0)), rest.get(7));
            let name_at = usize::from(name_at.copied().unwrap_or(0));
            let name = if units == 0 { Some(&[][..]) } else { rest.get(name_at..name_at + units * 2) };
            let name = name.filter(|_| length >= ListEntry::HEADER && length <= rest.len());
            let Some(name) = name else {
                let expected = format!("an entry of 26 to {} bytes with its name", rest.len());
                return Err(Error::damaged("$ATTRIBUTE_LIST", at + position as u64, expected, length));
            };
            entries.push(ListEntry {
                kind: Kind(u32_at(rest, 0)),
                name: name.as_chunks::<2>().0.iter().map(|unit| u16::from_le_bytes(*unit)).collect(),
                first: u64_at(rest, 8),
                record: Reference(u64_at(rest, 0x10)),
                id: u16_at(rest, 0x18),
            });
            position += length;
        }
        Ok(entries)
    }

    /// Bytes of the entry.
    pub fn length(&self) -> usize {
        ListEntry::length_of(self.name.len())
    }

    /// Appends the entry.
    pub fn append_to(&self, list: &mut Vec<u8>) {
        let start = list.len();
        list.resize(start + self.length(), 0);
        let bytes = &mut list[start..];
        put(bytes, 0, self.kind.0);
        put(bytes, 4, self.length() as u16);
        bytes[6] = self.name.len() as u8;
        bytes[7] = ListEntry::HEADER as u8;
        put(bytes, 8, self.first);
        put(bytes, 0x10, self.record.0);
        put(bytes, 0x18, self.id);
        for (index, unit) in self.name.iter().enumerate() {
            put(bytes, ListEntry::HEADER + index * 2, *unit);
        }
    }
}
