//! What Windows is to compress on a volume: the policy in the root page of the container table.
//!
//! Source: forefst `docs/structures/container_table.md` (August 2026), confirmed there on volumes before and after a change
//! of the policy.

use super::bytes::{FieldAt, u16_at, u32_at};
use std::fmt;

/// The compression policy of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressionPolicy {
    /// The algorithm: 1 LZ4, 2 ZSTD, 3 LZ4 by QAT hardware.
    pub format: u16,
    /// The level of the algorithm.
    pub level: i16,
    /// The number of bytes that are compressed as one.
    pub chunk: u32,
}

impl CompressionPolicy {
    /// The offset of the policy in the region after the fixed part of the tree header.
    const AT: usize = 0x28;
    const MARK: FieldAt<u32> = FieldAt::new(Self::AT);

    /// The word that the policy begins with: 7 at 3.4, 15 from 3.7 on.
    fn mark(is_old: bool) -> u32 {
        if is_old { 0x07 } else { 0x0F }
    }

    /// Stores that nothing is to be compressed in a region of zeroes.
    pub fn put_none(region: &mut [u8], is_old: bool) {
        Self::MARK.put(region, Self::mark(is_old));
    }

    /// Reads the policy from the region; `None` if nothing is to be compressed.
    pub fn from_bytes(region: &[u8]) -> Option<CompressionPolicy> {
        let bytes = region.get(Self::AT..Self::AT + 12)?;
        let format = u16_at(bytes, 4);
        let is_marked = [true, false].into_iter().any(|is_old| u32_at(bytes, 0) == Self::mark(is_old));
        (is_marked && format != 0).then(|| CompressionPolicy {
            format,
            level: u16_at(bytes, 6) as i16,
            chunk: u32_at(bytes, 8),
        })
    }
}

impl fmt::Display for CompressionPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.format {
            1 => write!(f, "LZ4")?,
            2 => write!(f, "ZSTD")?,
            3 => write!(f, "LZ4 (QAT)")?,
            other => write!(f, "format {other}")?,
        }
        write!(f, ", level {}, {} KiB at a time", self.level, self.chunk / 1024)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read() {
        let mut region = vec![0; 0x200];
        assert_eq!(CompressionPolicy::from_bytes(&region), None);
        region[0x28..0x34].copy_from_slice(&[0x0F, 0, 0, 0, 1, 0, 9, 0, 0, 0, 1, 0]);
        let policy = CompressionPolicy::from_bytes(&region).unwrap();
        assert_eq!(policy.to_string(), "LZ4, level 9, 64 KiB at a time");
        region[0x2C] = 0;
        assert_eq!(CompressionPolicy::from_bytes(&region), None);
        assert_eq!(CompressionPolicy::from_bytes(&region[..0x30]), None);
    }
}
