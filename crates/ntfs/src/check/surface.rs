//! The surface: every cluster is read, whether an attribute has it or not.
//!
//! A cluster that cannot be read goes to `$BadClus`, so that no file gets it. A file that has it gets another cluster
//! in its place, with those of its sectors that can be read; the file is reported, as a part of its content is lost.

use super::clusters::Clusters;
use super::file::{Assembled, Key, key};
use super::record::RecordState;
use super::streams::told;
use super::{Check, Severity};
use crate::layout::runs::push;
use crate::layout::{Kind, Run, record_number as known};
use platter_vfs::Result;

/// Bytes that are read at once.
const READ: u64 = 1 << 20;

// Reads are whole sectors, of which none is larger than 4096 bytes.
const _: () = assert!(READ.is_multiple_of(4096));

/// The result of reading the surface, kept from round to round.
#[derive(Default)]
pub(super) struct Surface {
    is_wanted: bool,
    /// The clusters that cannot be read, once the surface was read.
    bad: Option<Clusters>,
}

impl Surface {
    /// A surface that was not read yet.
    pub(super) fn new(is_wanted: bool) -> Surface {
        Surface { is_wanted, bad: None }
    }
}

/// Reads the surface in the first round, and repairs what it can in each round.
pub(super) fn examine(check: &mut Check<'_>) -> Result<()> {
    if !check.surface.is_wanted || check.state(known::BAD_CLUSTERS) != RecordState::Base {
        return Ok(());
    }
    let file = Assembled::read(check, known::BAD_CLUSTERS, &mut Vec::new())?;
    let key = key(Kind::DATA, "$Bad");
    let runs = file.runs(check.geometry.clusters, &key).map(|(runs, _)| runs).unwrap_or_default();
    let mut noted = Clusters::default();
    for run in &runs {
        if let Some(lcn) = run.lcn {
            noted.add(lcn, run.length);
        }
    }
    let bad = match check.surface.bad.take() {
        Some(bad) => bad,
        None => scan(check, &noted)?,
    };
    let outcome = if bad.is_empty() { Ok(()) } else { resolve(check, &bad, &noted) };
    check.surface.bad = Some(bad);
    outcome
}

/// Reads all clusters that are not known to be bad, and returns those that cannot be read.
fn scan(check: &Check<'_>, noted: &Clusters) -> Result<Clusters> {
    let (cluster, clusters) = (check.geometry.cluster, check.geometry.clusters);
    let per_read = (READ / cluster).max(1);
    let mut bad = Clusters::default();
    let mut buffer = vec![0; (per_read * cluster) as usize];
    let mut at = 0;
    while at < clusters {
        let count = per_read.min(clusters - at);
        let whole = &mut buffer[..(count * cluster) as usize];
        if noted.has_any(at, count) || check.disk.read(at * cluster, whole).is_err() {
            for number in (at..at + count).filter(|number| !noted.has(*number)) {
                if check.disk.read(number * cluster, &mut whole[..cluster as usize]).is_err() {
                    bad.add(number, 1);
                }
            }
        }
        at += count;
        check.progress.step("reading clusters", at, clusters)?;
    }
    Ok(bad)
}

fn resolve(check: &mut Check<'_>, bad: &Clusters, noted: &Clusters) -> Result<()> {
    if check.is_repairing {
        // No file gets these clusters from here on.
        for cluster in all(bad, check.geometry.clusters) {
            check.used.add(cluster, 1);
        }
    }
    let mut stuck = Clusters::default();
    for number in (0..check.table.count).filter(|number| *number != known::BAD_CLUSTERS) {
        if check.states[number as usize] != RecordState::Base {
            continue;
        }
        let mut file = Assembled::read(check, number, &mut Vec::new())?;
        for key in file.streams().into_keys() {
            let Some((runs, _)) = file.runs(check.geometry.clusters, &key) else { continue };
            if bad.has_any_of(&runs) {
                replace(check, &mut file, &key, &runs, bad, &mut stuck)?;
            }
        }
        if check.is_repairing && !file.store(check)? {
            let message = "file record: runs around bad clusters do not fit into it".to_owned();
            check.cannot("record-full", Some(number), message);
        }
    }
    note(check, bad, noted, &stuck)
}

/// The clusters of a set that has few.
fn all(set: &Clusters, clusters: u64) -> impl Iterator<Item = u64> + '_ {
    let pieces = (0..clusters).step_by(READ as usize).filter(|start| set.has_any(*start, READ));
    pieces.flat_map(move |start| (start..(start + READ).min(clusters)).filter(|cluster| set.has(*cluster)))
}

/// Reports the clusters of an attribute that cannot be read. A repair gives the attribute others in their place.
fn replace(
    check: &mut Check<'_>,
    file: &mut Assembled,
    key: &Key,
    runs: &[Run],
    bad: &Clusters,
    stuck: &mut Clusters,
) -> Result<()> {
    // The system's files must stay where they are.
    let is_moved = check.is_repairing && file.number >= known::FIRST_FREE;
    let (mut count, mut first, mut is_whole) = (0u64, None, is_moved);
    let mut replaced: Vec<Run> = Vec::new();
    for run in runs {
        let Some(lcn) = run.lcn.filter(|lcn| bad.has_any(*lcn, run.length)) else {
            push(&mut replaced, *run);
            continue;
        };
        for index in 0..run.length {
            let (cluster, vcn) = (lcn + index, run.vcn + index);
            let mut place = cluster;
            if bad.has(cluster) {
                count += 1;
                first = first.or(Some(cluster));
                let other = if is_moved { check.allocate(1) } else { None };
                match other.and_then(|runs| runs.first().and_then(|run| run.lcn)) {
                    Some(other) => {
                        rescue(check, cluster, other)?;
                        place = other;
                    }
                    None => {
                        is_whole = false;
                        stuck.add(cluster, 1);
                    }
                }
            }
            push(&mut replaced, Run { vcn, lcn: Some(place), length: 1 });
        }
    }
    let Some(first) = first else { return Ok(()) };
    let message = format!("{}: {count} clusters cannot be read, the first {first}", told(key));
    check.find("bad-cluster", Severity::DataLoss, Some(file.number), message, is_whole);
    if is_moved {
        file.set_runs(check, key, &replaced);
    }
    Ok(())
}

/// Copies the sectors of a cluster that can be read; the others become zeroes.
fn rescue(check: &mut Check<'_>, from: u64, to: u64) -> Result<()> {
    let cluster = check.geometry.cluster;
    let mut bytes = vec![0; cluster as usize];
    let sector = check.disk.sector().min(cluster);
    for (index, sector) in bytes.chunks_mut(sector as usize).enumerate() {
        let at = from * cluster + index as u64 * sector.len() as u64;
        if check.disk.read(at, sector).is_err() {
            sector.fill(0);
        }
    }
    check.disk.write(to * cluster, &bytes)
}

/// Puts bad clusters into `$BadClus`, except those that are still part of a file.
fn note(check: &mut Check<'_>, bad: &Clusters, noted: &Clusters, stuck: &Clusters) -> Result<()> {
    let clusters = check.geometry.clusters;
    let is_new = |cluster: &u64| !noted.has(*cluster) && !stuck.has(*cluster);
    let mut new: Vec<u64> = all(bad, clusters).filter(is_new).collect();
    let Some(first) = new.first() else { return Ok(()) };
    let message =
        format!("$BadClus: {} clusters that cannot be read are not in it, the first {first}", new.len());
    let severity = Severity::Inconsistent;
    check.find("bad-clusters-new", severity, Some(known::BAD_CLUSTERS), message, check.is_repairing);
    if !check.is_repairing {
        return Ok(());
    }
    let mut runs = Vec::new();
    let mut end = 0;
    new.extend(all(noted, clusters));
    new.sort_unstable();
    for cluster in new {
        if cluster > end {
            push(&mut runs, Run { vcn: end, lcn: None, length: cluster - end });
        }
        push(&mut runs, Run { vcn: cluster, lcn: Some(cluster), length: 1 });
        end = cluster + 1;
    }
    if end < clusters {
        push(&mut runs, Run { vcn: end, lcn: None, length: clusters - end });
    }
    let mut file = Assembled::read(check, known::BAD_CLUSTERS, &mut Vec::new())?;
    file.set_runs(check, &key(Kind::DATA, "$Bad"), &runs);
    if !file.store(check)? {
        let message = "$BadClus: the bad clusters do not fit into its record".to_owned();
        check.cannot("record-full", Some(known::BAD_CLUSTERS), message);
    }
    Ok(())
}
