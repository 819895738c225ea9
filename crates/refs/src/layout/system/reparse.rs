//! The reparse index: a row for each file with a reparse point, by the kind of reparse point.
//!
//! Source: forefst `docs/structures/reparse_points.md`, volumes made by Windows 10 and 11.

use super::SystemRow;
use crate::layout::bytes::put;

/// The row of a file or directory with a reparse point, which has a key and no value. `ordinal` is the file's number in
/// the directory whose object is `directory`.
pub(crate) fn reparse_row(tag: u32, ordinal: u64, directory: u64) -> SystemRow {
    let mut key = vec![0; 24];
    put(&mut key, 0x00, 0x8000_0001u32);
    put(&mut key, 0x04, tag);
    put(&mut key, 0x08, ordinal);
    put(&mut key, 0x10, directory);
    (key, Vec::new())
}

#[cfg(test)]
mod tests {
    #[test]
    fn row() {
        let (key, value) = super::reparse_row(0xA000_000C, 2, 0x701);
        assert_eq!(key[..8], [1, 0, 0, 0x80, 0x0C, 0, 0, 0xA0]);
        assert_eq!(key[8..], [2, 0, 0, 0, 0, 0, 0, 0, 1, 7, 0, 0, 0, 0, 0, 0]);
        assert!(value.is_empty());
    }
}
