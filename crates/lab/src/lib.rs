//! The storage lab: workloads, the engine that drives them, what they measure and how that is reported.
//!
//! [`compare`] runs [`Workload`]s on [`Target`]s in turns and answers with a [`report::Document`], from which every
//! report is rendered. Underneath, [`run`] drives one [`Job`] on one [`Subject`].
#![forbid(unsafe_code)]

mod blocks;
mod compare;
pub mod diskspd;
pub mod endurance;
mod engine;
mod environment;
mod error;
pub mod estimate;
pub mod fleet;
#[doc(hidden)]
pub mod fuzzing;
pub mod iometer;
pub mod jetstress;
mod kept;
pub mod naspt;
mod peer;
mod plan;
pub mod published;
pub mod report;
mod stand;
pub mod statistics;
mod subject;
mod target;
pub mod workload;

pub use compare::{Comparison, Observer, compare};
pub use engine::*;
pub use environment::{device_info, environment};
pub use error::{Error, Result};
pub use kept::Runs;
pub use peer::Peer;
pub use stand::{Stand, device_path};
pub use subject::Subject;
pub use target::Target;
pub use workload::{Part, Preset, Share, Workload};
