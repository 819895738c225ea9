//! The open volume: [`FileSystem`] over the core and its streams.
//!
//! # Locks
//! The core's lock protects all metadata. Each stream has a lock of its own, which is the only one that reading, and
//! writing in place, takes. A thread that needs both takes the core's first. A commit holds the core's lock only while
//! it gathers what to write; while it writes, it holds only the leadership of the commit. An operation that needs a
//! part of a stream to itself claims that part before it takes a lock ([`platter_vfs::RangeLock`]): writing part of a
//! sector, changing the size, holes or integrity, and sharing clusters with other streams.
//!
//! # What a power cut leaves
//! A power cut leaves the last checkpoint that was written whole. Nothing to which it refers is overwritten, except the
//! data of files without integrity; so the volume needs no repair, whenever the power fails.

mod cleaner;
mod contract;
mod data;
mod keeper;
mod listing;
mod moving;
mod names;
mod reading;
mod scrubbing;
mod sharing;
mod size;
mod slowly;
pub(crate) mod streams;
mod syncing;
mod taking;
mod writing;

use crate::attributes;
use crate::core::{Core, Entity, Id, RecordPlace};
use crate::format::file_time;
use crate::geometry::Geometry;
use crate::layout::record::key;
use crate::layout::{BootRecord, PageReference, Record, ShortEntry};
use crate::open::{self, Notes};
use crate::stream::{LARGEST, Stream, StreamState};
use crate::system;
use keeper::Keeper;
use platter_device::sync::{Condvar, FILE, METADATA, Mutex, MutexGuard, RwLock, RwLockWriteGuard};
use platter_device::{Buffer, Device, Gather, Queue};
use platter_vfs::{
    Access, Attributes, Capabilities, Change, Claim, Commits, Cursor, DosFlags, Entry, Error, Extent,
    FileSystem, GroupCommit, Health, Integrity, Kind, Name, NameRules, Need, NewEntry, Node, NodeStream,
    OpenOptions, Pass, Plan, Progress, RenameFlags, Reparse, Result, ScrubOptions, ScrubReport, Silent,
    Space, SyncNeed, SyncScope, Timestamp, VolumeInfo,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

#[cfg(test)]
pub(crate) use syncing::MOST_CHANGED;

/// An open ReFS volume.
pub struct RefsVolume {
    volume: Arc<Volume>,
}

/// The part of a volume that the callers' threads share with the background thread.
pub struct Volume {
    device: Arc<dyn Device>,
    geometry: Geometry,
    map: crate::geometry::ContainerMap,
    boot: BootRecord,
    core: Mutex<Core, METADATA>,
    /// The group commit, whose leader makes changes durable, with a buffer for it.
    group: GroupCommit<Buffer>,
    commits: Commits,
    /// Notified when a planned sync ends.
    sync_ended: Condvar,
    /// The streams of nodes in use, by node, for reading and writing. Ordered, so that a commit goes through them in
    /// the same order each time.
    streams: RwLock<BTreeMap<u64, Arc<Stream>>>,
    /// Whether a caller that waits for a sync wants the times of files durable too.
    wants_times: AtomicBool,
    /// The nodes of files that are being converted to or from integrity, and the notification that one no longer is.
    converting: Mutex<BTreeSet<u64>>,
    converted: Condvar,
    /// The nodes of streams written in place since the last commit.
    touched: Mutex<Vec<u64>>,
    capabilities: Capabilities,
    notes: Vec<String>,
    /// A number for each opening, by which memory that plans keep of one volume is told from that of another.
    id: u64,
    /// Whether the volume was opened to be written.
    is_written: bool,
    /// Whether the volume accepts changes.
    health: Arc<Health>,
    /// The number of clusters that were read from another copy of the device, and repaired.
    healed: AtomicU64,
    keeper: Keeper,
}

impl Deref for RefsVolume {
    type Target = Volume;

    fn deref(&self) -> &Volume {
        &self.volume
    }
}

impl Drop for RefsVolume {
    /// Stops the background thread: nothing is written any more once this returns.
    fn drop(&mut self) {
        self.volume.keeper.stop();
    }
}

/// A stream that the caller has to itself: the claim, and the locks of the metadata and of the stream.
type Alone<'a> = (Claim<'a>, MutexGuard<'a, Core, METADATA>, RwLockWriteGuard<'a, StreamState, FILE>);

/// The number for the next volume that is opened in this process.
static OPENED: AtomicU64 = AtomicU64::new(1);

impl RefsVolume {
    /// Opens the volume on a device.
    pub fn open(device: Arc<dyn Device>, options: OpenOptions) -> Result<RefsVolume> {
        let mut notes = Notes::default();
        let anchors = open::anchors(&*device, &mut notes)?;
        let mut core = open::core(&device, &anchors, &mut notes, !options.read_only)?;
        let version = anchors.geometry.version;
        if options.read_only {
            core.health.close(Health::OPENED_SO);
        } else if let Some(why) = device.why_read_only() {
            core.health.close(why);
        } else if !version.is_written() {
            core.health.close(format!("version {version} is only read"));
        } else if anchors.geometry.reference < PageReference::compact(anchors.geometry.algorithm) {
            let name = anchors.geometry.algorithm.name();
            core.health.close(format!("its checkpoint has no room for {name} checksums; see check"));
        } else if let Some(what) = core.checkpoint.unknown() {
            core.health.close(format!("its layout is only read: {what}"));
        } else if core.pages.map.has_compressed() {
            core.health.close("some of its containers are compressed, which is only read");
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
        let precision = Some(Duration::from_nanos(100));
        let hard_links = anchors.geometry.version.has_hard_links();
        let shared_clusters = anchors.geometry.version.has_shared_clusters();
        let volume = Arc::new_cyclic(|volume| Volume {
            keeper: Keeper::new(volume.clone(), core.pages.space.free(), anchors.geometry.cluster),
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
            capabilities: Capabilities {
                largest_file: LARGEST,
                names: NAMES,
                modified_precision: Duration::from_nanos(100),
                created_precision: precision,
                accessed_precision: precision,
                hard_links,
                symbolic_links: true,
                streams: true,
                extended_attributes: true,
                sparse: true,
                preallocate: true,
                integrity: true,
                clone: shared_clusters,
                exchange: true,
                recovers: true,
            },
            notes: notes.0,
            id: OPENED.fetch_add(1, Ordering::Relaxed),
            healed: AtomicU64::new(0),
            device,
        });
        Ok(RefsVolume { volume })
    }

    /// How many nodes are in use.
    #[cfg(test)]
    pub(crate) fn nodes_in_use(&self) -> usize {
        self.core().in_use()
    }

    /// Damage that was found on opening and replaced by a copy.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The number of clusters and metadata pages that were read from another copy of the device, and repaired.
    pub fn healed(&self) -> u64 {
        self.healed.load(Ordering::Relaxed) + self.core().pages.healed()
    }
}

impl Volume {
    pub(crate) fn core(&self) -> MutexGuard<'_, Core, METADATA> {
        self.core.lock()
    }

    /// Locks the core for a change that does not add to the volume.
    fn change(&self) -> Result<MutexGuard<'_, Core, METADATA>> {
        self.change_with(TO_CHANGE)
    }

    /// Locks the core for a change that may add to the volume.
    fn grow(&self) -> Result<MutexGuard<'_, Core, METADATA>> {
        self.change_with(TO_ADD)
    }

    /// Locks the core for a change that takes up to `room` pages besides those that the next commit takes for earlier
    /// changes. If so many are not free, a commit comes first where it may free some.
    fn change_with(&self, room: u64) -> Result<MutexGuard<'_, Core, METADATA>> {
        let core = self.core();
        core.writable()?;
        if core.spares(room) {
            return Ok(core);
        }
        drop(core);
        if self.is_waiting() {
            self.commit()?;
        }
        let core = self.core();
        core.writable()?;
        if core.spares(room) { Ok(core) } else { Err(Error::NoSpace) }
    }

    /// Like [`Volume::change_with`], with the whole stream claimed and locked for the caller.
    fn change_alone<'a>(&'a self, stream: &'a Stream, room: u64) -> Result<Alone<'a>> {
        let claim = stream.claim_all();
        let core = self.change_with(room)?;
        Ok((claim, core, stream.write()))
    }

    /// Makes a change of several rows, which takes up to `room` pages. If it fails after some rows were changed,
    /// nothing more is written to the volume.
    fn as_one<T>(&self, room: u64, change: impl FnOnce(&mut Core) -> Result<T>) -> Result<T> {
        let mut core = self.change_with(room)?;
        let before = core.pages.edits;
        let changed = change(&mut core);
        core.pages.is_broken |= changed.is_err() && core.pages.edits != before;
        changed
    }

    fn now(&self) -> u64 {
        file_time(self.device.now())
    }

    /// Runs an operation that takes clusters, and sets its argument to the number that it lacks, if known. If there is
    /// no room, and a commit may free enough clusters, commits and runs the operation once more.
    fn with_space<T>(&self, mut operation: impl FnMut(&mut u64) -> Result<T>) -> Result<T> {
        let mut lacks = 0;
        match operation(&mut lacks) {
            Err(Error::NoSpace) if self.is_worth(lacks) => {
                self.commit()?;
                operation(&mut lacks)
            }
            outcome => outcome,
        }
    }

    /// Whether a commit may free as many clusters for data as are lacking or, with 0, room for pages. Otherwise each
    /// write that a full volume refuses would cause a commit.
    fn is_worth(&self, lacks: u64) -> bool {
        self.is_waiting() && (lacks == 0 || self.core().pages.space.parked() >= lacks)
    }

    /// Whether a commit may free room, for data or for pages.
    fn is_waiting(&self) -> bool {
        let core = self.core();
        core.news || core.has_written || core.pages.space.parked() > 0
    }

    /// Returns a node to a caller, and counts the reference to it.
    fn hand_out(&self, core: &mut Core, node: u64) -> Result<Node> {
        let entity = core.entity_held(node)?;
        entity.handed_out += 1;
        let mut streams = self.streams.write();
        if let Some(stream) = &entity.stream {
            stream.is_listed.store(true, Ordering::Relaxed);
            streams.insert(node, stream.clone());
        }
        Ok(Node(node))
    }

    /// The attributes of a node in use. A named stream has those of the node it belongs to, except for its size.
    fn attributes_of(&self, core: &Core, entity: &Entity) -> Attributes {
        let owner = match entity.place {
            RecordPlace::Part { of } => core.entity(of).unwrap_or(entity),
            _ => entity,
        };
        let kind = entity.kind();
        let mut times = owner.record.times;
        let (mut size, mut allocated) = (0, 0);
        let mut flags = owner.record.attributes;
        if kind == Kind::SymbolicLink {
            size = attributes::link_target(&entity.record).map_or(0, |target| target.len() as u64);
        }
        if let (Some(stream), Kind::File) = (&entity.stream, kind) {
            let state = stream.read();
            size = state.size;
            allocated = state.allocated(&self.geometry);
        }
        if let Some(written) = owner.written().max(entity.written()) {
            times[1] = written;
            times[2] = times[2].max(written);
            flags |= 0x20;
        }
        let links = match (kind, &owner.place) {
            (_, RecordPlace::Nowhere) => 0,
            (Kind::Directory, _) => 1,
            _ => owner.record.links,
        };
        attributes_with(kind, size, allocated, flags, times, links)
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

/// The pages that must be free for a change of some rows: the path from root to leaf in each of four trees.
const TO_CHANGE: u64 = 48;
/// The pages that must be free for exchanging two entries, which is three moves.
const TO_EXCHANGE: u64 = 3 * TO_CHANGE;
/// The pages that must be free for a change that adds to the volume, so that on a full one pages are left for removing.
const TO_ADD: u64 = 4 * TO_CHANGE;

/// The rules for names on ReFS.
const NAMES: NameRules = NameRules::WINDOWS;

/// Makes the attributes of a node from the fields of its record or short entry.
fn attributes_with(
    kind: Kind,
    size: u64,
    allocated: u64,
    flags: u32,
    times: [u64; 4],
    links: u32,
) -> Attributes {
    Attributes {
        kind,
        size,
        allocated,
        links,
        flags: DosFlags(flags & DosFlags::SETTABLE.0),
        created: Some(Timestamp::from_file_time(times[0])),
        modified: Timestamp::from_file_time(times[1]),
        accessed: Some(Timestamp::from_file_time(times[3])),
        changed: Some(Timestamp::from_file_time(times[2])),
    }
}

/// The end of the year 9999, the latest time that is stored, in units of 100 ns since 1601.
const LATEST: u64 = (253_402_300_799 + 11_644_473_600) * 10_000_000 + 9_999_999;

/// The row of an entry of a directory.
enum ListedRow {
    /// A file whose record is the row.
    Long(Box<Record>),
    /// A directory, or a file whose record is elsewhere.
    Short(ShortEntry),
}

impl ListedRow {
    fn from_bytes(row_key: &[u8], value: &[u8]) -> Result<ListedRow> {
        match crate::layout::bytes::u16_at(row_key, 2) {
            key::LONG => Ok(ListedRow::Long(Box::new(Record::from_bytes(value, 0)?))),
            _ => Ok(ListedRow::Short(ShortEntry::from_bytes(value, 0)?)),
        }
    }

    fn id(&self, directory: u64) -> Id {
        match self {
            ListedRow::Long(record) => Id::File(directory, record.ordinal),
            ListedRow::Short(short) if short.is_directory() => Id::Directory(short.object),
            ListedRow::Short(short) => Id::File(short.object, short.ordinal),
        }
    }
}
