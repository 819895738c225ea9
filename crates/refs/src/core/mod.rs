//! A volume's metadata in memory: the roots, the trees of its objects, and the nodes in use. All of it is protected by
//! one lock; file data does not pass through it.
//!
//! Rows of trees are changed at once, in memory. The times, sizes and extents of a node in use stay with the node, and
//! go to its row when a commit *gathers*.

mod changed;
mod clusters;
mod commit;
mod entities;
mod nodes;
mod numbers;
mod objects;
mod room;
mod syncing;

pub(crate) use room::Held;
pub(crate) use syncing::SyncEntry;

use self::changed::Changed;
use crate::attributes;
use crate::bulk::Bulk;
use crate::free_counts::FreeCounts;
use crate::geometry::Geometry;
use crate::layout::{Checkpoint, Record, Root, Superblock};
use crate::pages::Pages;
use crate::ranges::Ranges;
use crate::reference_counts::Shares;
use crate::stream::{Snapshot, Stream};
use crate::sync_log::SyncLog;
use crate::tree::{Order, Tree};
use platter_vfs::{Error, Health, Kind, Listings, Name, Node, Result};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The most runs of one file that stay in memory past a commit; they take 24 MiB.
const MOST_RUNS: usize = 1 << 20;

/// The root directory's object.
pub(crate) const ROOT_DIRECTORY: u64 = 0x600;
/// The first number of an object for a directory other than the root; smaller ones belong to the format.
pub(crate) const FIRST_OBJECT: u64 = 0x701;

// Directories of users are numbered after those of the format.
const _: () = assert!(FIRST_OBJECT > ROOT_DIRECTORY && ROOT_DIRECTORY > crate::sync_log::DIRECTORY);

/// An object: a tree with a number.
pub(crate) struct Object {
    /// The object's tree.
    pub tree: Tree,
    /// The number last given to a child, for directories.
    pub last_child: Option<u64>,
}

/// The identity of a node on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Id {
    /// The directory with this object number.
    Directory(u64),
    /// A file, by its home directory and its number there.
    File(u64, u64),
    /// A named stream, by its node and a number of its own.
    Stream(u64, u64),
    /// A file without a name.
    Nameless(u64),
}

impl Id {
    /// The bits of a node number that hold the number of a file in its home.
    const FILE: u32 = 31;

    /// The identity that a node number stands for; `None` for numbers that stand for none.
    pub(crate) fn of_node(number: u64) -> Option<Id> {
        let (home, ordinal) = (number >> Id::FILE, number & ((1 << Id::FILE) - 1));
        // The root has a number of its own, and what is below belongs to the format.
        match (home, ordinal) {
            (FIRST_OBJECT.., 0) => Some(Id::Directory(home)),
            (ROOT_DIRECTORY | FIRST_OBJECT.., 1..) => Some(Id::File(home, ordinal)),
            _ => None,
        }
    }

    /// The node number that stands for this identity: the number of the home directory, or of the directory itself, and
    /// below it the number of the file, which a directory has not. `None` if it does not fit, after four thousand
    /// million directories or half as many files in one, and for what has no identity on disk.
    fn node(self) -> Option<u64> {
        let (home, ordinal) = match self {
            Id::Directory(object) => (object, 0),
            // A file without a number, on a damaged volume, would have that of its directory.
            Id::File(home, ordinal) if ordinal != 0 => (home, ordinal),
            _ => return None,
        };
        let fits = (ROOT_DIRECTORY..1 << 32).contains(&home) && ordinal < 1 << Id::FILE;
        fits.then_some(home << Id::FILE | ordinal)
    }
}

/// Where a node's record is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RecordPlace {
    /// In the directory's own tree; with the directory above and the name there.
    Directory { above: u64, name: Vec<u16> },
    /// In the row of the file's only name.
    Long { directory: u64, name: Vec<u16> },
    /// In a row of the file's home directory, since it has several names or was moved; the names are in the record.
    Body,
    /// Nowhere: the last name was removed.
    Nowhere,
    /// In the record of the node `of`, of which this node is a named stream.
    Part { of: u64 },
}

/// A named stream of a node in use.
pub(crate) struct Named {
    /// The stream's name.
    pub name: Vec<u16>,
    /// The node of the stream.
    pub node: u64,
    /// The stream's data.
    pub stream: Arc<Stream>,
    /// For a snapshot of the file's data, the fields that only a snapshot has.
    pub snapshot: Option<Snapshot>,
}

impl Named {
    /// Whether the stream has this name, without regard to case.
    pub(crate) fn is_called(&self, name: &Name, upper: &[u16]) -> bool {
        let folded = |&unit: &u16| upper[usize::from(unit)];
        self.name.iter().map(folded).eq(name.units().iter().map(folded))
    }
}

/// A node in use.
pub(crate) struct Entity {
    /// The node's identity on disk.
    pub id: Id,
    /// Where the node's record is.
    pub place: RecordPlace,
    /// The node's record, without the attributes that are in `stream` and `named`.
    pub record: Record,
    /// The node's data, for files and named streams.
    pub stream: Option<Arc<Stream>>,
    /// The named streams of the node.
    pub named: Vec<Named>,
    /// The number of references to the node that callers hold.
    pub handed_out: u64,
    /// The reason why the node may only be read, if so.
    pub only_read: Option<&'static str>,
}

impl Entity {
    /// The kind of the node.
    pub(crate) fn kind(&self) -> Kind {
        match self.id {
            _ if attributes::is_link(self.record.reparse) => Kind::SymbolicLink,
            Id::Directory(_) => Kind::Directory,
            _ => Kind::File,
        }
    }

    /// The most rows that storing the node puts into trees. A stream counts as a row: moving its runs from the record
    /// to pages takes as many pages.
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

    /// The stream of the node's own data, and the named ones.
    pub(crate) fn all_streams(&self) -> impl Iterator<Item = &Arc<Stream>> {
        self.stream.iter().chain(self.named.iter().map(|named| &named.stream))
    }

    /// When the node's data was last written, if the record does not have that time yet.
    pub(crate) fn written(&self) -> Option<u64> {
        let touched = self.all_streams().filter(|stream| stream.touched.load(Ordering::SeqCst));
        touched.map(|stream| stream.modified.load(Ordering::SeqCst)).max()
    }

    /// Sets the time of the last change of the node, after absorbing that of earlier writes.
    pub(crate) fn note_change(&mut self, now: u64) {
        self.absorb_written();
        self.record.times[2] = now;
    }

    /// Moves the time of the last write from the streams to the record.
    pub(crate) fn absorb_written(&mut self) {
        if let Some(written) = self.written() {
            self.record.times[1] = written;
            self.record.times[2] = self.record.times[2].max(written);
            self.record.attributes |= 0x20;
            self.all_streams().for_each(|stream| stream.touched.store(false, Ordering::SeqCst));
        }
    }
}

/// A volume's metadata: everything except file data.
pub(crate) struct Core {
    /// The metadata pages, and which clusters are free.
    pub pages: Pages,
    /// The trees of the checkpoint's roots, in the order of [`Root`].
    pub roots: Vec<Tree>,
    /// The ranges of containers for which the allocator of each tier has rows.
    pub ranges: [Ranges; 3],
    /// The free clusters in these rows.
    pub free_counts: FreeCounts,
    /// The checkpoint last written.
    pub checkpoint: Checkpoint,
    /// The superblock.
    pub superblock: Superblock,
    /// Which of the two places holds the last checkpoint: 0 or 1.
    pub slot: usize,
    /// The upper-case letter of each UTF-16 unit, from the volume's table.
    pub upper: Arc<[u16]>,
    objects: HashMap<u64, Object>,
    next_object: u64,
    entities: HashMap<u64, Entity>,
    ids: HashMap<Id, u64>,
    next_node: u64,
    changed: Changed,
    /// Whether anything changed since the last commit that only another commit can make durable.
    pub news: bool,
    /// The error of a node that the commit gathered last did not store, and so left as it was on disk.
    pub unstored: Option<Error>,
    /// Whether files were written since the last commit in a way that an entry of the log of syncs can hold.
    pub has_written: bool,
    /// The log of syncs, if the volume has one.
    pub sync_log: Option<SyncLog>,
    /// Whether no log of syncs is to be made: there is no room for one, or every sync commits.
    is_log_refused: bool,
    /// Whether the format's own log has, or may have, changes that are not in the checkpoint.
    pub is_dirty: bool,
    /// Whether the volume accepts changes.
    pub health: Arc<Health>,
    /// Whether both checkpoints have been written by unmounting.
    pub is_sealed: bool,
    /// The identifier of the security descriptor that new files get.
    pub security: u64,
    /// The directory listings under way.
    pub listings: Listings,
    /// The reference counts of clusters that several streams share.
    pub shares: Shares,
}

impl Core {
    /// The metadata of a volume with these roots.
    pub(crate) fn new(
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
            free_counts: FreeCounts::default(),
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

    /// The sizes of the volume.
    pub(crate) fn geometry(&self) -> &Geometry {
        &self.pages.geometry
    }

    /// Returns an error if changes are not accepted.
    pub(crate) fn writable(&self) -> Result<()> {
        self.health.writable()?;
        self.whole()
    }

    /// Whether this many pages can be taken now with enough left for the next commit.
    pub(crate) fn spares(&self, pages: u64) -> bool {
        self.pages.space.spares(pages)
    }

    /// Returns an error if a write, a flush or a change has failed. Unlike [`Core::writable`] it returns none for a
    /// volume that was only closed: changes that were accepted before are still committed.
    pub(crate) fn promise(&self) -> Result<()> {
        self.health.promise()?;
        self.whole()
    }

    /// Returns an error if a change failed half-way.
    fn whole(&self) -> Result<()> {
        if self.pages.space.is_wrong() {
            return Err(Error::ReadOnly(Health::SPACE_IS_WRONG.into()));
        }
        if self.pages.is_broken {
            let reason = "a change of the metadata failed half-way; on disk everything is as it was at the last commit";
            return Err(Error::ReadOnly(reason.into()));
        }
        Ok(())
    }

    /// The tree of a root, and the pages.
    pub(crate) fn root(&mut self, root: Root) -> (&mut Tree, &mut Pages) {
        (&mut self.roots[root as usize], &mut self.pages)
    }

    /// Builds a damaged table anew from its good copy.
    pub(crate) fn copy_root(&mut self, damaged: Root, good: Root) -> Result<()> {
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
    pub(crate) fn order(&self) -> Order {
        Order::Directory(self.upper.clone())
    }
}
