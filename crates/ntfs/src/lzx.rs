//! LZX with a window of 32 KiB, as images of Windows (WIM) have it: how Windows Overlay Filter packs chunks of 32 KiB for
//! files that are seldom read.
//!
//! A chunk is a row of blocks. Most blocks begin with the lengths of their Huffman codes, which are given as differences
//! to those of the block before: one code for bytes and copies, one for long copies, and in some blocks one for the low
//! bits of how far back a copy is. The last three distances have symbols of their own. Machine code was changed before
//! it was packed: the targets of call instructions are absolute, so that equal ones look equal.
//!
//! Source: Microsoft, \[MS-PATCH\] 2 (LZX DELTA, of which this is the older form), and the description of the differences
//! in wimlib's documentation of the format.

use crate::huffman::{Bits, Code};
use crate::xpress::copy_back;
use platter_vfs::bytes::u32_at;

/// Position slots of a window of 32 KiB.
const SLOTS: usize = 30;
/// Symbols of the main code: bytes, and for each slot eight lengths.
const MAIN: usize = 256 + 8 * SLOTS;
/// Symbols of the code of long copies.
const LONG: usize = 249;
/// Symbols of the code that the lengths of the other codes are packed with.
const LENGTHS: usize = 20;
/// The length of the shortest copy in bytes.
const SHORTEST: usize = 2;
/// The block size that a single bit stands for.
const USUAL_BLOCK: usize = 0x8000;
/// The size that is taken for that of the file when call instructions are changed.
const CALLS: i32 = 12_000_000;

type Outcome<T> = Result<T, &'static str>;

const SHORT: &str = "it ends before the chunk does";
const OVERLAP: &str = "its codes overlap";
const NO_SYMBOL: &str = "it has a code of no symbol";

/// What a chunk's blocks pass on to the next one.
struct Unpacker<'p, 'o> {
    packed: &'p [u8],
    bits: Bits<'p>,
    out: &'o mut [u8],
    filled: usize,
    /// The last three distances.
    recent: [u32; 3],
    main: [u8; MAIN],
    long: [u8; LONG],
}

/// Unpacks a chunk into the whole of `out`, which has at most 32 KiB; `Err` says what is wrong.
pub(crate) fn decompress(packed: &[u8], out: &mut [u8]) -> Outcome<()> {
    let mut unpacker = Unpacker {
        packed,
        bits: Bits::new(packed),
        out: &mut *out,
        filled: 0,
        recent: [1; 3],
        main: [0; MAIN],
        long: [0; LONG],
    };
    while unpacker.filled < unpacker.out.len() {
        unpacker.block()?;
    }
    restore_calls(out);
    Ok(())
}

impl Unpacker<'_, '_> {
    fn block(&mut self) -> Outcome<()> {
        let kind = self.bits.take(3);
        let size = match self.bits.take(1) {
            1 => USUAL_BLOCK,
            _ => self.bits.take(16) as usize,
        };
        if self.bits.is_past_end() {
            return Err(SHORT);
        }
        let end = self.filled + size;
        if size == 0 || end > self.out.len() {
            return Err("a block has no bytes, or ends behind the chunk");
        }
        match kind {
            1 => self.coded(end, None),
            2 => {
                let lengths: [u8; 8] = std::array::from_fn(|_| self.bits.take(3) as u8);
                self.coded(end, Some(Code::new(&lengths).ok_or(OVERLAP)?))
            }
            3 => self.plain(end),
            _ => Err("a block is of no known kind"),
        }
    }

    /// A block whose bytes are not packed.
    fn plain(&mut self, end: usize) -> Outcome<()> {
        let at = self.bits.align();
        let start = at + 12;
        let size = end - self.filled;
        let bytes = self.packed.get(start..start + size).ok_or(SHORT)?;
        self.recent = std::array::from_fn(|index| u32_at(self.packed, at + 4 * index));
        self.out[self.filled..end].copy_from_slice(bytes);
        self.filled = end;
        // Words begin at even offsets.
        self.bits = Bits::from(self.packed, start + size.next_multiple_of(2));
        Ok(())
    }

    /// A block of symbols; `aligned` is the code of the low bits of distances.
    fn coded(&mut self, end: usize, aligned: Option<Code>) -> Outcome<()> {
        let mut main = self.main;
        self.lengths(&mut main[..256])?;
        self.lengths(&mut main[256..])?;
        let mut long = self.long;
        self.lengths(&mut long)?;
        (self.main, self.long) = (main, long);
        let (main, long) = (Code::new(&main).ok_or(OVERLAP)?, Code::new(&long).ok_or(OVERLAP)?);
        while self.filled < end {
            let symbol = main.symbol(&mut self.bits).ok_or(NO_SYMBOL)?;
            if let Some(copy) = symbol.checked_sub(256) {
                let mut length = copy % 8;
                if length == 7 {
                    length += long.symbol(&mut self.bits).ok_or(NO_SYMBOL)?;
                }
                let distance = self.distance(copy / 8, aligned.as_ref())?;
                let length = length + SHORTEST;
                copy_back(&mut self.out[..end], self.filled, distance, length)?;
                self.filled += length;
            } else {
                self.out[self.filled] = symbol as u8;
                self.filled += 1;
            }
            if self.bits.is_past_end() {
                return Err(SHORT);
            }
        }
        Ok(())
    }

    /// How far back a copy of this position slot is.
    fn distance(&mut self, slot: usize, aligned: Option<&Code>) -> Outcome<usize> {
        if slot < 3 {
            self.recent.swap(0, slot);
            return Ok(self.recent[0] as usize);
        }
        // Slots come in pairs; from the third pair on, each pair has one bit more than the one before.
        let more = (slot as u32 / 2).saturating_sub(1);
        let base = if slot < 4 { slot as u32 } else { (2 + slot as u32 % 2) << more };
        let rest = match aligned {
            Some(code) if more >= 3 => {
                let high = self.bits.take(more - 3) << 3;
                high + code.symbol(&mut self.bits).ok_or(NO_SYMBOL)? as u32
            }
            _ => self.bits.take(more),
        };
        let distance = base + rest - 2;
        self.recent = [distance, self.recent[0], self.recent[1]];
        Ok(distance as usize)
    }

    /// Reads code lengths, given as differences to those that `lengths` has.
    fn lengths(&mut self, lengths: &mut [u8]) -> Outcome<()> {
        let own: [u8; LENGTHS] = std::array::from_fn(|_| self.bits.take(4) as u8);
        let code = Code::new(&own).ok_or(OVERLAP)?;
        let mut at = 0;
        while at < lengths.len() {
            let symbol = code.symbol(&mut self.bits).ok_or(NO_SYMBOL)?;
            let less = |before: u8, symbol: usize| (17 + before - symbol as u8) % 17;
            let (count, length) = match symbol {
                17 => (4 + self.bits.take(4) as usize, 0),
                18 => (20 + self.bits.take(5) as usize, 0),
                19 => {
                    let count = 4 + self.bits.take(1) as usize;
                    match code.symbol(&mut self.bits).ok_or(NO_SYMBOL)? {
                        symbol @ ..17 => (count, less(lengths[at], symbol)),
                        _ => return Err("a run of code lengths is repeated"),
                    }
                }
                symbol => (1, less(lengths[at], symbol)),
            };
            if self.bits.is_past_end() {
                return Err(SHORT);
            }
            let run = lengths.get_mut(at..at + count).ok_or("there are more code lengths than symbols")?;
            run.fill(length);
            at += count;
        }
        Ok(())
    }
}

/// Makes the targets of call instructions (E8 of x86) relative again, as they were before the chunk was packed.
fn restore_calls(out: &mut [u8]) {
    let end = out.len().saturating_sub(10);
    let mut at = 0;
    while at < end {
        if out[at] != 0xE8 {
            at += 1;
            continue;
        }
        let (target, here) = (u32_at(out, at + 1) as i32, at as i32);
        let relative = match target {
            0..CALLS => Some(target - here),
            _ if target < 0 && target >= -here => Some(target + CALLS),
            _ => None,
        };
        if let Some(relative) = relative {
            out[at + 1..at + 5].copy_from_slice(&relative.to_le_bytes());
        }
        at += 5;
    }
}
