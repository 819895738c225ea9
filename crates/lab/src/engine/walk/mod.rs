//! Which block a worker reads or writes next.

use super::Job;
use super::pattern::{Begin, NextFile, Pattern, Portion};
use super::places::{Permutation, Places};
use super::script::{Event, Script, What};
use crate::Result;
use fastrand::Rng;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The places of a job, computed and checked once for all workers.
pub(crate) struct Layout {
    range: Range<u64>,
    own_span: bool,
    workers: u64,
    files: u64,
    /// Spans and files are multiples of this many bytes.
    align: u64,
    kinds: Vec<Kind>,
    /// Whether there are reads and writes.
    pub is_mix: bool,
    /// A recorded load, which says all I/Os, and the device's sector.
    pub script: Option<(Arc<Script>, u64)>,
    /// The number of sequential I/Os that all workers took from the shared position ([`Begin::Shared`]).
    shared: AtomicU64,
}

/// One kind of I/O, with the values that follow from the length of a file.
struct Kind {
    portion: Portion,
    align: u64,
    /// The sum of the weights of all kinds up to this one: a draw below it, and not below the sum before, is of this
    /// kind.
    until: u32,
    /// Draws from the places at which the kind's largest I/O fits.
    places: Places,
    count: u64,
}

impl Layout {
    pub(super) fn new(job: &Job, sector: u32) -> Result<Layout> {
        let Pattern { workers, queue_depth, own_span, shape, .. } = &job.pattern;
        let workers = u64::from(*workers);
        if workers == 0 || *queue_depth == 0 {
            return Job::refuse("workers and queue depth must be at least 1");
        }
        shape.spread.check()?;
        if let (true, Some(why)) = (job.verify, job.pattern.why_not_verified(job.range.start, sector)) {
            return Job::refuse(format!("{why}, as verification needs"));
        }
        if shape.script.as_ref().is_some_and(|script| {
            workers != 1
                || script.largest() > job.pattern.block
                || script.count(What::Sync) == script.events.len() as u64
        }) {
            return Job::refuse("a recorded load has I/Os, one worker, and a block that holds each of them");
        }
        let portions = job.pattern.portions();
        for portion in &portions {
            check(portion, &job.pattern, sector)?;
        }
        if shape.once && portions.len() > 1 {
            return Job::refuse("each place once is of one kind of I/O");
        }
        if let Some(stride) =
            shape.stride.filter(|stride| !stride.unsigned_abs().is_multiple_of(sector.into()))
        {
            return Job::refuse(format!("a stride of {stride} is no multiple of the sector"));
        }
        let align = portions.iter().map(|portion| u64::from(portion.alignment(sector))).max().unwrap_or(1);
        let mut layout = Layout {
            range: job.range.clone(),
            own_span: *own_span,
            workers,
            files: u64::from(shape.files.max(1)),
            align,
            kinds: Vec::new(),
            is_mix: job.pattern.is_mix(),
            script: shape.script.clone().map(|script| (script, u64::from(sector.max(1)))),
            shared: AtomicU64::new(0),
        };
        let length = layout.file_length();
        if let Some(why) = job.pattern.why_not_begun(length) {
            return Job::refuse(why);
        }
        let mut until = 0;
        for portion in portions {
            let (most, align) = (u64::from(portion.most), u64::from(portion.alignment(sector)));
            if length < most {
                return Job::refuse(format!("a span of {length} bytes holds no block of {most} bytes"));
            }
            until += portion.weight;
            let count = (length - most) / align + 1;
            let places = Places::new(&shape.spread, count, align, job.seed);
            layout.kinds.push(Kind { portion, align, until, places, count });
        }
        Ok(layout)
    }

    /// The I/O of an event of a recorded load.
    pub(super) fn recorded(&self, event: &Event, sector: u64) -> Step {
        let range = event.range(sector, self.range.end - self.range.start);
        Step {
            read: event.what == What::Read,
            offset: self.range.start + range.start,
            length: (range.end - range.start) as u32,
            delay: Duration::ZERO,
        }
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

    /// The length in bytes of each of a worker's files.
    fn file_length(&self) -> u64 {
        let span = self.span(0);
        let length = span.end - span.start;
        match self.files {
            1 => length,
            files => length / files / self.align * self.align,
        }
    }
}

fn check(portion: &Portion, pattern: &Pattern, sector: u32) -> Result<()> {
    let Portion { least, most, .. } = *portion;
    let align = portion.alignment(sector);
    let is_whole = |bytes: u32| bytes > 0 && bytes.is_multiple_of(sector);
    if !is_whole(least) || !is_whole(align) {
        return Job::refuse(format!(
            "block size {least} and alignment {align} must be multiples of the {sector}-byte sector"
        ));
    }
    if most < least || !most.is_multiple_of(least) || most > pattern.block {
        return Job::refuse(format!("blocks of {least} to {most} bytes are no multiples of the smallest"));
    }
    if portion.read_percent > 100 || portion.random_percent > 100 {
        return Job::refuse("a share is at most 100 percent");
    }
    if portion.weight == 0 || portion.weight > 1_000_000 || pattern.shape.mix.len() > 10_000 {
        return Job::refuse("the weights of a mix are 1 to 1,000,000, of at most 10,000 kinds");
    }
    Ok(())
}

/// One I/O to be issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub read: bool,
    pub offset: u64,
    pub length: u32,
    /// No I/O is issued for this long before this one.
    pub delay: Duration,
}

/// One worker's sequence of I/Os over its span. It continues from one piece of a job to the next.
pub(crate) struct Walk {
    start: u64,
    file_length: u64,
    /// For each file, the place of its next sequential I/O, from the file's beginning: of the next read and the next
    /// write if each has a position of its own, otherwise the first holds for both.
    next: Vec<[u64; 2]>,
    own_positions: bool,
    file: usize,
    next_file: NextFile,
    begin: Begin,
    stride: Option<i64>,
    kind: usize,
    burst_left: u32,
    /// The number of I/Os that follow each other from each random place on.
    run: u32,
    run_left: u32,
    steady_runs: bool,
    read: bool,
    once: Option<Once>,
    seed: u64,
    rng: Rng,
}

/// Visits each place once in a random order, and then again in another order.
struct Once {
    number: u64,
    count: u64,
    order: Permutation,
}

impl Walk {
    pub(super) fn new(job: &Job, layout: &Layout, worker: usize) -> Walk {
        let shape = &job.pattern.shape;
        let index = worker as u64;
        let span = layout.span(index);
        let file_length = layout.file_length();
        let first = match shape.begin {
            _ if layout.own_span => 0,
            Begin::Apart => {
                let kind = &layout.kinds[0];
                kind.count / layout.workers * index * kind.align
            }
            Begin::Together | Begin::Shared => 0,
            Begin::Every(bytes) => bytes.saturating_mul(index) / layout.align * layout.align,
        };
        // With a negative stride the worker begins at the end and goes backwards.
        let most = u64::from(layout.kinds[0].portion.most);
        let goes_back = shape.stride.is_some_and(|stride| stride < 0);
        let first = if goes_back { file_length - most - first.min(file_length - most) } else { first };
        let seed = match shape.same_seed {
            true => job.seed,
            false => job.seed.wrapping_add(index << 32),
        };
        let count = layout.kinds[0].count;
        let once = shape.once.then(|| Once { number: 0, count, order: Permutation::new(count, seed) });
        Walk {
            start: span.start,
            file_length,
            next: vec![[first; 2]; layout.files as usize],
            own_positions: shape.own_positions,
            file: layout.files as usize - 1,
            next_file: shape.next_file,
            begin: shape.begin,
            stride: shape.stride,
            kind: 0,
            burst_left: 0,
            run: shape.run.max(1),
            run_left: 0,
            steady_runs: shape.steady_runs,
            read: true,
            once,
            seed,
            rng: Rng::with_seed(seed),
        }
    }

    /// Begins a piece of the job. The random draws of a piece depend on the seed and the piece alone, not on how many
    /// I/Os the piece before it had.
    pub(super) fn begin_piece(&mut self, piece: u64) {
        self.rng = Rng::with_seed(self.seed ^ piece << 48);
    }

    /// The next I/O; if `wanted` is given, the next read (`true`) or write of a load that has both.
    pub(super) fn step(&mut self, layout: &Layout, wanted: Option<bool>) -> Step {
        let (kind, delay) = match wanted {
            None => self.next_kind(layout),
            Some(read) => (self.kind_of(layout, read), Duration::ZERO),
        };
        let kind = &layout.kinds[kind];
        let portion = &kind.portion;
        let mut read = match wanted {
            None => portion.read_percent == 100 || self.rng.u8(..100) < portion.read_percent,
            Some(read) => read,
        };
        let mut random = portion.random_percent == 100
            || (portion.random_percent > 0 && self.rng.u8(..100) < portion.random_percent);
        if random && self.run > 1 {
            match self.run_left {
                0 => self.run_left = self.run - 1,
                _ => (random, self.run_left) = (false, self.run_left - 1),
            }
        }
        if self.steady_runs {
            match random {
                true => self.read = read,
                false => read = self.read,
            }
        }
        let length = match portion.most / portion.least {
            1 => portion.least,
            sizes => portion.least * self.rng.u32(1..=sizes),
        };
        self.choose_file(random);
        let position = usize::from(self.own_positions && !read);
        let place = match random {
            true => self.random_place(kind),
            false => self.next_place(layout, kind, length, position),
        };
        let after = match (self.stride, place) {
            (None, place) => place + u64::from(length),
            (Some(stride), place) if stride >= 0 => place + stride.unsigned_abs(),
            // Below the beginning, the place becomes invalid here and [`Walk::next_place`] continues at the end.
            (Some(stride), place) => place.checked_sub(stride.unsigned_abs()).unwrap_or(u64::MAX),
        };
        self.next[self.file][position] = after;
        let offset = self.start + self.file as u64 * self.file_length + place;
        Step { read, offset, length, delay }
    }

    /// Draws the kind of the next I/O, or goes on with a burst of one kind. Returns its number and the time before it
    /// in which nothing is issued.
    fn next_kind(&mut self, layout: &Layout) -> (usize, Duration) {
        let mut delay = Duration::ZERO;
        if let [only] = &layout.kinds[..] {
            if !only.portion.delay.is_zero() {
                if self.burst_left == 0 {
                    (delay, self.burst_left) = (only.portion.delay, only.portion.burst.max(1));
                }
                self.burst_left -= 1;
            }
        } else {
            if self.burst_left == 0 {
                let drawn = self.rng.u32(..layout.kinds.last().expect("it has kinds").until);
                self.kind = layout.kinds.partition_point(|kind| kind.until <= drawn);
                let portion = &layout.kinds[self.kind].portion;
                (delay, self.burst_left) = (portion.delay, portion.burst.max(1));
            }
            self.burst_left -= 1;
        }
        (self.kind, delay)
    }

    /// Draws the kind of a read or of a write, in proportion to how many of those each kind has.
    fn kind_of(&mut self, layout: &Layout, read: bool) -> usize {
        let share = |kind: &Kind| {
            let Portion { weight, read_percent, .. } = kind.portion;
            u64::from(weight) * u64::from(if read { read_percent } else { 100 - read_percent })
        };
        let all: u64 = layout.kinds.iter().map(share).sum();
        let mut drawn = self.rng.u64(..all.max(1));
        let found = layout.kinds.iter().position(|kind| match drawn.checked_sub(share(kind)) {
            Some(rest) => {
                drawn = rest;
                false
            }
            None => true,
        });
        found.unwrap_or(self.kind)
    }

    fn choose_file(&mut self, random: bool) {
        let files = self.next.len();
        if files == 1 {
            self.file = 0;
            return;
        }
        match self.next_file {
            NextFile::RoundRobin => self.file = (self.file + 1) % files,
            NextFile::Random => self.file = self.rng.usize(..files),
            NextFile::Sequential if random => self.file = self.rng.usize(..files),
            // [`Walk::next_place`] moves on to the next file when the current one is at its end.
            NextFile::Sequential => {}
        }
    }

    fn random_place(&mut self, kind: &Kind) -> u64 {
        let place = match &mut self.once {
            None => kind.places.draw(&mut self.rng),
            Some(once) => {
                if once.number == once.count {
                    once.number = 0;
                    once.order = Permutation::new(once.count, self.rng.u64(..));
                }
                once.number += 1;
                once.order.of(once.number - 1)
            }
        };
        place * kind.align
    }

    fn next_place(&mut self, layout: &Layout, kind: &Kind, length: u32, position: usize) -> u64 {
        let align = kind.align;
        if self.begin == Begin::Shared {
            let step = match self.stride {
                None => u64::from(length).next_multiple_of(align),
                Some(stride) => stride.unsigned_abs(),
            };
            let steps = (self.file_length - u64::from(kind.portion.most)) / step.max(1) + 1;
            return layout.shared.fetch_add(1, Relaxed) % steps * step;
        }
        let next = self.next[self.file][position].checked_next_multiple_of(align).unwrap_or(u64::MAX);
        if next <= self.file_length - u64::from(length) {
            return next;
        }
        if self.next_file == NextFile::Sequential && self.next.len() > 1 {
            self.next[self.file][position] = 0;
            self.file = (self.file + 1) % self.next.len();
        }
        match self.stride {
            // A backward walk continues at the end of the file.
            Some(..0) => (self.file_length - u64::from(length)) / align * align,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests;
