//! Keys as words of 8 bytes, by which the rows of most tables are ordered.

use super::bytes::u64_at;

/// Bytes of a word.
pub(crate) const WORD: usize = 8;

/// The word that begins at this offset; bytes after the end of the key count as zero.
#[inline]
pub(crate) fn word(key: &[u8], at: usize) -> u64 {
    match key.len().saturating_sub(at) {
        0 => 0,
        1..WORD => {
            let mut whole = [0; WORD];
            whole[..key.len() - at].copy_from_slice(&key[at..]);
            u64::from_le_bytes(whole)
        }
        _ => u64_at(key, at),
    }
}

/// The key after its first word.
pub(crate) fn after_first(key: &[u8]) -> &[u8] {
    key.get(WORD..).unwrap_or(&[])
}
