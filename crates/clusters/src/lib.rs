//! The common part of FAT and exFAT, which keep files in clusters and names in directories of 32-byte slots.
//!
//! * [`Volume`] is the open volume: nodes, the data path, commits and their order, and what a power cut leaves. A
//!   format is a [`Family`]: its directory entries, and how its clusters are allocated and linked.
//! * [`Runs`], [`FreeSpace`], [`Table`], [`Slots`], [`Heap`] and [`DosTime`] are the data structures below it, each
//!   usable by itself.
//! * [`Bits`], [`Disk`], [`claim_chain`] and [`Findings`] serve the checks; [`recover`] reads what is left of a damaged
//!   volume.
//!
//! # Example
//!
//! The run list of a file, looked up by the index of a cluster in the file:
//!
//! ```
//! use platter_clusters::Runs;
//!
//! let mut runs = Runs::default();
//! runs.push(100, 8); // 8 clusters from cluster 100 on
//! runs.push(108, 2); // joins them
//! runs.push(50, 4);
//! assert_eq!((runs.clusters(), runs.first(), runs.last()), (14, 100, Some(53)));
//! assert_eq!(runs.at(9), Some((109, 1))); // the tenth, and how many follow it in its run
//! ```
#![forbid(unsafe_code)]

mod bits;
mod blank;
mod chain;
mod core;
mod disk;
mod file;
mod findings;
mod gaps;
mod heap;
mod images;
#[cfg(feature = "local-time")]
mod local_time;
mod misplaced;
mod path;
mod recover;
mod runs;
mod sectors;
mod slots;
mod space;
mod table;
#[cfg(feature = "local-time")]
mod time;
mod volume;

pub use bits::Bits;
pub use blank::{clear, overwrite, serial_from};
pub use chain::{Claims, Stop, claim_chain};
pub use core::{ContentRuns, Core, Directory, DirectoryEntry, Entity, Family, ROOT, capabilities};
pub use disk::{Disk, each_sector, first_sector};
pub use file::FileState;
pub use findings::{Findings, MOST_CHANGES, SharedFinding};
pub use heap::Heap;
pub use images::{Images, join};
#[cfg(feature = "local-time")]
pub use local_time::{ahead_at, ahead_of};
pub use misplaced::{Fit, PIECE_SLOTS, Piece, likeness};
pub use path::{is_found, is_inside, path_of};
pub use recover::{Remains, Remnant, recover};
pub use runs::{Run, Runs};
pub use sectors::{SmallSectors, in_sectors_of};
pub use slots::{DirectoryImages, SLOT, SlotRules, Slots, Storage};
pub use space::FreeSpace;
pub use table::{Entries, Link, TABLE_CACHE, Table, TablePlace};
#[cfg(feature = "local-time")]
pub use time::{DosTime, Precision};
pub use volume::Volume;
