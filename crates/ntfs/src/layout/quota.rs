//! `$Quota`, which counts the bytes that each owner's files take.
//!
//! Only Windows counts them. A driver that does not says so: it marks the counts as out of date, and Windows counts anew when
//! it mounts the volume. Source: the Linux-NTFS project's documentation of `$Quota` (`QUOTA_FLAG_OUT_OF_DATE`), and
//! [MS-FSCC] 2.5.2 on what is tracked and enforced.

use super::bytes::{put, u16_at, u32_at};

/// The name of the file in `$Extend`.
pub const NAME: &str = "$Quota";
/// The key of the entry, in the index `$Q`, with the state of all counts.
pub const DEFAULTS: u32 = 1;

/// Flags of that entry.
mod flags {
    /// Bytes are counted.
    pub(super) const TRACKING: u32 = 0x10;
    /// Bytes are to be counted.
    pub(super) const TRACKING_REQUESTED: u32 = 0x40;
    /// The counts are to be made anew.
    pub(super) const OUT_OF_DATE: u32 = 0x200;
    /// Owners without files are to be removed.
    pub(super) const PENDING_DELETES: u32 = 0x800;
}

/// Marks the counts as out of date in the entry (with its header) that has the key [`DEFAULTS`]. Returns whether bytes are
/// counted on the volume; if not, nothing is marked.
pub fn mark(entry: &mut [u8]) -> bool {
    let at = usize::from(u16_at(entry, 0)) + 4;
    let old = u32_at(entry, at);
    let is_counted = old & (flags::TRACKING | flags::TRACKING_REQUESTED | flags::PENDING_DELETES) != 0;
    if is_counted && at + 4 <= entry.len() {
        put(entry, at, old | flags::OUT_OF_DATE);
    }
    is_counted
}

/// The place of the entry with the key [`DEFAULTS`] in the root of the index `$Q`, if it is there.
pub fn defaults_in_root(root: &[u8]) -> Option<std::ops::Range<usize>> {
    const HEADER: usize = 0x10;
    let mut at = HEADER.checked_add(u32_at(root, HEADER) as usize)?;
    while at + HEADER <= root.len() {
        let length = usize::from(u16_at(root, at + 8));
        if length < HEADER || at + length > root.len() {
            return None;
        }
        if u16_at(root, at + 0x0A) == 4 && u32_at(root, at + HEADER) == DEFAULTS {
            return Some(at..at + length);
        }
        at += length;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::index::view_entry;

    #[test]
    fn only_counts_are_marked() {
        for (before, after) in [(0x11, 0x211), (0x40, 0x240), (0x800, 0xA00), (0x210, 0x210), (1, 1), (0, 0)]
        {
            let data: Vec<u8> = [2u32, before].map(u32::to_le_bytes).concat();
            let mut entry = view_entry(&DEFAULTS.to_le_bytes(), &data);
            assert_eq!(mark(&mut entry), before & 0x850 != 0, "{before:#x}");
            assert_eq!(u32_at(&entry, 0x18), after, "{before:#x}");
        }
        assert!(!mark(&mut []));
        let mut short = [0xFF; 20];
        mark(&mut short);
        assert_eq!(short, [0xFF; 20], "what is behind the entry is left alone");
    }
}
