//! What slices measured, kept for results in other tools' formats.

use crate::workload::{Case, Workload};
use crate::{Measured, ProcessorTime, WorkerTally};
use std::time::Duration;

/// What one case's workers did in one slice; in one that runs in one piece, in all of it.
pub(crate) struct SliceCounts {
    pub workload: String,
    pub elapsed: Duration,
    pub workers: Vec<WorkerTally>,
    pub processors: Vec<ProcessorTime>,
}

/// What was measured, in the order in which it was.
#[derive(Default)]
pub struct Runs(pub(crate) Vec<SliceCounts>);

impl Runs {
    /// Keeps what was measured: see [`crate::Observer::measured`].
    pub fn add(&mut self, workload: &Workload, _case: &Case, measured: &Measured) {
        self.0.push(SliceCounts {
            workload: workload.name.clone(),
            elapsed: measured.elapsed,
            workers: measured.workers.clone(),
            processors: measured.processors.clone(),
        });
    }
}

/// The share of the time that a processor spent in programs, in the kernel, and with nothing to do, in percent.
pub(crate) fn shares(time: &ProcessorTime) -> [f64; 3] {
    let all = (time.user + time.kernel + time.idle).max(1) as f64;
    [time.user, time.kernel, time.idle].map(|part| part as f64 * 100.0 / all)
}
