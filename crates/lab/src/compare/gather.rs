//! Turns the slices of a case on a target into the types of the report.

use crate::document::{self as report, BEYOND, CaseResult, RESPONSE_TIME_BINS_US, Round};
use crate::workload::{Case, Workload};
use crate::{CpuTime, Issued, Latencies, Measured, Stop, Tally};
use platter_device::{DirectionTraffic, Traffic};
use std::collections::BTreeMap;
use std::time::Duration;

/// If the last I/Os of a slice complete later than this after its end, the wait is a stall.
const STALL: Duration = Duration::from_millis(250);

/// The measurements of one slice.
pub(super) struct Slice {
    pub started: Duration,
    pub measured: Measured,
    /// The I/Os of all cases that ran at the same time: processor time and traffic belong to all of them together.
    pub issued: Issued,
    /// How long the volume went on working by itself after the slice.
    pub background: Duration,
    pub traffic: Option<Traffic>,
    pub stop: Stop,
}

/// The slices of one case on one target.
pub(super) struct Gathered {
    pub target: String,
    pub case: report::Case,
    runs: Vec<Round>,
    /// The latencies of all rounds.
    latencies: Latencies,
    syncs: Latencies,
    cpu: Total,
    round: OpenRound,
}

/// The sums of the current round.
#[derive(Default)]
struct OpenRound {
    run: Round,
    reads: Tally,
    writes: Tally,
    syncs: Latencies,
    /// The I/Os that this case issued.
    issued: Issued,
    /// The I/Os that all cases issued which ran at the same time.
    together: Issued,
    total: Total,
    seen: Seen,
    workers: Vec<(u64, u64, f64)>,
    /// The latencies of every [`PARTS`]th slice together, each part from another slice on.
    parts: Vec<Latencies>,
}

/// Processor time, with the elapsed time and the number of I/Os that it belongs to.
#[derive(Clone, Copy, Default)]
struct Total {
    cpu: CpuTime,
    whole: Duration,
    ios: u64,
}

impl Total {
    fn add(&mut self, other: &Total) {
        self.cpu.user += other.cpu.user;
        self.cpu.system += other.cpu.system;
        self.whole += other.whole;
        self.ios += other.ios;
    }

    fn report(&self) -> report::Cpu {
        let total = self.cpu.total().as_secs_f64();
        report::Cpu {
            user_s: self.cpu.user.as_secs_f64(),
            system_s: self.cpu.system.as_secs_f64(),
            us_per_io: if self.ios == 0 { 0.0 } else { total * 1e6 / self.ios as f64 },
            percent: total / self.whole.as_secs_f64().max(1e-9) * 100.0,
        }
    }
}

impl Gathered {
    pub(super) fn new(target: String, case: report::Case) -> Gathered {
        Gathered {
            target,
            case,
            runs: Vec::new(),
            latencies: Latencies::default(),
            syncs: Latencies::default(),
            cpu: Total::default(),
            round: OpenRound::default(),
        }
    }

    /// Adds a slice to the current round.
    pub(super) fn add(&mut self, round: u32, pass: u32, slice: Slice) {
        let Slice { started, measured, issued: all, background, traffic, stop } = slice;
        let OpenRound { run, reads, writes, syncs, issued, together, total, seen, workers, parts } =
            &mut self.round;
        let seconds = (measured.elapsed + background).as_secs_f64().max(1e-9);
        if run.slices.is_empty() {
            run.repeat = round;
            run.started_at_seconds = started.as_secs_f64();
        }
        let latencies = measured.latencies();
        debug_assert!(run.slices.last().is_none_or(|last| last.pass < pass), "a target has one slice a pass");
        run.slices.push(report::Slice {
            pass,
            started_at_seconds: started.as_secs_f64(),
            seconds,
            iops: measured.ios() as f64 / seconds,
            latency_us: latencies.mean() / 1e3,
            exit_code: None,
        });
        self.latencies.add(&latencies);
        let part = run.slices.len().wrapping_sub(1) % PARTS;
        if parts.len() <= part {
            parts.push(Latencies::default());
        }
        parts[part].add(&latencies);
        self.syncs.add(&measured.syncs);
        run.timeline.extend(timeline(&measured, stop, run.seconds, seconds));
        let late = stop.time().map_or(Duration::ZERO, |time| measured.elapsed.saturating_sub(time));
        let waited = if late > STALL { late.as_secs_f64() } else { 0.0 };
        let standing = measured.stalled as f64 * interval_seconds(&measured, stop, seconds);
        run.stalled_seconds += if waited > 0.0 { waited } else { standing };
        run.seconds += seconds;
        run.background_seconds += background.as_secs_f64();
        run.verified_blocks += measured.verified;
        run.corrupted_blocks += measured.corrupted;
        reads.add(&measured.reads);
        writes.add(&measured.writes);
        syncs.add(&measured.syncs);
        issued.add(&measured.issued);
        together.add(&all);
        let of_slice = Total { cpu: measured.cpu, whole: measured.whole, ios: all.ios() };
        total.add(&of_slice);
        self.cpu.add(&of_slice);
        seen.add(traffic);
        workers.resize(measured.workers.len(), Default::default());
        for (sum, worker) in workers.iter_mut().zip(&measured.workers) {
            sum.0 += worker.ios();
            sum.1 += worker.bytes();
            sum.2 += worker.mean_latency() * worker.ios() as f64;
        }
    }

    /// The rates of all slices so far, each positive.
    pub(super) fn rates(&self) -> Vec<f64> {
        let slices = self.runs.iter().chain([&self.round.run]).flat_map(|run| &run.slices);
        slices.map(|slice| slice.iops.max(0.5 / slice.seconds.max(1e-6))).collect()
    }

    /// Ends the current round; returns its IOPS and MB/s, or `None` if it had no slice.
    pub(super) fn end_of_round(&mut self) -> Option<(f64, f64)> {
        if self.round.run.slices.is_empty() {
            return None;
        }
        let OpenRound { mut run, reads, writes, syncs, issued, together, total, seen, workers, parts } =
            std::mem::take(&mut self.round);
        let seconds = run.seconds;
        let mut latencies = reads.latencies.clone();
        latencies.add(&writes.latencies);
        let mb = |bytes: u64| bytes as f64 / 1e6 / seconds;
        let side = |tally: &Tally| report::Side {
            iops: tally.ios as f64 / seconds,
            mb_per_s: mb(tally.bytes),
            latency_us: latency(&tally.latencies),
        };
        let is_mixed = reads.ios > 0 && writes.ios > 0;
        run.iops = (reads.ios + writes.ios) as f64 / seconds;
        run.mb_per_s = mb(reads.bytes + writes.bytes);
        run.latency_us = report::Latency { p99_interval: p99_interval(&parts), ..latency(&latencies) };
        run.reads = is_mixed.then(|| side(&reads));
        run.writes = is_mixed.then(|| side(&writes));
        run.sync_latency_us = (syncs.count() > 0).then(|| latency(&syncs));
        run.response_times = response_times(&latencies);
        run.cpu = total.report();
        run.workers = workers
            .iter()
            .map(|&(ios, bytes, latency)| report::Worker {
                iops: ios as f64 / seconds,
                mb_per_s: mb(bytes),
                latency_us: if ios == 0 { 0.0 } else { latency / ios as f64 / 1e3 },
            })
            .collect();
        run.requested = requested(&issued);
        run.requested_together = (!self.case.beside.is_empty()).then(|| requested(&together));
        run.device = seen.report();
        let rates = (run.iops, run.mb_per_s);
        self.runs.push(run);
        Some(rates)
    }

    /// Returns the result for the report; its ratios to other targets are computed later, when all results are known.
    pub(super) fn result(self) -> CaseResult {
        // Rounds are parts too. Where there are few of them, the widest of their intervals holds for all.
        let ends = self.runs.iter().filter_map(|run| run.latency_us.p99_interval);
        let hull = ends.reduce(|all, one| [all[0].min(one[0]), all[1].max(one[1])]);
        CaseResult {
            latency_us: report::Latency { p99_interval: hull, ..latency(&self.latencies) },
            target: self.target,
            case: self.case,
            runs: self.runs,
            sync_latency_us: (self.syncs.count() > 0).then(|| latency(&self.syncs)),
            cpu: self.cpu.report(),
            ..CaseResult::default()
        }
    }
}

/// The slices of a round are put into this many parts, the scatter between which tells how sure a percentile is: a percentile
/// of a single slice would be that of too few I/Os.
const PARTS: usize = 10;

/// The interval of the 99th percentile of all parts together, from those of the parts: Student's t on their logarithms. `None`
/// where a part has too few I/Os, or there are too few parts.
fn p99_interval(parts: &[Latencies]) -> Option<[f64; 2]> {
    let known = |part: &Latencies| latency(part).p99.filter(|us| *us > 0.0).map(f64::ln);
    let logs: Vec<f64> = parts.iter().map(known).collect::<Option<_>>()?;
    let mut all = Latencies::default();
    parts.iter().for_each(|part| all.add(part));
    let half = crate::estimate::half_of_mean(&logs, crate::estimate::ERRORS)?;
    let middle = latency(&all).p99?;
    Some([middle * (-half).exp(), middle * half.exp()])
}

fn requested(issued: &Issued) -> report::Requested {
    report::Requested {
        reads: issued.reads,
        writes: issued.writes,
        read_bytes: issued.read_bytes,
        write_bytes: issued.write_bytes,
    }
}

fn interval_seconds(measured: &Measured, stop: Stop, seconds: f64) -> f64 {
    match stop {
        Stop::Slice(_) => seconds,
        _ => measured.interval.as_secs_f64(),
    }
}

/// Returns the timeline of a slice; its first interval begins `from` seconds after the first of the run.
fn timeline(measured: &Measured, stop: Stop, from: f64, seconds: f64) -> Vec<report::Second> {
    if matches!(stop, Stop::Slice(_)) {
        return vec![report::Second {
            second: from,
            iops: measured.ios() as f64 / seconds,
            mb_per_s: measured.bytes() as f64 / 1e6 / seconds,
            latency_us: measured.latencies().mean() / 1e3,
            free_bytes: measured.timeline.last().and_then(|interval| interval.free),
        }];
    }
    let length = measured.interval.as_secs_f64().max(1e-9);
    let second = |(index, part): (usize, &crate::Interval)| report::Second {
        second: from + index as f64 * length,
        iops: part.ios as f64 / length,
        mb_per_s: part.bytes as f64 / 1e6 / length,
        latency_us: if part.ios == 0 { 0.0 } else { part.latency_sum as f64 / 1e3 / part.ios as f64 },
        free_bytes: part.free,
    };
    measured.timeline.iter().enumerate().map(second).collect()
}

/// Describes a case for the report; `group` are the cases that run at the same time, with this one.
pub(super) fn report_case(workload: &Workload, case: &Case, group: &[Case]) -> report::Case {
    let alone = |case: &Case| report::Case {
        workload: workload.name.clone(),
        name: case.name.clone(),
        direction: case.direction,
        block_bytes: u64::from(case.pattern.block),
        program: None,
        shape: case.pattern.words(),
        queue_depth: case.pattern.queue_depth,
        workers: case.pattern.workers,
        random_percent: case.pattern.random_percent,
        read_percent: case.pattern.read_percent,
        durability: workload.durability_of(case).to_string(),
        scoring: workload.scoring,
        beside: Vec::new(),
    };
    let known = alone(case);
    let others = group.iter().map(alone).filter(|other| !other.is_same(&known));
    let beside = others.map(|other| other.label()).collect();
    report::Case { beside, ..known }
}

/// Converts latencies to the report's type.
pub(crate) fn latency(latencies: &Latencies) -> report::Latency {
    let count = latencies.count();
    let us = |percent: f64| latencies.percentile(percent) as f64 / 1e3;
    // A percentile is reported only if enough I/Os lie beyond it.
    let enough = |percent: f64| count as f64 * (100.0 - percent) / 100.0 >= BEYOND as f64 - 1e-9;
    let known = |percent: f64| enough(percent).then(|| us(percent));
    report::Latency {
        count,
        mean: latencies.mean() / 1e3,
        stddev: (count > 0).then(|| latencies.deviation() / 1e3),
        min: (count > 0).then(|| latencies.min() as f64 / 1e3),
        p50: us(50.0),
        p90: known(90.0),
        p95: known(95.0),
        p99: known(99.0),
        p99_interval: None,
        p99_9: known(99.9),
        p99_99: known(99.99),
        max: latencies.max() as f64 / 1e3,
    }
}

/// Counts the latencies in Iometer's bins.
pub(crate) fn response_times(latencies: &Latencies) -> Vec<u64> {
    let total = latencies.count();
    // Counts how many latencies lie below each edge, and takes differences: the histogram's rounding at an edge then
    // moves a latency from one bin to its neighbour, but never loses one.
    let below = |edge_us: u64| if edge_us == 0 { 0 } else { latencies.count_between(0, edge_us * 1000 - 1) };
    let edges: Vec<u64> = RESPONSE_TIME_BINS_US.iter().map(|&edge| below(edge).min(total)).collect();
    (0..edges.len())
        .map(|bin| edges.get(bin + 1).copied().unwrap_or(total).saturating_sub(edges[bin]))
        .collect()
}

/// Sums the traffic of several devices for the report.
pub(crate) fn traffic(all: impl IntoIterator<Item = Option<Traffic>>) -> Option<report::Traffic> {
    let mut seen = Seen::default();
    all.into_iter().for_each(|traffic| seen.add(traffic));
    seen.report()
}

/// The sum of the traffic of all slices.
#[derive(Default)]
struct Seen {
    reads: Way,
    writes: Way,
    flushes: u64,
    discards: u64,
    is_watched: bool,
}

/// The traffic in one direction.
#[derive(Default)]
struct Way {
    count: u64,
    bytes: u64,
    sequential: u64,
    sizes: BTreeMap<u64, u64>,
}

impl Way {
    fn add(&mut self, traffic: &DirectionTraffic) {
        self.count += traffic.count;
        self.bytes += traffic.bytes;
        self.sequential += traffic.sequential;
        for (bin, count) in &traffic.sizes {
            *self.sizes.entry(bin.least).or_default() += count;
        }
    }

    fn sequential_percent(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sequential as f64 / self.count as f64 * 100.0 }
    }

    fn sizes(&self) -> Vec<report::SizeCount> {
        self.sizes.iter().map(|(&bytes, &count)| report::SizeCount { bytes, count }).collect()
    }
}

impl Seen {
    fn add(&mut self, traffic: Option<Traffic>) {
        let Some(traffic) = traffic else { return };
        self.is_watched = true;
        self.reads.add(&traffic.read);
        self.writes.add(&traffic.write);
        self.flushes += traffic.flushes;
        self.discards += traffic.discards;
    }

    fn report(&self) -> Option<report::Traffic> {
        self.is_watched.then(|| report::Traffic {
            reads: self.reads.count,
            writes: self.writes.count,
            read_bytes: self.reads.bytes,
            write_bytes: self.writes.bytes,
            read_sizes: self.reads.sizes(),
            write_sizes: self.writes.sizes(),
            sequential_read_percent: self.reads.sequential_percent(),
            sequential_write_percent: self.writes.sequential_percent(),
            flushes: self.flushes,
            discards: self.discards,
        })
    }
}
