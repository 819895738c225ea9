//! Which block comes next.

use super::Job;
use super::worker::Start;
use crate::Result;
use fastrand::Rng;
use std::ops::Range;

/// The shape of a load, in fio's and Iometer's terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Bytes of one I/O: a multiple of the device's logical sector.
    pub block: u32,
    /// Offsets are multiples of this many bytes; the block itself if 0.
    pub align: u32,
    /// Share of reads, in percent; the others are writes.
    pub read_percent: u8,
    /// Share of I/Os that go to a random place, in percent; the others go on from the one before.
    pub random_percent: u8,
    /// Threads.
    pub workers: u32,
    /// I/Os that each worker keeps outstanding.
    pub queue_depth: u32,
    /// Each worker has its own equal part of the range, instead of all sharing the whole.
    pub own_span: bool,
}

/// A job's places, worked out and checked once.
pub(crate) struct Layout {
    block: u64,
    align: u64,
    range: Range<u64>,
    own_span: bool,
    workers: u64,
}

impl Layout {
    pub fn new(job: &Job, sector: u32) -> Result<Layout> {
        let pattern = &job.pattern;
        let (block, sector) = (u64::from(pattern.block), u64::from(sector));
        let align = if pattern.align == 0 { block } else { u64::from(pattern.align) };
        let workers = u64::from(pattern.workers);
        if block == 0 || !block.is_multiple_of(sector) || !align.is_multiple_of(sector) {
            return Job::refuse(format!(
                "block size {block} and alignment {align} must be multiples of the {sector}-byte sector"
            ));
        }
        if pattern.workers == 0 || pattern.queue_depth == 0 {
            return Job::refuse("workers and queue depth must be at least 1");
        }
        if pattern.read_percent > 100 || pattern.random_percent > 100 {
            return Job::refuse("a share is at most 100 percent");
        }
        let layout = Layout { block, align, range: job.range.clone(), own_span: pattern.own_span, workers };
        let span = layout.span(0);
        if span.end - span.start < block {
            let length = span.end - span.start;
            return Job::refuse(format!("a span of {length} bytes holds no block of {block} bytes"));
        }
        Ok(layout)
    }

    /// The part of the range that a worker stays inside.
    fn span(&self, worker: u64) -> Range<u64> {
        let length = self.range.end - self.range.start;
        if !self.own_span {
            return self.range.clone();
        }
        let part = length / self.workers / self.align * self.align;
        let start = self.range.start + part * worker;
        start..start + part
    }
}

/// One worker's walk over its span.
pub(crate) struct Walk {
    start: u64,
    /// How many aligned places there are.
    places: u64,
    align: u64,
    /// Places that one block takes.
    step: u64,
    next: u64,
    random_percent: u8,
    read_percent: u8,
    rng: Rng,
}

impl Walk {
    pub fn new(job: &Job, layout: &Layout, worker: usize, start: Start) -> Walk {
        let span = layout.span(worker as u64);
        let places = (span.end - span.start - layout.block) / layout.align + 1;
        // Sequential workers on a shared span begin apart, so that they do not read each other's blocks from a cache.
        let first = if layout.own_span { 0 } else { places / layout.workers * worker as u64 };
        let step = layout.block.div_ceil(layout.align);
        // Whole blocks that fit one after the other: where a walk in order comes round to its beginning.
        let round = places.div_ceil(step);
        let next = (first / step + start.taken) % round * step;
        Walk {
            start: span.start,
            places,
            align: layout.align,
            step,
            next,
            random_percent: job.pattern.random_percent,
            read_percent: job.pattern.read_percent,
            rng: Rng::with_seed(job.seed.wrapping_add((worker as u64) << 32) ^ start.piece << 48),
        }
    }

    /// Whether the next I/O is a read, and its offset.
    pub fn step(&mut self) -> (bool, u64) {
        let read = self.read_percent == 100 || self.rng.u8(..100) < self.read_percent;
        let random = self.random_percent == 100
            || (self.random_percent > 0 && self.rng.u8(..100) < self.random_percent);
        let place = if random { self.rng.u64(..self.places) } else { self.next };
        self.next = place + self.step;
        if self.next >= self.places {
            self.next = 0;
        }
        (read, self.start + place * self.align)
    }
}
