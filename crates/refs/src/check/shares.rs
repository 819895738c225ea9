//! How many streams each cluster belongs to, compared with what the table of reference counts says.

use super::Check;
use super::tree::TreeRow;
use crate::layout::{Root, ShareRow};
use platter_vfs::Severity;
use std::collections::BTreeMap;

/// Most ranges of clusters that are counted: their counts take at most 1 GiB.
const MOST: usize = 1 << 18;

/// The ranges that have a row, and those that have none and are counted because the table cannot be read.
#[derive(Default)]
pub struct Shares {
    ranges: BTreeMap<u64, Range>,
    /// A part of the table is lost: every range is counted, and what belongs to several streams may.
    is_table_lost: bool,
    /// Not every range is counted, or not everything that has clusters was met.
    is_partial: bool,
}

struct Range {
    /// What the table says, and where; `None` if it has no row.
    row: Option<(ShareRow, u64)>,
    found: Option<Box<[u16]>>,
}

/// A row of the table.
pub fn row(check: &mut Check<'_>, row: &TreeRow) {
    let shares = &mut check.shares;
    match ShareRow::from_bytes(&row.value, row.at) {
        Ok(found) if row.key == ShareRow::key(found.start) => {
            if shares.ranges.len() < MOST {
                shares.ranges.insert(found.start, Range { row: Some((found, row.at)), found: None });
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

/// A part of the table could not be read.
pub fn lost(check: &mut Check<'_>) {
    check.shares.is_table_lost = true;
}

impl Check<'_> {
    /// Counts a run of a stream. Returns whether its clusters may belong to others too.
    pub fn count_run(&mut self, cluster: u64, count: u64) -> bool {
        let mut may = true;
        let mut at = cluster;
        let end = cluster.saturating_add(count);
        while at < end {
            let start = at / ShareRow::CLUSTERS * ShareRow::CLUSTERS;
            let stop = end.min(start + ShareRow::CLUSTERS);
            let shares = &mut self.shares;
            if shares.is_table_lost && !shares.ranges.contains_key(&start) {
                if shares.ranges.len() < MOST {
                    shares.ranges.insert(start, Range { row: None, found: None });
                } else {
                    shares.is_partial = true;
                }
            }
            match shares.ranges.get_mut(&start) {
                Some(range) => {
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

/// Compares the counts. All streams have been walked.
pub fn finish(check: &mut Check<'_>) {
    let mut shares = std::mem::take(&mut check.shares);
    shares.is_partial |= check.is_content_lost || check.is_directory_lost;
    let is_known = !shares.is_partial;
    for (start, range) in shares.ranges.iter().filter(|_| is_known) {
        // What has no row belongs to a table that is made anew in any case; deduplication has rules of its own.
        let Some((row, at)) = range.row.as_ref().filter(|(row, _)| !row.is_deduplicated()) else { continue };
        let found = |index: usize| range.found.as_ref().map_or(0, |found| found[index]);
        let is_right = |index: usize| match (row.counts[index], found(index)) {
            (0, 0 | 1) | (1, 1) => true,
            (said, found) => said == found,
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
    pub fn is_needed(&self) -> bool {
        self.ranges.values().any(|range| range.row.is_some())
    }

    /// The rows that the table must have; `None` if that is not known.
    pub fn rows(self) -> Option<Vec<ShareRow>> {
        let is_deduplicated =
            |range: &Range| range.row.as_ref().is_some_and(|(row, _)| row.is_deduplicated());
        if self.is_partial || self.ranges.values().any(is_deduplicated) {
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
