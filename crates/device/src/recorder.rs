//! Statistics of the transfers that reach a device: counts, bytes, sizes and order.

use crate::{Completion, Device, Kind, Queue, Request, Result, Sectors, Work};
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// A device that passes everything on and counts it.
///
/// A transfer is counted when it is passed on, whether it then succeeds or not: each piece of a batch and each segment
/// of a queue's request is one. Counting takes a few tens of nanoseconds and no lock, so a recorder can stay on during
/// measurements. [`Recorder::traffic`] adds up the counts; [`Traffic::since`] gives the difference of two.
pub struct Recorder {
    device: Arc<dyn Device>,
    shards: Arc<[Shard; SHARDS]>,
    recent: Box<[Recent; 2]>,
}

/// The number of sets of counters, so that threads do not wait for each other's cache lines.
const SHARDS: usize = 16;

// A thread finds its counts by a mask.
const _: () = assert!(SHARDS.is_power_of_two());

#[derive(Default)]
#[repr(align(128))]
struct Shard {
    directions: [Counts; 2],
    flushes: AtomicU64,
    discards: AtomicU64,
    discarded: AtomicU64,
    durable: AtomicU64,
}

struct Counts {
    bytes: AtomicU64,
    sequential: AtomicU64,
    sizes: [AtomicU64; SizeBin::COUNT],
}

impl Default for Counts {
    fn default() -> Counts {
        Counts {
            bytes: AtomicU64::default(),
            sequential: AtomicU64::default(),
            sizes: std::array::from_fn(|_| AtomicU64::default()),
        }
    }
}

/// The ends of recent transfers. Streams of several workers are interleaved on their way to a device, so a single "last
/// end" would not show that each is sequential. An end is kept in the slot given by its hash and is lost when another
/// end takes the slot, which with 1,024 slots is rare for as many streams as a device has in flight. It counts only for
/// the next transfers, because on a small span a random transfer would often begin at one of many older ends.
struct Recent {
    /// The number of transfers so far.
    clock: AtomicU64,
    /// The ends, each with the lowest bits of the clock at its transfer.
    ends: [AtomicU64; Recent::SLOTS],
}

impl Recent {
    const SLOTS: usize = 1024;
    /// The number of following transfers for which an end counts.
    const AGE: u64 = 64;
    /// The bits of a slot that hold the clock. The others hold the end in sectors of 512 bytes, up to 2^57 bytes.
    const CLOCK: u64 = (1 << 16) - 1;

    fn new() -> Recent {
        // No transfer ends at byte 0.
        Recent { clock: AtomicU64::new(0), ends: std::array::from_fn(|_| AtomicU64::new(0)) }
    }

    /// Whether a transfer starts where a recent one ended. Keeps the end of this one.
    fn follows(&self, offset: u64, length: u64) -> bool {
        let end = offset + length;
        let now = self.clock.fetch_add(1, Relaxed);
        let known = self.ends[Recent::slot(offset)].load(Relaxed);
        let age = now.wrapping_sub(known) & Recent::CLOCK;
        self.ends[Recent::slot(end)].store((end >> 9) << 16 | now & Recent::CLOCK, Relaxed);
        known >> 16 == offset >> 9 && known >> 16 != 0 && age <= Recent::AGE
    }

    /// Mixed twice: after one multiplication the slots of two streams in step would differ by the same at each step, so
    /// that at some distances they would share a slot all the time.
    fn slot(position: u64) -> usize {
        const MIX: u64 = 0x9E37_79B9_7F4A_7C15;
        let mixed = (position >> 9).wrapping_mul(MIX);
        ((mixed ^ mixed >> 32).wrapping_mul(MIX) >> 54) as usize
    }
}

/// A range of sizes that are counted together: exactly a power of two, or everything between two neighbouring ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SizeBin {
    /// The smallest size in bytes.
    pub least: u64,
    /// The largest size in bytes.
    pub most: u64,
}

impl SizeBin {
    /// The number of bins. The first is one byte; sizes above 2^39 are all counted in the last bin.
    const COUNT: usize = 80;

    fn place(length: u64) -> usize {
        let log = length.ilog2() as usize;
        (2 * log + usize::from(!length.is_power_of_two())).min(SizeBin::COUNT - 1)
    }

    fn at(place: usize) -> SizeBin {
        let power = 1 << (place / 2);
        if place.is_multiple_of(2) {
            SizeBin { least: power, most: power }
        } else if place == SizeBin::COUNT - 1 {
            SizeBin { least: power + 1, most: u64::MAX }
        } else {
            SizeBin { least: power + 1, most: 2 * power - 1 }
        }
    }
}

impl fmt::Display for SizeBin {
    /// Writes `4 KiB` for a single size, or `4–8 KiB` for the sizes between two powers of two.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scaled = |size: u64| match size {
            0..1024 => (size, "B"),
            1024..1_048_576 => (size >> 10, "KiB"),
            1_048_576..1_073_741_824 => (size >> 20, "MiB"),
            _ => (size >> 30, "GiB"),
        };
        if self.least == self.most {
            let (number, unit) = scaled(self.least);
            write!(f, "{number} {unit}")
        } else {
            let (low, low_unit) = scaled(self.least - 1);
            let (high, unit) = scaled(self.most.saturating_add(1));
            match (self.most == u64::MAX, low_unit == unit) {
                (true, _) => write!(f, "over {low} {low_unit}"),
                (false, true) => write!(f, "{low}–{high} {unit}"),
                (false, false) => write!(f, "{low} {low_unit}–{high} {unit}"),
            }
        }
    }
}

/// The transfers of one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectionTraffic {
    /// The number of transfers.
    pub count: u64,
    /// The number of bytes.
    pub bytes: u64,
    /// The number of transfers that began where a recent one of the same direction had ended.
    pub sequential: u64,
    /// The number of transfers by size, smallest first, without empty bins.
    pub sizes: Vec<(SizeBin, u64)>,
}

impl DirectionTraffic {
    /// The share of transfers that were sequential, 0 to 1; 0 if there were none.
    pub fn sequential_share(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sequential as f64 / self.count as f64 }
    }

    fn since(&self, earlier: &DirectionTraffic) -> DirectionTraffic {
        let before = |bin| {
            earlier.sizes.iter().find_map(|&(other, count)| (other == bin).then_some(count)).unwrap_or(0)
        };
        let sizes = self.sizes.iter().map(|&(bin, count)| (bin, count.saturating_sub(before(bin))));
        DirectionTraffic {
            count: self.count.saturating_sub(earlier.count),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            sequential: self.sequential.saturating_sub(earlier.sequential),
            sizes: sizes.filter(|&(_, count)| count > 0).collect(),
        }
    }
}

/// The transfers that reached a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Reads.
    pub read: DirectionTraffic,
    /// Writes.
    pub write: DirectionTraffic,
    /// The number of flushes.
    pub flushes: u64,
    /// The number of discards.
    pub discards: u64,
    /// Bytes discarded.
    pub discarded_bytes: u64,
    /// The number of writes that had to be durable on completion (force unit access); they are in `write` too.
    pub durable_writes: u64,
}

impl Traffic {
    /// The difference to an earlier count of the same recorder.
    pub fn since(&self, earlier: &Traffic) -> Traffic {
        Traffic {
            read: self.read.since(&earlier.read),
            write: self.write.since(&earlier.write),
            flushes: self.flushes.saturating_sub(earlier.flushes),
            discards: self.discards.saturating_sub(earlier.discards),
            discarded_bytes: self.discarded_bytes.saturating_sub(earlier.discarded_bytes),
            durable_writes: self.durable_writes.saturating_sub(earlier.durable_writes),
        }
    }
}

const READ: usize = 0;
const WRITE: usize = 1;

impl Recorder {
    /// A recorder over `device`, with all counts at zero.
    pub fn new(device: Arc<dyn Device>) -> Recorder {
        Recorder {
            device,
            shards: Arc::new(std::array::from_fn(|_| Shard::default())),
            recent: Box::new([Recent::new(), Recent::new()]),
        }
    }

    /// A recorder over another device that counts together with this one, as for a disk whose bytes are in several files.
    pub fn beside(&self, device: Arc<dyn Device>) -> Recorder {
        Recorder { shards: self.shards.clone(), ..Recorder::new(device) }
    }

    /// Everything counted so far. While transfers are in flight, related counts may differ by those transfers.
    pub fn traffic(&self) -> Traffic {
        let sum = |counter: fn(&Shard) -> &AtomicU64| -> u64 {
            self.shards.iter().map(|shard| counter(shard).load(Relaxed)).sum()
        };
        let direction = |which: usize| {
            let counts = || self.shards.iter().map(|shard| &shard.directions[which]);
            let mut traffic = DirectionTraffic {
                count: 0,
                bytes: counts().map(|counts| counts.bytes.load(Relaxed)).sum(),
                sequential: counts().map(|counts| counts.sequential.load(Relaxed)).sum(),
                sizes: Vec::new(),
            };
            for place in 0..SizeBin::COUNT {
                let count = counts().map(|counts| counts.sizes[place].load(Relaxed)).sum();
                traffic.count += count;
                if count > 0 {
                    traffic.sizes.push((SizeBin::at(place), count));
                }
            }
            traffic
        };
        Traffic {
            read: direction(READ),
            write: direction(WRITE),
            flushes: sum(|shard| &shard.flushes),
            discards: sum(|shard| &shard.discards),
            discarded_bytes: sum(|shard| &shard.discarded),
            durable_writes: sum(|shard| &shard.durable),
        }
    }

    fn shard(&self) -> &Shard {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static PLACE: Cell<usize> = Cell::new(NEXT.fetch_add(1, Relaxed) % SHARDS);
        }
        &self.shards[PLACE.get()]
    }

    fn count(&self, direction: usize, offset: u64, length: u64) {
        if length == 0 {
            return;
        }
        let counts = &self.shard().directions[direction];
        counts.bytes.fetch_add(length, Relaxed);
        counts.sizes[SizeBin::place(length)].fetch_add(1, Relaxed);
        if self.recent[direction].follows(offset, length) {
            counts.sequential.fetch_add(1, Relaxed);
        }
    }

    fn count_request(&self, request: &Request) {
        let direction = match request.kind {
            Kind::Read => READ,
            Kind::Write => WRITE,
            Kind::Flush => {
                self.shard().flushes.fetch_add(1, Relaxed);
                return;
            }
        };
        for segment in &request.segments {
            self.count(direction, segment.offset, u64::from(segment.length));
        }
        if request.kind == Kind::Write && request.durable {
            self.shard().durable.fetch_add(request.segments.len() as u64, Relaxed);
        }
    }
}

impl Device for Recorder {
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

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.count(READ, offset, buffer.len() as u64);
        self.device.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.count(WRITE, offset, data.len() as u64);
        self.device.write_at(offset, data)
    }

    fn read_batch(&self, reads: &mut [(u64, &mut [u8])]) -> Result<()> {
        for (offset, buffer) in reads.iter() {
            self.count(READ, *offset, buffer.len() as u64);
        }
        self.device.read_batch(reads)
    }

    fn write_batch(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        for (offset, data) in writes {
            self.count(WRITE, *offset, data.len() as u64);
        }
        self.device.write_batch(writes)
    }

    fn read_copy(&self, copy: usize, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.count(READ, offset, buffer.len() as u64);
        self.device.read_copy(copy, offset, buffer)
    }

    fn repair_copy(&self, copy: usize, offset: u64, data: &[u8]) -> Result<()> {
        self.count(WRITE, offset, data.len() as u64);
        self.device.repair_copy(copy, offset, data)
    }

    fn flush(&self) -> Result<()> {
        self.shard().flushes.fetch_add(1, Relaxed);
        self.device.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        let shard = self.shard();
        shard.discards.fetch_add(1, Relaxed);
        shard.discarded.fetch_add(length, Relaxed);
        self.device.discard(offset, length)
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue + '_>> {
        Ok(Box::new(RecorderQueue { recorder: self, below: self.device.queue(depth)? }))
    }
}

struct RecorderQueue<'d> {
    recorder: &'d Recorder,
    below: Box<dyn Queue + 'd>,
}

impl Queue for RecorderQueue<'_> {
    fn submit(&mut self, request: Request) {
        self.recorder.count_request(&request);
        self.below.submit(request);
    }

    fn submit_beside(&mut self, request: Request, work: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.recorder.count_request(&request);
        self.below.submit_beside(request, work)
    }

    fn submit_in_parts(&mut self, request: Request) -> Result<()> {
        self.recorder.count_request(&request);
        self.below.submit_in_parts(request)
    }

    fn kick(&mut self) -> Result<()> {
        self.below.kick()
    }

    fn wait_beside(&mut self, least: usize, done: &mut Vec<Completion>, work: &mut Work<'_>) -> Result<()> {
        self.below.wait_beside(least, done, work)
    }

    fn in_flight(&self) -> usize {
        self.below.in_flight()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Buffer, MemoryDevice, Segment};
    use smallvec::smallvec;

    fn recorder() -> Recorder {
        Recorder::new(Arc::new(MemoryDevice::new(64 << 20, Sectors::SMALL)))
    }

    fn bins(traffic: &DirectionTraffic) -> Vec<(String, u64)> {
        traffic.sizes.iter().map(|(bin, count)| (bin.to_string(), *count)).collect()
    }

    #[test]
    fn two_that_count_together_have_one_count() {
        let one = recorder();
        let two = one.beside(Arc::new(MemoryDevice::new(1 << 20, Sectors::SMALL)));
        one.write_at(0, &[0; 512]).unwrap();
        two.write_at(0, &[0; 1024]).unwrap();
        assert_eq!(one.traffic(), two.traffic());
        assert_eq!((one.traffic().write.count, one.traffic().write.bytes), (2, 1536));
    }

    #[test]
    fn counts_both_ways_in() {
        let recorder = recorder();
        recorder.read_at(0, &mut [0; 4096]).unwrap();
        recorder.write_batch(&[(0, &[0; 512]), (8192, &[0; 6144])]).unwrap();
        recorder.flush().unwrap();
        recorder.discard(0, 1 << 20).unwrap();
        let before = recorder.traffic();
        assert_eq!((before.read.count, before.read.bytes), (1, 4096));
        assert_eq!((before.write.count, before.write.bytes), (2, 6656));
        assert_eq!((before.flushes, before.discards, before.discarded_bytes), (1, 1, 1 << 20));
        assert_eq!(bins(&before.write), [("512 B".to_string(), 1), ("4–8 KiB".to_string(), 1)]);

        let mut queue = recorder.queue(2).unwrap();
        let segments = smallvec![
            Segment { offset: 1 << 20, at: 0, length: 4096 },
            Segment { offset: 2 << 20, at: 4096, length: 4096 }
        ];
        queue.submit(Request {
            tag: 1,
            kind: Kind::Write,
            durable: true,
            segments,
            buffer: Buffer::new(8192),
        });
        queue.submit(Request {
            tag: 2,
            kind: Kind::Flush,
            durable: false,
            segments: smallvec![],
            buffer: Buffer::new(0),
        });
        let mut done = Vec::new();
        queue.wait(2, &mut done).unwrap();
        assert_eq!((done.len(), queue.in_flight()), (2, 0));
        let added = recorder.traffic().since(&before);
        assert_eq!((added.write.count, added.write.bytes, added.durable_writes), (2, 8192, 2));
        assert_eq!(bins(&added.write), [("4 KiB".to_string(), 2)], "bins that did not change are left out");
        assert_eq!((added.flushes, added.read.count), (1, 0));
    }

    #[test]
    fn tells_interleaved_sequential_streams_from_random_ones() {
        let recorder = recorder();
        // 32 sequential readers, interleaved.
        for step in 0..100_u64 {
            for stream in 0..32_u64 {
                recorder.read_at((stream << 21) + step * 8192, &mut [0; 8192]).unwrap();
            }
        }
        let sequential = recorder.traffic().read;
        assert!(sequential.sequential_share() > 0.95, "{}", sequential.sequential_share());
        // Scattered writes; the ends of the reads do not count for them.
        for step in 0..3200_u64 {
            recorder.write_at(step * 7919 % 16000 * 4096, &[0; 4096]).unwrap();
        }
        let share = recorder.traffic().write.sequential_share();
        assert!(share < 0.05, "{share}");
        // On a span of 1,024 blocks, a random one begins where one of the 64 before it ended in about 6 of 100 cases.
        let mut random = 1_u64;
        let small = self::recorder();
        for _ in 0..10_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            small.read_at((random >> 54) * 4096, &mut [0; 4096]).unwrap();
        }
        let share = small.traffic().read.sequential_share();
        assert!((0.04..0.08).contains(&share), "{share}");
    }

    /// Readers in step, however far apart, do not take each other's slots all the time.
    #[test]
    fn tells_two_streams_at_any_distance() {
        for distance in 1000..3000_u64 {
            let recorder = recorder();
            for step in 0..200_u64 {
                recorder.read_at(step * 4096, &mut [0; 4096]).unwrap();
                recorder.read_at((distance + step) * 4096, &mut [0; 4096]).unwrap();
            }
            let share = recorder.traffic().read.sequential_share();
            assert!(share > 0.9, "{distance} blocks apart: {share}");
        }
    }

    #[test]
    fn threads_lose_no_count() {
        let recorder = recorder();
        std::thread::scope(|scope| {
            for thread in 0..8_u64 {
                let recorder = &recorder;
                scope.spawn(move || {
                    for _ in 0..10_000 {
                        recorder.read_at(thread << 20, &mut [0; 512]).unwrap();
                    }
                });
            }
        });
        assert_eq!((recorder.traffic().read.count, recorder.traffic().read.bytes), (80_000, 80_000 * 512));
    }

    #[test]
    fn bins_cover_every_size_once() {
        let mut expected = 1;
        for place in 0..SizeBin::COUNT {
            let bin = SizeBin::at(place);
            if place == 1 {
                continue; // Between 1 and 2 there is nothing.
            }
            assert_eq!(bin.least, expected, "bin {place}");
            assert_eq!((SizeBin::place(bin.least), SizeBin::place(bin.most)), (place, place));
            expected = bin.most.wrapping_add(1);
        }
        assert_eq!(expected, 0, "the last bin is open");
        let shown = |length| SizeBin::at(SizeBin::place(length)).to_string();
        assert_eq!(shown(65536), "64 KiB");
        assert_eq!(shown(1 << 20), "1 MiB");
        assert_eq!(shown(600), "512 B–1 KiB");
        assert_eq!(shown(1536 << 10), "1–2 MiB");
        assert_eq!(shown(u64::MAX), "over 512 GiB");
    }
}
