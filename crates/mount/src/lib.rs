//! Mounts a volume as a FUSE file system, so that any program can use it.
//!
//! Nothing here is specific to a format. The kernel's requests are answered through the contract of
//! [`FileSystem`](platter_vfs::FileSystem), and the kernel's inode number of a file is the number of the volume's
//! [`Node`](platter_vfs::Node).
//!
//! * [`Served`] answers requests in plain types, with one module each for names, listings, attributes, data and
//!   extended attributes.
//! * `bridge` translates between [`Served`] and the crate `fuser`, which speaks with `/dev/fuse`.
//! * [`Mounted`] is a mount, from mounting to unmounting.
//!
//! A fixed number of threads ([`Options::threads`]) answers requests at the same time. There is no lock that every
//! request takes.
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
mod acl;
pub mod attribute;
mod attributes;
mod bridge;
mod data;
mod doubt;
mod entries;
mod errors;
mod extended;
mod known;
mod known_streams;
mod links;
mod listing;
mod log;
mod names;
mod options;
mod owners;
mod permissions;
mod scrubbing;
mod served;
mod session;
mod spelling;
mod stat;
mod status;
mod streams;
mod syncs;

pub use attributes::{StatChange, VolumeStat};
pub use data::RangeChange;
pub use doubt::refusal;
pub use entries::{Caller, New, Seen};
pub use errors::{Answer, Errno};
pub use extended::SetAttribute;
pub use listing::Listed;
pub use log::Log;
pub use options::{AccessTimes, Options, Streams, WindowsLinks};
pub use owners::OwnerChange;
pub use scrubbing::{ScrubState, ScrubStep};
pub use served::{Notice, Served};
pub use session::{
    MountPoint, Mounted, Mounts, is_mounted_elsewhere, mount_point, mount_points, remount, unmount,
};
pub use stat::{Special, Stat};
pub use status::Status;
