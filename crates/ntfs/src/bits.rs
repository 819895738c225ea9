//! A row of bits in memory, of which ranges are set, cleared and looked for.

use std::ops::Range;

/// Bits, all 0 at first.
#[derive(Clone, Debug, Default)]
pub struct Bits {
    words: Vec<u64>,
    length: u64,
}

impl Bits {
    /// So many bits.
    pub fn new(length: u64) -> Bits {
        Bits { words: vec![0; length.div_ceil(64) as usize], length }
    }

    /// Bits as they stand on disk: the lowest of each byte first. Those that `bytes` lacks are 1.
    pub fn from_bytes(bytes: &[u8], length: u64) -> Bits {
        let mut bits = Bits::new(length);
        for (index, word) in bits.words.iter_mut().enumerate() {
            let rest = bytes.get(index * 8..).unwrap_or(&[]);
            let mut eight = [0xFF; 8];
            let known = rest.len().min(8);
            eight[..known].copy_from_slice(&rest[..known]);
            *word = u64::from_le_bytes(eight);
        }
        bits.mask_tail();
        bits
    }

    fn mask_tail(&mut self) {
        if let (Some(last), 1..) = (self.words.last_mut(), self.length % 64) {
            *last &= (1 << (self.length % 64)) - 1;
        }
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Makes it longer by bits that are 0.
    pub fn grow(&mut self, length: u64) {
        self.length = self.length.max(length);
        self.words.resize(self.length.div_ceil(64) as usize, 0);
    }

    /// Makes it shorter.
    pub fn shrink(&mut self, length: u64) {
        self.length = self.length.min(length);
        self.words.truncate(self.length.div_ceil(64) as usize);
        self.mask_tail();
    }

    /// Whether a bit is 1; one that is not there is not.
    pub fn get(&self, at: u64) -> bool {
        self.words.get((at / 64) as usize).is_some_and(|word| word >> (at % 64) & 1 != 0)
    }

    /// Sets a range, which must be inside, to `value`.
    pub fn put(&mut self, range: Range<u64>, value: bool) {
        let mut at = range.start;
        while at < range.end {
            let end = (at / 64 * 64 + 64).min(range.end);
            let ones = if end - at == 64 { !0 } else { ((1u64 << (end - at)) - 1) << (at % 64) };
            let word = &mut self.words[(at / 64) as usize];
            if value {
                *word |= ones
            } else {
                *word &= !ones
            }
            at = end;
        }
    }

    /// How many of a range are 1.
    pub fn ones(&self, range: Range<u64>) -> u64 {
        let mut at = range.start;
        let mut count = 0;
        while at < range.end {
            let end = (at / 64 * 64 + 64).min(range.end);
            let ones = if end - at == 64 { !0 } else { ((1u64 << (end - at)) - 1) << (at % 64) };
            count += u64::from((self.words[(at / 64) as usize] & ones).count_ones());
            at = end;
        }
        count
    }

    /// The first bit of this value from `from` on and before `to`; `to` if there is none.
    pub fn next(&self, value: bool, from: u64, to: u64) -> u64 {
        let to = to.min(self.length);
        let mut at = from;
        while at < to {
            let word = self.words[(at / 64) as usize];
            let word = if value { word } else { !word } >> (at % 64);
            if word != 0 {
                return (at + u64::from(word.trailing_zeros())).min(to);
            }
            at = at / 64 * 64 + 64;
        }
        to
    }

    /// The bytes of a part, as they stand on disk; what is past the end is 1 where `pad`, else 0.
    pub fn bytes(&self, from_byte: u64, length: usize, pad: bool) -> Vec<u8> {
        let byte = |at: u64| -> u8 {
            let word = self.words.get((at / 8) as usize).copied().unwrap_or(0);
            let byte = (word >> (at % 8 * 8)) as u8;
            match self.length.saturating_sub(at * 8) {
                inside @ 0..8 if pad => byte | 0xFFu8.checked_shl(inside as u32).unwrap_or(0),
                _ => byte,
            }
        };
        (from_byte..from_byte + length as u64).map(byte).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_set_counted_and_found() {
        let mut bits = Bits::new(1000);
        bits.put(5..200, true);
        bits.put(70..80, false);
        assert_eq!(bits.ones(0..1000), 185);
        assert_eq!(bits.next(false, 5, 1000), 70);
        assert_eq!(bits.next(true, 70, 1000), 80);
        assert_eq!(bits.next(true, 200, 1000), 1000);
        assert_eq!(bits.next(false, 10, 60), 60);
        let bytes = bits.bytes(0, 128, true);
        assert_eq!((bytes[0], bytes[124], bytes[125]), (0xE0, 0, 0xFF));
        assert_eq!(Bits::from_bytes(&bytes, 1000).ones(0..1000), 185);
        assert_eq!(Bits::new(4).bytes(0, 1, true), [0xF0]);
    }
}
