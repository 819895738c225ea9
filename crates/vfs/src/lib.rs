//! The one contract that every Platter file system keeps, and the words they all share.
//!
//! A [`FileSystem`] answers by [`Node`] number, as FUSE asks, and takes `&self` everywhere, so that many threads can
//! work on one volume. Data I/O has two halves: *plan* turns a request into device segments, whoever drives the device
//! carries them out, and *finish* verifies and records. [`FileSystem::read`] and [`FileSystem::write`] are the two
//! halves in a row.
//!
//! A [`Format`] makes, recognises, opens and checks volumes of one kind. [`MemoryFileSystem`] is the reference that
//! the [`model`] tests compare every format with.
//!
//! # Examples
//!
//! By nodes, as a mount asks:
//!
//! ```
//! use platter_device::{MemoryDevice, Sectors};
//! use platter_vfs::{FileSystem, Kind, MemoryFileSystem, MemoryOptions, Name, Node, SyncScope};
//! use std::sync::Arc;
//!
//! # fn main() -> platter_vfs::Result<()> {
//! let device = Arc::new(MemoryDevice::new(1 << 20, Sectors::SMALL));
//! let volume = MemoryFileSystem::new(device, MemoryOptions::default());
//! let directory = volume.create(Node::ROOT, &Name::from("directory"), Kind::Directory)?;
//! let file = volume.create(directory, &Name::from("file"), Kind::File)?;
//! volume.write(file, 0, b"content")?;
//! volume.sync(file, SyncScope::Data)?;
//! assert_eq!(volume.attributes(file)?.size, 7);
//! volume.forget(file, 1);
//! volume.forget(directory, 1);
//! # Ok(())
//! # }
//! ```
//!
//! With the two halves of a read, between which the device can do many others:
//!
//! ```
//! use platter_device::{Device, MemoryDevice, Sectors};
//! use platter_vfs::{FileSystem, Kind, MemoryFileSystem, MemoryOptions, Name, Node, Plan};
//! use std::sync::Arc;
//!
//! # fn main() -> platter_vfs::Result<()> {
//! # let device = Arc::new(MemoryDevice::new(1 << 20, Sectors::SMALL));
//! # let volume = MemoryFileSystem::new(device, MemoryOptions::default());
//! # let file = volume.create(Node::ROOT, &Name::from("file"), Kind::File)?;
//! # volume.write(file, 0, &[7; 4096])?;
//! let mut plan = Plan::default();
//! volume.plan_read(file, 0, 4096, &mut plan)?;
//! let mut buffer = vec![0; 4096];
//! let mut done = Ok(());
//! for segment in &plan.segments {
//!     let part = &mut buffer[segment.at as usize..][..segment.length as usize];
//!     done = done.and(volume.device().read_at(segment.offset, part));
//! }
//! let got = volume.finish_read(&mut plan, &mut buffer, done)?;
//! assert_eq!((got, buffer[4095]), (4096, 7));
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

pub mod blocking;
pub mod bytes;
mod case;
mod check;
mod error;
mod format;
mod group_commit;
mod health;
pub mod linux;
mod listing;
mod memory;
pub mod model;
mod name;
mod plan;
mod range_lock;
mod recover;
pub mod reparse;
mod scrub;
pub mod security;
mod system;
mod types;

pub use case::{CaseRun, map_by_runs, windows_upper};
pub use check::{CheckOptions, CheckReport, Finding, Severity};
pub use error::{Damage, Errno, Error, NameRule, Result};
pub use format::{Format, FormatOptions, OpenOptions, Recognised};
pub use group_commit::{Commits, GroupCommit, Need, Noted};
pub use health::Health;
pub use listing::Listings;
pub use memory::{MemoryFileSystem, MemoryOptions};
pub use name::{CaseRule, Name, NameRules, upper_case};
pub use plan::{Plan, SyncNeed};
pub use range_lock::{Access, Claim, Pass, RangeLock, range_of_write};
pub use recover::{RecoverReport, Recovered, RecoveredData, Visit};
pub use scrub::{Damaged, ScrubOptions, ScrubReport};
pub use system::FileSystem;
pub use types::{
    Attributes, Capabilities, Change, Cursor, DosFlags, Entry, Extent, Integrity, Kind, Node, NodeStream,
    Place, Progress, RenameFlags, Reparse, Silent, Space, SyncScope, Timestamp, VolumeInfo,
};
