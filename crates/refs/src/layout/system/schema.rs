//! The schema table: the kinds of table that a volume has, and how each orders its rows.
//!
//! Source: forefst `docs/structures/schema_table.md` and its dumps of volumes that Windows 10 (3.4) and Windows 11
//! (3.14) made with 4 KiB clusters, and of one that an Insider build made with 64 KiB clusters. Only some of the twenty
//! words of a definition are understood; the others are copied from those volumes. Words 8 and 13 are proven to shape
//! the root's tree header for 0x130, 0x140, 0x160, 0xE030, 0xE090 and 0xE0D0: root pages built with them have the
//! checksums that Windows 11 stored.

use super::SystemRow;
use crate::layout::bytes::put;

/// The definition of a kind of table, without the words that are the same in all definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Schema {
    /// The schema's number: 0xE000 and more for the volume's own tables, less for the trees of directories and files.
    pub id: u32,
    /// Which rule orders the keys: an index into the driver's list of comparisons.
    pub key_rule: u32,
    /// Word 8: 0 in the volume's own tables, with one exception. Its low half stands at 0x06 of a table's tree header.
    pub word_8: u32,
    /// Word 11: 0, or all ones. Unknown.
    pub word_11: u32,
    /// Word 12: a number of bytes, or 0. For a table that is the value of a row in another (0x1F0) it is the length
    /// that the value gets at first, before it is cut to size; otherwise its meaning is unknown.
    pub word_12: u32,
    /// Word 13: the bytes of the table's own region in the tree header of its root, after the 0x28 that all have.
    pub root_extra: u32,
    /// Word 14: unknown.
    pub word_14: u32,
    /// Word 16: [`QUARTER`], which stands for a quarter of a page, or all ones.
    pub word_16: u32,
    /// Word 17: bit 0 is set if keys begin with the length of the value; 0x0E marks streams.
    pub flags: u32,
}

impl Schema {
    /// Bytes of a definition.
    pub(crate) const SIZE: usize = 80;

    /// The definition's row in the schema table of a volume with pages of `page` bytes.
    pub(crate) fn row(&self, page: u32) -> SystemRow {
        let mut key = vec![0; 8];
        put(&mut key, 0, self.id);
        let mut value = vec![0; Schema::SIZE];
        let words = [
            (0, Schema::SIZE as u32),
            (1, 0x18), // bytes of the part that describes the key
            (6, 0x38), // bytes of the part that describes the value
            (7, self.key_rule),
            (8, self.word_8),
            (9, self.id),
            (10, self.id),
            (11, self.word_11),
            (12, self.word_12),
            (13, self.root_extra),
            (14, self.word_14),
            (15, page),
            (16, if self.word_16 == QUARTER { page / 4 } else { self.word_16 }),
            (17, self.flags),
            (18, 1),
            (19, 0x4B),
        ];
        words.iter().for_each(|&(index, word)| put(&mut value, 4 * index, word));
        (key, value)
    }
}

/// The value of [`Schema::word_16`] that stands for a quarter of a page. On disk that is 0x1000 with clusters of 4 KiB
/// and 0x4000 with 64 KiB.
const QUARTER: u32 = 0x1000;

/// The rows of the schema table of a new volume with pages of `page` bytes, in the order of their keys: 29 at 3.14; 27
/// at 3.4 and, here, at the versions between.
pub(crate) fn schema_rows(version_minor: u8, page: u32) -> Vec<SystemRow> {
    schemas(version_minor).iter().map(|schema| schema.row(page)).collect()
}

/// The definition with this number, if the version has one.
pub(crate) fn schema(version_minor: u8, id: u32) -> Option<&'static Schema> {
    schemas(version_minor).iter().find(|schema| schema.id == id)
}

fn schemas(version_minor: u8) -> &'static [Schema] {
    if version_minor >= 14 { &V3_14 } else { &V3_4 }
}

/// Makes a definition from its number, key rule, word 12, root region and flags. Word 8 follows from the number: 1 for
/// attributes and the like, 0 for the volume's own tables.
const fn kind(id: u32, key_rule: u32, word_12: u32, root_extra: u32, flags: u32) -> Schema {
    let word_8 = if id >= 0x100 && id < 0xE000 { 1 } else { 0 };
    Schema { id, key_rule, word_8, word_11: 0, word_12, root_extra, word_14: 0, word_16: QUARTER, flags }
}

const ALLOCATOR: Schema = Schema { word_8: 0xE010, word_11: u32::MAX, ..kind(0xE010, 0x3, 0, 0x200, 0x32) };
const OBJECTS: Schema = Schema { word_11: u32::MAX, ..kind(0xE030, 0x6, 0, 0x200, 0) };

const V3_14: [Schema; 29] = [
    kind(0x110, 0x9, 0x190, 0x80, 0x1),
    kind(0x120, 0xB, 0x160, 0x60, 0xE),
    kind(0x130, 0x9, 0, 0x40, 0),
    kind(0x140, 0x1, 0, 0xC0, 0x81),
    kind(0x150, 0x1, 0, 0xC0, 0),
    kind(0x160, 0x9, 0, 0xC0, 0),
    kind(0x170, 0x9, 0x190, 0x80, 0x9),
    kind(0x180, 0x9, 0x280, 0x80, 0x1),
    kind(0x190, 0x9, 0x280, 0x80, 0x9),
    kind(0x1A0, 0xB, 0x178, 0x60, 0xE),
    kind(0x1B0, 0x9, 0x320, 0x80, 0x1),
    kind(0x1C0, 0xF, 0x320, 0x80, 0x1),
    kind(0x1D0, 0xF, 0x280, 0x80, 0x9),
    kind(0x1E0, 0xF, 0x320, 0x80, 0x1001),
    kind(0x1F0, 0xF, 0x280, 0x80, 0x1001),
    kind(0x200, 0xB, 0x178, 0x60, 0x100E),
    ALLOCATOR,
    OBJECTS,
    kind(0xE040, 0x8, 0, 0x200, 0),
    kind(0xE060, 0x2, 0, 0xC8, 0),
    kind(0xE080, 0x3, 0, 0x200, 0x42),
    kind(0xE090, 0x2, 0, 0x48, 0),
    kind(0xE0B0, 0x3, 0, 0x200, 0x42),
    kind(0xE0C0, 0xA, 0, 0x200, 0x500),
    kind(0xE0D0, 0x6, 0, 0xC0, 0),
    kind(0xE100, 0xA, 0, 0x200, 0x200),
    kind(0xE110, 0x1, 0, 0x200, 0x8000_0000),
    kind(0xE120, 0x10, 0, 0x200, 0),
    kind(0xE130, 0x11, 0, 0x200, 0),
];

const V3_4: [Schema; 27] = [
    Schema { word_11: u32::MAX, word_16: u32::MAX, ..kind(0x4, 0x1, 0, 0, 0) },
    Schema { word_8: 0xE020, word_11: u32::MAX, ..kind(0x6, 0x3, 0, 0x200, 0x32) },
    kind(0x110, 0x9, 0x190, 0x80, 0x1),
    kind(0x120, 0xB, 0x160, 0x60, 0xE),
    kind(0x130, 0x9, 0, 0x40, 0),
    kind(0x140, 0x1, 0, 0xC0, 0x81),
    Schema { word_14: 0x200, ..kind(0x150, 0x1, 0, 0xC0, 0) },
    kind(0x160, 0x9, 0, 0xC0, 0),
    kind(0x170, 0x9, 0x190, 0x80, 0x9),
    kind(0x180, 0x9, 0x280, 0x80, 0x1),
    kind(0x190, 0x9, 0x280, 0x80, 0x9),
    kind(0x1A0, 0xB, 0x178, 0x60, 0xE),
    ALLOCATOR,
    OBJECTS,
    kind(0xE040, 0x8, 0, 0x200, 0),
    kind(0xE050, 0xB, 0x100, 0x48, 0x6),
    kind(0xE060, 0x2, 0xD98, 0xC8, 0),
    Schema { word_16: u32::MAX, ..kind(0xE070, 0x3, 0, 0, 0) },
    kind(0xE080, 0x3, 0, 0x200, 0xC2),
    Schema { word_14: 0x100, ..kind(0xE090, 0x2, 0x100, 0x48, 0) },
    kind(0xE0B0, 0x3, 0, 0x200, 0x42),
    kind(0xE0C0, 0xA, 0, 0x200, 0x500),
    kind(0xE0D0, 0x6, 0, 0xC0, 0),
    Schema { word_8: 1, ..kind(0xE0E0, 0x9, 0x190, 0x80, 0x1) },
    Schema { word_8: 1, ..kind(0xE0F0, 0xB, 0x160, 0x60, 0xE) },
    kind(0xE100, 0xA, 0, 0x200, 0x200),
    kind(0xE110, 0x1, 0, 0x200, 0x80),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// CRC-32C of keys and values of a list of rows.
    fn fingerprint(rows: &[SystemRow]) -> u32 {
        rows.iter().fold(0, |sum, (key, value)| crc32c::crc32c_append(crc32c::crc32c_append(sum, key), value))
    }

    #[test]
    fn rows_are_in_order_and_whole() {
        for (minor, count) in [(14, 29), (4, 27)] {
            let rows = schema_rows(minor, 0x4000);
            assert_eq!(rows.len(), count);
            assert!(
                rows.iter()
                    .all(|(key, value)| key.len() == 8 && value.len() == 80 && value[36..40] == key[..4])
            );
            assert!(schemas(minor).windows(2).all(|pair| pair[0].id < pair[1].id));
        }
    }

    #[test]
    fn rows_are_those_of_windows() {
        assert_eq!(fingerprint(&schema_rows(14, 0x4000)), 0xD67E_544B);
        assert_eq!(fingerprint(&schema_rows(4, 0x4000)), 0xED4E_1E5E);
    }

    #[test]
    fn sizes_are_those_of_the_page() {
        for (_, value) in schema_rows(14, 0x1_0000) {
            let word = |index: usize| u32::from_le_bytes(value[4 * index..4 * index + 4].try_into().unwrap());
            assert_eq!((word(15), word(16)), (0x1_0000, 0x4000));
        }
    }

    #[test]
    fn region_of_a_root() {
        // The tree header of a directory's root takes 0x68 bytes, that of the object table 0x228.
        assert_eq!(schema(14, 0x130).map(|schema| 0x28 + schema.root_extra), Some(0x68));
        assert_eq!(schema(14, 0xE030).map(|schema| 0x28 + schema.root_extra), Some(0x228));
        assert_eq!(schema(14, 0x4), None);
    }
}
