//! The engine: workers that each keep a number of I/Os in flight on one subject, and the measurements of their runs.
//!
//! The loop is closed: a worker issues the next I/O when one completes. Each worker is one thread with one queue.
//! Latency is the time from just before an I/O is given to the file system (or device) until its completion has been
//! reaped and, for a file, finished; fio calls this the total latency.

mod cells;
mod cpu;
mod gate;
mod letters;
mod measure;
mod pace;
mod pattern;
mod places;
mod script;
mod walk;
mod words;
mod worker;

pub use cells::{CELL, Corruption};
pub use cpu::{CpuTime, ProcessorTime};
pub use measure::{Interval, Issued, Latencies, Measured, Tally, WorkerTally};
pub use pattern::{Begin, NextFile, Pace, Pattern, Pause, Portion, Rate, Shape};
pub use places::{PartLength, Spread, SpreadPart};
pub use script::{Event, Script, What};

use crate::{Error, Result, Subject};
use platter_device::sync;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// When a write must have become durable. The same for every subject of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Past the page cache, but volatile until a flush: `FILE_FLAG_NO_BUFFERING`, `O_DIRECT`.
    Direct,
    /// Durable when the call returns: `FILE_FLAG_WRITE_THROUGH`, `O_DSYNC`, DiskSpd's `-Sh`.
    WriteThrough,
    /// As `Direct`, and each worker syncs after every this many of its writes (1 or more).
    FsyncEvery(u32),
}

impl std::fmt::Display for Durability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Durability::Direct => f.write_str("direct"),
            Durability::WriteThrough => f.write_str("write-through"),
            Durability::FsyncEvery(writes) => write!(f, "fsync_every={writes}"),
        }
    }
}

/// When a job ends. I/Os and time of the ramp-up do not count towards any of these limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// After this long; I/Os that complete later do not count.
    After(Duration),
    /// No I/O is issued after this long, and every I/O that was issued counts, until the last has completed. So a stall
    /// that begins in a short slice is in the slice's figures with its whole length.
    Slice(Duration),
    /// After this many I/Os of all workers together.
    Count(u64),
    /// After this many I/Os or this long, whichever comes first.
    Within {
        /// I/Os of all workers together.
        count: u64,
        /// The time, without the ramp-up.
        time: Duration,
    },
}

impl Stop {
    /// How long I/Os are issued, if the job ends by time.
    pub fn time(self) -> Option<Duration> {
        match self {
            Stop::After(time) | Stop::Slice(time) | Stop::Within { time, .. } => Some(time),
            Stop::Count(_) => None,
        }
    }
}

/// One access pattern, run once on one subject.
#[derive(Clone, Debug)]
pub struct Job {
    /// The access pattern: which I/Os, how many at a time, by how many workers.
    pub pattern: Pattern,
    /// Range of the subject, in bytes, that the workers stay inside.
    pub range: Range<u64>,
    /// The seed of every random choice: offsets, directions, data.
    pub seed: u64,
    /// Time at the beginning in which I/Os run but do not count.
    pub ramp_up: Duration,
    /// When the job ends.
    pub stop: Stop,
    /// When writes must be durable.
    pub durability: Durability,
    /// Check every block that is read against what was last written there. The range must have been prepared.
    pub verify: bool,
    /// Touch every cache line of a block after it is read and before it is written, as a program does that uses its
    /// data. Where the device is emulated by another processor (a virtual disk), the cache lines then have to move
    /// between the processors' caches.
    pub touch: bool,
    /// Length of one interval of the timeline.
    pub interval: Duration,
}

/// An observer of a run, which is told its progress and may end it.
pub trait Watch: Sync {
    /// Called once for each interval: `elapsed` is the time since the run began and `whole` its expected length, both
    /// with the ramp-up; `whole` is `None` if the run ends by count.
    fn tick(&self, elapsed: Duration, whole: Option<Duration>);

    /// Called many times a second: whether to end the run now. I/Os in flight still complete.
    fn stop(&self) -> bool {
        false
    }
}

/// An observer that ignores progress and never ends the run.
impl Watch for () {
    fn tick(&self, _elapsed: Duration, _whole: Option<Duration>) {}
}

/// Runs a job.
///
/// # Errors
/// As [`Session::new`] and [`Session::run`].
pub fn run(subject: &Subject, job: &Job, watch: &dyn Watch) -> Result<Measured> {
    Session::new(subject.clone(), job.clone())?.run(job.ramp_up, job.stop, job.interval, watch)
}

/// Jobs that run in pieces: each piece continues where the one before it ended.
pub struct Session {
    subject: Subject,
    jobs: Vec<Course>,
    ledger: Option<cells::Ledger>,
    /// The number of pieces that were run.
    pieces: u64,
}

/// One of the jobs of a session, which run at the same time.
struct Course {
    job: Job,
    layout: walk::Layout,
    /// What each worker of the job takes with it from piece to piece.
    workers: Vec<worker::Carried>,
}

impl Session {
    /// Prepares one job for a subject. The job's ramp-up, stop and interval are replaced by those that each piece is
    /// run with.
    ///
    /// # Errors
    /// [`Error::Job`]: why the job cannot be run, in a sentence.
    pub fn new(subject: Subject, job: Job) -> Result<Session> {
        Session::together(subject, vec![job])
    }

    /// Prepares jobs that run at the same time: all begin together, and each ends by its own stop rule.
    ///
    /// # Errors
    /// [`Error::Job`]: why a job cannot be run, in a sentence.
    pub fn together(subject: Subject, jobs: Vec<Job>) -> Result<Session> {
        let range = jobs
            .iter()
            .map(|job| job.range.clone())
            .reduce(|all, range| all.start.min(range.start)..all.end.max(range.end));
        let Some(range) = range else { return Job::refuse("there is no job") };
        let sector = subject.device().sectors().logical;
        // All jobs share one ledger, because a job may read the blocks that another writes.
        let ledger = jobs.iter().any(|job| job.verify).then(|| cells::Ledger::new(&range));
        let course = |job: Job| {
            let layout = walk::Layout::new(&job, sector)?;
            let worker = |index: u32| worker::Carried::new(&job, &layout, index);
            Ok(Course { workers: (0..job.pattern.workers).map(worker).collect(), layout, job })
        };
        Ok(Session { subject, jobs: jobs.into_iter().map(course).collect::<Result<_>>()?, ledger, pieces: 0 })
    }

    /// Runs one piece of the session's only job, with a timeline of intervals of length `interval`.
    ///
    /// # Errors
    /// As [`Session::run_all`].
    pub fn run(
        &mut self,
        ramp_up: Duration,
        stop: Stop,
        interval: Duration,
        watch: &dyn Watch,
    ) -> Result<Measured> {
        let stops = vec![stop; self.jobs.len()];
        Ok(self.run_all(ramp_up, &stops, interval, watch)?.swap_remove(0))
    }

    /// Runs one piece of all jobs, each until its own stop, and returns the measurements of each. Processor time is
    /// that of the whole process, and so of all jobs together.
    ///
    /// # Errors
    /// The first I/O error of any worker, or that the system had no thread for a worker. Blocks that do not hold what was
    /// written there are not an error of the run: they are in [`Measured::corruptions`].
    pub fn run_all(
        &mut self,
        ramp_up: Duration,
        stops: &[Stop],
        interval: Duration,
        watch: &dyn Watch,
    ) -> Result<Vec<Measured>> {
        for (course, stop) in self.jobs.iter_mut().zip(stops) {
            (course.job.ramp_up, course.job.stop, course.job.interval) = (ramp_up, *stop, interval);
        }
        let Session { subject, jobs, ledger, pieces } = self;
        let (subject, ledger, piece) = (&*subject, ledger.as_ref(), *pieces);
        *pieces += 1;
        let workers = jobs.iter().map(|course| course.job.pattern.workers as usize).sum::<usize>();
        let gate = gate::Gate::default();
        let halt = AtomicBool::new(false);
        let reports = Reports::default();
        sync::scope(|scope| {
            let mut all = Vec::new();
            let mut started = 0;
            for (number, course) in jobs.iter_mut().enumerate() {
                let Course { job, layout, workers: of_job } = course;
                let (job, layout) = (&*job, &*layout);
                all.push(job);
                for (index, carried) in of_job.iter_mut().enumerate() {
                    let (gate, halt, report) = (&gate, &halt, Report { to: &reports, number, index });
                    let work = move || {
                        let arrival = gate.arrival();
                        let ledger = ledger.filter(|_| job.verify);
                        let task = worker::Task { subject, job, layout, ledger, index, carried, piece, halt };
                        let begin = || arrival.wait().map(|begin| worker::Clock::new(begin, job));
                        let outcome = worker::run(task, begin);
                        report.send(outcome);
                    };
                    if let Err(source) = scope.spawn("worker", work) {
                        gate.give_up();
                        let what = format!("{started} of {workers} workers were started, then none any more");
                        return Err(Error::Io { what, source });
                    }
                    started += 1;
                }
            }
            coordinate(subject, &all, watch, &halt, &reports, || gate.open(workers))
        })
    }
}

/// How often the engine looks after its workers and asks the observer whether the run is to end. It is as often as fio looks
/// after its jobs, because it is no matter of indifference: where processors sleep between I/Os, a thread that is woken now and
/// then moves the others, and whether the thread that does the device's work is on the processor of the worker or has to be woken on
/// another decides on the time of small I/Os.
const BEAT: Duration = Duration::from_millis(10);

/// How often the engine does so in virtual time, in which nothing sleeps.
const VIRTUAL_BEAT: Duration = Duration::from_secs(1);

/// The number of the job, the number of its worker, and that worker's outcome; none if the worker panicked.
type Reports = letters::Letters<(usize, usize, Option<Result<measure::Outcome>>)>;

/// A worker's report, which is sent in any case.
struct Report<'a> {
    to: &'a Reports,
    number: usize,
    index: usize,
}

impl Report<'_> {
    fn send(self, outcome: Result<measure::Outcome>) {
        self.to.send((self.number, self.index, Some(outcome)));
        std::mem::forget(self);
    }
}

impl Drop for Report<'_> {
    fn drop(&mut self) {
        self.to.send((self.number, self.index, None));
    }
}

/// Starts the workers, samples free space while they run, and gathers their outcomes. Processor time is counted from
/// before the first I/O until all workers have ended, and so are the I/Os of [`Measured::issued`].
fn coordinate(
    subject: &Subject,
    jobs: &[&Job],
    watch: &dyn Watch,
    halt: &AtomicBool,
    reports: &Reports,
    open: impl FnOnce() -> Instant,
) -> Result<Vec<Measured>> {
    let (ramp_up, interval) = jobs.first().map_or_else(Default::default, |job| (job.ramp_up, job.interval));
    let processors_before = cpu::processors();
    let cpu_before = CpuTime::now();
    let start = open();
    let measuring = start + ramp_up;
    let times = jobs.iter().map(|job| job.stop.time());
    let expected = times.collect::<Option<Vec<Duration>>>().and_then(|times| times.into_iter().max());
    let expected = expected.map(|time| ramp_up + time);
    let mut outcomes: Vec<Vec<Option<measure::Outcome>>> =
        jobs.iter().map(|job| (0..job.pattern.workers).map(|_| None).collect()).collect();
    let workers: usize = outcomes.iter().map(Vec::len).sum();
    let mut failure = None;
    let mut free = Vec::new();
    let mut reported = 0;
    let mut tick = measuring + interval;
    while reported < workers {
        let beat = if sync::is_virtual() { VIRTUAL_BEAT } else { BEAT };
        // Once the run is to end, nothing is left to be looked at: no time passes in a wait of none.
        let until_tick = tick.saturating_duration_since(sync::now());
        let wait = if halt.load(Relaxed) { beat } else { until_tick.min(beat) };
        match reports.receive(wait) {
            Some((number, index, outcome)) => {
                reported += 1;
                match outcome {
                    Some(Ok(outcome)) => outcomes[number][index] = Some(outcome),
                    Some(Err(error)) => failure = failure.or(Some(error)),
                    // It panicked, which the scope passes on.
                    None => {}
                }
            }
            None if watch.stop() => halt.store(true, Relaxed),
            None if sync::now() < tick => {}
            None => {
                free.push(subject.free());
                watch.tick(sync::now() - start, expected);
                tick += interval;
            }
        }
    }
    let whole = sync::now() - start;
    if let Some(error) = failure {
        return Err(error);
    }
    let cpu = CpuTime::now().since(cpu_before);
    let processors = cpu::since(&cpu::processors(), &processors_before);
    let measured = jobs.iter().zip(outcomes).map(|(job, outcomes)| {
        let mut job = (*job).clone();
        if halt.load(Relaxed) {
            // The observer ended the run, before its time or before its count.
            let ran = sync::now().saturating_duration_since(measuring);
            job.stop = match job.stop {
                Stop::After(time) => Stop::After(time.min(ran)),
                Stop::Within { count, time } => Stop::Within { count, time: time.min(ran) },
                Stop::Count(count) => Stop::Within { count, time: ran },
                slice @ Stop::Slice(_) => slice,
            };
        }
        measure::gather(&job, outcomes.into_iter().flatten(), &free, cpu, &processors, whole)
    });
    Ok(measured.collect())
}

/// Writes a range once, in order, with blocks that describe themselves: then no target reads places that were never
/// written, and verification knows which content to expect. [`Subject::sync`] makes the range durable.
///
/// `progress(done, total)` is called after each write, in bytes.
pub fn prepare(
    subject: &Subject,
    range: &Range<u64>,
    seed: u64,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<()> {
    prepare_with(subject, range, Some(seed), progress)
}

/// [`prepare`], with zeroes if there is no seed of a content.
pub(crate) fn prepare_with(
    subject: &Subject,
    range: &Range<u64>,
    content: Option<u64>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<()> {
    worker::prepare(subject, range, content, progress)
}

impl Job {
    /// Returns [`Error::Job`] with the reason why a job cannot be run, in a sentence.
    fn refuse<T>(reason: impl Into<String>) -> Result<T> {
        Err(Error::Job(reason.into()))
    }
}
