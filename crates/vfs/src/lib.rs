//! The one contract that every Platter file system keeps, and the words they all share.
//!
//! A [`FileSystem`] answers by [`Node`] number, as FUSE asks, and takes `&self` everywhere, so that many threads can
//! work on one volume. Data I/O has two halves: *plan* turns a request into device segments, whoever drives the device
//! carries them out, and *finish* verifies and records. [`FileSystem::read`] and [`FileSystem::write`] are the two
//! halves in a row.
//!
//! A [`Format`] makes, recognises, opens and checks volumes of one kind. [`MemoryFileSystem`] is the reference that
//! the [`model`] tests compare every format with.
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
pub use group_commit::{GroupCommit, Need};
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
