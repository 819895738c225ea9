//! Transfers of bytes that need not lie on whole sectors.

use crate::{Buffer, Device, Result};

/// Reads bytes at any offset of a device, however large its sectors are.
///
/// # Errors
/// The errors of the device.
pub fn read_any(device: &(impl Device + ?Sized), offset: u64, bytes: &mut [u8]) -> Result<()> {
    let (start, end) = sectors_around(device, offset, bytes.len());
    if (start, end) == (offset, offset + bytes.len() as u64) {
        return device.read_at(offset, bytes);
    }
    let mut whole = Buffer::new((end - start) as usize);
    device.read_at(start, &mut whole)?;
    bytes.copy_from_slice(&whole[(offset - start) as usize..][..bytes.len()]);
    Ok(())
}

/// Writes bytes at any offset of a device. The other bytes of the first and the last sector stay as they are: nobody
/// else may write to these two sectors meanwhile.
///
/// # Errors
/// The errors of the device.
pub fn write_any(device: &(impl Device + ?Sized), offset: u64, bytes: &[u8]) -> Result<()> {
    let (start, end) = sectors_around(device, offset, bytes.len());
    if (start, end) == (offset, offset + bytes.len() as u64) {
        return device.write_at(offset, bytes);
    }
    let mut whole = Buffer::new((end - start) as usize);
    device.read_at(start, &mut whole)?;
    whole[(offset - start) as usize..][..bytes.len()].copy_from_slice(bytes);
    device.write_at(start, &whole)
}

/// Returns the offset at which the first sector of a byte range begins, and the offset at which its last sector ends.
fn sectors_around(device: &(impl Device + ?Sized), offset: u64, length: usize) -> (u64, u64) {
    let sector = u64::from(device.sectors().logical);
    (offset / sector * sector, (offset + length as u64).next_multiple_of(sector))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryDevice, Sectors};

    #[test]
    fn what_is_beside_the_bytes_stays() {
        let device = MemoryDevice::new(4096, Sectors::SMALL);
        device.write_at(0, &[7; 4096]).unwrap();
        for (offset, length) in [(0, 512), (100, 200), (500, 1100), (1024, 30), (4000, 96)] {
            write_any(&device, offset, &vec![9; length]).unwrap();
            let mut all = [0; 4096];
            device.read_at(0, &mut all).unwrap();
            let range = offset as usize..offset as usize + length;
            assert!(
                all.iter().enumerate().all(|(at, byte)| *byte == if range.contains(&at) { 9 } else { 7 })
            );
            let mut part = vec![0; length + 2];
            let from = offset.saturating_sub(1).min(4096 - part.len() as u64);
            read_any(&device, from, &mut part).unwrap();
            assert_eq!(part[..], all[from as usize..][..part.len()]);
            write_any(&device, offset, &vec![7; length]).unwrap();
        }
    }
}
