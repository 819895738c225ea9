//! ReFS 3.4 to 3.15: volumes are opened, read, checked, scrubbed and recovered; those of 3.4 and 3.14 are also made and
//! written, with integrity streams.
//!
//! ReFS is a tree of trees in which no metadata page is ever overwritten. A boot record leads to a superblock, that to
//! two checkpoints, of which the newer one counts, and the checkpoint to thirteen roots; everything else is rows of
//! B+-trees. A change copies the pages that it touches to new places, up to the roots, and is complete when a
//! checkpoint that names the new roots is on disk. So what a power cut leaves needs no repair. Files with *integrity*
//! are never overwritten either, and have a checksum for each cluster.
//!
//! The entry is [`Refs`], which makes, opens, checks, scrubs and recovers volumes; an open one is a [`RefsVolume`].
//! `docs/refs.md` describes what is implemented, what is not yet, and how a volume is written; `docs/refs-format.md`
//! describes the format, with its sources.
//! # The modules, in reading order
//!
//! *What stands on disk*
//! - [`layout`]: one type for each structure: boot record, superblock, checkpoint, pages, nodes, records, rows of
//!   tables. No other module knows where a byte stands. In it `layout::system`: the rows of the tables that every volume
//!   has: schemas, upcase table, security descriptors, and where the log is.
//! - `geometry`: sizes, and how virtual and real cluster numbers relate.
//! - `live_log`: whether the format's log holds changes that the checkpoint does not contain.
//! - `restored`: damaged superblocks and checkpoints, put together from their copies.
//!
//! *In memory*
//! - `space`: which clusters are free, parked or held, by tier and container.
//! - `pages`: metadata pages: read once and verified, changed only as copies, sealed with checksums.
//! - `tree`: B+-trees of such pages.
//! - `extents`: the runs of a stream, in leaves. `stream`: a stream's size, content and lock.
//! - `attributes`: the attributes that are stored outside their record, and which content cannot be read.
//! - `core`: all metadata under one lock: objects, nodes in use, and `gather`, which collects what changed for a
//!   commit.
//! - `batch`: the pages that a commit writes, and how they go to the device.
//! - `sync_log`: syncs that need no commit, and how their entries are carried out after a power cut.
//! - `shares`: clusters that several streams share.
//!
//! *A volume*
//! - `format`: makes a volume. `open`: opens one, falling back on every copy of a damaged structure.
//! - `volume`: the open volume: `names`, `data` (reading and writing content), `streams` (everything else that a record
//!   holds), and the commit.
//! - `refs`: ReFS as a format, under the names `refs` and `refs+integrity`.
//!
//! *Damage*
//! - `check`: a second implementation that rebuilds the truth from the device alone, and its repairs.
//! - `scrub`: verifies everything that has a checksum, on every copy of the device.
//! - `recover`: copies out what is left of a volume that cannot be opened. `seen`: the clusters that recovering and
//!   scrubbing have already gone through.
//!
//! # Example
//!
//! ```
//! use platter_device::{MemoryDevice, Sectors};
//! use platter_refs::Refs;
//! use platter_vfs::{CheckOptions, FormatOptions, Format, Kind, Name, Node, OpenOptions, Silent, SyncScope};
//! use std::sync::Arc;
//!
//! # fn main() -> platter_vfs::Result<()> {
//! // Make a volume; a `FileDevice` is one on an image file or a disk.
//! let device = Arc::new(MemoryDevice::new(384 << 20, Sectors::SMALL));
//! Refs::INTEGRITY.make(&*device, &FormatOptions::default(), &Silent)?;
//!
//! // Open it, write and sync.
//! let volume = Refs::INTEGRITY.open(device.clone(), OpenOptions::default())?;
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
//! assert!(Refs::INTEGRITY.check(&*device, CheckOptions::default(), &Silent)?.is_clean());
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod anchor;
mod attributes;
mod batch;
mod bulk;
mod check;
mod container;
mod core;
mod extents;
mod format;
mod free_counts;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod geometry;
pub mod layout;
mod live_log;
mod memory;

mod open;
mod pages;
mod ranges;
mod recover;
mod reference_counts;
mod refs;
mod restored;
mod salvage;
mod scrub;
mod seen;
mod shares;
mod space;
mod space_rows;
mod stream;
mod sync_log;
#[cfg(test)]
mod tests;
mod tree;
mod versions;
mod volume;

pub use check::{FileRun, walk_runs};
pub use refs::Refs;
pub use volume::RefsVolume;
