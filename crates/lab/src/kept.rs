//! The measurements of slices, kept for results in the formats of other tools.

use crate::workload::{Case, Workload};
use crate::{Measured, ProcessorTime, WorkerTally};
use std::time::Duration;

/// The measurements of one case's workers in one slice, or in the whole run of a case that runs in one piece.
pub(crate) struct SliceCounts {
    pub workload: String,
    pub elapsed: Duration,
    pub workers: Vec<WorkerTally>,
    pub processors: Vec<ProcessorTime>,
}

/// The measurements of all slices, in the order in which they were made.
#[derive(Default)]
pub struct Runs(pub(crate) Vec<SliceCounts>);

impl Runs {
    /// Keeps the measurements of a slice: see [`crate::Observer::measured`].
    pub fn add(&mut self, workload: &Workload, _case: &Case, measured: &Measured) {
        self.0.push(SliceCounts {
            workload: workload.name.clone(),
            elapsed: measured.elapsed,
            workers: measured.workers.clone(),
            processors: measured.processors.clone(),
        });
    }
}

/// Returns the percentages of time that a processor spent in programs, in the kernel, and idle.
pub(crate) fn shares(time: &ProcessorTime) -> [f64; 3] {
    let all = (time.user + time.kernel + time.idle).max(1) as f64;
    [time.user, time.kernel, time.idle].map(|part| part as f64 * 100.0 / all)
}
