//! An open volume of a [`Family`], that is, of FAT or exFAT.
//!
//! # What a power cut leaves
//! Changes of names, sizes and chains are collected in memory. A commit writes them in phases, with a flush between
//! each two that have something to write:
//!
//! 0. data, and the zeroes in clusters by which directories grew, which are written when the change is made;
//! 1. the sectors by which clusters come into use (entries of the table, bits of the bitmap); then, where directories
//!    grew, the links to their new clusters;
//! 2. directory entries that are new or changed, with their sizes and first clusters; a label that is not a directory
//!    entry;
//! 3. the sectors with slots of removed entries erased;
//! 4. the sectors by which clusters go out of use, and the count of free clusters.
//!
//! Before the first phase the volume is marked as in use. So at every moment each name on disk leads to a chain that is
//! complete and holds what was written before. A power cut between phases leaves clusters to which nothing leads, a
//! chain longer than its file, or, in the middle of a rename, both names; `check` repairs all of these. Clusters that
//! were given up are not used again before the commit that gave them up is complete, and slots not before it began, so
//! that nothing to which the disk still refers is overwritten. An entry that replaces one with exactly the same name
//! takes over its slots: one sector changes, and the name exists throughout.
//!
//! The modification times of writes over existing content are kept in memory until the whole file (not only its data)
//! or the volume is synced.
//!
//! # Locks
//! In this order: the leadership of a commit, the core, a file's state. A commit holds the core while it gathers what
//! to write, not while it writes; a planned read or overwrite takes its file's state, shared, and nothing else. A
//! caller that needs a part of a file for itself claims it ([`platter_vfs::RangeLock`]) before it takes a lock.

mod attributes;
mod clusters;
mod commit;
mod contract;
mod create;
mod extend;
mod extents;
mod forget;
mod info;
mod lookup;
mod names;
mod open_files;
mod partial;
mod planned;
mod read;
mod remove;
mod rename;
mod resize;
mod set_attributes;
mod sync;
mod valid_length;
mod write;

use crate::core::Core;
use crate::file::Files;
use crate::{Family, Heap};
use platter_device::Device;
use platter_device::sync::{METADATA, Mutex, MutexGuard};
use platter_vfs::{Capabilities, GroupCommit, Health, OpenOptions, Result, Timestamp, block_size};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The most zeroes that are written at once, in bytes.
const ZEROES: usize = 1 << 20;

// Transfers are whole sectors, of which none is larger than 4096 bytes.
const _: () = assert!(ZEROES.is_multiple_of(4096));

/// An open volume; the module describes its guarantees.
pub struct Volume<F: Family> {
    /// A number that tells this volume's plans from those of other volumes.
    id: u64,
    device: Arc<dyn Device>,
    heap: Heap,
    /// The device's logical sector in bytes. Kept here because asking the device may pass through several wrapped
    /// devices.
    sector: u32,
    /// The size in bytes of the blocks that are written whole where a file ends: see [`first_in_block`].
    block: u32,
    name: &'static str,
    capabilities: Capabilities,
    core: Mutex<Core<F>, METADATA>,
    files: Arc<Files>,
    /// The group commit, which decides which caller commits.
    group: GroupCommit<()>,
    /// The number of the last change that is durable.
    committed: AtomicU64,
    health: Arc<Health>,
}

impl<F: Family> Volume<F> {
    /// Opens a volume.
    ///
    /// # Errors
    /// [`NotThisFormat`](platter_vfs::Error::NotThisFormat) and [`Damaged`](platter_vfs::Error::Damaged) if the first
    /// structures are not valid, and the errors of the device.
    pub fn open(device: Arc<dyn Device>, options: OpenOptions) -> Result<Volume<F>> {
        let read_only = options.read_only || device.why_read_only().is_some();
        let mut core = F::open(device, read_only)?;
        core.local = options.local_time;
        if core.device.end() == core.device.len() && options.read_only {
            core.health.close(Health::OPENED_SO);
        } else if let Some(why) = core.device.why_read_only() {
            core.health.close(why);
        }
        core.health.settle(&*core.device);
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Ok(Volume {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            name: core.family.name(),
            capabilities: core.family.capabilities(),
            health: core.health.clone(),
            files: core.files.clone(),
            sector: core.device.sectors().logical,
            block: block_size(core.heap.cluster_size(), core.device.sectors().logical),
            device: core.device.clone(),
            heap: core.heap,
            core: Mutex::new(core),
            group: GroupCommit::default(),
            committed: AtomicU64::new(0),
        })
    }

    fn core(&self) -> MutexGuard<'_, Core<F>, METADATA> {
        self.core.lock()
    }

    fn now(&self) -> Timestamp {
        self.device.now().into()
    }
}
