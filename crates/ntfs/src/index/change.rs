//! Inserting, changing and removing entries.
//!
//! A change that fits into its block is made in place. For any other change a node is taken apart and stored anew.

use super::join::{is_bare, is_sparse};
use super::order::Sought;
use super::{DEEPEST, Step, Tree, entry_in, last_length};
use crate::core::{Core, Key};
use crate::file::Attr;
use crate::layout::bytes::{u16_at, u64_at};
use crate::layout::index::{IndexBlock, IndexEntry, IndexNode, IndexRoot, entry_bytes, last_entry};
use crate::layout::{Index, Kind, Record};
use platter_vfs::{Error, Result};
use smallvec::SmallVec;

impl Core {
    /// Adds an entry.
    ///
    /// # Errors
    /// [`Error::Exists`] if there is an entry with the same key.
    pub(crate) fn index_insert(&mut self, file: u64, index: Index, entry: &[u8]) -> Result<()> {
        let tree = self.tree(file, index)?;
        let key = IndexEntry { bytes: entry, offset: 0 }.key();
        let sought = Sought::new(index.collation(), &self.upcase, key);
        let (path, found) = self.descend(&tree, |other| sought.order(other))?;
        if found {
            return Err(Error::Exists);
        }
        let step = path[path.len() - 1];
        if let Some(at) = step.at
            && self.splice_entries(Key::Block(file, index, at), step.offset, 0, entry)
        {
            return Ok(());
        }
        let mut node = self.node(&tree, step.at)?;
        node.insert(step.offset, entry);
        self.store_node(tree, &path, node)
    }

    /// Changes the bytes of the entry with a key, but none that determine its order.
    pub(crate) fn index_update(
        &mut self,
        file: u64,
        index: Index,
        key: &[u8],
        change: impl FnOnce(&mut [u8]),
    ) -> Result<()> {
        let tree = self.tree(file, index)?;
        let sought = Sought::new(index.collation(), &self.upcase, key);
        let (path, found) = self.descend(&tree, |other| sought.order(other))?;
        if !found {
            return Err(Error::NotFound);
        }
        let step = path[path.len() - 1];
        let bytes = self.bytes(&tree, step.at)?;
        let before = entry_in(entry_bytes(bytes.node()), step.offset);
        let mut after: SmallVec<[u8; 256]> = before.bytes.into();
        change(&mut after);
        if after[..] == *before.bytes {
            return Ok(());
        }
        drop(bytes);
        if let Some(at) = step.at
            && self.splice_entries(Key::Block(file, index, at), step.offset, after.len(), &after)
        {
            return Ok(());
        }
        let mut node = self.node(&tree, step.at)?;
        node.replace(step.offset, &after);
        self.store_node(tree, &path, node)
    }

    /// Stores the node at the end of a path, and splits it if it does not fit into its block.
    pub(super) fn store_node(&mut self, tree: Tree, path: &[Step], node: IndexNode) -> Result<()> {
        let step = path[path.len() - 1];
        let Some(at) = step.at else { return self.store_root(tree, node, step.offset) };
        if node.entries.len() <= IndexBlock::room(tree.block) {
            return self.store_block(&tree, at, node);
        }
        // Split in the middle; or, where names are added in order, near the end, so that the blocks stay full.
        let offsets: Vec<usize> = node.iter().map(|entry| entry.offset).collect();
        let last = offsets.len() - 1;
        let half = node.entries.len() / 2;
        let middle = match offsets.iter().position(|offset| *offset == step.offset) {
            Some(here) if here + 1 == last && here >= 2 => here - 1,
            _ => offsets.iter().position(|offset| *offset >= half).unwrap_or(last / 2),
        };
        let middle = middle.clamp(1, last.saturating_sub(2).max(1));
        if last < 3 {
            return Err(Error::NotPermitted("the index blocks are too small for its name"));
        }
        let mut tree = tree;
        let lower = self.take_block(&mut tree)?;
        let up = entry_in(&node.entries, offsets[middle]);
        let mut low = node.entries[..offsets[middle]].to_vec();
        low.extend(last_entry(up.child()));
        let up = up.with_child(Some(self.vcn_of(&tree, lower)));
        let high = node.entries[offsets[middle + 1]..].to_vec();
        self.store_block(&tree, lower, IndexNode { entries: low })?;
        self.store_block(&tree, at, IndexNode { entries: high })?;
        let above = &path[..path.len() - 1];
        let parent = above[above.len() - 1];
        let mut node = self.node(&tree, parent.at)?;
        node.insert(parent.offset, &up);
        self.store_node(tree, above, node)
    }

    pub(super) fn store_block(&mut self, tree: &Tree, at: u64, node: IndexNode) -> Result<()> {
        let key = Key::Block(tree.number, tree.index, at);
        let mut block = IndexBlock { lsn: 0, vcn: self.vcn_of(tree, at), update: 1, node };
        if let Some(old) = self.known(key) {
            block.lsn = u64_at(old, 8);
            block.update = u16_at(old, usize::from(u16_at(old, 4)));
        }
        let Some(bytes) = block.to_bytes(tree.block) else {
            return Err(Error::NotPermitted("the index blocks are too small for its name"));
        };
        self.put_image(key, bytes);
        Ok(())
    }

    /// Stores the root in its record, or moves its entries down into a block if they do not fit there.
    fn store_root(&mut self, mut tree: Tree, node: IndexNode, offset: usize) -> Result<()> {
        let units = tree.index.units();
        let mut file = (*tree.file).clone();
        let room = Record::room(self.geometry.record as usize);
        let mut root = IndexRoot::from_bytes(tree.root(), 0)?;
        let others = file.length().saturating_sub(root.node.entries.len());
        let limit = room.saturating_sub(others).max(room / 2);
        // A root that is no longer than it was stays in its record, even if other attributes were added there since:
        // sizes and times of files are recorded when there may be no cluster left for a block.
        let is_no_longer = node.entries.len() <= root.node.entries.len();
        if is_no_longer || node.entries.len() <= limit && node.entries.len() <= IndexBlock::room(tree.block) {
            root.node = node;
            file.put(Attr::resident(Kind::INDEX_ROOT, root.to_bytes()).named(units));
            return self.store(file);
        }
        let at = self.take_block(&mut tree)?;
        let mut file = (*tree.file).clone();
        root.node = IndexNode { entries: last_entry(Some(self.vcn_of(&tree, at))) };
        file.put(Attr::resident(Kind::INDEX_ROOT, root.to_bytes()).named(units));
        self.store(file)?;
        let tree = self.tree(tree.number, tree.index)?;
        let path = [Step { at: None, offset: 0 }, Step { at: Some(at), offset }];
        self.store_node(tree, &path, node)
    }

    /// Removes the entry with this key and returns it.
    pub(crate) fn index_remove(&mut self, file: u64, index: Index, key: &[u8]) -> Result<Vec<u8>> {
        let tree = self.tree(file, index)?;
        let sought = Sought::new(index.collation(), &self.upcase, key);
        let (mut path, found) = self.descend(&tree, |other| sought.order(other))?;
        if !found {
            return Err(Error::NotFound);
        }
        let step = path[path.len() - 1];
        let bytes = self.bytes(&tree, step.at)?;
        let entry = entry_in(entry_bytes(bytes.node()), step.offset);
        let (removed, child) = (entry.bytes.to_vec(), entry.child());
        drop(bytes);
        let Some(child) = child else {
            let Some(at) = step.at else {
                let mut node = self.node(&tree, None)?;
                node.replace(step.offset, &[]);
                self.store_node(tree, &path, node)?;
                return Ok(removed);
            };
            self.splice_entries(Key::Block(file, index, at), step.offset, removed.len(), &[]);
            self.tidy_after(tree, at, key)?;
            return Ok(removed);
        };
        let mut node = self.node(&tree, step.at)?;
        // The greatest entry below takes the place of the removed one.
        let mut at = self.child_at(&tree, child);
        let (leaf, last) = loop {
            let below = self.node(&tree, Some(at))?;
            let entries: Vec<IndexEntry<'_>> = below.iter().collect();
            let end = entries[entries.len() - 1];
            match end.child() {
                Some(vcn) if path.len() < DEEPEST => {
                    path.push(Step { at: Some(at), offset: end.offset });
                    at = self.child_at(&tree, vcn);
                }
                Some(_) => return Err(Error::damaged("index", at, "a leaf", "more than 32 levels")),
                None => match entries.len().checked_sub(2).map(|before| entries[before].bytes.to_vec()) {
                    Some(last) => break (at, last),
                    None => return Err(Error::damaged("index block", at, "an entry in a leaf", "none")),
                },
            }
        };
        let mut below = self.node(&tree, Some(leaf))?;
        let offset = below.entries.len() - last_length(&below) - last.len();
        below.replace(offset, &[]);
        self.store_block(&tree, leaf, below)?;
        let lead = IndexEntry { bytes: &last, offset: 0 };
        node.replace(step.offset, &lead.with_child(Some(child)));
        let depth = path.iter().position(|known| known.at == step.at).unwrap_or(0);
        self.store_node(tree, &path[..=depth], node)?;
        let tree = self.tree(file, index)?;
        self.tidy_after(tree, leaf, lead.key())?;
        Ok(removed)
    }

    /// Called after an entry was removed from the leaf that `key` leads to: joins the leaf with a neighbour if hardly
    /// anything is left in it.
    fn tidy_after(&mut self, tree: Tree, leaf: u64, key: &[u8]) -> Result<()> {
        let bytes = self.bytes(&tree, Some(leaf))?;
        let entries = entry_bytes(bytes.node());
        if !is_sparse(entries, tree.block) {
            return Ok(());
        }
        let is_bare = is_bare(entries);
        let tidied = self.transact(|core| core.tidy(tree.number, tree.index, key));
        // A leaf that cannot be joined because a neighbour cannot be read stays as it is, unless it is empty.
        if is_bare { tidied } else { Ok(()) }
    }
}
