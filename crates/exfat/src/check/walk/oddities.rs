//! How odd the values of an entry set are.

use crate::check::clusters::Clusters;
use crate::check::names::is_allowed;
use crate::layout::{Attributes, EntrySet, Upcase};

/// Counts the fields of a set that have values no system writes. One may be a flipped bit; several mean that the
/// slots are no set.
pub(super) fn oddities(clusters: &Clusters, set: &EntrySet, upcase: &Upcase) -> u32 {
    let info = set.info();
    let mut rehashed = set.clone();
    rehashed.rehash(upcase);
    let date = |date: u16| date & 0x1F == 0 || !(1..=12).contains(&(date >> 5 & 0xF));
    [
        rehashed.hash() != set.hash(),
        !is_allowed(&set.name()),
        info.attributes.0 & !Attributes::KNOWN != 0,
        info.created.local.hundredths > 199 || info.modified.local.hundredths > 199,
        date(info.created.local.date) || date(info.modified.local.date),
        info.cluster != 0 && !clusters.heap.has(info.cluster),
        info.valid > info.length,
        clusters.heap.clusters_for(info.length) > u64::from(clusters.heap.count),
    ]
    .into_iter()
    .map(u32::from)
    .sum()
}
