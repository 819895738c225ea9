//! Building an index anew: from its entries in order, leaves first.

use super::Check;
use super::file::{Assembled, Key, key, outside};
use crate::layout::index::{self, IndexBlock, IndexEntry, IndexNode, IndexRoot, vcn_unit};
use crate::layout::{Attribute, Kind, Record, Run, fixup};
use platter_vfs::Result;

/// The properties of an index that is to be built.
pub(super) struct Shape<'n> {
    pub name: &'static str,
    /// The names of all indexes that the file has, this one included.
    pub siblings: &'n [&'static str],
    /// The type of the attribute that the index sorts: `$FILE_NAME` in directories, 0 in other indexes.
    pub kind: Kind,
    pub collation: u32,
}

/// Bytes that the non-resident attributes of an index take in the record: `$INDEX_ALLOCATION` with some runs, and
/// `$BITMAP`.
const OUTSIDE: usize = 0x70 + 0x30;

/// Bytes of the longest bitmap that is kept in the record.
const RESIDENT_BITMAP: usize = 64;

/// Gives a file an index with these entries, which have no children. Returns `false` if there is too little room.
pub(super) fn index(
    check: &mut Check<'_>,
    file: &mut Assembled,
    shape: &Shape<'_>,
    entries: &[Vec<u8>],
) -> Result<bool> {
    let [root, allocation, bitmap] =
        [Kind::INDEX_ROOT, Kind::INDEX_ALLOCATION, Kind::BITMAP].map(|kind| key(kind, shape.name));
    let (block, cluster) = (check.geometry.index, check.geometry.cluster);
    let old = file.runs(check.geometry.clusters, &allocation).map(|(runs, _)| runs);
    let part = file.find(&root).first().map_or(0, |place| place.0);
    for key in [&root, &allocation, &bitmap] {
        file.remove(key);
    }
    drop_unknown(file, shape.siblings);
    // The root goes into record `part`; `room` is the number of bytes that are left in it.
    let size = check.geometry.record as usize;
    let header = 0x20 + IndexRoot::HEADER + index::NODE_HEADER + shape.name.len() * 2;
    let room = Record::room(size).saturating_sub(file.records[part].record.length() + header);
    let mut value = IndexRoot::new(shape.kind, shape.collation, block, cluster);
    let whole: usize = entries.iter().map(Vec::len).sum();
    let list_room = if file.records.len() > 1 { 0x40 } else { 0 };
    if whole + 16 + list_room <= room {
        value.node = node(entries.iter().map(|entry| (None, entry)), None);
        add(file, part, root_attribute(shape, &value));
        return Ok(true);
    }
    let Some(room) = room.checked_sub(OUTSIDE) else { return Ok(false) };
    let unit = vcn_unit(block, cluster);
    let mut blocks: Vec<IndexNode> = Vec::new();
    let mut level = Level { items: entries.iter().map(|entry| (None, entry.clone())).collect(), last: None };
    loop {
        level = pack(level, IndexBlock::room(block), &mut blocks, u64::from(block) / unit);
        let bytes: usize = level.items.iter().map(|(_, entry)| entry.len() + 8).sum();
        if bytes + 24 <= room || level.items.is_empty() {
            break;
        }
    }
    value.node = node(level.items.iter().map(|(child, entry)| (*child, entry)), level.last);
    let bytes = blocks.len() as u64 * u64::from(block);
    let clusters = bytes.div_ceil(cluster);
    let runs = match old {
        Some(runs) if check.is_own(&runs) && runs.last().map_or(0, Run::end) >= clusters => runs,
        _ => match check.allocate(clusters) {
            Some(runs) => runs,
            None => return Ok(false),
        },
    };
    let step = u64::from(block) / unit;
    for (number, node) in blocks.iter().enumerate() {
        let number = number as u64;
        let made = IndexBlock { lsn: 0, vcn: number * step, update: 0, node: node.clone() };
        let Some(mut bytes) = made.to_bytes(block) else { return Ok(false) };
        fixup::apply(&mut bytes);
        check.disk.write_runs(&check.geometry, &runs, number * u64::from(block), &bytes)?;
    }
    let mut bits = vec![0u8; blocks.len().div_ceil(64) * 8];
    (0..blocks.len()).for_each(|number| bits[number / 8] |= 1 << (number % 8));
    add(file, part, root_attribute(shape, &value));
    let allocation = outside(check, allocation, &runs, bytes);
    add(file, part, allocation);
    let bitmap = if bits.len() <= RESIDENT_BITMAP {
        Attribute::resident(Kind::BITMAP, bits).named(shape.name)
    } else {
        let Some(runs) = check.allocate((bits.len() as u64).div_ceil(cluster)) else { return Ok(false) };
        check.disk.write_runs(&check.geometry, &runs, 0, &bits)?;
        outside(check, bitmap, &runs, bits.len() as u64)
    };
    add(file, part, bitmap);
    Ok(true)
}

/// Removes all other index attributes: each is one of these indexes under a damaged name, and takes room that the index
/// needs.
fn drop_unknown(file: &mut Assembled, names: &[&str]) {
    let names: Vec<Box<[u16]>> = names.iter().map(|name| name.encode_utf16().collect()).collect();
    let is_unknown = |(kind, name): &Key| {
        matches!(*kind, Kind::INDEX_ROOT | Kind::INDEX_ALLOCATION | Kind::BITMAP) && !names.contains(name)
    };
    let unknown: Vec<Key> = file.streams().into_keys().filter(is_unknown).collect();
    unknown.iter().for_each(|key| file.remove(key));
}

fn root_attribute(shape: &Shape<'_>, value: &IndexRoot) -> Attribute {
    Attribute::resident(Kind::INDEX_ROOT, value.to_bytes()).named(shape.name)
}

fn add(file: &mut Assembled, part: usize, attribute: Attribute) {
    file.records[part].record.add(attribute);
    file.records[part].is_changed = true;
}

/// The entries of one level of the tree, each with the child before it, and the child behind the last entry.
struct Level {
    items: Vec<(Option<u64>, Vec<u8>)>,
    last: Option<u64>,
}

/// Fills blocks with the entries of a level. Returns the next level, which has the entries between two blocks.
fn pack(level: Level, room: usize, blocks: &mut Vec<IndexNode>, step: u64) -> Level {
    let tail = 16 + if level.last.is_some() { 8 } else { 0 };
    // An eighth of each block is left for later entries.
    let room = room - room / 8;
    let mut above = Level { items: Vec::new(), last: None };
    let mut here: Vec<(Option<u64>, Vec<u8>)> = Vec::new();
    let mut used = 0;
    let count = level.items.len();
    for (index, (child, entry)) in level.items.into_iter().enumerate() {
        let length = entry.len() + if child.is_some() { 8 } else { 0 };
        if used + length + tail <= room || here.len() < 2 {
            used += length;
            here.push((child, entry));
            continue;
        }
        // No block may be without entries: the last block gets one from the block before.
        let is_last = index + 1 == count;
        let (between, next) = match here.pop() {
            Some(before) if is_last => (before, Some((child, entry))),
            Some(before) => {
                here.push(before);
                ((child, entry), None)
            }
            None => ((child, entry), None),
        };
        let vcn = blocks.len() as u64 * step;
        blocks.push(node(here.iter().map(|(child, entry)| (*child, entry)), between.0));
        above.items.push((Some(vcn), between.1));
        here.clear();
        used = 0;
        if let Some(next) = next {
            used += next.1.len() + 8;
            here.push(next);
        }
    }
    above.last = Some(blocks.len() as u64 * step);
    blocks.push(node(here.iter().map(|(child, entry)| (*child, entry)), level.last));
    above
}

fn node<'e>(entries: impl Iterator<Item = (Option<u64>, &'e Vec<u8>)>, last: Option<u64>) -> IndexNode {
    let mut bytes = Vec::new();
    for (child, entry) in entries {
        bytes.extend(IndexEntry { bytes: entry, offset: 0 }.with_child(child));
    }
    bytes.extend(index::last_entry(last));
    IndexNode { entries: bytes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::index::view_entry;

    /// Collects all keys in the order of a walk.
    fn collect(node: &IndexNode, blocks: &[IndexNode], found: &mut Vec<Vec<u8>>) {
        for entry in node.iter() {
            if let Some(child) = entry.child() {
                collect(&blocks[child as usize], blocks, found);
            }
            if !entry.is_last() {
                found.push(entry.key().to_vec());
            }
        }
    }

    #[test]
    fn a_tree_has_all_entries_in_order_and_no_empty_block() {
        for count in [1u32, 2, 3, 10, 20, 21, 22, 23, 24, 25, 100, 1000, 20_000] {
            let entries: Vec<Vec<u8>> =
                (0..count).map(|key| view_entry(&key.to_be_bytes(), &[7; 20])).collect();
            let mut blocks = Vec::new();
            let mut level =
                Level { items: entries.iter().map(|entry| (None, entry.clone())).collect(), last: None };
            loop {
                level = pack(level, 1000, &mut blocks, 1);
                if level.items.len() < 4 {
                    break;
                }
            }
            let root = node(level.items.iter().map(|(child, entry)| (*child, entry)), level.last);
            let mut found = Vec::new();
            collect(&root, &blocks, &mut found);
            let expected: Vec<Vec<u8>> = (0..count).map(|key| key.to_be_bytes().to_vec()).collect();
            assert!(found == expected, "{count}");
            assert!(
                blocks.iter().all(|block| block.iter().count() > 1 && block.entries.len() <= 1000),
                "{count}"
            );
        }
    }
}
