//! NTFS 3.1, read, written, checked and repaired.
//!
//! * [`layout`]: what stands on disk.
#![forbid(unsafe_code)]

pub mod layout;
