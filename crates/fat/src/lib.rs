//! FAT12, FAT16 and FAT32, read, written, checked and repaired.
//!
//! * [`layout`]: what stands on disk;
//! * [`FatVolume`]: an open volume, and what it promises;
//! * [`Fat`]: recognising, making, opening and checking volumes.
#![forbid(unsafe_code)]

mod check;
mod directory;
mod fat;
mod format;
#[doc(hidden)]
pub mod fuzzing;
pub mod layout;
mod recover;
mod volume;

pub use fat::Fat;
pub use volume::FatVolume;
