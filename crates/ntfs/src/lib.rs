//! NTFS 3.1, read, written, checked and repaired.
//!
//! * [`check`]: finds and repairs damage.
//! * [`layout`]: what stands on disk;
//! * [`lznt1`]: how the clusters of a compressed file are packed.
#![forbid(unsafe_code)]

pub mod check;
pub mod format;
pub mod layout;
pub mod log;
pub mod lznt1;
mod recover;

pub use recover::recover;
