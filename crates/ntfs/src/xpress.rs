//! XPRESS with Huffman codes: how Windows Overlay Filter packs chunks of 4, 8 and 16 KiB.
//!
//! A chunk begins with the lengths of the codes of 512 symbols, 4 bits each. A symbol below 256 is a byte; each other
//! one is a copy of bytes that the chunk gave before, and says how long the copy is and how many bits of how far back it
//! is follow.
//!
//! Source: Microsoft, \[MS-XCA\] 2.2 (LZ77+Huffman Decompression Algorithm Details).

use crate::huffman::{Bits, Code};

/// Bytes of the table of code lengths.
const TABLE: usize = 256;
/// The length of the shortest copy in bytes.
const SHORTEST: usize = 3;

/// Unpacks a chunk into the whole of `out`, which has at most 64 KiB; `Err` says what is wrong.
pub(crate) fn decompress(packed: &[u8], out: &mut [u8]) -> Result<(), &'static str> {
    let table = packed.get(..TABLE).ok_or("it ends inside its table of codes")?;
    let lengths: Vec<u8> = table.iter().flat_map(|byte| [byte & 0xF, byte >> 4]).collect();
    let code = Code::new(&lengths).ok_or("its codes overlap")?;
    let mut bits = Bits::from(packed, TABLE);
    let mut filled = 0;
    while filled < out.len() {
        let symbol = code.symbol(&mut bits).ok_or("it has a code of no symbol")?;
        if bits.is_past_end() {
            return Err("it ends before the chunk does");
        }
        if symbol < 256 {
            out[filled] = symbol as u8;
            filled += 1;
            continue;
        }
        let copy = symbol - 256;
        let mut length = copy % 16;
        if length == 15 {
            length = long(&mut bits).ok_or("it ends inside a copy")?;
        }
        let distance_bits = (copy / 16) as u32;
        let distance = (1 << distance_bits) + bits.take(distance_bits) as usize;
        copy_back(out, filled, distance, length + SHORTEST)?;
        filled += length + SHORTEST;
    }
    match bits.is_past_end() {
        true => Err("it ends before the chunk does"),
        false => Ok(()),
    }
}

/// The length of a copy that a symbol has no room for, less [`SHORTEST`].
fn long(bits: &mut Bits<'_>) -> Option<usize> {
    let short = usize::from(bits.byte()?);
    if short < 255 {
        return Some(short + 15);
    }
    let mut word = || Some(usize::from(bits.byte()?) | usize::from(bits.byte()?) << 8);
    let long = match word()? {
        // A length of 64 KiB or more has 32 bits: longer than any chunk.
        0 => word()? | word()? << 16,
        long => long,
    };
    (long >= 15).then_some(long)
}

/// Copies `length` bytes within `out` to `at`, from `distance` bytes before it. The copy may reach into itself, and then
/// repeats.
pub(crate) fn copy_back(
    out: &mut [u8],
    at: usize,
    distance: usize,
    length: usize,
) -> Result<(), &'static str> {
    let from = at.checked_sub(distance).ok_or("a copy begins before the chunk")?;
    let end = at.checked_add(length).filter(|end| *end <= out.len()).ok_or("a copy ends behind the chunk")?;
    if distance >= length {
        out.copy_within(from..from + length, at);
    } else {
        for place in at..end {
            out[place] = out[place - distance];
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(lengths: &[(usize, u8)]) -> Vec<u8> {
        let mut table = vec![0; TABLE];
        for &(symbol, length) in lengths {
            table[symbol / 2] |= length << (symbol % 2 * 4);
        }
        table
    }

    /// The two examples of \[MS-XCA\] 3.2: the alphabet, and "abc" a hundred times.
    #[test]
    fn the_examples_of_the_specification() {
        let mut packed = vec![0; 0x30];
        packed.extend([0x50, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x45, 0x44, 0x04]);
        packed.resize(0x80, 0);
        packed.push(0x04);
        packed.resize(TABLE, 0);
        packed.extend([0xD8, 0x52, 0x3E, 0xD7, 0x94, 0x11, 0x5B, 0xE9, 0x19, 0x5F, 0xF9, 0xD6]);
        packed.extend([0x7C, 0xDF, 0x8D, 0x04, 0x00, 0x00, 0x00, 0x00]);
        let mut out = [0; 26];
        decompress(&packed, &mut out).unwrap();
        assert_eq!(&out, b"abcdefghijklmnopqrstuvwxyz");

        let mut packed = vec![0; 0x30];
        packed.extend([0x30, 0x23]);
        packed.resize(TABLE, 0);
        (packed[0x80], packed[0x8F]) = (0x02, 0x20);
        packed.extend([0xA8, 0xDC, 0x00, 0x00, 0xFF, 0x26, 0x01]);
        let mut out = [0; 300];
        let outcome = decompress(&packed, &mut out);
        assert_eq!((outcome, out.to_vec()), (Ok(()), b"abc".repeat(100)));
    }

    #[test]
    fn damage_is_named() {
        let mut out = [0; 8];
        let mut fails = |packed: &[u8]| decompress(packed, &mut out).unwrap_err();
        assert!(fails(&[0; 255]).contains("table"));
        assert!(fails(&[0; 300]).contains("no symbol"));
        assert!(fails(&[0x11; 300]).contains("overlap"));
        assert!(fails(&table(&[(65, 1), (66, 1)])).contains("ends before"));
        // A copy as the first symbol, and one that is longer than the chunk.
        let with = |lengths, more: &[u8]| [&table(lengths)[..], more].concat();
        assert!(fails(&with(&[(65, 1), (256, 1)], &[0, 0x80, 0, 0])).contains("before the chunk"));
        assert!(fails(&with(&[(65, 1), (256 + 14, 1)], &[0, 0x40, 0, 0])).contains("behind the chunk"));
        assert!(fails(&with(&[(65, 1), (256 + 15, 1)], &[0, 0x40, 0, 0])).contains("inside a copy"));
    }
}
