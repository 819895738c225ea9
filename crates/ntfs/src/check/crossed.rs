//! Clusters that several attributes have: the first keeps them, the others get copies.

use super::clusters::Clusters;
use super::file::{Assembled, Key};
use super::record::RecordState;
use super::streams::told;
use super::{Check, Severity};
use crate::layout::runs::push;
use crate::layout::{Kind, Run};
use platter_vfs::Result;
use std::collections::BTreeMap;

/// The number of clusters whose first owners are remembered, so that messages can name them.
const OWNERS: usize = 1 << 20;

/// Finds the files that have the same clusters, and separates them.
pub(super) fn resolve(check: &mut Check<'_>) -> Result<()> {
    if check.crossed.is_empty() {
        return Ok(());
    }
    let mut settled = Clusters::default();
    let mut owners: BTreeMap<u64, u64> = BTreeMap::new();
    for number in 0..check.table.count {
        if check.states[number as usize] != RecordState::Base {
            continue;
        }
        let mut file = Assembled::read(check, number, &mut Vec::new())?;
        for key in file.streams().into_keys() {
            let Some((runs, _)) = file.runs(check.geometry.clusters, &key) else { continue };
            if check.crossed.has_any_of(&runs) {
                separate(check, &mut file, &key, &runs, &mut settled, &mut owners)?;
            }
        }
        if check.is_repairing && !file.store(check)? {
            let message = "file record: runs of separated clusters do not fit into it".to_owned();
            check.cannot("record-full", Some(number), message);
        }
    }
    Ok(())
}

fn separate(
    check: &mut Check<'_>,
    file: &mut Assembled,
    key: &Key,
    runs: &[Run],
    settled: &mut Clusters,
    owners: &mut BTreeMap<u64, u64>,
) -> Result<()> {
    let mut separated: Vec<Run> = Vec::new();
    let (mut count, mut first, mut other) = (0u64, None, None);
    // Indexes are not copied: they are built anew in other clusters.
    let is_copied = check.is_repairing && key.0 != Kind::INDEX_ALLOCATION;
    let mut is_full = false;
    for run in runs {
        let Some(lcn) = run.lcn.filter(|lcn| check.crossed.has_any(*lcn, run.length)) else {
            push(&mut separated, *run);
            continue;
        };
        for index in 0..run.length {
            let (cluster, vcn) = (lcn + index, run.vcn + index);
            let mut place = cluster;
            if check.crossed.has(cluster) && settled.add(cluster, 1) == 0 {
                if owners.len() < OWNERS {
                    owners.insert(cluster, file.number);
                }
            } else if check.crossed.has(cluster) {
                count += 1;
                first = first.or(Some(cluster));
                other = other.or(owners.get(&cluster).copied());
                if is_copied && !is_full {
                    match check.allocate(1).and_then(|runs| runs.first().and_then(|run| run.lcn)) {
                        Some(copy) => {
                            copy_cluster(check, cluster, copy)?;
                            place = copy;
                        }
                        None => is_full = true,
                    }
                }
            }
            push(&mut separated, Run { vcn, lcn: Some(place), length: 1 });
        }
    }
    let Some(first) = first else { return Ok(()) };
    let repaired = check.is_repairing && !is_full;
    let whose = other.map_or("another file".into(), |other| check.path(other));
    let message = format!("{}: {count} clusters, the first {first}, belong to {whose} too", told(key));
    check.find("cross-link", Severity::DataLoss, Some(file.number), message, repaired);
    if let Some(other) = other.filter(|other| *other != file.number) {
        let message = format!("cluster {first} belongs to {} too", check.path(file.number));
        check.find("cross-link", Severity::DataLoss, Some(other), message, repaired);
    }
    if is_copied {
        file.set_runs(check, key, &separated);
    }
    Ok(())
}

fn copy_cluster(check: &mut Check<'_>, from: u64, to: u64) -> Result<()> {
    let cluster = check.geometry.cluster;
    let mut bytes = vec![0; cluster as usize];
    check.disk.read(from * cluster, &mut bytes)?;
    check.disk.write(to * cluster, &bytes)
}
