//! The integrity state table: whether the volume's clusters have been found damaged. It has the form of an allocator's
//! rows.
//!
//! Source: forefst `docs/structures/integrity_state.md`, volumes made by Windows 10 and 11.

use super::SystemRow;
use crate::layout::AllocatorRow;
use crate::layout::bytes::put;

/// The only row of a sound volume, over as many clusters as its containers have together.
pub(crate) fn integrity_state_row(clusters: u64) -> SystemRow {
    let mut value = vec![0; 0x18];
    put(&mut value, 0x08, clusters);
    // As in a uniform allocator row: the number of free clusters (at most 0xFFFF), the flag that there is no bitmap,
    // the length that Windows counts as the row's header.
    put(&mut value, 0x10, u16::MAX);
    put(&mut value, 0x12, 2u16);
    put(&mut value, 0x14, 0x100u16);
    (value[..0x10].to_vec(), value)
}

/// Whether key and value have the form of such a row, whatever clusters it is over.
pub(crate) fn is_integrity_state_row(key: &[u8], value: &[u8]) -> bool {
    key.len() == AllocatorRow::KEY && value.len() >= 0x18 && value.starts_with(key)
}

#[cfg(test)]
mod tests {
    #[test]
    fn row() {
        let (key, value) = super::integrity_state_row(31 * 16384);
        assert_eq!(key, [&[0; 8][..], &0x7C000u64.to_le_bytes()].concat());
        assert_eq!(value[..16], key);
        assert_eq!(value[16..], [0xFF, 0xFF, 2, 0, 0, 1, 0, 0]);
    }
}
