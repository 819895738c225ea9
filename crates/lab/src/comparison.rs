//! What to compare.

use crate::{Durability, Preset, Stand, Target, Workload};
use std::time::Duration;

/// What to compare, and how.
#[derive(Clone)]
pub struct Comparison {
    /// On what.
    pub stand: Stand,
    /// What. One that is named twice stays two targets.
    pub targets: Vec<Target>,
    /// Under which loads.
    pub workloads: Vec<Workload>,
    /// How much of them.
    pub preset: Preset,
    /// The target that stands for 1, by name; the raw device, or else the first, if `None`.
    pub base: Option<String>,
    /// Rounds; each workload's own number if `None`.
    pub repeats: Option<u32>,
    /// When writes count as done; each workload's own choice if `None`.
    pub durability: Option<Durability>,
    /// Bytes that I/Os are spread over; each workload's own if `None`.
    pub span: Option<u64>,
    /// Measured time of a case on a target; each workload's own if `None`.
    pub time: Option<Duration>,
    /// Through the host's page cache, even if no workload asks for that.
    pub buffered: bool,
    /// Check every block that is read.
    pub verify: bool,
    /// Touch what is read and written: see [`Job::touch`](crate::Job::touch).
    pub touch: bool,
    /// The command line that repeats it, for the report.
    pub command: String,
}

impl Comparison {
    /// A quick one in which nothing is asked for but where, what and under which loads.
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
            buffered: false,
            verify: false,
            touch: false,
            command: String::new(),
        }
    }
}
