//! NTFS 3.1, read, written, checked and repaired.
//!
//! * [`check`]: finds and repairs damage;
//! * [`format`](mod@format): makes a volume;
//! * [`layout`]: the structures on disk;
//! * [`lznt1`]: how the clusters of a compressed file are packed;
//! * [`log`]: the log, written and replayed;
//! * [`Ntfs`]: the format as a [`platter_vfs::Format`];
//! * [`NtfsVolume`]: an open volume;
//! * [`recover`](fn@recover): copies out what is left of a volume.
//!
//! # Example
//!
//! ```
//! use platter_device::{MemoryDevice, Sectors};
//! use platter_ntfs::Ntfs;
//! use platter_vfs::{CheckOptions, FormatOptions, Format, Kind, Name, Node, OpenOptions, Silent, SyncScope};
//! use std::sync::Arc;
//!
//! # fn main() -> platter_vfs::Result<()> {
//! // Make a volume; a `FileDevice` is one on an image file or a disk.
//! let device = Arc::new(MemoryDevice::new(64 << 20, Sectors::SMALL));
//! Ntfs.make(&*device, &FormatOptions::default(), &Silent)?;
//!
//! // Open it, write and sync.
//! let volume = Ntfs.open(device.clone(), OpenOptions::default())?;
//! let file = volume.create(Node::ROOT, &Name::from("file"), Kind::File)?;
//! volume.write(file, 0, b"content")?;
//! volume.sync(file, SyncScope::All)?; // it survives a power cut from here on
//!
//! // Read it, list its directory.
//! let mut buffer = [0; 16];
//! let got = volume.read(file, 0, &mut buffer)?;
//! assert_eq!(&buffer[..got], b"content");
//! let mut entries = Vec::new();
//! volume.read_directory(Node::ROOT, Default::default(), 10, &mut entries)?;
//! assert_eq!((entries[0].name.to_string().as_str(), entries[0].attributes.size), ("file", 7));
//! volume.forget(file, 1);
//! volume.unmount()?;
//!
//! // Check it, from the device alone.
//! assert!(Ntfs.check(&*device, CheckOptions::default(), &Silent)?.is_clean());
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod bits;
pub mod check;
mod core;
mod file;
pub mod format;
#[doc(hidden)]
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod hash;
mod huffman;
mod index;
pub mod layout;
pub mod log;
pub mod lznt1;
mod lzx;
mod nodes;
mod ntfs;
mod open;
mod recover;
mod runlist;
mod secure;
mod shadow;
mod space;
mod stream;
mod taken;
mod volume;
mod wof;
mod xpress;

pub use ntfs::Ntfs;
pub use recover::recover;
pub use volume::NtfsVolume;
