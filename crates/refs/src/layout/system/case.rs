//! The case mapping of Windows, as its ReFS volumes hold it: the same on 3.4 and 3.14.
//!
//! Its pairs of letters are those of NTFS ([`platter_vfs::windows_upper`]), but both letters of a pair map to the one
//! with the lower number, whichever case it has: U+0178 maps to U+00FF.
//!
//! Source: volumes made by Windows 11, as listed by forefst.

use std::sync::LazyLock;

/// The unit as which `unit` is compared in names.
pub(crate) fn windows_upper(unit: u16) -> u16 {
    LOWER_NUMBERS[usize::from(unit)]
}

/// The unit that each unit maps to.
static LOWER_NUMBERS: LazyLock<Box<[u16]>> = LazyLock::new(|| {
    let mut lower: Box<[u16]> = (0..=u16::MAX).collect();
    for unit in 0..=u16::MAX {
        let upper = platter_vfs::windows_upper(unit);
        let number = unit.min(lower[usize::from(upper)]);
        lower[usize::from(unit)] = number;
        lower[usize::from(upper)] = number;
    }
    lower
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_that_map_to_another() {
        assert_eq!((0..=u16::MAX).filter(|&unit| windows_upper(unit) != unit).count(), 973);
        assert!((0..=u16::MAX).all(|unit| windows_upper(unit) <= platter_vfs::windows_upper(unit)));
        // The checksum of the table that Windows 11 writes.
        let sum = (0..=u16::MAX).flat_map(|unit| windows_upper(unit).to_le_bytes());
        assert_eq!(crc32c::crc32c(&sum.collect::<Vec<u8>>()), 0xAD60_A2C3);
    }

    #[test]
    fn mapping_twice_is_mapping_once() {
        assert!((0..=u16::MAX).all(|unit| windows_upper(windows_upper(unit)) == windows_upper(unit)));
    }

    #[test]
    fn letters() {
        let pairs = [
            ('z', 'Z'),
            ('é', 'É'),
            ('α', 'Α'),
            ('я', 'Я'),
            ('ａ', 'Ａ'),
            ('Ÿ', 'ÿ'),
            ('ß', 'ß'),
            ('5', '5'),
        ];
        pairs.iter().for_each(|&(from, to)| assert_eq!(windows_upper(from as u16), to as u16, "{from}"));
    }
}
