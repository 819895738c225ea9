//! A volume's metadata in memory: the roots, the trees of its objects, and the nodes in use. Everything here happens
//! under one lock; file data does not pass through it.
//!
//! Rows of trees are changed at once, in memory. What is known of a node in use (times, sizes, extents) stays with the
//! node, and goes to its row when a commit *gathers*.

use crate::attributes;
use crate::batch::Batch;
use crate::bulk::Bulk;
use crate::geometry::Geometry;
use crate::layout::bytes::put;
use crate::layout::record::{self, key};
use crate::layout::{Attribute, Checkpoint, ObjectRow, Record, Root, ShortEntry, Superblock};
use crate::pages::Pages;
use crate::ranges::Ranges;
use crate::shares::Shares;
use crate::space::{Run, Tier};
use crate::stream::{self, Content, Limits, Snapshot, Stream, StreamState};
use crate::tree::{Order, Tree};
use platter_device::Device;
use platter_vfs::{Error, Kind, Listings, Name, Node, Result};
use std::collections::{BTreeSet, HashMap};
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
pub enum Place {
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
    pub place: Place,
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

    /// The streams of its own data and of the named ones.
    pub fn all_streams(&self) -> impl Iterator<Item = &Arc<Stream>> {
        self.stream.iter().chain(self.named.iter().map(|named| &named.stream))
    }

    /// When its data was last written, if that is not in the record yet.
    pub fn written(&self) -> Option<u64> {
        let touched = self.all_streams().filter(|stream| stream.touched.load(Ordering::SeqCst));
        touched.map(|stream| stream.modified.load(Ordering::SeqCst)).max()
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
    changed_objects: BTreeSet<u64>,
    next_object: u64,
    entities: HashMap<u64, Entity>,
    ids: HashMap<Id, u64>,
    next_node: u64,
    changed: BTreeSet<u64>,
    /// Whether anything changed since the last commit.
    pub news: bool,
    /// Whether its log holds, or may hold, what the checkpoint does not.
    pub is_dirty: bool,
    /// Why nothing may be written, if so.
    pub frozen: Option<String>,
    /// Whether that is because a write failed.
    pub failed: bool,
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
            changed_objects: BTreeSet::new(),
            next_object: FIRST_OBJECT,
            entities: HashMap::new(),
            ids,
            next_node: Node::ROOT.0 + 1,
            changed: BTreeSet::new(),
            news: false,
            is_dirty: false,
            frozen: None,
            failed: false,
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
        match &self.frozen {
            Some(reason) => Err(Error::ReadOnly(reason.clone())),
            None => self.whole(),
        }
    }

    /// Refuses to go on from a change that failed half-way.
    fn whole(&self) -> Result<()> {
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

    // Objects

    /// Finds out the highest object number in use.
    pub fn find_last_object(&mut self) -> Result<()> {
        let mut last = FIRST_OBJECT - 1;
        let (tree, pages) = self.root(Root::Objects);
        let from = ObjectRow::key(FIRST_OBJECT);
        tree.scan(pages, &from, |row| {
            last = last.max(crate::layout::bytes::u64_at(row.key, 8));
            Ok(true)
        })?;
        // Numbers are never given out twice, so those of removed objects count too.
        let (tree, pages) = self.root(Root::Objects);
        let given =
            tree.extra(pages)?.get(0x10..0x18).map_or(0, |bytes| crate::layout::bytes::u64_at(bytes, 0));
        self.next_object = last.max(given.min(1 << 62)) + 1;
        Ok(())
    }

    /// The object of this number, opened if it is not.
    pub fn object(&mut self, number: u64) -> Result<&mut Object> {
        if !self.objects.contains_key(&number) {
            let (tree, pages) = self.root(Root::Objects);
            let row = tree
                .get(pages, &ObjectRow::key(number), |row| ObjectRow::from_bytes(row.value, 0))?
                .transpose()?;
            let row = row.ok_or(Error::NotFound)?;
            let order = match number {
                ROOT_DIRECTORY | FIRST_OBJECT.. | 0x520 => self.order(),
                0x530 => Order::SecondWord,
                _ => Order::Words,
            };
            let tree = Tree::open(number, order, Tier::Medium, row.root);
            self.objects.insert(number, Object { tree, last_child: row.last_child });
        }
        Ok(self.objects.get_mut(&number).expect("there now"))
    }

    /// An object's tree, with the pages, to be read.
    pub fn tree(&mut self, number: u64) -> Result<(&Tree, &mut Pages)> {
        self.object(number)?;
        Ok((&self.objects[&number].tree, &mut self.pages))
    }

    /// An object's tree, with the pages, to be changed.
    pub fn tree_mut(&mut self, number: u64) -> Result<(&mut Tree, &mut Pages)> {
        self.object(number)?;
        self.changed_objects.insert(number);
        self.news = true;
        let object = self.objects.get_mut(&number).expect("opened");
        Ok((&mut object.tree, &mut self.pages))
    }

    /// Makes an object with an empty tree.
    pub fn add_object(
        &mut self,
        number: u64,
        schema: u32,
        order: Order,
        extra: usize,
        kind: u16,
        last_child: Option<u64>,
    ) -> Result<()> {
        let tree = Tree::create(&mut self.pages, number, schema, order, Tier::Medium, &vec![0; extra], kind)?;
        self.objects.insert(number, Object { tree, last_child });
        self.pages.edits += 1;
        self.changed_objects.insert(number);
        self.news = true;
        Ok(())
    }

    /// The number for a new object.
    pub fn new_object_number(&mut self) -> u64 {
        self.next_object += 1;
        self.next_object - 1
    }

    /// Removes an object and its tree.
    pub fn remove_object(&mut self, number: u64) -> Result<()> {
        self.object(number)?;
        let object = self.objects.remove(&number).expect("opened");
        self.changed_objects.remove(&number);
        object.tree.destroy(&mut self.pages)?;
        for root in [Root::Objects, Root::ObjectsCopy] {
            let (tree, pages) = self.root(root);
            tree.remove(pages, &ObjectRow::key(number))?;
        }
        self.news = true;
        Ok(())
    }

    /// The number for a new child of a directory.
    pub fn new_ordinal(&mut self, directory: u64) -> Result<u64> {
        self.tree_mut(directory)?;
        let object = self.objects.get_mut(&directory).expect("opened");
        let last = object.last_child.get_or_insert(1);
        *last += 1;
        Ok(*last)
    }

    /// Makes sure that the volume knows a security descriptor, and returns the identifier that it has there. Of several
    /// with one hash each has a number of its own.
    pub fn provide_security(&mut self, descriptor: &[u8]) -> Result<u64> {
        /// Descriptors with one hash.
        const MOST: u64 = 1 << 16;
        let first = crate::system::security_id(descriptor);
        for number in 0..MOST {
            let id = first + (number << 32);
            match self.security_descriptor(id)? {
                Some(known) if known == descriptor => return Ok(id),
                Some(_) => {}
                None => {
                    let (row_key, value) = crate::system::security_row_with(id, descriptor);
                    let (tree, pages) = self.tree_mut(0x530)?;
                    tree.put(pages, &row_key, 0, &value)?;
                    return Ok(id);
                }
            }
        }
        Err(Error::NoSpace)
    }

    // Nodes in use

    /// The node of this number.
    pub fn entity(&self, node: u64) -> Result<&Entity> {
        self.entities.get(&node).ok_or(Error::NotFound)
    }

    /// Refuses changes of a node that may only be read.
    pub fn changeable(&self, node: u64) -> Result<()> {
        match self.entity(node)?.only_read {
            Some(why) => Err(Error::NotPermitted(why)),
            None => Ok(()),
        }
    }

    /// The node of this number, to be changed: it will be stored at the next commit.
    pub fn entity_mut(&mut self, node: u64) -> Result<&mut Entity> {
        self.changeable(node)?;
        self.changed.insert(node);
        self.news = true;
        self.entities.get_mut(&node).ok_or(Error::NotFound)
    }

    /// Has a node stored at the next commit.
    pub fn mark(&mut self, node: u64) {
        self.news = true;
        if !self.changed.contains(&node) && self.entities.contains_key(&node) {
            self.changed.insert(node);
        }
    }

    /// The directory whose number the pages of a node's extents carry.
    pub fn table_of(&self, node: u64) -> u64 {
        match self.entities.get(&node).map(|entity| (entity.id, &entity.place)) {
            Some((Id::File(home, _) | Id::Directory(home), _)) => home,
            Some((_, Place::Part { of })) if *of != node => self.table_of(*of),
            _ => ROOT_DIRECTORY,
        }
    }

    /// The node of this number, to be changed in what is not on disk.
    pub fn entity_held(&mut self, node: u64) -> Result<&mut Entity> {
        self.entities.get_mut(&node).ok_or(Error::NotFound)
    }

    /// The node number of what is on disk, if it is in use.
    pub fn node_of(&self, id: Id) -> Option<u64> {
        self.ids.get(&id).copied().filter(|node| self.entities.contains_key(node))
    }

    /// The object number of a directory.
    pub fn directory(&self, node: Node) -> Result<u64> {
        let entity = self.entity(node.0)?;
        match (entity.id, entity.kind()) {
            (Id::Directory(object), Kind::Directory) => Ok(object),
            _ => Err(Error::NotADirectory),
        }
    }

    /// A directory that still has a name: entries cannot be put into one that was removed.
    pub fn living_directory(&self, node: Node) -> Result<u64> {
        let object = self.directory(node)?;
        if self.entity(node.0)?.place == Place::Nowhere { Err(Error::NotFound) } else { Ok(object) }
    }

    /// A living directory whose entries can be changed.
    pub fn changeable_directory(&self, node: Node) -> Result<u64> {
        self.changeable(node.0)?;
        self.living_directory(node)
    }

    /// Takes a node into use.
    pub fn insert(&mut self, entity: Entity, number: Option<u64>) -> u64 {
        let node = number.unwrap_or_else(|| {
            self.next_node += 1;
            self.next_node - 1
        });
        self.ids.insert(entity.id, node);
        self.entities.insert(node, entity);
        node
    }

    /// The number that the next node will get.
    pub fn next_node(&mut self) -> u64 {
        self.next_node += 1;
        self.next_node - 1
    }

    /// Gives a node another identity.
    pub fn rename_id(&mut self, node: u64, id: Id) {
        if let Some(entity) = self.entities.get_mut(&node) {
            self.ids.remove(&entity.id);
            entity.id = id;
            self.ids.insert(id, node);
        }
    }

    /// Gives a file a number in another directory, which its pages carry from now on, and returns it.
    pub fn rehome(&mut self, node: u64, home: u64) -> Result<u64> {
        let ordinal = self.new_ordinal(home)?;
        let entity = self.entity(node)?;
        let (record, id) = (entity.record.clone(), entity.id);
        self.index_reparse(&record, id, false)?;
        self.index_reparse(&record, Id::File(home, ordinal), true)?;
        self.rename_id(node, Id::File(home, ordinal));
        let entity = self.entity_mut(node)?;
        entity.record.ordinal = ordinal;
        let streams: Vec<Arc<Stream>> = entity.all_streams().cloned().collect();
        streams.iter().try_for_each(|stream| self.move_stream(stream, home))?;
        Ok(ordinal)
    }

    /// Opens a directory.
    pub fn open_directory(&mut self, object: u64) -> Result<u64> {
        if let Some(node) = self.node_of(Id::Directory(object)) {
            return Ok(node);
        }
        let (tree, pages) = self.tree(object)?;
        let record = tree.get(pages, &key::OWN, |row| Record::from_bytes(row.value, 0))?.transpose()?;
        let mut record =
            record.ok_or_else(|| Error::damaged("directory", 0, "a row of its own record", "none"))?;
        let found = stream::take_streams(&mut record, &mut self.pages, object)?;
        let only_read = found.only_read;
        let named = self.open_named(found, &record);
        let link = record.rows.iter().find(|row| row.kind() == record::OBJECT_LINK);
        let (above, name) = link.map(object_link).unwrap_or((ROOT_DIRECTORY, Vec::new()));
        let number = (object == ROOT_DIRECTORY).then_some(Node::ROOT.0);
        let place = Place::Directory { above, name };
        let id = Id::Directory(object);
        let entity = Entity { id, place, record, stream: None, named, handed_out: 0, only_read };
        Ok(self.insert(entity, number))
    }

    /// Takes the root directory into use although its record cannot be read: what other pages have of it can be.
    pub fn open_root_without_record(&mut self) {
        let id = Id::Directory(ROOT_DIRECTORY);
        let place = Place::Directory { above: ROOT_DIRECTORY, name: Vec::new() };
        let record = Record::new(0x1F0, 0, Record::DIRECTORY, 0);
        let only_read = Some("its own record is damaged");
        let entity = Entity { id, place, record, stream: None, named: Vec::new(), handed_out: 0, only_read };
        self.insert(entity, Some(Node::ROOT.0));
    }

    /// Opens a file whose record this is.
    pub fn open_file(&mut self, id: Id, place: Place, mut record: Record) -> Result<u64> {
        if let Some(node) = self.node_of(id) {
            return Ok(node);
        }
        let table = match (id, &place) {
            (_, Place::Long { directory, .. }) => *directory,
            (Id::File(home, _), _) => home,
            _ => return Err(Error::NotFound),
        };
        let mut found = stream::take_streams(&mut record, &mut self.pages, table)?;
        let only_read = found.only_read;
        let node = self.next_node();
        let read_only = record.attributes & 1 != 0;
        let integrity = record.attributes & Record::INTEGRITY != 0;
        let own = found.own.take().unwrap_or_else(|| StreamState::empty(integrity));
        let state = StreamState { shared: self.shares.any, ..own };
        let limits = Limits { unreadable: attributes::unreadable(&record), only_read };
        let stream = Some(Arc::new(Stream::new(node, state, read_only, limits)));
        let is_link = attributes::is_link(record.reparse);
        stream.iter().for_each(|stream| stream.is_link.store(is_link, Ordering::SeqCst));
        let named = self.open_named(found, &record);
        let entity = Entity { id, place, record, stream, named, handed_out: 0, only_read };
        Ok(self.insert(entity, Some(node)))
    }

    fn open_named(&mut self, found: stream::Found, record: &Record) -> Vec<Named> {
        let read_only = record.attributes & 1 != 0;
        // All streams of an encrypted file are; what else keeps content elsewhere does so for the file's own data.
        let unreadable = attributes::is_encrypted(record).then(|| attributes::unreadable(record)).flatten();
        let open = |one: stream::FoundStream| {
            let node = self.next_node();
            let kept = one.snapshot.as_ref().map(|_| Snapshot::KEPT);
            let limits = Limits { unreadable, only_read: found.only_read.or(kept) };
            let state = StreamState { shared: self.shares.any, ..one.state };
            let stream = Arc::new(Stream::new(node, state, read_only, limits));
            Named { name: one.name, node, stream, snapshot: one.snapshot }
        };
        found.named.into_iter().map(open).collect()
    }

    /// Brings the index of reparse points up to date: a file with this record appears at, or goes from, its number.
    pub fn index_reparse(&mut self, record: &Record, id: Id, is_there: bool) -> Result<()> {
        let (Id::File(directory, ordinal), true) = (id, record.reparse != 0) else { return Ok(()) };
        self.index_point(record.reparse, ordinal, directory, is_there)
    }

    fn index_point(&mut self, tag: u32, ordinal: u64, directory: u64, is_there: bool) -> Result<()> {
        let (row_key, value) = crate::system::reparse_row(tag, ordinal, directory);
        for object in [0x540, 0x541] {
            let (tree, pages) = self.tree_mut(object)?;
            match is_there {
                true => tree.put(pages, &row_key, 0, &value)?,
                false => tree.remove(pages, &row_key)?,
            };
        }
        Ok(())
    }

    /// Takes a directory that is a reparse point out of their index, in whichever of its two forms it is there: by its
    /// number in the directory above, or by its own object.
    pub fn unindex_directory(&mut self, node: u64, ordinal: u64, above: u64) -> Result<()> {
        let entity = self.entity(node)?;
        let (tag, own) = (entity.record.reparse, entity.record.ordinal);
        let Id::Directory(object) = entity.id else { return Ok(()) };
        if tag == 0 {
            return Ok(());
        }
        [(ordinal, above), (0, object), (own, object)]
            .into_iter()
            .try_for_each(|(ordinal, directory)| self.index_point(tag, ordinal, directory, false))
    }

    /// Takes the row out that leads from a number to a name or directory. Platter does not write such rows, and those of
    /// Windows must not lead to what is gone.
    pub fn forget_number(&mut self, directory: u64, ordinal: u64) -> Result<()> {
        let row_key = key::number(ordinal);
        let (tree, pages) = self.tree(directory)?;
        if tree.get(pages, &row_key, |_| ())?.is_some() {
            let (tree, pages) = self.tree_mut(directory)?;
            tree.remove(pages, &row_key)?;
        }
        Ok(())
    }

    /// The security descriptor with this identifier.
    pub fn security_descriptor(&mut self, id: u64) -> Result<Option<Vec<u8>>> {
        let mut from = vec![0; 16];
        put(&mut from, 0x08, (id >> 32) as u32);
        put(&mut from, 0x0C, id as u32);
        let mut found = None;
        let (tree, pages) = self.tree(0x530)?;
        tree.scan(pages, &from, |row| {
            let known = crate::system::read_security_row(row.key, row.value);
            found = known.filter(|(other, _)| *other == id).map(|(_, descriptor)| descriptor.to_vec());
            Ok(false)
        })?;
        Ok(found)
    }

    /// Gives back hand-outs. A node that nobody holds and that needs nothing stored is forgotten.
    pub fn let_go(&mut self, node: u64, count: u64) -> Result<()> {
        let Some(entity) = self.entities.get_mut(&node) else { return Ok(()) };
        entity.handed_out = entity.handed_out.saturating_sub(count);
        self.forget_idle(node)
    }

    /// Forgets a node if nothing needs it.
    pub fn forget_idle(&mut self, node: u64) -> Result<()> {
        let Some(entity) = self.entities.get(&node) else { return Ok(()) };
        if entity.handed_out > 0 || node == Node::ROOT.0 {
            return Ok(());
        }
        if let Place::Part { of } = entity.place {
            let busy = entity.stream.as_ref().is_some_and(|stream| !stream.is_quiet());
            if busy || self.changed.contains(&node) {
                entity.stream.iter().for_each(|stream| stream.is_forgotten.store(true, Ordering::SeqCst));
                return Ok(());
            }
            let entity = self.entities.remove(&node).expect("seen just now");
            self.ids.remove(&entity.id);
            if entity.written().is_some() {
                self.mark(of);
            }
            return self.forget_idle(of);
        }
        let parts_in_use = entity.named.iter().any(|named| self.entities.contains_key(&named.node));
        let mut busy = false;
        for stream in entity.all_streams() {
            if !stream.is_quiet() {
                stream.is_forgotten.store(true, Ordering::SeqCst);
                busy = true;
            }
            busy |= stream.touched.load(Ordering::SeqCst) && entity.place != Place::Nowhere;
        }
        if parts_in_use || busy {
            return Ok(());
        }
        if entity.place == Place::Nowhere {
            let entity = self.entities.remove(&node).expect("seen just now");
            self.ids.remove(&entity.id);
            self.changed.remove(&node);
            for stream in entity.all_streams() {
                self.release_stream(stream)?;
            }
            return Ok(());
        }
        if !self.changed.contains(&node) {
            let entity = self.entities.remove(&node).expect("seen just now");
            self.ids.remove(&entity.id);
        }
        Ok(())
    }

    // Clusters

    /// The run of clusters from a virtual one on.
    pub fn run(&self, cluster: u64, count: u32) -> Result<Run> {
        let geometry = self.geometry();
        let (container, start) = geometry.split(cluster);
        let index = container.wrapping_sub(crate::geometry::ContainerMap::FIRST);
        if index >= self.pages.map.len() as u64
            || start.checked_add(count).is_none_or(|end| end > geometry.per_container)
        {
            return Err(Error::damaged(
                "run of clusters",
                0,
                "inside a container",
                format!("{cluster:#x}+{count}"),
            ));
        }
        Ok(Run { container: index as u32, start, count })
    }

    /// The virtual number of a run's first cluster.
    pub fn cluster(&self, run: &Run) -> u64 {
        self.geometry().number(run.container, run.start)
    }

    /// Gives back all that a stream takes.
    pub fn release_stream(&mut self, stream: &Stream) -> Result<()> {
        let mut state = stream.write();
        let mut pages = std::mem::take(&mut state.pages);
        let mut gone = Vec::new();
        if let Content::Extents(extents) = &mut state.content {
            extents.load_range(&mut self.pages, 0, u32::MAX)?;
            extents.destroy(&mut self.pages, &mut pages, &mut gone)?;
        }
        state.size = 0;
        state.content = Content::Inline(Vec::new());
        let is_nameless = state.orphan;
        drop(state);
        self.park(&gone, is_nameless)
    }

    /// Has all extents of a node's streams in memory, so that what is done with all of them will not fail half-way.
    pub fn load_streams(&mut self, node: u64) -> Result<()> {
        let streams: Vec<Arc<Stream>> = self.entity(node)?.all_streams().cloned().collect();
        for stream in streams {
            if let Content::Extents(extents) = &mut stream.write().content {
                extents.load_range(&mut self.pages, 0, u32::MAX)?;
            }
        }
        Ok(())
    }

    /// Has the pages of a stream's extents written anew with the number of another directory.
    pub fn move_stream(&mut self, stream: &Stream, table: u64) -> Result<()> {
        let mut state = stream.write();
        if let Content::Extents(extents) = &mut state.content {
            extents.load_range(&mut self.pages, 0, u32::MAX)?;
            extents.forget_pages();
            extents.set_table(table);
        }
        Ok(())
    }

    /// Hides what a stream takes from the rows on disk: nothing on disk leads to it any more, but it is still in use.
    pub fn orphan_stream(&mut self, stream: &Stream) -> Result<()> {
        let mut state = stream.write();
        state.orphan = true;
        let mut runs = Vec::new();
        let pages = std::mem::take(&mut state.pages);
        if let Content::Extents(extents) = &mut state.content {
            extents.load_range(&mut self.pages, 0, u32::MAX)?;
            runs.extend(extents.iter().map(|row| (row.cluster, row.count)));
            extents.forget_pages();
        }
        drop(state);
        for page in pages {
            self.pages.free(&page, Tier::Medium)?;
        }
        self.disown(&runs)
    }

    // Commit

    /// Stores a node's record in its row.
    pub fn store_entity(&mut self, node: u64, clock: u64) -> Result<()> {
        let Some(entity) = self.entities.get_mut(&node) else { return Ok(()) };
        if let Place::Part { of } = entity.place {
            return self.store_entity(of, clock);
        }
        if entity.place == Place::Nowhere {
            return Ok(());
        }
        entity.absorb_written();
        let mut record = entity.record.clone();
        if let Some(stream) = &entity.stream {
            let mut state = stream.write();
            if attributes::is_link(record.reparse) {
                record.size = 0;
                record.allocated = 0;
            } else {
                record.size = state.size;
                record.allocated = state.allocated(&self.pages.geometry);
            }
            match state.is_sparse(&self.pages.geometry) {
                true => record.attributes |= Record::SPARSE,
                false => record.attributes &= !Record::SPARSE,
            }
            let versions = 1 + entity.named.iter().filter(|named| named.snapshot.is_some()).count() as u32;
            record.rows.extend(stream::store_data(&mut state, versions, &mut self.pages, clock)?);
            if let Content::Extents(extents) = &mut state.content
                && extents.loaded() > MOST_RUNS
            {
                extents.unload();
            }
        }
        for (index, named) in entity.named.iter().enumerate() {
            let mut state = named.stream.write();
            let pages = &mut self.pages;
            record.rows.extend(match &named.snapshot {
                Some(snapshot) => stream::store_snapshot(&mut state, &named.name, snapshot, pages, clock)?,
                None => stream::store_named(&mut state, &named.name, 0xF000 + index as u64, pages, clock)?,
            });
        }
        stream::store_counter(&mut record.rows);
        let entity = &self.entities[&node];
        let (id, place) = (entity.id, entity.place.clone());
        let value = record.to_bytes();
        match (id, place) {
            (Id::Directory(object), Place::Directory { above, name }) => {
                let (tree, pages) = self.tree_mut(object)?;
                tree.put(pages, &key::OWN, 1, &value)?;
                if object != ROOT_DIRECTORY {
                    let (tree, pages) = self.tree_mut(above)?;
                    let row = key::name(key::SHORT, &name);
                    let old =
                        tree.get(pages, &row, |row| ShortEntry::from_bytes(row.value, 0))?.transpose()?;
                    if let Some(old) = old {
                        let short = ShortEntry {
                            times: record.times,
                            attributes: record.attributes | Record::DIRECTORY,
                            ..old
                        };
                        self.put_short(above, &name, &short)?;
                    }
                }
            }
            (Id::File(..), Place::Long { directory, name }) => {
                let (tree, pages) = self.tree_mut(directory)?;
                tree.put(pages, &key::name(key::LONG, &name), 1, &value)?;
            }
            (Id::File(home, ordinal), Place::Body) => {
                let (tree, pages) = self.tree_mut(home)?;
                tree.put(pages, &key::body(ordinal, home), 1, &value)?;
                let links: Vec<(u64, Vec<u16>)> = record
                    .rows
                    .iter()
                    .filter(|row| row.kind() == record::OBJECT_LINK)
                    .map(object_link)
                    .collect();
                for (directory, name) in links {
                    self.put_short(directory, &name, &ShortEntry::of_body(home, ordinal, &record))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Puts a short entry for a name into a directory: 84 bytes from 3.10 on, 72 before.
    pub fn put_short(&mut self, directory: u64, name: &[u16], entry: &ShortEntry) -> Result<()> {
        let size = if self.geometry().version >= crate::layout::Version::V3_10 { 84 } else { 72 };
        let (tree, pages) = self.tree_mut(directory)?;
        tree.put(pages, &key::name(key::SHORT, name), 0, &entry.to_bytes(size)).map(drop)
    }

    /// How large a node's record would be, to refuse what does not fit before it is too late.
    pub fn record_fits(&self, node: u64) -> Result<()> {
        let entity = self.entity(node)?;
        let mut size = entity.record.to_bytes().len() + 256;
        for stream in entity.all_streams() {
            let state = stream.read();
            size += match &state.content {
                Content::Inline(content) => 0x80 + content.len(),
                Content::Extents(_) => 0x260,
            };
        }
        size += entity.named.iter().map(|named| 2 * named.name.len() + 16).sum::<usize>();
        if size > Tree::LARGEST_ROW { Err(Error::NoSpace) } else { Ok(()) }
    }

    /// Brings all rows up to date and collects what a commit writes. From here on, changes belong to the next one.
    pub fn gather(&mut self) -> Result<Batch> {
        self.whole()?;
        let clock = self.checkpoint.clock + 1;
        self.pages.space.prepare();
        let nodes = std::mem::take(&mut self.changed);
        for &node in &nodes {
            self.store_entity(node, clock)?;
        }
        for object in std::mem::take(&mut self.changed_objects) {
            let entry = self.objects.get_mut(&object).expect("changed objects are open");
            entry.tree.seal(&mut self.pages, clock)?;
            let row = ObjectRow {
                clock: clock as u32,
                epoch: 1,
                root: entry.tree.root,
                last_child: entry.last_child,
            };
            let value = row.to_bytes(self.pages.geometry.reference);
            for root in [Root::Objects, Root::ObjectsCopy] {
                let (tree, pages) = self.root(root);
                tree.put(pages, &ObjectRow::key(object), 0, &value)?;
            }
        }
        let last = self.next_object - 1;
        for root in [Root::Objects, Root::ObjectsCopy] {
            let (tree, pages) = self.root(root);
            if tree.extra(pages)?.get(0x10..0x18).is_some_and(|given| given != last.to_le_bytes()) {
                put(tree.extra_mut(pages)?, 0x10, last);
            }
        }
        self.store_space()?;
        for index in 0..self.roots.len() {
            self.roots[index].seal(&mut self.pages, clock)?;
            self.checkpoint.roots[index] = self.roots[index].root;
        }
        self.checkpoint.clock = clock;
        self.checkpoint.allocator_clock = clock;
        self.slot ^= 1;
        let pages = self.pages.take_dirty()?;
        self.pages.space.hand_over();
        self.shares.forget();
        self.news = false;
        let batch = Batch { pages, checkpoint: self.checkpoint_at(self.slot), clock };
        for node in nodes {
            self.forget_idle(node)?;
        }
        Ok(batch)
    }

    /// The checkpoint as it goes to a place: the offset on the device, and the bytes.
    pub fn checkpoint_at(&self, slot: usize) -> (u64, Vec<u8>) {
        let geometry = self.geometry();
        let cluster = self.superblock.checkpoints[slot];
        let sizes = (geometry.cluster as usize, geometry.page());
        (
            geometry.offset(cluster),
            self.checkpoint.to_bytes(cluster, geometry.signature, sizes, geometry.own_algorithm()),
        )
    }

    /// Writes the roots of the last commit to both places, the first one as the newest: a reader that looks at only
    /// one, whichever it is, sees the volume as it is now.
    pub fn write_both(&mut self, device: &dyn Device) -> Result<()> {
        let rounds = if self.slot == 0 { 2 } else { 1 };
        for _ in 0..rounds {
            self.checkpoint.clock += 1;
            self.slot ^= 1;
            let (offset, bytes) = self.checkpoint_at(self.slot);
            device.write_at(offset, &bytes)?;
            device.flush()?;
        }
        Ok(())
    }
}

/// Directory and name in an object link.
pub fn object_link(row: &Attribute) -> (u64, Vec<u16>) {
    let rest = row.rest();
    let name =
        rest.get(16..).unwrap_or(&[]).chunks_exact(2).map(|unit| crate::layout::bytes::u16_at(unit, 0));
    (crate::layout::bytes::u64_at(rest, 0), name.take_while(|&unit| unit != 0).collect())
}

/// The link from a record to a name: its value is the end of its key.
pub fn make_object_link(directory: u64, name: &[u16]) -> Attribute {
    let mut value = vec![0; 0x18 + 2 * name.len()];
    put(&mut value, 0x00, record::MULTIPLE);
    put(&mut value, 0x04, record::OBJECT_LINK);
    put(&mut value, 0x06, 0x0Du16);
    put(&mut value, 0x08, directory);
    name.iter().enumerate().for_each(|(index, unit)| put(&mut value, 0x18 + 2 * index, *unit));
    let mut key = (value.len() as u64).to_le_bytes().to_vec();
    key.extend_from_slice(&value);
    Attribute { key, flags: 0, value }
}

/// What makes a record a directory's: a template that is the same in all.
pub fn make_index() -> Attribute {
    let mut value = vec![0; 0x8C];
    for (index, word) in [0u32, 0x80, 0x0C, 0x30, 0x0001_0240, 0x16, 0x10, 0x70, 0x70].into_iter().enumerate()
    {
        put(&mut value, 4 * index, word);
    }
    let name: Vec<u8> = "$I30".encode_utf16().flat_map(u16::to_le_bytes).collect();
    Attribute::new(record::MULTIPLE, record::INDEX, 5, &name, 0, value)
}
