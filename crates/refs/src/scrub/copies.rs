//! Comparing the copies of a device where no checksum shows which is right. They are compared from end to end. The
//! content of most copies is written to the others; where there is no majority, each copy keeps what it has, and the
//! report names the place.
//!
//! This concerns data without integrity, which is reported with its file, and clusters to which nothing refers, such as
//! pages of earlier commits. Content with a checksum has been verified before. Where no copy of it is good, all are
//! left as they are: each may hold a part that can still be of use.

use super::position::Position;
use super::reader::Reader;
use super::structure;
use crate::core::Core;
use crate::extents::Extent;
use crate::geometry::Geometry;
use crate::layout::Superblock;
use crate::open::Anchors;
use crate::seen::Seen;
use platter_device::Device;
use platter_vfs::{Progress, ScrubReport, Severity};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The clusters that differ between the copies.
#[derive(Default)]
pub(super) struct Unlike {
    clusters: BTreeSet<u64>,
    /// The clusters among them that belong to a stream.
    pub owned: Vec<Owned>,
}

/// A cluster of a stream that has no checksum.
pub(super) struct Owned {
    /// The stream's index in the list of the code that walks the streams.
    pub stream: u32,
    /// The cluster's number in the stream.
    pub at: u32,
    /// The cluster's byte offset on the device.
    pub place: u64,
}

impl Unlike {
    /// The most differing clusters that are collected before the majority decides on them.
    const MOST: usize = 1 << 20;

    /// Whether no cluster differs.
    pub(super) fn is_empty(&self) -> bool {
        self.clusters.is_empty()
    }

    /// Notes which of the clusters belong to a run of a stream. Those with a checksum are dropped, since verification
    /// has decided on them. `stream` returns the stream's index, and is called only if the run has such clusters.
    pub(super) fn meet(&mut self, core: &Core, row: &Extent, stream: &mut dyn FnMut() -> u32) {
        let geometry = core.geometry();
        if row.is_hole() {
            return;
        }
        let count = if row.checksum().is_some() { 1 } else { row.count };
        let Ok(start) = core.pages.map.real(geometry, row.cluster, u64::from(count)) else { return };
        let met: Vec<u64> = self.clusters.range(start..start + u64::from(count)).copied().collect();
        for cluster in met {
            match row.checksum() {
                Some(_) => drop(self.clusters.remove(&cluster)),
                None => {
                    let at = row.at + (cluster - start) as u32;
                    self.owned.push(Owned { stream: stream(), at, place: geometry.offset(cluster) });
                }
            }
        }
    }
}

/// Whether the device has several copies, all in service, and may be written.
pub(super) fn can_compare(device: &dyn Device, reader: &Reader<'_>) -> bool {
    device.copies() > 1 && !device.read_only() && reader.copies().len() == device.copies()
}

/// Compares the copies from a position on, about `limit` bytes at most. Returns the clusters that differ, except the
/// first structures and pages in use, and where to continue; none of them if the end is asked for.
pub(super) fn compare(
    core: &Core,
    reader: &Reader<'_>,
    pages: &Seen,
    (from, limit): (u64, u64),
    progress: &dyn Progress,
    report: &mut ScrubReport,
) -> (Unlike, Option<Position>) {
    let geometry = core.geometry();
    let end = geometry.offset(geometry.clusters);
    let cluster = u64::from(geometry.cluster);
    let mut start = geometry.offset(from.min(geometry.clusters));
    let stop = start.saturating_add(limit.max(cluster) / cluster * cluster).min(end);
    let (done, mut unlike) = (AtomicU64::new(start), Unlike::default());
    /// The bytes that are compared at once, before the number of differing clusters is checked.
    const PART: u64 = 1 << 28;
    while start < stop && unlike.clusters.len() < Unlike::MOST && !progress.is_stopped() {
        let part = start..(start + PART).min(stop);
        let found = Mutex::new(&mut unlike.clusters);
        let is_page = |at: u64| {
            (0..u64::from(geometry.page_clusters())).any(|back| pages.contains(at.wrapping_sub(back)))
        };
        reader.compare(
            part.clone(),
            cluster,
            &|place| {
                let at = place / cluster;
                if !is_page(at) {
                    found.lock().unwrap_or_else(PoisonError::into_inner).insert(at);
                }
            },
            &|bytes| {
                let done = done.fetch_add(bytes, Ordering::Relaxed) + bytes;
                progress.progress("comparing copies", done, end);
            },
        );
        if progress.is_stopped() {
            // What was found of this part is found again.
            break;
        }
        report.compared += part.end - part.start;
        start = part.end;
    }
    if progress.is_stopped() {
        // What differs is decided, and its owners are found, by the scrub that goes on from there.
        let first = unlike.clusters.first().copied().unwrap_or(u64::MAX);
        return (Unlike::default(), Some(Position::Copies(first.min(start / cluster))));
    }
    (unlike, (start < end).then(|| Position::Copies(start / cluster)))
}

/// The clusters that differ between the copies and could not be made alike.
#[derive(Default)]
pub(super) struct Outcome {
    /// Byte offsets of clusters with a sector on whose content no majority of the copies agrees. Such sectors were not
    /// written.
    undecided: BTreeSet<u64>,
    /// Byte offsets of clusters that could not be written.
    failed: BTreeSet<u64>,
}

/// The outcome for a cluster that differs between the copies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// All copies now hold the content that most of them held.
    Repaired,
    /// There is no majority, so each copy keeps its content.
    Undecided,
    /// Most copies agree, but one of the others could not be written.
    Failed,
}

impl Outcome {
    /// The outcome for the cluster at a byte offset of the device.
    pub(super) fn of(&self, place: u64) -> Decision {
        if self.undecided.contains(&place) {
            Decision::Undecided
        } else if self.failed.contains(&place) {
            Decision::Failed
        } else {
            Decision::Repaired
        }
    }
}

/// Writes the content of most of the readable copies to the others, sector by sector. Without a checksum only the
/// majority shows which is right: where there is none, as in two copies that differ, nothing is written.
pub(super) fn let_majority_decide(device: &dyn Device, anchors: &Anchors, unlike: &Unlike) -> Outcome {
    let (kept, geometry) = (places(anchors), &anchors.geometry);
    let sector = device.sectors().logical as usize;
    let mut outcome = Outcome::default();
    for &cluster in &unlike.clusters {
        let start = geometry.offset(cluster);
        let read = |copy| {
            let mut bytes = vec![0; geometry.cluster as usize];
            device.read_copy(copy, start, &mut bytes).is_ok().then_some(bytes)
        };
        let copies: Vec<_> = (0..device.copies()).map(read).collect();
        for inside in (0..geometry.cluster as usize).step_by(sector) {
            let at = start + inside as u64;
            let held: Vec<_> = copies
                .iter()
                .map(|bytes| bytes.as_ref().map(|bytes| &bytes[inside..inside + sector]))
                .collect();
            if kept.iter().any(|kept| kept.contains(&at)) || held.iter().all(|one| *one == held[0]) {
                continue;
            }
            let Some(good) = majority(&held) else {
                outcome.undecided.insert(start);
                continue;
            };
            for copy in (0..held.len()).filter(|&copy| held[copy] != Some(good)) {
                if device.repair_copy(copy, at, good).is_err() {
                    outcome.failed.insert(start);
                }
            }
        }
    }
    outcome
}

/// The content that more than half of the readable copies hold.
fn majority<'b>(held: &[Option<&'b [u8]>]) -> Option<&'b [u8]> {
    let read: Vec<&[u8]> = held.iter().flatten().copied().collect();
    read.iter().copied().find(|one| read.iter().filter(|other| *other == one).count() * 2 > read.len())
}

/// Reports the differing clusters that belong to no stream.
pub(super) fn report_rest(unlike: &Unlike, outcome: &Outcome, geometry: &Geometry, report: &mut ScrubReport) {
    let owned: BTreeSet<u64> = unlike.owned.iter().map(|owned| owned.place).collect();
    let rest: Vec<u64> =
        unlike.clusters.iter().map(|&at| geometry.offset(at)).filter(|at| !owned.contains(at)).collect();
    let Some(&first) = rest.first() else { return };
    let repaired = rest.iter().all(|&at| outcome.of(at) == Decision::Repaired);
    let mut damaged = structure(
        "mirror-differs",
        Severity::Notice,
        None,
        first,
        report.copies,
        (Vec::new(), repaired, None),
    );
    damaged.finding.message = format!("{} clusters that no file has differ between the copies", rest.len());
    report.add(damaged);
}

/// The byte ranges of the first structures, which are verified on their own.
fn places(anchors: &Anchors) -> Vec<Range<u64>> {
    let (geometry, boot) = (&anchors.geometry, &anchors.boot);
    let sector = u64::from(boot.sector);
    let last = (boot.sectors - 1) * sector;
    let boots = [0..sector, last..last + sector];
    let cluster = u64::from(geometry.cluster);
    let superblocks =
        Superblock::places(geometry.clusters).map(|place| place * cluster..(place + 1) * cluster);
    let checkpoints = anchors.superblock.checkpoints.map(|place| {
        let start = geometry.offset(place);
        start..start.saturating_add(geometry.page() as u64)
    });
    boots.into_iter().chain(superblocks).chain(checkpoints).collect()
}
