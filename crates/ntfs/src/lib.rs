//! NTFS 3.1, read, written, checked and repaired.
//!
//! * [`check`]: finds and repairs damage.
//! * [`layout`]: what stands on disk;
//! * [`lznt1`]: how the clusters of a compressed file are packed;
//! * [`log`]: the log, written and replayed;
//! * [`NtfsVolume`]: an open volume;
//! * [`Ntfs`]: recognising, making, opening and checking volumes.
#![forbid(unsafe_code)]

mod bits;
pub mod check;
mod core;
mod file;
pub mod format;
mod index;
pub mod layout;
pub mod log;
pub mod lznt1;
mod nodes;
mod ntfs;
mod open;
mod runlist;
mod secure;
mod space;
mod stream;
mod volume;

pub use ntfs::Ntfs;
pub use volume::NtfsVolume;
