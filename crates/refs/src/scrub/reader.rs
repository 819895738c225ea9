//! Reading many pieces at the speed of the device, from every copy that it keeps, and repairing pieces that are damaged
//! in one copy from a good one.
//!
//! Pieces are given in order of their place; neighbours are joined into one transfer. A few threads each carry out
//! transfer after transfer, so that several are in flight while checksums are computed.

use platter_device::{Buffer, Device, Error as DeviceError};
use platter_vfs::{Error, Progress, Result};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The most bytes of a transfer.
const TRANSFER: u64 = 1 << 20;
/// The number of transfers in flight.
const IN_FLIGHT: usize = 4;

/// A range of the device with a checksum. Offset and length are multiples of the cluster.
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    /// The byte offset on the device.
    pub offset: u64,
    /// The length in bytes.
    pub length: u32,
}

/// The outcome for a piece.
pub(crate) struct Outcome<'b> {
    /// The copies in which the piece was damaged.
    pub bad: Vec<usize>,
    /// Whether all of these copies have been repaired.
    pub repaired: bool,
    /// The content of the piece, if a copy is good.
    pub good: Option<&'b [u8]>,
    /// The error of the first damaged copy.
    pub why: Option<Error>,
}

/// Checks that bytes are the content of the piece of this number.
pub(crate) type Verify<'v> = &'v (dyn Fn(usize, &[u8]) -> Result<()> + Sync);

/// Reads pieces of a device, at a limited rate.
pub(crate) struct Reader<'d> {
    device: &'d dyn Device,
    /// The copies that were in service at first. One that failed before is not damaged, and whoever opened the device was
    /// told of it.
    copies: Vec<usize>,
    rate: Option<u64>,
    started: Instant,
    asked: AtomicU64,
    /// Asked before every transfer whether to end.
    progress: &'d dyn Progress,
}

impl<'d> Reader<'d> {
    /// A reader that takes at most `rate` bytes a second from each copy. Once `progress` asks for the end, it reads nothing
    /// more, and what it was given last is done in part.
    pub(crate) fn new(device: &'d dyn Device, rate: Option<u64>, progress: &'d dyn Progress) -> Reader<'d> {
        Reader {
            device,
            copies: serving(device),
            rate: rate.filter(|&rate| rate > 0),
            started: Instant::now(),
            asked: AtomicU64::new(0),
            progress,
        }
    }

    /// The numbers of the copies that are read.
    pub(crate) fn copies(&self) -> &[usize] {
        &self.copies
    }

    /// Reads all pieces, which are in order of their places. `each` is called with the number and the outcome of each
    /// piece, and `tell` with the number of bytes that are done, both from several threads.
    pub(crate) fn read(
        &self,
        pieces: &[Piece],
        verify: Verify<'_>,
        each: &(dyn Fn(usize, Outcome<'_>) + Sync),
        tell: &(dyn Fn(u64) + Sync),
    ) {
        let transfers = join(pieces);
        let next = AtomicUsize::new(0);
        let work = || {
            let mut buffers = Vec::new();
            loop {
                let Some(range) = transfers.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
                if !self.wait_for(length_of(&pieces[range.clone()])) {
                    return;
                }
                self.transfer(pieces, range.clone(), &mut buffers, verify, each);
                tell(length_of(&pieces[range.clone()]));
            }
        };
        let threads = IN_FLIGHT.min(transfers.len());
        if threads < 2 {
            return work();
        }
        std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    }

    /// Reads a range of every copy and compares the copies, except where nothing was ever written. `each` is called for
    /// every `unit` bytes that are not the same in all copies, or cannot be read from one, and `tell` with the number
    /// of bytes that are done, both from several threads.
    pub(crate) fn compare(
        &self,
        range: Range<u64>,
        unit: u64,
        each: &(dyn Fn(u64) + Sync),
        tell: &(dyn Fn(u64) + Sync),
    ) {
        let next = Mutex::new(range.start);
        let take = || {
            let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
            let start = self.device.next_data(*next) / unit * unit;
            let start = start.max(*next).min(range.end);
            let end = (start + TRANSFER).min(range.end);
            tell(end - std::mem::replace(&mut *next, end));
            start..end
        };
        let work = || {
            let mut buffers: Vec<Buffer> =
                (0..self.device.copies()).map(|_| Buffer::new(TRANSFER as usize)).collect();
            loop {
                let part = take();
                if part.is_empty() || !self.wait_for(part.end - part.start) {
                    return;
                }
                self.compare_part(part, unit, &mut buffers, each);
            }
        };
        std::thread::scope(|scope| (0..IN_FLIGHT).for_each(|_| drop(scope.spawn(work))));
    }

    fn compare_part(&self, part: Range<u64>, unit: u64, buffers: &mut [Buffer], each: &(dyn Fn(u64) + Sync)) {
        let length = (part.end - part.start) as usize;
        let mut reads = buffers.iter_mut().enumerate();
        let is_read =
            reads.all(|(copy, buffer)| self.read_copy(copy, part.start, &mut buffer[..length]).is_ok());
        let (first, others) = buffers.split_first_mut().expect("a device has a copy");
        if is_read && others.iter().all(|other| other[..length] == first[..length]) {
            return;
        }
        for at in (0..length).step_by(unit as usize) {
            let here = at..(at + unit as usize).min(length);
            let read = |copy: usize, buffer: &mut Buffer| {
                is_read || self.read_copy(copy, part.start + at as u64, &mut buffer[here.clone()]).is_ok()
            };
            let mut is_same = read(0, first);
            for (copy, other) in (1..).zip(others.iter_mut()) {
                is_same &= read(copy, other) && other[here.clone()] == first[here.clone()];
            }
            if !is_same {
                each(part.start + at as u64);
            }
        }
    }

    fn transfer(
        &self,
        pieces: &[Piece],
        range: Range<usize>,
        buffers: &mut Vec<Buffer>,
        verify: Verify<'_>,
        each: &(dyn Fn(usize, Outcome<'_>) + Sync),
    ) {
        let start = pieces[range.start].offset;
        let length = length_of(&pieces[range.clone()]) as usize;
        buffers.resize_with(self.copies.len(), || Buffer::new(TRANSFER as usize));
        // After an error the pieces are read one by one: one bad sector must not make the whole transfer bad.
        let mut errors: Vec<Vec<Option<Error>>> = Vec::with_capacity(self.copies.len());
        for (&copy, buffer) in self.copies.iter().zip(&mut *buffers) {
            if buffer.len() < length {
                *buffer = Buffer::new(length);
            }
            let mut failed = Vec::new();
            if self.read_copy(copy, start, &mut buffer[..length]).is_err() {
                let mut one = |piece: &Piece| {
                    let at = (piece.offset - start) as usize;
                    self.read_copy(copy, piece.offset, &mut buffer[at..at + piece.length as usize])
                };
                failed = pieces[range.clone()].iter().map(|piece| one(piece).err()).collect();
            }
            errors.push(failed);
        }
        for number in range.clone() {
            let piece = pieces[number];
            let at = (piece.offset - start) as usize..(piece.offset - start) as usize + piece.length as usize;
            let mut outcome = Outcome { bad: Vec::new(), repaired: false, good: None, why: None };
            for ((&copy, buffer), errors) in self.copies.iter().zip(&*buffers).zip(&mut errors) {
                let unread = errors.get_mut(number - range.start).and_then(Option::take);
                let bytes = &buffer[at.clone()];
                match unread.map_or_else(|| verify(number, bytes), Err) {
                    Ok(()) => outcome.good = outcome.good.or(Some(bytes)),
                    Err(error) => {
                        outcome.bad.push(copy);
                        outcome.why.get_or_insert(error);
                    }
                }
            }
            if let (Some(good), false) = (outcome.good, outcome.bad.is_empty()) {
                let repair = |&copy: &usize| self.device.repair_copy(copy, piece.offset, good).is_ok();
                outcome.repaired =
                    outcome.bad.iter().filter(|copy| repair(copy)).count() == outcome.bad.len();
            }
            each(number, outcome);
        }
    }

    fn read_copy(&self, copy: usize, offset: u64, buffer: &mut [u8]) -> Result<()> {
        match self.device.copies() {
            1 => self.device.read_at(offset, buffer)?,
            _ => self.device.read_copy(copy, offset, buffer)?,
        }
        Ok(())
    }

    /// Sleeps until the rate allows reading `bytes` more. Returns false if nothing more is to be read.
    fn wait_for(&self, bytes: u64) -> bool {
        /// Whoever asks for the end does not wait much longer than this.
        const LONGEST: Duration = Duration::from_millis(50);
        let before = self.asked.fetch_add(bytes, Ordering::Relaxed);
        if let Some(rate) = self.rate {
            let due = Duration::from_secs_f64(before as f64 / rate as f64);
            loop {
                let left = due.saturating_sub(self.started.elapsed());
                if left.is_zero() || self.progress.is_stopped() {
                    break;
                }
                std::thread::sleep(left.min(LONGEST));
            }
        }
        !self.progress.is_stopped()
    }
}

/// The numbers of the copies of a device that are in service.
fn serving(device: &dyn Device) -> Vec<usize> {
    let mut sector = vec![0; device.sectors().logical as usize];
    let mut is_there =
        |copy: &usize| !matches!(device.read_copy(*copy, 0, &mut sector), Err(DeviceError::Unusable { .. }));
    (0..device.copies()).filter(&mut is_there).collect()
}

fn length_of(pieces: &[Piece]) -> u64 {
    pieces.iter().map(|piece| u64::from(piece.length)).sum()
}

/// Joins neighbouring pieces into transfers. Returns the numbers of the pieces of each.
fn join(pieces: &[Piece]) -> Vec<Range<usize>> {
    let mut transfers: Vec<Range<usize>> = Vec::new();
    let mut start = 0;
    for (number, piece) in pieces.iter().enumerate() {
        let end = piece.offset.saturating_add(u64::from(piece.length));
        match transfers.last_mut() {
            Some(last)
                if pieces[number - 1].offset + u64::from(pieces[number - 1].length) == piece.offset
                    && end - start <= TRANSFER =>
            {
                last.end = number + 1;
            }
            _ => {
                start = piece.offset;
                transfers.push(number..number + 1);
            }
        }
    }
    transfers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_share_a_transfer_of_bounded_size() {
        let piece = |offset: u64| Piece { offset: offset * 4096, length: 4096 };
        let pieces: Vec<Piece> = (0..300).chain([301, 301, 302, 400]).map(piece).collect();
        assert_eq!(join(&pieces), [0..256, 256..300, 300..301, 301..303, 303..304]);
    }
}
