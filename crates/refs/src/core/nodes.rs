//! Nodes in use: those that were looked up and not yet forgotten, and those still to be stored.

use super::room::is_larger;
use super::{Core, Entity, Id, Named, ROOT_DIRECTORY, RecordPlace};
use crate::attributes;
use crate::layout::record::key;
use crate::layout::{Record, object_links};
use crate::stream::{self, Limits, Snapshot, Stream, StreamState};
use platter_vfs::{Error, Kind, Node, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Core {
    /// The number of the directory that stands in the pages of a node's extents.
    pub(crate) fn table_of(&self, node: u64) -> u64 {
        match self.entities.get(&node).map(|entity| (entity.id, &entity.place)) {
            Some((Id::File(home, _) | Id::Directory(home), _)) => home,
            Some((_, RecordPlace::Part { of })) if *of != node => self.table_of(*of),
            _ => ROOT_DIRECTORY,
        }
    }

    /// The node of this number, to be changed only in fields that are not stored on disk.
    pub(crate) fn entity_held(&mut self, node: u64) -> Result<&mut Entity> {
        self.entities.get_mut(&node).ok_or(Error::NotFound)
    }

    /// The node number for an identity on disk, if that node is in use.
    pub(crate) fn node_of(&self, id: Id) -> Option<u64> {
        self.ids.get(&id).copied().filter(|node| self.entities.contains_key(node))
    }

    /// The object number of a directory.
    pub(crate) fn directory(&self, node: Node) -> Result<u64> {
        let entity = self.entity(node.0)?;
        match (entity.id, entity.kind()) {
            (Id::Directory(object), Kind::Directory) => Ok(object),
            _ => Err(Error::NotADirectory),
        }
    }

    /// The object number of a directory that still has a name. Entries cannot be put into a removed one.
    pub(crate) fn living_directory(&self, node: Node) -> Result<u64> {
        let object = self.directory(node)?;
        if self.entity(node.0)?.place == RecordPlace::Nowhere { Err(Error::NotFound) } else { Ok(object) }
    }

    /// The object number of a directory that still has a name and whose entries can be changed.
    pub(crate) fn changeable_directory(&self, node: Node) -> Result<u64> {
        self.changeable(node.0)?;
        self.living_directory(node)
    }

    /// Adds a node to those in use.
    pub(crate) fn insert(&mut self, entity: Entity, node: u64) -> u64 {
        self.ids.insert(entity.id, node);
        self.entities.insert(node, entity);
        node
    }

    /// Returns a new node number, which is never used again while the volume is open.
    pub(crate) fn next_node(&mut self) -> u64 {
        self.next_node += 1;
        self.next_node - 1
    }

    /// The number that a node with this identity has, or would have if it were opened now. `None` if only opening it
    /// tells.
    pub(crate) fn known_node(&self, id: Id) -> Option<u64> {
        self.node_of(id).or_else(|| id.node().filter(|node| !self.entities.contains_key(node)))
    }

    /// Returns the number for a node that is opened. It comes from what the volume has, so that it is the same whenever
    /// the volume is opened. A node in use may have that number although it has another identity by now; then it is a
    /// number that is never used again.
    pub(crate) fn node_for(&mut self, id: Id) -> u64 {
        id.node().filter(|node| !self.entities.contains_key(node)).unwrap_or_else(|| self.next_node())
    }

    /// Gives a node another identity on disk.
    pub(crate) fn rename_id(&mut self, node: u64, id: Id) {
        if let Some(entity) = self.entities.get_mut(&node) {
            self.ids.remove(&entity.id);
            entity.id = id;
            self.ids.insert(id, node);
        }
    }

    /// Makes `home` the home directory of a file: the file gets a number there, which is returned, and the pages of its
    /// extents are written anew with the number of that directory.
    pub(crate) fn rehome(&mut self, node: u64, home: u64) -> Result<u64> {
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

    /// Opens a directory by its object number, and returns its node.
    pub(crate) fn open_directory(&mut self, object: u64) -> Result<u64> {
        if let Some(node) = self.node_of(Id::Directory(object)) {
            return Ok(node);
        }
        let (tree, pages) = self.tree(object)?;
        let record = tree.get(pages, &key::OWN, |row| Record::from_bytes(row.value, 0))?.transpose()?;
        let mut record =
            record.ok_or_else(|| Error::damaged("directory", 0, "a row of its own record", "none"))?;
        let larger = is_larger(&record, key::OWN.len());
        let mut found = stream::take_streams(&mut record, &mut self.pages, object)?;
        let cased = self.in_cased(&[object], &record);
        found.only_read = found.only_read.or(larger).or(cased);
        let only_read = found.only_read;
        let named = self.open_named(found, &record);
        let (above, name) = object_links(&record.rows).next().unwrap_or((ROOT_DIRECTORY, Vec::new()));
        let id = Id::Directory(object);
        let number = if object == ROOT_DIRECTORY { Node::ROOT.0 } else { self.node_for(id) };
        let place = RecordPlace::Directory { above, name };
        let entity = Entity { id, place, record, stream: None, named, handed_out: 0, only_read };
        Ok(self.insert(entity, number))
    }

    /// Opens the root directory although its record cannot be read: its entries in other pages can be.
    pub(crate) fn open_root_without_record(&mut self) {
        let id = Id::Directory(ROOT_DIRECTORY);
        let place = RecordPlace::Directory { above: ROOT_DIRECTORY, name: Vec::new() };
        let record = Record::new(0x1F0, 0, Record::DIRECTORY, 0);
        let only_read = Some("its own record is damaged");
        let entity = Entity { id, place, record, stream: None, named: Vec::new(), handed_out: 0, only_read };
        self.insert(entity, Node::ROOT.0);
    }

    /// Opens the file that has this record, and returns its node.
    pub(crate) fn open_file(&mut self, id: Id, place: RecordPlace, mut record: Record) -> Result<u64> {
        if let Some(node) = self.node_of(id) {
            return Ok(node);
        }
        let table = match (id, &place) {
            (_, RecordPlace::Long { directory, .. }) => *directory,
            (Id::File(home, _), _) => home,
            _ => return Err(Error::NotFound),
        };
        let row_key = match &place {
            RecordPlace::Long { name, .. } => 4 + 2 * name.len(),
            _ => key::body(0, 0).len(),
        };
        let larger = is_larger(&record, row_key);
        let mut found = stream::take_streams(&mut record, &mut self.pages, table)?;
        record.links = record.names();
        let cased = self.in_cased(&[table], &record);
        found.only_read = found.only_read.or(larger).or(cased);
        let only_read = found.only_read;
        let node = self.node_for(id);
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
        Ok(self.insert(entity, node))
    }

    /// The reason why what has this record in one of these directories is only read, if one of them, or one that has a
    /// name of it, tells names apart by case. By what numbers Windows orders such names is not sure, and a row in a wrong
    /// place would not be found.
    fn in_cased(&mut self, tables: &[u64], record: &Record) -> Option<&'static str> {
        let above: Vec<u64> = object_links(&record.rows).map(|(above, _)| above).collect();
        let is_cased = tables.iter().chain(&above).any(|&directory| self.tells_case(directory));
        is_cased.then_some("its directory tells names apart by case, and is only read")
    }

    fn open_named(&mut self, found: stream::FoundStreams, record: &Record) -> Vec<Named> {
        let read_only = record.attributes & 1 != 0;
        // In an encrypted file all streams are encrypted; other kinds of unreadable content concern only the file's own
        // data.
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

    /// Updates the reparse index: a file or directory with this record is added under its identity, or removed. That of
    /// a directory is its own object without a number, as in Windows' change journal.
    pub(crate) fn index_reparse(&mut self, record: &Record, id: Id, is_there: bool) -> Result<()> {
        let (ordinal, directory) = match id {
            Id::File(home, ordinal) => (ordinal, home),
            Id::Directory(object) => (0, object),
            _ => return Ok(()),
        };
        if record.reparse == 0 {
            return Ok(());
        }
        self.index_point(record.reparse, ordinal, directory, is_there)
    }

    fn index_point(&mut self, tag: u32, ordinal: u64, directory: u64, is_there: bool) -> Result<()> {
        let (row_key, value) = crate::layout::system::reparse_row(tag, ordinal, directory);
        for object in [0x540, 0x541] {
            let (tree, pages) = self.tree_mut(object)?;
            match is_there {
                true => tree.put(pages, &row_key, 0, &value)?,
                false => tree.remove(pages, &row_key)?,
            };
        }
        Ok(())
    }

    /// Removes a directory that is a reparse point from the reparse index, in whichever form it is there: under its own
    /// object, or under its number in the directory above.
    pub(crate) fn unindex_directory(&mut self, node: u64, ordinal: u64, above: u64) -> Result<()> {
        let entity = self.entity(node)?;
        let (tag, id, own) = (entity.record.reparse, entity.id, entity.record.ordinal);
        self.unindex_point(tag, (ordinal, above), id, own)
    }

    /// The same for a directory that had another tag. `own` is the number in its own record.
    pub(crate) fn unindex_point(&mut self, tag: u32, entry: (u64, u64), id: Id, own: u64) -> Result<()> {
        let Id::Directory(object) = id else { return Ok(()) };
        if tag == 0 {
            return Ok(());
        }
        // Without a number, that of the entry would be the identity of the directory above.
        let entry = Some(entry).filter(|(ordinal, _)| *ordinal != 0);
        [(0, object), (own, object)]
            .into_iter()
            .chain(entry)
            .try_for_each(|(ordinal, directory)| self.index_point(tag, ordinal, directory, false))
    }

    /// Gives back `count` of the callers' references to a node. A node without references and with nothing to be stored
    /// is forgotten.
    pub(crate) fn let_go(&mut self, node: u64, count: u64) -> Result<()> {
        let Some(entity) = self.entities.get_mut(&node) else { return Ok(()) };
        entity.handed_out = entity.handed_out.saturating_sub(count);
        self.forget_idle(node)
    }

    /// Forgets a node if it is no longer needed.
    pub(crate) fn forget_idle(&mut self, node: u64) -> Result<()> {
        let Some(entity) = self.entities.get(&node) else { return Ok(()) };
        if entity.handed_out > 0 || node == Node::ROOT.0 {
            return Ok(());
        }
        if let RecordPlace::Part { of } = entity.place {
            let busy = entity.stream.as_ref().is_some_and(|stream| !stream.is_quiet());
            if busy || self.changed.has(node) {
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
            busy |= stream.touched.load(Ordering::SeqCst) && entity.place != RecordPlace::Nowhere;
        }
        if parts_in_use || busy {
            return Ok(());
        }
        if entity.place == RecordPlace::Nowhere {
            let entity = self.entities.remove(&node).expect("seen just now");
            self.ids.remove(&entity.id);
            self.changed.forget(node);
            for stream in entity.all_streams() {
                self.release_stream(stream)?;
            }
            return Ok(());
        }
        if !self.changed.has(node) {
            let entity = self.entities.remove(&node).expect("seen just now");
            self.ids.remove(&entity.id);
        }
        Ok(())
    }
}
