//! Nodes in use: how often each was handed out, and which file it is.

use crate::layout::{Reference, record_number};
use crate::stream::Stream;
use platter_vfs::{Error, Node, Result};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// A node in use.
pub(crate) struct Entity {
    /// The number of the file's base record, or the file's number in memory if nothing on disk leads to it.
    pub file: u64,
    /// For a named stream: the node it belongs to, and its name.
    pub part: Option<(u64, Box<[u16]>)>,
    /// How often the node was handed out and not given back.
    pub handed_out: u64,
    /// The content of the node's file or named stream, once a caller asked for it.
    pub stream: Option<Arc<Stream>>,
    /// Nodes of its named streams.
    pub parts: Vec<u64>,
}

/// All nodes in use.
pub(crate) struct Nodes {
    entities: HashMap<u64, Entity>,
    by_file: HashMap<u64, u64>,
    /// The next number for a named stream, or for a file whose own number is taken.
    next: u64,
    /// Nodes that nobody held when they were last looked at, the oldest first.
    idle: VecDeque<u64>,
}

/// The number of nodes without a holder that stay in memory.
const MOST_IDLE: usize = 1024;
/// Numbers from here on are no file's own: as references they have sequence number 0, with which no file gets its own
/// number.
const OTHERS: u64 = 1 << 47;

// As references they have sequence number 0.
const _: () = assert!(OTHERS < 1 << 48);

impl Default for Nodes {
    fn default() -> Nodes {
        let mut nodes =
            Nodes { entities: HashMap::new(), by_file: HashMap::new(), next: OTHERS, idle: VecDeque::new() };
        nodes.enter(Reference(record_number::ROOT));
        nodes
    }
}

impl Nodes {
    /// The node of a file, made if need be. A file has the same number each time it is taken into use.
    pub(crate) fn enter(&mut self, reference: Reference) -> u64 {
        let file = reference.number();
        if let Some(node) = self.by_file.get(&file) {
            return *node;
        }
        let node = self.own_number(reference).unwrap_or_else(|| self.next());
        self.add(node, Entity { file, part: None, handed_out: 0, stream: None, parts: Vec::new() });
        self.by_file.insert(file, node);
        node
    }

    /// The number that a file has as a node whenever it is in use: its reference, made of record number and sequence
    /// number. `None` if it has no sequence number, or a removed file that is still held has the same reference.
    fn own_number(&self, reference: Reference) -> Option<u64> {
        let number = match reference.number() {
            record_number::ROOT => Node::ROOT.0,
            _ if reference.sequence() == 0 => return None,
            _ => reference.0,
        };
        (!self.entities.contains_key(&number)).then_some(number)
    }

    /// The number that a file has as a node, or would have if it were taken into use.
    pub(crate) fn number_of(&self, reference: Reference) -> Option<u64> {
        self.of_file(reference.number()).or_else(|| self.own_number(reference))
    }

    /// The node of a named stream, made if need be.
    pub(crate) fn enter_part(&mut self, owner: u64, name: &[u16]) -> Result<u64> {
        let entity = self.get(owner)?;
        let is_meant = |part: &&u64| {
            self.entities
                .get(part)
                .and_then(|part| part.part.as_ref())
                .is_some_and(|(_, known)| **known == *name)
        };
        if let Some(part) = entity.parts.iter().find(is_meant) {
            return Ok(*part);
        }
        let (file, part) = (entity.file, Some((owner, name.into())));
        let node = self.next();
        self.add(node, Entity { file, part, handed_out: 0, stream: None, parts: Vec::new() });
        self.get_mut(owner)?.parts.push(node);
        Ok(node)
    }

    fn next(&mut self) -> u64 {
        self.next += 1;
        assert!(self.next < 1 << 48, "numbers of nodes without a record have no sequence number");
        self.next - 1
    }

    fn add(&mut self, node: u64, entity: Entity) {
        let before = self.entities.insert(node, entity);
        assert!(before.is_none(), "two files in use have different nodes");
    }

    /// A node in use.
    pub(crate) fn get(&self, node: u64) -> Result<&Entity> {
        self.entities.get(&node).ok_or(Error::NotFound)
    }

    /// A node in use, to be changed.
    pub(crate) fn get_mut(&mut self, node: u64) -> Result<&mut Entity> {
        self.entities.get_mut(&node).ok_or(Error::NotFound)
    }

    /// The node of a file, if it is in use.
    pub(crate) fn of_file(&self, file: u64) -> Option<u64> {
        self.by_file.get(&file).copied()
    }

    /// Makes a node, with its named streams, that of a file with another number, as when a removed file stays in
    /// memory.
    pub(crate) fn move_file(&mut self, node: u64, file: u64) {
        let Some(entity) = self.entities.get_mut(&node) else { return };
        let old = std::mem::replace(&mut entity.file, file);
        let parts = entity.parts.clone();
        if entity.part.is_none() {
            if self.by_file.get(&old) == Some(&node) {
                self.by_file.remove(&old);
            }
            self.by_file.insert(file, node);
        }
        for part in parts {
            if let Some(part) = self.entities.get_mut(&part) {
                part.file = file;
            }
        }
    }

    /// Makes a named stream that was removed the node of file `file`, without its former owner.
    pub(crate) fn part_ways(&mut self, node: u64, file: u64) {
        let Some(entity) = self.entities.get_mut(&node) else { return };
        let owner = entity.part.take();
        entity.file = file;
        self.by_file.insert(file, node);
        if let Some(owner) = owner.and_then(|(owner, _)| self.entities.get_mut(&owner)) {
            owner.parts.retain(|part| *part != node);
        }
    }

    /// Forgets a node.
    pub(crate) fn remove(&mut self, node: u64) {
        let Some(entity) = self.entities.remove(&node) else { return };
        match entity.part {
            Some((owner, _)) => {
                if let Some(owner) = self.entities.get_mut(&owner) {
                    owner.parts.retain(|part| *part != node);
                }
            }
            None => drop(self.by_file.remove(&entity.file)),
        }
    }

    /// Notes that nobody holds a node. Returns the oldest such node if there are too many: the caller may forget it.
    pub(crate) fn set_idle(&mut self, node: u64) -> Option<u64> {
        self.idle.push_back(node);
        if self.idle.len() > MOST_IDLE { self.idle.pop_front() } else { None }
    }

    /// All nodes, in order, so that a commit does the same each time.
    pub(crate) fn all(&self) -> Vec<u64> {
        let mut nodes: Vec<u64> = self.entities.keys().copied().collect();
        nodes.sort_unstable();
        nodes
    }
}
