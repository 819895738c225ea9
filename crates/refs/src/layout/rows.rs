//! Rows of records: the links to a file's names, and the row that marks a directory. Rows of directories that lead from
//! the number of a file to its name or record.

use super::attribute::{self, Attribute};
use super::bytes::{FieldAt, put, u16_at, u32_at, u64_at};
use std::collections::HashSet;

/// The reason in the error for a record that has no room for more.
pub const LIMIT: &str = "its names, streams, attributes and what else is in its record take 7 KiB at most";

/// The directory and the name in an object link.
pub fn object_link(row: &Attribute) -> (u64, Vec<u16>) {
    let rest = row.rest();
    let name = rest.get(16..).unwrap_or(&[]).chunks_exact(2).map(|unit| u16_at(unit, 0));
    (u64_at(rest, 0), name.take_while(|&unit| unit != 0).collect())
}

/// The object links among these rows of a record: each directory, and the name there. On volumes of Windows some records
/// have the same link twice (forefst `docs/attributes/OBJ_LINK.md`); it counts once.
pub fn object_links(rows: &[Attribute]) -> impl Iterator<Item = (u64, Vec<u16>)> {
    let mut met: HashSet<&[u8]> = HashSet::new();
    let links = rows.iter().filter(|row| row.kind() == attribute::OBJECT_LINK);
    links.filter(move |row| met.insert(&row.key)).map(object_link)
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

/// What the number of a file leads to, in the value of a row of type 0x20 of the file's home directory.
///
/// Source: forefst `docs/structures/reverse_index.md`. The sizes are those that Windows logged for names of 18 to 38
/// units, and those of the rows of "FS Metadata" on volumes that Windows 10 made: 12 bytes and the name, without a zero
/// at its end, rounded up to a multiple of 8.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NumberRow {
    /// The record stands in the row of this name.
    Name(Vec<u16>),
    /// The record stands in a row of type 0x40, under this number in this directory.
    Body(u64, u64),
    /// Something that no version writes which Platter writes. Up to 3.6 such rows lead to other directories.
    Other,
}

impl NumberRow {
    /// Where the name begins.
    const HEAD: usize = 12;

    /// Reads a row's value.
    pub fn from_bytes(value: &[u8]) -> NumberRow {
        match (value.len(), u32_at(value, 0)) {
            (NumberRow::HEAD.., 0) => {
                let (from, length) = (usize::from(u16_at(value, 8)), usize::from(u16_at(value, 10)));
                let name = value.get(from..from + length).unwrap_or(&[]).chunks_exact(2);
                let units = name.map(|unit| u16_at(unit, 0)).take_while(|&unit| unit != 0).collect();
                NumberRow::Name(units)
            }
            (24, 2) => NumberRow::Body(u64_at(value, 8), u64_at(value, 16)),
            _ => NumberRow::Other,
        }
    }

    /// The row's value.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            NumberRow::Name(units) => {
                let mut value = vec![0; (NumberRow::HEAD + 2 * units.len()).next_multiple_of(8)];
                put(&mut value, 8, NumberRow::HEAD as u16);
                put(&mut value, 10, 2 * units.len() as u16);
                let place = |index| NumberRow::HEAD + 2 * index;
                units.iter().enumerate().for_each(|(index, unit)| put(&mut value, place(index), *unit));
                value
            }
            NumberRow::Body(ordinal, home) => {
                let mut value = vec![0; 24];
                put(&mut value, 0, 2u32);
                put(&mut value, 8, *ordinal);
                put(&mut value, 16, *home);
                value
            }
            NumberRow::Other => Vec::new(),
        }
    }
}

/// A row of the parent-child table, which says that a directory lies in another one. Key and value are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ParentChildRow {
    /// The object number of the directory above.
    pub above: u64,
    /// The object number of the directory in it.
    pub child: u64,
}

impl ParentChildRow {
    const LEN: usize = 32;
    const ABOVE: FieldAt<u64> = FieldAt::new(8);
    const CHILD: FieldAt<u64> = FieldAt::new(24);

    /// Reads a row's key or value.
    pub fn from_bytes(bytes: &[u8]) -> ParentChildRow {
        ParentChildRow { above: Self::ABOVE.of(bytes), child: Self::CHILD.of(bytes) }
    }

    /// The row's key, which is its value too.
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut row = [0; Self::LEN];
        Self::ABOVE.put(&mut row, self.above);
        Self::CHILD.put(&mut row, self.child);
        row
    }
}

#[cfg(test)]
mod tests {
    use super::NumberRow;

    fn units(text: &str) -> Vec<u16> {
        text.encode_utf16().collect()
    }

    /// The sizes of three rows that Windows 10 wrote, for the files of "FS Metadata".
    #[test]
    fn rows_of_numbers_have_the_sizes_of_windows() {
        let names =
            [("Volume Direct IO File", 56), ("Security Descriptor Stream", 64), ("Reparse Index", 40)];
        for (name, size) in names {
            let row = NumberRow::Name(units(name));
            let value = row.to_bytes();
            assert_eq!(value.len(), size, "{name}");
            assert_eq!(value[..12], [0, 0, 0, 0, 0, 0, 0, 0, 12, 0, 2 * name.len() as u8, 0]);
            assert_eq!(NumberRow::from_bytes(&value), row);
        }
        let body = NumberRow::Body(3, 0x701);
        assert_eq!(body.to_bytes()[..12], [2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0]);
        assert_eq!(NumberRow::from_bytes(&body.to_bytes()), body);
    }

    #[test]
    fn any_bytes_can_be_read() {
        assert_eq!(NumberRow::from_bytes(&[]), NumberRow::Other);
        assert_eq!(NumberRow::from_bytes(&[0; 12]), NumberRow::Name(Vec::new()));
        let mut value = [0; 24];
        (value[8], value[10], value[11]) = (0xFF, 0xFF, 0xFF);
        assert_eq!(NumberRow::from_bytes(&value), NumberRow::Name(Vec::new()));
        assert_eq!(NumberRow::from_bytes(&[1; 24]), NumberRow::Other);
    }
}
