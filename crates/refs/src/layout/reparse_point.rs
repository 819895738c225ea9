//! The row with the reparse point of a file.
//!
//! Source: forefst `docs/attributes/`, and records that Windows wrote.

use super::bytes::FieldAt;
use platter_vfs::Reparse;

/// Where the data begins.
const DATA: usize = 0x14;
/// Bytes after the first 12.
const LENGTH: FieldAt<u32> = FieldAt::new(0x04);
/// What the length does not count: 12.
const START: FieldAt<u32> = FieldAt::new(0x08);
const TAG: FieldAt<u32> = FieldAt::new(0x0C);
/// Bytes of the data, without the GUID that some tags have in front of it.
const DATA_LENGTH: FieldAt<u16> = FieldAt::new(0x10);

/// Reads the value of the row.
pub(crate) fn read_reparse(value: &[u8]) -> Reparse {
    let tag = TAG.of(value);
    let data = value.get(DATA..).unwrap_or(&[]);
    let length = usize::from(DATA_LENGTH.of(value)) + guid_length(tag);
    Reparse { tag, data: data[..length.min(data.len())].to_vec() }
}

/// Makes the value of the row.
pub(crate) fn reparse_value(point: &Reparse) -> Vec<u8> {
    let mut value = vec![0; DATA + point.data.len()];
    let length = value.len();
    LENGTH.put(&mut value, length as u32 - 12);
    START.put(&mut value, 0x0C);
    TAG.put(&mut value, point.tag);
    DATA_LENGTH.put(&mut value, point.data.len().saturating_sub(guid_length(point.tag)) as u16);
    value[DATA..].copy_from_slice(&point.data);
    value
}

/// The bytes of the GUID in front of a reparse point's data, which the data's length does not count.
fn guid_length(tag: u32) -> usize {
    platter_vfs::reparse::header(tag) - platter_vfs::reparse::header(u32::MAX)
}

const _: () = assert!(DATA_LENGTH.end() <= DATA, "the data follows its length");
