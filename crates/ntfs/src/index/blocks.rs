//! The blocks of an index: taken, and given back.

use super::Tree;
use crate::core::{Core, Key, PAGE};
use crate::file::{Attr, Body, File, Outside};
use crate::layout::index::IndexNode;
use crate::layout::{Index, Kind, Record};
use crate::space::Held;
use platter_vfs::{Error, Result};

/// Bytes of unused blocks at the end of an index that are not worth giving back.
const KEPT: u64 = 64 << 10;

/// The number of bits up to the last one that is set.
fn last_bit(bytes: &[u8]) -> u64 {
    let last = bytes.iter().rposition(|byte| *byte != 0);
    last.map_or(0, |last| last as u64 * 8 + 8 - u64::from(bytes[last].leading_zeros()))
}

impl Core {
    /// Forgets the images of a removed file's index blocks and of their bitmaps.
    pub(crate) fn drop_index(&mut self, number: u64) {
        let is_its =
            |key: &&Key| matches!(key, Key::Block(file, ..) | Key::Value(file, ..) if *file == number);
        let mut keys: Vec<Key> = self.images().filter(is_its).copied().collect();
        keys.extend(self.pending.keys().filter(is_its));
        keys.into_iter().for_each(|key| self.drop_image(key));
    }

    /// Stores a file whose index has all its entries in the root from now on, and gives the index's blocks back.
    pub(super) fn drop_blocks(&mut self, mut file: File, index: Index, block: u32) -> Result<()> {
        let (units, number) = (index.units(), file.reference.number());
        if let Some(Attr { body: Body::Outside(outside), .. }) = file.take(Kind::INDEX_ALLOCATION, units) {
            self.give_runs(&outside.runs.to_vec(), Held::Metadata, true);
            self.drop_images(number, index, block, 0, outside.size);
        }
        if let Some(Attr { body: Body::Outside(outside), .. }) = file.take(Kind::BITMAP, units) {
            self.give_runs(&outside.runs.to_vec(), Held::Metadata, true);
            for page in 0..(outside.clusters() * self.geometry.cluster).div_ceil(PAGE) {
                self.drop_image(Key::Value(number, Kind::BITMAP, index.name(), page * PAGE));
            }
        }
        self.store(file)
    }

    /// Gives the blocks at the end of an index back if they are free and take more than the blocks before them.
    pub(super) fn cut_blocks(&mut self, number: u64, index: Index) -> Result<()> {
        let (units, tree, cluster) = (index.units(), self.tree(number, index)?, self.geometry.cluster);
        let Some(outside) = tree.allocation() else { return Ok(()) };
        let used = match tree.file.find(Kind::BITMAP, units).map(|bitmap| &bitmap.body) {
            Some(Body::Resident { value, .. }) => last_bit(value),
            Some(Body::Outside(bitmap)) => {
                let mut used = 0;
                for page in (0..bitmap.size.div_ceil(PAGE)).rev() {
                    let key = Key::Value(number, Kind::BITMAP, index.name(), page * PAGE);
                    let bytes = self.page(key, bitmap)?;
                    used = last_bit(&bytes[..bytes.len().min((bitmap.size - page * PAGE) as usize)]);
                    if used > 0 {
                        used += page * PAGE * 8;
                        break;
                    }
                }
                used
            }
            None => return Ok(()),
        };
        let end = used * u64::from(tree.block);
        if outside.clusters() * cluster < 2 * end + KEPT {
            return Ok(());
        }
        let mut file = (*tree.file).clone();
        let Some(outside) = file.find_mut(Kind::INDEX_ALLOCATION, units).and_then(Attr::outside_mut) else {
            return Ok(());
        };
        let given = outside.runs.cut(end.div_ceil(cluster));
        let size = outside.size;
        (outside.size, outside.valid) = (end, end);
        if let Some(Attr { body: Body::Resident { value, .. }, .. }) = file.find_mut(Kind::BITMAP, units) {
            value.truncate((used.div_ceil(64) * 8) as usize);
        }
        self.give_runs(&given, Held::Metadata, true);
        self.drop_images(number, index, tree.block, end, size);
        self.store(file)
    }

    /// Takes a free block of the index, and returns its byte offset in the index.
    pub(super) fn take_block(&mut self, tree: &mut Tree) -> Result<u64> {
        let (units, cluster, block) = (tree.index.units(), self.geometry.cluster, u64::from(tree.block));
        let mut file = (*tree.file).clone();
        if file.find(Kind::INDEX_ALLOCATION, units).is_none() {
            let body = Body::Outside(Outside::default());
            file.add(Attr { kind: Kind::INDEX_ALLOCATION, name: units.into(), flags: 0, body });
            let old = file.take(Kind::BITMAP, units);
            debug_assert!(old.is_none(), "a bitmap without blocks");
            file.add(Attr::resident(Kind::BITMAP, vec![0; 8]).named(units));
        }
        let number = self.free_bit(&mut file, tree)?;
        let at = number * block;
        let Some(outside) = file.find(Kind::INDEX_ALLOCATION, units).and_then(Attr::outside) else {
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
        if let Some(known) = file.find_mut(Kind::INDEX_ALLOCATION, units).and_then(Attr::outside_mut) {
            *known = outside;
        }
        self.store(file)?;
        tree.file = self.file(tree.number)?;
        Ok(at)
    }

    /// Finds the first block that is free, and marks it as taken.
    fn free_bit(&mut self, file: &mut File, tree: &Tree) -> Result<u64> {
        let units = tree.index.units();
        let Some(bitmap) = file.find(Kind::BITMAP, units).cloned() else {
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
                let grown = Attr::resident(Kind::BITMAP, value).named(units);
                file.put(grown);
                if file.length() > Record::room(self.geometry.record as usize) && byte >= 64 {
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

    /// Moves the bitmap of an index with many blocks out of the record into clusters.
    fn move_bitmap_out(&mut self, file: &mut File, tree: &Tree) -> Result<()> {
        let units = tree.index.units();
        let Some(value) = file.find(Kind::BITMAP, units).and_then(Attr::value).map(<[u8]>::to_vec) else {
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

    /// Marks a block as free, and empties it.
    pub(super) fn free_block(&mut self, tree: &mut Tree, at: u64) -> Result<()> {
        let units = tree.index.units();
        let number = at / u64::from(tree.block);
        let (byte, bit) = ((number / 8) as usize, number % 8);
        let bitmap = tree.file.find(Kind::BITMAP, units).map(|bitmap| bitmap.body.clone());
        match bitmap {
            Some(Body::Resident { mut value, .. }) if byte < value.len() => {
                value[byte] &= !(1 << bit);
                let mut file = (*tree.file).clone();
                file.put(Attr::resident(Kind::BITMAP, value).named(units));
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
        // The block is emptied because not every reader asks the bitmap: dissect.ntfs also shows the entries of blocks
        // that nothing leads to.
        self.store_block(tree, at, IndexNode::empty())
    }

    /// Forgets the images of an index's blocks between two byte offsets.
    fn drop_images(&mut self, number: u64, index: Index, block: u32, from: u64, to: u64) {
        for at in (from..to).step_by(block as usize) {
            self.drop_image(Key::Block(number, index, at));
        }
    }
}
