//! The metadata of an open volume in memory: nodes, directories, free space, and the changes that the next commit is to
//! write. One lock guards all of it; reads and overwrites of file content do without that lock.

mod changes;
mod family;
mod room;

pub(crate) use changes::Batch;
pub(crate) use changes::Change;
pub use family::{ContentRuns, Directory, DirectoryEntry, Family, capabilities};

use crate::file::{File, Files};
use crate::slots::SLOT;
use crate::{FreeSpace, Heap};
use platter_device::Device;
use platter_vfs::{DosFlags, Error, Health, Kind, LocalTime, Result};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// The node number of the root directory.
pub const ROOT: u64 = 1;
/// The most bytes of directories kept in memory, not counting changed ones.
const DIRECTORY_CACHE: usize = 16 << 20;
/// The number of unused directories that are kept in memory, so that walking a path again is cheap.
const IDLE: usize = 256;

/// A file or directory in memory: one that is handed out as a node, has a child in memory, or has uncommitted changes.
pub struct Entity<E> {
    /// Whether it is a file or a directory.
    pub kind: Kind,
    /// The node number of the parent directory.
    pub parent: u64,
    /// The key of its entry in the parent directory.
    pub slot: u32,
    /// Whether it has a name; false after it was removed.
    pub linked: bool,
    /// How often it was handed out as a node and not yet given back.
    pub handed: u64,
    /// The number of entities in memory of which it is the parent.
    pub children: u32,
    /// The number of uncommitted changes that need it in memory.
    pub pins: u32,
    /// The number of the change in which it came into memory.
    pub since: u64,
    /// Its directory entry as it is to be written.
    pub entry: E,
    /// The data path, for files only.
    pub(crate) file: Option<Arc<File>>,
    /// The number of the last change (that is, commit) in which more than its times changed.
    pub changed_in: u64,
    /// Whether its entry has newer times than the disk that no commit has been asked to write.
    pub lazy: bool,
    idle: bool,
}

/// The metadata of an open volume; see the module.
pub struct Core<F: Family> {
    /// The device of the volume.
    pub device: Arc<dyn Device>,
    /// The place and number of the clusters.
    pub heap: Heap,
    /// The state that only the format uses.
    pub family: F,
    /// The free clusters.
    pub space: FreeSpace,
    /// The files and directories in memory, by node number.
    pub nodes: HashMap<u64, Entity<F::Entry>>,
    pub(crate) places: HashMap<(u64, u32), u64>,
    /// The contents of directories in memory, by node number.
    pub directories: HashMap<u64, Open<F::Directory>>,
    /// Node numbers of the directories in memory by their first cluster, to detect two entries of the same directory.
    pub(crate) open_directories: HashMap<u32, u64>,
    idle: VecDeque<u64>,
    /// The last number that was given to something without a place of its own.
    next_node: u64,
    tick: u64,
    /// The changes for the next commit.
    pub change: Change,
    /// The number of clusters that are allocated in memory but not yet linked to a file or directory by the format's
    /// table or bitmap.
    pub reserved: u32,
    /// The number of clusters that are given up but cannot be allocated before the next commit.
    pub waiting: u32,
    /// Whether changes are accepted.
    pub health: Arc<Health>,
    /// Whether the volume is marked as in use (dirty) on disk.
    pub marked: bool,
    /// Whether the volume was marked as in use when it was opened.
    pub was_dirty: bool,
    /// The number of minutes by which local time is ahead of UTC.
    pub local: LocalTime,
    /// The data paths of the files in memory, which can be found without the lock of the core.
    pub(crate) files: Arc<Files>,
}

/// The content of a directory in memory, and the tick of its last use.
pub struct Open<D> {
    content: D,
    used: u64,
}

impl<D> Open<D> {
    /// The content.
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
        // No place is there, nor on a volume that reaches behind the end of its device.
        let end = device.len().max(heap.offset(heap.last()) + heap.cluster_size());
        let behind = end / SLOT as u64 + 1;
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
            next_node: behind,
            tick: 0,
            change: Change { id: 1, ..Change::default() },
            reserved: 0,
            waiting: 0,
            health: Arc::default(),
            marked: was_dirty,
            was_dirty,
            local: LocalTime::default(),
            files: Arc::default(),
        };
        let cluster = root.cluster();
        core.nodes.insert(ROOT, Entity::new(Kind::Directory, ROOT, 0, root));
        if cluster != 0 {
            core.open_directories.insert(cluster, ROOT);
        }
        core
    }

    /// Refuses changes to a volume that is read-only or has failed.
    pub fn writable(&self) -> Result<()> {
        self.health.writable()
    }

    /// Returns a file or directory in memory.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is none with this number.
    pub fn entity(&self, number: u64) -> Result<&Entity<F::Entry>> {
        self.nodes.get(&number).ok_or(Error::NotFound)
    }

    /// Returns a file or directory in memory, to change it.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is none with this number.
    pub fn entity_mut(&mut self, number: u64) -> Result<&mut Entity<F::Entry>> {
        self.nodes.get_mut(&number).ok_or(Error::NotFound)
    }

    /// Fails unless the node is a directory.
    pub fn is_directory(&self, number: u64) -> Result<()> {
        match self.entity(number)?.kind {
            Kind::Directory => Ok(()),
            _ => Err(Error::NotADirectory),
        }
    }

    /// Fails unless the node is a directory that has not been removed: a removed one takes no new entries.
    pub fn is_living_directory(&self, number: u64) -> Result<()> {
        self.is_directory(number)?;
        if self.entity(number)?.linked { Ok(()) } else { Err(Error::NotFound) }
    }

    // Directories

    /// Returns a directory's content, after reading it if it is not in memory.
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

    /// Puts a directory's content into memory.
    pub fn keep(&mut self, number: u64, content: F::Directory) {
        self.shed(content.slots().data().len());
        self.directories.insert(number, Open { content, used: self.tick });
    }

    /// Drops unchanged directories from memory, the least recently used first, to make room for `bytes`.
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

    /// About how many bytes of changes wait in memory for a commit.
    pub fn backlog(&self) -> usize {
        self.family.backlog() + self.change.pinned.len() * 1024 + self.change.freed.len() * 8
    }

    /// Returns the node number of the entry in a slot, after adding it if it is not in memory.
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

    /// Adds the file or directory of an entry to memory; returns its node number.
    pub fn add(&mut self, kind: Kind, parent: u64, slot: u32, entry: F::Entry) -> u64 {
        let number = self.new_number(kind, parent, slot, &entry);
        let mut entity = Entity::new(kind, parent, slot, entry);
        entity.since = self.change.id;
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

    /// Returns the number for a file or directory that comes into memory. The format stores none, so it is that of a place which
    /// nothing else has: for a directory its first cluster, for a file a slot of its entry, both as the number of the 32
    /// bytes on the volume. So whoever opens the volume again, and whatever was looked up before, the number is the same. A
    /// file that is in memory keeps the number while its entry moves; what then comes to the old place meanwhile gets a
    /// number behind those of all places, as does what has no place of its own because of damage.
    fn new_number(&mut self, kind: Kind, parent: u64, slot: u32, entry: &F::Entry) -> u64 {
        self.number_of_place(kind, parent, slot, entry).unwrap_or_else(|| {
            self.next_node += 1;
            self.next_node
        })
    }

    /// Returns the number of the place of a file or directory that is not in memory, if nothing in memory has it.
    pub(crate) fn number_of_place(
        &self,
        kind: Kind,
        parent: u64,
        slot: u32,
        entry: &F::Entry,
    ) -> Option<u64> {
        let place = match kind {
            Kind::Directory if self.heap.has(entry.cluster()) => self.heap.offset(entry.cluster()),
            Kind::Directory => 0,
            _ => self.directories.get(&parent)?.content.slots().place(slot),
        };
        // A slot without a place has 0.
        let first = if kind == Kind::Directory { 0 } else { F::NUMBERED_SLOT };
        let number = place / SLOT as u64 + first;
        (place > 0 && number > ROOT && !self.nodes.contains_key(&number)).then_some(number)
    }

    /// Removes a file or directory from memory and returns it, so that the caller can free its clusters.
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
        // What comes to its place may get its number, and changes of its own.
        self.change.pinned.remove(&number);
        self.change.entries.remove(&number);
        Some(entity)
    }

    /// Notes that an entity has no name any more.
    pub fn unname(&mut self, number: u64) {
        if let Some(entity) = self.nodes.get_mut(&number) {
            entity.linked = false;
            let place = (entity.parent, entity.slot);
            self.places.remove(&place);
        }
    }

    /// Moves an entity to another directory or slot.
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

    /// Notes that a directory is unused. Returns the one that has been unused for longest if there are too many.
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

    /// Whether `number` is the directory `above` or lies somewhere below it.
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
            since: 0,
            entry,
            file: None,
            changed_in: 0,
            lazy: false,
            idle: false,
        }
    }

    /// Fails if the read-only attribute forbids removing it.
    pub fn deletable(&self) -> Result<()> {
        if self.entry.flags().contains(DosFlags::READ_ONLY) {
            return Err(Error::NotPermitted("it has the read-only attribute"));
        }
        Ok(())
    }
}
