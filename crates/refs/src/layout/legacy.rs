//! The form of a record's attributes before 3.7: their keys have no word that says how many of a type there may be, no
//! subtype and no number of a stream, and a stream outside the record is one row instead of two.
//!
//! All other code sees attributes in the later form. This module brings them into it when a record is read, and back
//! when it is stored, so that a record keeps the form it was made in: volumes that Windows has upgraded keep their old
//! records.
//!
//! Source: libfsrefs' documentation ("Attribute record"), forefst `docs/attributes/OBJ_LINK.md`, `I30_INDEX.md` and
//! `STANDARD_INFORMATION.md`. That the row of a stream outside the record has the kind of the stream, also if that has
//! a name, is inferred.

use super::attribute::{
    Attribute, DATA, EA, EA_INFORMATION, INDEX, LIVE, MULTIPLE, NAMED_DATA, OBJECT_LINK, REPARSE, SINGLE,
    STREAM_EXTENTS,
};
use super::bytes::{put, u16_at, u32_at, u64_at};
use super::{make_object_link, object_link};

/// Type of the link from a directory's record to its name.
const DIRECTORY_LINK: u16 = 0x38;
/// Schema of the trees of streams outside the record, in this form and in the later one.
const STREAM_SCHEMA: (u32, u32) = (0x1A0, 0x200);
/// Bytes of the tree header of a stream outside the record, with which its value begins.
const STREAM_HEADER: u32 = 0x88;
/// Bytes of the row `$I30`, which marks a record as that of a directory.
const INDEX_SIZE: usize = 0x94;
/// Where the name stands in the value of a link, and where its length stands.
const LINK_NAME: (usize, usize) = (0x5E, 0x54);
/// The first of the numbers that [`to_modern`] gives to streams outside the record, which have none in this form.
const FIRST_NUMBER: u64 = 0xF000;

/// Whether records of this schema have the form from before 3.7.
pub fn is_legacy(schema: u32) -> bool {
    schema < 0x1B0
}

fn is_outside(value: &[u8]) -> bool {
    u32_at(value, 0) == STREAM_HEADER
}

/// Converts attributes as they stand in a record from before 3.7 to the later form.
pub fn to_modern(rows: Vec<Attribute>) -> Vec<Attribute> {
    let mut all = Vec::with_capacity(rows.len());
    let mut number = FIRST_NUMBER;
    for mut row in rows {
        let (kind, name) = (u32_at(&row.key, 8), row.key.get(12..).unwrap_or(&[]));
        let named = |marker, subtype, row: &Attribute| {
            let mut new = Attribute::new(marker, kind as u16, subtype, name, row.flags, row.value.clone());
            // The length that the key holds is checked elsewhere.
            put(&mut new.key, 0, u64_at(&row.key, 0));
            new
        };
        match kind as u16 {
            DIRECTORY_LINK => {
                let units = usize::from(u16_at(&row.value, LINK_NAME.1));
                let name = row.value.get(LINK_NAME.0..).unwrap_or(&[]).chunks_exact(2);
                let name: Vec<u16> = name.map(|unit| u16_at(unit, 0)).take(units).collect();
                all.push(make_object_link(u64_at(&row.value, 0x14), &name));
            }
            DATA if is_outside(&row.value) => {
                set_schema(&mut row.value, STREAM_SCHEMA.1);
                let mut rest = [0; 24];
                put(&mut rest, 0, LIVE);
                all.push(Attribute::new(MULTIPLE, DATA, 0x0E, &rest, row.flags, row.value));
            }
            NAMED_DATA if is_outside(&row.value) => {
                set_schema(&mut row.value, STREAM_SCHEMA.1);
                let mut head = vec![0; 0x74];
                put(&mut head, 0x02, 0x1000u16);
                put(&mut head, 0x04, 0x68u32);
                put(&mut head, 0x08, 0x0Cu32);
                put(&mut head, 0x0C, 0x30u32);
                for (field, from) in [(0x18, 0x30), (0x20, 0x38), (0x28, 0x40), (0x30, 0x48)] {
                    put(&mut head, field, u64_at(&row.value, from));
                }
                put(&mut head, 0x3C, number);
                put(&mut head, 0x44, number);
                let mut rest = [0; 0x40];
                put(&mut rest, 0x20, number);
                number += 1;
                all.push(Attribute::new(MULTIPLE, NAMED_DATA, 5, name, 0, head));
                all.push(Attribute::new(MULTIPLE, STREAM_EXTENTS, 0, &rest, row.flags, row.value));
            }
            DATA | REPARSE | EA_INFORMATION | EA => {
                let mut new = Attribute::new(SINGLE, kind as u16, 0, &[], row.flags, row.value.clone());
                put(&mut new.key, 0, u64_at(&row.key, 0));
                all.push(new);
            }
            INDEX | NAMED_DATA => all.push(named(MULTIPLE, 5, &row)),
            _ => all.push(named(MULTIPLE, 0, &row)),
        }
    }
    all
}

/// Converts attributes of the later form to those of a record from before 3.7, in the order of their keys. In the
/// record of a directory, the link to its name repeats the time `made` and these `flags`.
pub fn to_legacy(rows: &[Attribute], made: u64, flags: u32) -> Vec<Attribute> {
    let new = |kind: u16, name: &[u8], flags: u16, value: Vec<u8>| {
        let mut key = vec![0; 12];
        put(&mut key, 0, value.len() as u64);
        put(&mut key, 8, u32::from(kind));
        key.extend_from_slice(name);
        Attribute { key, flags, value }
    };
    let stream = |kind, name: &[u8], row: &Attribute| {
        let mut value = row.value.clone();
        set_schema(&mut value, STREAM_SCHEMA.0);
        // The kind of the data's checksum is not stored in this form.
        put(&mut value, 0x58, 0u32);
        new(kind, name, row.flags, value)
    };
    // Where an attribute has no name, two zero bytes stand in its place.
    let nameless = [0; 2];
    let mut all = Vec::with_capacity(rows.len());
    for row in rows {
        match row.kind() {
            OBJECT_LINK => all.push(new(DIRECTORY_LINK, &nameless, 0, link(row, made, flags))),
            DATA if row.is_single() => {
                let mut value = row.value.clone();
                value.get_mut(0x38..0x3C).into_iter().for_each(|flags| flags.fill(0));
                all.push(new(DATA, &nameless, row.flags, value));
            }
            // Rows that hold snapshots or count them: volumes of older versions have none.
            DATA if u64_at(row.rest(), 0) != LIVE => {}
            DATA => all.push(stream(DATA, &nameless, row)),
            NAMED_DATA => {
                let number = u64_at(&row.value, 0x3C);
                let is_its =
                    |runs: &&Attribute| runs.kind() == STREAM_EXTENTS && u64_at(runs.rest(), 0x20) == number;
                let runs = rows.iter().find(is_its);
                match runs.filter(|_| u32_at(&row.value, 0) & 0x1000_0000 != 0 && row.value.len() == 0x74) {
                    Some(runs) => all.push(stream(NAMED_DATA, row.rest(), runs)),
                    None => {
                        let mut value = row.value.clone();
                        value.get_mut(0x38..0x3C).into_iter().for_each(|flags| flags.fill(0));
                        all.push(new(NAMED_DATA, row.rest(), row.flags, value));
                    }
                }
            }
            STREAM_EXTENTS => {}
            INDEX => {
                let mut value = row.value.clone();
                value.resize(value.len().max(INDEX_SIZE), 0);
                all.push(new(INDEX, row.rest(), row.flags, value));
            }
            kind @ (REPARSE | EA_INFORMATION | EA) => {
                all.push(new(kind, &nameless, row.flags, row.value.clone()))
            }
            kind => all.push(new(kind, row.rest(), row.flags, row.value.clone())),
        }
    }
    all.sort_by(|left, right| left.key[8..].cmp(&right.key[8..]));
    all
}

/// The value of the link from a directory to its name: it repeats times and flags as they were when the directory was
/// made.
fn link(row: &Attribute, made: u64, flags: u32) -> Vec<u8> {
    let (above, name) = object_link(row);
    let mut value = vec![0; LINK_NAME.0 + 2 * name.len() + 2];
    let length = value.len() as u32;
    put(&mut value, 0x04, length - 12);
    put(&mut value, 0x08, 0x0Cu32);
    put(&mut value, 0x14, above);
    (0..4).for_each(|index| put(&mut value, 0x1C + 8 * index, made));
    put(&mut value, 0x4C, flags);
    put(&mut value, LINK_NAME.1, name.len() as u16);
    name.iter().enumerate().for_each(|(index, unit)| put(&mut value, LINK_NAME.0 + 2 * index, *unit));
    value
}

fn set_schema(value: &mut [u8], schema: u32) {
    for at in [0x0C, 0x10] {
        if value.len() >= at + 4 {
            put(value, at, schema);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Record, make_index};

    fn stored(rows: Vec<Attribute>) -> Record {
        let record = Record { rows, ..Record::new(0x180, 7, 0x20, 9) };
        let read = Record::from_bytes(&record.to_bytes(), 0).unwrap();
        assert_eq!(Record::from_bytes(&read.to_bytes(), 0).unwrap(), read, "it stays as it is");
        read
    }

    #[test]
    fn keys_are_those_that_others_saw() {
        let units = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
        let small = Attribute::new(MULTIPLE, NAMED_DATA, 5, &units("myads"), 0, vec![0; 0x4A]);
        let own = Attribute::new(SINGLE, DATA, 0, &[], 0, vec![0; 0x3C]);
        let rows = vec![own, small, make_index(), make_object_link(0x600, &[u16::from(b'.')])];
        let record = Record { rows, ..Record::new(0x180, 7, 0x20, 9) };
        let keys: Vec<Vec<u8>> = to_legacy(&record.rows, 7, 0x20).into_iter().map(|row| row.key).collect();
        assert_eq!(keys[1], b"\x3C\0\0\0\0\0\0\0\x80\0\0\0\0\0");
        assert_eq!(keys[2], b"\x94\0\0\0\0\0\0\0\x90\0\0\0$\0I\x003\x000\0");
        assert_eq!(keys[3], b"\x4A\0\0\0\0\0\0\0\xB0\0\0\0m\0y\0a\0d\0s\0");
        assert_eq!(keys[0][8..], [0x38, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_record_keeps_links_and_streams() {
        let mut runs = crate::layout::tree_header(0x200, 1, &[0; 0x60]);
        put(&mut runs, 0x38, 5000u64);
        runs.resize(0xF8, 0);
        let mut rest = [0; 24];
        put(&mut rest, 0, LIVE);
        let own = Attribute::new(MULTIPLE, DATA, 0x0E, &rest, 1, runs.clone());
        let mut head = vec![0; 0x74];
        put(&mut head, 0x02, 0x1000u16);
        put(&mut head, 0x3C, 0xF000u64);
        let named = Attribute::new(MULTIPLE, NAMED_DATA, 5, b"s\0", 0, head);
        let mut number = [0; 0x40];
        put(&mut number, 0x20, 0xF000u64);
        let outside = Attribute::new(MULTIPLE, STREAM_EXTENTS, 0, &number, 1, runs);
        let link = make_object_link(0x701, &[0x61, 0x62]);
        let read = stored(vec![own, named, outside, link.clone()]);
        assert_eq!(read.rows.len(), 4);
        assert!(read.rows.contains(&link));
        let head = read.rows.iter().find(|row| row.kind() == NAMED_DATA).unwrap();
        assert_eq!((u64_at(&head.value, 0x20), u64_at(&head.value, 0x3C)), (5000, 0xF000));
        assert!(
            read.rows.iter().any(|row| row.kind() == STREAM_EXTENTS && u64_at(row.rest(), 0x20) == 0xF000)
        );
        assert!(read.rows.iter().any(|row| row.kind() == DATA && u64_at(row.rest(), 0) == LIVE));
    }
}
