//! The up-case table: how names compare (exFAT specification, 7.2).

use super::checksum32;
use platter_vfs::{CaseRun, Error, Result, map_by_runs};

/// Units that have a mapping.
const UNITS: usize = 0x1_0000;

/// Stands before a count of units that map to themselves, in a compressed table (7.2.5).
const SAME: u16 = 0xFFFF;

/// From how many units on the recommended table has such a count.
const WORTH: usize = 512;

/// What each of the 65,536 units compares as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upcase(Box<[u16]>);

impl Upcase {
    /// The most bytes of a table on disk: a unit for each, not compressed.
    pub const MOST_BYTES: u64 = 2 * UNITS as u64;

    /// The table that 7.2.5.1 recommends.
    pub fn recommended() -> Upcase {
        Upcase((0..=u16::MAX).map(|unit| map_by_runs(&RECOMMENDED, unit)).collect())
    }

    /// What stands on disk, compressed or not. Units past its end map to themselves.
    ///
    /// # Errors
    /// [`Error::Damaged`] if it goes on after the last unit or maps one of the first 128 otherwise than 7.2.5
    /// prescribes. `offset` is where it stands on the device.
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

    /// The table as it is written, compressed as the recommended one is.
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

    /// What a unit compares as.
    pub fn upper(&self, unit: u16) -> u16 {
        self.0[usize::from(unit)]
    }

    /// A name as it compares.
    pub fn fold(&self, units: &[u16]) -> Box<[u16]> {
        units.iter().map(|&unit| self.upper(unit)).collect()
    }
}

/// The checksum of a table as it stands on disk (7.2.2).
pub fn table_checksum(bytes: &[u8]) -> u32 {
    checksum32(0, bytes)
}

/// The recommended mapping (7.2.5.1, Table 25), as runs of units.
#[rustfmt::skip]
const RECOMMENDED: [CaseRun; 119] = [
    (0x0061, 0x007a, 1, 0x0041), (0x00e0, 0x00f6, 1, 0x00c0), (0x00f8, 0x00fe, 1, 0x00d8),
    (0x00ff, 0x00ff, 1, 0x0178), (0x0101, 0x012f, 2, 0x0100), (0x0133, 0x0137, 2, 0x0132),
    (0x013a, 0x0148, 2, 0x0139), (0x014b, 0x0177, 2, 0x014a), (0x017a, 0x017e, 2, 0x0179),
    (0x0180, 0x0180, 1, 0x0243), (0x0183, 0x0185, 2, 0x0182), (0x0188, 0x0188, 1, 0x0187),
    (0x018c, 0x018c, 1, 0x018b), (0x0192, 0x0192, 1, 0x0191), (0x0195, 0x0195, 1, 0x01f6),
    (0x0199, 0x0199, 1, 0x0198), (0x019a, 0x019a, 1, 0x023d), (0x019e, 0x019e, 1, 0x0220),
    (0x01a1, 0x01a5, 2, 0x01a0), (0x01a8, 0x01a8, 1, 0x01a7), (0x01ad, 0x01ad, 1, 0x01ac),
    (0x01b0, 0x01b0, 1, 0x01af), (0x01b4, 0x01b6, 2, 0x01b3), (0x01b9, 0x01b9, 1, 0x01b8),
    (0x01bd, 0x01bd, 1, 0x01bc), (0x01bf, 0x01bf, 1, 0x01f7), (0x01c6, 0x01c6, 1, 0x01c4),
    (0x01c9, 0x01c9, 1, 0x01c7), (0x01cc, 0x01cc, 1, 0x01ca), (0x01ce, 0x01dc, 2, 0x01cd),
    (0x01dd, 0x01dd, 1, 0x018e), (0x01df, 0x01ef, 2, 0x01de), (0x01f3, 0x01f3, 1, 0x01f1),
    (0x01f5, 0x01f5, 1, 0x01f4), (0x01f9, 0x021f, 2, 0x01f8), (0x0223, 0x0233, 2, 0x0222),
    (0x023a, 0x023a, 1, 0x2c65), (0x023c, 0x023c, 1, 0x023b), (0x023e, 0x023e, 1, 0x2c66),
    (0x0242, 0x0242, 1, 0x0241), (0x0247, 0x024f, 2, 0x0246), (0x0253, 0x0253, 1, 0x0181),
    (0x0254, 0x0254, 1, 0x0186), (0x0256, 0x0257, 1, 0x0189), (0x0259, 0x0259, 1, 0x018f),
    (0x025b, 0x025b, 1, 0x0190), (0x0260, 0x0260, 1, 0x0193), (0x0263, 0x0263, 1, 0x0194),
    (0x0268, 0x0268, 1, 0x0197), (0x0269, 0x0269, 1, 0x0196), (0x026b, 0x026b, 1, 0x2c62),
    (0x026f, 0x026f, 1, 0x019c), (0x0272, 0x0272, 1, 0x019d), (0x0275, 0x0275, 1, 0x019f),
    (0x027d, 0x027d, 1, 0x2c64), (0x0280, 0x0280, 1, 0x01a6), (0x0283, 0x0283, 1, 0x01a9),
    (0x0288, 0x0288, 1, 0x01ae), (0x0289, 0x0289, 1, 0x0244), (0x028a, 0x028b, 1, 0x01b1),
    (0x028c, 0x028c, 1, 0x0245), (0x0292, 0x0292, 1, 0x01b7), (0x037b, 0x037d, 1, 0x03fd),
    (0x03ac, 0x03ac, 1, 0x0386), (0x03ad, 0x03af, 1, 0x0388), (0x03b1, 0x03c1, 1, 0x0391),
    (0x03c2, 0x03c2, 1, 0x03a3), (0x03c3, 0x03cb, 1, 0x03a3), (0x03cc, 0x03cc, 1, 0x038c),
    (0x03cd, 0x03ce, 1, 0x038e), (0x03d9, 0x03ef, 2, 0x03d8), (0x03f2, 0x03f2, 1, 0x03f9),
    (0x03f8, 0x03f8, 1, 0x03f7), (0x03fb, 0x03fb, 1, 0x03fa), (0x0430, 0x044f, 1, 0x0410),
    (0x0450, 0x045f, 1, 0x0400), (0x0461, 0x0481, 2, 0x0460), (0x048b, 0x04bf, 2, 0x048a),
    (0x04c2, 0x04ce, 2, 0x04c1), (0x04cf, 0x04cf, 1, 0x04c0), (0x04d1, 0x0513, 2, 0x04d0),
    (0x0561, 0x0586, 1, 0x0531), (0x1d7d, 0x1d7d, 1, 0x2c63), (0x1e01, 0x1e95, 2, 0x1e00),
    (0x1ea1, 0x1ef9, 2, 0x1ea0), (0x1f00, 0x1f07, 1, 0x1f08), (0x1f10, 0x1f15, 1, 0x1f18),
    (0x1f20, 0x1f27, 1, 0x1f28), (0x1f30, 0x1f37, 1, 0x1f38), (0x1f40, 0x1f45, 1, 0x1f48),
    (0x1f51, 0x1f57, 2, 0x1f59), (0x1f60, 0x1f67, 1, 0x1f68), (0x1f70, 0x1f71, 1, 0x1fba),
    (0x1f72, 0x1f75, 1, 0x1fc8), (0x1f76, 0x1f77, 1, 0x1fda), (0x1f78, 0x1f79, 1, 0x1ff8),
    (0x1f7a, 0x1f7b, 1, 0x1fea), (0x1f7c, 0x1f7d, 1, 0x1ffa), (0x1f80, 0x1f87, 1, 0x1f88),
    (0x1f90, 0x1f97, 1, 0x1f98), (0x1fa0, 0x1fa7, 1, 0x1fa8), (0x1fb0, 0x1fb1, 1, 0x1fb8),
    (0x1fb3, 0x1fb3, 1, 0x1fbc), (0x1fcc, 0x1fcc, 1, 0x1fc3), (0x1fd0, 0x1fd1, 1, 0x1fd8),
    (0x1fe0, 0x1fe1, 1, 0x1fe8), (0x1fe5, 0x1fe5, 1, 0x1fec), (0x1ffc, 0x1ffc, 1, 0x1ff3),
    (0x214e, 0x214e, 1, 0x2132), (0x2170, 0x217f, 1, 0x2160), (0x2184, 0x2184, 1, 0x2183),
    (0x24d0, 0x24e9, 1, 0x24b6), (0x2c30, 0x2c5e, 1, 0x2c00), (0x2c61, 0x2c61, 1, 0x2c60),
    (0x2c68, 0x2c6c, 2, 0x2c67), (0x2c76, 0x2c76, 1, 0x2c75), (0x2c81, 0x2ce3, 2, 0x2c80),
    (0x2d00, 0x2d25, 1, 0x10a0), (0xff41, 0xff5a, 1, 0xff21),
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
