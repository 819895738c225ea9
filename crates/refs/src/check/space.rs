//! The allocators' rows, compared with the clusters that the check has found in use.

use super::Check;
use super::page::{FIRST_CONTAINER, plain};
use super::tree::{RowCursor, TreeRow};
use crate::container::Tier;
use crate::layout::{AllocatorPart, AllocatorRow, AllocatorSummary, ContainerRow, Root, header};
use platter_vfs::{Error, Result, Severity};
use std::collections::{BTreeMap, HashMap};

/// The content of the allocators' rows about one container.
#[derive(Clone, Default)]
struct Seen {
    /// For each tier, whether its allocator has rows for the whole container; for the medium tier, whether it has any.
    rows: [bool; 3],
    /// The clusters in rows of other allocators than the medium one that cover the container only in part. Windows has
    /// rows of 3 pages; the medium allocator counts these clusters as in use.
    apart: Option<Box<[u64]>>,
    /// The number of free clusters, by the rows of the allocators that the container belongs to.
    free: u32,
}

/// A walk through the rows of one allocator.
struct Rows {
    tier: Tier,
    /// The cluster after the last row.
    end: u64,
    /// The clusters in all rows, and the free ones among them.
    covered: u64,
    free: u64,
    /// The number of rows that do not have the form that Windows gives them, and what is wrong with the first.
    unformed: Option<(u64, String)>,
    /// What rows that do not cover whole containers say of each container.
    odd: BTreeMap<usize, AllocatorPart>,
}

/// The tiers in the order in which they are compared. The medium one comes last, since it must have the containers of
/// the other two as wholly in use.
const TIERS: [(Tier, Root); 3] = [
    (Tier::Small, Root::SmallAllocator),
    (Tier::Container, Root::ContainerAllocator),
    (Tier::Medium, Root::MediumAllocator),
];

/// Compares all allocators with the clusters in use, once everything else has been walked.
pub(super) fn compare(check: &mut Check<'_>) {
    let mut seen = vec![Seen::default(); check.starts.len()];
    let places = check.starts.iter().zip(0..).filter_map(|(start, index)| Some(((*start)?, index))).collect();
    let mut is_damaged = false;
    for (tier, root) in TIERS {
        let mut cursor = check.root_cursor(root);
        let mut rows = Rows { tier, end: 0, covered: 0, free: 0, unformed: None, odd: BTreeMap::default() };
        let mut is_whole = true;
        loop {
            check.is_again = true;
            let row = cursor.next(check);
            check.is_again = false;
            let Some(row) = row else { break };
            if let Err(error) = one(check, &mut rows, &row, &mut seen, &places) {
                let message = format!("{}: {}", root.name(), plain(&error));
                check.find("allocator-row", Severity::Inconsistent, None, message);
                // A damaged row may have any key, so a repair cannot find it by its container: the whole root is made
                // anew.
                check.repair.renew(root);
                is_whole = false;
            }
        }
        is_whole &= !cursor.is_damaged;
        for (index, part) in std::mem::take(&mut rows.odd) {
            match part.is_whole(check.geometry.per_container) || tier == Tier::Medium {
                true => seen[index].rows[tier as usize] = true,
                false => match &mut seen[index].apart {
                    Some(apart) => apart.iter_mut().zip(&part.covered).for_each(|(word, own)| *word |= own),
                    apart => *apart = Some(part.covered),
                },
            }
        }
        if is_whole {
            summary(check, root, &rows, &cursor);
        }
        is_damaged |= !is_whole;
    }
    check.tiers = (0..seen.len()).map(|index| tier(check, index, &seen[index])).collect();
    // After a loss of content, clusters that nothing leads to may hold it and must be kept. Which these are is known
    // only if all rows of the allocators could be read.
    check.is_space_known = !check.is_content_lost || !is_damaged;
    for (index, seen) in seen.iter().enumerate() {
        owners(check, index, seen, is_damaged);
    }
}

/// Compares what the root page of an allocator says of all rows with the rows, and reports rows of another form than
/// Windows gives them. Earlier versions of Platter left the summary empty, and gave all bitmaps the length of the
/// longest.
fn summary(check: &mut Check<'_>, root: Root, rows: &Rows, cursor: &RowCursor) {
    if let Some((count, first)) = &rows.unformed {
        let message = format!("{}: {count} rows have another form than Windows writes: {first}", root.name());
        check.find("allocator-row", Severity::Inconsistent, None, message);
        check.repair.space();
    }
    let (header, at) = cursor.header();
    let Some(found) = AllocatorSummary::from_bytes(header::extra(header)) else { return };
    // At 3.4 the medium allocator has no rows for the containers of the others, and its summary counts them.
    let all = check.starts.len() as u64 * u64::from(check.geometry.per_container);
    let is_split = root == Root::MediumAllocator && !check.geometry.version.has_shared_allocators();
    let is_covered = found.covered == rows.covered || is_split && found.covered == all;
    if is_covered && found.free == rows.free {
        return;
    }
    let expected = if is_split { all } else { rows.covered };
    let message = format!(
        "{}: summary in the root page at offset {}: expected {expected} clusters, {} of them free, found {} and {}",
        root.name(),
        at + header::FIXED as u64,
        rows.free,
        found.covered,
        found.free
    );
    check.find("allocator-summary", Severity::Inconsistent, None, message);
    check.repair.space();
}

/// Returns the tier that a container belongs to by the allocators' rows about it.
fn owner(seen: &Seen) -> Tier {
    match seen.rows {
        [_, _, true] => Tier::Small,
        [_, true, _] => Tier::Container,
        _ => Tier::Medium,
    }
}

/// Returns the tier that a container belongs to: that of its pages and data or, if it holds none or those of several
/// tiers, that of the allocators' rows.
fn tier(check: &Check<'_>, index: usize, seen: &Seen) -> Tier {
    match check.starts[index].map_or([false; 3], |start| check.used.tiers(start)) {
        [true, false, false] => Tier::Medium,
        [false, true, false] => Tier::Container,
        [false, false, true] => Tier::Small,
        _ => owner(seen),
    }
}

/// Compares one row of an allocator with the clusters in use.
fn one(
    check: &mut Check<'_>,
    rows: &mut Rows,
    row: &TreeRow,
    seen: &mut [Seen],
    places: &HashMap<u64, usize>,
) -> Result<()> {
    let found = AllocatorRow::from_bytes(&row.value, row.value_at)?;
    let clusters = check.geometry.per_container;
    if row.key.len() != AllocatorRow::KEY || row.key != row.value[..AllocatorRow::KEY] {
        return Err(Error::damaged(
            "key of an allocator row",
            row.at,
            "the first 16 bytes of its value",
            format!("{:02x?}", row.key),
        ));
    }
    let outside = || {
        let range = format!("{:#x} and {:#x} more", found.start, found.count);
        Error::damaged("range of an allocator row", row.value_at, "clusters of containers", range)
    };
    // A row can stand for several containers, or for a part of one.
    let whole = found.range(clusters).map(|(range, _)| range);
    let (first, count) = whole
        .or_else(|| found.around(clusters))
        .filter(|range| range.1 as usize <= seen.len())
        .ok_or_else(outside)?;
    if found.start < rows.end {
        return Err(Error::damaged(
            "allocator row",
            row.at,
            "one row for each cluster",
            format!("another for {:#x}", found.start),
        ));
    }
    let is_medium = rows.tier == Tier::Medium;
    if let Err((what, at, expected, found)) = found.form(&row.value, check.geometry.version, is_medium) {
        let at = row.value_at + at as u64;
        let message = || format!("{what} at offset {at}: expected {expected:#x}, found {found:#x}");
        rows.unformed.get_or_insert_with(|| (0, message())).0 += 1;
    }
    rows.end = found.start + found.count;
    rows.covered += found.count;
    rows.free += found.count - found.used;
    for piece in 0..count {
        let start = u64::from(first + piece) * u64::from(clusters);
        let index = *places.get(&start).ok_or_else(outside)?;
        let state = &mut seen[index];
        if whole.is_none() || is_medium && state.apart.is_some() {
            parts(check, rows, index, row.at, (&found, state))?;
            continue;
        }
        state.rows[rows.tier as usize] = true;
        let part = found.bits_of(piece, clusters);
        let used = match part {
            Some(bits) => bits.iter().map(|word| word.count_ones()).sum(),
            None if found.used == 0 => 0,
            None => clusters,
        };
        if is_medium && self::tier(check, index, state) != Tier::Medium {
            if used != clusters {
                return Err(not_in_use(row.at, clusters - used));
            }
            continue;
        }
        state.free = clusters - used;
        bits(check, index, row.at, (part, used == clusters), None);
    }
    Ok(())
}

/// The error for a row of the medium allocator that has free clusters which belong to another allocator.
fn not_in_use(at: u64, free: u32) -> Error {
    Error::damaged("row of clusters that another allocator has", at, "no free cluster", free)
}

/// Compares what a row says of a container which it, or a row of another allocator, covers only in part.
fn parts(
    check: &mut Check<'_>,
    rows: &mut Rows,
    index: usize,
    at: u64,
    (row, state): (&AllocatorRow, &mut Seen),
) -> Result<()> {
    let clusters = check.geometry.per_container;
    let Some(start) = check.starts[index] else { return Ok(()) };
    let mut part = row.part(start, clusters);
    rows.odd.entry(index).or_insert_with(|| AllocatorPart::none(clusters)).add(&part);
    if rows.tier == Tier::Medium {
        let is_other = tier(check, index, state) != Tier::Medium;
        let free = |mask: &dyn Fn(usize) -> u64| -> u32 {
            let words = part.covered.iter().zip(&part.used).enumerate();
            words.map(|(word, (covered, used))| (covered & !used & mask(word)).count_ones()).sum()
        };
        let apart = |word: usize| state.apart.as_ref().map_or(0, |apart| apart[word]);
        match free(&|word| if is_other { u64::MAX } else { apart(word) }) {
            0 if is_other => return Ok(()),
            0 => {}
            wrong => return Err(not_in_use(at, wrong)),
        }
        part.covered.iter_mut().enumerate().for_each(|(word, covered)| *covered &= !apart(word));
    }
    let free: u32 =
        part.covered.iter().zip(&part.used).map(|(covered, used)| (covered & !used).count_ones()).sum();
    state.free += free;
    bits(check, index, at, (Some(&part.used), false), Some(&part.covered));
    Ok(())
}

/// Compares an allocator's bits of a container, or `is_full` where its row has no bitmap, with the clusters in use; with
/// `only`, just these clusters.
fn bits(
    check: &mut Check<'_>,
    index: usize,
    at: u64,
    (part, is_full): (Option<&[u64]>, bool),
    only: Option<&[u64]>,
) {
    let Some(start) = check.starts[index] else { return };
    let clusters = check.geometry.per_container as usize;
    let (mut dangerous, mut lost) = (Count::default(), Count::default());
    for word in 0..clusters.div_ceil(64) {
        let inside = clusters - 64 * word;
        let mask = if inside >= 64 { u64::MAX } else { (1 << inside) - 1 };
        let mask = mask & only.map_or(u64::MAX, |only| only[word]);
        let used = check.used.bits(start).map_or(0, |bits| bits[word]) & mask;
        let marked = match part {
            Some(bits) => bits.get(word).copied().unwrap_or(0) & mask,
            None if is_full => mask,
            None => 0,
        };
        dangerous.add(word, used & !marked);
        lost.add(word, marked & !used);
        if check.is_incomplete && marked & !used != 0 {
            check.used.keep(start, word, marked & !used);
        }
    }
    let number = FIRST_CONTAINER + index as u64;
    if dangerous.clusters > 0 {
        let (count, first) = (dangerous.clusters, start + dangerous.first);
        let message = format!(
            "allocator row of container {number} at offset {at}: {count} clusters in use are marked free, the first is {first:#x}"
        );
        check.find("marked-free", Severity::Inconsistent, None, message);
        check.repair.space();
    }
    // Clusters that nothing leads to may belong to metadata that could not be read.
    if lost.clusters > 0 && !check.is_incomplete {
        let (count, first) = (lost.clusters, start + lost.first);
        let message = format!(
            "allocator row of container {number} at offset {at}: {count} clusters are marked used that nothing leads to, the first is {first:#x}"
        );
        check.find("lost-clusters", Severity::Inconsistent, None, message);
        check.repair.space();
    }
}

#[derive(Default)]
struct Count {
    clusters: u32,
    first: u64,
}

impl Count {
    fn add(&mut self, word: usize, bits: u64) {
        if bits != 0 && self.clusters == 0 {
            self.first = 64 * word as u64 + u64::from(bits.trailing_zeros());
        }
        self.clusters += bits.count_ones();
    }
}

/// Checks that a container belongs to one tier, and holds only what that tier allocates.
fn owners(check: &mut Check<'_>, index: usize, seen: &Seen, is_damaged: bool) {
    let number = FIRST_CONTAINER + index as u64;
    let [medium, container, small] = seen.rows;
    let is_shared = check.geometry.version.has_shared_allocators();
    let is_right = if is_shared {
        medium && !(container && small)
    } else {
        medium ^ container ^ small && !(medium && small)
    };
    if !is_damaged && !is_right {
        let expected =
            if is_shared { "a row of the medium allocator and at most one of another" } else { "one row" };
        let message = format!(
            "container {number}: expected {expected}, found of the medium, container and small allocator {medium}, {container} and {small}"
        );
        check.find("allocator-row", Severity::Inconsistent, None, message);
        check.repair.space();
    }
    let Some(start) = check.starts[index] else { return };
    let owner = owner(seen);
    for (tier, root) in TIERS {
        let is_apart = seen.apart.is_some();
        if check.used.tiers(start)[tier as usize] && tier != owner && !is_apart && !is_damaged {
            let message = format!(
                "container {number}: holds what the {} gave out, and belongs to another",
                root.name()
            );
            check.find("tier", Severity::Inconsistent, None, message);
            // The container's rows in the wrong allocator must be removed, so all three are made anew.
            TIERS.iter().for_each(|(_, root)| check.repair.renew(*root));
        }
    }
    let row = &check.containers[index];
    let (free, at) = (row.free, row.at);
    let is_counted = free != (u64::MAX, u32::MAX);
    if is_counted && free != (u64::from(seen.free), seen.free) && !is_damaged {
        let message = format!(
            "container table: free clusters of container {number} at offset {}: expected {}, found {} and {}",
            at + ContainerRow::FREE.at() as u64,
            seen.free,
            free.0,
            free.1
        );
        check.find("container-free", Severity::Inconsistent, None, message);
        check.repair.space();
    }
}
