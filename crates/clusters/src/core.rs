//! What an open volume knows besides the content of files: nodes, directories, free space, and what the next commit
//! has to write. One lock guards all of it; the data path does without.

use crate::file::{File, FileState, Files};
use crate::{FreeSpace, Heap, Images, Run, Runs, Slots, Storage};
use platter_device::Device;
use platter_vfs::{Capabilities, DosFlags, Error, Kind, Name, Result, Timestamp, VolumeInfo};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The root's number.
pub const ROOT: u64 = 1;
/// The most bytes of directories kept in memory, changed ones aside.
const DIRECTORY_CACHE: usize = 16 << 20;
/// How many directories that nobody holds are kept, so that walking a path again is cheap.
const IDLE: usize = 256;

/// What a directory says of a file or directory: everything but its name.
pub trait Entry: Clone + PartialEq + Send + 'static {
    /// Whether it is a directory.
    fn is_directory(&self) -> bool;

    /// First cluster; 0 if there is none.
    fn cluster(&self) -> u32;

    /// Size of a file's content in bytes.
    fn size(&self) -> u64;

    /// The flags that users see and set.
    fn flags(&self) -> DosFlags;

    /// Sets those flags; others are ignored.
    fn set_flags(&mut self, flags: DosFlags);

    /// Creation, modification and access, where the format keeps them. `offset` is how many minutes local time is
    /// ahead of UTC.
    fn times(&self, offset: i32) -> [Option<Timestamp>; 3];

    /// Sets creation, modification and access, those that are given.
    fn set_times(&mut self, times: [Option<Timestamp>; 3], offset: i32);
}

/// A directory in memory: its slots and an index of its names. An entry is known by a slot, its key.
pub trait Directory: Send + 'static {
    /// What it says of what it holds.
    type Entry: Entry;

    /// Its slots.
    fn slots(&self) -> &Slots;

    /// Whether nothing would be lost with it.
    fn is_empty(&self) -> bool {
        self.slots().is_empty()
    }

    /// Its slots, for a change.
    fn slots_mut(&mut self) -> &mut Slots;

    /// The key of the entry that a name leads to.
    fn find(&self, name: &Name) -> Option<u32>;

    /// The entry with a key.
    fn entry(&self, key: u32) -> Self::Entry;

    /// The name of the entry with a key.
    fn name(&self, key: u32) -> Name;

    /// Changes the entry with a key, whose name stays. Returns its key, which is another one if it had to move.
    fn update(&mut self, key: u32, entry: &Self::Entry) -> u32;

    /// How many slots a new entry of this name takes. What the entry with key `but` has counts as free.
    ///
    /// # Errors
    /// If the directory can have none of this name.
    fn slots_for(&self, name: &Name, entry: &Self::Entry, but: Option<u32>) -> Result<usize>;

    /// Adds an entry of a name for which there is room, and returns its key. What the entry with key `but` has counts
    /// as free.
    ///
    /// # Errors
    /// As [`Directory::slots_for`].
    fn insert(&mut self, name: &Name, entry: &Self::Entry, but: Option<u32>) -> Result<u32>;

    /// Removes an entry from the index now, and from the disk with the next commit.
    fn remove(&mut self, key: u32);

    /// Takes back the removal of an entry of exactly this name, if one waits. Returns its key.
    fn revive(&mut self, name: &Name) -> Option<u32>;

    /// Takes what a commit is to write, and carries out the removals in memory.
    fn take_images(&mut self) -> crate::DirectoryImages;
}

/// Where a file's content lies, as a format reads it from disk.
#[derive(Default)]
pub struct Content {
    /// Its clusters, those behind its size aside.
    pub runs: Runs,
    /// Its size in bytes.
    pub size: u64,
    /// How many of them are written; the size, if the format does not tell.
    pub valid: u64,
}

/// A format: its entries, and how it takes and links clusters. What it needs beyond the [`Core`] it keeps in itself.
pub trait Family: Send + Sized + 'static {
    /// What a directory says of what it holds.
    type Entry: Entry;
    /// A directory in memory.
    type Directory: Directory<Entry = Self::Entry>;

    /// Whether clusters can be a file's that are not written and read as zeroes. If not, they are zeroed.
    const UNWRITTEN: bool;

    /// Reads what an open volume needs.
    ///
    /// # Errors
    /// [`Error::NotThisFormat`] and [`Error::Damaged`] if what the device begins with makes no sense, and what reading
    /// gives.
    fn open(device: Arc<dyn Device>) -> Result<Core<Self>>;

    /// The format's name, for messages.
    fn name(&self) -> &'static str;

    /// What volumes of this kind can do.
    fn capabilities(&self) -> Capabilities;

    /// What the volume says of itself.
    ///
    /// # Errors
    /// What reading gives.
    fn info(core: &mut Core<Self>) -> Result<VolumeInfo>;

    /// Changes the label; an empty one removes it. The volume is writable.
    ///
    /// # Errors
    /// [`Error::InvalidName`], [`Error::NoSpace`] and what reading gives.
    fn set_label(core: &mut Core<Self>, label: &str) -> Result<()>;

    /// Reads a directory.
    ///
    /// # Errors
    /// [`Error::Damaged`] and what reading gives.
    fn read_directory(core: &mut Core<Self>, number: u64) -> Result<Self::Directory>;

    /// Refuses the entry of a directory that cannot be one.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    fn check_directory(&self, entry: &Self::Entry) -> Result<()>;

    /// The entry of something new, without clusters.
    fn new_entry(&self, kind: Kind, now: Timestamp, offset: i32) -> Self::Entry;

    /// A new directory with this one cluster, below the one whose number is `parent`: its entry is told of the
    /// cluster. The slots in memory are written to disk by whoever calls.
    ///
    /// # Errors
    /// What reading gives.
    fn fresh_directory(
        core: &mut Core<Self>,
        cluster: u32,
        entry: &mut Self::Entry,
        parent: u64,
    ) -> Result<Self::Directory>;

    /// A directory that was moved to another parent.
    ///
    /// # Errors
    /// What reading gives.
    fn moved_directory(core: &mut Core<Self>, number: u64) -> Result<()>;

    /// The clusters of a directory, in memory or not, counted.
    fn directory_clusters(core: &mut Core<Self>, entry: &Self::Entry) -> u32;

    /// The most bytes that a directory may have.
    fn largest_directory(&self) -> u64;

    /// Where the content of the file or directory with this entry is. With `whole`, all clusters that are its own,
    /// also those behind its size.
    ///
    /// # Errors
    /// [`Error::Damaged`] and what reading gives.
    fn content(core: &mut Core<Self>, entry: &Self::Entry, whole: bool) -> Result<Content>;

    /// Makes the clusters from number `linked` to number `to` on disk those of a file or directory that has the ones
    /// before them, with the next commit.
    ///
    /// # Errors
    /// What reading gives.
    fn link(core: &mut Core<Self>, entry: &mut Self::Entry, runs: &Runs, linked: u32, to: u32) -> Result<()>;

    /// Whether the last of a file's clusters is to be marked as the end of a chain.
    fn is_chain(_entry: &Self::Entry) -> bool {
        true
    }

    /// Gives up what an entry that is gone had besides its clusters.
    fn removed(_core: &mut Core<Self>, _entry: &Self::Entry) {}

    /// Tells an entry of its file's content, whose clusters are linked.
    fn record(entry: &mut Self::Entry, state: &FileState);

    /// Tells a directory's entry that it has these clusters, which are linked.
    fn record_directory(core: &mut Core<Self>, number: u64, runs: &Runs);

    /// Bytes of changes that wait besides those of directories, about.
    fn backlog(&self) -> usize;

    /// Sets or clears the marks of a volume in use, and returns the sectors that hold them as they are to be now.
    ///
    /// # Errors
    /// What reading gives.
    fn mark(core: &mut Core<Self>, in_use: bool) -> Result<Images>;

    /// Whether more than marks and directories changed.
    fn is_changed(&self) -> bool;

    /// What says that clusters came into use, but for [`Family::grown`].
    ///
    /// # Errors
    /// What reading gives.
    fn linked(core: &mut Core<Self>) -> Result<Images>;

    /// Links to clusters that directories got, which must not be on disk before the clusters are zero.
    ///
    /// # Errors
    /// What reading gives.
    fn grown(core: &mut Core<Self>) -> Result<Images>;

    /// What changes together with names, besides directories.
    fn named(core: &mut Core<Self>) -> Images;

    /// What says that clusters went out of use, and that some end their chain now.
    ///
    /// # Errors
    /// What reading gives.
    fn freed(core: &mut Core<Self>, freed: &[(u32, u32)], ends: &BTreeSet<u32>) -> Result<Images>;

    /// What keeps count of free clusters, if it has to change after others did.
    fn counted(core: &mut Core<Self>) -> Images;
}

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

/// What changed since the last commit, besides the changed pages of the table and the directories.
#[derive(Default)]
pub struct Change {
    /// Its number.
    pub id: u64,
    /// Entities whose entry is to be written.
    pub entries: BTreeSet<u64>,
    /// Entities that must stay in memory until it is written.
    pub pinned: BTreeSet<u64>,
    /// Clusters to free.
    pub freed: Vec<(u32, u32)>,
    /// Clusters that become the last of their chain.
    pub ends: BTreeSet<u32>,
    /// Slots are to be erased.
    pub erases: bool,
    /// More than times changed: what was written before must be durable first.
    pub depends: bool,
    /// Something besides directories changes together with names.
    pub named: bool,
}

/// What a commit writes, phase by phase. Offsets are the device's.
pub(crate) struct Batch {
    pub id: u64,
    pub depends: bool,
    pub mark: Images,
    pub linked: Images,
    pub grown: Images,
    pub named: Images,
    pub erased: Images,
    pub freed: Images,
    pub release: Vec<(u32, u32)>,
    pub pinned: BTreeSet<u64>,
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
    /// Why changes are refused.
    pub frozen: Option<String>,
    /// Whether that is because writing metadata failed: what was promised may not be durable.
    pub failed: bool,
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
            frozen: None,
            failed: false,
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
        match &self.frozen {
            Some(why) => Err(Error::ReadOnly(why.clone())),
            None => Ok(()),
        }
    }

    /// Refuses to promise anything after a failure.
    pub fn in_order(&self) -> Result<()> {
        if self.failed { self.writable() } else { Ok(()) }
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

    // Changes

    /// Keeps an entity in memory until the next commit is through.
    pub fn pin(&mut self, number: u64) {
        if let Some(entity) = self.nodes.get_mut(&number)
            && self.change.pinned.insert(number)
        {
            entity.pins += 1;
        }
    }

    /// Asks for an entity's entry to be written, because more than times changed.
    pub fn mark(&mut self, number: u64) {
        let id = self.change.id;
        self.change.depends = true;
        if let Some(entity) = self.nodes.get_mut(&number) {
            entity.changed_in = id;
        }
        self.mark_times(number);
    }

    /// Asks for an entity's entry to be written.
    pub fn mark_times(&mut self, number: u64) {
        if number != ROOT {
            self.pin(number);
            self.change.entries.insert(number);
            if let Some(entity) = self.nodes.get_mut(&number) {
                entity.lazy = false;
            }
        }
    }

    /// Notes that the names in a directory changed.
    pub fn stamp_directory(&mut self, number: u64, now: Timestamp) {
        self.pin(number);
        if number != ROOT
            && let Some(entity) = self.nodes.get_mut(&number)
        {
            entity.entry.set_times([None, Some(now), None], self.offset_minutes);
            self.mark_times(number);
        }
    }

    /// Takes over the time that finished writes left with the file.
    pub fn absorb(&mut self, number: u64) {
        if let Some(entity) = self.nodes.get_mut(&number)
            && let Some(file) = &entity.file
            && file.touched.swap(false, Ordering::AcqRel)
        {
            let since = std::time::Duration::from_nanos(file.modified.load(Ordering::Acquire));
            entity.entry.set_times([None, Some(Timestamp::from(since)), None], self.offset_minutes);
            entity.entry.set_flags(DosFlags(entity.entry.flags().0 | DosFlags::ARCHIVE.0));
            entity.lazy = true;
        }
    }

    /// Asks for everything to be written that has changed, times included.
    pub fn mark_all(&mut self) {
        let numbers: Vec<u64> = self.nodes.keys().copied().collect();
        for number in numbers {
            self.absorb(number);
            if self.nodes.get(&number).is_some_and(|entity| entity.lazy) {
                self.mark_times(number);
            }
        }
    }

    /// Takes out of memory what has no name any more, held or not.
    pub(crate) fn drop_removed(&mut self) -> Vec<(u64, Entity<F::Entry>)> {
        let removed: Vec<u64> =
            self.nodes.iter().filter(|(_, entity)| !entity.linked).map(|(number, _)| *number).collect();
        removed.into_iter().filter_map(|number| Some((number, self.drop_entity(number)?))).collect()
    }

    // Clusters

    /// Allocates clusters for a file or directory that has `runs`.
    pub fn allocate(&mut self, owner: u64, runs: &Runs, count: u32) -> Result<Vec<Run>> {
        let taken = self.space.take(owner, runs.last(), runs.clusters(), count).ok_or(Error::NoSpace)?;
        self.reserved += count;
        Ok(taken)
    }

    /// Gives clusters up: those that are linked, which are the ones below `linked`, with the next commit, the others
    /// at once.
    pub fn give_up(&mut self, cut: &[Run], linked: u32) {
        for run in cut {
            let on_disk = linked.saturating_sub(run.index).min(run.count);
            if on_disk > 0 {
                self.change.freed.push((run.cluster, on_disk));
                // One that was to end its chain has none any more.
                let range = run.cluster..run.cluster + on_disk;
                let ends: Vec<u32> = self.change.ends.range(range).copied().collect();
                ends.iter().for_each(|cluster| {
                    self.change.ends.remove(cluster);
                });
                self.waiting += on_disk;
            }
            if run.count > on_disk {
                self.space.give(run.cluster + on_disk, run.count - on_disk);
                self.reserved -= run.count - on_disk;
            }
        }
    }

    /// Notes that clusters which were allocated are linked.
    pub fn linked(&mut self, count: u32) {
        self.reserved -= count;
        self.change.depends = true;
    }

    /// Adds a cluster to a directory.
    pub fn grow_directory(&mut self, number: u64) -> Result<()> {
        let storage = self.directory(number)?.slots().storage().clone();
        let Storage::Chain(mut runs) = storage else { return Err(Error::NoSpace) };
        let linked = runs.clusters();
        if (u64::from(linked) + 1) << self.heap.shift
            > self.family.largest_directory().max(self.heap.cluster_size())
        {
            return Err(Error::NoSpace);
        }
        let taken = self.allocate(number, &runs, 1)?;
        let cluster = taken[0].cluster;
        if let Err(error) = self.zero(cluster) {
            self.give_up(&[Run { index: linked, cluster, count: 1 }], linked);
            return Err(error);
        }
        runs.push(cluster, 1);
        let mut entry = self.entity(number)?.entry.clone();
        F::link(self, &mut entry, &runs, linked, linked + 1)?;
        self.entity_mut(number)?.entry = entry;
        F::record_directory(self, number, &runs);
        self.pin(number);
        self.directory(number)?.slots_mut().grow(Storage::Chain(runs));
        Ok(())
    }

    /// Writes zeroes over a cluster.
    fn zero(&self, cluster: u32) -> Result<()> {
        let size = self.heap.cluster_size();
        let zeroes = vec![0; size.min(1 << 20) as usize];
        for at in (0..size).step_by(zeroes.len()) {
            self.device.write_at(self.heap.offset(cluster) + at, &zeroes)?;
        }
        Ok(())
    }

    /// Makes room for `count` slots in a row.
    pub fn make_room(&mut self, number: u64, count: usize) -> Result<()> {
        while !self.directory(number)?.slots().has_room(count) {
            self.grow_directory(number)?;
        }
        Ok(())
    }

    // Commit

    /// Gathers what is to be written and starts the next change. Clusters and slots that become free do so on disk
    /// with this batch; clusters can be taken again after [`Core::release`].
    pub(crate) fn gather(&mut self) -> Result<Batch> {
        for number in self.change.entries.clone() {
            let Some(entity) = self.nodes.get(&number).filter(|entity| entity.linked) else { continue };
            let (parent, slot, entry) = (entity.parent, entity.slot, entity.entry.clone());
            let moved = self.directory(parent)?.update(slot, &entry);
            if moved != slot {
                self.place(number, parent, moved);
            }
            // Its sector waits now, so the directory stays in memory without further ado.
        }
        let mut mark = Images::new();
        let everything = !self.change.freed.is_empty()
            || !self.change.ends.is_empty()
            || self.change.named
            || self.family.is_changed()
            || self.directories.values().any(|open| !open.content.slots().is_clean());
        if everything && !self.marked {
            mark = F::mark(self, true)?;
            self.marked = true;
        }
        let linked = F::linked(self)?;
        let grown = F::grown(self)?;
        let mut named = match std::mem::take(&mut self.change.named) {
            true => F::named(self),
            false => Images::new(),
        };
        let mut erased = Images::new();
        let mut numbers: Vec<u64> = self.directories.keys().copied().collect();
        numbers.sort_unstable();
        for number in numbers {
            let directory = &mut self.directories.get_mut(&number).expect("listed just now").content;
            if !directory.slots().is_clean() {
                let images = directory.take_images();
                named.extend(images.added);
                erased.extend(images.removed);
            }
        }
        let change = std::mem::take(&mut self.change);
        self.change.id = change.id + 1;
        let mut freed = F::freed(self, &change.freed, &change.ends)?;
        if [&linked, &grown, &named, &erased, &freed].iter().any(|images| !images.is_empty()) {
            freed.extend(F::counted(self));
        }
        Ok(Batch {
            id: change.id,
            depends: change.depends,
            mark,
            linked,
            grown,
            named,
            erased,
            freed,
            release: change.freed,
            pinned: change.pinned,
        })
    }

    /// Clusters that are free, or will be with the next commit.
    pub fn free(&self) -> u32 {
        (self.space.free() + self.waiting).min(self.heap.count)
    }

    /// Makes a batch's clusters available, now that nothing on disk refers to them.
    pub(crate) fn release(&mut self, batch: &Batch) {
        for &(start, count) in &batch.release {
            self.space.give(start, count);
            self.waiting -= count;
        }
        for number in &batch.pinned {
            if let Some(entity) = self.nodes.get_mut(number) {
                entity.pins -= 1;
            }
        }
    }
}

impl<E: Entry> Entity<E> {
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
