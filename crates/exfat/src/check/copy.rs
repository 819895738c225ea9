//! Copying clusters that two files share.

use super::clusters::Clusters;
use super::walk::Shared;
use crate::layout::Geometry;
use platter_clusters::{Claims, Disk, Link};
use platter_vfs::Result;
use std::collections::BTreeSet;

/// Gives a file new, consecutive clusters with copies of all its clusters, since it shares some with another file.
/// Where there is no space, the file is cut to the clusters that are its own.
pub fn copy(disk: &mut Disk, clusters: &mut Clusters, shared: &Shared) -> Result<()> {
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
    let place = clusters.allocate(sources.len() as u32)?;
    match place {
        Some(first) => {
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
        }
        None => {
            info.length = u64::from(shared.own) * size;
            info.valid = info.valid.min(info.length);
            match shared.own {
                0 => (info.cluster, info.contiguous) = (0, false),
                own if !info.contiguous => clusters.set_link(sources[own as usize - 1], Geometry::END),
                _ => {}
            }
        }
    }
    let mut set = shared.set.clone();
    set.set_info(&info);
    for (offset, slot) in shared.slots.into_iter().zip(set.slots()) {
        disk.edit(offset, *slot);
    }
    Ok(())
}
