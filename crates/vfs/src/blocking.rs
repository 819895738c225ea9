//! Blocking reads and writes: plan, transfer and finish in one call, repeated in steps until the whole range is done.

use crate::{Error, Plan, Result};
use platter_device::{Buffer, Device};

/// The most bytes that one step of a blocking call plans, which bounds the size of the bounce buffer.
const STEP: usize = 1 << 20;

// Transfers are whole sectors, of which none is larger than 4096 bytes.
const _: () = assert!(STEP.is_multiple_of(4096));

/// Has `make` make a plan, with its prereads. As long as `make` answers [`Error::Busy`], calls `wait` in between. For callers
/// without a plan in flight on the file.
///
/// # Errors
/// Any error of `make` but [`Error::Busy`].
pub fn plan_when_free(
    plan: &mut Plan,
    device: &dyn Device,
    mut make: impl FnMut(&mut Plan) -> Result<()>,
    wait: impl Fn(),
) -> Result<()> {
    loop {
        match plan.make_whole(device, &mut make) {
            Err(Error::Busy) => wait(),
            planned => return planned,
        }
    }
}

/// Whether [`write_in_steps`] makes a single call for this write, so that no other write can come between its parts.
pub fn is_one_step(offset: u64, length: usize, unit: u64) -> bool {
    (offset | length as u64).is_multiple_of(unit) && length <= STEP
}

/// Splits a write at multiples of `unit` bytes: calls `whole` with the offset and content of each run of whole units,
/// at most 1 MiB at a time, and `part` with the offset and content of each piece that covers only part of a unit.
///
/// # Errors
/// The first error of `whole` or `part`.
pub fn write_in_steps(
    offset: u64,
    data: &[u8],
    unit: u64,
    mut whole: impl FnMut(u64, &[u8]) -> Result<()>,
    mut part: impl FnMut(u64, &[u8]) -> Result<()>,
) -> Result<()> {
    let mut at = 0;
    while at < data.len() {
        let position = offset + at as u64;
        let rest = &data[at..];
        let inside = position % unit;
        let is_whole = inside == 0 && rest.len() as u64 >= unit;
        let length = match is_whole {
            true => rest.len().min(STEP) as u64 / unit * unit,
            false => (rest.len() as u64).min(unit - inside),
        } as usize;
        match is_whole {
            true => whole(position, &rest[..length])?,
            false => part(position, &rest[..length])?,
        }
        at += length;
    }
    Ok(())
}

/// Reads from any offset by transfers of whole sectors of `sector` bytes. `transfer` reads from a sector boundary into
/// the buffer it is given and returns how many bytes of the file it read. A sector of which only a part is asked for is
/// read into a bounce buffer.
///
/// # Errors
/// The first error of `transfer`; [`Error::InvalidArgument`] if the end of the range is beyond 2^64.
pub(crate) fn read_in_steps(
    offset: u64,
    buffer: &mut [u8],
    sector: u64,
    mut transfer: impl FnMut(u64, &mut [u8]) -> Result<usize>,
) -> Result<usize> {
    let mut got = 0;
    while got < buffer.len() {
        let position = offset.checked_add(got as u64).ok_or(Error::InvalidArgument("offset overflows"))?;
        let rest = &mut buffer[got..];
        let head = (position % sector) as usize;
        if head == 0 && rest.len() as u64 >= sector {
            let length = (rest.len().min(STEP) as u64 / sector * sector) as usize;
            let read = transfer(position, &mut rest[..length])?;
            got += read;
            if read < length {
                break;
            }
        } else {
            let length = (head + rest.len()).min(STEP).next_multiple_of(sector as usize);
            let mut bounce = Buffer::new(length);
            let read = transfer(position - head as u64, &mut bounce)?;
            let useful = read.saturating_sub(head).min(rest.len());
            rest[..useful].copy_from_slice(&bounce[head..head + useful]);
            got += useful;
            if read < length {
                break;
            }
        }
    }
    Ok(got)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn steps_are_whole_units_and_what_is_left() {
        for (offset, length, expected) in [
            (0, 8192, vec![(0, 8192, true)]),
            (100, 200, vec![(100, 200, false)]),
            (100, 5000, vec![(100, 412, false), (512, 4096, true), (4608, 492, false)]),
            (512, STEP + 600, vec![(512, STEP, true), (512 + STEP, 512, true), (1024 + STEP, 88, false)]),
        ] {
            let data: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let steps = RefCell::new(Vec::new());
            let note = |is_whole| {
                let (steps, data) = (&steps, &data);
                move |at: u64, piece: &[u8]| {
                    let from = at as usize - offset;
                    assert_eq!(piece, &data[from..from + piece.len()]);
                    steps.borrow_mut().push((at as usize, piece.len(), is_whole));
                    Ok(())
                }
            };
            write_in_steps(offset as u64, &data, 512, note(true), note(false)).unwrap();
            assert_eq!(steps.take(), expected);
            assert_eq!(is_one_step(offset as u64, length, 512), expected.len() == 1 && expected[0].2);
        }
    }
}
