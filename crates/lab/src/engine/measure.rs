//! What a run measured.

use super::{Corruption, CpuTime, Job, ProcessorTime, Stop};
use hdrhistogram::Histogram;
use std::time::Duration;

/// What one worker did.
#[derive(Default)]
pub(crate) struct Outcome {
    pub reads: Tally,
    pub writes: Tally,
    pub syncs: Latencies,
    pub issued: Issued,
    pub timeline: Vec<Interval>,
    pub last: Duration,
    pub verified: u64,
    pub corrupted: u64,
    pub corruptions: Vec<Corruption>,
    pub touched: u64,
}

/// Latencies in nanoseconds, to three significant figures, from 1 ns to 10 minutes.
#[derive(Clone)]
pub struct Latencies(Histogram<u64>);

/// Longer latencies are counted as this one.
const LONGEST: u64 = 600_000_000_000;

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies(Histogram::new_with_bounds(1, LONGEST, 3).expect("constant bounds are valid"))
    }
}

impl Latencies {
    pub(crate) fn record(&mut self, latency: Duration) {
        self.0.saturating_record((latency.as_nanos() as u64).clamp(1, LONGEST));
    }

    /// Adds what `other` recorded.
    pub fn add(&mut self, other: &Latencies) {
        self.0.add(&other.0).expect("both have the same bounds");
    }

    /// How many were recorded.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The mean in nanoseconds; 0 if nothing was recorded.
    pub fn mean(&self) -> f64 {
        self.0.mean()
    }

    /// The latency in nanoseconds that `percent` percent of all do not exceed.
    pub fn percentile(&self, percent: f64) -> u64 {
        self.0.value_at_percentile(percent)
    }

    /// The smallest in nanoseconds; 0 if nothing was recorded.
    pub fn min(&self) -> u64 {
        self.0.min()
    }

    /// Standard deviation in nanoseconds.
    pub fn deviation(&self) -> f64 {
        self.0.stdev()
    }

    /// The largest in nanoseconds.
    pub fn max(&self) -> u64 {
        self.0.max()
    }

    /// How many lie from `low` up to and including `high` nanoseconds.
    pub fn count_between(&self, low: u64, high: u64) -> u64 {
        self.0.count_between(low, high)
    }
}

/// What was done in one direction.
#[derive(Clone, Default)]
pub struct Tally {
    /// I/Os.
    pub ios: u64,
    /// Bytes.
    pub bytes: u64,
    /// Their latencies.
    pub latencies: Latencies,
}

impl Tally {
    pub(crate) fn record(&mut self, bytes: u64, latency: Duration) {
        self.ios += 1;
        self.bytes += bytes;
        self.latencies.record(latency);
    }

    /// Adds what `other` recorded.
    pub fn add(&mut self, other: &Tally) {
        self.ios += other.ios;
        self.bytes += other.bytes;
        self.latencies.add(&other.latencies);
    }
}

/// One interval of the timeline.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interval {
    /// I/Os that completed in it.
    pub ios: u64,
    /// Those of them that were reads.
    pub reads: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The sum of their latencies in nanoseconds.
    pub latency_sum: u64,
    /// Bytes free on the volume at its end, where known.
    pub free: Option<u64>,
}

/// One worker's share.
#[derive(Clone)]
pub struct WorkerTally {
    /// Reads.
    pub reads: Tally,
    /// Writes.
    pub writes: Tally,
    /// Interval by interval.
    pub timeline: Vec<Interval>,
}

impl WorkerTally {
    /// I/Os.
    pub fn ios(&self) -> u64 {
        self.reads.ios + self.writes.ios
    }

    /// Bytes.
    pub fn bytes(&self) -> u64 {
        self.reads.bytes + self.writes.bytes
    }

    /// Mean latency in nanoseconds; 0 if nothing was done.
    pub fn mean_latency(&self) -> f64 {
        let sum = |tally: &Tally| tally.latencies.mean() * tally.ios as f64;
        (sum(&self.reads) + sum(&self.writes)) / (self.ios() as f64).max(1.0)
    }
}

/// I/Os that were carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Issued {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes of the reads.
    pub read_bytes: u64,
    /// Bytes of the writes.
    pub write_bytes: u64,
}

impl Issued {
    /// I/Os in both directions.
    pub fn ios(&self) -> u64 {
        self.reads + self.writes
    }

    /// Adds what `other` issued.
    pub fn add(&mut self, other: &Issued) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.read_bytes += other.read_bytes;
        self.write_bytes += other.write_bytes;
    }
}

/// What one run of a job measured, ramp-up left out where nothing else is said.
pub struct Measured {
    /// How long it took.
    pub elapsed: Duration,
    /// From the first I/O of the ramp-up until the last of all has completed.
    pub whole: Duration,
    /// All I/Os of the whole: those of the ramp-up and those that completed after the end too. What the device saw and
    /// what the processors did is of these.
    pub issued: Issued,
    /// Reads.
    pub reads: Tally,
    /// Writes.
    pub writes: Tally,
    /// Syncs, where the durability asks for them.
    pub syncs: Latencies,
    /// Each worker.
    pub workers: Vec<WorkerTally>,
    /// [`Job::interval`].
    pub interval: Duration,
    /// Interval by interval.
    pub timeline: Vec<Interval>,
    /// Whole intervals in which nothing completed.
    pub stalled: u64,
    /// CPU time of the process in the whole.
    pub cpu: CpuTime,
    /// What each processor of the machine did meanwhile; empty where the system does not tell.
    pub processors: Vec<ProcessorTime>,
    /// Cells that were verified.
    pub verified: u64,
    /// How many cells did not hold what was written there.
    pub corrupted: u64,
    /// Exclusive or of the words that were touched, one of each cache line that was read: see [`Job::touch`].
    pub touched: u64,
    /// The first of them.
    pub corruptions: Vec<Corruption>,
}

impl Measured {
    /// I/Os in both directions.
    pub fn ios(&self) -> u64 {
        self.reads.ios + self.writes.ios
    }

    /// Bytes in both directions.
    pub fn bytes(&self) -> u64 {
        self.reads.bytes + self.writes.bytes
    }

    /// I/Os a second; 0 if none counted.
    pub fn iops(&self) -> f64 {
        if self.ios() == 0 { 0.0 } else { self.ios() as f64 / self.elapsed.as_secs_f64().max(1e-9) }
    }

    /// Latencies of both directions.
    pub fn latencies(&self) -> Latencies {
        let mut all = self.reads.latencies.clone();
        all.add(&self.writes.latencies);
        all
    }
}

/// Puts the workers' outcomes together.
pub(crate) fn gather(
    job: &Job,
    outcomes: impl Iterator<Item = Outcome>,
    free: &[Option<u64>],
    cpu: CpuTime,
    processors: &[ProcessorTime],
    whole: Duration,
) -> Measured {
    let mut all = Measured {
        elapsed: Duration::ZERO,
        whole,
        issued: Issued::default(),
        reads: Tally::default(),
        writes: Tally::default(),
        syncs: Latencies::default(),
        workers: Vec::new(),
        interval: job.interval,
        timeline: Vec::new(),
        stalled: 0,
        cpu,
        processors: processors.to_vec(),
        verified: 0,
        corrupted: 0,
        touched: 0,
        corruptions: Vec::new(),
    };
    for outcome in outcomes {
        all.elapsed = all.elapsed.max(outcome.last);
        all.issued.add(&outcome.issued);
        all.reads.add(&outcome.reads);
        all.writes.add(&outcome.writes);
        all.syncs.add(&outcome.syncs);
        all.verified += outcome.verified;
        all.corrupted += outcome.corrupted;
        all.touched ^= outcome.touched;
        all.corruptions.extend(outcome.corruptions);
        if all.timeline.len() < outcome.timeline.len() {
            all.timeline.resize(outcome.timeline.len(), Interval::default());
        }
        for (sum, interval) in all.timeline.iter_mut().zip(&outcome.timeline) {
            sum.ios += interval.ios;
            sum.reads += interval.reads;
            sum.bytes += interval.bytes;
            sum.latency_sum += interval.latency_sum;
        }
        let Outcome { reads, writes, timeline, .. } = outcome;
        all.workers.push(WorkerTally { reads, writes, timeline });
    }
    if let Stop::After(time) = job.stop {
        all.elapsed = time;
        // A last interval of which only a part was measured would look like a drop.
        let whole = (time.as_nanos() / job.interval.as_nanos().max(1)) as usize;
        all.timeline.resize(whole.max(1), Interval::default());
    }
    for (interval, free) in all.timeline.iter_mut().zip(free) {
        interval.free = *free;
    }
    if let Stop::Slice(time) = job.stop {
        // Nothing in a whole slice is a standstill of that length at least.
        all.elapsed = all.elapsed.max(time);
    }
    all.stalled = all.timeline.iter().filter(|interval| interval.ios == 0).count() as u64;
    all
}
