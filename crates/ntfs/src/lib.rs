//! NTFS 3.1, read, written, checked and repaired.
//!
//! * [`check`]: finds and repairs damage;
//! * [`format`](mod@format): makes a volume;
//! * [`layout`]: what stands on disk;
//! * [`lznt1`]: how the clusters of a compressed file are packed;
//! * [`log`]: the log, written and replayed;
//! * [`Ntfs`]: the format as a [`platter_vfs::Format`];
//! * [`NtfsVolume`]: an open volume;
//! * [`recover`](fn@recover): copies out what is left of a volume.
#![forbid(unsafe_code)]

mod bits;
pub mod check;
mod core;
mod file;
pub mod format;
#[doc(hidden)]
pub mod fuzzing;
mod hash;
mod index;
pub mod layout;
pub mod log;
pub mod lznt1;
mod nodes;
mod ntfs;
mod open;
mod recover;
mod runlist;
mod secure;
mod space;
mod stream;
mod volume;

pub use ntfs::Ntfs;
pub use recover::recover;
pub use volume::NtfsVolume;
