//! Entries whose type has one wrong bit.

use crate::layout::{EntrySet, SLOT, kind, set_checksum};

/// Whether an entry's type would be that of a file if one bit of it were different, or is that.
pub(super) fn is_nearly(slot: &[u8; SLOT], kind: u8) -> bool {
    (slot[0] ^ kind).count_ones() <= 1
}

/// Whether the slots of a primary entry of another type are those of a file whose type has one wrong bit.
pub(super) fn is_file(slots: &[[u8; SLOT]]) -> bool {
    if !is_nearly(&slots[0], kind::FILE) {
        return false;
    }
    let Some(set) = slots.get(..usize::from(slots[0][1]) + 1) else { return false };
    let mut set = set.to_vec();
    set[0][0] = kind::FILE;
    EntrySet::read_loosely(&set).is_ok_and(|set| set_checksum(set.slots()) == set.checksum())
}
