//! Helpers for making a volume of any format.

use platter_device::Device;
use platter_vfs::{Progress, Result};
use std::time::Duration;

/// The number of bytes written or compared at once.
const PIECE: usize = 1 << 20;

// Transfers are whole sectors, of which none is larger than 4096 bytes.
const _: () = assert!(PIECE.is_multiple_of(4096));

/// A serial number derived from the time, as DOS derives it from date and time; a multiplication spreads the bits.
pub fn serial_from(now: Duration) -> u32 {
    let ticks = now.as_micros() as u64;
    (ticks.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32
}

/// Makes a range of the device read as zeroes, writing only the pieces that do not yet, so that a sparse image stays
/// sparse. `start` and `end` are in bytes and multiples of the sector.
///
/// # Errors
/// The errors of the device.
pub fn clear(
    device: &dyn Device,
    start: u64,
    end: u64,
    what: &'static str,
    progress: &dyn Progress,
) -> Result<()> {
    let zeroes = vec![0; PIECE];
    let mut found = vec![0; PIECE];
    each_piece(start, end, what, progress, |offset, length| {
        device.read_at(offset, &mut found[..length])?;
        if found[..length] != zeroes[..length] {
            device.write_at(offset, &zeroes[..length])?;
        }
        Ok(())
    })
}

/// Writes zeroes over a range of the device.
///
/// # Errors
/// The errors of the device.
pub fn overwrite(device: &dyn Device, start: u64, end: u64, progress: &dyn Progress) -> Result<()> {
    let zeroes = vec![0; PIECE];
    each_piece(start, end, "overwriting clusters", progress, |offset, length| {
        Ok(device.write_at(offset, &zeroes[..length])?)
    })
}

/// Calls `piece` with offset and length of each piece of a range, and reports the progress.
fn each_piece(
    start: u64,
    end: u64,
    what: &'static str,
    progress: &dyn Progress,
    mut piece: impl FnMut(u64, usize) -> Result<()>,
) -> Result<()> {
    let mut offset = start;
    while offset < end {
        let length = (end - offset).min(PIECE as u64);
        piece(offset, length as usize)?;
        offset += length;
        progress.step(what, offset - start, end - start)?;
    }
    Ok(())
}
