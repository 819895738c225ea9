//! The measurements of a run: latencies, counts, timeline, processor time.

use super::{Corruption, CpuTime, Job, ProcessorTime, Stop};
use hdrhistogram::Histogram;
use std::time::Duration;

/// The measurements of one worker.
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

    /// The number of latencies recorded.
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

    /// The smallest latency in nanoseconds; 0 if nothing was recorded.
    pub fn min(&self) -> u64 {
        self.0.min()
    }

    /// Standard deviation in nanoseconds.
    pub fn deviation(&self) -> f64 {
        self.0.stdev()
    }

    /// The largest latency in nanoseconds.
    pub fn max(&self) -> u64 {
        self.0.max()
    }

    /// The number of latencies from `low` up to and including `high` nanoseconds.
    pub fn count_between(&self, low: u64, high: u64) -> u64 {
        self.0.count_between(low, high)
    }
}

/// The I/Os of one direction that count.
#[derive(Clone, Default)]
pub struct Tally {
    /// The number of I/Os.
    pub ios: u64,
    /// The bytes of these I/Os.
    pub bytes: u64,
    /// The latencies of these I/Os.
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
    /// The number of I/Os that completed in the interval.
    pub ios: u64,
    /// The number of those I/Os that were reads.
    pub reads: u64,
    /// The bytes of those I/Os.
    pub bytes: u64,
    /// The sum of the latencies of those I/Os, in nanoseconds.
    pub latency_sum: u64,
    /// Bytes free on the volume at the end of the interval, where known.
    pub free: Option<u64>,
}

/// The part of a run's measurements that one worker contributed.
#[derive(Clone)]
pub struct WorkerTally {
    /// The worker's reads.
    pub reads: Tally,
    /// The worker's writes.
    pub writes: Tally,
    /// The worker's timeline, interval by interval.
    pub timeline: Vec<Interval>,
}

impl WorkerTally {
    /// The number of I/Os in both directions.
    pub fn ios(&self) -> u64 {
        self.reads.ios + self.writes.ios
    }

    /// The bytes in both directions.
    pub fn bytes(&self) -> u64 {
        self.reads.bytes + self.writes.bytes
    }

    /// The mean latency of both directions in nanoseconds; 0 if no I/O counted.
    pub fn mean_latency(&self) -> f64 {
        let sum = |tally: &Tally| tally.latencies.mean() * tally.ios as f64;
        (sum(&self.reads) + sum(&self.writes)) / (self.ios() as f64).max(1.0)
    }
}

/// The numbers and bytes of all I/Os that were issued, with those that do not count.
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

/// The measurements of one run of a job, without the ramp-up unless a field says otherwise.
pub struct Measured {
    /// The measured time: from the end of the ramp-up to the end of a run that ended by its time, or to the last I/O of
    /// one that ended by its count.
    pub elapsed: Duration,
    /// The time from the first I/O of the ramp-up until every I/O has completed.
    pub whole: Duration,
    /// All I/Os of the `whole` time: also those of the ramp-up and those that completed after the end. The traffic of
    /// the device and the processor time belong to these I/Os.
    pub issued: Issued,
    /// The reads that count.
    pub reads: Tally,
    /// The writes that count.
    pub writes: Tally,
    /// The latencies of syncs, where the durability asks for syncs.
    pub syncs: Latencies,
    /// The measurements of each worker.
    pub workers: Vec<WorkerTally>,
    /// The length of one interval of the timeline: [`Job::interval`].
    pub interval: Duration,
    /// The timeline, interval by interval.
    pub timeline: Vec<Interval>,
    /// The number of whole intervals in which no I/O completed, without those of pauses that the load asked for.
    pub stalled: u64,
    /// CPU time of the process in the `whole` time.
    pub cpu: CpuTime,
    /// How each processor of the machine spent the `whole` time; empty where the system does not report it.
    pub processors: Vec<ProcessorTime>,
    /// The number of cells that were verified.
    pub verified: u64,
    /// The number of cells that did not hold what was last written there.
    pub corrupted: u64,
    /// The exclusive or of one word of each cache line that was read: see [`Job::touch`].
    pub touched: u64,
    /// Descriptions of the first corrupted cells.
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

    /// I/Os per second; 0 if no I/O counted.
    pub fn iops(&self) -> f64 {
        if self.ios() == 0 { 0.0 } else { self.ios() as f64 / self.elapsed.as_secs_f64().max(1e-9) }
    }

    /// The latencies of both directions together.
    pub fn latencies(&self) -> Latencies {
        let mut all = self.reads.latencies.clone();
        all.add(&self.writes.latencies);
        all
    }
}

/// Combines the outcomes of all workers of a job.
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
    let ended_by_time = match job.stop {
        Stop::After(time) => Some(time),
        // What was issued before the time was over and did not complete in it does not count, so the count is missed.
        Stop::Within { count, time } => (all.ios() < count).then_some(time),
        Stop::Slice(_) | Stop::Count(_) => None,
    };
    if let Some(time) = ended_by_time {
        all.elapsed = time;
        // The last interval is left out if it was measured only in part, as it would look like a drop.
        let whole = (time.as_nanos() / job.interval.as_nanos().max(1)) as usize;
        all.timeline.resize(whole.max(1), Interval::default());
    }
    for (interval, free) in all.timeline.iter_mut().zip(free) {
        interval.free = *free;
    }
    if let Stop::Slice(time) = job.stop {
        // A slice lasts at least `time`, also if its last I/O completed earlier.
        all.elapsed = all.elapsed.max(time);
    }
    all.stalled = stalled(&all.timeline, job.interval, job.pattern.longest_idle());
    all
}

/// The number of intervals without an I/O. Where the load itself asks that nothing is issued for up to `idle`, intervals
/// that lie in so long a gap do not count.
fn stalled(timeline: &[Interval], interval: Duration, idle: Duration) -> u64 {
    let gaps = timeline.split(|interval| interval.ios > 0).map(|gap| gap.len() as u32);
    gaps.filter(|&gap| interval.saturating_mul(gap) > idle).map(u64::from).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_that_was_asked_for_is_no_stall() {
        let ios = [1, 0, 0, 1, 0, 0, 0, 1, 0];
        let timeline = ios.map(|ios| Interval { ios, ..Interval::default() });
        let tenths = |tenths: u64| Duration::from_millis(100 * tenths);
        let stalled = |idle| stalled(&timeline, tenths(1), idle);
        assert_eq!([0, 1, 2, 3].map(|idle| stalled(tenths(idle))), [6, 5, 3, 0]);
    }
}
