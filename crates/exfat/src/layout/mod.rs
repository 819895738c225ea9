//! exFAT on disk: one type for each structure, never any I/O.
//!
//! Source: Microsoft, "exFAT file system specification", revision 1.00 (`MicrosoftDocs/win32`,
//! `desktop-src/FileIO/exfat-specification.md`). Numbers such as 7.6.4 are its sections.
//!
//! All numbers are little-endian. What is parsed and not changed is written back byte for byte.

mod boot;
mod entry;
mod set;
mod stamp;
mod upcase;

pub use boot::{BootRegion, BootSector, Geometry, VolumeFlags};
pub use entry::{Attributes, BitmapEntry, LabelEntry, Primary, UpcaseEntry, is_benign, is_in_use, kind};
pub use platter_clusters::{DosTime, Link, Precision, SLOT};
pub use set::{
    EntrySet, Fault, FileInfo, Part, UNITS_IN_NAME, is_whole, name_hash, secondary_count, set_checksum,
};
pub use stamp::Stamp;
pub use upcase::{Upcase, table_checksum};

/// The largest directory in bytes (9.5).
pub const LARGEST_DIRECTORY: u64 = 256 << 20;

/// Adds bytes to a checksum of 32 bits, as boot regions and up-case tables have one (3.4, 7.2.2).
fn checksum32(sum: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(sum, |sum, &byte| sum.rotate_right(1).wrapping_add(u32::from(byte)))
}

/// Adds bytes to a checksum of 16 bits, as entry sets and names have one (6.3.3, 7.6.4).
fn checksum16(sum: u16, bytes: impl IntoIterator<Item = u8>) -> u16 {
    bytes.into_iter().fold(sum, |sum, byte| sum.rotate_right(1).wrapping_add(u16::from(byte)))
}

/// Two bytes of a structure whose size is known to hold them.
fn le16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// Four bytes of a structure whose size is known to hold them.
fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from(le16(bytes, at)) | u32::from(le16(bytes, at + 2)) << 16
}

/// Eight bytes of a structure whose size is known to hold them.
fn le64(bytes: &[u8], at: usize) -> u64 {
    u64::from(le32(bytes, at)) | u64::from(le32(bytes, at + 4)) << 32
}

/// `N` bytes of a structure whose size is known to hold them.
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}
