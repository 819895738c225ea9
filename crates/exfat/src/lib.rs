//! exFAT, read, written, checked and repaired.
//!
//! * [`layout`]: what stands on disk;
//! * [`ExfatVolume`]: an open volume;
//! * [`Exfat`]: recognising, making, opening and checking volumes.
#![forbid(unsafe_code)]

mod bitmap;
mod check;
mod directory;
mod exfat;
mod format;
#[doc(hidden)]
pub mod fuzzing;
pub mod layout;
mod open;
mod recover;
mod volume;

pub use exfat::Exfat;
pub use volume::ExfatVolume;
