//! Fields of structures, and the error for one that cannot be right.

use platter_device::{Device, Error, Result, read_any};
use std::fmt;

/// Reads `length` bytes at any offset. The caller has bounded the length.
pub(crate) fn read(file: &(impl Device + ?Sized), offset: u64, length: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    read_any(file, offset, &mut bytes)?;
    Ok(bytes)
}

/// The `N` bytes of a field. A structure is read whole before its fields are, so they are always there.
pub(crate) fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("as many bytes as the field has")
}

/// A little-endian number of 16 bits.
pub(crate) fn le16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(field(bytes, at))
}

/// A little-endian number of 32 bits.
pub(crate) fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(field(bytes, at))
}

/// A little-endian number of 64 bits.
pub(crate) fn le64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(field(bytes, at))
}

/// A big-endian number of 32 bits.
pub(crate) fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(field(bytes, at))
}

/// A big-endian number of 64 bits.
pub(crate) fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(field(bytes, at))
}

/// The text of UTF-16 units; what is no character becomes the replacement character. It ends before a zero.
pub(crate) fn utf16(units: impl Iterator<Item = u16>) -> String {
    char::decode_utf16(units.take_while(|&unit| unit != 0))
        .map(|character| character.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect()
}

/// Whether a range of bytes lies inside the first `end` bytes.
pub(crate) fn is_inside(offset: u64, length: u64, end: u64) -> bool {
    offset.checked_add(length).is_some_and(|last| last <= end)
}

/// The error for a damaged structure of a container.
pub(crate) fn damaged(
    file: &str,
    structure: &str,
    offset: u64,
    expected: impl fmt::Display,
    found: impl fmt::Display,
) -> Error {
    unusable(file, format!("{structure} at offset {offset} is damaged: expected {expected}, found {found}"))
}

/// The error for a container that cannot be used.
pub(crate) fn unusable(file: &str, reason: impl Into<String>) -> Error {
    Error::Unusable { device: file.into(), reason: reason.into() }
}
