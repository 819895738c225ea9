//! The content of a file in memory: its run list, and planned reads and writes of it.
//!
//! A [`File`] holds only what the data path needs of a node, so that a planned read, or a planned write over existing
//! content, takes one shared lock and changes two counters.
//!
//! A write past the valid data length is *pending* from its plan until it and every such write that begins before it
//! are finished. Its clusters belong to the file at once, but the directory entry is updated only then, because no
//! entry can say that a later part is written and an earlier one is not. Readers see the data as soon as that write
//! itself is finished. A sync does not wait for the writes before it: it writes zeroes over the places that they are to
//! fill, so that the entry can be updated, and they write their data once more when they finish. The gap in front of a
//! pending write is zeroed when the write is planned. So no reader ever sees old content of a cluster, in whatever
//! order transfers end. A format that can mark clusters as allocated but not written (exFAT's valid data length) keeps
//! size and valid data length apart; for one that cannot (FAT) both are equal, and a larger size is zeroed at once.

use crate::{Heap, Run, Runs};
use platter_device::sync::{FILE, RwLock, RwLockReadGuard, RwLockWriteGuard};
use platter_vfs::{Access, Claim, Error, Pass, Plan, RangeLock, Result};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A planned write past the valid data length, until all such writes before it are finished too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub ticket: u64,
    pub start: u64,
    pub end: u64,
    pub done: bool,
    /// The offset from which on zeroes were written over this write's range while it is in flight, if they were.
    pub overtaken: Option<u64>,
}

/// The run list and the sizes of a file.
#[derive(Debug, Default)]
pub struct FileState {
    /// Whether the fields below are filled: the chain is read when it is first needed.
    pub loaded: bool,
    /// Whether the file is removed and its clusters are freed.
    pub dead: bool,
    /// The size in the directory entry. Readers see [`FileState::seen`].
    pub size: u64,
    /// The valid data length: up to here the clusters hold written data; from here to the size the file reads as
    /// zeroes.
    pub valid: u64,
    /// The clusters, including those behind the size.
    pub runs: Runs,
    /// The number of the clusters that are linked in the table.
    pub linked: u32,
    /// The number of the change in which it was last truncated but kept some clusters.
    pub cut_in: u64,
    /// The planned writes past the valid data length.
    pub(crate) pending: Vec<Pending>,
    pub(crate) next_ticket: u64,
}

/// The data path of a file.
#[derive(Debug)]
pub(crate) struct File {
    pub number: u64,
    state: RwLock<FileState, FILE>,
    /// The plans in flight, and the claim that excludes them from a range.
    ranges: RangeLock,
    /// Whether the node is not handed out any more, so that the last plan to finish removes it from memory.
    pub released: AtomicBool,
    /// Whether [`Files`] has it: its node number may be another file's otherwise.
    pub is_listed: AtomicBool,
    /// The read-only attribute.
    pub read_only: AtomicBool,
    /// Whether `modified` holds a time that is not yet in the directory entry.
    pub touched: AtomicBool,
    /// The time at which a write last finished, in nanoseconds since 1970.
    pub modified: AtomicU64,
    /// The number of the change in which its size or clusters were last recorded.
    pub recorded_in: AtomicU64,
}

impl File {
    pub(crate) fn new(number: u64, read_only: bool) -> File {
        File {
            number,
            state: RwLock::default(),
            ranges: RangeLock::default(),
            released: AtomicBool::new(false),
            is_listed: AtomicBool::new(false),
            read_only: AtomicBool::new(read_only),
            touched: AtomicBool::new(false),
            modified: AtomicU64::new(0),
            recorded_in: AtomicU64::new(0),
        }
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, FileState, FILE> {
        self.state.read()
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, FileState, FILE> {
        self.state.write()
    }

    /// Lets a plan enter. The caller holds the lock of the state.
    ///
    /// # Errors
    /// [`Error::Busy`] if another caller has claimed part of the range.
    #[inline]
    pub(crate) fn enter(&self, range: Range<u64>, access: Access) -> Result<Pass> {
        self.ranges.enter(range, access, None)
    }

    /// Waits until there is no claim. The caller holds no lock and has no plan in flight on the file.
    pub(crate) fn wait_free(&self) {
        self.ranges.wait_free();
    }

    /// [`RangeLock::claim`] on this file.
    pub(crate) fn claim(&self, range: impl Fn(&FileState) -> Range<u64>, waits_for: Access) -> Claim<'_> {
        self.ranges.claim(&self.state, range, waits_for)
    }

    /// Whether plans are in flight.
    pub(crate) fn busy(&self) -> bool {
        !self.ranges.is_quiet()
    }

    /// Counts a plan as finished. Returns whether it was the last one of a node that is not handed out any more.
    pub(crate) fn leave(&self, pass: Pass) -> bool {
        self.ranges.leave(pass);
        self.released.load(Ordering::SeqCst) && self.ranges.is_quiet()
    }
}

impl FileState {
    /// What holds after each write, whichever ended first.
    #[cfg(any(test, debug_assertions))]
    fn check(&self) {
        assert!(self.linked <= self.runs.clusters(), "clusters are linked that the file has");
        assert!(
            self.pending.iter().all(|one| one.ticket <= self.next_ticket),
            "tickets are given out in order"
        );
        assert!(self.pending.iter().all(|one| one.start <= one.end), "a pending write has a range");
    }

    /// Calls `each(device offset, length)` for each contiguous piece of a range of the file, all of which has clusters.
    pub fn pieces(
        &self,
        heap: &Heap,
        range: Range<u64>,
        mut each: impl FnMut(u64, u64) -> Result<()>,
    ) -> Result<()> {
        let (size, shift) = (heap.cluster_size(), heap.shift);
        let mut at = range.start;
        while at < range.end {
            let index = (at >> shift) as u32;
            let Some((cluster, count)) = self.runs.at(index) else {
                let expected = format!("{} clusters", index + 1);
                return Err(Error::damaged("cluster chain", 0, expected, self.runs.clusters()));
            };
            let inside = at & (size - 1);
            let length = ((u64::from(count) << shift) - inside).min(range.end - at);
            each(heap.offset(cluster) + inside, length)?;
            at += length;
        }
        Ok(())
    }

    /// Adds the segments of a range to a plan that begins at `offset`.
    pub fn fill(&self, heap: &Heap, range: Range<u64>, offset: u64, plan: &mut Plan) -> Result<()> {
        debug_assert!(
            range.start >= offset && range.end - offset <= u64::from(u32::MAX),
            "a plan covers its range"
        );
        let mut at = (range.start - offset) as u32;
        self.pieces(heap, range, |place, length| {
            plan.push(place, at, length as u32);
            at += length as u32;
            Ok(())
        })
    }

    /// The number of clusters that the size needs.
    pub fn needed(&self, heap: &Heap) -> u32 {
        heap.clusters_for(self.size) as u32
    }

    /// Adds a pending write and returns its ticket.
    pub fn announce(&mut self, start: u64, end: u64) -> u64 {
        debug_assert!(start <= end, "a write ends behind its beginning");
        self.next_ticket += 1;
        self.pending.push(Pending { ticket: self.next_ticket, start, end, done: false, overtaken: None });
        self.next_ticket
    }

    /// The largest end of the planned writes past the valid data length; without any, the valid data length.
    pub fn planned(&self) -> u64 {
        self.pending.iter().map(|pending| pending.end).fold(self.valid, u64::max)
    }

    /// The size that readers see.
    pub fn seen(&self) -> u64 {
        self.finished().map(|range| range.end).fold(self.size, u64::max)
    }

    /// The ranges of finished writes past the valid data length that wait for writes before them.
    fn finished(&self) -> impl Iterator<Item = Range<u64>> {
        self.pending.iter().filter(|pending| pending.done).map(|pending| pending.start..pending.end)
    }

    /// The largest end of the finished writes that wait for others, if there are any.
    pub fn waits_up_to(&self) -> Option<u64> {
        self.finished().map(|range| range.end).max()
    }

    /// Extends the valid data length over all finished writes. The unfinished ranges between them read as zeroes from
    /// now on, and their writes are marked to write again.
    pub fn overtake(&mut self) {
        let Some(end) = self.waits_up_to() else { return };
        let valid = self.valid;
        for pending in self.pending.iter_mut().filter(|pending| !pending.done && pending.start < end) {
            (pending.start, pending.end) = (end, pending.end.max(end));
            pending.overtaken = pending.overtaken.or(Some(valid));
        }
        self.advance();
    }

    /// Notes that zeroes were written over this range, in which writes may be in flight.
    pub fn zeroed(&mut self, range: &Range<u64>) {
        let meets = |pending: &&mut Pending| pending.start < range.end && range.start < pending.end;
        for pending in self.pending.iter_mut().filter(|pending| !pending.done).filter(meets) {
            pending.overtaken = Some(pending.overtaken.map_or(range.start, |from| from.min(range.start)));
        }
    }

    /// The offset from which on zeroes were written over this write's range while it was in flight, if they were.
    pub fn overtaken(&self, ticket: u64) -> Option<u64> {
        self.pending.iter().find(|pending| pending.ticket == ticket)?.overtaken
    }

    /// Splits a range into parts, in order, each with whether it is written; a part that is not reads as zeroes.
    pub fn parts(&self, range: Range<u64>) -> Vec<(Range<u64>, bool)> {
        let mut parts = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let mut written = at.max(self.valid);
            while let Some(next) = self.finished().find(|finished| finished.contains(&written)) {
                written = next.end;
            }
            let next = self.finished().map(|finished| finished.start).filter(|start| *start > at).min();
            let end = if written > at { written } else { next.unwrap_or(range.end) }.min(range.end);
            parts.push((at..end, written > at));
            at = end;
        }
        parts
    }

    /// The parts of a range that are not written.
    pub fn gaps(&self, range: Range<u64>) -> Vec<Range<u64>> {
        self.parts(range).into_iter().filter(|(_, written)| !written).map(|(gap, _)| gap).collect()
    }

    /// Ends a pending write; if none is pending before it, extends the valid data length, and the size, over it.
    pub fn conclude(&mut self, ticket: u64, written: bool) {
        if written {
            if let Some(pending) = self.pending.iter_mut().find(|pending| pending.ticket == ticket) {
                pending.done = true;
            }
        } else {
            self.withdraw(ticket);
        }
        self.advance();
    }

    /// Extends the valid data length over the finished writes that have no unfinished one before them.
    fn advance(&mut self) {
        let open = self.pending.iter().filter(|pending| !pending.done).map(|pending| pending.start).min();
        let reached = |pending: &Pending| pending.done && open.is_none_or(|open| pending.start < open);
        let valid = self.pending.iter().filter(|pending| reached(pending)).map(|pending| pending.end).max();
        self.pending.retain(|pending| !reached(pending));
        self.valid = self.valid.max(valid.unwrap_or(0));
        self.size = self.size.max(self.valid);
        #[cfg(debug_assertions)]
        self.check();
    }

    /// Removes a pending write.
    pub fn withdraw(&mut self, ticket: u64) {
        self.pending.retain(|pending| pending.ticket != ticket);
    }

    /// Restores `size` and `valid` as they were before a write was concluded, because recording them failed. Readers go
    /// on seeing the write's data.
    pub fn take_back(&mut self, size: u64, valid: u64, ticket: u64) {
        self.pending.push(Pending { ticket, start: valid, end: self.valid, done: true, overtaken: None });
        assert!(valid <= self.valid && size <= self.size, "what was not recorded is taken back");
        (self.size, self.valid) = (size, valid);
    }

    /// Whether another planned write ends after `start`, where this one starts.
    pub fn is_followed(&self, start: u64, ticket: u64) -> bool {
        self.pending.iter().any(|pending| pending.ticket != ticket && pending.end > start)
    }

    /// Appends clusters that were just allocated.
    pub fn extend(&mut self, runs: &[Run]) {
        for run in runs {
            self.runs.push(run.cluster, run.count);
        }
    }
}

/// The data paths of the files in memory by node number, kept apart from the core, so that finding one does not wait
/// for a change of names.
#[derive(Default)]
pub(crate) struct Files {
    shards: [RwLock<BTreeMap<u64, Arc<File>>>; 16],
}

impl Files {
    fn shard(&self, number: u64) -> &RwLock<BTreeMap<u64, Arc<File>>> {
        &self.shards[number as usize % self.shards.len()]
    }

    pub(crate) fn get(&self, number: u64) -> Option<Arc<File>> {
        self.shard(number).read().get(&number).cloned()
    }

    pub(crate) fn insert(&self, file: Arc<File>) {
        file.is_listed.store(true, Ordering::Release);
        self.shard(file.number).write().insert(file.number, file);
    }

    /// Returns the data paths of all files in memory.
    pub(crate) fn all(&self) -> Vec<Arc<File>> {
        self.shards.iter().flat_map(|shard| shard.read().values().cloned().collect::<Vec<_>>()).collect()
    }

    pub(crate) fn remove(&self, number: u64) {
        if let Some(file) = self.shard(number).write().remove(&number) {
            file.is_listed.store(false, Ordering::Release);
        }
    }
}

/// The state that a plan keeps between requests: the file of the last one, so that the next request for the same file
/// need not look it up.
pub(crate) struct Remembered {
    pub volume: u64,
    pub file: Arc<File>,
    /// The plan that is under way, if one is, and its place among those that use the file.
    pub planned: Option<(Planned, Pass)>,
}

/// What a plan is to do, from its first half to its second.
#[derive(Clone, Copy)]
pub(crate) enum Planned {
    Read,
    /// A write over existing content.
    InPlace,
    /// A write past the valid data length, with the ticket under which it was announced.
    Extension {
        ticket: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_never_covers_what_is_not_written() {
        let mut state = FileState { loaded: true, size: 100, valid: 100, ..FileState::default() };
        let first = state.announce(512, 1024);
        let second = state.announce(1024, 4096);
        let third = state.announce(4096, 5120);
        state.conclude(third, true);
        assert_eq!((state.size, state.planned(), state.seen()), (100, 5120, 5120));
        assert_eq!(state.parts(0..5120), [(0..100, true), (100..4096, false), (4096..5120, true)]);
        assert_eq!(state.waits_up_to(), Some(5120));
        state.conclude(first, true);
        assert_eq!((state.size, state.planned()), (1024, 5120));
        assert_eq!(state.parts(512..5000), [(512..1024, true), (1024..4096, false), (4096..5000, true)]);
        state.conclude(second, true);
        assert_eq!((state.size, state.planned()), (5120, 5120));
        assert!(state.pending.is_empty());
        assert_eq!((state.seen(), state.waits_up_to()), (5120, None));
        let [open, over] = [(5120, 5632), (5632, 6144)].map(|(start, end)| state.announce(start, end));
        state.conclude(over, true);
        assert_eq!(state.gaps(4096..8192), [5120..5632, 6144..8192]);
        state.zeroed(&(4096..5632));
        assert_eq!(state.overtaken(open), Some(4096));
        state.conclude(open, true);
        assert_eq!(state.valid, 6144);
        let failed = state.announce(6144, 7168);
        state.conclude(failed, false);
        assert_eq!((state.size, state.planned()), (6144, 6144));
    }

    #[test]
    fn a_sync_overtakes_what_is_under_way() {
        let mut state = FileState { loaded: true, ..FileState::default() };
        let long = state.announce(0, 4096);
        let short = state.announce(512, 1024);
        let later = state.announce(8192, 9216);
        state.conclude(short, true);
        assert_eq!(state.parts(0..1024), [(0..512, false), (512..1024, true)]);
        state.overtake();
        assert_eq!((state.valid, state.size, state.planned(), state.waits_up_to()), (1024, 1024, 9216, None));
        assert_eq!([long, later].map(|ticket| state.overtaken(ticket)), [Some(0), None]);
        state.conclude(later, true);
        state.conclude(long, true);
        assert_eq!((state.valid, state.planned(), state.pending.len()), (9216, 9216, 0));
    }
}
