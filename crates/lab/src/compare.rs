//! The comparison: every workload on every target, in turns.
//!
//! Fairness: each turn gives its target the same region of the device, made anew, and the same seed; each
//! target has one turn in every round, so that what drifts meets all of them (A B A B, as in the published comparison
//! of NTFS 3.1 and ReFS 3.9).

use crate::environment::{device_info, environment};
use crate::plan::{self, Plan};
use crate::report::document::{self as report, CaseResult, Document, RESPONSE_TIME_BINS_US, Run, Settings};
use crate::stand::{OpenStand, Stand};
use crate::target::{Ready, Target};
use crate::workload::{Case, Preset, Workload};
use crate::{Durability, Error, Job, Latencies, Measured, Result, Stop, Tally, Watch};
use platter_device::{Caching, Recorder, Traffic};
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

/// What to compare, and how.
#[derive(Clone)]
pub struct Comparison {
    /// On what.
    pub stand: Stand,
    /// What.
    pub targets: Vec<Target>,
    /// Under which loads.
    pub workloads: Vec<Workload>,
    /// How much of them.
    pub preset: Preset,
    /// Rounds; each workload's own number if `None`.
    pub repeats: Option<u32>,
    /// When writes count as done; each workload's own choice if `None`.
    pub durability: Option<Durability>,
    /// Bytes that I/Os are spread over; each workload's own if `None`.
    pub span: Option<u64>,
    /// Measured time of a run; each workload's own if `None`.
    pub time: Option<Duration>,
    /// Through the host's page cache, even if no workload asks for that.
    pub buffered: bool,
    /// Check every block that is read.
    pub verify: bool,
    /// Touch what is read and written: see [`Job::touch`].
    pub touch: bool,
    /// The command line that repeats it, for the report.
    pub command: String,
}

/// Told how a comparison goes.
pub trait Observer: Sync {
    /// Something begins: "fat32: formatting". `done` of `total` units of the whole comparison's expected time.
    fn stage(&self, what: &str, done: Duration, total: Duration);
    /// A run ended.
    fn result(&self, target: &str, workload: &str, case: &str, iops: f64, mb_per_s: f64);

    /// Whether the comparison shall end with what it has measured so far.
    fn stop(&self) -> bool {
        false
    }
}

/// Nobody watches.
impl Observer for () {
    fn stage(&self, _what: &str, _done: Duration, _total: Duration) {}
    fn result(&self, _target: &str, _workload: &str, _case: &str, _iops: f64, _mb_per_s: f64) {}
}

/// Expected time to format and write a span once, for the progress bar only.
fn span_time(span: u64) -> Duration {
    const RATE: f64 = 800e6;
    Duration::from_secs_f64(span as f64 / RATE)
}

/// Compares.
///
/// # Errors
/// Whatever stops a run: a target that cannot be made, an I/O error. Blocks that read back wrong are warnings of the
/// document, and counted in its runs.
pub fn compare(comparison: &Comparison, observer: &dyn Observer) -> Result<Document> {
    let Plan { comparison, names, caching, mut warnings } = plan::check(comparison)?;
    let span = plan::largest_span(&comparison);
    let mut stand = OpenStand::open(&comparison.stand, span, caching)?;
    if !stand.direct && caching != Caching::Buffered {
        warnings.push(format!(
            "{} was measured through the page cache: the file system that holds it has no direct I/O",
            stand.name
        ));
    }
    let mut turns = Turns::new(&comparison, &stand, observer, span, warnings);
    stand.provide(&mut |done, total| {
        let done = span_time(span).mul_f64(done as f64 / total as f64);
        observer.stage("writing the image once", done, turns.expected);
    })?;
    turns.spent = span_time(span);
    let rounds = comparison.workloads.iter().map(|workload| workload.repeats).max().unwrap_or(1);
    for round in 1..=rounds {
        for (target, name) in comparison.targets.iter().zip(&names).take_while(|_| !observer.stop()) {
            turns.take(target, name, round)?;
        }
    }
    if observer.stop() {
        if turns.gathered.is_empty() {
            return Err(Error::Interrupted);
        }
        turns.warnings.push("the comparison was interrupted: this is what was measured until then".into());
    }
    turns.warnings.extend(stand.failures());
    let document = turns.document();
    stand.keep();
    Ok(document)
}

/// The runs of one case on one target, as they come.
struct Gathered {
    target: String,
    case: report::Case,
    runs: Vec<Run>,
}

/// The turns taken so far.
struct Turns<'a> {
    comparison: &'a Comparison,
    stand: &'a OpenStand,
    observer: &'a dyn Observer,
    span: u64,
    began: Instant,
    started: SystemTime,
    expected: Duration,
    spent: Duration,
    targets: Vec<report::Target>,
    gathered: Vec<Gathered>,
    index: HashMap<(String, String, String, report::Direction), usize>,
    order: Vec<String>,
    warnings: Vec<String>,
}

impl<'a> Turns<'a> {
    fn new(
        comparison: &'a Comparison,
        stand: &'a OpenStand,
        observer: &'a dyn Observer,
        span: u64,
        warnings: Vec<String>,
    ) -> Turns<'a> {
        let targets = comparison.targets.len() as u32;
        let rounds = comparison.workloads.iter().map(|workload| workload.repeats).max().unwrap_or(1);
        let runs: Duration = comparison
            .workloads
            .iter()
            .map(|workload| {
                let cases: Duration = workload.cases.iter().map(|case| case.time + case.ramp_up).sum();
                cases * workload.repeats * workload.loops * targets
            })
            .sum();
        let prepare = span_time(span) * (1 + rounds * targets);
        Turns {
            comparison,
            stand,
            observer,
            span,
            began: Instant::now(),
            started: SystemTime::now(),
            expected: runs + prepare,
            spent: Duration::ZERO,
            targets: Vec::new(),
            gathered: Vec::new(),
            index: HashMap::new(),
            order: Vec::new(),
            warnings,
        }
    }

    /// One target's turn: made anew, then every workload that has this many rounds.
    fn take(&mut self, target: &Target, name: &str, round: u32) -> Result<()> {
        let workloads: Vec<&Workload> =
            self.comparison.workloads.iter().filter(|workload| round <= workload.repeats).collect();
        self.observer.stage(&format!("{name}: formatting"), self.spent, self.expected);
        let ready = target.set_up(self.stand, self.span)?;
        if !self.targets.iter().any(|target| target.name == name) {
            self.targets.push(report::Target { name: name.into(), ..ready.description.clone() });
        }
        let (observer, spent, expected) = (self.observer, self.spent, self.expected);
        let share = span_time(self.span);
        let what = format!("{name}: writing the test file");
        let seed = workloads.first().map_or(0, |workload| workload.seed);
        crate::prepare(&ready.subject, &(0..self.span), seed, &mut |done, total| {
            observer.stage(&what, spent + share.mul_f64(done as f64 / total.max(1) as f64), expected);
        })?;
        self.spent += share;
        for workload in workloads {
            self.order.push(format!("{name} {} #{round}", workload.name));
            for case in &workload.cases {
                for _ in (0..workload.loops).take_while(|_| !observer.stop()) {
                    self.run(name, &ready, workload, case, round)?;
                }
            }
        }
        ready.tear_down()
    }

    fn run(
        &mut self,
        target: &str,
        ready: &Ready,
        workload: &Workload,
        case: &Case,
        round: u32,
    ) -> Result<()> {
        if self.comparison.verify {
            // Verification expects every block as it was prepared.
            crate::prepare(&ready.subject, &(0..workload.span), workload.seed, &mut |_, _| {})?;
        }
        let job = Job {
            pattern: case.pattern.clone(),
            range: 0..workload.span,
            seed: workload.seed,
            ramp_up: case.ramp_up,
            stop: match case.count {
                None => Stop::After(case.time),
                Some(count) if case.time.is_zero() => Stop::Count(count),
                Some(count) => Stop::Within { count, time: case.time },
            },
            durability: workload.durability,
            verify: self.comparison.verify,
            touch: self.comparison.touch,
            interval: interval(case),
        };
        let case = report_case(workload, case);
        let label = case.label();
        let watch = RunWatch {
            turns: self,
            what: format!("{target}: {} {label}", workload.title),
            recorder: ready.recorder.as_deref(),
            seen: Mutex::default(),
        };
        watch.tick(Duration::ZERO, None);
        let started = self.began.elapsed();
        let measured = crate::run(&ready.subject, &job, &watch)?;
        let traffic = watch.seen.into_inner().expect("no panic while locked");
        self.spent += job.ramp_up + measured.elapsed;
        if let Some(first) = measured.corruptions.first() {
            self.warnings.push(format!(
                "{target}, {label}: {} of {} blocks did not read back as written; the first at offset {}: {}",
                measured.corrupted, measured.verified, first.offset, first.what
            ));
        }
        let run = report_run(&job, &measured, traffic.as_ref(), round, started);
        self.observer.result(target, &workload.title, &label, run.iops, run.mb_per_s);
        let key = (target.to_owned(), case.workload.clone(), case.name.clone(), case.direction);
        let next = self.gathered.len();
        let index = *self.index.entry(key).or_insert(next);
        if index == next {
            self.gathered.push(Gathered { target: target.into(), case, runs: Vec::new() });
        }
        self.gathered[index].runs.push(run);
        Ok(())
    }

    fn document(self) -> Document {
        let comparison = self.comparison;
        let first = comparison.workloads.first();
        let case = first.and_then(|workload| workload.cases.first());
        let durabilities: Vec<String> =
            comparison.workloads.iter().map(|workload| workload.durability.to_string()).collect();
        let same = durabilities.windows(2).all(|pair| pair[0] == pair[1]);
        let settings = Settings {
            preset: comparison.preset.name().into(),
            repeats: comparison.workloads.iter().map(|workload| workload.repeats).max().unwrap_or(1),
            seed: first.map_or(0, |workload| workload.seed),
            durability: if same {
                durabilities.first().cloned().unwrap_or_default()
            } else {
                durabilities.join(", ")
            },
            direct: self.stand.direct,
            span_bytes: self.span,
            seconds_per_run: case.map_or(0.0, |case| case.time.as_secs_f64()),
            ramp_up_seconds: case.map_or(0.0, |case| case.ramp_up.as_secs_f64()),
            order: self.order,
        };
        let device = device_info(&*self.stand.device, &self.stand.name, self.stand.kind, &self.stand.place);
        let mut document = Document::new(
            self.started,
            comparison.command.clone(),
            environment(device),
            settings,
            self.targets,
        );
        document.warnings = self.warnings;
        document.results = self
            .gathered
            .into_iter()
            .map(|gathered| CaseResult::aggregate(gathered.target, gathered.case, gathered.runs))
            .collect();
        document.conclude();
        document
    }
}

/// Passes a run's progress on as the comparison's, and notes what the storage sees while it is measured.
struct RunWatch<'a, 'b> {
    turns: &'b Turns<'a>,
    what: String,
    recorder: Option<&'b Recorder>,
    seen: Mutex<Option<Traffic>>,
}

impl Watch for RunWatch<'_, '_> {
    fn tick(&self, elapsed: Duration, _whole: Option<Duration>) {
        self.turns.observer.stage(&self.what, self.turns.spent + elapsed, self.turns.expected);
    }

    fn measuring(&self) {
        *self.seen.lock().expect("no panic while locked") = self.recorder.map(Recorder::traffic);
    }

    fn measured(&self) {
        let mut seen = self.seen.lock().expect("no panic while locked");
        *seen = self.recorder.zip(seen.take()).map(|(recorder, before)| recorder.traffic().since(&before));
    }
}

/// The timeline is kept by the second; of a run that has hardly any, by the tenth of the run.
fn interval(case: &Case) -> Duration {
    let second = Duration::from_secs(1);
    if case.count.is_some() || case.time >= second * 3 {
        second
    } else {
        (case.time / 10).max(Duration::from_millis(10))
    }
}

fn report_case(workload: &Workload, case: &Case) -> report::Case {
    report::Case {
        workload: workload.name.clone(),
        name: case.name.clone(),
        direction: case.direction,
        block_bytes: u64::from(case.pattern.block),
        queue_depth: case.pattern.queue_depth,
        workers: case.pattern.workers,
        random_percent: case.pattern.random_percent,
        read_percent: case.pattern.read_percent,
        durability: workload.durability.to_string(),
        scoring: workload.scoring,
    }
}

/// A run in the report's words.
pub fn report_run(
    job: &Job,
    measured: &Measured,
    traffic: Option<&Traffic>,
    repeat: u32,
    started: Duration,
) -> Run {
    let seconds = measured.elapsed.as_secs_f64().max(1e-9);
    let latencies = measured.latencies();
    let mixed = measured.reads.ios > 0 && measured.writes.ios > 0;
    let mb = |bytes: u64| bytes as f64 / 1e6 / seconds;
    let side = |tally: &Tally| {
        mixed.then(|| report::Side {
            iops: tally.ios as f64 / seconds,
            mb_per_s: mb(tally.bytes),
            latency_us: latency(&tally.latencies),
        })
    };
    let interval = job.interval.as_secs_f64();
    let timeline = measured.timeline.iter().enumerate().map(|(second, part)| report::Second {
        second: second as f64 * interval,
        iops: part.ios as f64 / interval,
        mb_per_s: part.bytes as f64 / 1e6 / interval,
        latency_us: if part.ios == 0 { 0.0 } else { part.latency_sum as f64 / 1e3 / part.ios as f64 },
        free_bytes: part.free,
    });
    let worker = |tally: &crate::WorkerTally| report::Worker {
        iops: tally.ios as f64 / seconds,
        mb_per_s: mb(tally.bytes),
        latency_us: tally.mean_latency / 1e3,
    };
    Run {
        repeat,
        started_at_seconds: started.as_secs_f64(),
        seconds,
        iops: measured.iops(),
        mb_per_s: mb(measured.bytes()),
        latency_us: latency(&latencies),
        reads: side(&measured.reads),
        writes: side(&measured.writes),
        response_times: response_times(&latencies),
        timeline: timeline.collect(),
        stalled_seconds: measured.stalled as f64 * interval,
        cpu: report::Cpu {
            user_s: measured.cpu.user.as_secs_f64(),
            system_s: measured.cpu.system.as_secs_f64(),
            us_per_io: measured.cpu_us_per_io(),
            percent: measured.cpu.total().as_secs_f64() / seconds * 100.0,
        },
        workers: measured.workers.iter().map(worker).collect(),
        requested: report::Requested {
            reads: measured.reads.ios,
            writes: measured.writes.ios,
            read_bytes: measured.reads.bytes,
            write_bytes: measured.writes.bytes,
        },
        device: traffic.map(report_traffic),
        errors: 0,
        verified_blocks: measured.verified,
        corrupted_blocks: measured.corrupted,
    }
}

fn latency(latencies: &Latencies) -> report::Latency {
    let us = |percent: f64| latencies.percentile(percent) as f64 / 1e3;
    report::Latency {
        mean: latencies.mean() / 1e3,
        p50: us(50.0),
        p90: us(90.0),
        p95: us(95.0),
        p99: us(99.0),
        p99_9: us(99.9),
        p99_99: us(99.99),
        max: latencies.max() as f64 / 1e3,
    }
}

/// Counts in Iometer's bins.
fn response_times(latencies: &Latencies) -> Vec<u64> {
    let total = latencies.count();
    // How many lie below each edge; what rounding of the histogram does to one edge, it does to both its bins.
    let below = |edge_us: u64| if edge_us == 0 { 0 } else { latencies.count_between(0, edge_us * 1000 - 1) };
    let edges: Vec<u64> = RESPONSE_TIME_BINS_US.iter().map(|&edge| below(edge).min(total)).collect();
    (0..edges.len())
        .map(|bin| edges.get(bin + 1).copied().unwrap_or(total).saturating_sub(edges[bin]))
        .collect()
}

fn report_traffic(traffic: &Traffic) -> report::Traffic {
    let sizes = |direction: &platter_device::DirectionTraffic| {
        direction
            .sizes
            .iter()
            .map(|(bin, count)| report::SizeCount { bytes: bin.least, count: *count })
            .collect()
    };
    report::Traffic {
        reads: traffic.read.count,
        writes: traffic.write.count,
        read_bytes: traffic.read.bytes,
        write_bytes: traffic.write.bytes,
        read_sizes: sizes(&traffic.read),
        write_sizes: sizes(&traffic.write),
        sequential_read_percent: traffic.read.sequential_share() * 100.0,
        sequential_write_percent: traffic.write.sequential_share() * 100.0,
        flushes: traffic.flushes,
        discards: traffic.discards,
    }
}
