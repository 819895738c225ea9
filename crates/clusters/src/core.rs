//! What an open volume knows besides the content of files: nodes, directories, free space, and what the next commit
//! has to write. One lock guards all of it; the data path does without.

mod changes;
mod family;
mod room;

pub(crate) use changes::Batch;
pub use changes::Change;
pub use family::{ContentRuns, Directory, DirectoryEntry, Family, capabilities};

use crate::file::{File, Files};
use crate::{FreeSpace, Heap, Runs};
use platter_device::Device;
use platter_vfs::{DosFlags, Error, Health, Kind, Result, Timestamp};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The root's number.
pub const ROOT: u64 = 1;
/// The most bytes of directories kept in memory, changed ones aside.
const DIRECTORY_CACHE: usize = 16 << 20;
/// How many directories that nobody holds are kept, so that walking a path again is cheap.
const IDLE: usize = 256;

/// A file or directory that is held, or has something held or changed inside.
pub struct Entity<E> {
    /// What it is.
    pub kind: Kind,
    /// The directory that holds it.
    pub parent: u64,
    /// The key of its entry in the parent.
    pub slot: u32,
    /// Whether it has a name.
    pub linked: bool,
    /// How often it was handed out.
    pub handed: u64,
    /// How many entities have it as parent.
    pub children: u32,
    /// How many changes, not yet committed, need it in memory.
    pub pins: u32,
    /// Its entry as it is to be.
    pub entry: E,
    /// Files only.
    pub(crate) file: Option<Arc<File>>,
    /// The last change that is more than a time.
    pub changed_in: u64,
    /// Its entry has newer times than the disk, and no commit is asked to write them.
    pub lazy: bool,
    idle: bool,
}

/// See the module.
pub struct Core<F: Family> {
    /// The device.
    pub device: Arc<dyn Device>,
    /// Its clusters.
    pub heap: Heap,
    /// The format's own part.
    pub family: F,
    /// Which clusters are free.
    pub space: FreeSpace,
    /// What is held or changed, by number.
    pub nodes: HashMap<u64, Entity<F::Entry>>,
    pub(crate) places: HashMap<(u64, u32), u64>,
    /// Directories in memory, by number.
    pub directories: HashMap<u64, Open<F::Directory>>,
    /// The first cluster of each directory that is open, to see when two are the same.
    pub(crate) open_directories: HashMap<u32, u64>,
    idle: VecDeque<u64>,
    next_node: u64,
    tick: u64,
    /// What the next commit is about.
    pub change: Change,
    /// Clusters that are allocated, but not linked.
    pub reserved: u32,
    /// Clusters that are no longer used, but not yet free for others.
    pub waiting: u32,
    /// Whether changes are accepted.
    pub health: Arc<Health>,
    /// Whether the volume is marked as in use on disk.
    pub marked: bool,
    /// Whether it was when it was opened.
    pub was_dirty: bool,
    /// How many minutes local time is ahead of UTC.
    pub offset_minutes: i32,
    /// The files among the entities, for the data path.
    pub(crate) files: Arc<Files>,
}

/// A directory in memory, and when it was last used.
pub struct Open<D> {
    content: D,
    used: u64,
}

impl<D> Open<D> {
    /// The directory.
    pub fn content(&self) -> &D {
        &self.content
    }
}

impl<F: Family> Core<F> {
    /// The core of a volume that is being opened, with the entry of its root directory.
    pub fn new(
        device: Arc<dyn Device>,
        heap: Heap,
        family: F,
        space: FreeSpace,
        root: F::Entry,
        was_dirty: bool,
    ) -> Core<F> {
        let mut core = Core {
            device,
            heap,
            family,
            space,
            nodes: HashMap::new(),
            places: HashMap::new(),
            directories: HashMap::new(),
            open_directories: HashMap::new(),
            idle: VecDeque::new(),
            next_node: ROOT,
            tick: 0,
            change: Change { id: 1, ..Change::default() },
            reserved: 0,
            waiting: 0,
            health: Arc::default(),
            marked: was_dirty,
            was_dirty,
            offset_minutes: 0,
            files: Arc::default(),
        };
        let cluster = root.cluster();
        core.nodes.insert(ROOT, Entity::new(Kind::Directory, ROOT, 0, root));
        if cluster != 0 {
            core.open_directories.insert(cluster, ROOT);
        }
        core
    }

    /// Refuses changes to a volume that is read-only or no longer in order.
    pub fn writable(&self) -> Result<()> {
        self.health.writable()
    }

    /// An entity.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub fn entity(&self, number: u64) -> Result<&Entity<F::Entry>> {
        self.nodes.get(&number).ok_or(Error::NotFound)
    }

    /// An entity, for a change.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub fn entity_mut(&mut self, number: u64) -> Result<&mut Entity<F::Entry>> {
        self.nodes.get_mut(&number).ok_or(Error::NotFound)
    }

    /// Requires a directory.
    pub fn is_directory(&self, number: u64) -> Result<()> {
        match self.entity(number)?.kind {
            Kind::Directory => Ok(()),
            _ => Err(Error::NotADirectory),
        }
    }

    /// Requires a directory that was not removed: nothing can be put into one that was.
    pub fn is_living_directory(&self, number: u64) -> Result<()> {
        self.is_directory(number)?;
        if self.entity(number)?.linked { Ok(()) } else { Err(Error::NotFound) }
    }

    // Directories

    /// A directory's content, read if it is not in memory.
    pub fn directory(&mut self, number: u64) -> Result<&mut F::Directory> {
        self.is_directory(number)?;
        if !self.directories.contains_key(&number) {
            let content = F::read_directory(self, number)?;
            self.keep(number, content);
        }
        self.tick += 1;
        let directory = self.directories.get_mut(&number).expect("kept just now");
        directory.used = self.tick;
        Ok(&mut directory.content)
    }

    /// Keeps a directory in memory.
    pub fn keep(&mut self, number: u64, content: F::Directory) {
        self.shed(content.slots().data().len());
        self.directories.insert(number, Open { content, used: self.tick });
    }

    /// Drops unchanged directories, the longest unused first, to make place for `bytes`.
    fn shed(&mut self, bytes: usize) {
        let size = |open: &Open<F::Directory>| open.content.slots().data().len();
        let mut total: usize = self.directories.values().map(size).sum();
        while total + bytes > DIRECTORY_CACHE {
            let oldest = self
                .directories
                .iter()
                .filter(|(_, open)| open.content.slots().is_clean())
                .min_by_key(|(_, open)| open.used)
                .map(|(number, open)| (*number, size(open)));
            let Some((number, size)) = oldest else { break };
            self.directories.remove(&number);
            total -= size;
        }
    }

    /// Bytes of changes that wait in memory, about.
    pub fn backlog(&self) -> usize {
        self.family.backlog() + self.change.pinned.len() * 1024 + self.change.freed.len() * 8
    }

    /// The entity of the entry in a slot, which is made if it is not in memory.
    pub fn enter(&mut self, parent: u64, slot: u32) -> Result<u64> {
        if let Some(number) = self.places.get(&(parent, slot)) {
            return Ok(*number);
        }
        let entry = self.directory(parent)?.entry(slot);
        let directory = entry.is_directory();
        if directory {
            self.family.check_directory(&entry)?;
            if let Some(other) = self.open_directories.get(&entry.cluster()).filter(|_| entry.cluster() != 0)
            {
                let expected = "a directory that nothing else leads to";
                let found = format!("cluster {}, which is that of open directory {other}", entry.cluster());
                return Err(Error::damaged("directory entry", 0, expected, found));
            }
        }
        let kind = if directory { Kind::Directory } else { Kind::File };
        Ok(self.add(kind, parent, slot, entry))
    }

    /// Adds the entity of an entry.
    pub fn add(&mut self, kind: Kind, parent: u64, slot: u32, entry: F::Entry) -> u64 {
        self.next_node += 1;
        let number = self.next_node;
        let mut entity = Entity::new(kind, parent, slot, entry);
        match kind {
            Kind::Directory => {
                self.open_directories.insert(entity.entry.cluster(), number);
            }
            _ => {
                let read_only = entity.entry.flags().contains(DosFlags::READ_ONLY);
                let file = Arc::new(File::new(number, read_only));
                self.files.insert(file.clone());
                entity.file = Some(file);
            }
        }
        self.nodes.insert(number, entity);
        self.places.insert((parent, slot), number);
        if let Some(parent) = self.nodes.get_mut(&parent) {
            parent.children += 1;
        }
        number
    }

    /// Takes an entity out of memory. Returns it, for what else is to be done.
    pub fn drop_entity(&mut self, number: u64) -> Option<Entity<F::Entry>> {
        let entity = self.nodes.remove(&number)?;
        if entity.linked {
            self.places.remove(&(entity.parent, entity.slot));
        }
        let first = entity.entry.cluster();
        if entity.kind == Kind::Directory && self.open_directories.get(&first) == Some(&number) {
            self.open_directories.remove(&first);
        }
        if let Some(parent) = self.nodes.get_mut(&entity.parent) {
            parent.children -= 1;
        }
        self.files.remove(number);
        self.space.release(number);
        Some(entity)
    }

    /// Takes an entity's name away.
    pub fn unname(&mut self, number: u64) {
        if let Some(entity) = self.nodes.get_mut(&number) {
            entity.linked = false;
            let place = (entity.parent, entity.slot);
            self.places.remove(&place);
        }
    }

    /// Gives an entity another place.
    pub fn place(&mut self, number: u64, parent: u64, slot: u32) {
        let Some(entity) = self.nodes.get_mut(&number) else { return };
        let old = (entity.parent, entity.slot);
        (entity.parent, entity.slot) = (parent, slot);
        if self.places.get(&old) == Some(&number) {
            self.places.remove(&old);
        }
        self.places.insert((parent, slot), number);
        for (number, change) in [(old.0, -1), (parent, 1)] {
            if let Some(entity) = self.nodes.get_mut(&number) {
                entity.children = entity.children.wrapping_add_signed(change);
            }
        }
    }

    /// Notes that nobody holds a directory. Returns one that has not been held for long.
    pub fn rest(&mut self, number: u64) -> Option<u64> {
        if let Some(entity) = self.nodes.get_mut(&number)
            && !std::mem::replace(&mut entity.idle, true)
        {
            self.idle.push_back(number);
        }
        if self.idle.len() <= IDLE {
            return None;
        }
        let oldest = self.idle.pop_front()?;
        self.nodes.get_mut(&oldest)?.idle = false;
        Some(oldest)
    }

    /// Whether `number` is `above` or lies somewhere below it.
    pub fn is_inside(&self, mut number: u64, above: u64) -> Result<bool> {
        loop {
            if number == above {
                return Ok(true);
            }
            if number == ROOT {
                return Ok(false);
            }
            number = self.entity(number)?.parent;
        }
    }
}

impl<E: DirectoryEntry> Entity<E> {
    fn new(kind: Kind, parent: u64, slot: u32, entry: E) -> Entity<E> {
        Entity {
            kind,
            parent,
            slot,
            linked: true,
            handed: 0,
            children: 0,
            pins: 0,
            entry,
            file: None,
            changed_in: 0,
            lazy: false,
            idle: false,
        }
    }

    /// Refuses what the read-only attribute forbids.
    pub fn deletable(&self) -> Result<()> {
        if self.entry.flags().contains(DosFlags::READ_ONLY) {
            return Err(Error::NotPermitted("it has the read-only attribute"));
        }
        Ok(())
    }
}
