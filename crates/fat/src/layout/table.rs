//! Entries of the file allocation table (fatgen103, "FAT Data Structure").

use super::{FatKind, le16, le32};

/// Returns the masks of two bits of FAT entry 1: "cleanly unmounted" and "no I/O error was met", which are set while
/// all is well (fatgen103, "FAT Data Structure"). FAT12 has none.
pub fn clean_bits(kind: FatKind) -> Option<(u32, u32)> {
    match kind {
        FatKind::Fat12 => None,
        FatKind::Fat16 => Some((0x8000, 0x4000)),
        FatKind::Fat32 => Some((0x0800_0000, 0x0400_0000)),
    }
}

/// Returns entry `index` of `table`, a slice of a FAT that starts at entry 0; `None` if it is beyond the slice.
pub fn get(kind: FatKind, table: &[u8], index: u32) -> Option<u32> {
    let index = index as usize;
    match kind {
        FatKind::Fat12 => {
            let at = index + index / 2;
            let pair = table.get(at..at + 2).map(|pair| le16(pair, 0))?;
            Some(u32::from(if index.is_multiple_of(2) { pair & 0xFFF } else { pair >> 4 }))
        }
        FatKind::Fat16 => table.get(index * 2..index * 2 + 2).map(|entry| u32::from(le16(entry, 0))),
        FatKind::Fat32 => table.get(index * 4..index * 4 + 4).map(|entry| le32(entry, 0) & kind.mask()),
    }
}

/// Sets entry `index` of `table` to the bits of `value` that the kind's entries have. The upper four bits of FAT32's
/// entries are not changed. Returns `false`, without a change, if the entry is beyond the slice.
#[must_use]
pub fn set(kind: FatKind, table: &mut [u8], index: u32, value: u32) -> bool {
    let index = index as usize;
    let value = value & kind.mask();
    let (at, bytes) = match kind {
        FatKind::Fat12 => {
            let at = index + index / 2;
            let Some(pair) = table.get(at..at + 2).map(|pair| le16(pair, 0)) else { return false };
            let value = value as u16;
            let pair =
                if index.is_multiple_of(2) { pair & 0xF000 | value } else { pair & 0x000F | value << 4 };
            (at, u32::from(pair).to_le_bytes())
        }
        FatKind::Fat16 => (index * 2, value.to_le_bytes()),
        FatKind::Fat32 => {
            let Some(old) = table.get(index * 4..index * 4 + 4).map(|entry| le32(entry, 0)) else {
                return false;
            };
            (index * 4, (old & !kind.mask() | value).to_le_bytes())
        }
    };
    let width = if kind == FatKind::Fat32 { 4 } else { 2 };
    match table.get_mut(at..at + width) {
        Some(entry) => {
            entry.copy_from_slice(&bytes[..width]);
            true
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_twelve_bits() {
        // Entries FF8, FFF, 003, 004, FFF as DOS lays them out.
        let table = [0xF8, 0xFF, 0xFF, 0x03, 0x40, 0x00, 0xFF, 0x0F];
        let values: Vec<_> = (0..6).map(|index| get(FatKind::Fat12, &table, index)).collect();
        assert_eq!(values, [Some(0xFF8), Some(0xFFF), Some(3), Some(4), Some(0xFFF), None]);
        let mut built = [0; 8];
        for (index, value) in [0xFF8, 0xFFF, 3, 4, 0xFFF].into_iter().enumerate() {
            assert!(set(FatKind::Fat12, &mut built, index as u32, value));
        }
        assert_eq!(built, table);
    }

    #[test]
    fn setting_changes_one_entry_only() {
        for kind in [FatKind::Fat12, FatKind::Fat16, FatKind::Fat32] {
            let mut table: Vec<u8> = (0..96).map(|at| (at * 37 % 256) as u8).collect();
            let entries = 96 * 8 / kind.bits();
            for index in 0..entries {
                let before: Vec<_> = (0..entries).map(|index| get(kind, &table, index)).collect();
                assert!(set(kind, &mut table, index, 0xABCD_EF12));
                for other in 0..entries {
                    let expected =
                        if other == index { Some(0xABCD_EF12 & kind.mask()) } else { before[other as usize] };
                    assert_eq!(get(kind, &table, other), expected, "{kind:?} {index} {other}");
                }
            }
            let before = table.clone();
            assert!(!set(kind, &mut table, entries, 5));
            assert_eq!(table, before);
        }
    }

    #[test]
    fn the_upper_four_bits_of_fat32_stay() {
        let mut table = [0, 0, 0, 0xA0];
        assert!(set(FatKind::Fat32, &mut table, 0, 0x1234_5678));
        assert_eq!(table, [0x78, 0x56, 0x34, 0xA2]);
        assert_eq!(get(FatKind::Fat32, &table, 0), Some(0x0234_5678));
    }
}
