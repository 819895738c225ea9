//! FAT12, FAT16 and FAT32, read, written, checked and repaired.
//!
//! * [`layout`]: what stands on disk;
//! * [`Fat`]: recognising, making, opening and checking volumes.
#![forbid(unsafe_code)]

mod fat;
mod format;
pub mod layout;

pub use fat::Fat;
