//! The allocators' rows, compared with the clusters that the check has found in use.

use super::Check;
use super::page::{FIRST_CONTAINER, plain};
use super::tree::TreeRow;
use crate::container::Tier;
use crate::layout::bytes::u16_at;
use crate::layout::{AllocatorRow, Root};
use platter_vfs::{Error, Result, Severity};
use std::collections::HashMap;

/// The content of the allocators' rows about one container.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// The number of rows that the allocator of each tier has for the container.
    rows: [u32; 3],
    /// The number of free clusters, by the row of the allocator that the container belongs to.
    free: u32,
}

/// The tiers in the order in which they are compared. The medium one comes last, since it must have the containers of
/// the other two as wholly in use.
const TIERS: [(Tier, Root); 3] = [
    (Tier::Small, Root::SmallAllocator),
    (Tier::Container, Root::ContainerAllocator),
    (Tier::Medium, Root::MediumAllocator),
];

/// Compares all allocators with the clusters in use, once everything else has been walked.
pub fn compare(check: &mut Check<'_>) {
    let mut seen = vec![Seen::default(); check.starts.len()];
    let places = check.starts.iter().zip(0..).filter_map(|(start, index)| Some(((*start)?, index))).collect();
    let mut is_damaged = false;
    for (tier, root) in TIERS {
        let mut cursor = check.root_cursor(root);
        loop {
            check.is_again = true;
            let row = cursor.next(check);
            check.is_again = false;
            let Some(row) = row else { break };
            if let Err(error) = one(check, tier, &row, &mut seen, &places) {
                let message = format!("{}: {}", root.name(), plain(&error));
                check.find("allocator-row", Severity::Inconsistent, None, message);
                // A damaged row may have any key, so a repair cannot find it by its container: the whole root is made
                // anew.
                check.repair.renew(root);
                is_damaged = true;
            }
        }
        is_damaged |= cursor.is_damaged;
    }
    check.tiers = (0..seen.len()).map(|index| tier(check, index, &seen[index])).collect();
    // After a loss of content, clusters that nothing leads to may hold it and must be kept. Which these are is known
    // only if all rows of the allocators could be read.
    check.is_space_known = !check.is_content_lost || !is_damaged;
    for (index, seen) in seen.iter().enumerate() {
        owners(check, index, seen, is_damaged);
    }
}

/// Returns the tier that a container belongs to by the allocators' rows about it.
fn owner(seen: &Seen) -> Tier {
    match seen.rows.map(|rows| rows > 0) {
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
    tier: Tier,
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
    if found.bits.is_some() && u64::from(u16_at(&row.value, 0x16)) != found.used.min(0xFFFF) {
        return Err(Error::damaged(
            "count of used clusters",
            row.value_at + 0x16,
            found.used,
            u16_at(&row.value, 0x16),
        ));
    }
    // A row can stand for several containers.
    let range = found.range(clusters).map(|(range, _)| range);
    let outside = || {
        let range = format!("{:#x} and {:#x} more", found.start, found.count);
        Error::damaged("range of an allocator row", row.value_at, "whole containers", range)
    };
    let (first, count) = range.filter(|range| range.1 as usize <= seen.len()).ok_or_else(outside)?;
    for piece in 0..count {
        let start = u64::from(first + piece) * u64::from(clusters);
        let index = *places.get(&start).ok_or_else(outside)?;
        let state = &mut seen[index];
        state.rows[tier as usize] += 1;
        if state.rows[tier as usize] > 1 {
            let what = FIRST_CONTAINER + index as u64;
            return Err(Error::damaged(
                "allocator row",
                row.at,
                "one row for each container",
                format!("another for {what}"),
            ));
        }
        let part = found.bits_of(piece, clusters);
        let used = match part {
            Some(bits) => bits.iter().map(|word| word.count_ones()).sum(),
            None if found.used == 0 => 0,
            None => clusters,
        };
        if tier == Tier::Medium && self::tier(check, index, state) != Tier::Medium {
            if used != clusters {
                let free = clusters - used;
                return Err(Error::damaged(
                    "row of a container that another allocator has",
                    row.at,
                    "no free cluster",
                    free,
                ));
            }
            continue;
        }
        state.free = clusters - used;
        bits(check, index, row.at, part, used == clusters);
    }
    Ok(())
}

/// Compares an allocator's bits of a container, or `is_full` where its row has no bitmap, with the clusters in use.
fn bits(check: &mut Check<'_>, index: usize, at: u64, part: Option<&[u64]>, is_full: bool) {
    let Some(start) = check.starts[index] else { return };
    let clusters = check.geometry.per_container as usize;
    let (mut dangerous, mut lost) = (Count::default(), Count::default());
    for word in 0..clusters.div_ceil(64) {
        let inside = clusters - 64 * word;
        let mask = if inside >= 64 { u64::MAX } else { (1 << inside) - 1 };
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
    let [medium, container, small] = seen.rows.map(|rows| rows > 0);
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
        if check.used.tiers(start)[tier as usize] && tier != owner && !is_damaged {
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
            at + 0x20,
            seen.free,
            free.0,
            free.1
        );
        check.find("container-free", Severity::Inconsistent, None, message);
        check.repair.space();
    }
}
