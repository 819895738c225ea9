//! Indexes: looking up, scanning, and changing entries.
//!
//! A node that gets too full is split: its lower half goes to a new block, and the entry in the middle goes up. A root
//! that does not fit into its record any more is moved down into a block. When entries are removed, nodes are joined
//! again, and the tree becomes lower.

mod blocks;
mod change;
mod join;
mod order;

use crate::core::Core;
use crate::file::{Attr, File, Outside};
use crate::layout::index::{
    IndexEntry, IndexNode, IndexRoot, block_node, collation, entries_of, entry_bytes, root_node, vcn_unit,
};
use crate::layout::{FileName, Index, Kind, StandardInformation};
use order::Sought;
use platter_vfs::{Error, Result};
use smallvec::SmallVec;
use std::cmp::Ordering;
use std::sync::Arc;

/// More levels than any tree has that fits on a volume.
const DEEPEST: usize = 32;

/// The bytes of a `$FILE_NAME` with nothing but a name, as the key for a lookup of that name.
pub(crate) fn name_key(units: &[u16]) -> Vec<u8> {
    FileName { name: units.into(), ..FileName::default() }.to_bytes()
}

/// An index of a file, as it was when the operation began or when it last changed the shape of the index.
struct Tree {
    file: Arc<File>,
    /// The position of the index root among the file's attributes.
    root: usize,
    number: u64,
    index: Index,
    block: u32,
}

/// A node as it is in memory.
enum Bytes {
    Root(Arc<File>, usize),
    Block(Arc<Vec<u8>>),
}

impl Bytes {
    /// The bytes of the node, from its header on.
    fn node(&self) -> &[u8] {
        match self {
            Bytes::Root(file, root) => root_node(file.attributes[*root].value().unwrap_or(&[])),
            Bytes::Block(bytes) => block_node(bytes),
        }
    }
}

/// The nodes from the root down to an entry.
type Way = SmallVec<[Step; 4]>;

/// A node on the way down, by its byte offset in the index (`None` is the root), and the offset of an entry in it.
#[derive(Clone, Copy, Debug)]
struct Step {
    at: Option<u64>,
    offset: usize,
}

impl Tree {
    fn allocation(&self) -> Option<&Outside> {
        self.file.find(Kind::INDEX_ALLOCATION, self.index.units()).and_then(Attr::outside)
    }

    fn root(&self) -> &[u8] {
        self.file.attributes[self.root].value().unwrap_or(&[])
    }
}

impl Core {
    fn tree(&mut self, number: u64, index: Index) -> Result<Tree> {
        let file = self.file(number)?;
        let root = file.position(Kind::INDEX_ROOT, index.units()).ok_or(Error::NotADirectory)?;
        let value = file.attributes[root].value().ok_or(Error::NotADirectory)?;
        // Damage in the root is found here, and not in the middle of a change.
        let block = IndexRoot::block_of(value, 0)?;
        Ok(Tree { file, root, number, index, block })
    }

    fn bytes(&mut self, tree: &Tree, at: Option<u64>) -> Result<Bytes> {
        match at {
            None => Ok(Bytes::Root(tree.file.clone(), tree.root)),
            Some(at) => {
                let none = Outside::default();
                let outside = tree.allocation().unwrap_or(&none);
                let end = outside.size.min(outside.clusters() * self.geometry.cluster);
                if at.checked_add(u64::from(tree.block)).is_none_or(|stop| stop > end) {
                    let expected = format!("a child below {end} bytes of $INDEX_ALLOCATION");
                    return Err(Error::damaged("index entry", 0, expected, at));
                }
                self.block(tree.number, tree.index, at, tree.block, &outside.runs).map(Bytes::Block)
            }
        }
    }

    fn node(&mut self, tree: &Tree, at: Option<u64>) -> Result<IndexNode> {
        Ok(IndexNode { entries: entry_bytes(self.bytes(tree, at)?.node()).to_vec() })
    }

    fn child_at(&self, tree: &Tree, vcn: u64) -> u64 {
        vcn.saturating_mul(vcn_unit(tree.block, self.geometry.cluster))
    }

    fn vcn_of(&self, tree: &Tree, at: u64) -> u64 {
        at / vcn_unit(tree.block, self.geometry.cluster)
    }

    /// The way down to the first entry that is not before the sought key, and whether that entry has the key itself.
    fn descend(&mut self, tree: &Tree, order: impl Fn(&[u8]) -> Ordering) -> Result<(Way, bool)> {
        let mut path = Way::new();
        let mut at = None;
        loop {
            let bytes = self.bytes(tree, at)?;
            let entry = entries_of(bytes.node())
                .find(|entry| entry.is_last() || order(entry.key()) != Ordering::Less)
                .ok_or_else(|| {
                    Error::damaged("index", at.unwrap_or(0), "an entry that ends the node", "none")
                })?;
            path.push(Step { at, offset: entry.offset });
            if !entry.is_last() && order(entry.key()) == Ordering::Equal {
                return Ok((path, true));
            }
            match entry.child() {
                None => return Ok((path, false)),
                Some(_) if path.len() >= DEEPEST => {
                    return Err(Error::damaged("index", at.unwrap_or(0), "a leaf", "more than 32 levels"));
                }
                Some(vcn) => at = Some(self.child_at(tree, vcn)),
            }
        }
    }

    /// The entry with this key.
    pub(crate) fn index_find(&mut self, file: u64, index: Index, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let tree = self.tree(file, index)?;
        let sought = Sought::new(index.collation(), &self.upcase, key);
        let (path, found) = self.descend(&tree, |other| sought.order(other))?;
        if !found {
            return Ok(None);
        }
        let step = path[path.len() - 1];
        let bytes = self.bytes(&tree, step.at)?;
        Ok(entry_at(bytes.node(), step.offset).map(|entry| entry.bytes.to_vec()))
    }

    /// The entry with a name: the same units if there is one, else, unless the directory tells names apart by case, the
    /// first that differs in case only.
    pub(crate) fn find_name(&mut self, directory: u64, name: &[u16]) -> Result<Option<Vec<u8>>> {
        let tree = self.tree(directory, Index::Names)?;
        let key = name_key(name);
        let standard = tree.file.value(Kind::STANDARD_INFORMATION).unwrap_or(&[]);
        if StandardInformation::is_case_sensitive(standard) {
            return self.index_find(directory, Index::Names, &key);
        }
        let sought = Sought::new(collation::FILE_NAME, &self.upcase, &key);
        let mut at = None;
        let mut found: Option<Vec<u8>> = None;
        for _ in 0..DEEPEST {
            let bytes = self.bytes(&tree, at)?;
            let mut next = None;
            for entry in entries_of(bytes.node()) {
                let order = if entry.is_last() { Ordering::Greater } else { sought.folded(entry.key()) };
                if order == Ordering::Equal {
                    if sought.order(entry.key()) == Ordering::Equal {
                        return Ok(Some(entry.bytes.to_vec()));
                    }
                    found = Some(entry.bytes.to_vec());
                }
                if order != Ordering::Less {
                    next = entry.child();
                    break;
                }
            }
            match next {
                Some(vcn) => at = Some(self.child_at(&tree, vcn)),
                None if found.is_some() => {
                    return Ok(self.index_find(directory, Index::Names, &key)?.or(found));
                }
                None => return Ok(None),
            }
        }
        Err(Error::damaged("index", at.unwrap_or(0), "a leaf", "more than 32 levels"))
    }

    /// Goes through the entries after a key in order, until `visit` returns false.
    pub(crate) fn index_scan(
        &mut self,
        file: u64,
        index: Index,
        after: Option<&[u8]>,
        visit: impl FnMut(&IndexEntry<'_>) -> bool,
    ) -> Result<()> {
        match self.index_scan_past_damage(file, index, after, visit)? {
            None => Ok(()),
            Some(damage) => Err(damage),
        }
    }

    /// [`Core::index_scan`] that leaves out damaged parts, and returns the first damage: a block that cannot be read,
    /// with all blocks below it; an entry that is not in its order.
    pub(crate) fn index_scan_past_damage(
        &mut self,
        file: u64,
        index: Index,
        after: Option<&[u8]>,
        mut visit: impl FnMut(&IndexEntry<'_>) -> bool,
    ) -> Result<Option<Error>> {
        let tree = self.tree(file, index)?;
        let sought = after.map(|after| Sought::new(index.collation(), &self.upcase, after));
        let beyond = |key: &[u8]| match &sought {
            Some(sought) => match sought.order(key) {
                Ordering::Equal => Ordering::Less,
                order => order,
            },
            None => Ordering::Greater,
        };
        let mut damage = None;
        let mut path = self.way_past_damage(&tree, beyond, &mut damage)?;
        // A damaged tree could lead in circles, so the blocks on the way are counted.
        let blocks = tree.allocation().map_or(0, |outside| outside.size / u64::from(tree.block));
        let mut left = blocks + 2;
        let mut before = after.map(<[u8]>::to_vec);
        let mut waiting: Option<Vec<u8>> = None;
        while let Some(step) = path.pop() {
            let bytes = match self.bytes(&tree, step.at) {
                Ok(bytes) => bytes,
                Err(error) => {
                    damage.get_or_insert(error);
                    continue;
                }
            };
            let Some(entry) = entry_at(bytes.node(), step.offset) else {
                continue;
            };
            if entry.is_last() {
                continue;
            }
            let following = entry_at(bytes.node(), entry.end());
            let order =
                |one: &[u8], other: &[u8]| Sought::new(index.collation(), &self.upcase, one).order(other);
            let comes_behind =
                |other: Option<&[u8]>| other.is_none_or(|other| order(other, entry.key()).is_gt());
            // A listing that goes on behind the last key that it returned would return the same entries for ever. So of
            // two entries in the wrong order one is left out: the first, if the second is in order without it.
            if comes_behind(waiting.as_ref().map(key_in).or(before.as_deref())) {
                if let Some(next) = waiting.replace(entry.bytes.to_vec()) {
                    if !visit(&IndexEntry { bytes: &next, offset: 0 }) {
                        return Ok(damage);
                    }
                    before = Some(key_in(&next).to_vec());
                }
            } else {
                let at = step.at.unwrap_or(0) + entry.offset as u64;
                damage.get_or_insert_with(|| {
                    Error::damaged("index", at, "keys that ascend", "one that does not")
                });
                if comes_behind(before.as_deref()) {
                    waiting = Some(entry.bytes.to_vec());
                }
            }
            // The entries below the following entry come next, from the first leaf there.
            path.push(Step { at: step.at, offset: entry.end() });
            let mut next = following.and_then(|entry| entry.child());
            while let Some(vcn) = next {
                left = left.saturating_sub(1);
                if left == 0 || path.len() > DEEPEST {
                    let circle = Error::damaged("index", 0, format!("at most {blocks} blocks"), "more");
                    damage.get_or_insert(circle);
                    path.clear();
                    break;
                }
                let at = Some(self.child_at(&tree, vcn));
                match self.bytes(&tree, at) {
                    Ok(bytes) => {
                        next = entry_at(bytes.node(), 0).and_then(|entry| entry.child());
                        path.push(Step { at, offset: 0 });
                    }
                    Err(error) => {
                        damage.get_or_insert(error);
                        break;
                    }
                }
            }
        }
        if let Some(last) = waiting {
            visit(&IndexEntry { bytes: &last, offset: 0 });
        }
        Ok(damage)
    }

    /// [`Core::descend`] that ends above a block that cannot be read, at the entry whose child that block is.
    fn way_past_damage(
        &mut self,
        tree: &Tree,
        order: impl Fn(&[u8]) -> Ordering,
        damage: &mut Option<Error>,
    ) -> Result<Way> {
        let mut path = Way::new();
        let mut at = None;
        while path.len() < DEEPEST {
            let bytes = match self.bytes(tree, at) {
                Ok(bytes) => bytes,
                Err(error) if path.is_empty() => return Err(error),
                Err(error) => {
                    damage.get_or_insert(error);
                    return Ok(path);
                }
            };
            let first = entries_of(bytes.node())
                .find(|entry| entry.is_last() || order(entry.key()) != Ordering::Less);
            let Some(entry) = first else { break };
            path.push(Step { at, offset: entry.offset });
            match entry.child() {
                None => return Ok(path),
                Some(vcn) => at = Some(self.child_at(tree, vcn)),
            }
        }
        let error = Error::damaged("index", at.unwrap_or(0), "a leaf, at most 32 levels deep", "none");
        damage.get_or_insert(error);
        Ok(path)
    }

    /// Whether an index has no entry.
    pub(crate) fn index_is_empty(&mut self, file: u64, index: Index) -> Result<bool> {
        let mut is_empty = true;
        self.index_scan(file, index, None, |_| {
            is_empty = false;
            false
        })?;
        Ok(is_empty)
    }
}

/// The key in the bytes of an entry.
fn key_in(entry: &Vec<u8>) -> &[u8] {
    IndexEntry { bytes: entry, offset: 0 }.key()
}

fn entry_at(node: &[u8], offset: usize) -> Option<IndexEntry<'_>> {
    entries_of(node).find(|entry| entry.offset == offset)
}

/// The entry that begins at an offset.
fn entry_in(entries: &[u8], offset: usize) -> IndexEntry<'_> {
    IndexEntry { bytes: &entries[offset..offset + entry_length(entries, offset)], offset }
}

fn entry_length(entries: &[u8], offset: usize) -> usize {
    usize::from(crate::layout::bytes::u16_at(entries, offset + 8))
}

fn last_length(node: &IndexNode) -> usize {
    node.iter().last().map_or(0, |entry| entry.bytes.len())
}
