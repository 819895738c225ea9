//! The storage lab: workloads, the engine that drives them, its measurements and the reports on them.
//!
//! [`compare`] runs [`Workload`]s on [`Target`]s that alternate and returns a [`report::Document`], from which every
//! report is rendered. Underneath, [`run`] drives one [`Job`] on one [`Subject`].
//!
//! # Example
//!
//! A thousand random reads and writes on a device in memory:
//!
//! ```
//! use platter_device::{MemoryDevice, Sectors};
//! use platter_lab::{Durability, Job, Pattern, Stop, Subject, run};
//! use std::{sync::Arc, time::Duration};
//!
//! # fn main() -> platter_lab::Result<()> {
//! let pattern = Pattern {
//!     block: 4096,
//!     read_percent: 70,
//!     random_percent: 100,
//!     workers: 1,
//!     queue_depth: 4,
//!     ..Pattern::default()
//! };
//! let job = Job {
//!     pattern,
//!     range: 0..8 << 20,
//!     seed: 1,
//!     ramp_up: Duration::ZERO,
//!     stop: Stop::Count(1000),
//!     durability: Durability::Direct,
//!     verify: false,
//!     touch: false,
//!     interval: Duration::from_secs(1),
//! };
//! let device = Arc::new(MemoryDevice::new(8 << 20, Sectors::SMALL));
//! let measured = run(&Subject::Device { device, free: None }, &job, &())?;
//! assert!(measured.reads.ios > measured.writes.ios);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod blocks;
mod compare;
mod comparison;
pub mod diskspd;
pub mod document;
pub mod endurance;
mod engine;
mod environment;
mod error;
pub mod estimate;
mod experiment;
pub mod fit;
pub mod fleet;
mod format;
#[doc(hidden)]
pub mod fuzzing;
mod groups;
mod host;
mod image;
pub mod iometer;
pub mod jetstress;
mod kept;
mod loads;
mod mark;
pub mod model;
pub mod naspt;
mod peer;
mod plan;
pub mod post;
pub mod programs;
mod replay;
pub mod report;
mod stand;
pub mod statistics;
mod steady;
mod subject;
mod target;
mod windows_peer;
pub mod workload;

pub(crate) use compare::go_on;
pub use compare::{Observer, compare};
pub use comparison::Comparison;
pub use engine::*;
pub use environment::{device_info, environment};
pub(crate) use error::unmeasured;
pub use error::{Error, Result};
pub use kept::Runs;
pub use loads::load_workloads;
pub use mark::is_ours;
pub use peer::Peer;
pub use report::published;
pub use stand::{Stand, device_path};
pub use subject::Subject;
pub use target::Target;
pub use windows_peer::WindowsPeer;
pub use workload::{Part, Preset, Share, Workload};
