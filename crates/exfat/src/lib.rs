//! The exFAT file system: reading, writing, checking and repairing.
//!
//! * [`layout`]: the structures on disk;
//! * [`ExfatVolume`]: an open volume;
//! * [`Exfat`]: recognising, making, opening and checking volumes.
//!
//! # Example
//!
//! ```
//! use platter_device::{MemoryDevice, Sectors};
//! use platter_exfat::Exfat;
//! use platter_vfs::{CheckOptions, FormatOptions, Format, Kind, Name, Node, OpenOptions, Silent, SyncScope};
//! use std::sync::Arc;
//!
//! # fn main() -> platter_vfs::Result<()> {
//! // Make a volume; a `FileDevice` is one on an image file or a disk.
//! let device = Arc::new(MemoryDevice::new(16 << 20, Sectors::SMALL));
//! Exfat.make(&*device, &FormatOptions::default(), &Silent)?;
//!
//! // Open it, write and sync.
//! let volume = Exfat.open(device.clone(), OpenOptions::default())?;
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
//! assert!(Exfat.check(&*device, CheckOptions::default(), &Silent)?.is_clean());
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod bitmap;
mod check;
mod directory;
mod exfat;
mod family;
mod format;
#[doc(hidden)]
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod layout;
mod open;
mod recover;
mod search;
mod taken;
mod volume;

pub use exfat::Exfat;
pub use volume::ExfatVolume;
