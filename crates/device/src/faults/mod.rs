//! A device with injected faults, for tests.

mod again;

use crate::power::{Journal, Log, mix, pieces};
use crate::sync::Mutex;
use crate::{
    Device, Error, Grain, Immediate, Kind, Operation, Queue, Request, Result, Sectors, check_copy,
    check_transfer, queue,
};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Selects the transfers that a fault affects. The transfers of each operation are counted from 0; each piece of a
/// batch and each segment of a queue's request is one. A transfer that breaks the contract of [`Device`] is refused and
/// not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct When {
    operation: Operation,
    which: Which,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Nth(u64),
    From(u64),
    OneIn(u64),
    Within(u64, u64),
}

impl When {
    /// The `n`-th transfer of this operation only.
    pub fn nth(operation: Operation, n: u64) -> When {
        When { operation, which: Which::Nth(n) }
    }

    /// The `n`-th transfer of this operation and every later one.
    pub fn from(operation: Operation, n: u64) -> When {
        When { operation, which: Which::From(n) }
    }

    /// Each transfer of this operation with probability 1/`n`, decided by the seed.
    pub fn one_in(operation: Operation, n: u64) -> When {
        When { operation, which: Which::OneIn(n.max(1)) }
    }

    /// Each transfer of this operation that touches a byte of this range of the device.
    pub fn within(operation: Operation, range: Range<u64>) -> When {
        When { operation, which: Which::Within(range.start, range.end) }
    }

    fn meets(self, operation: Operation, number: u64, place: Range<u64>, seed: u64) -> bool {
        self.operation == operation
            && match self.which {
                Which::Nth(n) => number == n,
                Which::From(n) => number >= n,
                Which::OneIn(n) => mix(mix(seed, operation as u64), number).is_multiple_of(n),
                Which::Within(start, end) => place.start < end && start < place.end,
            }
    }
}

/// What a fault does to a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The transfer fails with [`Error::Io`] and nothing is transferred. A flush that fails makes nothing durable, and
    /// a later flush does not make up for it: on a recording device, the writes that the failed flush should have made
    /// durable are lost when the power fails.
    Fail,
    /// A write fails after some of its sectors, chosen by the seed, were written. Any other operation just fails.
    Tear,
    /// The transfer is delayed by this time.
    Delay(Duration),
    /// The transfer is carried out twice, one after the other, which slows the device down in a known way. If every
    /// fault of the device is of this kind, a queue keeps as many requests in flight as the device below; it selects
    /// requests by their first segment.
    Again,
    /// Bits are flipped in transit without an error. A read does not change the medium.
    Flip {
        /// The number of the byte in the transfer, modulo the transfer's length.
        byte: u64,
        /// The bits of the byte that are flipped.
        mask: u8,
    },
}

/// A device that passes everything on to the device below and injects faults, the same on every run with the same seed
/// and the same order of transfers.
///
/// The faults apply to blocking calls, batches and queues alike. Faults can be added with [`Faults::inject`] at any
/// time; several may affect the same transfer and take effect in the order in which they were added.
///
/// With [`Faults::recording`] the device below is only read: writes stay in a journal, and [`Faults::log`] shows what a
/// power cut at any moment would have left. [`Log`] defines what a power cut may and may not do. The copies of the
/// device below differ only where nothing was written: what is in the journal, repairs included, reads the same from
/// every copy.
pub struct Faults {
    device: Arc<dyn Device>,
    seed: u64,
    /// The unit in bytes that a torn write leaves whole.
    grain: u64,
    journal: Option<Arc<Journal>>,
    rules: Mutex<Vec<(When, Fault)>>,
    counts: [AtomicU64; COUNTED.len()],
}

const COUNTED: [Operation; 4] = [Operation::Read, Operation::Write, Operation::Flush, Operation::Discard];

impl Faults {
    /// A device that passes writes on to `device`. Torn writes leave physical sectors whole.
    pub fn new(device: Arc<dyn Device>, seed: u64) -> Faults {
        let grain = Grain::Physical.bytes(device.sectors());
        Faults { device, seed, grain, journal: None, rules: Mutex::default(), counts: Default::default() }
    }

    /// A device that keeps all writes in memory, for [`Faults::log`]. `device` holds the initial content and must not
    /// change meanwhile. Memory grows with every write. Discarded sectors read as a fixed non-zero pattern.
    pub fn recording(device: Arc<dyn Device>, seed: u64, grain: Grain) -> Faults {
        let journal = Some(Arc::new(Journal::new(device.clone(), grain)));
        Faults { grain: grain.bytes(device.sectors()), journal, ..Faults::new(device, seed) }
    }

    /// The device as another program finds it when the program that wrote `log` ended before its write `k`, and the power
    /// stays on: all writes before `k` are there, and those in doubt stay in doubt. It records what follows; the writes
    /// in doubt are the first ones of its log.
    ///
    /// # Panics
    /// If `k` is greater than [`Log::writes`].
    pub fn going_on(log: &Log, k: usize) -> Faults {
        let journal = log.go_on(k);
        let (device, grain) = journal.base();
        Faults { grain, journal: Some(Arc::new(journal)), ..Faults::new(device, 0) }
    }

    /// Adds a fault.
    pub fn inject(&self, when: When, fault: Fault) {
        self.rules.lock().push((when, fault));
    }

    /// Removes all faults.
    pub fn heal(&self) {
        self.rules.lock().clear();
    }

    /// The number of transfers of this operation so far, which is the number that the next one gets.
    pub fn count(&self, operation: Operation) -> u64 {
        self.counter(operation).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Flips bits of the byte at `offset` on the medium. While recording, this counts as a durable write in the log.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], and the errors of the device below.
    pub fn flip(&self, offset: u64, mask: u8) -> Result<()> {
        let sector = u64::from(self.sectors().logical);
        let (start, at) = (offset / sector * sector, (offset % sector) as usize);
        check_transfer(self, Operation::Write, start, sector)?;
        let mut data = vec![0; sector as usize];
        self.fetch(None, start, &mut data)?;
        data[at] ^= mask;
        self.store(None, start, &data, true)
    }

    /// The log of the run so far.
    ///
    /// # Panics
    /// If the device was not made with [`Faults::recording`].
    pub fn log(&self) -> Log {
        self.journal.as_ref().expect("a log is kept by a recording device").log()
    }

    /// Whether there are faults and every one is [`Fault::Again`].
    fn only_repeats(&self) -> bool {
        let rules = self.rules.lock();
        !rules.is_empty() && rules.iter().all(|(_, fault)| *fault == Fault::Again)
    }

    fn counter(&self, operation: Operation) -> Option<&AtomicU64> {
        let place = COUNTED.iter().position(|&counted| counted == operation)?;
        Some(&self.counts[place])
    }

    /// Counts a transfer and applies the faults that delay it or make it fail. Returns the transfer's number and its
    /// faults.
    fn meet(&self, operation: Operation, offset: u64, length: u64) -> Result<(u64, SmallVec<[Fault; 1]>)> {
        let counter = self.counter(operation).expect("only transfers are counted");
        let (number, met) = {
            let rules = self.rules.lock();
            let number = counter.fetch_add(1, Ordering::Relaxed);
            let place = offset..offset + length;
            let met =
                rules.iter().filter(|(when, _)| when.meets(operation, number, place.clone(), self.seed));
            (number, met.map(|&(_, fault)| fault).collect::<SmallVec<[Fault; 1]>>())
        };
        for fault in &met {
            match fault {
                Fault::Delay(time) => std::thread::sleep(*time),
                Fault::Tear if operation == Operation::Write => {}
                Fault::Fail | Fault::Tear => return Err(self.failure(operation, offset, length)),
                Fault::Flip { .. } | Fault::Again => {}
            }
        }
        Ok((number, met))
    }

    fn failure(&self, operation: Operation, offset: u64, length: u64) -> Error {
        Error::io(self.name(), operation, offset, length, io::Error::other("injected fault"))
    }

    fn read(&self, copy: Option<usize>, offset: u64, buffer: &mut [u8]) -> Result<()> {
        check_transfer(self, Operation::Read, offset, buffer.len() as u64)?;
        let (_, met) = self.meet(Operation::Read, offset, buffer.len() as u64)?;
        self.fetch(copy, offset, buffer)?;
        for fault in met {
            if fault == Fault::Again {
                self.fetch(copy, offset, buffer)?;
            }
            if let (Fault::Flip { byte, mask }, false) = (fault, buffer.is_empty()) {
                buffer[(byte % buffer.len() as u64) as usize] ^= mask;
            }
        }
        Ok(())
    }

    fn write(&self, copy: Option<usize>, offset: u64, data: &[u8], durable: bool) -> Result<()> {
        check_transfer(self, Operation::Write, offset, data.len() as u64)?;
        let (number, met) = self.meet(Operation::Write, offset, data.len() as u64)?;
        let mut data = Cow::Borrowed(data);
        for fault in met {
            match fault {
                Fault::Flip { byte, mask } => flip(&mut data, byte, mask),
                Fault::Tear => {
                    for (at, length) in pieces(offset, data.len() as u64, self.grain) {
                        if mix(mix(self.seed, number), at).is_multiple_of(2) {
                            let piece = &data[at as usize..][..length as usize];
                            self.store(copy, offset + at, piece, false)?;
                        }
                    }
                    return Err(self.failure(Operation::Write, offset, data.len() as u64));
                }
                Fault::Again => self.store(copy, offset, &data, durable)?,
                Fault::Fail | Fault::Delay(_) => {}
            }
        }
        self.store(copy, offset, &data, durable)
    }

    fn fetch(&self, copy: Option<usize>, offset: u64, buffer: &mut [u8]) -> Result<()> {
        match (&self.journal, copy) {
            (Some(journal), Some(copy)) => journal.read_copy(copy, offset, buffer),
            (Some(journal), None) => journal.read(offset, buffer),
            (None, Some(copy)) => self.device.read_copy(copy, offset, buffer),
            (None, None) => self.device.read_at(offset, buffer),
        }
    }

    fn store(&self, copy: Option<usize>, offset: u64, data: &[u8], durable: bool) -> Result<()> {
        match (&self.journal, copy) {
            (Some(journal), _) => {
                journal.write(offset, data, durable);
                return Ok(());
            }
            (None, Some(copy)) => self.device.repair_copy(copy, offset, data)?,
            (None, None) => self.device.write_at(offset, data)?,
        }
        if durable { self.device.flush() } else { Ok(()) }
    }

    /// Carries out a request. A durable write is no flush: it makes only itself durable.
    fn carry_out(&self, request: &mut Request) -> Result<()> {
        for segment in &request.segments {
            let range = queue::buffer_range(self.name(), segment, request.buffer.len())?;
            match request.kind {
                Kind::Read => self.read_at(segment.offset, &mut request.buffer[range])?,
                Kind::Write => self.write(None, segment.offset, &request.buffer[range], request.durable)?,
                Kind::Flush => {}
            }
        }
        if request.kind == Kind::Flush { self.flush() } else { Ok(()) }
    }
}

fn flip(data: &mut Cow<[u8]>, byte: u64, mask: u8) {
    if !data.is_empty() {
        let at = (byte % data.len() as u64) as usize;
        data.to_mut()[at] ^= mask;
    }
}

impl Device for Faults {
    fn name(&self) -> &str {
        self.device.name()
    }

    fn len(&self) -> u64 {
        self.device.len()
    }

    fn sectors(&self) -> Sectors {
        self.device.sectors()
    }

    fn below(&self) -> Option<&dyn Device> {
        Some(&*self.device)
    }

    fn read_only(&self) -> bool {
        self.device.read_only() && self.journal.is_none()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.read(None, offset, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.write(None, offset, data, false)
    }

    fn read_copy(&self, copy: usize, offset: u64, buffer: &mut [u8]) -> Result<()> {
        check_copy(self.name(), copy, self.copies())?;
        self.read(Some(copy), offset, buffer)
    }

    fn repair_copy(&self, copy: usize, offset: u64, data: &[u8]) -> Result<()> {
        check_copy(self.name(), copy, self.copies())?;
        self.write(Some(copy), offset, data, false)
    }

    fn next_data(&self, offset: u64) -> u64 {
        if self.journal.is_some() { offset.min(self.len()) } else { self.device.next_data(offset) }
    }

    fn flush(&self) -> Result<()> {
        let met = self.meet(Operation::Flush, 0, 0);
        match (&self.journal, met) {
            (Some(journal), Ok(_)) => journal.flush(),
            (Some(journal), Err(error)) => {
                journal.lose();
                return Err(error);
            }
            (None, met) => return met.and_then(|_| self.device.flush()),
        }
        Ok(())
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        check_transfer(self, Operation::Discard, offset, length)?;
        self.meet(Operation::Discard, offset, length)?;
        match &self.journal {
            Some(journal) => {
                journal.discard(offset, length);
                Ok(())
            }
            None => self.device.discard(offset, length),
        }
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue + '_>> {
        if self.journal.is_none() && self.only_repeats() {
            return Ok(Box::new(again::AgainQueue::new(self, self.device.queue(depth)?, depth)));
        }
        Ok(Box::new(Immediate::carried_out_by(self, depth, Faults::carry_out)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Buffer, MemoryDevice, Segment, Survivors};
    use smallvec::smallvec;
    use std::time::Instant;

    const READ: Operation = Operation::Read;
    const WRITE: Operation = Operation::Write;

    fn both() -> [Faults; 2] {
        let base = || Arc::new(MemoryDevice::new(64 << 10, Sectors::SMALL));
        [Faults::new(base(), 8664), Faults::recording(base(), 8664, Grain::Physical)]
    }

    fn first(faults: &Faults, sector: u64) -> u8 {
        let mut data = [0; 512];
        faults.read_at(sector * 512, &mut data).unwrap();
        data[0]
    }

    #[test]
    fn a_bad_place_fails_whoever_touches_it() {
        let faults = Faults::new(Arc::new(MemoryDevice::new(8192, Sectors::SMALL)), 1);
        faults.inject(When::within(Operation::Read, 1024..1536), Fault::Fail);
        let read = |offset, length: usize| faults.read_at(offset, &mut vec![0; length]).is_ok();
        assert_eq!(
            [read(0, 1024), read(1536, 512), read(512, 1024), read(1024, 512)],
            [true, true, false, false]
        );
        assert!(!read(0, 8192) && faults.write_at(1024, &[1; 512]).is_ok());
    }

    #[test]
    fn the_nth_transfer_fails_once() {
        for faults in both() {
            for operation in COUNTED {
                faults.inject(When::nth(operation, 1), Fault::Fail);
            }
            for n in 0..3 {
                let results = [
                    faults.read_at(0, &mut [0; 512]),
                    faults.write_at(512 * n, &[7; 512]),
                    faults.flush(),
                    faults.discard(8192, 512),
                ];
                for (operation, result) in COUNTED.into_iter().zip(results) {
                    match result {
                        Err(Error::Io { operation: failed, .. }) => {
                            assert_eq!((n, failed), (1, operation));
                        }
                        other => assert!(other.is_ok() && n != 1, "{operation} {n}: {other:?}"),
                    }
                }
            }
            faults.heal();
            assert_eq!(
                [0, 1, 2].map(|sector| first(&faults, sector)),
                [7, 0, 7],
                "a failed write left something"
            );
            assert_eq!(faults.count(WRITE), 3);
            assert_eq!(faults.count(Operation::Open), 0);
        }
    }

    #[test]
    fn from_the_nth_on_all_fail_until_healed() {
        for faults in both() {
            faults.inject(When::from(WRITE, 2), Fault::Fail);
            let worked = [(); 5].map(|()| faults.write_at(0, &[1; 512]).is_ok());
            assert_eq!(worked, [true, true, false, false, false]);
            assert!(faults.write_at(1, &[1; 512]).is_err());
            assert_eq!(faults.count(WRITE), 5, "a refused transfer is not counted");
            faults.heal();
            faults.write_at(0, &[1; 512]).unwrap();
        }
    }

    #[test]
    fn batches_and_queues_go_through_the_faults() {
        for faults in both() {
            faults.inject(When::nth(WRITE, 1), Fault::Fail);
            assert!(faults.write_batch(&[(0, &[1; 512]), (512, &[1; 512]), (1024, &[1; 512])]).is_err());
            assert_eq!(faults.count(WRITE), 2);
            faults.inject(When::nth(WRITE, 3), Fault::Fail);
            faults.inject(When::nth(Operation::Flush, 0), Fault::Fail);
            let mut queue = faults.queue(4).unwrap();
            for tag in 0..3 {
                let segments = smallvec![Segment { offset: 4096 + tag * 512, at: 0, length: 512 }];
                queue.submit(Request {
                    tag,
                    kind: Kind::Write,
                    durable: false,
                    segments,
                    buffer: Buffer::from(&[9; 512][..]),
                });
            }
            queue.submit(Request {
                tag: 3,
                kind: Kind::Flush,
                durable: false,
                segments: smallvec![],
                buffer: Buffer::new(0),
            });
            let mut done = Vec::new();
            queue.wait(4, &mut done).unwrap();
            let outcome: Vec<_> = done.iter().map(|each| (each.tag, each.result.is_ok())).collect();
            assert_eq!(outcome, [(0, true), (1, false), (2, true), (3, false)]);
            drop(queue);
            assert_eq!([8, 9, 10].map(|sector| first(&faults, sector)), [9, 0, 9]);
        }
    }

    #[test]
    fn bits_flip_in_flight_and_at_rest() {
        for faults in both() {
            faults.write_at(0, &[0; 1024]).unwrap();
            faults.inject(When::nth(READ, 0), Fault::Flip { byte: 515, mask: 0x81 });
            let mut data = [0; 1024];
            faults.read_at(0, &mut data).unwrap();
            assert_eq!((data[515], data.iter().filter(|&&byte| byte != 0).count()), (0x81, 1));
            assert_eq!(first(&faults, 1), 0, "a read changed the medium");

            faults.inject(When::nth(WRITE, 1), Fault::Flip { byte: 0, mask: 2 });
            let sent = [1; 512];
            faults.write_at(512, &sent).unwrap();
            assert_eq!(first(&faults, 1), 3);

            faults.flip(513, 0xFF).unwrap();
            faults.read_at(0, &mut data).unwrap();
            assert_eq!((data[512], data[513], data[514]), (3, 0xFE, 1));
            assert!(faults.flip(64 << 10, 1).is_err());
        }
    }

    #[test]
    fn a_torn_write_leaves_whole_sectors() {
        let tear = |faults: &Faults| {
            faults.inject(When::nth(WRITE, 0), Fault::Tear);
            assert!(faults.write_at(0, &[5; 32 * 512]).is_err());
            let mut data = vec![0; 33 * 512];
            faults.read_at(0, &mut data).unwrap();
            for sector in data.chunks(512) {
                assert!(sector.iter().all(|byte| *byte == sector[0]));
            }
            data.iter().step_by(512).map(|&byte| byte == 5).collect::<Vec<bool>>()
        };
        let [one, two] = both().map(|faults| tear(&faults));
        assert_eq!(one, two, "the seed says which");
        let kept = one.iter().filter(|&&kept| kept).count();
        assert!(kept > 4 && kept < 28, "{kept} of 32 sectors");
        assert!(!one[32]);
    }

    #[test]
    fn a_delay_delays() {
        for faults in both() {
            faults.inject(When::nth(READ, 1), Fault::Delay(Duration::from_millis(30)));
            faults.read_at(0, &mut [0; 512]).unwrap();
            let start = Instant::now();
            faults.read_at(0, &mut [0; 512]).unwrap();
            assert!(start.elapsed() >= Duration::from_millis(30));
        }
    }

    #[test]
    fn chance_follows_the_seed() {
        let failures = |seed| {
            let faults = Faults::new(Arc::new(MemoryDevice::new(4096, Sectors::SMALL)), seed);
            faults.inject(When::one_in(READ, 10), Fault::Fail);
            (0..1000).map(|_| faults.read_at(0, &mut [0; 512]).is_err()).collect::<Vec<bool>>()
        };
        let one = failures(1);
        assert_eq!(one, failures(1));
        assert_ne!(one, failures(2));
        let count = one.iter().filter(|&&failed| failed).count();
        assert!((50..200).contains(&count), "{count} of 1000");
    }

    #[test]
    fn recording_leaves_the_device_below_alone_and_reads_its_own_writes() {
        let base = Arc::new(MemoryDevice::new(64 << 10, Sectors::SMALL));
        let faults = Faults::recording(base.clone(), 1, Grain::Logical);
        faults.write_at(512, &[1; 1024]).unwrap();
        faults.write_at(1024, &[2; 1024]).unwrap();
        assert_eq!([0, 1, 2, 3, 4].map(|sector| first(&faults, sector)), [0, 1, 2, 2, 0]);
        assert!(base.to_image().iter().all(|&byte| byte == 0));
        // A failed flush makes nothing durable.
        faults.inject(When::nth(Operation::Flush, 0), Fault::Fail);
        assert!(faults.flush().is_err());
        let image = faults.log().cut(2, Survivors::None).to_image().unwrap();
        assert!(image.iter().all(|&byte| byte == 0));
    }
}
