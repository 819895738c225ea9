//! Copying clusters that two files share.

use super::clusters::Clusters;
use super::walk::Shared;
use platter_clusters::{Claims, Disk, Link};
use platter_vfs::{CheckReport, Result};
use std::collections::BTreeSet;

/// Gives a file new, consecutive clusters with copies of all its clusters, since it shares some with another file.
/// Where there is no space, the file stays as it is.
pub(super) fn copy(
    disk: &mut Disk,
    clusters: &mut Clusters,
    report: &mut CheckReport,
    shared: Shared,
) -> Result<Vec<u32>> {
    let mut info = shared.set.info();
    let size = clusters.heap.cluster_size();
    let count = u32::try_from(clusters.heap.clusters_for(info.length)).unwrap_or(u32::MAX);
    let mut sources = Vec::new();
    let mut at = info.cluster;
    while sources.len() < count as usize && clusters.heap.has(at) {
        sources.push(at);
        at = match info.contiguous {
            true => at + 1,
            false => match clusters.link(at)? {
                Link::Next(next) => next,
                _ => break,
            },
        };
    }
    // A chain that contains a loop, or breaks off, has only its distinct clusters; the clusters of the loop are not
    // copied repeatedly.
    let mut met = BTreeSet::new();
    let unique = sources.iter().take_while(|cluster| met.insert(**cluster)).count();
    sources.truncate(unique);
    let length = info.length.min(sources.len() as u64 * size);
    let Some(first) = clusters.allocate(sources.len() as u32)? else {
        shared.finding.report(report, Some(sources.len() as u64));
        return Ok(sources);
    };
    let mut bytes = vec![0; size.min(1 << 20) as usize];
    for (number, source) in sources.iter().enumerate() {
        for at in (0..size).step_by(bytes.len()) {
            disk.read(clusters.heap.offset(*source) + at, &mut bytes)?;
            disk.write(clusters.heap.offset(first + number as u32) + at, &bytes)?;
        }
    }
    sources[..shared.own as usize].iter().for_each(|&cluster| clusters.release(cluster));
    (info.cluster, info.contiguous) = (first, true);
    (info.length, info.valid) = (length, info.valid.min(length));
    let mut set = shared.set;
    set.set_info(&info);
    for (offset, slot) in shared.slots.into_iter().zip(set.slots()) {
        disk.edit(offset, *slot);
    }
    shared.finding.report(report, None);
    Ok(Vec::new())
}
