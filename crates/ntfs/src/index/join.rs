//! Joining nodes with their neighbours after entries were removed, and making trees lower.
//!
//! A node that is less than a quarter full is joined with a neighbour if both together leave a quarter of a block free;
//! so a name that is added and removed again and again does not split and join blocks each time. A node without any
//! entry must not stay: it is joined with a neighbour in any case, or gets half of the neighbour's entries. A root that
//! leads to one block only takes over the entries of that block, as soon as the record has room for them; if the block
//! was a leaf, the index has no blocks any more.

use super::order::Sought;
use super::{DEEPEST, Step, Tree, Way, entry_in, last_length};
use crate::core::Core;
use crate::file::Attr;
use crate::layout::index::{IndexBlock, IndexEntry, IndexNode, IndexRoot, entry_bytes, last_entry};
use crate::layout::{Index, Kind, Record};
use platter_vfs::{Error, Result};

/// The entry that ends a node.
fn end_of(node: &IndexNode) -> IndexEntry<'_> {
    entry_in(&node.entries, node.entries.len() - last_length(node))
}

/// Makes one node of two neighbours and the entry between them.
fn joined(low: &IndexNode, lead: &IndexEntry<'_>, high: &IndexNode) -> IndexNode {
    let mut entries = low.entries[..low.entries.len() - last_length(low)].to_vec();
    entries.extend(lead.with_child(end_of(low).child()));
    entries.extend(&high.entries);
    IndexNode { entries }
}

/// Divides a node into two halves and the entry between them, which has no child: the caller moves it to the parent.
fn parted(node: &IndexNode) -> Option<(IndexNode, Vec<u8>, IndexNode)> {
    let half = node.entries.len() / 2;
    let middle = node.iter().find(|entry| entry.end() > half)?;
    if middle.is_last() || middle.offset == 0 {
        return None;
    }
    let mut low = node.entries[..middle.offset].to_vec();
    low.extend(last_entry(middle.child()));
    let high = node.entries[middle.end()..].to_vec();
    Some((IndexNode { entries: low }, middle.with_child(None), IndexNode { entries: high }))
}

/// Whether a node has no entry but the one that ends it.
pub(super) fn is_bare(entries: &[u8]) -> bool {
    entry_in(entries, 0).is_last()
}

/// Whether a node in a block is to be joined with a neighbour.
pub(super) fn is_sparse(entries: &[u8], block: u32) -> bool {
    entries.len() < IndexBlock::room(block) / 4 || is_bare(entries)
}

impl Core {
    /// Joins the leaf where a key would be, and the nodes above it, with neighbours if they are too empty.
    pub(super) fn tidy(&mut self, file: u64, index: Index, key: &[u8]) -> Result<()> {
        for _ in 0..2 * DEEPEST {
            let tree = self.tree(file, index)?;
            let path = self.way_to_leaf(&tree, key)?;
            if !self.join_once(tree, &path)? && !self.lower(file, index)? {
                break;
            }
        }
        self.cut_blocks(file, index)
    }

    /// The way to the leaf that has the greatest key up to `key`, or in which that key would be.
    fn way_to_leaf(&mut self, tree: &Tree, key: &[u8]) -> Result<Way> {
        let sought = Sought::new(tree.index.collation(), &self.upcase, key);
        let (mut path, _) = self.descend(tree, |other| sought.order(other))?;
        let here = path[path.len() - 1];
        let mut next = entry_in(entry_bytes(self.bytes(tree, here.at)?.node()), here.offset).child();
        while let Some(vcn) = next {
            if path.len() >= DEEPEST {
                let at = here.at.unwrap_or(0);
                return Err(Error::damaged("index", at, "a leaf", "more than 32 levels"));
            }
            let at = Some(self.child_at(tree, vcn));
            let node = self.node(tree, at)?;
            let end = end_of(&node);
            next = end.child();
            path.push(Step { at, offset: end.offset });
        }
        Ok(path)
    }

    /// Joins the lowest node of a path that is sparse and can be joined. Returns whether there was one.
    fn join_once(&mut self, tree: Tree, path: &[Step]) -> Result<bool> {
        let room = IndexBlock::room(tree.block);
        for level in (1..path.len()).rev() {
            let Some(at) = path[level].at else { continue };
            let node = self.node(&tree, Some(at))?;
            if !is_sparse(&node.entries, tree.block) {
                continue;
            }
            let parent = self.node(&tree, path[level - 1].at)?;
            let entries: Vec<IndexEntry<'_>> = parent.iter().collect();
            let Some(here) = entries.iter().position(|entry| entry.offset == path[level - 1].offset) else {
                continue;
            };
            let is_bare = is_bare(&node.entries);
            let most = if is_bare { room } else { room / 4 * 3 };
            let mut tight = None;
            // The leaf is joined with the neighbour behind it, or with the one before.
            for low in [Some(here), here.checked_sub(1)].into_iter().flatten() {
                let (Some(lead), Some(next)) = (entries.get(low), entries.get(low + 1)) else { continue };
                let (Some(low), Some(high)) = (lead.child(), next.child()) else { continue };
                let (low, high) = (self.child_at(&tree, low), self.child_at(&tree, high));
                let (one, two) = (self.node(&tree, Some(low))?, self.node(&tree, Some(high))?);
                if one.has_children() != two.has_children() {
                    continue;
                }
                let whole = joined(&one, lead, &two);
                let mut parent = parent.clone();
                if whole.entries.len() <= most {
                    let mut tree = tree;
                    // Of the two blocks the first in the index stays, so that those at the end can be given back.
                    let (kept, gone) = (low.min(high), low.max(high));
                    parent.replace(next.offset, &next.with_child(Some(self.vcn_of(&tree, kept))));
                    parent.replace(lead.offset, &[]);
                    self.store_block(&tree, kept, whole)?;
                    self.free_block(&mut tree, gone)?;
                    self.store_node(tree, &path[..level], parent)?;
                    return Ok(true);
                }
                tight.get_or_insert((low, high, whole, lead));
            }
            if let Some((low, high, whole, lead)) = tight.filter(|_| is_bare)
                && let Some((one, between, two)) = parted(&whole)
            {
                let mut parent = parent.clone();
                let between = IndexEntry { bytes: &between, offset: 0 }.with_child(lead.child());
                parent.replace(lead.offset, &between);
                self.store_block(&tree, low, one)?;
                self.store_block(&tree, high, two)?;
                let above = [&path[..level - 1], &[Step { offset: lead.offset, ..path[level - 1] }]].concat();
                self.store_node(tree, &above, parent)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Makes the tree lower by a level if its root leads to one block only, and the record has room for the entries of
    /// that block. Returns whether it did.
    fn lower(&mut self, number: u64, index: Index) -> Result<bool> {
        let mut tree = self.tree(number, index)?;
        let mut root = IndexRoot::from_bytes(tree.root(), 0)?;
        let end = end_of(&root.node);
        let Some(child) = end.child().filter(|_| end.offset == 0) else { return Ok(false) };
        let at = self.child_at(&tree, child);
        root.node = self.node(&tree, Some(at))?;
        let (is_leaf, is_bare) = (!root.node.has_children(), is_bare(&root.node.entries));
        let root = Attr::resident(Kind::INDEX_ROOT, root.to_bytes()).named(index.units());
        let mut lower = (*tree.file).clone();
        lower.put(root.clone());
        if is_leaf {
            lower.take(Kind::INDEX_ALLOCATION, index.units());
            lower.take(Kind::BITMAP, index.units());
        }
        // An eighth of the record is left for the next entries, which would otherwise bring the block back.
        let room = Record::room(self.geometry.record as usize);
        if !is_bare && lower.length() > room / 8 * 7 {
            return Ok(false);
        }
        self.free_block(&mut tree, at)?;
        let mut file = (*tree.file).clone();
        file.put(root);
        if is_leaf {
            self.drop_blocks(file, index, tree.block)?
        } else {
            self.store(file)?
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Key;
    use crate::index::name_key;
    use crate::layout::index::name_entry;
    use crate::layout::{FileName, Reference, record_number::ROOT};
    use platter_device::{MemoryDevice, Sectors};
    use platter_testing::model::Random;
    use platter_vfs::{Format, FormatOptions, OpenOptions, Silent};
    use std::collections::BTreeMap;
    use std::sync::Arc;

    /// The shape and the names of an index.
    #[derive(Debug, Default, PartialEq)]
    struct Shape {
        /// Levels of blocks below the root.
        depth: usize,
        blocks: u64,
        /// Bytes of entries in blocks.
        bytes: usize,
        names: Vec<String>,
    }

    fn below(core: &mut Core, tree: &Tree, at: Option<u64>, level: usize, shape: &mut Shape) {
        let node = core.node(tree, at).unwrap();
        if at.is_some() {
            (shape.blocks, shape.bytes) = (shape.blocks + 1, shape.bytes + node.entries.len());
            assert!(!is_bare(&node.entries), "a block without an entry");
        }
        for entry in node.iter() {
            match entry.child() {
                Some(vcn) => {
                    let at = core.child_at(tree, vcn);
                    below(core, tree, Some(at), level + 1, shape);
                }
                None if shape.names.is_empty() => shape.depth = level,
                None => assert_eq!(shape.depth, level, "leaves in different depths"),
            }
            if !entry.is_last() {
                let units: Vec<u16> = FileName::from_bytes(entry.key(), 0).unwrap().name.to_vec();
                shape.names.push(String::from_utf16(&units).unwrap());
            }
        }
    }

    /// The shape of the root directory's index. Its bitmap must have as many bits set as there are blocks.
    fn shape(core: &mut Core) -> Shape {
        let tree = core.tree(ROOT, Index::Names).unwrap();
        let mut shape = Shape::default();
        below(core, &tree, None, 0, &mut shape);
        let bitmap =
            match tree.file.find(Kind::BITMAP, Index::Names.units()).map(|bitmap| bitmap.body.clone()) {
                None => Vec::new(),
                Some(crate::file::Body::Resident { value, .. }) => value,
                Some(crate::file::Body::Outside(outside)) => {
                    let pages = (0..outside.size.div_ceil(4096)).map(|page| {
                        let key = Key::Value(ROOT, Kind::BITMAP, Index::Names.name(), page * 4096);
                        core.page(key, &outside).unwrap().to_vec()
                    });
                    let mut bytes = pages.collect::<Vec<_>>().concat();
                    bytes.truncate(outside.size as usize);
                    bytes
                }
            };
        let bits: u32 = bitmap.iter().map(|byte| byte.count_ones()).sum();
        assert_eq!(u64::from(bits), shape.blocks, "the bitmap");
        shape
    }

    fn key(name: &str) -> Vec<u8> {
        name_key(&name.encode_utf16().collect::<Vec<_>>())
    }

    fn core(cluster: u64) -> Core {
        let device = Arc::new(MemoryDevice::new(64 << 20, Sectors { logical: 512, physical: 512 }));
        let options = FormatOptions { cluster: Some(cluster), ..FormatOptions::default() };
        crate::Ntfs.make(&*device, &options, &Silent).unwrap();
        crate::open::open(device, OpenOptions::default()).unwrap().core
    }

    /// Adds names of very different lengths, and removes them in another order; if `is_mixed`, adds some in between.
    fn grow_and_shrink(cluster: u64, names: usize, seed: u64, is_mixed: bool) {
        let mut core = core(cluster);
        let (empty, free) = (shape(&mut core), core.space.free());
        let mut random = Random::new(seed);
        let mut model: BTreeMap<String, u64> = BTreeMap::new();
        let add = |core: &mut Core, model: &mut BTreeMap<String, u64>, random: &mut Random, number: u64| {
            let name = format!("{:08x}{}", random.below(1 << 32), "x".repeat(random.below(240) as usize));
            let entry = name_entry(Reference::new(1000 + number, 1), &key(&name));
            core.transact(|core| core.index_insert(ROOT, Index::Names, &entry)).unwrap();
            model.insert(name, number);
        };
        for number in 0..names as u64 {
            add(&mut core, &mut model, &mut random, number);
        }
        let full = shape(&mut core);
        assert!(full.depth >= 2, "{} names, {} levels", names, full.depth);
        let mut steps = 0;
        while !model.is_empty() {
            let at = if is_mixed { random.below(model.len() as u64) as usize } else { 0 };
            let name = model.keys().nth(at).unwrap().clone();
            core.transact(|core| core.index_remove(ROOT, Index::Names, &key(&name))).unwrap();
            model.remove(&name);
            if is_mixed && random.below(4) == 0 {
                add(&mut core, &mut model, &mut random, 0);
            }
            steps += 1;
            if steps % (names / 20) == 0 {
                let now = shape(&mut core);
                let ours: Vec<&String> =
                    now.names.iter().filter(|name| !empty.names.contains(name)).collect();
                assert_eq!(ours, model.keys().collect::<Vec<_>>());
                let least = now.blocks.saturating_sub(3) as usize * IndexBlock::room(4096) / 8;
                assert!(
                    now.bytes >= least,
                    "{} names: {} bytes in {} blocks",
                    model.len(),
                    now.bytes,
                    now.blocks
                );
            }
        }
        let end = shape(&mut core);
        assert_eq!((end.depth, end.blocks, end.names), (empty.depth, empty.blocks, empty.names));
        // The index keeps blocks, as the root directory of a new volume has one already.
        let left = free - core.space.free();
        assert!(left * cluster <= 256 << 10, "{left} clusters are not given back");
    }

    #[test]
    fn an_index_shrinks_as_it_grew() {
        for (seed, cluster) in [(1, 512), (2, 4096), (3, 65536)] {
            grow_and_shrink(cluster, 2_000, seed, true);
        }
        grow_and_shrink(4096, 2_000, 4, false);
    }

    /// A name at the border of a block that is added and removed again and again does not split and join blocks each
    /// time.
    #[test]
    fn a_name_that_comes_and_goes_changes_one_block() {
        let mut core = core(4096);
        for number in 0..400u64 {
            let entry = name_entry(Reference::new(1000 + number, 1), &key(&format!("name {number:05}")));
            core.transact(|core| core.index_insert(ROOT, Index::Names, &entry)).unwrap();
        }
        for number in 0..400u64 {
            let name = key(&format!("name {number:05}"));
            let entry = core.transact(|core| core.index_remove(ROOT, Index::Names, &name)).unwrap();
            let plain = IndexEntry { bytes: &entry, offset: 0 }.with_child(None);
            // The first removal may join blocks; after that, nothing more is built anew.
            core.transact(|core| core.index_insert(ROOT, Index::Names, &plain)).unwrap();
            core.transact(|core| core.index_remove(ROOT, Index::Names, &name)).unwrap();
            core.transact(|core| core.index_insert(ROOT, Index::Names, &plain)).unwrap();
            let before = core.made;
            for _ in 0..10 {
                core.transact(|core| core.index_remove(ROOT, Index::Names, &name)).unwrap();
                core.transact(|core| core.index_insert(ROOT, Index::Names, &plain)).unwrap();
            }
            // A removed entry above the leaves is replaced by one from a leaf, so two blocks change each time.
            assert!(core.made - before <= 10 * 3, "name {number}: {} images", core.made - before);
        }
    }
}
