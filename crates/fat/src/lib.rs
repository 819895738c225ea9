//! FAT12, FAT16 and FAT32, read, written, checked and repaired.
//!
//! * [`layout`]: what stands on disk;
//! * [`FatVolume`]: an open volume, and what it promises;
//! * [`Fat`]: recognising, making, opening and checking volumes.
#![forbid(unsafe_code)]

mod chain;
mod check;
mod core;
mod directory;
mod fat;
mod file;
mod format;
#[doc(hidden)]
pub mod fuzzing;
pub mod layout;
mod space;
mod volume;

pub use fat::Fat;
pub use volume::FatVolume;
