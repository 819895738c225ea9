//! The reference: a file system in memory, simple enough to be obviously right.

use platter_device::Device;
use platter_device::sync::{Mutex, MutexGuard};
use platter_vfs::{
    Attributes, Capabilities, CaseRule, Change, Cursor, DosFlags, Entry, Error, ExtendedAttributes, Extent,
    FileSystem, Integrity, IntegrityStreams, Kind, Name, NameRules, Names, NewEntry, Node, NodeStream, Place,
    Plan, Progress, RenameFlags, Result, ScrubOptions, ScrubReport, Space, Streams, SyncScope, Timestamp,
    Transfers, VolumeInfo, reparse,
};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// The properties of the format with which a [`MemoryFileSystem`] is to agree.
#[derive(Clone, Debug)]
pub struct MemoryOptions {
    /// The format's name, for error messages.
    pub format: &'static str,
    /// The features and limits. Operations of missing features are refused.
    pub capabilities: Capabilities,
    /// Whether integrity streams are turned on for the root directory.
    pub integrity: bool,
    /// The earliest time that the format can hold.
    pub earliest: Timestamp,
    /// The latest time that the format can hold.
    pub latest: Timestamp,
}

impl Default for MemoryOptions {
    /// All features of the reference, with the name rules of Windows and times in units of 100 ns.
    fn default() -> Self {
        let precision = Duration::from_nanos(100);
        MemoryOptions {
            format: "memory",
            capabilities: Capabilities {
                largest_file: 1 << 40,
                names: NameRules::WINDOWS,
                modified_precision: precision,
                created_precision: Some(precision),
                accessed_precision: Some(precision),
                hard_links: true,
                symbolic_links: true,
                streams: true,
                extended_attributes: true,
                sparse: true,
                preallocate: true,
                integrity: true,
                clone: false,
                exchange: true,
                recovers: true,
            },
            integrity: false,
            earliest: Timestamp { seconds: -11_644_473_600, nanoseconds: 0 },
            latest: Timestamp { seconds: 253_402_300_799, nanoseconds: 999_999_900 },
        }
    }
}

/// A file system in memory: the reference that [`crate::model`] compares formats with.
///
/// Everything is kept in plain collections under one lock, and no operation is optimised. The device only gives the
/// time and the sector size: planned I/O has no segments, and *finish* copies the data.
///
/// Rules that the contract leaves to the formats, and that all of Platter's formats share:
/// * [`DosFlags::READ_ONLY`] forbids changing a file's content and removing or replacing its entry
///   ([`Error::NotPermitted`]). It does not forbid renaming, changing other attributes, or changing the entries of a
///   directory that has it.
/// * Creating a file and changing its content set [`DosFlags::ARCHIVE`].
/// * Reading does not change the access time.
/// * A directory's modification time changes when a name in it appears, disappears or changes.
/// * A named stream has the times, flags and links of the node that it belongs to; writing it changes those.
/// * A new file or directory inherits the integrity of its directory, a symbolic link has none, and a named stream has
///   that of its node. Renaming and linking do not change it. Nothing is preallocated for a file with integrity,
///   because every write to it takes new clusters.
/// * Looking up a name that could not be created is no invalid request: the name is just not found.
pub struct MemoryFileSystem {
    options: MemoryOptions,
    device: Arc<dyn Device>,
    state: Mutex<Tree>,
}

struct Tree {
    objects: BTreeMap<u64, Object>,
    next_node: u64,
    next_cursor: u64,
    changes: u64,
    label: String,
    unmounted: bool,
}

struct Object {
    content: NodeContent,
    /// How often its content was accessed in order to change it.
    rewrites: u64,
    links: u32,
    handed_out: u64,
    flags: DosFlags,
    created: Timestamp,
    modified: Timestamp,
    accessed: Timestamp,
    streams: Vec<(Name, Node)>,
    /// Whether its data has checksums, which has no other effect here; for a directory, whether new entries inherit it.
    integrity: bool,
    /// For a named stream: the node that it belongs to, whose times and flags are also the stream's.
    part_of: Option<Node>,
    extended: BTreeMap<String, Vec<u8>>,
}

enum NodeContent {
    File(Vec<u8>),
    Directory { parent: Node, slots: Vec<Slot> },
    Link(String),
}

/// A directory entry. Slots are in the order of their cursors, which are never reused.
#[derive(Clone)]
struct Slot {
    cursor: u64,
    folded: Box<[u16]>,
    name: Name,
    node: Node,
}

impl Object {
    fn new(content: NodeContent, now: Timestamp) -> Object {
        let flags = match content {
            NodeContent::File(_) => DosFlags::ARCHIVE,
            _ => DosFlags::default(),
        };
        Object {
            content,
            rewrites: 0,
            links: 1,
            handed_out: 0,
            flags,
            created: now,
            modified: now,
            accessed: now,
            streams: Vec::new(),
            integrity: false,
            part_of: None,
            extended: BTreeMap::new(),
        }
    }

    /// Makes a removed named stream keep the times and flags that it had by its node.
    fn stands_alone(&mut self, flags: &DosFlags, [created, modified, accessed]: [Timestamp; 3]) {
        self.part_of = None;
        (self.flags, self.created, self.modified, self.accessed) = (*flags, created, modified, accessed);
    }

    fn kind(&self) -> Kind {
        match self.content {
            NodeContent::File(_) => Kind::File,
            NodeContent::Directory { .. } => Kind::Directory,
            NodeContent::Link(_) => Kind::SymbolicLink,
        }
    }

    fn file(&self) -> Result<&Vec<u8>> {
        match &self.content {
            NodeContent::File(data) => Ok(data),
            NodeContent::Directory { .. } => Err(Error::IsADirectory),
            NodeContent::Link(_) => Err(Error::InvalidArgument("a symbolic link has no content")),
        }
    }

    fn deletable(&self) -> Result<()> {
        if self.flags.contains(DosFlags::READ_ONLY) {
            return Err(Error::NotPermitted("it has the read-only attribute"));
        }
        Ok(())
    }

    fn slots(&self) -> Result<&Vec<Slot>> {
        match &self.content {
            NodeContent::Directory { slots, .. } => Ok(slots),
            _ => Err(Error::NotADirectory),
        }
    }

    fn slots_mut(&mut self) -> Result<&mut Vec<Slot>> {
        match &mut self.content {
            NodeContent::Directory { slots, .. } => Ok(slots),
            _ => Err(Error::NotADirectory),
        }
    }
}

impl Tree {
    fn object(&self, node: Node) -> Result<&Object> {
        self.objects.get(&node.0).ok_or(Error::NotFound)
    }

    /// The object that holds a node's times and flags: the node's own, or that of the node of which it is a stream.
    fn face(&self, node: Node) -> Result<&Object> {
        let object = self.object(node)?;
        Ok(object.part_of.and_then(|owner| self.objects.get(&owner.0)).unwrap_or(object))
    }

    fn face_mut(&mut self, node: Node) -> Result<&mut Object> {
        let owner = self.object(node)?.part_of.filter(|owner| self.objects.contains_key(&owner.0));
        self.object_mut(owner.unwrap_or(node))
    }

    /// Returns the content of a node to change it, after checking that this is allowed.
    fn writable(&mut self, node: Node) -> Result<&mut Vec<u8>> {
        self.object(node)?.file()?;
        self.face(node)?.deletable()?;
        self.data_mut(node)
    }

    /// Returns the content of a file to change it.
    fn data_mut(&mut self, node: Node) -> Result<&mut Vec<u8>> {
        let object = self.object_mut(node)?;
        object.rewrites += 1;
        match &mut object.content {
            NodeContent::File(data) => Ok(data),
            _ => Err(Error::InvalidArgument("only a file has content")),
        }
    }

    fn object_mut(&mut self, node: Node) -> Result<&mut Object> {
        self.objects.get_mut(&node.0).ok_or(Error::NotFound)
    }

    /// The index of the slot with this name.
    fn find(&self, directory: Node, name: &Name, case: CaseRule) -> Result<Option<usize>> {
        let folded = name.folded(case);
        Ok(self.object(directory)?.slots()?.iter().position(|slot| match case {
            CaseRule::Sensitive => slot.name == *name,
            CaseRule::Insensitive => slot.folded == folded,
        }))
    }

    fn slot(&self, directory: Node, name: &Name, case: CaseRule) -> Result<Slot> {
        let index = self.find(directory, name, case)?.ok_or(Error::NotFound)?;
        Ok(self.object(directory)?.slots()?[index].clone())
    }

    /// Adds a name to a directory that is known to lack it.
    fn insert(&mut self, directory: Node, name: &Name, node: Node, case: CaseRule) -> Result<()> {
        self.next_cursor += 1;
        let slot = Slot { cursor: self.next_cursor, folded: name.folded(case), name: name.clone(), node };
        self.object_mut(directory)?.slots_mut()?.push(slot);
        if let NodeContent::Directory { parent, .. } = &mut self.object_mut(node)?.content {
            *parent = directory;
        }
        Ok(())
    }

    fn remove(&mut self, directory: Node, cursor: u64) -> Result<()> {
        self.object_mut(directory)?.slots_mut()?.retain(|slot| slot.cursor != cursor);
        Ok(())
    }

    fn add(&mut self, object: Object) -> Node {
        self.next_node += 1;
        self.objects.insert(self.next_node, object);
        Node(self.next_node)
    }

    /// Removes one name of a node.
    fn unname(&mut self, node: Node) -> Result<()> {
        self.object_mut(node)?.links -= 1;
        self.reap(node);
        Ok(())
    }

    /// Drops a node that has no name, is not handed out, and has no stream that is handed out.
    fn reap(&mut self, node: Node) {
        let Some(object) = self.objects.get(&node.0) else { return };
        let is_held = |object: &Object| object.handed_out > 0;
        let in_use =
            object.streams.iter().any(|(_, stream)| self.objects.get(&stream.0).is_some_and(is_held));
        if object.links > 0 || is_held(object) || in_use {
            if let Some(owner) = object.part_of {
                self.reap(owner);
            }
            return;
        }
        let object = self.objects.remove(&node.0).expect("found just now");
        for (_, stream) in object.streams {
            self.objects.remove(&stream.0);
        }
    }

    /// Whether `node` is the directory `above` or lies somewhere below it.
    fn is_inside(&self, mut node: Node, above: Node) -> Result<bool> {
        loop {
            if node == above {
                return Ok(true);
            }
            if node == Node::ROOT {
                return Ok(false);
            }
            match &self.object(node)?.content {
                NodeContent::Directory { parent, .. } => node = *parent,
                _ => return Err(Error::NotADirectory),
            }
        }
    }

    /// Fails unless the node is a directory that has not been removed: a removed one takes no new entries.
    fn living_directory(&self, node: Node) -> Result<()> {
        let object = self.object(node)?;
        object.slots()?;
        if object.links == 0 { Err(Error::NotFound) } else { Ok(()) }
    }
}

impl MemoryFileSystem {
    /// An empty file system. `device` gives the time and the sector size; nothing is stored on it.
    pub fn new(device: Arc<dyn Device>, options: MemoryOptions) -> MemoryFileSystem {
        let mut system = MemoryFileSystem {
            options,
            device,
            state: Mutex::new(Tree {
                objects: BTreeMap::new(),
                next_node: Node::ROOT.0,
                next_cursor: 0,
                changes: 0,
                label: String::new(),
                unmounted: false,
            }),
        };
        let mut root =
            Object::new(NodeContent::Directory { parent: Node::ROOT, slots: Vec::new() }, system.stamp());
        root.integrity = system.options.integrity;
        system.state.get_mut().objects.insert(Node::ROOT.0, root);
        system
    }

    /// The path of a node from the root, if it has a name.
    pub fn path(&self, node: Node) -> Option<Vec<Name>> {
        let state = self.lock();
        let mut path = Vec::new();
        let mut at = node;
        while at != Node::ROOT {
            let (above, name) = state.objects.iter().find_map(|(number, object)| {
                let slot = object.slots().ok()?.iter().find(|slot| slot.node == at)?;
                Some((Node(*number), slot.name.clone()))
            })?;
            path.push(name);
            at = above;
        }
        path.reverse();
        Some(path)
    }

    /// The number of nodes, including streams and removed nodes that are still handed out.
    pub fn node_count(&self) -> usize {
        self.lock().objects.len()
    }

    /// A number that changes with every change.
    pub fn changes(&self) -> u64 {
        self.lock().changes
    }

    /// A number that changes with every change of a node's content. Node numbers are not reused.
    pub fn rewrites(&self, node: Node) -> u64 {
        self.lock().object(node).map_or(0, |object| object.rewrites)
    }

    fn lock(&self) -> MutexGuard<'_, Tree> {
        self.state.lock()
    }

    fn case(&self) -> CaseRule {
        self.options.capabilities.names.case
    }

    /// Locks the state for a change, unless the volume is unmounted.
    fn change(&self) -> Result<MutexGuard<'_, Tree>> {
        let mut state = self.lock();
        if state.unmounted {
            return Err(Error::ReadOnly("it is unmounted".into()));
        }
        state.changes += 1;
        Ok(state)
    }

    fn stamp(&self) -> Timestamp {
        self.device.now().into()
    }

    fn require(&self, has: bool, what: &'static str) -> Result<()> {
        if has { Ok(()) } else { Err(self.unsupported_error(what)) }
    }

    fn check_size(&self, wanted: Option<u64>) -> Result<()> {
        let limit = self.options.capabilities.largest_file;
        match wanted {
            Some(size) if size <= limit => Ok(()),
            _ => Err(Error::FileTooLarge {
                format: self.options.format,
                limit,
                wanted: wanted.unwrap_or(u64::MAX),
            }),
        }
    }

    fn check_aligned(&self, offset: u64, length: usize) -> Result<()> {
        Plan::check_range(self.device.sectors().logical, offset, length)
    }

    /// Rounds and limits a time as the format does.
    fn held(&self, time: Timestamp, precision: Duration) -> Timestamp {
        let time = time.clamp(self.options.earliest, self.options.latest);
        let nanoseconds = i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds);
        let kept = nanoseconds - nanoseconds.rem_euclid(precision.as_nanos() as i128);
        Timestamp {
            seconds: kept.div_euclid(1_000_000_000) as i64,
            nanoseconds: kept.rem_euclid(1_000_000_000) as u32,
        }
    }

    fn attributes_of(&self, state: &Tree, node: Node) -> Result<Attributes> {
        let (object, face) = (state.object(node)?, state.face(node)?);
        let capabilities = &self.options.capabilities;
        let size = match &object.content {
            NodeContent::File(data) => data.len() as u64,
            NodeContent::Directory { .. } => 0,
            NodeContent::Link(target) => target.len() as u64,
        };
        let allocated = if object.kind() == Kind::File { size } else { 0 };
        Ok(Attributes {
            kind: object.kind(),
            size,
            allocated,
            links: face.links,
            flags: face.flags,
            created: capabilities.created_precision.map(|precision| self.held(face.created, precision)),
            modified: self.held(face.modified, capabilities.modified_precision),
            accessed: capabilities.accessed_precision.map(|precision| self.held(face.accessed, precision)),
            changed: None,
        })
    }

    /// Writes bytes to a file, whatever its attributes are.
    fn put(&self, node: Node, offset: u64, data: &[u8]) -> Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        self.rewrite(node, |file| {
            let start = offset as usize;
            let end = start + data.len();
            if file.len() < end {
                file.resize(end, 0);
            }
            file[start..end].copy_from_slice(data);
        })
    }

    /// Changes a file's content and sets its modification time. The caller has checked that the change is allowed.
    fn rewrite(&self, node: Node, change: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        let now = self.stamp();
        let mut state = self.change()?;
        change(state.data_mut(node)?);
        let face = state.face_mut(node)?;
        face.modified = now;
        face.flags.0 |= DosFlags::ARCHIVE.0;
        Ok(())
    }

    fn lookup_by(&self, directory: Node, name: &Name, rule: CaseRule) -> Result<Node> {
        let mut state = self.lock();
        let slot = state.slot(directory, name, rule)?;
        state.object_mut(slot.node)?.handed_out += 1;
        Ok(slot.node)
    }

    fn add_entry(
        &self,
        directory: Node,
        name: &Name,
        content: NodeContent,
        extended: &[(&str, &[u8])],
    ) -> Result<Node> {
        let now = self.stamp();
        let mut state = self.change()?;
        state.living_directory(directory)?;
        self.options.capabilities.names.check(name)?;
        if state.find(directory, name, self.case())?.is_some() {
            return Err(Error::Exists);
        }
        let mut object = Object::new(content, now);
        object.handed_out = 1;
        object.extended = extended.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        object.integrity = object.kind() != Kind::SymbolicLink && state.object(directory)?.integrity;
        let node = state.add(object);
        state.insert(directory, name, node, self.case())?;
        state.object_mut(directory)?.modified = now;
        Ok(node)
    }

    fn remove_entry(
        &self,
        directory: Node,
        name: &Name,
        allowed: impl FnOnce(&Object) -> Result<()>,
    ) -> Result<()> {
        let now = self.stamp();
        let mut state = self.change()?;
        let slot = state.slot(directory, name, self.case())?;
        let object = state.object(slot.node)?;
        allowed(object)?;
        object.deletable()?;
        state.remove(directory, slot.cursor)?;
        state.unname(slot.node)?;
        state.object_mut(directory)?.modified = now;
        Ok(())
    }
}

impl FileSystem for MemoryFileSystem {
    fn format_name(&self) -> &'static str {
        self.options.format
    }

    fn info(&self) -> Result<VolumeInfo> {
        Ok(VolumeInfo {
            format: self.options.format.into(),
            label: self.lock().label.clone(),
            identifier: String::new(),
            cluster: 1,
            dirty: false,
            read_only: None,
            damage: Vec::new(),
            has_media_failures: false,
            metadata_checksum: None,
            checkpoint: None,
            details: Vec::new(),
        })
    }

    fn capabilities(&self) -> &Capabilities {
        &self.options.capabilities
    }

    fn space(&self) -> Result<Space> {
        let used: usize = self
            .lock()
            .objects
            .values()
            .map(|object| match &object.content {
                NodeContent::File(data) => data.len(),
                _ => 0,
            })
            .sum();
        Ok(Space { cluster: 1, total: 1 << 62, free: (1 << 62) - used as u64, reserved: 0 })
    }

    fn set_label(&self, label: &str) -> Result<()> {
        self.change()?.label = label.into();
        Ok(())
    }

    fn attributes(&self, node: Node) -> Result<Attributes> {
        self.attributes_of(&self.lock(), node)
    }

    fn set_attributes(&self, node: Node, change: &Change) -> Result<Attributes> {
        let now = self.stamp();
        let mut state = self.change()?;
        if let Some(size) = change.size {
            let data = state.writable(node)?;
            self.check_size(Some(size))?;
            if size != data.len() as u64 {
                data.resize(size as usize, 0);
                let face = state.face_mut(node)?;
                face.modified = now;
                face.flags.0 |= DosFlags::ARCHIVE.0;
            }
        }
        let face = state.face_mut(node)?;
        if let Some(flags) = change.flags {
            face.flags = DosFlags(flags.0 & DosFlags::SETTABLE.0);
        }
        face.created = change.created.unwrap_or(face.created);
        face.modified = change.modified.unwrap_or(face.modified);
        face.accessed = change.accessed.unwrap_or(face.accessed);
        self.attributes_of(&state, node)
    }

    fn note_access(&self, node: Node, at: Timestamp) -> Result<()> {
        self.change()?.face_mut(node)?.accessed = at;
        Ok(())
    }

    fn write(&self, node: Node, offset: u64, data: &[u8]) -> Result<()> {
        {
            let mut state = self.change()?;
            state.writable(node)?;
        }
        self.check_size(offset.checked_add(data.len() as u64))?;
        self.put(node, offset, data)
    }

    fn allocate(&self, node: Node, range: Range<u64>, keep_size: bool) -> Result<()> {
        self.require(self.options.capabilities.preallocate, "preallocation")?;
        let mut state = self.change()?;
        let data = state.writable(node)?;
        if range.is_empty() {
            return Err(Error::InvalidArgument("the range is empty"));
        }
        self.check_size(Some(range.end))?;
        let grows = !keep_size && range.end > data.len() as u64;
        self.require(!state.face(node)?.integrity, "clusters taken ahead for files with integrity")?;
        drop(state);
        if grows { self.rewrite(node, |file| file.resize(range.end as usize, 0)) } else { Ok(()) }
    }

    fn punch(&self, node: Node, range: Range<u64>) -> Result<()> {
        self.require(self.options.capabilities.sparse, "holes in files")?;
        self.change()?.writable(node)?;
        if range.is_empty() {
            return Err(Error::InvalidArgument("the range is empty"));
        }
        self.rewrite(node, |file| {
            let end = range.end.min(file.len() as u64) as usize;
            let start = range.start.min(end as u64) as usize;
            file[start..end].fill(0);
        })
    }

    fn extents_in(&self, node: Node, range: Range<u64>) -> Result<Vec<Extent>> {
        let length = self.lock().object(node)?.file()?.len() as u64;
        let whole = Extent { offset: 0, length, place: Place::Resident };
        Ok(whole.within(&range).into_iter().collect())
    }

    fn streams(&self) -> Result<&dyn Streams> {
        self.require(self.options.capabilities.streams, "named streams")?;
        Ok(self)
    }

    fn extended_attributes(&self) -> Result<&dyn ExtendedAttributes> {
        self.require(self.options.capabilities.extended_attributes, "extended attributes")?;
        Ok(self)
    }

    fn integrity(&self) -> Result<&dyn IntegrityStreams> {
        self.require(self.options.capabilities.integrity, "integrity streams")?;
        Ok(self)
    }

    fn sync(&self, node: Node, _scope: SyncScope) -> Result<()> {
        self.lock().object(node).map(|_| ())
    }

    fn sync_all(&self) -> Result<()> {
        Ok(())
    }

    fn unmount(&self) -> Result<()> {
        self.lock().unmounted = true;
        Ok(())
    }
}

impl Names for MemoryFileSystem {
    fn lookup(&self, directory: Node, name: &Name) -> Result<Node> {
        self.lookup_by(directory, name, self.case())
    }

    fn lookup_exact(&self, directory: Node, name: &Name) -> Result<Node> {
        self.lookup_by(directory, name, CaseRule::Sensitive)
    }

    fn forget(&self, node: Node, count: u64) {
        let mut state = self.lock();
        if let Ok(object) = state.object_mut(node)
            && node != Node::ROOT
        {
            object.handed_out = object.handed_out.saturating_sub(count);
            state.reap(node);
        }
    }

    fn make(&self, directory: Node, name: &Name, new: &NewEntry<'_>) -> Result<Node> {
        new.check()?;
        if !new.extended.is_empty() {
            self.require(self.options.capabilities.extended_attributes, "extended attributes")?;
        }
        let content = match (new.kind, new.point) {
            (Kind::SymbolicLink, Some(point)) => {
                self.require(self.options.capabilities.symbolic_links, "symbolic links")?;
                NodeContent::Link(reparse::target(point)?)
            }
            (_, Some(_)) => return Err(self.unsupported_error("reparse points")),
            (Kind::Directory, None) => NodeContent::Directory { parent: directory, slots: Vec::new() },
            (_, None) => NodeContent::File(Vec::new()),
        };
        self.add_entry(directory, name, content, new.extended)
    }

    fn unlink(&self, directory: Node, name: &Name) -> Result<()> {
        self.remove_entry(directory, name, |object| match object.kind() {
            Kind::Directory => Err(Error::IsADirectory),
            _ => Ok(()),
        })
    }

    fn rmdir(&self, directory: Node, name: &Name) -> Result<()> {
        self.remove_entry(directory, name, |object| match object.slots()?.is_empty() {
            true => Ok(()),
            false => Err(Error::NotEmpty),
        })
    }

    fn rename(&self, from: Node, name: &Name, to: Node, new_name: &Name, flags: RenameFlags) -> Result<()> {
        let now = self.stamp();
        let case = self.case();
        let mut state = self.change()?;
        if flags == RenameFlags::Exchange {
            self.require(self.options.capabilities.exchange, "exchange of two entries")?;
        }
        let source = state.slot(from, name, case)?;
        state.living_directory(to)?;
        self.options.capabilities.names.check_moved(name, new_name)?;
        let moved = state.object(source.node)?.kind();
        if moved == Kind::Directory && state.is_inside(to, source.node)? {
            return Err(Error::IntoItself);
        }
        let target = state.slot(to, new_name, case).ok();
        match (flags, &target) {
            (RenameFlags::Exchange, None) => return Err(Error::NotFound),
            (RenameFlags::Exchange, Some(target)) => {
                if target.node == source.node {
                    return Ok(());
                }
                if state.object(target.node)?.kind() == Kind::Directory
                    && state.is_inside(from, target.node)?
                {
                    return Err(Error::IntoItself);
                }
                for (directory, cursor, node) in
                    [(from, source.cursor, target.node), (to, target.cursor, source.node)]
                {
                    let slots = state.object_mut(directory)?.slots_mut()?;
                    slots.iter_mut().find(|slot| slot.cursor == cursor).expect("found above").node = node;
                    if let NodeContent::Directory { parent, .. } = &mut state.object_mut(node)?.content {
                        *parent = directory;
                    }
                    state.object_mut(directory)?.modified = now;
                }
                return Ok(());
            }
            // The target is the entry itself: its name changes in case, or there is nothing to do.
            (_, Some(target)) if target.cursor == source.cursor => {
                if source.name == *new_name {
                    return Ok(());
                }
            }
            (RenameFlags::NoReplace, Some(_)) => return Err(Error::Exists),
            // POSIX: a rename between two names of one file leaves both.
            (_, Some(target)) if target.node == source.node => return Ok(()),
            // Who names a file in another spelling may not know that it is there.
            (_, Some(target)) if target.name != *new_name => return Err(Error::Exists),
            (_, Some(target)) => {
                let object = state.object(target.node)?;
                match (moved, object.kind()) {
                    (Kind::Directory, Kind::Directory) if !object.slots()?.is_empty() => {
                        return Err(Error::NotEmpty);
                    }
                    (Kind::Directory, Kind::Directory) => {}
                    (Kind::Directory, _) => return Err(Error::NotADirectory),
                    (_, Kind::Directory) => return Err(Error::IsADirectory),
                    _ => {}
                }
                object.deletable()?;
                state.remove(to, target.cursor)?;
                state.unname(target.node)?;
            }
            (_, None) => {}
        }
        state.remove(from, source.cursor)?;
        state.insert(to, new_name, source.node, case)?;
        state.object_mut(from)?.modified = now;
        state.object_mut(to)?.modified = now;
        Ok(())
    }

    fn link(&self, node: Node, directory: Node, name: &Name) -> Result<()> {
        self.require(self.options.capabilities.hard_links, "hard links")?;
        let now = self.stamp();
        let mut state = self.change()?;
        state.living_directory(directory)?;
        self.options.capabilities.names.check(name)?;
        let object = state.object(node)?;
        if object.kind() == Kind::Directory {
            return Err(Error::IsADirectory);
        }
        if object.links == 0 {
            return Err(Error::NotFound);
        }
        if object.part_of.is_some() {
            return Err(Error::InvalidArgument("a named stream has no names of its own"));
        }
        if state.find(directory, name, self.case())?.is_some() {
            return Err(Error::Exists);
        }
        state.insert(directory, name, node, self.case())?;
        state.object_mut(node)?.links += 1;
        state.object_mut(directory)?.modified = now;
        Ok(())
    }

    fn read_link(&self, node: Node) -> Result<String> {
        self.require(self.options.capabilities.symbolic_links, "symbolic links")?;
        match &self.lock().object(node)?.content {
            NodeContent::Link(target) => Ok(target.clone()),
            _ => Err(Error::InvalidArgument("not a symbolic link")),
        }
    }

    fn read_directory(
        &self,
        directory: Node,
        cursor: Cursor,
        most: usize,
        entries: &mut Vec<Entry>,
    ) -> Result<()> {
        let state = self.lock();
        for slot in state.object(directory)?.slots()?.iter().filter(|slot| slot.cursor > cursor.0).take(most)
        {
            let attributes = self.attributes_of(&state, slot.node)?;
            let (name, node) = (slot.name.clone(), Some(slot.node));
            entries.push(Entry { name, node, attributes, next: Cursor(slot.cursor) });
        }
        Ok(())
    }

    fn parent(&self, directory: Node) -> Result<Node> {
        match &self.lock().object(directory)?.content {
            NodeContent::Directory { parent, .. } => Ok(*parent),
            _ => Err(Error::NotADirectory),
        }
    }
}

impl Transfers for MemoryFileSystem {
    fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    fn plan_read(&self, node: Node, offset: u64, length: usize, plan: &mut Plan) -> Result<()> {
        self.check_aligned(offset, length)?;
        let state = self.lock();
        let size = state.object(node)?.file()?.len() as u64;
        plan.start(node.0, offset, size.saturating_sub(offset).min(length as u64) as usize);
        Ok(())
    }

    fn finish_read(
        &self,
        plan: &mut Plan,
        buffer: &mut [u8],
        done: platter_device::Result<()>,
    ) -> Result<usize> {
        done?;
        let state = self.lock();
        let data = state.object(Node(plan.node))?.file()?;
        let start = (plan.offset as usize).min(data.len());
        let length = plan.length.min(data.len() - start);
        buffer[..length].copy_from_slice(&data[start..start + length]);
        Ok(length)
    }

    fn plan_write(&self, node: Node, offset: u64, data: &[u8], plan: &mut Plan) -> Result<()> {
        self.check_aligned(offset, data.len())?;
        let mut state = self.change()?;
        state.writable(node)?;
        self.check_size(offset.checked_add(data.len() as u64))?;
        plan.start(node.0, offset, data.len());
        Ok(())
    }

    fn finish_write(&self, plan: &mut Plan, data: &[u8], done: platter_device::Result<()>) -> Result<bool> {
        done?;
        // Whether the file may be written was checked when the write was planned.
        self.put(Node(plan.node), plan.offset, data)?;
        Ok(true)
    }
}

impl Streams for MemoryFileSystem {
    fn list(&self, node: Node) -> Result<Vec<NodeStream>> {
        let state = self.lock();
        let streams = &state.object(node)?.streams;
        streams
            .iter()
            .map(|(name, stream)| {
                let size = state.object(*stream)?.file()?.len() as u64;
                Ok(NodeStream { name: name.clone(), size })
            })
            .collect()
    }

    fn open(&self, node: Node, name: &Name, create: bool) -> Result<Node> {
        let now = self.stamp();
        let case = self.case();
        let mut state = self.lock();
        if state.object(node)?.part_of.is_some() {
            return Err(Error::InvalidArgument("a named stream has no streams of its own"));
        }
        let folded = name.folded(case);
        let known = state.object(node)?.streams.iter().find(|(known, _)| known.folded(case) == folded);
        let stream = match known {
            Some((_, stream)) => *stream,
            None if !create => return Err(Error::NotFound),
            None => {
                NameRules::STREAM.check(name)?;
                drop(state);
                state = self.change()?;
                let mut stream = Object::new(NodeContent::File(Vec::new()), now);
                stream.part_of = Some(node);
                let stream = state.add(stream);
                state.object_mut(node)?.streams.push((name.clone(), stream));
                stream
            }
        };
        state.object_mut(stream)?.handed_out += 1;
        Ok(stream)
    }

    fn remove(&self, node: Node, name: &Name) -> Result<()> {
        let case = self.case();
        let mut state = self.change()?;
        let folded = name.folded(case);
        let streams = &mut state.object_mut(node)?.streams;
        let index =
            streams.iter().position(|(known, _)| known.folded(case) == folded).ok_or(Error::NotFound)?;
        let (_, stream) = streams.remove(index);
        let face = state.face(stream)?;
        let (flags, times) = (face.flags, [face.created, face.modified, face.accessed]);
        let integrity = face.integrity;
        state.object_mut(stream)?.stands_alone(&flags, times);
        state.object_mut(stream)?.integrity = integrity;
        state.unname(stream)
    }
}

impl ExtendedAttributes for MemoryFileSystem {
    fn list(&self, node: Node) -> Result<Vec<String>> {
        Ok(self.lock().object(node)?.extended.keys().cloned().collect())
    }

    fn get(&self, node: Node, name: &str) -> Result<Vec<u8>> {
        self.lock().object(node)?.extended.get(name).cloned().ok_or(Error::NotFound)
    }

    fn set_several(&self, node: Node, changes: &[(&str, Option<&[u8]>)]) -> Result<()> {
        let mut state = self.change()?;
        if state.object(node)?.part_of.is_some() {
            return Err(Error::InvalidArgument("a named stream has no extended attributes"));
        }
        let mut all = state.object(node)?.extended.clone();
        for &(name, value) in changes {
            match value {
                Some(value) => drop(all.insert(name.into(), value.into())),
                None => drop(all.remove(name).ok_or(Error::NotFound)?),
            }
        }
        state.object_mut(node)?.extended = all;
        Ok(())
    }
}

impl IntegrityStreams for MemoryFileSystem {
    fn get(&self, node: Node) -> Result<Integrity> {
        Ok(Integrity { enabled: self.lock().face(node)?.integrity, enforced: true })
    }

    fn set_watched(&self, node: Node, integrity: Integrity, _watch: &dyn Progress) -> Result<()> {
        let mut state = self.change()?;
        let object = state.object_mut(node)?;
        if object.part_of.is_some() {
            return Err(Error::InvalidArgument("a named stream has the integrity of its file"));
        }
        object.integrity = integrity.enabled;
        Ok(())
    }

    fn scrub(&self, _options: &ScrubOptions) -> Result<ScrubReport> {
        Err(self.unsupported_error("checksums to scrub"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_device::{MemoryDevice, Sectors};

    fn system(options: MemoryOptions) -> MemoryFileSystem {
        MemoryFileSystem::new(Arc::new(MemoryDevice::new(4096, Sectors::SMALL)), options)
    }

    #[test]
    fn names_fold_and_a_removed_file_stays_while_it_is_held() {
        let system = system(MemoryOptions::default());
        let file = system.create(Node::ROOT, &"Readme.txt".into(), Kind::File).unwrap();
        system.write(file, 3, b"abc").unwrap();
        assert_eq!(system.lookup(Node::ROOT, &"README.TXT".into()).unwrap(), file);
        assert_eq!(system.lookup_exact(Node::ROOT, &"Readme.txt".into()).unwrap(), file);
        assert!(matches!(system.lookup_exact(Node::ROOT, &"README.TXT".into()), Err(Error::NotFound)));
        assert!(matches!(system.create(Node::ROOT, &"readme.TXT".into(), Kind::File), Err(Error::Exists)));
        system.unlink(Node::ROOT, &"readme.txt".into()).unwrap();
        let mut content = [9; 8];
        assert_eq!(system.read(file, 0, &mut content).unwrap(), 6);
        assert_eq!(&content[..6], b"\0\0\0abc");
        system.forget(file, 3);
        assert!(matches!(system.attributes(file), Err(Error::NotFound)));
    }

    #[test]
    fn a_directory_does_not_move_into_itself() {
        let system = system(MemoryOptions::default());
        let outer = system.create(Node::ROOT, &"outer".into(), Kind::Directory).unwrap();
        let inner = system.create(outer, &"inner".into(), Kind::Directory).unwrap();
        let moved = system.rename(Node::ROOT, &"outer".into(), inner, &"x".into(), RenameFlags::Replace);
        assert!(matches!(moved, Err(Error::IntoItself)));
        assert!(matches!(system.rmdir(Node::ROOT, &"outer".into()), Err(Error::NotEmpty)));
        system.rename(outer, &"inner".into(), Node::ROOT, &"inner".into(), RenameFlags::Replace).unwrap();
        assert_eq!(system.parent(inner).unwrap(), Node::ROOT);
        assert_eq!(system.path(inner).unwrap(), ["inner".into()]);
    }

    #[test]
    fn what_the_capabilities_lack_is_refused() {
        let mut options = MemoryOptions::default();
        options.capabilities.hard_links = false;
        options.capabilities.modified_precision = Duration::from_secs(2);
        options.capabilities.largest_file = 10;
        let system = system(options);
        let file = system.create(Node::ROOT, &"f".into(), Kind::File).unwrap();
        assert!(matches!(system.link(file, Node::ROOT, &"g".into()), Err(Error::Unsupported { .. })));
        assert!(matches!(system.write(file, 8, b"abc"), Err(Error::FileTooLarge { wanted: 11, .. })));
        let time = Timestamp { seconds: 1001, nanoseconds: 5 };
        let change = Change { modified: Some(time), ..Change::default() };
        let now = system.set_attributes(file, &change).unwrap();
        assert_eq!(now.modified, Timestamp { seconds: 1000, nanoseconds: 0 });
    }
}
