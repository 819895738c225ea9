//! ReFS.
#![forbid(unsafe_code)]

mod check;
mod core;
mod extents;
mod format;
mod geometry;
#[cfg(test)]
mod golden;
pub mod layout;
mod listing;
mod open;
mod pages;
mod recover;
mod refs;
mod scrub;
mod seen;
mod space;
mod stream;
mod system;
mod tree;
mod volume;

pub use check::{FileRun, walk_runs};
pub use refs::Refs;
pub use volume::RefsVolume;
