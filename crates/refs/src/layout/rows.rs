//! Rows that records have: the links to a file's names, and what makes a directory.

use super::attribute::{self, Attribute};
use super::bytes::{put, u16_at, u64_at};

/// Why a record takes nothing more.
pub const LIMIT: &str = "its names, streams, attributes and what else is in its record take 7 KiB at most";

/// Directory and name in an object link.
pub fn object_link(row: &Attribute) -> (u64, Vec<u16>) {
    let rest = row.rest();
    let name = rest.get(16..).unwrap_or(&[]).chunks_exact(2).map(|unit| u16_at(unit, 0));
    (u64_at(rest, 0), name.take_while(|&unit| unit != 0).collect())
}

/// The links of a record with these rows: each directory, and the name there.
pub fn object_links(rows: &[Attribute]) -> impl Iterator<Item = (u64, Vec<u16>)> {
    rows.iter().filter(|row| row.kind() == attribute::OBJECT_LINK).map(object_link)
}

/// The link from a record to a name: its value is the end of its key.
pub fn make_object_link(directory: u64, name: &[u16]) -> Attribute {
    let mut value = vec![0; 0x18 + 2 * name.len()];
    put(&mut value, 0x00, attribute::MULTIPLE);
    put(&mut value, 0x04, attribute::OBJECT_LINK);
    put(&mut value, 0x06, 0x0Du16);
    put(&mut value, 0x08, directory);
    name.iter().enumerate().for_each(|(index, unit)| put(&mut value, 0x18 + 2 * index, *unit));
    let mut key = (value.len() as u64).to_le_bytes().to_vec();
    key.extend_from_slice(&value);
    Attribute { key, flags: 0, value }
}

/// What makes a record a directory's: a template that is the same in all.
pub fn make_index() -> Attribute {
    let mut value = vec![0; 0x8C];
    for (index, word) in [0u32, 0x80, 0x0C, 0x30, 0x0001_0240, 0x16, 0x10, 0x70, 0x70].into_iter().enumerate()
    {
        put(&mut value, 4 * index, word);
    }
    let name: Vec<u8> = "$I30".encode_utf16().flat_map(u16::to_le_bytes).collect();
    Attribute::new(attribute::MULTIPLE, attribute::INDEX, 5, &name, 0, value)
}
