//! Fields of structures, and the errors for those that cannot be right.

use platter_device::{Device, Error, Result, read_any};
use std::fmt;

/// Reads `length` bytes at any offset. The caller has bounded the length.
pub(crate) fn read(device: &dyn Device, offset: u64, length: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    read_any(device, offset, &mut bytes)?;
    Ok(bytes)
}

/// The `N` bytes of a field; `None` behind the end.
pub(crate) fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// A little-endian number of 16 bits.
pub(crate) fn le16(bytes: &[u8], at: usize) -> Option<u16> {
    field(bytes, at).map(u16::from_le_bytes)
}

/// A little-endian number of 32 bits.
pub(crate) fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    field(bytes, at).map(u32::from_le_bytes)
}

/// A little-endian number of 64 bits.
pub(crate) fn le64(bytes: &[u8], at: usize) -> Option<u64> {
    field(bytes, at).map(u64::from_le_bytes)
}

/// The text in UTF-16, up to a zero; what is no character becomes the replacement character.
pub(crate) fn utf16(bytes: &[u8]) -> String {
    let units = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    char::decode_utf16(units.take_while(|&unit| unit != 0))
        .map(|character| character.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect()
}

/// The error for a volume that cannot be used.
pub(crate) fn unusable(device: &str, reason: impl Into<String>) -> Error {
    Error::Unusable { device: device.into(), reason: reason.into() }
}

/// The error for a damaged structure.
pub(crate) fn damaged(
    device: &str,
    structure: &str,
    offset: u64,
    expected: impl fmt::Display,
    found: impl fmt::Display,
) -> Error {
    unusable(device, format!("{structure} at offset {offset} is damaged: expected {expected}, found {found}"))
}
