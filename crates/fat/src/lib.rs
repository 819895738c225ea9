//! The FAT12, FAT16 and FAT32 file systems: reading, writing, checking and repairing.
//!
//! * [`layout`]: the structures on disk;
//! * [`FatVolume`]: an open volume, and what it guarantees;
//! * [`Fat`]: recognising, making, opening and checking volumes.
//!
//! # Example
//!
//! ```
//! use platter_device::{MemoryDevice, Sectors};
//! use platter_fat::Fat;
//! use platter_vfs::{CheckOptions, FormatOptions, Format, Kind, Name, Node, OpenOptions, Silent, SyncScope};
//! use std::sync::Arc;
//!
//! # fn main() -> platter_vfs::Result<()> {
//! // Make a volume; a `FileDevice` is one on an image file or a disk.
//! let device = Arc::new(MemoryDevice::new(64 << 20, Sectors::SMALL));
//! Fat::FAT32.make(&*device, &FormatOptions::default(), &Silent)?;
//!
//! // Open it, write and sync.
//! let volume = Fat::FAT32.open(device.clone(), OpenOptions::default())?;
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
//! assert!(Fat::FAT32.check(&*device, CheckOptions::default(), &Silent)?.is_clean());
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod backup;
mod chains;
mod check;
mod directory;
mod fat;
mod format;
#[doc(hidden)]
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod layout;
mod recover;
mod search;
mod starts;
mod taken;
mod volume;

pub use fat::Fat;
pub use volume::FatVolume;
