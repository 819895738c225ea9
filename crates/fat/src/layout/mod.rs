//! FAT's structures on disk: one type for each, and no I/O.
//!
//! Sources, cited at each item by the short names given here:
//! * *fatgen103*: Microsoft, "FAT: General Overview of On-Disk Format", version 1.03, December 2000;
//! * *ECMA-107*: "Volume and File Structure of Disk Cartridges for Information Interchange", 1995 (FAT12 and FAT16).
//!
//! All numbers are little-endian. A structure that is parsed and not changed is written back byte for byte.

mod boot;
mod code_page;
mod entry;
mod geometry;
mod info;
mod long_name;
mod short_name;
mod sound;
mod table;

pub use boot::{BootSector, Fat32Fields, VolumeState};
pub use entry::{Attributes, LongEntry, ShortEntry, Slot};
pub use geometry::{FatKind, Geometry};
pub use info::InfoSector;
pub(crate) use long_name::allowed;
pub use long_name::{EntrySet, LONGEST_NAME, LongName, LongNameFault, MOST_LONG_ENTRIES, NAMES};
pub use platter_clusters::{DosTime, Link, Precision, SLOT};
pub use short_name::{Label, NtCase, ShortName};
pub use sound::{is_garbage, is_sound};
pub use table::{clean_bits, get, set};

/// The largest file, in bytes: the size field has 32 bits (fatgen103, "FAT Directory Structure").
pub const LARGEST_FILE: u64 = u32::MAX as u64;

/// The most slots a directory may have: 65,536 entries of 32 bytes, 2 MiB (fatgen103, "FAT Directory Structure").
pub const MOST_SLOTS: u32 = 65_536;

// The size of the longest directory fits the field of a file.
const _: () = assert!(MOST_SLOTS as u64 * 32 < LARGEST_FILE);

/// Reads 2 bytes at an offset; the caller makes sure that `bytes` is long enough.
fn le16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// Reads 4 bytes at an offset; the caller makes sure that `bytes` is long enough.
fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Reads `N` bytes at an offset; the caller makes sure that `bytes` is long enough.
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}
