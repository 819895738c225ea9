//! The settings of a comparison.

use crate::{Durability, Preset, Stand, Target, Workload};
use std::time::Duration;

/// The settings of a comparison: targets, workloads and options.
#[derive(Clone)]
pub struct Comparison {
    /// The device that targets are made on.
    pub stand: Stand,
    /// The targets. A target that is named twice is measured as two targets.
    pub targets: Vec<Target>,
    /// The loads.
    pub workloads: Vec<Workload>,
    /// Which scale of the workloads is run, quick or full.
    pub preset: Preset,
    /// The name of the target that all others are compared with; the raw device, or else the first target, if `None`.
    pub base: Option<String>,
    /// The number of rounds; each workload's own if `None`.
    pub repeats: Option<u32>,
    /// When writes must be durable; each workload's own rule if `None`.
    pub durability: Option<Durability>,
    /// The number of bytes that I/Os are spread over; each workload's own if `None`.
    pub span: Option<u64>,
    /// Measured time of a case on a target; each workload's own if `None`.
    pub time: Option<Duration>,
    /// Measure each case until differences of this share would be told (0.05: of 5 %), but for no longer than `time`, or ten
    /// times the workload's own time. Of cases that are measured in alternating slices.
    pub until: Option<f64>,
    /// Whether all I/O goes through the host's page cache, even if no workload asks for that.
    pub buffered: bool,
    /// Whether every block that is read is checked.
    pub verify: bool,
    /// Whether each region is discarded (TRIM) before its target is made. Without that, a device keeps the state that it
    /// was brought into.
    pub discard: bool,
    /// The length of a round of preconditioning: the regions are filled and then overwritten at random in rounds, until
    /// the rate is steady, before any target is made. `None` for none.
    pub precondition: Option<Duration>,
    /// Whether blocks are touched when they are read and written: see [`Job::touch`](crate::Job::touch).
    pub touch: bool,
    /// The command line that repeats the comparison, for the report.
    pub command: String,
}

impl Comparison {
    /// Makes a comparison with the quick preset and no other options.
    pub fn new(stand: Stand, targets: Vec<Target>, workloads: Vec<Workload>) -> Comparison {
        Comparison {
            stand,
            targets,
            workloads,
            preset: Preset::Quick,
            base: None,
            repeats: None,
            durability: None,
            span: None,
            time: None,
            until: None,
            buffered: false,
            verify: false,
            discard: false,
            precondition: None,
            touch: false,
            command: String::new(),
        }
    }
}
