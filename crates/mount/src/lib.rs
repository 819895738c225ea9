//! A volume as a FUSE file system: any program can use it.
//!
//! This crate knows no format. What the kernel asks is answered through the contract of
//! [`FileSystem`](platter_vfs::FileSystem), and the kernel's number of a file is the volume's [`Node`](platter_vfs::Node).
//!
//! * [`Served`] answers, in plain types: one file each for names, listings, attributes, data and extended attributes.
//! * `bridge` is the only part that knows the crate that speaks with `/dev/fuse`.
//! * [`Mounted`] is a session from mounting to unmounting.
//!
//! Many requests are answered at once, each on a thread of its own of a fixed number ([`Options::threads`]); nothing
//! here is locked for all of them.
//!
//! # Example
//!
//! ```no_run
//! use platter_device::{FileDevice, FileOptions};
//! use platter_mount::{Mounted, Options, Served};
//! use platter_vfs::OpenOptions;
//! use std::{path::Path, sync::Arc};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let device = Arc::new(FileDevice::open("disk.img", FileOptions { exclusive: true, ..FileOptions::default() })?);
//! let volume = platter_formats::open(device, OpenOptions::default())?;
//! let options = Options::of(1000, 1000, 0o022); // whose the files are, where the volume does not say
//! let served = Served::new(volume, options, Arc::new(|line| eprintln!("{line}")));
//! Mounted::new(Arc::new(served), Path::new("/mnt/disk"))?.run()?; // until it is unmounted
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod access;
mod attributes;
mod bridge;
mod data;
mod doubt;
mod entries;
mod errors;
mod extended;
mod known;
mod listing;
mod names;
mod options;
mod owners;
mod permissions;
mod served;
mod session;
mod stat;

pub use attributes::{StatChange, VolumeStat};
pub use data::RangeChange;
pub use doubt::{is_in_doubt, refusal};
pub use entries::New;
pub use errors::{Answer, Errno};
pub use extended::SetAttribute;
pub use listing::Listed;
pub use options::{AccessTimes, Options, Streams};
pub use owners::OwnerChange;
pub use served::{Log, Notice, Served};
pub use session::{MountPoint, Mounted, mount_point, mount_points, remount, unmount};
pub use stat::{Special, Stat};
