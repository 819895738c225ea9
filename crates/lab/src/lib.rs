//! The storage lab: workloads, the engine that drives them, what they measure and how that is reported.
#![forbid(unsafe_code)]

mod engine;
mod error;
pub mod report;
pub mod statistics;
mod subject;

pub use engine::*;
pub use error::{Error, Result};
pub use subject::Subject;
