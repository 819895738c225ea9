//! FAT12, FAT16 and FAT32.
#![forbid(unsafe_code)]

pub mod layout;
