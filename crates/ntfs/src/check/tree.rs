//! The check's own walk through an index.

use super::Check;
use super::clusters::Clusters;
use super::order;
use crate::layout::bytes::u32_at;
use crate::layout::index::{IndexBlock, IndexEntry, IndexNode, IndexRoot, vcn_unit};
use crate::layout::{Run, fixup};
use std::cmp::Ordering;

/// An index, read from its attributes.
pub(super) struct Tree {
    pub root: IndexRoot,
    /// The runs of `$INDEX_ALLOCATION`; `size` is its length in bytes.
    pub runs: Vec<Run>,
    pub size: u64,
    /// The value of `$BITMAP`.
    pub bitmap: Vec<u8>,
    /// The device offset of the root's record.
    pub at: u64,
}

/// Nodes from the root down. A tree with this many levels would have more entries than a volume has records.
const DEEPEST: usize = 24;

/// Where a block's node begins.
const BLOCK_NODE: usize = 0x18;

struct Level {
    node: IndexNode,
    at: u64,
    offset: usize,
    /// Whether the child before the entry at `offset` was walked.
    is_below_done: bool,
}

impl Level {
    fn new(node: IndexNode, at: u64) -> Level {
        Level { node, at, offset: 0, is_below_done: false }
    }
}

/// Walks an index in the order of its keys, and calls `visit` with every entry and its place. Returns the faults of the
/// tree, a sentence for each, at most `most`.
pub(super) fn walk(
    check: &mut Check<'_>,
    tree: &Tree,
    most: usize,
    visit: &mut dyn FnMut(&mut Check<'_>, &IndexEntry<'_>, u64),
) -> Vec<String> {
    let mut faults: Vec<String> = Vec::new();
    let mut seen = Clusters::default();
    let unit = vcn_unit(tree.root.block, check.geometry.cluster);
    let per_block = u64::from(tree.root.block) / unit;
    let mut before: Option<Vec<u8>> = None;
    let mut levels = vec![Level::new(tree.root.node.clone(), tree.at)];
    while let Some(level) = levels.last_mut() {
        let Some(entry) = level.node.iter().find(|entry| entry.offset == level.offset) else {
            levels.pop();
            continue;
        };
        if let Some(vcn) = entry.child().filter(|_| !level.is_below_done) {
            level.is_below_done = true;
            let depth = levels.len();
            match child(check, tree, vcn, per_block, unit, &mut seen) {
                Ok(_) if depth >= DEEPEST => {
                    faults.push(format!("index: expected at most {DEEPEST} levels, found more"))
                }
                Ok(next) => levels.push(next),
                Err(fault) => faults.push(fault),
            }
            if faults.len() >= most {
                return faults;
            }
            continue;
        }
        if entry.is_last() {
            levels.pop();
            continue;
        }
        let (end, place) = (entry.end(), level.at + entry.offset as u64);
        let ordered = match &before {
            None => true,
            Some(before) => {
                let order = order::compare(tree.root.collation, &check.upper, before, entry.key());
                order == Some(Ordering::Less)
            }
        };
        if !ordered && faults.len() < most {
            faults
                .push(format!("index at offset {place}: expected keys that ascend, found one that does not"));
        }
        before = Some(entry.key().to_vec());
        visit(check, &entry, place);
        level.offset = end;
        level.is_below_done = false;
    }
    bitmap(tree, &seen, &mut faults);
    faults
}

fn child(
    check: &Check<'_>,
    tree: &Tree,
    vcn: u64,
    per_block: u64,
    unit: u64,
    seen: &mut Clusters,
) -> Result<Level, String> {
    let size = u64::from(tree.root.block);
    let number = vcn / per_block;
    if !vcn.is_multiple_of(per_block) || number.saturating_add(1).saturating_mul(size) > tree.size {
        let blocks = tree.size / size;
        return Err(format!("index: expected a child among {blocks} blocks, found virtual cluster {vcn}"));
    }
    if seen.add(number, 1) > 0 {
        return Err(format!("index: expected each block once, found block {number} again"));
    }
    let offset = vcn * unit;
    let at = super::disk::pieces(&check.geometry, &tree.runs, offset, 1)
        .first()
        .and_then(|piece| piece.1)
        .unwrap_or(0);
    let mut bytes = vec![0; size as usize];
    check
        .disk
        .read_runs(&check.geometry, &tree.runs, offset, &mut bytes)
        .map_err(|error| error.to_string())?;
    fixup::remove(&mut bytes, "index block", at).map_err(|error| error.to_string())?;
    let block = IndexBlock::from_bytes(&bytes, vcn, at).map_err(|error| error.to_string())?;
    let allocated = u64::from(u32_at(&bytes, BLOCK_NODE + 8));
    if allocated != size - BLOCK_NODE as u64 {
        let expected = size - BLOCK_NODE as u64;
        return Err(format!(
            "index block at offset {at}: expected {expected} allocated bytes, found {allocated}"
        ));
    }
    Ok(Level::new(block.node, at))
}

fn bitmap(tree: &Tree, seen: &Clusters, faults: &mut Vec<String>) {
    let blocks = tree.size / u64::from(tree.root.block);
    let bit = |number: u64| {
        tree.bitmap.get((number / 8) as usize).is_some_and(|byte| byte >> (number % 8) & 1 == 1)
    };
    let missing = (0..blocks).filter(|&number| seen.has(number) && !bit(number)).count();
    let extra = (0..tree.bitmap.len() as u64 * 8).filter(|&number| bit(number) && !seen.has(number)).count();
    if missing + extra > 0 && faults.is_empty() {
        faults.push(format!(
            "index: $BITMAP: expected a bit for each of {} blocks in use, found {missing} missing and {extra} more",
            seen.count()
        ));
    }
}
