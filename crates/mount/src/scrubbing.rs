//! Scrubbing a mounted volume, part by part, while programs use it.
//!
//! A scrub is begun, ended and asked about through the attribute `system.platter_scrub` of the mount's directory.

use crate::errors::{Answer, Errno};
use crate::log::Log;
use platter_vfs::{FileSystem, ScrubOptions, ScrubReport};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Bytes of metadata and file data that are verified at once. Programs that sync wait for so long.
const PART: u64 = 64 << 20;
/// The most bytes of findings that are told, as JSON; of an attribute's value the kernel passes on 64 KiB.
const MOST_TOLD: usize = 48 << 10;
/// The most findings that are told apart, so that damage in the pages that every part reads on its way is counted once.
const MOST_KNOWN: usize = 100_000;

/// How far a scrub of a mounted volume is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScrubStep {
    /// None was begun since the volume was mounted.
    #[default]
    None,
    /// It is under way.
    Running,
    /// It has read everything.
    Done,
    /// It was ended before it had read everything.
    Stopped,
    /// An error ended it.
    Failed,
}

/// The state of the last scrub of a mounted volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubState {
    /// How far it is.
    pub step: ScrubStep,
    /// Bytes of file data verified so far, in each copy.
    pub data: u64,
    /// Bytes in use on the volume: at most so many are verified.
    pub used: u64,
    /// Bytes of metadata verified, in each copy.
    pub metadata: u64,
    /// The number of copies that are verified.
    pub copies: u64,
    /// The number of damaged ranges.
    pub found: u64,
    /// The number of those that were repaired from another copy.
    pub repaired: u64,
    /// Bytes of file data that are good in no copy.
    pub lost: u64,
    /// The exit code of `platter scrub` for what was found, in the manner of `fsck(8)`.
    pub exit_code: u64,
    /// The error that ended the scrub.
    pub error: Option<String>,
    /// The first findings, one line each.
    pub told: Vec<String>,
}

/// The scrub of a mounted volume.
#[derive(Default)]
pub(crate) struct Scrubbing {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<ScrubState>,
    is_stopped: AtomicBool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, ScrubState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Scrubbing {
    /// Ends a scrub that is under way, after the part that is being verified.
    pub(crate) fn end(&self) {
        self.shared.is_stopped.store(true, Ordering::Relaxed);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A thread that panicked has told so on standard error.
        thread.map(JoinHandle::join);
    }

    /// The state of the last scrub.
    pub(crate) fn state(&self) -> ScrubState {
        self.shared.state().clone()
    }

    /// Carries out an order: `start`, `start RATE` with bytes a second, or `stop`.
    pub(crate) fn order(&self, order: &[u8], system: &Arc<dyn FileSystem>, log: Log) -> Answer<()> {
        let order = std::str::from_utf8(order).map_err(|_| Errno::INVALID)?;
        match order.split_once(' ') {
            None if order == "start" => self.begin(system.clone(), log, None),
            None if order == "stop" => {
                self.shared.is_stopped.store(true, Ordering::Relaxed);
                Ok(())
            }
            Some(("start", rate)) => {
                let rate = rate.parse().ok().filter(|rate| *rate > 0).ok_or(Errno::INVALID)?;
                self.begin(system.clone(), log, Some(rate))
            }
            _ => Err(Errno::INVALID),
        }
    }

    fn begin(&self, system: Arc<dyn FileSystem>, log: Log, rate: Option<u64>) -> Answer<()> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return Err(Errno(libc::EBUSY));
        }
        let space = system.space().map_err(|error| error.errno())?;
        let used = (space.total - space.free) * space.cluster;
        *self.shared.state() = ScrubState { step: ScrubStep::Running, used, ..ScrubState::default() };
        self.shared.is_stopped.store(false, Ordering::Relaxed);
        let shared = self.shared.clone();
        let work = move || scrub(&shared, &*system, &log, rate);
        let begun = thread::Builder::new().name("scrub".into()).spawn(work);
        *thread = Some(begun.map_err(|_| Errno(libc::EAGAIN))?);
        Ok(())
    }
}

/// Scrubs a volume to its end, or until it is stopped.
fn scrub(shared: &Shared, system: &dyn FileSystem, log: &Log, rate: Option<u64>) {
    let part = rate.map_or(PART, |rate| rate.clamp(1 << 20, PART));
    let mut options = ScrubOptions { limit: Some(part), checksums_only: true, ..ScrubOptions::default() };
    let mut known = HashSet::new();
    let step = loop {
        if shared.is_stopped.load(Ordering::Relaxed) {
            break ScrubStep::Stopped;
        }
        let began = Instant::now();
        let report = match system.integrity().and_then(|part| part.scrub(&options)) {
            Ok(report) => report,
            Err(error) => {
                log(&format!("the scrub ended: {error}"));
                shared.state().error = Some(error.to_string());
                break ScrubStep::Failed;
            }
        };
        add(&mut shared.state(), &report, &mut known, log);
        options.from = match report.next {
            Some(next) => Some(next),
            None => break ScrubStep::Done,
        };
        // Programs that sync get as much time as the scrub takes, or more if it is to be slower.
        let taken = began.elapsed();
        let slow = rate.map_or(Duration::ZERO, |rate| {
            Duration::from_secs_f64((report.metadata + report.data) as f64 / rate as f64)
        });
        let until = Instant::now() + taken.max(slow.saturating_sub(taken));
        while Instant::now() < until && !shared.is_stopped.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(20).min(until.saturating_duration_since(Instant::now())));
        }
    };
    shared.state().step = step;
}

/// Adds what a part of the scrub has found.
fn add(state: &mut ScrubState, report: &ScrubReport, known: &mut HashSet<String>, log: &Log) {
    state.data += report.data;
    state.metadata += report.metadata;
    state.copies = report.copies as u64;
    state.lost += report.lost;
    state.repaired += report.repaired;
    state.exit_code = state.exit_code.max(report.exit_code().into());
    // Damage beyond what a report keeps is counted with each part.
    state.found += report.found - report.damaged.len() as u64;
    // In JSON a line has quotes and a comma, and what is escaped in it is longer.
    let length = |line: &str| format!("{line:?},").len();
    let mut told: usize = state.told.iter().map(|line| length(line)).sum();
    for damaged in &report.damaged {
        let line = damaged.finding.to_string();
        if !damaged.finding.repaired && known.contains(&line) {
            continue;
        }
        state.found += 1;
        log(&line);
        if told + length(&line) < MOST_TOLD {
            told += length(&line);
            state.told.push(line.clone());
        }
        if known.len() < MOST_KNOWN {
            known.insert(line);
        }
    }
}
