//! `$REPARSE_POINT`, and its entry in the index `$R` of `$Reparse` ([MS-FSCC] 2.1.2).

use super::Reference;
use super::bytes::{put, u16_at, u32_at};
use platter_vfs::{Error, Reparse, Result};

/// The value of `$REPARSE_POINT` for a reparse point: tag, length, data.
pub fn reparse_to_bytes(point: &Reparse) -> Vec<u8> {
    let mut bytes = vec![0; 8];
    put(&mut bytes, 0, point.tag);
    put(&mut bytes, 4, point.data.len() as u16);
    bytes.extend(&point.data);
    bytes
}

/// Reads a value. Tags that are not Microsoft's are followed by a GUID, which stays in front of the data.
///
/// # Errors
/// [`Error::Damaged`] if the data is not inside.
pub fn reparse_from_bytes(bytes: &[u8], at: u64) -> Result<Reparse> {
    let (tag, length) = (u32_at(bytes, 0), usize::from(u16_at(bytes, 4)));
    let guid = if tag & 0x8000_0000 == 0 { 16 } else { 0 };
    match bytes.get(8..8 + length + guid) {
        Some(data) => Ok(Reparse { tag, data: data.to_vec() }),
        None => {
            let expected = format!("at most {} bytes of data", bytes.len().saturating_sub(8));
            Err(Error::damaged("$REPARSE_POINT", at + 4, expected, length))
        }
    }
}

/// The entry of a file in `$R`.
pub fn reparse_entry(tag: u32, file: Reference) -> Vec<u8> {
    super::index::view_entry(&reparse_key(tag, file), &[])
}

/// The key of `$R`: tag and file.
pub fn reparse_key(tag: u32, file: Reference) -> [u8; 12] {
    let mut key = [0; 12];
    put(&mut key, 0, tag);
    put(&mut key, 4, file.0);
    key
}
