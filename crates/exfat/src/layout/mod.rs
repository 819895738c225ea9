//! exFAT's structures on disk: one type for each, and no I/O.
//!
//! Source: Microsoft, "exFAT file system specification", revision 1.00 (`MicrosoftDocs/win32`,
//! `desktop-src/FileIO/exfat-specification.md`). Numbers such as 7.6.4 are its sections.
//!
//! All numbers are little-endian. A structure that is parsed and not changed is written back byte for byte.

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

// An entry lies in a directory as a whole.
const _: () = assert!(LARGEST_DIRECTORY.is_multiple_of(32));

/// Continues a 32-bit checksum, of a boot region or an up-case table, over further bytes (3.4, 7.2.2).
fn checksum32(sum: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(sum, |sum, &byte| sum.rotate_right(1).wrapping_add(u32::from(byte)))
}

/// Continues a 16-bit checksum, of an entry set or a name, over further bytes (6.3.3, 7.6.4).
fn checksum16(sum: u16, bytes: impl IntoIterator<Item = u8>) -> u16 {
    bytes.into_iter().fold(sum, |sum, byte| sum.rotate_right(1).wrapping_add(u16::from(byte)))
}

/// Reads 2 bytes at an offset; the caller makes sure that `bytes` is long enough.
fn le16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// Reads 4 bytes at an offset; the caller makes sure that `bytes` is long enough.
fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from(le16(bytes, at)) | u32::from(le16(bytes, at + 2)) << 16
}

/// Reads 8 bytes at an offset; the caller makes sure that `bytes` is long enough.
fn le64(bytes: &[u8], at: usize) -> u64 {
    u64::from(le32(bytes, at)) | u64::from(le32(bytes, at + 4)) << 32
}

/// Reads `N` bytes at an offset; the caller makes sure that `bytes` is long enough.
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}
