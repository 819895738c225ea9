//! The rows with the extended attributes of a file: a list with an entry for each, and one with its sizes.
//!
//! Source: forefst `docs/attributes/`, \[MS-FSCC\] 2.4.16 (`FILE_FULL_EA_INFORMATION`), and records that Windows wrote.

use super::bytes::FieldAt;

/// Bytes before the list in the value of its row.
const LIST: usize = 12;
/// Of both rows: the bytes that follow the first fields.
const LENGTH: FieldAt<u32> = FieldAt::new(0x04);
/// Of both rows: the bytes of the first fields.
const START: FieldAt<u32> = FieldAt::new(0x08);

/// An entry of the list: its fields, the name, a zero, and the value.
mod entry {
    use super::FieldAt;

    /// Bytes before the name.
    pub(super) const LEN: usize = 8;
    /// Bytes to the entry after it; 0 in the last one.
    pub(super) const NEXT: FieldAt<u32> = FieldAt::new(0);
    /// Bytes of the name, without the zero.
    pub(super) const NAME: FieldAt<u8> = FieldAt::new(5);
    /// Bytes of the value.
    pub(super) const VALUE: FieldAt<u16> = FieldAt::new(6);
}

/// The row with the sizes.
mod information {
    use super::FieldAt;

    pub(super) const LEN: usize = 20;
    /// The packed size.
    pub(super) const PACKED: FieldAt<u32> = FieldAt::new(0x0C);
    /// The bytes of the list.
    pub(super) const LIST: FieldAt<u32> = FieldAt::new(0x10);
}

/// The values of both rows.
pub(crate) struct ExtendedRows {
    /// The value of the row with the sizes.
    pub information: Vec<u8>,
    /// The value of the row with the list.
    pub list: Vec<u8>,
    /// The packed size, as the record has it too.
    pub packed: u32,
}

/// Reads the names and values from the value of the row with the list.
pub(crate) fn read_extended(value: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    let mut rest = value.get(LIST..).unwrap_or(&[]);
    while rest.len() > entry::LEN {
        let next = entry::NEXT.of(rest) as usize;
        let (name, value) = (usize::from(entry::NAME.of(rest)), usize::from(entry::VALUE.of(rest)));
        let Some(content) = rest.get(entry::LEN..entry::LEN + name + 1 + value) else { break };
        all.push((String::from_utf8_lossy(&content[..name]).into_owned(), content[name + 1..].to_vec()));
        match rest.get(next..) {
            Some(after) if next > 0 => rest = after,
            _ => break,
        }
    }
    all
}

/// Makes the values of both rows. Names have at most 255 bytes, values at most 65,535.
pub(crate) fn extended_rows(all: &[(String, Vec<u8>)]) -> ExtendedRows {
    let mut list = vec![0; LIST];
    let mut packed = 0;
    for (name, value) in all {
        let length = (entry::LEN + name.len() + 1 + value.len()).next_multiple_of(4);
        let start = list.len();
        list.resize(start + length, 0);
        let entry = &mut list[start..];
        // The last entry also has its own length here, not 0: other readers stop before an entry with 0.
        entry::NEXT.put(entry, length as u32);
        entry::NAME.put(entry, name.len() as u8);
        entry::VALUE.put(entry, value.len() as u16);
        entry[entry::LEN..entry::LEN + name.len()].copy_from_slice(name.as_bytes());
        entry[entry::LEN + name.len() + 1..][..value.len()].copy_from_slice(value);
        packed += 5 + name.len() + value.len();
    }
    let length = (list.len() - LIST) as u32;
    LENGTH.put(&mut list, length);
    START.put(&mut list, LIST as u32);
    let mut sizes = vec![0; information::LEN];
    LENGTH.put(&mut sizes, (information::LEN - LIST) as u32);
    START.put(&mut sizes, LIST as u32);
    information::PACKED.put(&mut sizes, packed as u32);
    information::LIST.put(&mut sizes, length);
    ExtendedRows { information: sizes, list, packed: packed as u32 }
}

const _: () = assert!(entry::VALUE.end() == entry::LEN, "the name follows the two lengths");
const _: () = assert!(information::LIST.end() == information::LEN, "the length of the list ends the row");
