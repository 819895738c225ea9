//! Opening a volume: what the anchors say, what was synced last, and why it may only be read.

use super::keeper::Keeper;
use super::{NAMES, OPENED, RefsVolume, Volume, background};
use crate::core::Core;
use crate::layout::{PageReference, Version, system};
use crate::open::{self, Notes};
use crate::stream::LARGEST;
use platter_device::sync::{Condvar, Mutex, RwLock};
use platter_device::{Buffer, Device};
use platter_vfs::{Capabilities, Commits, Error, GroupCommit, Health, OpenOptions, Result};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

impl RefsVolume {
    /// Opens the volume on a device.
    pub fn open(device: Arc<dyn Device>, options: OpenOptions) -> Result<RefsVolume> {
        let mut notes = Notes::default();
        let anchors = open::anchors(&*device, &mut notes)?;
        let mut core = open::core(&device, &anchors, &mut notes, !options.read_only)?;
        let version = anchors.geometry.version;
        if let Some(why) = obstacle(&core, &*device, options.read_only) {
            core.health.close(why);
        }
        core.security = system::security_id(&system::file_descriptor());
        if core.health.writable().is_ok()
            && let Some(reason) = only_read(&mut core)?
        {
            core.health.close(reason);
        }
        core.health.settle(&*device);
        match core.replay(&*device) {
            Ok(told) => notes.0.extend(told),
            Err(error @ (Error::Damaged(_) | Error::Device(_) | Error::NotFound)) => {
                let reason = format!("what was synced last cannot be carried out again ({error}); see check");
                if !core.health.close(reason.clone()) {
                    notes.0.push(reason);
                }
            }
            Err(error) => return Err(error),
        }
        if options.commits_syncs && core.health.writable().is_ok() {
            core.refuse_log()?;
        }
        let volume = Arc::new_cyclic(|volume| Volume {
            keeper: keeper(volume.clone(), core.pages.space.free(), anchors.geometry.cluster),
            geometry: anchors.geometry,
            map: core.pages.map.clone(),
            is_written: core.health.writable().is_ok(),
            health: core.health.clone(),
            boot: anchors.boot,
            core: Mutex::new(core),
            group: GroupCommit::new(Buffer::new(0)),
            commits: Commits::default(),
            sync_ended: Condvar::new(),
            wants_times: AtomicBool::new(false),
            streams: RwLock::default(),
            touched: Mutex::default(),
            converting: Mutex::default(),
            converted: Condvar::new(),
            capabilities: capabilities(version),
            notes: notes.0,
            id: OPENED.fetch_add(1, Ordering::Relaxed),
            healed: AtomicU64::new(0),
            device,
        });
        Ok(RefsVolume { volume })
    }
}

/// What a volume of this version can do.
fn capabilities(version: Version) -> Capabilities {
    let precision = Duration::from_nanos(100);
    Capabilities {
        largest_file: LARGEST,
        names: NAMES,
        modified_precision: precision,
        created_precision: Some(precision),
        accessed_precision: Some(precision),
        hard_links: version.has_hard_links(),
        symbolic_links: true,
        streams: true,
        extended_attributes: true,
        sparse: true,
        preallocate: true,
        integrity: true,
        clone: version.has_shared_clusters(),
        exchange: true,
        recovers: true,
    }
}

/// The reason why a volume is only read that shows before anything else of it is read, if there is one.
fn obstacle(core: &Core, device: &dyn Device, is_opened_so: bool) -> Option<String> {
    let geometry = core.geometry();
    let (version, algorithm) = (geometry.version, geometry.algorithm);
    if is_opened_so {
        Some(Health::OPENED_SO.into())
    } else if let Some(why) = device.why_read_only() {
        Some(why)
    } else if !version.is_written() {
        Some(format!("version {version} is only read"))
    } else if geometry.reference < PageReference::compact(algorithm) {
        Some(format!("its checkpoint has no room for {} checksums; see check", algorithm.name()))
    } else if let Some(what) = core.checkpoint.unknown() {
        Some(format!("its layout is only read: {what}"))
    } else if core.pages.map.has_compressed() {
        Some("some of its containers are compressed, which is only read".into())
    } else {
        None
    }
}

/// The reason why a volume that was to be written is only read, if so.
fn only_read(core: &mut Core) -> Result<Option<String>> {
    let damaged = |error| match error {
        Error::Damaged(_) | Error::Device(_) => {
            Ok(Some(format!("what a write needs is damaged ({error}); see check")))
        }
        error => Err(error),
    };
    match core.open_shares() {
        Ok(None) => {}
        Ok(reason) => return Ok(reason),
        Err(error) => return damaged(error),
    }
    match core.provide_security(&system::file_descriptor()) {
        Ok(id) => core.security = id,
        Err(error) => return damaged(error),
    }
    Ok(None)
}

impl Drop for RefsVolume {
    /// Stops the background thread: nothing is written any more once this returns.
    fn drop(&mut self) {
        self.volume.keeper.stop();
    }
}

/// The keeper of a volume with `free` free clusters of `cluster` bytes.
fn keeper(volume: Weak<Volume>, free: u64, cluster: u32) -> Keeper {
    Keeper::new(Arc::new(move |orders| background::work(orders, &volume)), free, cluster)
}
