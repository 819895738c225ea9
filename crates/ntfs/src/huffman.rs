//! Huffman codes and the bit order that the two packings of Windows Overlay Filter share: a stream of 16-bit words, each
//! little-endian, whose bits are read from the highest down.
//!
//! Source: Microsoft, \[MS-XCA\] 2.2 (LZ77+Huffman) and \[MS-PATCH\] 2 (LZX).

use platter_vfs::bytes::u16_at;

/// The longest code in bits.
const LONGEST: usize = 16;

/// Reads a stream bit by bit. Words are taken ahead: at least 16 bits are always in memory, as \[MS-XCA\] 2.2.4 has it,
/// because single bytes of the stream stand between its words.
pub(crate) struct Bits<'b> {
    bytes: &'b [u8],
    /// The next byte that is not in memory.
    at: usize,
    /// The bits in memory, from the highest on.
    held: u32,
    /// The number of bits in memory, 16 to 32.
    count: u32,
    /// Bits in memory that are behind the end of the stream.
    beyond: u32,
}

impl<'b> Bits<'b> {
    /// A reader of a stream from its start.
    pub(crate) fn new(bytes: &'b [u8]) -> Bits<'b> {
        Bits::from(bytes, 0)
    }

    /// A reader that begins at byte `at`.
    pub(crate) fn from(bytes: &'b [u8], at: usize) -> Bits<'b> {
        let mut bits = Bits { bytes, at, held: 0, count: 0, beyond: 0 };
        bits.fill();
        bits.fill();
        bits
    }

    fn fill(&mut self) {
        if self.at + 2 > self.bytes.len() {
            self.beyond += 16;
        }
        self.held |= u32::from(u16_at(self.bytes, self.at)) << (16 - self.count);
        self.count += 16;
        self.at += 2;
    }

    /// Whether bits were taken that the stream does not have.
    pub(crate) fn is_past_end(&self) -> bool {
        self.beyond > self.count
    }

    /// The next `count` bits, at most 16.
    pub(crate) fn take(&mut self, count: u32) -> u32 {
        if count == 0 {
            return 0;
        }
        let bits = self.held >> (32 - count);
        self.held <<= count;
        self.count -= count;
        if self.count < 16 {
            self.fill();
        }
        bits
    }

    /// The next single byte: the one behind the words in memory.
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.at).copied()?;
        self.at += 1;
        Some(byte)
    }

    /// Drops the bits up to the next word, a whole word if there are none, and returns the offset of what follows it.
    pub(crate) fn align(&mut self) -> usize {
        let rest = match self.count % 16 {
            0 => 16,
            rest => rest,
        };
        self.at - ((self.count - rest) / 8) as usize
    }

    fn peek(&self) -> u32 {
        self.held >> 16
    }
}

/// A canonical Huffman code: shorter codes come first, and among those of one length the ones of lower symbols.
pub(crate) struct Code {
    /// For each length, the first code of a greater length, as 16 bits.
    ends: [u32; LONGEST + 1],
    /// For each length, its first code, as 16 bits, and the place of its symbol among `symbols`.
    starts: [(u32, u32); LONGEST + 1],
    symbols: Vec<u16>,
}

impl Code {
    /// The code in which each symbol has a code of this length in bits; 0 for a symbol without one. `None` if a length
    /// is more than 16, or if there are more codes than the lengths allow.
    pub(crate) fn new(lengths: &[u8]) -> Option<Code> {
        let mut counts = [0u32; LONGEST + 1];
        for length in lengths {
            *counts.get_mut(usize::from(*length))? += 1;
        }
        let mut code = Code {
            ends: [0; LONGEST + 1],
            starts: [(0, 0); LONGEST + 1],
            symbols: Vec::with_capacity(lengths.len()),
        };
        let (mut next, mut index) = (0u32, 0u32);
        for (length, count) in counts.into_iter().enumerate().skip(1) {
            code.starts[length] = (next, index);
            next += count << (LONGEST - length);
            index += count;
            code.ends[length] = next;
            if next > 1 << LONGEST {
                return None;
            }
            let of_length = lengths.iter().zip(0..).filter(|(one, _)| usize::from(**one) == length);
            code.symbols.extend(of_length.map(|(_, symbol): (_, u16)| symbol));
        }
        Some(code)
    }

    /// The next symbol; `None` if no symbol has the code that follows.
    pub(crate) fn symbol(&self, bits: &mut Bits<'_>) -> Option<usize> {
        let ahead = bits.peek();
        let length = (1..=LONGEST).find(|length| ahead < self.ends[*length])?;
        let (first, index) = self.starts[length];
        bits.take(length as u32);
        let place = index + ((ahead - first) >> (LONGEST - length));
        self.symbols.get(place as usize).map(|symbol| usize::from(*symbol))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_come_from_the_highest_of_each_word() {
        let mut bits = Bits::new(&[0x34, 0x12, 0x78, 0x56, 0xAA, 0x80, 0xFF]);
        assert_eq!((bits.take(4), bits.take(12), bits.take(0), bits.take(8)), (1, 0x234, 0, 0x56));
        assert_eq!(bits.at, 6);
        assert_eq!((bits.byte(), bits.byte()), (Some(0xFF), None));
        assert_eq!((bits.take(8), bits.take(16), bits.is_past_end()), (0x78, 0x80AA, false));
        bits.take(1);
        assert!(bits.is_past_end());
    }

    #[test]
    fn a_word_is_dropped_where_none_is_begun() {
        let bytes = [0; 12];
        let mut bits = Bits::new(&bytes);
        assert_eq!(bits.align(), 2);
        bits.take(1);
        assert_eq!(bits.align(), 2);
        bits.take(16);
        assert_eq!(bits.align(), 4);
        bits.take(15);
        assert_eq!(bits.align(), 6);
    }

    #[test]
    fn codes_are_canonical() {
        let code = Code::new(&[2, 0, 1, 3, 3]).unwrap();
        // 0 is symbol 2, 10 symbol 0, 110 symbol 3, 111 symbol 4.
        let word: u16 = 0b0101_1011_1010_1100;
        let bytes = word.to_le_bytes();
        let mut bits = Bits::new(&bytes);
        let symbols: Vec<_> = (0..7).map_while(|_| code.symbol(&mut bits)).collect();
        assert_eq!(symbols, [2, 0, 3, 4, 2, 0, 3]);
        assert!(Code::new(&[1, 1, 1]).is_none(), "too many codes");
        assert!(Code::new(&[17]).is_none(), "too long");
        let code = Code::new(&[0, 2]).unwrap();
        assert_eq!(code.symbol(&mut Bits::new(&[0xFF, 0xFF])), None, "nobody's code");
        assert_eq!(Code::new(&[]).unwrap().symbol(&mut Bits::new(&[])), None);
    }
}
