//! The mark by which the lab knows a device again that it has written to before: nobody's data is on it.
//!
//! The first [`LENGTH`] bytes of a device belong to no target. Every 4 KiB of them have a text and bytes that follow from
//! their offset, and only a device on which all of them are whole is the lab's: whoever makes a file system, a partition
//! table, an array or a volume group on the device since then, or copies a disk to it, overwrites some of them. So the mark
//! outlives a run that is killed, and does not outlive another use of the device.

use crate::Result;
use platter_device::{Buffer, Device};

/// The bytes at the beginning of a device that the mark takes, the distance at which partitions usually begin.
pub(crate) const LENGTH: u64 = 1 << 20;
/// On a smaller device every byte is for the targets, and it has no mark.
const LEAST: u64 = 16 << 20;
/// The bytes that are alike but for what follows from their offset.
const BLOCK: usize = 4096;

// The mark is inside the smallest region that has one, in whole blocks.
const _: () = assert!(LENGTH < LEAST && LENGTH.is_multiple_of(BLOCK as u64));

const TEXT: &[u8] = b"This device is written by Platter's lab. It holds nothing but data of measurements, and may be overwritten.\n";

/// The bytes at the beginning of a device of `length` bytes that no target may use.
pub(crate) fn room(length: u64) -> u64 {
    if length < LEAST { 0 } else { LENGTH }
}

/// Fills one block of the mark.
fn fill(offset: u64, block: &mut [u8]) {
    fastrand::Rng::with_seed(offset ^ 0x504C_4154_5445_524D).fill(block);
    block[..TEXT.len()].copy_from_slice(TEXT);
}

fn whole() -> Buffer {
    let mut mark = Buffer::new(LENGTH as usize);
    for (number, block) in mark.chunks_mut(BLOCK).enumerate() {
        fill((number * BLOCK) as u64, block);
    }
    mark
}

/// Writes the mark, durably, before anything else is written.
pub(crate) fn write(device: &dyn Device) -> Result<()> {
    if room(device.len()) > 0 {
        device.write_at(0, &whole())?;
        device.flush()?;
    }
    Ok(())
}

/// Whether a device has the mark, so that everything on it was written by the lab.
///
/// # Errors
/// The errors of reading the device.
pub fn is_ours(device: &dyn Device) -> Result<bool> {
    if room(device.len()) == 0 {
        return Ok(false);
    }
    let mut found = Buffer::new(LENGTH as usize);
    device.read_at(0, &mut found)?;
    Ok(found[..] == whole()[..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_device::{MemoryDevice, Sectors};

    #[test]
    fn a_mark_is_known_again_until_anything_overwrites_a_part_of_it() {
        for sectors in [Sectors::SMALL, Sectors::LARGE] {
            let device = MemoryDevice::new(64 << 20, sectors);
            assert!(!is_ours(&device).unwrap());
            write(&device).unwrap();
            assert!(is_ours(&device).unwrap());
            // What lies behind it does not matter: a volume of a run that was killed.
            device.write_at(LENGTH, &[7; 8192]).unwrap();
            assert!(is_ours(&device).unwrap());
        }
        // Superblocks of file systems, arrays, pools and partition tables, and zeroes over the last block.
        for at in [0, 512, 1024, 4096, 32 << 10, 64 << 10, 128 << 10, 256 << 10, LENGTH - 512] {
            for byte in [0, 0xEF] {
                let device = MemoryDevice::new(64 << 20, Sectors::SMALL);
                write(&device).unwrap();
                device.write_at(at, &[byte; 512]).unwrap();
                assert!(!is_ours(&device).unwrap(), "{byte} at {at}");
            }
        }
    }

    #[test]
    fn a_small_device_has_none() {
        let device = MemoryDevice::new(LEAST - 512, Sectors::SMALL);
        write(&device).unwrap();
        assert!(!is_ours(&device).unwrap());
        assert!(device.to_image().iter().all(|&byte| byte == 0));
    }
}
