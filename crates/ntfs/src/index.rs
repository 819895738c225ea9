//! Indexes: found in, gone through, and changed.
//!
//! A node that gets too full is split: its lower half goes to a new block, and the entry in the middle goes up. A root
//! that does not fit into its record any more is moved down into a block. A leaf that loses its last entry is taken out
//! of the tree, and the entry above it that led there goes to a neighbour.

use crate::core::{Core, Key, PAGE};
use crate::file::{Attr, Body, File, Outside};
use crate::layout::index::{
    Entry, IndexBlock, IndexRoot, Node, block_node, collation, entries_of, entry_bytes, last_entry,
    root_node, vcn_unit,
};
use crate::layout::{FileName, Kind, Record};
use crate::space::Held;
use platter_vfs::{Error, Result};
use std::cmp::Ordering;
use std::sync::Arc;

/// The indexes that are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Index {
    /// `$I30`: the names in a directory.
    Names,
    /// `$SII` of `$Secure`.
    SecurityIds,
    /// `$SDH` of `$Secure`.
    SecurityHashes,
    /// `$R` of `$Reparse`.
    Reparse,
    /// `$O` of `$ObjId`.
    ObjectIds,
}

impl Index {
    /// The name of its attributes.
    pub fn name(self) -> &'static str {
        match self {
            Index::Names => "$I30",
            Index::SecurityIds => "$SII",
            Index::SecurityHashes => "$SDH",
            Index::Reparse => "$R",
            Index::ObjectIds => "$O",
        }
    }

    fn units(self) -> Vec<u16> {
        self.name().encode_utf16().collect()
    }

    fn collation(self) -> u32 {
        match self {
            Index::Names => collation::FILE_NAME,
            Index::SecurityIds => collation::NUMBER,
            Index::SecurityHashes => collation::SECURITY_HASH,
            Index::Reparse | Index::ObjectIds => collation::NUMBERS,
        }
    }
}

/// Deeper than any tree that fits on a volume.
const DEEPEST: usize = 32;

/// How two keys are ordered; `upcase` is for file names only.
pub fn compare(order: u32, upcase: &[u16], one: &[u8], other: &[u8]) -> Ordering {
    match order {
        collation::FILE_NAME => compare_folded(upcase, one, other).then_with(|| units(one).cmp(units(other))),
        collation::NUMBER | collation::SECURITY_HASH | collation::NUMBERS => numbers(one).cmp(numbers(other)),
        _ => one.cmp(other),
    }
}

fn units(key: &[u8]) -> impl Iterator<Item = u16> + '_ {
    FileName::name_of(key).into_iter().flatten().map(u16::from_le_bytes)
}

fn numbers(key: &[u8]) -> impl Iterator<Item = u32> + '_ {
    key.as_chunks::<4>().0.iter().map(|number| u32::from_le_bytes(*number))
}

/// How two file names are ordered without regard to case.
fn compare_folded(upcase: &[u16], one: &[u8], other: &[u8]) -> Ordering {
    let fold = |unit: u16| upcase.get(usize::from(unit)).copied().unwrap_or(unit);
    units(one).map(fold).cmp(units(other).map(fold))
}

/// A `$FILE_NAME` that has nothing but a name: what is looked for.
pub fn name_key(units: &[u16]) -> Vec<u8> {
    FileName { name: units.into(), ..FileName::default() }.to_bytes()
}

/// An index of a file as it was when an operation began, or last changed its shape.
struct Tree {
    file: Arc<File>,
    number: u64,
    index: Index,
    block: u32,
}

/// A node on the way down and where in it: `None` is the root.
#[derive(Clone, Copy, Debug)]
struct Step {
    at: Option<u64>,
    offset: usize,
}

impl Tree {
    fn allocation(&self) -> Option<&Outside> {
        self.file.find(Kind::INDEX_ALLOCATION, &self.index.units()).and_then(Attr::outside)
    }

    fn root(&self) -> Result<&[u8]> {
        self.file
            .find(Kind::INDEX_ROOT, &self.index.units())
            .and_then(Attr::value)
            .ok_or(Error::NotADirectory)
    }
}

impl Core {
    fn tree(&mut self, number: u64, index: Index) -> Result<Tree> {
        let file = self.file(number)?;
        let Some(root) = file.find(Kind::INDEX_ROOT, &index.units()).and_then(Attr::value) else {
            return Err(Error::NotADirectory);
        };
        // What a damaged root holds is found here, and not in the middle of a change.
        let block = IndexRoot::from_bytes(root, 0)?.block;
        Ok(Tree { file, number, index, block })
    }

    /// The bytes of a node from its header.
    fn node_bytes(&mut self, tree: &Tree, at: Option<u64>) -> Result<Arc<Vec<u8>>> {
        match at {
            None => Ok(Arc::new(root_node(tree.root()?).to_vec())),
            Some(at) => {
                let none = Outside::default();
                let outside = tree.allocation().unwrap_or(&none);
                let end = outside.size.min(outside.clusters() * self.geometry.cluster);
                if at.checked_add(u64::from(tree.block)).is_none_or(|stop| stop > end) {
                    let expected = format!("a child below {end} bytes of $INDEX_ALLOCATION");
                    return Err(Error::damaged("index entry", 0, expected, at));
                }
                self.block(tree.number, tree.index, at, tree.block, &outside.runs)
            }
        }
    }

    fn node_of(at: Option<u64>, bytes: &[u8]) -> &[u8] {
        if at.is_some() { block_node(bytes) } else { bytes }
    }

    fn node(&mut self, tree: &Tree, at: Option<u64>) -> Result<Node> {
        let bytes = self.node_bytes(tree, at)?;
        Ok(Node { entries: entry_bytes(Core::node_of(at, &bytes)).to_vec() })
    }

    fn child_at(&self, tree: &Tree, vcn: u64) -> u64 {
        vcn.saturating_mul(vcn_unit(tree.block, self.geometry.cluster))
    }

    fn vcn_of(&self, tree: &Tree, at: u64) -> u64 {
        at / vcn_unit(tree.block, self.geometry.cluster)
    }

    /// The way down to the first entry that is not before what is looked for, and whether it is equal.
    fn descend(&mut self, tree: &Tree, order: impl Fn(&[u8]) -> Ordering) -> Result<(Vec<Step>, bool)> {
        let mut path = Vec::new();
        let mut at = None;
        loop {
            let bytes = self.node_bytes(tree, at)?;
            let entry = entries_of(Core::node_of(at, &bytes))
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
    pub fn index_find(&mut self, file: u64, index: Index, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let tree = self.tree(file, index)?;
        let (order, upcase) = (index.collation(), self.upcase.clone());
        let (path, found) = self.descend(&tree, |other| compare(order, &upcase, other, key))?;
        if !found {
            return Ok(None);
        }
        let step = path[path.len() - 1];
        let bytes = self.node_bytes(&tree, step.at)?;
        Ok(entry_at(Core::node_of(step.at, &bytes), step.offset).map(|entry| entry.bytes.to_vec()))
    }

    /// The entry with a name: the same units if there is one, else the first that differs in case only.
    pub fn find_name(&mut self, directory: u64, name: &[u16]) -> Result<Option<Vec<u8>>> {
        let tree = self.tree(directory, Index::Names)?;
        let upcase = self.upcase.clone();
        let key = name_key(name);
        let mut at = None;
        let mut found: Option<Vec<u8>> = None;
        for _ in 0..DEEPEST {
            let bytes = self.node_bytes(&tree, at)?;
            let mut next = None;
            for entry in entries_of(Core::node_of(at, &bytes)) {
                let order = if entry.is_last() {
                    Ordering::Greater
                } else {
                    compare_folded(&upcase, entry.key(), &key)
                };
                if order == Ordering::Equal {
                    if units(entry.key()).eq(name.iter().copied()) {
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

    /// Goes through the entries after a key in order, until `visit` has enough.
    pub fn index_scan(
        &mut self,
        file: u64,
        index: Index,
        after: Option<&[u8]>,
        mut visit: impl FnMut(&Entry<'_>) -> bool,
    ) -> Result<()> {
        let tree = self.tree(file, index)?;
        let (order, upcase) = (index.collation(), self.upcase.clone());
        let beyond = |key: &[u8]| match after {
            Some(after) => match compare(order, &upcase, key, after) {
                Ordering::Equal => Ordering::Less,
                order => order,
            },
            None => Ordering::Greater,
        };
        let (mut path, _) = self.descend(&tree, beyond)?;
        // A damaged tree could lead in circles.
        let blocks = tree.allocation().map_or(0, |outside| outside.size / u64::from(tree.block));
        let mut left = blocks + 2;
        while let Some(step) = path.pop() {
            let bytes = self.node_bytes(&tree, step.at)?;
            let Some(entry) = entry_at(Core::node_of(step.at, &bytes), step.offset) else {
                continue;
            };
            if entry.is_last() {
                continue;
            }
            if !visit(&entry) {
                return Ok(());
            }
            // Then what is below the next entry, from its first leaf.
            path.push(Step { at: step.at, offset: entry.end() });
            let mut next =
                entry_at(Core::node_of(step.at, &bytes), entry.end()).and_then(|entry| entry.child());
            while let Some(vcn) = next {
                left = left.saturating_sub(1);
                if left == 0 || path.len() > DEEPEST {
                    return Err(Error::damaged("index", 0, format!("at most {blocks} blocks"), "more"));
                }
                let at = Some(self.child_at(&tree, vcn));
                let bytes = self.node_bytes(&tree, at)?;
                next = entry_at(Core::node_of(at, &bytes), 0).and_then(|entry| entry.child());
                path.push(Step { at, offset: 0 });
            }
        }
        Ok(())
    }

    /// Whether an index has no entry.
    pub fn index_is_empty(&mut self, file: u64, index: Index) -> Result<bool> {
        let mut is_empty = true;
        self.index_scan(file, index, None, |_| {
            is_empty = false;
            false
        })?;
        Ok(is_empty)
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// [`Error::Exists`] if there is one of this key.
    pub fn index_insert(&mut self, file: u64, index: Index, entry: &[u8]) -> Result<()> {
        let tree = self.tree(file, index)?;
        let key = Entry { bytes: entry, offset: 0 }.key();
        let (order, upcase) = (index.collation(), self.upcase.clone());
        let (path, found) = self.descend(&tree, |other| compare(order, &upcase, other, key))?;
        if found {
            return Err(Error::Exists);
        }
        let step = path[path.len() - 1];
        let mut node = self.node(&tree, step.at)?;
        node.insert(step.offset, entry);
        self.store_node(tree, &path, node)
    }

    /// Changes the bytes of an entry's key, not what orders it.
    pub fn index_update(
        &mut self,
        file: u64,
        index: Index,
        key: &[u8],
        change: impl FnOnce(&mut [u8]),
    ) -> Result<()> {
        let tree = self.tree(file, index)?;
        let (order, upcase) = (index.collation(), self.upcase.clone());
        let (path, found) = self.descend(&tree, |other| compare(order, &upcase, other, key))?;
        if !found {
            return Err(Error::NotFound);
        }
        let step = path[path.len() - 1];
        let mut node = self.node(&tree, step.at)?;
        let length = entry_length(&node.entries, step.offset);
        let before = node.entries[step.offset..step.offset + length].to_vec();
        change(&mut node.entries[step.offset..step.offset + length]);
        if node.entries[step.offset..step.offset + length] == before[..] {
            return Ok(());
        }
        self.store_node(tree, &path, node)
    }

    /// Stores a node at the end of a path, split if need be.
    fn store_node(&mut self, tree: Tree, path: &[Step], node: Node) -> Result<()> {
        let step = path[path.len() - 1];
        let Some(at) = step.at else { return self.store_root(tree, node, step.offset) };
        if node.entries.len() <= IndexBlock::room(tree.block) {
            return self.store_block(&tree, at, node);
        }
        // In the middle; or, where names come in order, at the end, so that the blocks stay full.
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
        self.store_block(&tree, lower, Node { entries: low })?;
        self.store_block(&tree, at, Node { entries: high })?;
        let above = &path[..path.len() - 1];
        let parent = above[above.len() - 1];
        let mut node = self.node(&tree, parent.at)?;
        node.insert(parent.offset, &up);
        self.store_node(tree, above, node)
    }

    fn store_block(&mut self, tree: &Tree, at: u64, node: Node) -> Result<()> {
        let key = Key::Block(tree.number, tree.index, at);
        let mut block = IndexBlock { lsn: 0, vcn: self.vcn_of(tree, at), update: 1, node };
        if let Some(old) = self.known(key) {
            block.lsn = crate::layout::bytes::u64_at(&old, 8);
            let at = usize::from(crate::layout::bytes::u16_at(&old, 4));
            block.update = crate::layout::bytes::u16_at(&old, at);
        }
        let Some(bytes) = block.to_bytes(tree.block) else {
            return Err(Error::NotPermitted("the index blocks are too small for its name"));
        };
        self.put_image(key, bytes);
        Ok(())
    }

    /// Stores the root, or moves it down into a block if it does not fit into its record.
    fn store_root(&mut self, mut tree: Tree, node: Node, offset: usize) -> Result<()> {
        let units = tree.index.units();
        let mut file = (*tree.file).clone();
        let room = Record::room(self.geometry.record as usize);
        let cluster = self.geometry.cluster;
        let mut root = IndexRoot::from_bytes(tree.root()?, 0)?;
        let others = file.length(cluster).saturating_sub(root.node.entries.len());
        let limit = room.saturating_sub(others).max(room / 2);
        if node.entries.len() <= limit && node.entries.len() <= IndexBlock::room(tree.block) {
            root.node = node;
            file.put(Attr::resident(Kind::INDEX_ROOT, root.to_bytes()).named(&units));
            return self.store(file);
        }
        let at = self.take_block(&mut tree)?;
        let mut file = (*tree.file).clone();
        root.node = Node { entries: last_entry(Some(self.vcn_of(&tree, at))) };
        file.put(Attr::resident(Kind::INDEX_ROOT, root.to_bytes()).named(&units));
        self.store(file)?;
        let tree = self.tree(tree.number, tree.index)?;
        let path = [Step { at: None, offset: 0 }, Step { at: Some(at), offset }];
        self.store_node(tree, &path, node)
    }

    /// Removes the entry with this key and returns it.
    pub fn index_remove(&mut self, file: u64, index: Index, key: &[u8]) -> Result<Vec<u8>> {
        let tree = self.tree(file, index)?;
        let (order, upcase) = (index.collation(), self.upcase.clone());
        let (mut path, found) = self.descend(&tree, |other| compare(order, &upcase, other, key))?;
        if !found {
            return Err(Error::NotFound);
        }
        let step = path[path.len() - 1];
        let mut node = self.node(&tree, step.at)?;
        let entry = entry_in(&node.entries, step.offset);
        let removed = entry.bytes.to_vec();
        let Some(child) = entry.child() else {
            node.replace(step.offset, &[]);
            let is_empty = node.iter().next().is_none_or(|entry| entry.is_last());
            self.store_node(tree, &path, node)?;
            if is_empty && step.at.is_some() {
                self.remove_leaf(file, index, path)?;
            }
            return Ok(removed);
        };
        // The greatest entry below takes its place.
        let mut at = self.child_at(&tree, child);
        let (leaf, last) = loop {
            let below = self.node(&tree, Some(at))?;
            let entries: Vec<Entry<'_>> = below.iter().collect();
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
        let is_empty = below.iter().next().is_none_or(|entry| entry.is_last());
        self.store_block(&tree, leaf, below)?;
        let lead = Entry { bytes: &last, offset: 0 };
        node.replace(step.offset, &lead.with_child(Some(child)));
        let depth = path.iter().position(|known| known.at == step.at).unwrap_or(0);
        self.store_node(tree, &path[..=depth], node)?;
        if is_empty {
            // The way there may be another by now.
            let tree = self.tree(file, index)?;
            let (mut path, _) = self.descend(&tree, |other| compare(order, &upcase, other, lead.key()))?;
            let here = path[path.len() - 1];
            let mut next = entry_in(&self.node(&tree, here.at)?.entries, here.offset).child();
            while let Some(vcn) = next {
                let at = Some(self.child_at(&tree, vcn));
                let node = self.node(&tree, at)?;
                let end = node.iter().last();
                next = end.and_then(|end| end.child());
                path.push(Step { at, offset: end.map_or(0, |end| end.offset) });
            }
            self.remove_leaf(file, index, path)?;
        }
        Ok(removed)
    }

    /// Takes an empty leaf, at the end of a path, out of the tree.
    fn remove_leaf(&mut self, file: u64, index: Index, mut path: Vec<Step>) -> Result<()> {
        let mut tree = self.tree(file, index)?;
        let Some(Step { at: Some(leaf), .. }) = path.pop() else { return Ok(()) };
        let Some(&parent) = path.last() else { return Ok(()) };
        self.free_block(&mut tree, leaf)?;
        let mut node = self.node(&tree, parent.at)?;
        let lead = entry_in(&node.entries, parent.offset);
        let before = node.iter().take_while(|entry| entry.offset < parent.offset).last();
        let homeless = if !lead.is_last() {
            let homeless = lead.with_child(None);
            node.replace(parent.offset, &[]);
            homeless
        } else if let Some(before) = before {
            let homeless = before.with_child(None);
            let end = last_entry(before.child());
            let start = before.offset;
            node.entries.truncate(start);
            node.entries.extend(end);
            homeless
        } else {
            // Nothing is left below the parent.
            let is_root = parent.at.is_none();
            self.store_node(tree, &path, Node::empty())?;
            if is_root {
                return self.drop_blocks(file, index);
            }
            return self.remove_leaf(file, index, path);
        };
        self.store_node(tree, &path, node)?;
        self.index_insert(file, index, &homeless)
    }

    /// Gives back the blocks of an index whose root is empty.
    fn drop_blocks(&mut self, number: u64, index: Index) -> Result<()> {
        let units = index.units();
        let mut file = (*self.file(number)?).clone();
        if let Some(Attr { body: Body::Outside(outside), .. }) = file.take(Kind::INDEX_ALLOCATION, &units) {
            self.give_runs(&outside.runs, Held::Metadata, number < crate::core::DETACHED);
        }
        if let Some(Attr { body: Body::Outside(outside), .. }) = file.take(Kind::BITMAP, &units) {
            self.give_runs(&outside.runs, Held::Metadata, number < crate::core::DETACHED);
            for page in 0..(outside.clusters() * self.geometry.cluster).div_ceil(PAGE) {
                self.drop_image(Key::Value(number, Kind::BITMAP, index.name(), page * PAGE));
            }
        }
        self.store(file)
    }

    /// Takes a free block of the index, and says where it is in bytes.
    fn take_block(&mut self, tree: &mut Tree) -> Result<u64> {
        let (units, cluster, block) = (tree.index.units(), self.geometry.cluster, u64::from(tree.block));
        let mut file = (*tree.file).clone();
        if file.find(Kind::INDEX_ALLOCATION, &units).is_none() {
            let body = Body::Outside(Outside::default());
            file.add(Attr { kind: Kind::INDEX_ALLOCATION, name: units.clone().into(), flags: 0, body });
            let old = file.take(Kind::BITMAP, &units);
            debug_assert!(old.is_none(), "a bitmap without blocks");
            file.add(Attr::resident(Kind::BITMAP, vec![0; 8]).named(&units));
        }
        let number = self.free_bit(&mut file, tree)?;
        let at = number * block;
        let Some(outside) = file.find(Kind::INDEX_ALLOCATION, &units).and_then(Attr::outside) else {
            return Err(Error::damaged("$INDEX_ALLOCATION", 0, "clusters", "a resident value"));
        };
        let mut outside = outside.clone();
        let allocated = outside.clusters() * cluster;
        if at + block > allocated {
            let ahead = allocated.clamp(block, 256 << 10).max(at + block - allocated);
            let least = (at + block - allocated).div_ceil(cluster);
            let wanted = ahead.div_ceil(cluster).min(self.space.at_hand() / 4).max(least);
            self.extend(&mut outside, wanted, true, true)?;
        }
        outside.size = outside.size.max(at + block);
        outside.valid = outside.size;
        if let Some(known) = file.find_mut(Kind::INDEX_ALLOCATION, &units).and_then(Attr::outside_mut) {
            *known = outside;
        }
        self.store(file)?;
        tree.file = self.file(tree.number)?;
        Ok(at)
    }

    /// Finds the first block that is free, and marks it as taken.
    fn free_bit(&mut self, file: &mut File, tree: &Tree) -> Result<u64> {
        let units = tree.index.units();
        let Some(bitmap) = file.find(Kind::BITMAP, &units).cloned() else {
            return Err(Error::damaged("$BITMAP", 0, format!("a bitmap of {}", tree.index.name()), "none"));
        };
        match bitmap.body {
            Body::Resident { mut value, indexed: _ } => {
                let byte = value.iter().position(|byte| *byte != 0xFF).unwrap_or(value.len());
                if byte == value.len() {
                    value.resize(byte + 8, 0);
                }
                let bit = value[byte].trailing_ones();
                value[byte] |= 1 << bit;
                let grown = Attr::resident(Kind::BITMAP, value).named(&units);
                file.put(grown);
                if file.length(self.geometry.cluster) > Record::room(self.geometry.record as usize)
                    && byte >= 64
                {
                    self.move_bitmap_out(file, tree)?;
                }
                Ok(byte as u64 * 8 + u64::from(bit))
            }
            Body::Outside(mut outside) => {
                let pages = outside.size.div_ceil(PAGE);
                for page in 0..pages {
                    let key = Key::Value(tree.number, Kind::BITMAP, tree.index.name(), page * PAGE);
                    let bytes = self.page(key, &outside)?;
                    let end = (outside.size - page * PAGE).min(PAGE) as usize;
                    if let Some(byte) = bytes[..end.min(bytes.len())].iter().position(|byte| *byte != 0xFF) {
                        let bit = bytes[byte].trailing_ones();
                        self.change_image(key, |bytes| bytes[byte] |= 1 << bit);
                        return Ok((page * PAGE + byte as u64) * 8 + u64::from(bit));
                    }
                }
                let at = outside.size;
                if at + 8 > outside.clusters() * self.geometry.cluster {
                    self.extend(&mut outside, 1, true, true)?;
                }
                let key = Key::Value(tree.number, Kind::BITMAP, tree.index.name(), at / PAGE * PAGE);
                let before = (at % PAGE) as usize;
                let mut bytes =
                    if before > 0 { self.page(key, &outside)?[..before].to_vec() } else { Vec::new() };
                let length = (outside.clusters() * self.geometry.cluster - at / PAGE * PAGE).min(PAGE);
                bytes.resize(length as usize, 0);
                bytes[before] |= 1;
                self.put_image(key, bytes);
                outside.size += 8;
                outside.valid = outside.size;
                let body = Body::Outside(outside);
                file.put(Attr { kind: Kind::BITMAP, name: units.into(), flags: 0, body });
                Ok(at * 8)
            }
        }
    }

    /// Moves the bitmap of an index with many blocks out of the record.
    fn move_bitmap_out(&mut self, file: &mut File, tree: &Tree) -> Result<()> {
        let units = tree.index.units();
        let Some(value) = file.find(Kind::BITMAP, &units).and_then(Attr::value).map(<[u8]>::to_vec) else {
            return Ok(());
        };
        let size = value.len() as u64;
        let mut outside = Outside { size, valid: size, ..Outside::default() };
        self.extend(&mut outside, size.max(PAGE).div_ceil(self.geometry.cluster), true, true)?;
        let mut bytes = value;
        bytes.resize((outside.clusters() * self.geometry.cluster) as usize, 0);
        for (page, bytes) in bytes.chunks(PAGE as usize).enumerate() {
            let at = page as u64 * PAGE;
            if at < size {
                self.put_image(Key::Value(tree.number, Kind::BITMAP, tree.index.name(), at), bytes.to_vec());
            }
        }
        let body = Body::Outside(outside);
        file.put(Attr { kind: Kind::BITMAP, name: units.into(), flags: 0, body });
        Ok(())
    }

    fn free_block(&mut self, tree: &mut Tree, at: u64) -> Result<()> {
        let units = tree.index.units();
        let number = at / u64::from(tree.block);
        let (byte, bit) = ((number / 8) as usize, number % 8);
        let bitmap = tree.file.find(Kind::BITMAP, &units).map(|bitmap| bitmap.body.clone());
        match bitmap {
            Some(Body::Resident { mut value, .. }) if byte < value.len() => {
                value[byte] &= !(1 << bit);
                let mut file = (*tree.file).clone();
                file.put(Attr::resident(Kind::BITMAP, value).named(&units));
                self.store(file)?;
                tree.file = self.file(tree.number)?;
            }
            Some(Body::Outside(outside)) if (byte as u64) < outside.size => {
                let page = byte as u64 / PAGE * PAGE;
                let key = Key::Value(tree.number, Kind::BITMAP, tree.index.name(), page);
                self.page(key, &outside)?;
                self.change_image(key, |bytes| {
                    if let Some(byte) = bytes.get_mut((byte as u64 - page) as usize) {
                        *byte &= !(1 << bit);
                    }
                });
            }
            _ => {
                let expected = format!("a bit for block {number}");
                return Err(Error::damaged("$BITMAP", 0, expected, "none"));
            }
        }
        self.drop_image(Key::Block(tree.number, tree.index, at));
        Ok(())
    }
}

fn entry_at(node: &[u8], offset: usize) -> Option<Entry<'_>> {
    entries_of(node).find(|entry| entry.offset == offset)
}

/// The entry at an offset where there is one.
fn entry_in(entries: &[u8], offset: usize) -> Entry<'_> {
    Entry { bytes: &entries[offset..offset + entry_length(entries, offset)], offset }
}

fn entry_length(entries: &[u8], offset: usize) -> usize {
    usize::from(crate::layout::bytes::u16_at(entries, offset + 8))
}

fn last_length(node: &Node) -> usize {
    node.iter().last().map_or(0, |entry| entry.bytes.len())
}
