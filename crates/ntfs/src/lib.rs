//! NTFS 3.1, read, written, checked and repaired.
//!
//! * [`layout`]: what stands on disk;
//! * [`lznt1`]: how the clusters of a compressed file are packed.
#![forbid(unsafe_code)]

pub mod layout;
pub mod log;
pub mod lznt1;
