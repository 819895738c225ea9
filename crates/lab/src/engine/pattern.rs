//! Which I/Os a load asks for, and when.

use super::places::Spread;
use std::time::Duration;

/// The shape of a load, in fio's and Iometer's terms.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pattern {
    /// Bytes of one I/O, or of the largest if `mix` has several: a multiple of the device's logical sector.
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
    /// What few loads ask for.
    pub shape: Shape,
}

/// What few loads ask for; the default asks for nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shape {
    /// Kinds of I/O, drawn by weight, instead of the one that `block`, `align` and the shares of the pattern say.
    pub mix: Vec<Portion>,
    /// How I/Os at random are spread.
    pub spread: Spread,
    /// Each place at random once before any comes again. Of one kind of I/O only, spread evenly.
    pub once: bool,
    /// So many I/Os follow each other from a random place on; 0 and 1 are one.
    pub run: u32,
    /// Read or write is drawn at random places only, and holds for those that follow.
    pub steady_runs: bool,
    /// Bytes from the beginning of one sequential I/O to that of the next, backwards if negative; 0 is the block.
    pub stride: i64,
    /// Where workers that share a span begin if they go on in order.
    pub begin: Begin,
    /// Each worker's span is so many files of equal length, side by side; 0 and 1 are one.
    pub files: u32,
    /// Which of the files is next.
    pub next_file: NextFile,
    /// All workers draw the same places, as with Iometer's fixed seed.
    pub same_seed: bool,
    /// How fast, if not as fast as possible.
    pub pace: Pace,
}

/// One kind of I/O of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portion {
    /// How often it is drawn, beside the others.
    pub weight: u32,
    /// Bytes, at least.
    pub least: u32,
    /// Bytes, at most: as large or a multiple of `least`. All multiples between are as likely.
    pub most: u32,
    /// Offsets are multiples of so many bytes; `least` if 0, the device's sector if [`Portion::SECTOR`].
    pub align: u32,
    /// Share of reads, in percent.
    pub read_percent: u8,
    /// Share of I/Os that go to a random place, in percent.
    pub random_percent: u8,
    /// So many follow before the next is drawn.
    pub burst: u32,
    /// Nothing is issued for so long before each burst.
    pub delay: Duration,
}

impl Portion {
    /// The alignment of whatever a device takes.
    pub const SECTOR: u32 = u32::MAX;

    /// What offsets are multiples of on a device with such sectors.
    pub fn alignment(&self, sector: u32) -> u32 {
        match self.align {
            0 => self.least,
            Portion::SECTOR => sector.max(512),
            align => align,
        }
    }

    /// Bytes of the mean I/O.
    pub fn mean(&self) -> f64 {
        (f64::from(self.least) + f64::from(self.most)) / 2.0
    }
}

impl Pattern {
    /// The kinds of I/O that it consists of.
    pub fn portions(&self) -> Vec<Portion> {
        if !self.shape.mix.is_empty() {
            return self.shape.mix.clone();
        }
        vec![Portion {
            weight: 1,
            least: self.block,
            most: self.block,
            align: self.align,
            read_percent: self.read_percent,
            random_percent: self.random_percent,
            burst: 1,
            delay: Duration::ZERO,
        }]
    }

    /// Bytes of the mean I/O.
    pub fn mean_block(&self) -> f64 {
        let portions = self.portions();
        let drawn = |portion: &Portion| f64::from(portion.weight) * f64::from(portion.burst.max(1));
        let all: f64 = portions.iter().map(drawn).sum();
        portions.iter().map(|portion| drawn(portion) * portion.mean()).sum::<f64>() / all.max(1e-9)
    }

    /// Whether it only reads.
    pub fn only_reads(&self) -> bool {
        self.portions().iter().all(|portion| portion.read_percent == 100)
    }
}

/// Where workers that share a span begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Begin {
    /// Evenly apart, so that they do not read each other's blocks from a cache.
    #[default]
    Apart,
    /// Each at the beginning.
    Together,
    /// Each so many bytes after the one before it.
    Every(u64),
    /// They take the next place from each other: together they go over the span once.
    Shared,
}

/// Which of several files is next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NextFile {
    /// One after the other, I/O by I/O.
    #[default]
    RoundRobin,
    /// Any.
    Random,
    /// The next when one has been gone over.
    Sequential,
}

/// How fast a load goes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pace {
    /// What each worker issues at most of reads, of writes, and of both together.
    pub limits: [Option<Rate>; 3],
    /// I/Os come as a Poisson process of these rates, and not evenly.
    pub poisson: bool,
    /// Pauses.
    pub pause: Option<Pause>,
}

/// So many a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// I/Os.
    Ios(f64),
    /// Bytes.
    Bytes(f64),
}

/// A pause after every so many I/Os of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// I/Os.
    pub after: u32,
    /// How long.
    pub time: Duration,
    /// How much of it the processor is kept busy.
    pub busy: Duration,
    /// Counted when they have been issued, and not when they have completed.
    pub at_issue: bool,
    /// The pause begins when nothing is on its way any more.
    pub drained: bool,
}
