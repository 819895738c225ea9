//! A volume's metadata in memory: the roots, the trees of its objects, and the nodes in use. Everything here happens
//! under one lock; file data does not pass through it.
//!
//! Rows of trees are changed at once, in memory. What is known of a node in use (times, sizes, extents) stays with the
//! node, and goes to its row when a commit *gathers*.

mod changed;
mod clusters;
mod commit;
mod nodes;
mod objects;
mod room;
mod syncing;

pub use room::Held;
pub use syncing::SyncEntry;

use self::changed::Changed;
use crate::attributes;
use crate::batch::Batch;
use crate::bulk::Bulk;
use crate::container::Tier;
use crate::geometry::Geometry;
use crate::layout::bytes::put;
use crate::layout::record::key;
use crate::layout::{Checkpoint, ObjectRow, Record, Root, ShortEntry, Superblock};
use crate::pages::Pages;
use crate::ranges::Ranges;
use crate::reference_counts::Shares;
use crate::space::ContainerRun;
use crate::stream::{self, Limits, Snapshot, Stream, StreamContent, StreamState};
use crate::sync_log::SyncLog;
use crate::tree::{Order, Tree};
use platter_device::Device;
use platter_vfs::{Error, Health, Kind, Listings, Name, Node, Result};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Runs of one file that stay in memory past a commit: 24 MiB of them.
const MOST_RUNS: usize = 1 << 20;

/// The root directory's object.
pub const ROOT_DIRECTORY: u64 = 0x600;
/// Numbers below it are the format's own.
pub const FIRST_OBJECT: u64 = 0x701;

/// An object: a tree with a number.
pub struct Object {
    /// Its tree.
    pub tree: Tree,
    /// The number last given to a child, for directories.
    pub last_child: Option<u64>,
}

/// What a node is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Id {
    /// The directory with this object number.
    Directory(u64),
    /// A file, by its home directory and its number there.
    File(u64, u64),
    /// A named stream of a node, by a number of its own.
    Stream(u64, u64),
    /// A file without a name.
    Nameless(u64),
}

/// Where a node's record is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordPlace {
    /// A directory's own: in its tree. With the directory above and its name there.
    Directory { above: u64, name: Vec<u16> },
    /// In the row of its only name.
    Long { directory: u64, name: Vec<u16> },
    /// In a row of its home directory; its names are in the record.
    Body,
    /// Nowhere: its last name is gone.
    Nowhere,
    /// It is a named stream of this node.
    Part { of: u64 },
}

/// A named stream of a node in use.
pub struct Named {
    /// Its name.
    pub name: Vec<u16>,
    /// Its node.
    pub node: u64,
    /// Its data.
    pub stream: Arc<Stream>,
    /// What else is known of it if it is a snapshot of the file's data.
    pub snapshot: Option<Snapshot>,
}

impl Named {
    /// Whether this is its name, but for case.
    pub fn is_called(&self, name: &Name, upper: &[u16]) -> bool {
        let folded = |&unit: &u16| upper[usize::from(unit)];
        self.name.iter().map(folded).eq(name.units().iter().map(folded))
    }
}

/// A node in use.
pub struct Entity {
    /// What it is on disk.
    pub id: Id,
    /// Where its record is.
    pub place: RecordPlace,
    /// Its record, without what is in `stream` and `named`.
    pub record: Record,
    /// Its data, for files and named streams.
    pub stream: Option<Arc<Stream>>,
    /// Its named streams.
    pub named: Vec<Named>,
    /// How often it was handed out.
    pub handed_out: u64,
    /// Why it may only be read, if so.
    pub only_read: Option<&'static str>,
}

impl Entity {
    /// What it is.
    pub fn kind(&self) -> Kind {
        match self.id {
            _ if attributes::is_link(self.record.reparse) => Kind::SymbolicLink,
            Id::Directory(_) => Kind::Directory,
            _ => Kind::File,
        }
    }

    /// Rows that storing it puts into trees, at most, and what else takes as many pages: a stream whose runs go from the
    /// record to pages.
    fn rows(&self) -> u64 {
        let streams = match self.record.rows.is_empty() && self.named.is_empty() {
            true => 0,
            false => 1 + self.named.len() as u64,
        };
        streams
            + match self.place {
                RecordPlace::Directory { .. } => 2,
                RecordPlace::Long { .. } => 1,
                RecordPlace::Body => 1 + u64::from(self.record.links),
                RecordPlace::Nowhere | RecordPlace::Part { .. } => 0,
            }
    }

    /// The streams of its own data and of the named ones.
    pub fn all_streams(&self) -> impl Iterator<Item = &Arc<Stream>> {
        self.stream.iter().chain(self.named.iter().map(|named| &named.stream))
    }

    /// When its data was last written, if that is not in the record yet.
    pub fn written(&self) -> Option<u64> {
        let touched = self.all_streams().filter(|stream| stream.touched.load(Ordering::SeqCst));
        touched.map(|stream| stream.modified.load(Ordering::SeqCst)).max()
    }

    /// Notes when something about it changed, which is later than what was written before.
    pub fn note_change(&mut self, now: u64) {
        self.absorb_written();
        self.record.times[2] = now;
    }

    /// Takes the time when its data was last written into the record.
    pub fn absorb_written(&mut self) {
        if let Some(written) = self.written() {
            self.record.times[1] = written;
            self.record.times[2] = self.record.times[2].max(written);
            self.record.attributes |= 0x20;
            self.all_streams().for_each(|stream| stream.touched.store(false, Ordering::SeqCst));
        }
    }
}

/// Everything but the data.
pub struct Core {
    /// Pages and space.
    pub pages: Pages,
    /// The trees of the checkpoint, in its order.
    pub roots: Vec<Tree>,
    /// Which rows the allocators have, by tier.
    pub ranges: [Ranges; 3],
    /// The checkpoint last written.
    pub checkpoint: Checkpoint,
    /// The superblock.
    pub superblock: Superblock,
    /// Which place the last checkpoint went to.
    pub slot: usize,
    /// Upper-case letters.
    pub upper: Arc<[u16]>,
    objects: HashMap<u64, Object>,
    next_object: u64,
    entities: HashMap<u64, Entity>,
    ids: HashMap<Id, u64>,
    next_node: u64,
    changed: Changed,
    /// Whether anything changed since the last commit that needs another.
    pub news: bool,
    /// Why a node was left as it is on disk by the commit that was gathered last, if one was.
    pub unstored: Option<Error>,
    /// Whether files were written since, of which an entry of the log can tell.
    pub has_written: bool,
    /// The log of syncs, if the volume has one.
    pub sync_log: Option<SyncLog>,
    /// Whether there is no room for one.
    is_log_refused: bool,
    /// Whether its log holds, or may hold, what the checkpoint does not.
    pub is_dirty: bool,
    /// Whether changes are accepted.
    pub health: Arc<Health>,
    /// Both checkpoints are those of a volume that is not in use.
    pub is_sealed: bool,
    /// The security descriptor that new files get.
    pub security: u64,
    /// Listings under way.
    pub listings: Listings,
    /// Clusters that several streams have.
    pub shares: Shares,
}

impl Core {
    /// A core over these roots.
    pub fn new(
        pages: Pages,
        roots: Vec<Tree>,
        checkpoint: Checkpoint,
        superblock: Superblock,
        slot: usize,
        upper: Arc<[u16]>,
    ) -> Core {
        let mut ids = HashMap::new();
        ids.insert(Id::Directory(ROOT_DIRECTORY), Node::ROOT.0);
        Core {
            pages,
            roots,
            ranges: Default::default(),
            checkpoint,
            superblock,
            slot,
            upper,
            objects: HashMap::new(),
            next_object: FIRST_OBJECT,
            entities: HashMap::new(),
            ids,
            next_node: Node::ROOT.0 + 1,
            changed: Changed::default(),
            news: false,
            unstored: None,
            has_written: false,
            sync_log: None,
            is_log_refused: false,
            is_dirty: false,
            health: Arc::default(),
            is_sealed: false,
            security: 0,
            listings: Listings::default(),
            shares: Shares::default(),
        }
    }

    /// Sizes.
    pub fn geometry(&self) -> &Geometry {
        &self.pages.geometry
    }

    /// Refuses changes where nothing may be written.
    pub fn writable(&self) -> Result<()> {
        self.health.writable()?;
        self.whole()
    }

    /// Whether so many pages can be taken now and enough are left for the next commit.
    pub fn spares(&self, pages: u64) -> bool {
        self.pages.space.spares(pages)
    }

    /// Refuses to go on from a failure. What was accepted before a volume was closed still goes on.
    pub fn promise(&self) -> Result<()> {
        self.health.promise()?;
        self.whole()
    }

    /// Refuses to go on from a change that failed half-way.
    fn whole(&self) -> Result<()> {
        if self.pages.space.is_wrong() {
            let reason = "clusters were given up twice, or taken that were in use; on disk everything is as it was at the last commit";
            return Err(Error::ReadOnly(reason.into()));
        }
        if self.pages.is_broken {
            let reason = "a change of the metadata failed half-way; on disk everything is as it was at the last commit";
            return Err(Error::ReadOnly(reason.into()));
        }
        Ok(())
    }

    /// A root's tree, with the pages.
    pub fn root(&mut self, root: Root) -> (&mut Tree, &mut Pages) {
        (&mut self.roots[root as usize], &mut self.pages)
    }

    /// Makes a damaged table anew from its good copy.
    pub fn copy_root(&mut self, damaged: Root, good: Root) -> Result<()> {
        let source = self.roots[good as usize].clone();
        let header = source.header(&mut self.pages)?;
        let old = self.roots[damaged as usize].clone();
        let mut bulk = Bulk::new(&self.pages, &old, &header);
        let mut rows = Vec::new();
        source.scan(&mut self.pages, &[], |row| {
            rows.push((row.key.to_vec(), row.flags, row.value.to_vec()));
            Ok(true)
        })?;
        for (key, flags, value) in rows {
            bulk.add(&mut self.pages, &key, flags, &value)?;
        }
        let new = bulk.finish(&mut self.pages)?;
        self.roots[damaged as usize] = new;
        self.news = true;
        Ok(())
    }

    /// The order of directory rows.
    pub fn order(&self) -> Order {
        Order::Directory(self.upper.clone())
    }
}
