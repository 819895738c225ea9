//! The code that Platter's tests share; it is in no release.
//!
//! # Example
//!
//! Running many callers on one volume, in an order that depends on a seed alone:
//!
//! ```no_run
//! use platter_testing::simulation::{Abilities, Setting, Volume, run};
//! use platter_vfs::FormatOptions;
//! use std::sync::Arc;
//!
//! let volume = Volume {
//!     name: "NTFS",
//!     format: platter_formats::by_name("ntfs").expect("a format of this build"),
//!     options: FormatOptions::default(),
//!     size: 64 << 20,
//!     abilities: Abilities {
//!         sparse: true,
//!         integrity: false,
//!         streams: true,
//!         clone: false,
//!         links: true,
//!         crowd: 0,
//!     },
//!     repairs: false,
//!     left: None,
//!     mirrored: false,
//! };
//! let setting = Arc::new(Setting::new(volume));
//! for seed in 0..100 {
//!     let outcome = run(&setting, seed);
//!     // A finding is replayed with its seed.
//!     # drop(outcome);
//! }
//! ```
#![forbid(unsafe_code)]

mod conformance;
pub mod crowd;
mod memory;
pub mod model;
pub mod simulation;

pub use memory::{MemoryFileSystem, MemoryOptions};
