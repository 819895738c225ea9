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

mod ahead;
mod around;
mod background;
mod changing;
mod cleaner;
mod contract;
mod data;
mod keeper;
mod listing;
mod moving;
mod names;
mod opening;
mod pieces;
mod placing;
mod prereads;
mod reading;
mod rows;
mod scrubbing;
mod sharing;
mod size;
mod slowly;
mod stamps;
pub(crate) mod streams;
mod syncing;
mod taking;
mod writing;

use crate::attributes;
use crate::core::{Core, Entity, Id, RecordPlace};
use crate::format::file_time;
use crate::geometry::Geometry;
use crate::layout::record::key;
use crate::layout::{BootRecord, Record, ShortEntry};
use crate::stream::Stream;
use keeper::Keeper;
use platter_device::sync::{Condvar, METADATA, Mutex, MutexGuard, RwLock};
use platter_device::{Buffer, Device};
use platter_vfs::{
    Attributes, Capabilities, Commits, DosFlags, GroupCommit, Health, Kind, NameRules, Node, Result,
    Timestamp,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

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

/// The number for the next volume that is opened in this process.
static OPENED: AtomicU64 = AtomicU64::new(1);

impl RefsVolume {
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

    fn now(&self) -> u64 {
        file_time(self.device.now())
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
        match key::form(row_key) {
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

impl Volume {
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
}
