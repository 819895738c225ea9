//! All metadata of an open volume, under one lock.
//!
//! The bytes that were read or changed are kept as *images* of records, index blocks and pages of other values. An
//! operation changes images, and all that it changed is put back if it fails half-way ([`Core::transact`]). A commit
//! takes every image that changed since the last one ([`Core::gather`]); from then on these are *pending*: in the log,
//! and not yet in their places. The records of a file are made from its attributes only by the commit, however often
//! the file changed before.

mod encode;
mod files;
mod gather;
mod images;
mod records;
mod runs;
mod spread;
mod store;
mod transaction;
mod values;

pub(crate) use gather::Batch;
pub(crate) use runs::{data_runs, read_pieces};

use crate::bits::Bits;
use crate::file::File;
use crate::hash::Numbers;
use crate::layout::Index;
use crate::layout::{Geometry, Kind, Run, record_number};
use crate::nodes::Nodes;
use crate::space::{Clusters, Space};
use platter_device::Device;
use platter_vfs::{Health, Listings, Result};
use smallvec::SmallVec;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// Bytes of a page, in which values other than records and index blocks are kept and logged.
pub(crate) const PAGE: u64 = 4096;
/// Numbers from here on are those of files in memory that nothing on disk leads to.
pub(crate) const DETACHED: u64 = 1 << 47;

// A number in memory is in the 48 bits of a record number, and no record has it.
const _: () = assert!(DETACHED < 1 << 48 && DETACHED > u32::MAX as u64);

/// The most bytes of images in memory before unchanged ones are dropped. The limit is not a number of images, since an
/// index block can be as large as 4 records, or as 64.
const MOST_IMAGES: usize = 48 << 20;
/// The most files in memory before some that can be read again are dropped.
const MOST_FILES: usize = 24 << 10;
/// Most bytes that are read at once where records are read one after the other.
const READ_AHEAD: u64 = 32 << 10;

// What is read ahead is dropped before it fills the memory for images.
const _: () = assert!(READ_AHEAD < MOST_IMAGES as u64);

/// Bytes that a change takes in the log besides its data, at most: the headers of its log record, and the numbers of
/// the clusters that it touches.
const OVERHEAD: u64 = 0x30 + 0x20 + 8 * (PAGE / 512 + 1);
/// Bytes of the log that naming an attribute takes, at most.
const NAMING: u64 = 192;
/// Bytes of the log, headers included, that a record takes which was given up and emptied, at most.
const FREED: u64 = 0x30 + 0x20 + 8 * 2 + 72;

// The headers of a record that was emptied are those of any change.
const _: () = assert!(OVERHEAD > 0x50 && FREED > 0x50);

/// Names the structure that an image is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Key {
    /// A record, by its number.
    Record(u64),
    /// A block of a file's index, by its offset in bytes.
    Block(u64, Index, u64),
    /// A page of another attribute, by the file, type, name and offset in bytes.
    Value(u64, Kind, &'static str, u64),
}

impl Key {
    /// A number by which [`Core::make_room`] chooses images; other keys may have the same.
    fn number(&self) -> u64 {
        match self {
            Key::Record(number) => *number,
            Key::Block(file, _, at) | Key::Value(file, _, _, at) => file ^ at >> 9,
        }
    }
}

/// The current bytes of the structure that a key names.
#[derive(Clone, Debug)]
struct Image {
    /// The bytes, without update sequence.
    bytes: Arc<Vec<u8>>,
    /// Bytes that the image takes in the log, at most; 0 if it did not change since the last commit.
    cost: u32,
}

impl Image {
    fn is_dirty(&self) -> bool {
        self.cost > 0
    }
}

/// Pieces of the device in order: offset and length in bytes.
pub(crate) type Segments = SmallVec<[(u64, u64); 1]>;

/// A committed image that is not yet in its place.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    /// The bytes, without update sequence.
    pub bytes: Arc<Vec<u8>>,
    /// The pieces of the device where the bytes belong.
    pub places: Segments,
}

enum Undo {
    Image(Key, Option<Image>),
    /// A change in an index block: the offset among its entries, the bytes that were there, the length of those that
    /// are there now, and the block's cost before.
    Entries(Key, usize, Box<[u8]>, usize, u32),
    File(u64, Option<Arc<File>>),
    Take(Clusters, bool),
    Give(Clusters, bool),
    RecordBit(u64, bool),
    Records(u64),
    Dropped,
    Hide(Clusters),
}

/// The metadata of an open volume.
pub(crate) struct Core {
    /// The device.
    pub device: Arc<dyn Device>,
    /// Sizes and places of the volume's structures.
    pub geometry: Geometry,
    /// The upper case of every UTF-16 unit.
    pub upcase: Arc<[u16]>,
    /// Free clusters.
    pub space: Space,
    /// Nodes in use.
    pub nodes: Nodes,
    /// Listings under way.
    pub listings: Listings,
    /// Whether changes are accepted.
    pub health: Arc<Health>,
    images: HashMap<Key, Image, Numbers>,
    /// The length of all images in bytes. Bytes by which an image grew after it was added may be missing.
    image_bytes: usize,
    /// The keys of images that changed since the last commit. Some may be there twice, or their images be gone again.
    dirty: Vec<Key>,
    /// Bytes that the dirty images take in the log, at most.
    dirt: u64,
    /// How many dirty images are not records: for each of these the log may have to name an attribute.
    others: usize,
    /// Bytes of the log that one commit may take: its room, less some for changes that a commit itself adds.
    pub most_in_group: u64,
    /// Committed images that are not yet in their places.
    pub pending: HashMap<Key, Pending, Numbers>,
    /// The keys of structures of removed files: to be dropped from `pending` by the commit of the removal.
    dropped: Vec<Key>,
    files: HashMap<u64, Arc<File>, Numbers>,
    /// The number of the next commit.
    commit: u64,
    /// Files that changed since their records were last made.
    stale: HashSet<u64, Numbers>,
    /// The number of the record after those read last, and how many bytes were read then.
    ahead: (u64, u64),
    /// How often [`Core::make_room`] was called.
    rounds: u64,
    mft: Vec<Run>,
    records: Bits,
    records_changed: BTreeSet<u64>,
    next_record: u64,
    /// Free records that only `$MFT` itself gets.
    kept_for_mft: BTreeSet<u64>,
    next_detached: u64,
    undo: Vec<Undo>,
    depth: usize,
    /// How many images were made as a whole so far, for tests.
    #[cfg(test)]
    pub made: u64,
    /// The next identifier of a descriptor and the next place in `$SDS`, once they are known.
    pub security: Option<crate::secure::Secure>,
    /// Identifiers of descriptors that were found in `$Secure`.
    pub descriptors: BTreeSet<u32>,
    /// The number of the file `$Reparse` in `$Extend`, if there is one, whose index is kept up to date.
    pub reparse_index: Option<u64>,
    /// The number of the file `$ObjId` in `$Extend`, if there is one, whose index is kept up to date.
    pub object_ids: Option<u64>,
    /// Whether there is a change journal.
    pub has_journal: bool,
    /// The number of the journal's file, until the first commit of this session has stamped it.
    pub journal: Option<u64>,
    /// The number of `$Quota`, if bytes are counted there, until the first commit of this session has marked them as out
    /// of date.
    pub quota: Option<u64>,
}

impl Core {
    /// The metadata of a volume whose `$MFT` has these runs; the bitmaps are read later.
    pub(crate) fn new(device: Arc<dyn Device>, geometry: Geometry, mft: Vec<Run>) -> Core {
        Core {
            device,
            geometry,
            upcase: Arc::new([]),
            space: Space::default(),
            nodes: Nodes::default(),
            listings: Listings::default(),
            health: Arc::default(),
            images: HashMap::default(),
            image_bytes: 0,
            dirty: Vec::new(),
            dirt: 0,
            others: 0,
            most_in_group: u64::MAX,
            ahead: (0, 0),
            rounds: 0,
            pending: HashMap::default(),
            dropped: Vec::new(),
            files: HashMap::default(),
            commit: 1,
            stale: HashSet::default(),
            mft,
            records: Bits::default(),
            records_changed: BTreeSet::new(),
            next_record: record_number::FIRST_FREE,
            kept_for_mft: BTreeSet::new(),
            next_detached: DETACHED,
            undo: Vec::new(),
            depth: 0,
            #[cfg(test)]
            made: 0,
            security: None,
            descriptors: BTreeSet::new(),
            reparse_index: None,
            object_ids: None,
            has_journal: false,
            journal: None,
            quota: None,
        }
    }

    /// Refuses a change of a volume that is only read.
    pub(crate) fn writable(&self) -> Result<()> {
        self.health.writable()
    }
}
