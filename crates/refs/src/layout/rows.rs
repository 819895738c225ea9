//! Rows of records: the links to a file's names, and the row that marks a directory.

use super::attribute::{self, Attribute};
use super::bytes::{put, u16_at, u64_at};

/// The reason in the error for a record that has no room for more.
pub const LIMIT: &str = "its names, streams, attributes and what else is in its record take 7 KiB at most";

/// The directory and the name in an object link.
pub fn object_link(row: &Attribute) -> (u64, Vec<u16>) {
    let rest = row.rest();
    let name = rest.get(16..).unwrap_or(&[]).chunks_exact(2).map(|unit| u16_at(unit, 0));
    (u64_at(rest, 0), name.take_while(|&unit| unit != 0).collect())
}

/// The object links among these rows of a record: each directory, and the name there.
pub fn object_links(rows: &[Attribute]) -> impl Iterator<Item = (u64, Vec<u16>)> {
    rows.iter().filter(|row| row.kind() == attribute::OBJECT_LINK).map(object_link)
}

/// Returns the link from a record to a name. Its value is the end of its key.
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

/// Returns the row `$I30`, which marks a record as that of a directory and is the same in all directories.
pub fn make_index() -> Attribute {
    let mut value = vec![0; 0x8C];
    for (index, word) in [0u32, 0x80, 0x0C, 0x30, 0x0001_0240, 0x16, 0x10, 0x70, 0x70].into_iter().enumerate()
    {
        put(&mut value, 4 * index, word);
    }
    let name: Vec<u8> = "$I30".encode_utf16().flat_map(u16::to_le_bytes).collect();
    Attribute::new(attribute::MULTIPLE, attribute::INDEX, 5, &name, 0, value)
}
