//! Endurance: one load on one volume for hours; the run may be stopped and resumed.
//!
//! The published run of twelve hours does not say what state a volume is in afterwards; one volume with integrity
//! "froze". So every few seconds a sample is recorded: rates, response times, time without progress, free space, the
//! number of pieces of the file, the traffic of the device, and the memory of this process.

mod record;
mod report;

pub use record::{COLUMNS, EndurancePlan, Goal, Record, SCHEMA, Sample};
pub use report::{html, summary};

use crate::document::rfc3339;
use crate::stand::{OpenStand, Stand};
use crate::target::{FILE, Target};
use crate::{Durability, Error, Job, Observer, Pattern, Result, Session, Stop, Subject, Watch};
use platter_device::{Caching, Recorder, show_size};
use platter_vfs::{FileSystem, Name, Node, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The settings of an endurance run.
pub struct Endurance {
    /// An image or a block device; the caller has made sure that its content may be lost.
    pub device: PathBuf,
    /// Whether the device may be used although another program or the kernel uses it.
    pub force: bool,
    /// The raw device or a volume.
    pub target: Target,
    /// The percentage of the volume that is in use when the load begins.
    pub full_percent: u32,
    /// The access pattern of the load.
    pub pattern: Pattern,
    /// The seed of random places and data.
    pub seed: u64,
    /// Length of a sample.
    pub sample: Duration,
    /// When the run ends.
    pub goal: Goal,
    /// The command line that repeats the run, for the report.
    pub command: String,
}

/// Bytes of the file that are written before the observer is asked again whether to end.
const PIECE: u64 = 256 << 20;
/// If the last I/Os of a sample complete later than this after its end, the wait is a stall.
const STALL: Duration = Duration::from_millis(250);
/// How long to wait for the device while a process that was killed still holds it.
const PATIENCE: Duration = Duration::from_secs(5);
/// The least time between two counts of the file's pieces, in seconds under load: counting millions of them takes a
/// while.
const COUNTED_EVERY: f64 = 60.0;
/// The device, its recorder and the subject of the load.
struct Subjects {
    stand: OpenStand,
    recorder: Arc<Recorder>,
    subject: Subject,
}

impl Endurance {
    /// Makes the volume and its file, and runs until the goal is reached or the observer asks to end.
    ///
    /// # Errors
    /// An error that occurs before the first sample. A later failure ends the run and is recorded in
    /// [`EndurancePlan::ended`].
    pub fn begin(&self, directory: &Path, observer: &dyn Observer) -> Result<Record> {
        if !matches!(self.target, Target::Raw | Target::Volume { .. }) {
            return Err(Error::Job("endurance runs on the raw device or on a volume of ours".into()));
        }
        if self.goal == Goal::default() {
            return Err(Error::Job("nothing says when the run is to end".into()));
        }
        Record::refuse_existing(directory)?;
        let stand = open(&self.device, self.force, false)?;
        let whole = stand.device.len();
        let unit = |bytes: u64| Duration::from_secs(bytes >> 20);
        stand.provide(&mut |done, total| {
            observer.stage("writing the image once", unit(done), unit(total));
            crate::go_on(observer)
        })?;
        let ready = self.target.set_up(&self.target.name(), &stand.places[0], stand.caching, 0)?;
        let recorder = ready.recorder.ok_or_else(|| Error::Job("its device cannot be watched".into()))?;
        let subjects = Subjects { subject: ready.subject, recorder, stand };
        let (total, used, identifier) = match &subjects.subject {
            Subject::File { system, .. } => {
                let space = system.space()?;
                let used = (space.total - space.free) * space.cluster;
                (space.total * space.cluster, used, system.info()?.identifier)
            }
            Subject::Device { .. } => (whole, 0, String::new()),
        };
        let block = u64::from(self.pattern.block);
        let full = (u128::from(total) * u128::from(self.full_percent) / 100) as u64;
        let span = full.saturating_sub(used) / block.max(1) * block;
        if span < block * u64::from(self.pattern.workers.max(1)) {
            return Err(Error::Job(format!(
                "a volume of {} that has {} in use is too small for a file that makes it {} % full",
                show_size(total),
                show_size(used),
                self.full_percent
            )));
        }
        self.fill(&subjects.subject, span, observer)?;
        let pattern = &self.pattern;
        let plan = EndurancePlan {
            schema: SCHEMA.into(),
            created: rfc3339(SystemTime::now()),
            platter_version: env!("CARGO_PKG_VERSION").into(),
            command: self.command.clone(),
            device: std::path::absolute(&self.device).unwrap_or_else(|_| self.device.clone()),
            device_bytes: whole,
            target: self.target.name(),
            identifier,
            volume_bytes: total,
            full_percent: self.full_percent,
            span,
            block: pattern.block,
            read_percent: pattern.read_percent,
            random_percent: pattern.random_percent,
            workers: pattern.workers,
            queue_depth: pattern.queue_depth,
            seed: self.seed,
            sample_seconds: self.sample.as_secs_f64(),
            goal: self.goal,
            ended: None,
            failed: false,
        };
        let record = Record::begin(directory, plan)?;
        go_on(record, subjects, observer)
    }

    /// Writes the file, or the device, that the run is on: `span` bytes.
    fn fill(&self, subject: &Subject, span: u64, observer: &dyn Observer) -> Result<()> {
        let unit = |bytes: u64| Duration::from_secs(bytes >> 20);
        let mut at = 0;
        while at < span {
            crate::go_on(observer)?;
            let end = (at + PIECE).min(span);
            crate::prepare(subject, &(at..end), self.seed, &mut |done, _| {
                observer.stage("writing the file", unit(at + done), unit(span));
            })?;
            at = end;
        }
        subject.sync()?;
        Ok(())
    }
}

/// Continues a run that was stopped, on the volume as it is. `goal` replaces the goal of the run, if given.
///
/// # Errors
/// [`Error::Input`] if the device does not hold the volume of that run, and any error that occurs before the first
/// sample.
pub fn resume(directory: &Path, goal: Option<Goal>, force: bool, observer: &dyn Observer) -> Result<Record> {
    let mut record = Record::open(directory)?;
    record.plan.goal = goal.unwrap_or(record.plan.goal);
    let plan = &record.plan;
    let other = |reason: String| Error::Input { name: plan.device.display().to_string(), reason };
    if plan.device.symlink_metadata().is_err() {
        return Err(other("the device of the run is not there".into()));
    }
    let stand = open_patiently(&plan.device, force)?;
    if stand.device.len() != plan.device_bytes {
        return Err(other(format!("{} bytes, the run had {}", stand.device.len(), plan.device_bytes)));
    }
    let (device, recorder) = stand.places[0].recorded(stand.places[0].device.clone());
    let subject = match Target::parse(&plan.target)? {
        Target::Volume { format, .. } => {
            let system = format.open(device, OpenOptions::default())?;
            let identifier = system.info()?.identifier;
            if identifier != plan.identifier {
                return Err(other(format!("it holds volume {identifier}, the run had {}", plan.identifier)));
            }
            let node = system.lookup(Node::ROOT, &Name::from(FILE))?;
            let size = system.attributes(node)?.size;
            if size < plan.span {
                return Err(other(format!("its file has {size} bytes, the run had {}", plan.span)));
            }
            Subject::File { system, node }
        }
        _ => Subject::Device { device, free: None },
    };
    (record.plan.ended, record.plan.failed) = (None, false);
    record.save_plan()?;
    go_on(record, Subjects { stand, recorder, subject }, observer)
}

/// Opens the device for a run, or for going on with one. A device whose run began without a mark has none.
fn open(device: &Path, force: bool, is_begun: bool) -> Result<OpenStand> {
    // The span only determines how much of an image is written in advance: here all of it.
    let span = match crate::image::look(device) {
        Ok(Some((length, _))) => length,
        _ => std::fs::metadata(device).map_or(0, |data| data.len()),
    };
    let stand = Stand::Path { path: device.into(), force };
    match is_begun {
        true => OpenStand::again(&stand, span, Caching::DirectIfPossible),
        false => OpenStand::open(&stand, span, None, 1, Caching::DirectIfPossible, false),
    }
}

/// Opens the device as [`open`] does, but waits while it is locked: a killed process holds its files until the kernel
/// has finished its requests.
fn open_patiently(device: &Path, force: bool) -> Result<OpenStand> {
    let began = Instant::now();
    loop {
        match open(device, force, true) {
            Err(Error::Device(platter_device::Error::Locked { .. })) if began.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(100));
            }
            outcome => return outcome,
        }
    }
}

/// Passes on progress to the observer, and ends a sample when the observer asks for it.
struct Ends<'o> {
    observer: &'o dyn Observer,
    goal: Goal,
    seconds: f64,
    volumes: f64,
    /// The goal in time, to which progress is scaled; an arbitrary long time if the goal is only one of written bytes.
    most: Duration,
}

impl Watch for Ends<'_> {
    fn tick(&self, elapsed: Duration, _whole: Option<Duration>) {
        let share = self.goal.share(self.seconds + elapsed.as_secs_f64(), self.volumes);
        self.observer.stage("under load", self.most.mul_f64(share), self.most);
    }

    fn stop(&self) -> bool {
        self.observer.stop()
    }
}

/// Takes samples until the goal is reached, the observer asks to end, or a sample fails.
fn go_on(mut record: Record, subjects: Subjects, observer: &dyn Observer) -> Result<Record> {
    let plan = &record.plan;
    let part = record.samples.last().map_or(0, |last| last.part + 1);
    let pattern = Pattern {
        block: plan.block,
        read_percent: plan.read_percent,
        random_percent: plan.random_percent,
        workers: plan.workers,
        queue_depth: plan.queue_depth,
        ..Pattern::default()
    };
    let interval = Duration::from_secs(1);
    let job = Job {
        pattern,
        range: 0..plan.span,
        // Every part of the run has another seed, so that it goes to other places than the parts before.
        seed: plan.seed.wrapping_add(u64::from(part)),
        ramp_up: Duration::ZERO,
        stop: Stop::After(interval),
        durability: Durability::Direct,
        verify: false,
        touch: false,
        interval,
    };
    let mut session = Session::new(subjects.subject.clone(), job)?;
    let mut counted = f64::NEG_INFINITY;
    let mut failed = false;
    let mut ended = loop {
        let (seconds, volumes) = (record.seconds(), record.volumes());
        if record.plan.goal.share(seconds, volumes) >= 1.0 {
            break "it reached its goal".to_string();
        }
        if observer.stop() {
            break "it was stopped".to_string();
        }
        let left = record.plan.goal.seconds.map_or(f64::INFINITY, |goal| goal - seconds);
        let sample = Duration::from_secs_f64(record.plan.sample_seconds.min(left).max(1e-3));
        let most = Duration::from_secs_f64(record.plan.goal.seconds.unwrap_or(1e6).min(1e12));
        let watch = Ends { observer, goal: record.plan.goal, seconds, volumes, most };
        let is_due = seconds - counted >= COUNTED_EVERY;
        match take(&mut session, &subjects, sample, is_due, &watch) {
            Ok(sample) => {
                if sample.pieces.is_some() {
                    counted = seconds;
                }
                record.add(Sample { part, at: seconds, ..sample })?;
            }
            Err(error) => {
                failed = true;
                break format!("it failed: {error}");
            }
        }
    };
    drop(session);
    if let Err(why) = leave(&subjects.subject) {
        failed = true;
        ended += &format!(", and {why}");
    }
    drop(subjects.stand);
    (record.plan.ended, record.plan.failed) = (Some(ended), failed);
    record.save_plan()?;
    Ok(record)
}

/// Ends the use of a volume or device; fails with a sentence that says why it could not.
fn leave(subject: &Subject) -> std::result::Result<(), String> {
    match subject {
        Subject::File { system, .. } => system
            .unmount()
            .map_err(|error| format!("the volume could not be unmounted: {}", Error::from(error))),
        Subject::Device { device, .. } => {
            device.flush().map_err(|error| format!("the device could not be flushed: {}", Error::from(error)))
        }
    }
}

/// Takes one sample; `is_due` says whether to count the file's pieces.
fn take(
    session: &mut Session,
    subjects: &Subjects,
    length: Duration,
    is_due: bool,
    watch: &dyn Watch,
) -> Result<Sample> {
    let before = subjects.recorder.traffic();
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let began = Instant::now();
    let measured =
        session.run(Duration::ZERO, Stop::Slice(length), length.min(Duration::from_secs(1)), watch)?;
    let seconds = began.elapsed();
    let after = subjects.recorder.traffic();
    let latencies = measured.latencies();
    let us = |percent: f64| latencies.percentile(percent) as f64 / 1e3;
    let late = measured.elapsed.saturating_sub(length);
    let standing = measured.interval.as_secs_f64() * measured.stalled as f64;
    let pieces = match &subjects.subject {
        Subject::File { system, node } if is_due => Some(pieces(&**system, *node)?),
        _ => None,
    };
    Ok(Sample {
        clock,
        seconds: seconds.as_secs_f64(),
        reads: measured.reads.ios,
        writes: measured.writes.ios,
        written: measured.writes.bytes,
        mean_us: latencies.mean() / 1e3,
        p50_us: us(50.0),
        p99_us: us(99.0),
        p99_9_us: us(99.9),
        max_us: latencies.max() as f64 / 1e3,
        stalled: standing.max(if late > STALL { late.as_secs_f64() } else { 0.0 }),
        free: subjects.subject.free(),
        pieces,
        device_read: after.read.bytes - before.read.bytes,
        device_written: after.write.bytes - before.write.bytes,
        flushes: after.flushes - before.flushes,
        resident: resident(),
        ..Sample::default()
    })
}

/// The number of pieces (extents) of a file.
fn pieces(system: &dyn FileSystem, node: Node) -> Result<u64> {
    Ok(system.extents(node)?.len() as u64)
}

/// The resident memory of this process in bytes.
fn resident() -> Option<u64> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * crate::host::page_size()?)
}
