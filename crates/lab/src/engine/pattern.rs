//! Which I/Os a load consists of, and at what rate they are issued.

use super::cells::CELL;
use super::places::Spread;
use super::script::Script;
use std::sync::Arc;
use std::time::Duration;

/// The shape of a load, in fio's and Iometer's terms.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pattern {
    /// Bytes of one I/O, or of the largest if `shape.mix` has several kinds: a multiple of the device's logical sector.
    pub block: u32,
    /// Offsets are multiples of this many bytes; the block itself if 0.
    pub align: u32,
    /// Share of reads, in percent; the others are writes.
    pub read_percent: u8,
    /// Share of I/Os that go to a random place, in percent; each of the others follows the I/O before it.
    pub random_percent: u8,
    /// The number of workers, each a thread.
    pub workers: u32,
    /// The number of I/Os that each worker keeps in flight.
    pub queue_depth: u32,
    /// Whether each worker has its own equal part of the range, instead of all sharing the whole.
    pub own_span: bool,
    /// Settings that only few loads use.
    pub shape: Shape,
}

/// Settings of a load that only few loads use; the default leaves all of them unused.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shape {
    /// Kinds of I/O, drawn by weight; they replace `block`, `align` and the percentages of the pattern. Empty for one
    /// kind.
    pub mix: Vec<Portion>,
    /// How random I/Os are spread over the span.
    pub spread: Spread,
    /// Whether random I/Os visit each place once before any place again. Only for one kind of I/O with a uniform
    /// spread.
    pub once: bool,
    /// The number of I/Os that follow each other from each random place on; 0 and 1 both mean one.
    pub run: u32,
    /// Whether the direction is drawn at random places only, and kept for the sequential I/Os that follow.
    pub steady_runs: bool,
    /// Whether reads and writes each go on from a position of their own, as in fio: a sequential read follows the last
    /// read, and a sequential write the last write. Otherwise both follow the I/O before them, as in DiskSpd and Iometer.
    pub own_positions: bool,
    /// Bytes from the beginning of one sequential I/O to that of the next, backwards if negative; each begins where the
    /// one before it ended if `None`.
    pub stride: Option<i64>,
    /// Where sequential workers that share a span begin.
    pub begin: Begin,
    /// The number of files of equal length that each worker's span is divided into, side by side; 0 and 1 both mean
    /// one.
    pub files: u32,
    /// How a worker chooses the file of its next I/O.
    pub next_file: NextFile,
    /// Whether all workers draw the same random places, as with Iometer's fixed seed.
    pub same_seed: bool,
    /// Limits of the rate; the default issues I/Os as fast as possible.
    pub pace: Pace,
    /// A recorded load, which says all I/Os: of the pattern only the queue depth counts then, and there is one worker.
    pub script: Option<Arc<Script>>,
}

/// One kind of I/O in a mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portion {
    /// How often this kind is drawn, in proportion to the weights of the others.
    pub weight: u32,
    /// Bytes of the smallest I/O.
    pub least: u32,
    /// Bytes of the largest I/O: a multiple of `least`, or `least` itself. All multiples of `least` up to it are
    /// equally likely.
    pub most: u32,
    /// Offsets are multiples of this many bytes; of `least` if 0, of the device's sector if [`Portion::SECTOR`].
    pub align: u32,
    /// Share of reads, in percent.
    pub read_percent: u8,
    /// Share of I/Os that go to a random place, in percent.
    pub random_percent: u8,
    /// The number of I/Os of this kind that follow each other before the next kind is drawn; 0 means one.
    pub burst: u32,
    /// Nothing is issued for this long before each burst.
    pub delay: Duration,
}

impl Portion {
    /// The value of `align` that stands for the device's sector.
    pub const SECTOR: u32 = u32::MAX;

    /// Returns the number of bytes that offsets are multiples of, on a device with sectors of `sector` bytes.
    pub fn alignment(&self, sector: u32) -> u32 {
        match self.align {
            0 => self.least,
            Portion::SECTOR => sector.max(512),
            align => align,
        }
    }

    /// The mean size of an I/O of this kind, in bytes.
    pub fn mean(&self) -> f64 {
        (f64::from(self.least) + f64::from(self.most)) / 2.0
    }
}

impl Pattern {
    /// The kinds of I/O of the pattern: the mix, or the one kind that `block`, `align` and the percentages describe.
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

    /// The mean size of an I/O of the whole pattern, in bytes.
    pub fn mean_block(&self) -> f64 {
        let portions = self.portions();
        let drawn = |portion: &Portion| f64::from(portion.weight) * f64::from(portion.burst.max(1));
        let all: f64 = portions.iter().map(drawn).sum();
        portions.iter().map(|portion| drawn(portion) * portion.mean()).sum::<f64>() / all.max(1e-9)
    }

    /// Why the blocks of the pattern cannot be verified in a range that begins at `start`, on a device with sectors of
    /// `sector` bytes; `None` if they can. A block can be verified if it consists of whole cells of [`CELL`] bytes, as
    /// each cell has a header and a checksum of its own.
    pub(crate) fn why_not_verified(&self, start: u64, sector: u32) -> Option<String> {
        if self.shape.script.is_some() {
            return Some("a recorded load reads what it did not write in the same blocks".into());
        }
        let is_whole = |bytes: u64| bytes.is_multiple_of(CELL as u64);
        let portions = self.portions();
        if let Some(odd) = portions.iter().find(|portion| !is_whole(portion.least.into())) {
            return Some(format!("a block of {} bytes is no multiple of {CELL}", odd.least));
        }
        if !is_whole(start) {
            return Some(format!("its blocks begin at {start} bytes, which is no multiple of {CELL}"));
        }
        let stride = self.shape.stride;
        let aligns = || portions.iter().map(|portion| portion.alignment(sector));
        // A single sequential worker puts whole blocks one after the other, whatever the alignment of its blocks is.
        let is_in_a_row = self.workers == 1
            && self.shape.files <= 1
            && stride.is_none()
            && portions.iter().all(|portion| portion.random_percent == 0);
        if let Some(align) = aligns().find(|align| !is_whole((*align).into()) && !is_in_a_row) {
            return Some(format!(
                "its blocks may begin at every multiple of {align} bytes, not only at multiples of {CELL}"
            ));
        }
        let odd = stride.filter(|stride| !is_whole(stride.unsigned_abs()));
        odd.map(|stride| {
            format!("its blocks begin {stride} bytes after one another, which is no multiple of {CELL}")
        })
    }

    /// Why a worker would have no block at the place where it is told to begin ([`Begin::Every`]) in a span of `length`
    /// bytes; `None` if each has one.
    pub(crate) fn why_not_begun(&self, length: u64) -> Option<String> {
        let Begin::Every(bytes) = self.shape.begin else { return None };
        let last = bytes.saturating_mul(u64::from(self.workers.saturating_sub(1)));
        let is_behind = !self.own_span && last.saturating_add(self.block.into()) > length;
        is_behind.then(|| {
            format!(
                "worker {} is to begin at {last} bytes, and a span of {length} bytes holds no block of {} there",
                self.workers, self.block
            )
        })
    }

    /// Whether the pattern has no writes.
    pub fn only_reads(&self) -> bool {
        self.portions().iter().all(|portion| portion.read_percent == 100)
    }

    /// Whether the pattern has both reads and writes.
    pub fn is_mix(&self) -> bool {
        !self.only_reads() && self.portions().iter().any(|portion| portion.read_percent > 0)
    }

    /// The greatest number of I/Os per second that the limits of the rate allow all workers together; `None` if there
    /// is no limit. Pauses are not counted.
    pub(crate) fn most_iops(&self) -> Option<f64> {
        let per_second = |limit: Rate| match limit {
            Rate::Ios(rate) => rate,
            Rate::Bytes(rate) => rate / self.mean_block().max(1.0),
        };
        let [reads, writes, both] = self.shape.pace.limits.map(|limit| limit.map(per_second));
        let by_direction = match (self.is_mix(), self.only_reads()) {
            (true, _) => reads.zip(writes).map(|(reads, writes)| reads + writes),
            (false, true) => reads,
            (false, false) => writes,
        };
        let each = by_direction.into_iter().chain(both).min_by(f64::total_cmp)?;
        Some(each * f64::from(self.workers))
    }

    /// Whether the load pauses between I/Os, besides keeping to a rate.
    pub(crate) fn pauses(&self) -> bool {
        self.shape.pace.pause.is_some() || self.portions().iter().any(|portion| !portion.delay.is_zero())
    }

    /// The longest time for which the load itself asks that a worker issues nothing: a device that does all it is asked
    /// for may be idle for that long.
    pub(crate) fn longest_idle(&self) -> Duration {
        /// Of the times between the events of a Poisson process, one in half a billion is longer than this many times
        /// their mean.
        const LONGEST_BY_CHANCE: f64 = 20.0;
        let pace = &self.shape.pace;
        let largest = f64::from(self.block);
        let by_rate = pace.limits.iter().flatten().map(|limit| match limit {
            Rate::Ios(rate) => 1.0 / rate,
            Rate::Bytes(rate) => largest / rate,
        });
        let times = if pace.poisson { LONGEST_BY_CHANCE } else { 1.0 };
        let by_rate = by_rate.fold(0.0, f64::max) * times;
        let pause = pace.pause.map(|pause| pause.time);
        let recorded = self.shape.script.as_ref().filter(|script| script.is_paced);
        let gap = recorded.map(|script| script.longest_gap());
        let delays = self.portions().into_iter().map(|portion| portion.delay);
        let paused = pause.into_iter().chain(gap).chain(delays).max().unwrap_or_default();
        paused.max(Duration::try_from_secs_f64(by_rate).unwrap_or(Duration::MAX))
    }
}

/// Where sequential workers that share a span begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Begin {
    /// Evenly spaced, so that they do not read each other's blocks from a cache.
    #[default]
    Apart,
    /// Each at the beginning of the span.
    Together,
    /// Each this many bytes after the worker before it.
    Every(u64),
    /// All workers take their next place from one shared position: together they go over the span once.
    Shared,
}

/// How a worker chooses the file of its next I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NextFile {
    /// The files in order, a different one for each I/O.
    #[default]
    RoundRobin,
    /// A file at random for each I/O.
    Random,
    /// The next file when the current one has been read or written to its end.
    Sequential,
}

/// How fast the I/Os of a load are issued.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pace {
    /// The greatest rates of each worker: of reads, of writes, and of both together.
    pub limits: [Option<Rate>; 3],
    /// Whether I/Os come at the times of a Poisson process with these rates, instead of evenly.
    pub poisson: bool,
    /// Pauses between I/Os.
    pub pause: Option<Pause>,
}

/// A rate per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// I/Os per second.
    Ios(f64),
    /// Bytes per second.
    Bytes(f64),
}

/// A pause of a worker after every `after` of its I/Os. No more than these are issued between two pauses, whatever the
/// queue depth is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// The number of I/Os between two pauses.
    pub after: u32,
    /// The length of the pause.
    pub time: Duration,
    /// The part of the pause in which the worker keeps the processor busy.
    pub busy: Duration,
    /// Whether the pause begins only when no I/O of the worker is in flight any more.
    pub drained: bool,
}
