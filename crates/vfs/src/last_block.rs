//! The block in which a file ends, which is written whole.

use std::ops::Range;

/// The size in bytes of the pages in which kernels cache a device, and of the physical sectors of most disks. The rest of
/// a block that is written in part has to be read first, by the kernel or by the disk.
pub const BLOCK: u64 = 4096;

// The end of a file is rounded up by a mask.
const _: () = assert!(BLOCK.is_power_of_two());

/// The size in bytes of the blocks that are written whole where a file ends, on a volume with clusters of `cluster` bytes
/// and a device with logical sectors of `sector` bytes, all powers of two: [`BLOCK`], but no more than a cluster, and
/// no less than a sector.
pub fn block_size(cluster: u64, sector: u32) -> u32 {
    (BLOCK.min(cluster) as u32).max(sector)
}

/// Returns the start of the block in which a write to `range` ends, if the write covers that block in part and is the
/// first to reach it. Then the block holds nothing else of the file and can be written whole, with zeroes behind the
/// write. `written` is the offset up to which the file is written, or will be by writes in flight; `block` is the size
/// of a block, a power of two.
pub fn first_in_block(written: u64, range: &Range<u64>, block: u64) -> Option<u64> {
    let start = range.end & !(block - 1);
    (start != range.end && written <= start).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_new_until_something_is_written_to_it() {
        assert_eq!(first_in_block(0, &(0..1000), 4096), Some(0));
        assert_eq!(first_in_block(4096, &(4096..9000), 4096), Some(8192));
        assert_eq!(first_in_block(100, &(9000..9001), 4096), Some(8192));
        // The block is covered whole, or something is there.
        assert_eq!(first_in_block(0, &(0..8192), 4096), None);
        assert_eq!(first_in_block(1000, &(1000..2000), 4096), None);
        assert_eq!(first_in_block(10_000, &(0..1000), 4096), None);
    }
}
