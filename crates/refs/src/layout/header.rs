//! The header that every tree begins with: in its root page, or where the tree is embedded in the row's value.

use super::Algorithm;
use super::bytes::FieldAt;

/// The bytes that the headers of all trees have; what follows depends on the table.
pub const FIXED: usize = 0x28;

/// The bytes of the header.
pub const LENGTH: FieldAt<u32> = FieldAt::new(0x00);
/// The bytes of the fixed part.
pub const FIXED_LENGTH: FieldAt<u16> = FieldAt::new(0x04);
/// What kind of tree it is.
pub const KIND: FieldAt<u16> = FieldAt::new(0x06);
/// A word that is 1 in every tree.
pub const WORD: FieldAt<u32> = FieldAt::new(0x08);
/// The schema of the rows.
pub const SCHEMA: FieldAt<u32> = FieldAt::new(0x0C);
/// The schema of the rows, again.
pub const SCHEMA_TOO: FieldAt<u32> = FieldAt::new(0x10);
/// The kind of checksum that the volume's pages have, one of the codes of [`Algorithm`]. Proven for tables by hashes
/// that Windows stored: 2 on volumes with CRC-64, 4 on one with SHA-256.
pub const CHECKSUM_KIND: FieldAt<u32> = FieldAt::new(0x14);
/// The number of leaf pages below the root.
pub const LEAVES: FieldAt<u64> = FieldAt::new(0x18);
/// The number of rows in all leaves.
pub const ROWS: FieldAt<u64> = FieldAt::new(0x20);

/// Of the object table, in the part after the fixed one: a word that is 1.
const OBJECTS_WORD: FieldAt<u64> = FieldAt::new(0x00);
/// Of the object table, in the part after the fixed one: the highest number that was given to an object.
const LAST_OBJECT_IN_EXTRA: FieldAt<u64> = FieldAt::new(0x10);
/// Of the object table: the highest number that was given to an object.
pub const LAST_OBJECT: FieldAt<u64> = LAST_OBJECT_IN_EXTRA.within(FIXED);

/// The part of a header after the fixed one.
pub fn extra(header: &[u8]) -> &[u8] {
    header.get(FIXED..).unwrap_or(&[])
}

/// The part of a header after the fixed one, to be changed.
pub fn extra_mut(header: &mut [u8]) -> &mut [u8] {
    header.get_mut(FIXED..).unwrap_or(&mut [])
}

/// Whether two headers differ at most in the counts of leaf pages and rows.
pub fn is_same_but_counts(one: &[u8], other: &[u8]) -> bool {
    let counts = LEAVES.at()..ROWS.end();
    one.len() == other.len()
        && one.get(..counts.start) == other.get(..counts.start)
        && one.get(counts.end..) == other.get(counts.end..)
}

/// The highest number that was given to an object, from the part of the object table's header after the fixed one;
/// `None` if that is too short.
pub fn last_object(extra: &[u8]) -> Option<u64> {
    (extra.len() >= LAST_OBJECT_IN_EXTRA.end()).then(|| LAST_OBJECT_IN_EXTRA.of(extra))
}

/// Stores the highest number that was given to an object, see [`last_object`].
pub fn put_last_object(extra: &mut [u8], last: u64) {
    LAST_OBJECT_IN_EXTRA.put(extra, last);
}

/// Begins the part of a new object table's header after the fixed one.
pub fn begin_objects(extra: &mut [u8], last: u64) {
    OBJECTS_WORD.put(extra, 1);
    LAST_OBJECT_IN_EXTRA.put(extra, last);
}

/// Returns the header of a tree. The kind of checksum in it is CRC-64, which is what Windows writes in embedded trees
/// of volumes with CRC-64; what it writes there on others is not known.
pub fn tree_header(schema: u32, kind: u16, extra: &[u8]) -> Vec<u8> {
    let mut header = vec![0; FIXED + extra.len()];
    let length = header.len() as u32;
    LENGTH.put(&mut header, length);
    FIXED_LENGTH.put(&mut header, FIXED as u16);
    KIND.put(&mut header, kind);
    WORD.put(&mut header, 1);
    SCHEMA.put(&mut header, schema);
    SCHEMA_TOO.put(&mut header, schema);
    CHECKSUM_KIND.put(&mut header, u32::from(Algorithm::Crc64.code()));
    header[FIXED..].copy_from_slice(extra);
    header
}

const _: () = assert!(ROWS.end() == FIXED, "the counts are the last fields that all headers have");
