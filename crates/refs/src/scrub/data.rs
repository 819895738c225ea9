//! Scrubbing the data of integrity streams.
//!
//! Directories are walked in the order of their numbers, and the clusters with a checksum collected into batches. A
//! batch is verified in order of the clusters' places, so that the device reads forwards however the files lie in it.

use super::copies::{Decision, Outcome, Owned, Unlike};
use super::metadata::Walked;
use super::position::{DataPosition, Position};
use super::reader::{Piece, Reader};
use super::{Lost, LostStreams, Owner, extents, has_record, sentence};
use crate::attributes;
use crate::core::Core;
use crate::extents::Extent;
use crate::layout::extent::CHILD_LAST;
use crate::layout::record::key;
use crate::layout::{PageReference, Record, TreeNode, crc32c};
use crate::pages::ANY_TABLE;
use platter_vfs::{Damaged, Error, Finding, Progress, ScrubReport, Severity, Silent};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The most clusters of a batch: their descriptions take some 16 MiB.
const BATCH: usize = 1 << 18;
/// The most levels of a tree that are followed.
const MOST_LEVELS: usize = 12;
/// The number of pages with runs of a stream that are read at once.
const PAGES_AT_ONCE: usize = 64;

/// A cluster of a batch.
struct Cluster {
    place: u64,
    checksum: u32,
    /// The index of the stream in the batch.
    stream: u32,
    /// The cluster's number in the stream.
    at: u32,
}

/// A stream of a batch.
struct Stream {
    owner: Owner,
    /// The stream's size in bytes, which bounds reported ranges.
    size: u64,
}

struct Scrub<'s> {
    core: &'s mut Core,
    reader: &'s Reader<'s>,
    progress: &'s dyn Progress,
    report: &'s mut ScrubReport,
    lost: &'s mut LostStreams,
    /// The bytes to verify, and how many of them are done, for the progress.
    total: u64,
    done: AtomicU64,
    /// The bytes that may still be verified before the limit is reached.
    left: u64,
    batch: Vec<Cluster>,
    streams: Vec<Stream>,
    /// Where the batch begins.
    began: DataPosition,
    /// Where to continue, once the end was asked for.
    stopped_at: Option<DataPosition>,
    /// If set, nothing is verified: the walk only finds the streams to which these clusters belong.
    unlike: Option<&'s mut Unlike>,
}

impl<'s> Scrub<'s> {
    fn new(
        core: &'s mut Core,
        reader: &'s Reader<'s>,
        progress: &'s dyn Progress,
        report: &'s mut ScrubReport,
        lost: &'s mut LostStreams,
    ) -> Scrub<'s> {
        let (done, batch, streams) = (AtomicU64::new(0), Vec::new(), Vec::new());
        Scrub {
            core,
            reader,
            progress,
            report,
            lost,
            total: 0,
            done,
            left: u64::MAX,
            batch,
            streams,
            began: DataPosition::default(),
            stopped_at: None,
            unlike: None,
        }
    }
}

/// Finds the streams to which differing clusters belong, and reports the outcome for those without a checksum. `decide`
/// is called with the clusters once those with a checksum have been dropped.
pub(super) fn find_owners(
    core: &mut Core,
    reader: &Reader<'_>,
    walked: &Walked,
    unlike: &mut Unlike,
    report: &mut ScrubReport,
    decide: &dyn Fn(&Unlike) -> Outcome,
) {
    let mut lost = LostStreams::new();
    let mut scrub = Scrub::new(core, reader, &Silent, report, &mut lost);
    scrub.unlike = Some(unlike);
    for &directory in &walked.directories {
        scrub.directory(&DataPosition { directory, ..DataPosition::default() });
    }
    let streams = std::mem::take(&mut scrub.streams);
    unlike.owned.sort_unstable_by_key(|owned| (owned.stream, owned.at));
    let outcome = decide(unlike);
    let cluster = u64::from(core.geometry().cluster);
    let goes_on = |one: &Owned, next: &Owned| {
        (one.stream, one.at + 1) == (next.stream, next.at) && outcome.of(one.place) == outcome.of(next.place)
    };
    for run in unlike.owned.chunk_by(goes_on) {
        let Stream { owner, size } = &streams[run[0].stream as usize];
        let start = u64::from(run[0].at) * cluster;
        let end = (start + run.len() as u64 * cluster).min(*size).max(start);
        let decision = outcome.of(run[0].place);
        let what = match decision {
            Decision::Repaired => "all now hold what most of them held",
            Decision::Undecided => {
                "no content is in most of them, and nothing was overwritten; read the file from each copy by itself, \
                 write the right bytes to the mirror, or keep one copy with `platter mirror rebuild --from`"
            }
            Decision::Failed => "most of them agree, but another could not be written",
        };
        let finding = Finding {
            code: "mirror-differs",
            severity: Severity::Inconsistent,
            path: owner.path(core),
            message: format!(
                "bytes {start} to {end}: the copies differ, and without integrity no checksum says which is right; {what}"
            ),
            repaired: decision == Decision::Repaired,
        };
        report.add(Damaged { finding, range: Some(start..end), place: run[0].place, copies: Vec::new() });
    }
    super::copies::report_rest(unlike, &outcome, core.geometry(), report);
}

/// Verifies the data from a position on, about `limit` bytes of it at most.
pub(super) fn scrub(
    core: &mut Core,
    reader: &Reader<'_>,
    walked: &Walked,
    (from, limit): (DataPosition, Option<u64>),
    progress: &dyn Progress,
    report: &mut ScrubReport,
    lost: &mut LostStreams,
) {
    let total = walked.clusters * u64::from(core.geometry().cluster);
    let mut scrub = Scrub::new(core, reader, progress, report, lost);
    (scrub.total, scrub.left) = (limit.map_or(total, |limit| total.min(limit)), limit.unwrap_or(u64::MAX));
    let mut next = None;
    for &directory in walked.directories.iter().filter(|&&directory| directory >= from.directory) {
        let from = match directory == from.directory {
            true => from.clone(),
            false => DataPosition { directory, ..DataPosition::default() },
        };
        if let Some(place) = scrub.directory(&from) {
            next = Some(Position::Data(place).to_string());
            break;
        }
    }
    scrub.flush();
    if let Some(place) = scrub.stopped_at.take() {
        next = Some(Position::Data(place).to_string());
    }
    let done = scrub.done.into_inner();
    scrub.report.data += done;
    scrub.report.next = next;
}

impl Scrub<'_> {
    /// Scrubs the files of a directory from a place on. Returns where to continue if the limit was reached or the end
    /// asked for.
    fn directory(&mut self, from: &DataPosition) -> Option<DataPosition> {
        let Ok((tree, _)) = self.core.tree(from.directory) else { return None };
        let (root, table, order) = (tree.root, tree.table, tree.order());
        let is_before = |key: &[u8]| !from.row.is_empty() && order.compare(key, &from.row).is_lt();
        // A damaged tree may refer to one page many times.
        let mut met = HashSet::new();
        // Leaves are read one by one: a leaf is small, but verifying its files may take hours.
        let mut pending = vec![(root, 0)];
        while let Some((reference, depth)) = pending.pop() {
            if !met.insert(reference.clusters[0]) {
                continue;
            }
            // Pages that cannot be read have been reported with the metadata.
            let Ok(page) = self.core.pages.get(&reference, table, false) else { continue };
            let node = page.node();
            if node.is_inner() {
                // The key of a row is the last one below it; the last row also has what comes after.
                let rest =
                    (0..node.len()).filter(|row| row + 1 == node.len() || !is_before(node.row(*row).key));
                let children: Vec<_> = rest
                    .filter_map(|row| PageReference::from_bytes(node.row(row).value, 0).ok())
                    .filter(|_| depth < MOST_LEVELS)
                    .collect();
                pending.extend(children.into_iter().rev().map(|child| (child, depth + 1)));
                continue;
            }
            for row in node.rows().filter(|row| {
                has_record(row.key, &[key::RECORD, key::NAME, key::BODY]) && !is_before(row.key)
            }) {
                let Ok(mut record) = Record::from_bytes(row.value, 0) else { continue };
                if attributes::complete(&mut record, &mut self.core.pages).is_err() {
                    continue;
                }
                if self.is_stopped() {
                    let row = row.key.to_vec();
                    return Some(DataPosition { directory: from.directory, row, ..DataPosition::default() });
                }
                let start = if row.key == from.row { (from.stream, from.cluster) } else { (0, 0) };
                if let Some((stream, cluster)) = self.record(from.directory, row.key, &record, start) {
                    return Some(DataPosition {
                        directory: from.directory,
                        row: row.key.to_vec(),
                        stream,
                        cluster,
                    });
                }
            }
        }
        None
    }

    /// Scrubs the streams of a record, from a cluster of one of them on. Returns where to continue if the limit was
    /// reached or the end asked for.
    fn record(
        &mut self,
        directory: u64,
        row_key: &[u8],
        record: &Record,
        from: (usize, u32),
    ) -> Option<(usize, u32)> {
        for (number, (stream, area)) in extents(record).enumerate().skip(from.0) {
            let skip = if number == from.0 { from.1 } else { 0 };
            if TreeNode::check(area).is_err() {
                continue;
            }
            let owner = Owner { names: Owner::names(directory, row_key, record), stream };
            let size = if owner.stream.is_none() { record.size } else { u64::MAX };
            let mut index = None;
            let mut pending: Vec<(PageReference, usize)> = Vec::new();
            let mut met = HashSet::new();
            let mut rows: Vec<Extent> = Vec::new();
            let node = TreeNode::new(area);
            // The key of a row that leads to a page is the last cluster of which the page tells.
            let children = |node: TreeNode<'_>| -> Vec<PageReference> {
                let rest = node.rows().filter(|row| CHILD_LAST.of(row.key) >= u64::from(skip));
                rest.filter_map(|row| PageReference::from_bytes(row.value, 0).ok()).collect()
            };
            match node.is_inner() {
                true => pending.extend(children(node).into_iter().rev().map(|child| (child, 1))),
                false => rows = crate::layout::extent::rows(area).unwrap_or_default(),
            }
            // How many of the pending pages, counted from the end, were read ahead.
            let mut brought = 0;
            loop {
                for row in rows.drain(..) {
                    if let Some(unlike) = &mut self.unlike {
                        let streams = &mut self.streams;
                        unlike.meet(self.core, &row, &mut || {
                            *index.get_or_insert_with(|| {
                                streams.push(Stream { owner: owner.clone(), size });
                                streams.len() as u32 - 1
                            })
                        });
                        continue;
                    }
                    let Some(checksum) = row.checksum().filter(|_| row.at >= skip) else { continue };
                    let cluster = u64::from(self.core.geometry().cluster);
                    if self.left < cluster {
                        return Some((number, row.at));
                    }
                    let Ok(place) = self.core.pages.map.real(self.core.geometry(), row.cluster, 1) else {
                        continue;
                    };
                    if self.core.pages.map.is_compressed(self.core.geometry(), row.cluster) {
                        continue;
                    }
                    self.left -= cluster;
                    if self.batch.is_empty() {
                        let (row, stream, cluster) = (row_key.to_vec(), number, row.at);
                        self.began = DataPosition { directory, row, stream, cluster };
                    }
                    let stream = *index.get_or_insert_with(|| {
                        self.streams.push(Stream { owner: owner.clone(), size });
                        self.streams.len() as u32 - 1
                    });
                    self.batch.push(Cluster { place: place * cluster, checksum, stream, at: row.at });
                    if self.batch.len() >= BATCH {
                        self.flush();
                        index = None;
                    }
                    if self.is_stopped() {
                        return Some((number, row.at));
                    }
                }
                if brought == 0 && pending.len() > 1 {
                    brought = pending.len().min(PAGES_AT_ONCE);
                    let ahead = pending[pending.len() - brought..].iter().map(|&(reference, _)| reference);
                    self.core.pages.bring(&ahead.collect::<Vec<_>>(), ANY_TABLE);
                }
                let Some((reference, depth)) = pending.pop() else { break };
                brought = brought.saturating_sub(1);
                if !met.insert(reference.clusters[0]) {
                    continue;
                }
                let Ok(page) = self.core.pages.get(&reference, ANY_TABLE, false) else { continue };
                match page.node().is_inner() {
                    true if depth < MOST_LEVELS => {
                        brought = 0;
                        pending
                            .extend(children(page.node()).into_iter().rev().map(|child| (child, depth + 1)));
                    }
                    true => {}
                    false => rows = crate::layout::extent::rows(page.area()).unwrap_or_default(),
                }
            }
        }
        None
    }

    /// Whether the end was asked for. While only the owners of clusters are looked for, the work is finished.
    fn is_stopped(&self) -> bool {
        self.unlike.is_none() && self.progress.is_stopped()
    }

    /// Verifies the collected clusters, a part of them if the end is asked for: then all of them are next.
    fn flush(&mut self) {
        let mut batch = std::mem::take(&mut self.batch);
        let streams = std::mem::take(&mut self.streams);
        batch.sort_unstable_by_key(|cluster| cluster.place);
        let length = self.core.geometry().cluster;
        let pieces: Vec<Piece> =
            batch.iter().map(|cluster| Piece { offset: cluster.place, length }).collect();
        let bad: Mutex<Vec<Bad>> = Mutex::default();
        self.reader.read(
            &pieces,
            &|number, bytes| {
                let (expected, found) = (batch[number].checksum, crc32c(bytes));
                if found == expected {
                    return Ok(());
                }
                let (expected, found) = (format!("CRC32-C {expected:08x}"), format!("{found:08x}"));
                Err(Error::damaged("checksum of a file's data", batch[number].place, expected, found))
            },
            &|number, outcome| {
                if outcome.bad.is_empty() {
                    return;
                }
                let Cluster { place, stream, at, .. } = batch[number];
                let (copies, repaired, why) = (outcome.bad, outcome.repaired, outcome.why);
                let found = Bad { stream, at, count: 1, place, copies, repaired, why };
                bad.lock().unwrap_or_else(PoisonError::into_inner).push(found);
            },
            &|bytes| {
                let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
                self.progress.progress("file data", done, self.total.max(done));
            },
        );
        if !batch.is_empty() && self.is_stopped() {
            self.stopped_at.get_or_insert(self.began.clone());
        }
        let mut bad = bad.into_inner().unwrap_or_else(PoisonError::into_inner);
        bad.sort_unstable_by_key(|bad| (bad.stream, bad.at));
        let mut ranges: Vec<Bad> = Vec::new();
        for one in bad {
            match ranges.last_mut() {
                Some(last) if last.goes_on_with(&one) => last.count += 1,
                _ => ranges.push(one),
            }
        }
        for range in ranges {
            self.add(range, &streams);
        }
    }

    fn add(&mut self, bad: Bad, streams: &[Stream]) {
        let Stream { owner, size } = &streams[bad.stream as usize];
        let cluster = u64::from(self.core.geometry().cluster);
        let start = u64::from(bad.at) * cluster;
        let end = (start + bad.count * cluster).min(*size).max(start);
        let is_lost = bad.copies.len() == self.report.copies;
        if is_lost {
            self.report.lost += end - start;
            self.lost.entry(owner.clone()).or_insert(Lost::Data);
        }
        let message = format!(
            "bytes {start} to {end}: {}",
            sentence(bad.why.as_ref(), &bad.copies, self.report.copies)
        );
        let finding = Finding {
            code: "data-checksum",
            severity: if is_lost { Severity::DataLoss } else { Severity::Inconsistent },
            path: owner.path(self.core),
            message,
            repaired: bad.repaired,
        };
        self.report.add(Damaged { finding, range: Some(start..end), place: bad.place, copies: bad.copies });
    }
}

/// Consecutive damaged clusters of a stream.
struct Bad {
    stream: u32,
    at: u32,
    count: u64,
    place: u64,
    copies: Vec<usize>,
    repaired: bool,
    why: Option<Error>,
}

impl Bad {
    fn goes_on_with(&self, next: &Bad) -> bool {
        self.stream == next.stream
            && u64::from(self.at) + self.count == u64::from(next.at)
            && (&self.copies, self.repaired) == (&next.copies, next.repaired)
    }
}
