//! Update sequences: how a block of several sectors shows that it was written whole.
//!
//! The last two bytes of every 512 are replaced by one number, the same in the whole block and another one at every
//! write; the replaced bytes are kept in an array in the block's header. The 512 bytes do not depend on the size of the
//! device's sectors. FILE, INDX, RSTR and RCRD blocks are protected so.

use super::bytes::{put, u16_at};
use platter_vfs::{Error, Result};

/// Bytes that one copy of the sequence's number protects.
pub const STRIDE: usize = 512;

/// How many 2-byte fields the array of a block of `length` bytes has: the number itself and one for each stride.
pub fn fields(length: usize) -> usize {
    length / STRIDE + 1
}

/// Checks that the block was written whole, and puts back what the update sequence replaced.
///
/// # Errors
/// If the array is not inside the block's first stride or does not fit its length, or a stride has another number.
pub fn remove(block: &mut [u8], structure: &'static str, at: u64) -> Result<()> {
    let (offset, count) = (usize::from(u16_at(block, 4)), usize::from(u16_at(block, 6)));
    let end = offset + count * 2;
    if !block.len().is_multiple_of(STRIDE) || count != fields(block.len()) {
        let expected = format!("an update sequence of {} numbers", fields(block.len()));
        return Err(Error::damaged(structure, at + 6, expected, count));
    }
    if offset < 8
        || !offset.is_multiple_of(2)
        || end > STRIDE - 2 && block.len() > STRIDE
        || end > block.len()
    {
        return Err(Error::damaged(structure, at + 4, "an update sequence in the first 510 bytes", offset));
    }
    let number = u16_at(block, offset);
    for stride in 1..count {
        let place = stride * STRIDE - 2;
        let found = u16_at(block, place);
        if found != number {
            let expected = format!("update sequence number {number:#06x}");
            return Err(Error::damaged(structure, at + place as u64, expected, format!("{found:#06x}")));
        }
    }
    for stride in 1..count {
        block.copy_within(offset + stride * 2..offset + stride * 2 + 2, stride * STRIDE - 2);
    }
    Ok(())
}

/// [`remove`] for a block that may be damaged: puts back what the update sequence replaced, and returns the strides that
/// end with another number than the sequence's, counted from 0. If the header says something impossible of the array,
/// it is taken to be at `usual`, and the header is set to that.
pub fn remove_loosely(block: &mut [u8], usual: usize) -> Vec<usize> {
    let count = fields(block.len());
    let (offset, stated) = (usize::from(u16_at(block, 4)), usize::from(u16_at(block, 6)));
    let is_possible = stated == count
        && offset >= 8
        && offset.is_multiple_of(2)
        && offset + count * 2 <= (STRIDE - 2).min(block.len());
    let offset = if is_possible { offset } else { usual };
    put(block, 4, offset as u16);
    put(block, 6, count as u16);
    let number = u16_at(block, offset);
    let torn =
        (1..count).filter(|stride| u16_at(block, stride * STRIDE - 2) != number).map(|stride| stride - 1);
    let torn = torn.collect();
    for stride in 1..count {
        block.copy_within(offset + stride * 2..offset + stride * 2 + 2, stride * STRIDE - 2);
    }
    torn
}

/// Gives the block the next number of its sequence, and puts that at the end of every stride. The header must name an
/// array that [`remove`] would accept.
pub fn apply(block: &mut [u8]) {
    let offset = usize::from(u16_at(block, 4));
    // 0 and 0xFFFF are left out: they are what blank media hold.
    let number = match u16_at(block, offset).wrapping_add(1) {
        0 | 0xFFFF => 1,
        number => number,
    };
    put(block, offset, number);
    for stride in 1..fields(block.len()) {
        let place = stride * STRIDE - 2;
        block.copy_within(place..place + 2, offset + stride * 2);
        put(block, place, number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_replaced_comes_back_and_a_torn_block_shows() {
        let mut block: Vec<u8> = (0..1024u32).map(|byte| byte as u8).collect();
        put(&mut block, 4, 0x30u16);
        put(&mut block, 6, 3u16);
        let before = block.clone();
        apply(&mut block);
        assert_eq!(block[510..512], block[1022..1024]);
        assert_ne!(block[510..512], before[510..512]);
        let mut torn = block.clone();
        torn[1022] ^= 1;
        assert!(remove(&mut torn, "FILE record", 0).is_err());
        remove(&mut block, "FILE record", 0).unwrap();
        assert_eq!(block[0x36..], before[0x36..]);
    }
}
