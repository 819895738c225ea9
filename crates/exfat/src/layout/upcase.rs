//! The up-case table, by which names are compared (exFAT specification, 7.2).

use super::checksum32;
use platter_vfs::{CaseRun, Error, Result, map_by_runs, windows_upper};
use std::sync::LazyLock;

/// The number of UTF-16 units in the mapping.
const UNITS: usize = 0x1_0000;

/// In a compressed table, this value precedes the number of units that map to themselves (7.2.5).
const SAME: u16 = 0xFFFF;

// The mark of units that are their own upper case is no unit that has one.
const _: () = assert!(SAME as usize == UNITS - 1);

/// The smallest number of units that the recommended table compresses in this way.
const WORTH: usize = 512;

/// The upper-case unit of each of the 65,536 UTF-16 units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upcase(Box<[u16]>);

impl Upcase {
    /// The most bytes of a table on disk: not compressed, two bytes for each unit.
    pub const MOST_BYTES: u64 = 2 * UNITS as u64;

    /// Returns the table that 7.2.5.1 recommends.
    pub fn recommended() -> Upcase {
        RECOMMENDED.clone()
    }

    /// Parses a table on disk, compressed or not. Units beyond its end map to themselves.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the table has more than 65,536 units, or maps one of the first 128 differently than
    /// 7.2.5 prescribes. `offset` is the table's place on the device.
    pub fn from_bytes(bytes: &[u8], offset: u64) -> Result<Upcase> {
        let mut table: Box<[u16]> = (0..=u16::MAX).collect();
        let mut units = bytes.as_chunks::<2>().0.iter().map(|unit| u16::from_le_bytes(*unit));
        let mut at = 0;
        while let Some(unit) = units.next() {
            if unit == SAME
                && let Some(count) = units.next()
            {
                at += usize::from(count);
                continue;
            }
            match table.get_mut(at) {
                Some(place) => *place = unit,
                None => return Err(Error::damaged("up-case table", offset, "65,536 mappings", "more")),
            }
            at += 1;
        }
        let ascii = |unit: u16| if (0x61..=0x7A).contains(&unit) { unit - 0x20 } else { unit };
        if let Some(wrong) = (0..128).find(|&unit| table[usize::from(unit)] != ascii(unit)) {
            let expected = format!("{:04X} for {wrong:04X}", ascii(wrong));
            let found = format!("{:04X}", table[usize::from(wrong)]);
            return Err(Error::damaged("up-case table", offset, expected, found));
        }
        Ok(Upcase(table))
    }

    /// Returns the table as it is on disk, compressed like the recommended one.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut units = Vec::new();
        let mut at = 0;
        while at < UNITS {
            let same =
                self.0[at..].iter().zip(at..).take_while(|(unit, at)| usize::from(**unit) == *at).count();
            if same >= WORTH {
                let count = same.min(usize::from(u16::MAX));
                units.extend([SAME, count as u16]);
                at += count;
            } else {
                let end = (at + same + 1).min(UNITS);
                units.extend_from_slice(&self.0[at..end]);
                at = end;
            }
        }
        units.into_iter().flat_map(u16::to_le_bytes).collect()
    }

    /// Returns the upper-case unit of a unit.
    pub fn upper(&self, unit: u16) -> u16 {
        self.0[usize::from(unit)]
    }

    /// Returns a name in upper case, for comparisons.
    pub fn fold(&self, units: &[u16]) -> Box<[u16]> {
        units.iter().map(|&unit| self.upper(unit)).collect()
    }
}

/// Returns the checksum of a table on disk, compressed or not (7.2.2).
pub fn table_checksum(bytes: &[u8]) -> u32 {
    checksum32(0, bytes)
}

/// The recommended table, for new volumes and for checks of volumes without a usable table. It is built once.
static RECOMMENDED: LazyLock<Upcase> = LazyLock::new(|| {
    let upper = |unit| map_by_runs(&OTHERWISE, unit).unwrap_or_else(|| windows_upper(unit));
    Upcase((0..=u16::MAX).map(upper).collect())
});

/// The units whose recommended mapping (7.2.5.1, Table 25) differs from today's NTFS: letters that had no upper-case
/// letter yet, or another one. The list is complete: the table has the checksum that the specification states for it.
#[rustfmt::skip]
const OTHERWISE: [CaseRun; 17] = [
    (0x023a, 0x023a, 1, 0x2c65), (0x023e, 0x023e, 1, 0x2c66), (0x0250, 0x0251, 1, 0x0250),
    (0x0271, 0x0271, 1, 0x0271), (0x0371, 0x0377, 2, 0x0371), (0x03c2, 0x03c2, 1, 0x03a3),
    (0x03d7, 0x03d7, 1, 0x03d7), (0x0515, 0x0523, 2, 0x0515), (0x1d79, 0x1d79, 1, 0x1d79),
    (0x1efb, 0x1eff, 2, 0x1efb), (0x1fc3, 0x1fc3, 1, 0x1fc3), (0x1fcc, 0x1fcc, 1, 0x1fc3),
    (0x1ff3, 0x1ff3, 1, 0x1ff3), (0x1ffc, 0x1ffc, 1, 0x1ff3), (0x2c65, 0x2c66, 1, 0x2c65),
    (0x2c73, 0x2c73, 1, 0x2c73), (0xa641, 0xa78c, 1, 0xa641),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recommended_table_has_the_checksum_that_the_specification_states() {
        let bytes = Upcase::recommended().to_bytes();
        assert_eq!((bytes.len(), table_checksum(&bytes)), (2918 * 2, 0xE619_D30D));
        assert_eq!(Upcase::from_bytes(&bytes, 0).unwrap(), Upcase::recommended());
    }

    #[test]
    fn a_table_that_is_not_compressed_is_read() {
        let table = Upcase::recommended();
        let bytes: Vec<u8> = table.0.iter().flat_map(|unit| unit.to_le_bytes()).collect();
        assert_eq!(Upcase::from_bytes(&bytes, 0).unwrap(), table);
    }

    #[test]
    fn the_first_128_are_prescribed() {
        let mut bytes = Upcase::recommended().to_bytes();
        bytes[2 * 0x61] = 0x61;
        assert!(Upcase::from_bytes(&bytes, 0).is_err());
        assert!(Upcase::from_bytes(&[0; 4], 0).is_err());
        let long = [SAME, 0x61].into_iter().chain(0x41..0x5B).chain([SAME, 0xFF85, SAME, 0xFFFF, 5]);
        let bytes: Vec<u8> = long.flat_map(u16::to_le_bytes).collect();
        assert!(Upcase::from_bytes(&bytes, 0).is_err());
    }
}
