//! The contract that every Platter file system keeps, and the types that all of them share.
//!
//! A [`FileSystem`] identifies files and directories by [`Node`] number, as FUSE does, and takes `&self` everywhere, so
//! that many threads can work on one volume. Data I/O has two halves: *plan* turns a request into device segments, the
//! code that drives the device carries them out, and *finish* verifies and records the result. [`FileSystem::read`] and
//! [`FileSystem::write`] are the two halves in a row.
//!
//! A [`Format`] makes, recognises, opens and checks volumes of one kind.
//!
//! # Examples
//!
//! Creating and writing by node number, as a mount does:
//!
//! ```
//! use platter_vfs::{FileSystem, Kind, Name, Node, Result, SyncScope};
//!
//! fn write_one(volume: &dyn FileSystem) -> Result<()> {
//!     let directory = volume.create(Node::ROOT, &Name::from("directory"), Kind::Directory)?;
//!     let file = volume.create(directory, &Name::from("file"), Kind::File)?;
//!     volume.write(file, 0, b"content")?;
//!     volume.sync(file, SyncScope::Data)?;
//!     assert_eq!(volume.attributes(file)?.size, 7);
//!     volume.forget(file, 1);
//!     volume.forget(directory, 1);
//!     Ok(())
//! }
//! # let device = std::sync::Arc::new(platter_device::MemoryDevice::new(1 << 20, platter_device::Sectors::SMALL));
//! # write_one(&platter_testing::MemoryFileSystem::new(device, Default::default())).unwrap();
//! ```
//!
//! Reading in two halves, between which the device can carry out many other requests:
//!
//! ```
//! use platter_vfs::{FileSystem, Node, Plan, Result};
//!
//! fn read_some(volume: &dyn FileSystem, file: Node, buffer: &mut [u8]) -> Result<usize> {
//!     let mut plan = Plan::default();
//!     volume.plan_read(file, 0, buffer.len(), &mut plan)?;
//!     let mut done = Ok(());
//!     for segment in &plan.segments {
//!         let part = &mut buffer[segment.at as usize..][..segment.length as usize];
//!         done = done.and(volume.device().read_at(segment.offset, part));
//!     }
//!     volume.finish_read(&mut plan, buffer, done)
//! }
//! # let device = std::sync::Arc::new(platter_device::MemoryDevice::new(1 << 20, platter_device::Sectors::SMALL));
//! # use platter_vfs::Names;
//! # let volume = platter_testing::MemoryFileSystem::new(device, Default::default());
//! # let file = volume.create(Node::ROOT, &"file".into(), platter_vfs::Kind::File).unwrap();
//! # volume.write(file, 0, &[7; 4096]).unwrap();
//! # let mut buffer = vec![0; 4096];
//! # assert_eq!(read_some(&volume, file, &mut buffer).unwrap(), 4096);
//! # assert_eq!(buffer[4095], 7);
//! ```
#![forbid(unsafe_code)]

pub mod blocking;
pub mod bytes;
pub mod calendar;
mod case;
mod check;
mod doubt;
mod errno;
mod error;
mod format;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod group_commit;
mod health;
mod host_names;
mod journal;
mod last_block;
pub mod linux;
mod listing;
mod name;
mod new_entry;
mod plan;
mod range_lock;
mod recover;
pub mod reparse;
mod scrub;
pub mod security;
mod snapshots;
mod system;
mod types;

pub use case::{CaseRun, map_by_runs, windows_upper};
pub use check::{CheckOptions, CheckReport, Finding, Severity};
pub use doubt::is_in_doubt;
pub use errno::Errno;
pub use error::{Damage, Error, NameRule, Result};
pub use format::{Format, FormatOptions, LocalTime, OpenOptions, Recognised};
pub use group_commit::{Commits, GroupCommit, Need, Noted};
pub use health::Health;
pub use host_names::{made_safe, why_host_refuses, why_posix_refuses, why_windows_refuses};
pub use journal::{ChangeJournal, ChangeRecord};
pub use last_block::{BLOCK, block_size, first_in_block};
pub use listing::Listings;
pub use name::{CaseRule, Name, NameRules, upper_case};
pub use new_entry::NewEntry;
pub use plan::{Plan, Preread, SyncNeed};
pub use range_lock::{Access, Claim, Pass, RangeLock, range_of_write};
pub use recover::{RecoverReport, Recovered, RecoveredData, Stretch, Visit};
pub use scrub::{Damaged, ScrubOptions, ScrubReport};
pub use snapshots::find_snapshot;
pub use system::{
    ExtendedAttributes, FileSystem, IntegrityStreams, Names, NumberedNodes, ReparsePoints,
    SecurityDescriptors, Snapshots, Streams, Transfers,
};
pub use types::{
    Attributes, Capabilities, Change, CheckpointId, Cursor, DosFlags, Entry, Extent, Integrity, Kind, Node,
    NodeStream, Place, Progress, RenameFlags, Reparse, Silent, Space, SyncScope, Timestamp, VolumeInfo,
};
