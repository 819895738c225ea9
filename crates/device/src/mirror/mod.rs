//! Mirrors: the same content on several devices.

mod busy;
mod history;
mod queue;
mod rebuild;
mod record;
mod session;
mod set;
mod stamp;

use crate::power::{mix, pieces};
use crate::{Device, Error, Operation, Queue, Result, Sectors, check_copy, check_transfer};
use busy::{Alone, Busy};
use queue::MirrorQueue;
pub use record::{FileRecord, MirrorRecord};
use session::Session;
pub use set::{MirrorCopy, MirrorJudge, MirrorSet, Soundness, Standing};
use smallvec::SmallVec;
pub use stamp::MetadataSum;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A device that keeps its content on up to eight others, the *copies*.
///
/// Nothing is added to the content, so each copy is a plain volume by itself. Writes, flushes and discards go to every
/// copy, a read to one, chosen by its offset. If a copy fails a read, another copy answers, and its data is written
/// back over the place that could not be read. Damage that a device does not notice itself is found by a caller with
/// checksums: [`Device::read_copy`] and [`Device::repair_copy`].
///
/// A copy that fails a write or a flush no longer holds what the others do. It is taken *out of service* for as long as
/// the mirror is open: neither read nor written. The write succeeds as long as one copy that took it is left. The last
/// copy stays in service, whatever fails on it. Overlapping writes in flight when a copy goes out of service may have
/// reached the copies in different orders; until all of them have ended, a read may return the data of one write, then
/// that of another, and then that of the first again.
///
/// A mirror made with [`Mirror::new`] keeps no record of what was written to which copy. After a copy went out of
/// service, and after a power cut with unflushed writes, copies may differ. [`MirrorSet`] opens a mirror with records:
/// each copy has one beside it, and copies that are older than others are left out.
pub struct Mirror {
    name: String,
    length: u64,
    sectors: Sectors,
    read_only: bool,
    copies: Vec<Member>,
    /// The copies in service, one bit for each. There is always at least one.
    in_service: AtomicU8,
    busy: Busy,
    tell: Option<Box<Tell>>,
    /// The copies to read from, as bits, while one of them is in service: the others may hold different data.
    prefer: u8,
    /// Updates the records of the copies, if they have any.
    session: Option<Session>,
}

type Tell = dyn Fn(&MirrorEvent<'_>) + Send + Sync;

struct Member {
    device: Arc<dyn Device>,
    failed: AtomicU64,
    repaired: AtomicU64,
    /// The error that took the copy out of service.
    fatal: OnceLock<String>,
}

/// The errors of one transfer, each with the number of the copy.
type Errors = SmallVec<[(usize, Error); 1]>;

/// An event on a copy. Its text is a sentence that names the device.
#[derive(Debug)]
#[non_exhaustive]
pub enum MirrorEvent<'e> {
    /// The copy could not be read, and another one answered.
    ReadElsewhere {
        /// The number of the copy.
        copy: usize,
        /// The error of the read.
        error: &'e Error,
    },
    /// The copy could not be read; the data of another one was written back to it.
    Repaired {
        /// The number of the copy.
        copy: usize,
        /// The error of the read.
        error: &'e Error,
    },
    /// The copy was taken out of service: it is no longer read or written.
    OutOfService {
        /// The number of the copy.
        copy: usize,
        /// The error that took it out of service.
        error: &'e Error,
        /// How many copies are still in service.
        left: usize,
    },
}

// Copies are bits of a byte.
const _: () = assert!(Mirror::MOST <= u8::BITS as usize);
// The stripe of an offset is found by division of whole sectors.
const _: () = assert!(Mirror::STRIPE.is_power_of_two() && Mirror::STRIPE >= 4096);

impl fmt::Display for MirrorEvent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MirrorEvent::ReadElsewhere { error, .. } => write!(f, "{error}; read from another copy"),
            MirrorEvent::Repaired { error, .. } => write!(f, "{error}; repaired from another copy"),
            MirrorEvent::OutOfService { error, left, .. } => {
                let copies = if *left == 1 { "the copy" } else { "one of the copies" };
                write!(f, "{error}; it is out of service until {copies} left has been copied over it")
            }
        }
    }
}

impl Mirror {
    /// The most copies of a mirror.
    pub const MOST: usize = 8;

    /// The length of a stripe in bytes: all reads in a stripe go to the same copy. It is longer than nearly every
    /// transfer, and short enough that the reads at any one time are spread over the copies.
    const STRIPE: u64 = 256 << 10;

    /// A mirror over 1 to [`Mirror::MOST`] devices that hold the same content. It is as long as the shortest of them
    /// and read-only if one is; its physical sector is the largest.
    ///
    /// # Errors
    /// [`Error::Unusable`] for any other number of devices, and if their logical sectors are not equal.
    pub fn new(copies: Vec<Arc<dyn Device>>) -> Result<Mirror> {
        Mirror::of_parts(copies.into_iter().map(Ok).collect(), None)
    }

    /// A mirror with some copies absent, each given as its name and the reason. It is `length` bytes long, or as long
    /// as the shortest copy that is there.
    fn of_parts(
        parts: Vec<std::result::Result<Arc<dyn Device>, (String, String)>>,
        length: Option<u64>,
    ) -> Result<Mirror> {
        let names: Vec<&str> = (parts.iter())
            .map(|part| part.as_ref().map_or_else(|(name, _)| name.as_str(), |device| device.name()))
            .collect();
        let name = format!("mirror:{}", names.join(","));
        let unusable = |reason| Err(Error::Unusable { device: name.as_str().into(), reason });
        let copies: Vec<&Arc<dyn Device>> = parts.iter().flatten().collect();
        let (Some(first), 1..=Mirror::MOST) = (copies.first(), parts.len()) else {
            return unusable(format!("a mirror has 1 to {} copies, not {}", Mirror::MOST, parts.len()));
        };
        let logical = first.sectors().logical;
        if let Some(other) = copies.iter().find(|device| device.sectors().logical != logical) {
            return unusable(format!(
                "the logical sectors of all copies must be equal; those of {} are {logical} bytes, those of {} {}",
                first.name(),
                other.name(),
                other.sectors().logical
            ));
        }
        let shortest = copies.iter().map(|device| device.len()).min().unwrap_or(0);
        let length = length.unwrap_or(shortest).min(shortest);
        let read_only = copies.iter().any(|device| device.read_only());
        let physical = copies.iter().map(|device| device.sectors().physical).max().unwrap_or(logical);
        let sectors = Sectors { logical, physical };
        let in_service = (parts.iter().enumerate())
            .filter(|(_, part)| part.is_ok())
            .fold(0, |bits, (number, _)| bits | bit(number));
        let member = |part| {
            let fatal = OnceLock::new();
            let device = match part {
                Ok(device) => device,
                Err((name, why)) => {
                    let _ = fatal.set(why);
                    Arc::new(Absent { name, length, sectors }) as Arc<dyn Device>
                }
            };
            Member { device, failed: AtomicU64::new(0), repaired: AtomicU64::new(0), fatal }
        };
        Ok(Mirror {
            in_service: AtomicU8::new(in_service),
            copies: parts.into_iter().map(member).collect(),
            name,
            length,
            sectors,
            read_only,
            busy: Busy::default(),
            tell: None,
            prefer: u8::MAX,
            session: None,
        })
    }

    /// Has `tell` called at every event, on the thread on which the event happens. `tell` must not use the mirror.
    pub fn on_event(mut self, tell: impl Fn(&MirrorEvent<'_>) + Send + Sync + 'static) -> Mirror {
        self.tell = Some(Box::new(tell));
        self
    }

    /// For each copy, how many transfers failed on it.
    pub fn failed(&self) -> Vec<u64> {
        self.copies.iter().map(|copy| copy.failed.load(Ordering::Relaxed)).collect()
    }

    /// For each copy, how many times good data was written over damaged data: after a failed read, and by
    /// [`Device::repair_copy`].
    pub fn repaired(&self) -> Vec<u64> {
        self.copies.iter().map(|copy| copy.repaired.load(Ordering::Relaxed)).collect()
    }

    /// For each copy, the error that took it out of service; `None` if it is in service.
    pub fn out_of_service(&self) -> Vec<Option<String>> {
        let one = |(number, copy): (usize, &Member)| {
            (!self.is_in_service(number)).then(|| copy.fatal.get().cloned().unwrap_or_default())
        };
        self.copies.iter().enumerate().map(one).collect()
    }

    fn is_in_service(&self, copy: usize) -> bool {
        self.in_service.load(Ordering::Acquire) & bit(copy) != 0
    }

    /// The copies in service, as bits and as an iterator of numbers.
    fn serving(&self) -> (u8, impl Iterator<Item = usize> + use<>) {
        let serving = self.in_service.load(Ordering::Acquire);
        (serving, bits(serving))
    }

    /// The copies that are read, as bits.
    fn read_bits(&self) -> u8 {
        let serving = self.serving().0;
        if serving & self.prefer == 0 { serving } else { serving & self.prefer }
    }

    /// The copy to read this offset from. The same place is always read from the same copy, so that its content does
    /// not change between two reads even where the copies differ.
    fn reader(&self, offset: u64) -> usize {
        let read = self.read_bits();
        // A hash rather than the stripe number modulo the copies: transfers at regular offsets would all go to one
        // copy.
        let pick = mix(0, offset / Mirror::STRIPE) % u64::from(read.count_ones().max(1));
        bits(read).nth(pick as usize).unwrap_or(0)
    }

    /// Whether a read of this range from `copy`, which is the one to read its beginning from, could return newer or
    /// older data than other readers see: the range is being written, and a part of it is otherwise read from another
    /// copy.
    fn is_ahead(&self, copy: usize, range: &Range<u64>) -> bool {
        let stripes = range.start / Mirror::STRIPE..=range.end.saturating_sub(1) / Mirror::STRIPE;
        stripes.into_iter().any(|stripe| self.reader(stripe * Mirror::STRIPE) != copy)
            && self.busy.meets(range)
    }

    /// Reads each stripe from the copy to which it is assigned.
    fn read_by_stripe(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        for (at, length) in pieces(offset, buffer.len() as u64, Mirror::STRIPE) {
            let place = offset + at;
            self.read_from(self.reader(place), place, &mut buffer[at as usize..][..length as usize])?;
        }
        Ok(())
    }

    fn device(&self, copy: usize) -> &dyn Device {
        &*self.copies[copy].device
    }

    fn tell(&self, event: &MirrorEvent<'_>) {
        if let Some(tell) = &self.tell {
            tell(event);
        }
    }

    fn count_failure(&self, copy: usize) {
        self.copies[copy].failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Reads from this copy, or from another one if this one fails.
    fn read_from(&self, copy: usize, offset: u64, buffer: &mut [u8]) -> Result<()> {
        match self.device(copy).read_at(offset, buffer) {
            Ok(()) => Ok(()),
            Err(error) => self.read_elsewhere(copy, error, offset, buffer),
        }
    }

    /// Reads from the other copies what `copy` failed to read with `error`, and repairs the copies that failed.
    fn read_elsewhere(&self, copy: usize, error: Error, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.count_failure(copy);
        // Reserved before the others are read: their data must still be current when it is written back.
        let alone = if self.read_only { None } else { self.busy.try_alone(range(offset, buffer.len())) };
        let mut errors = Errors::from_iter([(copy, error)]);
        let others = self.serving().1.filter(|&other| other != copy);
        if self.read_first(others, &mut errors, alone.as_ref(), offset, buffer) {
            return Ok(());
        }
        let grain = u64::from(self.sectors.physical);
        if errors.len() == 1 || buffer.len() as u64 <= grain {
            return Err(errors.swap_remove(0).1);
        }
        // No copy can be read completely, but each may have some readable parts.
        for (at, length) in pieces(offset, buffer.len() as u64, grain) {
            let piece = &mut buffer[at as usize..][..length as usize];
            let mut errors = Errors::new();
            // `copy` is tried first, so that it is repaired if it fails: later reads of the place will ask it again.
            let (serving, _) = self.serving();
            let copies = bits(serving & bit(copy)).chain(bits(serving & !bit(copy)));
            if !self.read_first(copies, &mut errors, alone.as_ref(), offset + at, piece) {
                return errors.into_iter().next().map_or(Ok(()), |(_, error)| Err(error));
            }
        }
        Ok(())
    }

    /// Reads from the first of these copies that does not fail, and repairs those that failed before it. `false` if all
    /// failed.
    fn read_first(
        &self,
        copies: impl Iterator<Item = usize>,
        errors: &mut Errors,
        alone: Option<&Alone>,
        offset: u64,
        buffer: &mut [u8],
    ) -> bool {
        for copy in copies {
            match self.device(copy).read_at(offset, buffer) {
                Ok(()) => {
                    for (copy, error) in errors.drain(..) {
                        self.write_back(copy, &error, alone, offset, buffer);
                    }
                    return true;
                }
                Err(error) => {
                    self.count_failure(copy);
                    errors.push((copy, error));
                }
            }
        }
        false
    }

    /// Writes the data of another copy over what could not be read. If that fails, the copy stays in service: its
    /// content elsewhere is as good as before.
    fn write_back(&self, copy: usize, error: &Error, alone: Option<&Alone>, offset: u64, data: &[u8]) {
        let written = alone.is_some()
            && self.is_in_service(copy)
            && self.note(&range(offset, data.len())).is_ok()
            && self.device(copy).write_at(offset, data).inspect_err(|_| self.count_failure(copy)).is_ok();
        if written {
            self.copies[copy].repaired.fetch_add(1, Ordering::Relaxed);
            self.tell(&MirrorEvent::Repaired { copy, error });
        } else {
            self.tell(&MirrorEvent::ReadElsewhere { copy, error });
        }
    }

    /// Carries out the same operation on every copy in service.
    fn on_all(&self, each: impl Fn(&dyn Device) -> Result<()>) -> Result<()> {
        let (mut done, mut errors) = (0, Errors::new());
        for copy in self.serving().1 {
            match each(self.device(copy)) {
                Ok(()) => done |= bit(copy),
                Err(error) => errors.push((copy, error)),
            }
        }
        self.conclude(done, errors)
    }

    /// Concludes an operation that all copies were to do: takes the copies that failed out of service if one that
    /// succeeded is left, and otherwise returns an error.
    fn conclude(&self, done: u8, errors: Errors) -> Result<()> {
        if errors.is_empty() {
            return Ok(());
        }
        let failed = errors.iter().fold(0, |failed, (copy, _)| failed | bit(*copy));
        errors.iter().for_each(|(copy, _)| self.count_failure(*copy));
        let retire = |serving: u8| (serving & done != 0).then_some(serving & !failed);
        let Ok(before) = self.in_service.fetch_update(Ordering::AcqRel, Ordering::Acquire, retire) else {
            if let Some(session) = &self.session {
                session.spoil();
            }
            return errors.into_iter().next().map_or(Ok(()), |(_, error)| Err(error));
        };
        let left = (before & !failed).count_ones() as usize;
        if let Some(session) = &self.session
            && before & failed != 0
        {
            // Recorded before the caller learns that the write succeeded: after a power cut, the failed copy must not
            // count as current.
            if let Err((copy, why)) = session.leave_out(failed) {
                session.spoil();
                return Err(self.unrecorded(copy, 0, 0, &why));
            }
        }
        for (copy, error) in &errors {
            if before & bit(*copy) != 0 {
                // The first error is kept.
                let _ = self.copies[*copy].fatal.set(error.to_string());
                self.tell(&MirrorEvent::OutOfService { copy: *copy, error, left });
            }
        }
        Ok(())
    }

    /// Registers these ranges as being written, until [`Mirror::end`].
    ///
    /// # Errors
    /// As [`Mirror::note`]; nothing is registered then.
    fn begin(&self, ranges: impl Iterator<Item = Range<u64>>) -> Result<Writing> {
        let ranges: SmallVec<[Range<u64>; 2]> = ranges.filter(|range| !range.is_empty()).collect();
        ranges.iter().try_for_each(|range| self.note(range))?;
        Ok(ranges.into_iter().map(|range| self.busy.begin(range)).collect())
    }

    /// Notes in the records of the copies that a range is about to change.
    ///
    /// # Errors
    /// [`Error::Io`] if a record cannot be saved: then the range must not change.
    fn note(&self, range: &Range<u64>) -> Result<()> {
        let Some(session) = &self.session else { return Ok(()) };
        let length = range.end - range.start;
        session.begin(range).map_err(|(copy, why)| self.unrecorded(copy, range.start, length, &why))
    }

    /// The error of a write that cannot be recorded.
    fn unrecorded(&self, copy: usize, offset: u64, length: u64, why: &io::Error) -> Error {
        let source = io::Error::new(
            why.kind(),
            format!("the record of this copy of the mirror cannot be saved: {why}"),
        );
        Error::io(self.device(copy).name(), Operation::Write, offset, length, source)
    }

    fn flush_all(&self) -> Result<()> {
        self.on_all(|device| device.flush())
    }

    /// Ends a write that is complete on all copies; where it overlapped others, makes the copies equal if it is the
    /// last of them.
    fn end(&self, writing: Writing) -> Result<()> {
        let mut outcome = Ok(());
        for id in writing {
            if let Some(alone) = self.busy.end(id) {
                outcome = outcome.and(self.make_alike(&alone));
            }
        }
        outcome
    }

    /// Copies the content of the copy to read from to all others, and flushes, since the overlapping writes may have
    /// been durable ones.
    fn make_alike(&self, alone: &Alone) -> Result<()> {
        let Range { start, end } = alone.range;
        let mut data = vec![0; Mirror::STRIPE.min(end - start) as usize];
        for (at, length) in pieces(start, end - start, Mirror::STRIPE) {
            let (serving, copies) = self.serving();
            if serving.count_ones() < 2 {
                return Ok(());
            }
            let seen = self.reader(start + at);
            let mut copies = std::iter::once(seen).chain(copies.filter(|&copy| copy != seen));
            let data = &mut data[..length as usize];
            let mut reads = |copy: usize| {
                self.device(copy).read_at(start + at, data).inspect_err(|_| self.count_failure(copy)).is_ok()
            };
            let Some(source) = copies.find(|&copy| reads(copy)) else {
                // No copy can be read here, so there is nothing to copy to the others.
                continue;
            };
            let (mut done, mut errors) = (bit(source), Errors::new());
            for copy in bits(serving & !bit(source)) {
                match self.device(copy).write_at(start + at, data) {
                    Ok(()) => done |= bit(copy),
                    Err(error) => errors.push((copy, error)),
                }
            }
            self.conclude(done, errors)?;
        }
        self.on_all(|device| device.flush())
    }
}

/// The numbers that [`Busy`] gave to the ranges being written.
type Writing = SmallVec<[u64; 2]>;

fn bit(copy: usize) -> u8 {
    1 << copy
}

fn bits(copies: u8) -> impl Iterator<Item = usize> + use<> {
    (0..Mirror::MOST).filter(move |&copy| copies & bit(copy) != 0)
}

fn range(offset: u64, length: usize) -> Range<u64> {
    offset..offset + length as u64
}

impl Device for Mirror {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> u64 {
        self.length
    }

    fn sectors(&self) -> Sectors {
        self.sectors
    }

    fn read_only(&self) -> bool {
        self.read_only
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        check_transfer(self, Operation::Read, offset, buffer.len() as u64)?;
        let copy = self.reader(offset);
        if self.is_ahead(copy, &range(offset, buffer.len())) {
            return self.read_by_stripe(offset, buffer);
        }
        self.read_from(copy, offset, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        check_transfer(self, Operation::Write, offset, data.len() as u64)?;
        let writing = self.begin(std::iter::once(range(offset, data.len())))?;
        let written = self.on_all(|device| device.write_at(offset, data));
        written.and(self.end(writing))
    }

    fn read_batch(&self, reads: &mut [(u64, &mut [u8])]) -> Result<()> {
        for (offset, buffer) in reads.iter() {
            check_transfer(self, Operation::Read, *offset, buffer.len() as u64)?;
        }
        let mut shares: [Vec<(u64, &mut [u8])>; Mirror::MOST] = Default::default();
        for (offset, buffer) in reads {
            let copy = self.reader(*offset);
            if self.is_ahead(copy, &range(*offset, buffer.len())) {
                self.read_by_stripe(*offset, buffer)?;
            } else {
                shares[copy].push((*offset, &mut **buffer));
            }
        }
        for (copy, share) in shares.iter_mut().enumerate().filter(|(_, share)| !share.is_empty()) {
            if share.len() > 1 {
                if self.device(copy).read_batch(share).is_ok() {
                    continue;
                }
                self.count_failure(copy);
            }
            // Repeated one by one to find the read that failed.
            for (offset, buffer) in share {
                self.read_from(copy, *offset, buffer)?;
            }
        }
        Ok(())
    }

    fn write_batch(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        for (offset, data) in writes {
            check_transfer(self, Operation::Write, *offset, data.len() as u64)?;
        }
        let writing = self.begin(writes.iter().map(|(offset, data)| range(*offset, data.len())))?;
        let written = self.on_all(|device| device.write_batch(writes));
        written.and(self.end(writing))
    }

    fn copies(&self) -> usize {
        self.copies.len()
    }

    fn is_read(&self, copy: usize) -> bool {
        copy < self.copies.len() && self.read_bits() & bit(copy) != 0
    }

    fn read_copy(&self, copy: usize, offset: u64, buffer: &mut [u8]) -> Result<()> {
        check_transfer(self, Operation::Read, offset, buffer.len() as u64)?;
        self.check_service(copy)?;
        self.device(copy).read_at(offset, buffer).inspect_err(|_| self.count_failure(copy))
    }

    fn repair_copy(&self, copy: usize, offset: u64, data: &[u8]) -> Result<()> {
        check_transfer(self, Operation::Write, offset, data.len() as u64)?;
        self.check_service(copy)?;
        let Some(_alone) = self.busy.try_alone(range(offset, data.len())) else {
            let reason =
                format!("{} bytes at offset {offset} are being written, so not repaired", data.len());
            return Err(Error::Unusable { device: self.device(copy).name().into(), reason });
        };
        self.note(&range(offset, data.len()))?;
        self.device(copy).write_at(offset, data).inspect_err(|_| self.count_failure(copy))?;
        self.copies[copy].repaired.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// The place of all copies if it is the same: what is written is the same for all.
    fn start(&self) -> u64 {
        let mut starts = (0..self.copies()).map(|copy| self.device(copy).start());
        let first = starts.next().unwrap_or(0);
        if starts.all(|start| start == first) { first } else { 0 }
    }

    fn next_data(&self, offset: u64) -> u64 {
        let places = self.serving().1.map(|copy| self.device(copy).next_data(offset));
        places.min().unwrap_or(offset).min(self.length)
    }

    fn flush(&self) -> Result<()> {
        self.flush_all()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        check_transfer(self, Operation::Discard, offset, length)?;
        self.note(&(offset..offset + length))?;
        // Discarded sectors may hold anything afterwards, so a copy that failed to discard is still as good as the
        // others.
        let (mut done, mut first) = (false, Ok(()));
        for copy in self.serving().1 {
            match self.device(copy).discard(offset, length) {
                Ok(()) => done = true,
                Err(error) => {
                    self.count_failure(copy);
                    first = first.and(Err(error));
                }
            }
        }
        if done { Ok(()) } else { first }
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue + '_>> {
        Ok(Box::new(MirrorQueue::new(self, depth)?))
    }

    fn now(&self) -> Duration {
        self.device(0).now()
    }
}

impl Mirror {
    fn check_service(&self, copy: usize) -> Result<()> {
        check_copy(&self.name, copy, self.copies.len())?;
        if self.is_in_service(copy) {
            return Ok(());
        }
        let why = self.copies[copy].fatal.get().map_or("", String::as_str);
        let reason = format!("copy {copy} of {} is out of service: {why}", self.name);
        Err(Error::Unusable { device: self.device(copy).name().into(), reason })
    }
}

/// A placeholder for a copy that is absent. It is never in service, so it gets no transfers.
struct Absent {
    name: String,
    length: u64,
    sectors: Sectors,
}

impl Absent {
    fn refuse<T>(&self) -> Result<T> {
        Err(Error::Unusable { device: self.name.as_str().into(), reason: "is left out of its mirror".into() })
    }
}

impl Device for Absent {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> u64 {
        self.length
    }

    fn sectors(&self) -> Sectors {
        self.sectors
    }

    fn read_at(&self, _offset: u64, _buffer: &mut [u8]) -> Result<()> {
        self.refuse()
    }

    fn write_at(&self, _offset: u64, _data: &[u8]) -> Result<()> {
        self.refuse()
    }

    fn flush(&self) -> Result<()> {
        self.refuse()
    }

    fn discard(&self, _offset: u64, _length: u64) -> Result<()> {
        self.refuse()
    }

    fn queue(&self, _depth: usize) -> Result<Box<dyn Queue + '_>> {
        self.refuse()
    }
}
