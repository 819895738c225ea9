//! What an open volume knows besides the content of files: nodes, directories, the table, free space, and what the
//! next commit has to write. One lock guards all of it; the data path does without.

use crate::chain::{Images, Run, Runs, Table};
use crate::directory::{self, Directory, Storage};
use crate::file::{File, Files};
use crate::layout::{Attributes, DosTime, Geometry, InfoSector, Moment, ShortEntry};
use crate::space::FreeSpace;
use platter_device::Device;
use platter_vfs::{DosFlags, Error, Kind, Result, Timestamp};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The root's number.
pub(crate) const ROOT: u64 = 1;
/// The most bytes of directories kept in memory, changed ones aside.
const DIRECTORY_CACHE: usize = 16 << 20;
/// How many directories that nobody holds are kept, so that walking a path again is cheap.
const IDLE: usize = 256;

/// A file or directory that is held, or has something held or changed inside.
pub(crate) struct Entity {
    pub kind: Kind,
    pub parent: u64,
    /// The slot of its entry in the parent.
    pub slot: u32,
    /// Whether it has a name.
    pub linked: bool,
    /// How often it was handed out.
    pub handed: u64,
    /// How many entities have it as parent.
    pub children: u32,
    /// How many changes, not yet committed, need it in memory.
    pub pins: u32,
    /// Its entry as it is to be; the name in it means nothing.
    pub entry: ShortEntry,
    /// Files only.
    pub file: Option<Arc<File>>,
    /// The last change that is more than a time.
    pub changed_in: u64,
    /// Its entry has newer times than the disk, and no commit is asked to write them.
    pub lazy: bool,
    idle: bool,
}

/// What changed since the last commit, besides the changed pages of the table and the directories.
#[derive(Default)]
pub(crate) struct Change {
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
    /// Links to the clusters that directories got. Their zeroes must be durable before, and the ends of their chains:
    /// nothing says how long a directory is but its chain.
    pub grown: Vec<(u32, u32)>,
    /// The boot sector changed.
    pub boot: bool,
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
pub(crate) struct Core {
    pub device: Arc<dyn Device>,
    pub geometry: Arc<Geometry>,
    pub table: Table,
    pub space: FreeSpace,
    pub nodes: HashMap<u64, Entity>,
    pub places: HashMap<(u64, u32), u64>,
    pub directories: HashMap<u64, Directory>,
    /// The first cluster of each directory that is open, to see when two are the same.
    pub open_directories: HashMap<u32, u64>,
    idle: VecDeque<u64>,
    next_node: u64,
    tick: u64,
    pub change: Change,
    /// Clusters that are allocated, but not linked.
    pub reserved: u32,
    /// Clusters that are no longer used, but not yet free for others.
    pub waiting: u32,
    /// Why changes are refused.
    pub frozen: Option<String>,
    /// Whether that is because writing metadata failed: what was promised may not be durable.
    pub failed: bool,
    /// The first sector, with what is to become of it.
    pub boot: Vec<u8>,
    pub state_offset: usize,
    /// Whether the volume is marked as in use on disk.
    pub marked: bool,
    /// Whether it was when it was opened.
    pub was_dirty: bool,
    /// The information sector as it is on disk.
    pub info: Option<(u64, Vec<u8>)>,
    /// The files among the entities, for the data path.
    pub files: Arc<Files>,
}

impl Core {
    #[allow(clippy::too_many_arguments)] // Called once, by the volume that is being opened.
    pub fn new(
        device: Arc<dyn Device>,
        geometry: Arc<Geometry>,
        table: Table,
        space: FreeSpace,
        boot: Vec<u8>,
        state_offset: usize,
        was_dirty: bool,
        info: Option<(u64, Vec<u8>)>,
    ) -> Core {
        let mut core = Core {
            device,
            geometry,
            table,
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
            boot,
            state_offset,
            marked: was_dirty,
            was_dirty,
            info,
            files: Arc::default(),
        };
        let cluster = core.geometry.root_cluster;
        let entry =
            ShortEntry { attributes: Attributes(Attributes::DIRECTORY), cluster, ..ShortEntry::default() };
        core.nodes.insert(ROOT, Entity::new(Kind::Directory, ROOT, 0, entry));
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

    pub fn entity(&self, number: u64) -> Result<&Entity> {
        self.nodes.get(&number).ok_or(Error::NotFound)
    }

    pub fn entity_mut(&mut self, number: u64) -> Result<&mut Entity> {
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
    pub fn directory(&mut self, number: u64) -> Result<&mut Directory> {
        self.is_directory(number)?;
        self.tick += 1;
        if !self.directories.contains_key(&number) {
            let storage = match number {
                ROOT if self.geometry.root_cluster == 0 => Storage::Fixed,
                _ => {
                    let first = self.entity(number)?.entry.cluster;
                    Storage::Chain(self.table.walk(first, None, directory::most_clusters(&self.geometry))?)
                }
            };
            let data = directory::read(&*self.device, &self.geometry, &storage)?;
            self.shed(data.len());
            self.directories.insert(number, Directory::parse(storage, data, number == ROOT));
        }
        let directory = self.directories.get_mut(&number).expect("inserted just now");
        directory.used = self.tick;
        Ok(directory)
    }

    /// Drops unchanged directories, the longest unused first, to make place for `bytes`.
    fn shed(&mut self, bytes: usize) {
        let mut total: usize = self.directories.values().map(|directory| directory.data().len()).sum();
        while total + bytes > DIRECTORY_CACHE {
            let oldest = self
                .directories
                .iter()
                .filter(|(_, directory)| directory.is_clean())
                .min_by_key(|(_, directory)| directory.used)
                .map(|(number, directory)| (*number, directory.data().len()));
            let Some((number, size)) = oldest else { break };
            self.directories.remove(&number);
            total -= size;
        }
    }

    /// Bytes of changes that wait in memory, about.
    pub fn backlog(&self) -> usize {
        self.table.dirty_bytes() + self.change.pinned.len() * 1024 + self.change.freed.len() * 8
    }

    /// The entity of the entry in a slot, which is made if it is not in memory.
    pub fn enter(&mut self, parent: u64, slot: u32) -> Result<u64> {
        if let Some(number) = self.places.get(&(parent, slot)) {
            return Ok(*number);
        }
        let entry = self.directory(parent)?.short(slot);
        let directory = entry.attributes.directory();
        if directory {
            directory::check_first(&entry, 0)?;
            if let Some(other) = self.open_directories.get(&entry.cluster) {
                let expected = "a directory that nothing else leads to";
                let found = format!("cluster {}, which is that of open directory {other}", entry.cluster);
                return Err(Error::damaged("directory entry", 0, expected, found));
            }
        }
        let kind = if directory { Kind::Directory } else { Kind::File };
        Ok(self.add(kind, parent, slot, entry))
    }

    /// Adds the entity of an entry.
    pub fn add(&mut self, kind: Kind, parent: u64, slot: u32, entry: ShortEntry) -> u64 {
        self.next_node += 1;
        let number = self.next_node;
        let mut entity = Entity::new(kind, parent, slot, entry);
        match kind {
            Kind::Directory => {
                self.open_directories.insert(entity.entry.cluster, number);
            }
            _ => {
                let read_only = entity.flags().contains(DosFlags::READ_ONLY);
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
    pub fn drop_entity(&mut self, number: u64) -> Option<Entity> {
        let entity = self.nodes.remove(&number)?;
        if entity.linked {
            self.places.remove(&(entity.parent, entity.slot));
        }
        if entity.kind == Kind::Directory && self.open_directories.get(&entity.entry.cluster) == Some(&number)
        {
            self.open_directories.remove(&entity.entry.cluster);
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
    pub fn stamp_directory(&mut self, number: u64, now: DosTime) {
        self.pin(number);
        if number != ROOT
            && let Some(entity) = self.nodes.get_mut(&number)
        {
            entity.entry.modified = now;
            self.mark_times(number);
        }
    }

    /// Takes over the time that finished writes left with the file.
    pub fn absorb(&mut self, number: u64, offset_minutes: i32) {
        if let Some(entity) = self.nodes.get_mut(&number)
            && let Some(file) = &entity.file
            && file.touched.swap(false, Ordering::AcqRel)
        {
            let since = std::time::Duration::from_nanos(file.modified.load(Ordering::Acquire));
            entity.entry.modified =
                DosTime::from_timestamp(Timestamp::from(since), offset_minutes, Moment::Modified);
            entity.entry.attributes.0 |= Attributes::ARCHIVE;
            entity.lazy = true;
        }
    }

    /// Asks for everything to be written that has changed, times included.
    pub fn mark_all(&mut self, offset_minutes: i32) {
        let numbers: Vec<u64> = self.nodes.keys().copied().collect();
        for number in numbers {
            self.absorb(number, offset_minutes);
            if self.nodes.get(&number).is_some_and(|entity| entity.lazy) {
                self.mark_times(number);
            }
        }
    }

    /// Takes out of memory what has no name any more, held or not.
    pub fn drop_removed(&mut self) -> Vec<(u64, Entity)> {
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

    /// Links the clusters from number `linked` to number `to` behind those before them.
    pub fn link(&mut self, runs: &Runs, linked: u32, to: u32) -> Result<()> {
        let mut index = linked;
        let mut before = match linked.checked_sub(1) {
            Some(last) => runs.at(last).map(|(cluster, _)| cluster),
            None => None,
        };
        while index < to {
            let Some((start, count)) = runs.at(index) else { break };
            let count = count.min(to - index);
            for cluster in start..start + count {
                if let Some(before) = before {
                    self.change.ends.remove(&before);
                    self.table.set(before, cluster)?;
                }
                before = Some(cluster);
            }
            index += count;
        }
        if let Some(last) = before
            && to > linked
        {
            self.table.set(last, self.geometry.kind.end())?;
            self.reserved -= to - linked;
            self.change.depends = true;
        }
        Ok(())
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

    /// Adds a cluster to a directory.
    pub fn grow_directory(&mut self, number: u64) -> Result<()> {
        let size = self.geometry.cluster_size as usize;
        let directory = self.directory(number)?;
        let Storage::Chain(runs) = &directory.storage else { return Err(Error::NoSpace) };
        if !directory.may_grow(size) {
            return Err(Error::NoSpace);
        }
        let mut runs = runs.clone();
        let linked = runs.clusters();
        let taken = self.allocate(number, &runs, 1)?;
        let cluster = taken[0].cluster;
        if let Err(error) = self.device.write_at(self.geometry.cluster_offset(cluster), &vec![0; size]) {
            self.give_up(&[Run { index: linked, cluster, count: 1 }], linked);
            return Err(error.into());
        }
        let tail = runs.last();
        runs.push(cluster, 1);
        self.link(&runs, linked, linked + 1)?;
        self.change.grown.extend(tail.map(|tail| (tail, cluster)));
        self.pin(number);
        let directory = self.directory(number)?;
        directory.storage = Storage::Chain(runs);
        directory.grow(size);
        Ok(())
    }

    /// Makes room for `count` slots in a row.
    pub fn make_room(&mut self, number: u64, count: usize) -> Result<()> {
        while !self.directory(number)?.has_room(count) {
            self.grow_directory(number)?;
        }
        Ok(())
    }

    // Commit

    /// Gathers what is to be written and starts the next change. Clusters and slots that become free do so on disk
    /// with this batch; clusters can be taken again after [`Core::release`].
    pub fn gather(&mut self) -> Result<Batch> {
        let geometry = self.geometry.clone();
        for number in self.change.entries.clone() {
            let Some(entity) = self.nodes.get(&number).filter(|entity| entity.linked) else { continue };
            let (parent, slot, entry) = (entity.parent, entity.slot, entity.entry.clone());
            self.directory(parent)?.update(slot, &entry, &geometry);
            // Its sector waits now, so the directory stays in memory without further ado.
        }
        let first_sector = self.boot.len() as u64;
        let mut mark = Images::new();
        let everything = !self.change.freed.is_empty()
            || !self.change.ends.is_empty()
            || self.change.boot
            || self.table.dirty_bytes() > 0
            || self.directories.values().any(|directory| !directory.is_clean());
        let grown = std::mem::take(&mut self.change.grown);
        for &(tail, _) in &grown {
            self.table.set(tail, geometry.kind.end())?;
        }
        if everything && !self.marked {
            self.set_mark(true)?;
            mark = self.mark_images()?;
            self.marked = true;
        }
        let linked = self.on_every_copy(|core| Ok(core.table.take_dirty()))?;
        for &(tail, next) in &grown {
            self.table.set(tail, next)?;
        }
        let grown = self.on_every_copy(|core| Ok(core.table.take_dirty()))?;
        let mut named = Images::new();
        let mut erased = Images::new();
        if std::mem::take(&mut self.change.boot) {
            named.push((0, self.boot.clone()));
            if let Some(sector) = geometry.backup_sector {
                named.push((u64::from(sector) * first_sector, self.clean_boot()));
            }
        }
        let mut numbers: Vec<u64> = self.directories.keys().copied().collect();
        numbers.sort_unstable();
        for number in numbers {
            let directory = self.directories.get_mut(&number).expect("listed just now");
            if !directory.is_clean() {
                let images = directory.take_images(&geometry);
                named.extend(images.added);
                erased.extend(images.removed);
            }
        }
        let ends = std::mem::take(&mut self.change.ends);
        let release = std::mem::take(&mut self.change.freed);
        let mut freed = self.on_every_copy(|core| {
            for &(start, count) in &release {
                for cluster in start..start + count {
                    core.table.set(cluster, 0)?;
                }
            }
            for &cluster in &ends {
                core.table.set(cluster, core.geometry.kind.end())?;
            }
            Ok(core.table.take_dirty())
        })?;
        let written = [&linked, &grown, &named, &erased, &freed].iter().any(|images| !images.is_empty());
        if written && let Some((offset, bytes)) = self.info_image() {
            freed.push((offset, bytes));
        }
        let change = std::mem::take(&mut self.change);
        self.change.id = change.id + 1;
        Ok(Batch {
            id: change.id,
            depends: change.depends,
            mark,
            linked,
            grown,
            named,
            erased,
            freed,
            release,
            pinned: change.pinned,
        })
    }

    /// What `images` of the table come to on the device, once for each copy.
    fn on_every_copy(&mut self, images: impl FnOnce(&mut Core) -> Result<Images>) -> Result<Images> {
        let images = images(self)?;
        let copies = self.geometry.written_fats();
        Ok(copies
            .flat_map(|copy| {
                let start = self.geometry.fat_offset(copy);
                images.iter().map(move |(offset, data)| (start + offset, data.clone()))
            })
            .collect())
    }

    /// Sets or clears the marks of a volume in use, in memory.
    fn set_mark(&mut self, in_use: bool) -> Result<()> {
        self.boot[self.state_offset] = self.boot[self.state_offset] & !1 | u8::from(in_use);
        if let Some((clean, _)) = crate::layout::clean_bits(self.geometry.kind) {
            let value = self.table.get(1)?;
            self.table.set(1, if in_use { value & !clean } else { value | clean })?;
        }
        Ok(())
    }

    /// The boot sector and the first sector of each table: where the marks are. Whatever else the first sector of
    /// the table has to tell is new links, which may be early.
    fn mark_images(&mut self) -> Result<Images> {
        let mut images = vec![(0, self.boot.clone())];
        let first = self.table.first_sector()?;
        images.extend(self.on_every_copy(|_| Ok(vec![(0, first)]))?);
        Ok(images)
    }

    /// Clears the marks and returns what is to be written for that.
    pub fn clean_mark(&mut self) -> Result<Images> {
        self.set_mark(false)?;
        self.marked = false;
        let images = self.mark_images();
        self.table.take_dirty();
        images
    }

    /// The boot sector as its backup has it: not in use.
    fn clean_boot(&self) -> Vec<u8> {
        let mut boot = self.boot.clone();
        boot[self.state_offset] &= !1;
        boot
    }

    /// The information sector, if it has changed.
    fn info_image(&mut self) -> Option<(u64, Vec<u8>)> {
        let free = self.free();
        let next = self.space.cursor();
        let (offset, bytes) = self.info.as_mut()?;
        let old: &[u8; InfoSector::SIZE] = bytes[..InfoSector::SIZE].try_into().ok()?;
        let info = InfoSector { free: free + self.reserved, next, ..InfoSector::from_bytes(old) };
        let new = info.to_bytes();
        if new == *old {
            return None;
        }
        bytes[..InfoSector::SIZE].copy_from_slice(&new);
        Some((*offset, bytes.clone()))
    }

    /// Clusters that are free, or will be with the next commit.
    pub fn free(&self) -> u32 {
        (self.space.free() + self.waiting).min(self.geometry.clusters)
    }

    /// Makes a batch's clusters available, now that nothing on disk refers to them.
    pub fn release(&mut self, batch: &Batch) {
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

impl Entity {
    fn new(kind: Kind, parent: u64, slot: u32, entry: ShortEntry) -> Entity {
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

    /// The flags that users see.
    pub fn flags(&self) -> DosFlags {
        DosFlags(u32::from(self.entry.attributes.0) & DosFlags::SETTABLE.0)
    }

    /// Refuses what the read-only attribute forbids.
    pub fn deletable(&self) -> Result<()> {
        if self.flags().contains(DosFlags::READ_ONLY) {
            return Err(Error::NotPermitted("it has the read-only attribute"));
        }
        Ok(())
    }
}
