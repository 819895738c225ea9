//! The open volume: [`FileSystem`] over the core and its streams.
//!
//! # Locks
//! The core's lock covers all metadata. Each stream has a lock of its own, and reading and writing in place take no
//! other. Code that needs both takes the core's first. A commit holds the core's lock only while it gathers the
//! changes, and only the leadership of the commit while it writes them. Operations that write part of a sector, write
//! in several steps, or change the size or the holes claim their part of the stream before they take a lock
//! ([`platter_vfs::RangeLock`]).
//!
//! # What a power cut leaves
//! A commit is one group in the log: the new images of all metadata that changed. The data that this metadata points to
//! is durable before the group. The images are written to their places later, and only then forgotten by the log. So
//! after a power cut the log is replayed, by whichever driver mounts the volume next, and every structure is as after
//! the last whole commit.

mod attributes;
mod change;
mod checkpoint;
mod clusters;
mod commit;
mod compressed;
mod contract;
mod create;
mod extended;
mod extents;
mod forget;
mod info;
mod listing;
mod lookup;
mod names;
mod open_streams;
mod planned;
mod quota;
mod read;
mod remove;
mod rename;
mod reparse;
mod resident;
mod resize;
mod rewrite;
mod security;
mod set_attributes;
mod streams;
mod sync;
mod usn_journal;
mod valid_length;
mod write;
mod writeback;

use crate::core::{Core, Key};
use crate::layout::{BootSector, VolumeInformation, timestamp_to_file_time};
use crate::log::Log;
use crate::open::{self, Opened};
use crate::stream::{LARGEST, Stream};
use platter_device::Device;
use platter_device::sync::{METADATA, Mutex, MutexGuard, RwLock};
use platter_vfs::{Capabilities, CaseRule, Commits, GroupCommit, Health, NameRules, OpenOptions, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The format's name, for error messages.
const NTFS: &str = "NTFS";

/// An open NTFS volume.
pub struct NtfsVolume {
    device: Arc<dyn Device>,
    /// Bytes of the device's logical sector, asked for once: a device may be a stack of several, which pass the
    /// question on.
    sector: u32,
    /// The size in bytes of the blocks that are written whole where a stream ends: see [`platter_vfs::first_in_block`].
    block: u32,
    /// Bytes of a cluster.
    cluster: u64,
    /// The base-2 logarithm of `cluster`.
    shift: u32,
    boot: BootSector,
    information: VolumeInformation,
    was_open: bool,
    shadow_copies: Option<String>,
    core: Mutex<Core, METADATA>,
    /// The group commit, whose leader has the log.
    group: GroupCommit<Turn>,
    commits: Commits,
    /// The streams by node, for the data path.
    streams: RwLock<BTreeMap<u64, Arc<Stream>>>,
    /// Nodes whose times and sizes are to be recorded by the next commit.
    touched: Mutex<BTreeSet<u64>>,
    capabilities: Capabilities,
    /// A number that no other volume of this process has: tells plans of this volume from those of others.
    id: u64,
    /// Whether the volume was opened for writing.
    is_written: bool,
    /// Whether names are found whatever their case. If not, names that differ in case alone may stand side by side.
    ignores_case: bool,
    health: Arc<Health>,
    /// Bytes of groups that the log has room for.
    log_capacity: AtomicU64,
}

/// The `id` of the next volume that is opened in this process.
static OPENED: AtomicU64 = AtomicU64::new(1);

/// The state that belongs to the leader of a commit: the log, and what its groups changed since the last checkpoint.
struct Turn {
    log: Option<Log>,
    is_begun: bool,
    /// The log on disk says that the volume is in use.
    is_live: bool,
    /// The log sequence number of the last group.
    lsn: u64,
    /// The indexes named by the groups since the last checkpoint.
    indexes: BTreeSet<Key>,
}

impl Turn {
    /// Makes the state from a volume's log (`None` if it is not written to); `is_live` says whether the log on disk has
    /// the volume as in use.
    fn new(log: Option<Log>, is_live: bool) -> Turn {
        Turn { log, is_begun: false, is_live, lsn: 0, indexes: BTreeSet::new() }
    }
}

impl NtfsVolume {
    /// Opens the volume on a device. If it was not closed, its log is replayed first.
    ///
    /// # Errors
    /// [`NotThisFormat`](platter_vfs::Error::NotThisFormat) and [`Damaged`](platter_vfs::Error::Damaged) if its first
    /// structures cannot be used. An obstacle to writing only makes the volume read-only.
    pub fn open(device: Arc<dyn Device>, options: OpenOptions) -> Result<NtfsVolume> {
        let Opened { device, boot, mut core, log, was_open, information, shadow_copies } =
            open::open(device, options)?;
        if let Some(log) = &log {
            // An eighth is for the changes that a commit itself adds: sizes and times, and clusters that are given
            // back.
            core.most_in_group = log.most_in_group() / 8 * 7;
        }
        let precision = Some(Duration::from_nanos(100));
        let case = if options.ignores_case { CaseRule::Insensitive } else { CaseRule::Sensitive };
        Ok(NtfsVolume {
            sector: device.sectors().logical,
            block: platter_vfs::block_size(core.geometry.cluster, device.sectors().logical),
            cluster: core.geometry.cluster,
            shift: core.geometry.cluster.trailing_zeros(),
            boot,
            information,
            was_open,
            shadow_copies,
            is_written: core.health.writable().is_ok(),
            health: core.health.clone(),
            log_capacity: AtomicU64::new(log.as_ref().map_or(64 << 20, Log::capacity)),
            core: Mutex::new(core),
            group: GroupCommit::new(Turn::new(log, was_open)),
            commits: Commits::default(),
            streams: RwLock::default(),
            touched: Mutex::default(),
            capabilities: Capabilities {
                largest_file: LARGEST,
                names: NameRules { case, ..NameRules::WINDOWS },
                modified_precision: Duration::from_nanos(100),
                created_precision: precision,
                accessed_precision: precision,
                hard_links: true,
                symbolic_links: true,
                streams: true,
                extended_attributes: true,
                sparse: true,
                preallocate: true,
                integrity: false,
                clone: false,
                exchange: true,
                recovers: true,
            },
            id: OPENED.fetch_add(1, Ordering::Relaxed),
            ignores_case: options.ignores_case,
            device,
        })
    }

    fn core(&self) -> MutexGuard<'_, Core, METADATA> {
        self.core.lock()
    }

    fn now(&self) -> u64 {
        timestamp_to_file_time(self.device.now().into()).0
    }

    /// Notes that a node's times or sizes changed.
    fn touch(&self, node: u64) {
        self.touched.lock().insert(node);
    }

    fn touched(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.touched.lock()
    }
}

#[cfg(test)]
mod tests;
