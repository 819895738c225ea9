//! How many streams each cluster belongs to, compared with what the table of reference counts says.

use super::Check;
use super::tree::TreeRow;
use crate::layout::{Root, ShareRow};
use platter_vfs::Severity;
use std::collections::BTreeMap;

/// The most ranges of clusters that are counted. Their counts take at most 1 GiB of memory.
const MOST: usize = 1 << 18;

/// The ranges of 1,024 clusters whose owners are counted: those with a row in the table and, if the table cannot be
/// read, all others that streams have clusters in.
#[derive(Default)]
pub(super) struct Shares {
    ranges: BTreeMap<u64, Range>,
    /// Whether a part of the table is lost. If so, every range is counted, and clusters of several streams pass as
    /// shared.
    is_table_lost: bool,
    /// Whether a range is not counted for lack of memory, or a stream was not met because of damage.
    is_partial: bool,
}

struct Range {
    /// The table's row and its offset on the device; `None` if the table has no row for the range.
    row: Option<(ShareRow, u64)>,
    /// How many streams have been found to have each cluster; `None` as long as no stream has any of them.
    found: Option<Box<[u16]>>,
    /// Whether versions of a file take clusters of the range from older ones without runs of their own. Whether the
    /// counts count such versions is not known.
    is_spread: bool,
}

/// Reads a row of the table.
pub(super) fn row(check: &mut Check<'_>, row: &TreeRow) {
    let shares = &mut check.shares;
    match ShareRow::from_bytes(&row.value, row.value_at) {
        Ok(found) if row.key == ShareRow::key(found.start) => {
            if shares.ranges.len() < MOST {
                shares
                    .ranges
                    .insert(found.start, Range { row: Some((found, row.at)), found: None, is_spread: false });
            } else {
                shares.is_partial = true;
            }
        }
        outcome => {
            let error = outcome.err().map_or_else(
                || format!("row at offset {}: expected the first 16 bytes of its value as its key", row.at),
                |error| super::page::plain(&error),
            );
            check.shares.is_table_lost = true;
            let message = format!("{}: {error}", Root::References.name());
            check.find("reference-count", Severity::Inconsistent, None, message);
            check.repair.renew(Root::References);
        }
    }
}

/// Notes that a part of the table could not be read.
pub(super) fn lost(check: &mut Check<'_>) {
    check.shares.is_table_lost = true;
}

impl Check<'_> {
    /// Counts the clusters of a run of a stream, which `is_spread` if other versions of a file may take them without runs
    /// of their own. Returns whether they may belong to other streams too.
    pub(super) fn count_run(&mut self, cluster: u64, count: u64, is_spread: bool) -> bool {
        let mut may = true;
        let mut at = cluster;
        let end = cluster.saturating_add(count);
        while at < end {
            let start = at / ShareRow::CLUSTERS * ShareRow::CLUSTERS;
            let stop = end.min(start + ShareRow::CLUSTERS);
            let shares = &mut self.shares;
            if shares.is_table_lost && !shares.ranges.contains_key(&start) {
                if shares.ranges.len() < MOST {
                    shares.ranges.insert(start, Range { row: None, found: None, is_spread: false });
                } else {
                    shares.is_partial = true;
                }
            }
            match shares.ranges.get_mut(&start) {
                Some(range) => {
                    range.is_spread |= is_spread;
                    let found =
                        range.found.get_or_insert_with(|| vec![0; ShareRow::CLUSTERS as usize].into());
                    let counts = &mut found[(at - start) as usize..(stop - start) as usize];
                    counts.iter_mut().for_each(|count| *count = count.saturating_add(1));
                }
                None => may = false,
            }
            at = stop;
        }
        may
    }
}

/// Compares the counts with the table, once all streams have been walked.
pub(super) fn finish(check: &mut Check<'_>) {
    let mut shares = std::mem::take(&mut check.shares);
    shares.is_partial |= check.is_content_lost || check.is_directory_lost;
    let is_known = !shares.is_partial;
    for (start, range) in shares.ranges.iter().filter(|_| is_known) {
        // A range without a row is there only because the table is lost, and then it is made anew in any case. Rows
        // with deduplicated clusters follow other rules and are not compared.
        let Some((row, at)) = range.row.as_ref().filter(|(row, _)| !row.is_deduplicated()) else { continue };
        let found = |index: usize| range.found.as_ref().map_or(0, |found| found[index]);
        let is_right = |index: usize| match (row.counts[index], found(index)) {
            (0, 0 | 1) | (1, 1) => true,
            (said, found) => said == found || range.is_spread && said > found,
        };
        let wrong: Vec<usize> = (0..row.counts.len()).filter(|&index| !is_right(index)).collect();
        if let Some(&first) = wrong.first() {
            let message = format!(
                "{}: row of clusters {start:#x} and on, at offset {at}: {} counts are wrong, the first of cluster {:#x}: \
                 expected {}, found {}",
                Root::References.name(),
                wrong.len(),
                start + first as u64,
                found(first),
                row.counts[first]
            );
            check.find("reference-count", Severity::Inconsistent, None, message);
            check.repair.renew(Root::References);
        }
    }
    check.shares = shares;
}

impl Shares {
    /// Whether the table has rows that can be read.
    pub(super) fn is_needed(&self) -> bool {
        self.ranges.values().any(|range| range.row.is_some())
    }

    /// The rows that the table must have; `None` if that is not known.
    pub(super) fn rows(self) -> Option<Vec<ShareRow>> {
        let is_deduplicated =
            |range: &Range| range.row.as_ref().is_some_and(|(row, _)| row.is_deduplicated());
        if self.is_partial || self.ranges.values().any(|range| range.is_spread || is_deduplicated(range)) {
            return None;
        }
        let rows = self.ranges.into_iter().filter_map(|(start, range)| {
            let found = range.found?;
            let counts = found.iter().map(|&count| if count >= 2 { count.min(ShareRow::COUNT) } else { 0 });
            let stamp = range.row.map_or(0, |(row, _)| row.stamp);
            let row = ShareRow { start, stamp, counts: counts.collect() };
            (!row.is_empty()).then_some(row)
        });
        Some(rows.collect())
    }
}
