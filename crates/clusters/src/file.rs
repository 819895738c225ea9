//! The content of a file: where it lies, and planned reads and writes of it.
//!
//! A [`File`] is what the data path needs of a node and nothing else, so that a planned read, or a planned write over
//! what is there already, takes one shared lock and changes two counters.
//!
//! A write past what is valid is *pending* from plan to finish, and further until every such write that begins before it
//! is finished: its clusters are the file's, but the disk is told of them only then, because no entry can say that a later
//! part is written and an earlier one is not. Readers see it as soon as it is finished itself. A sync does not wait for
//! those before it: it writes zeroes over what they are to fill, so that the disk can be told, and they write once more
//! when they finish. The gap in front of a pending write is zeroed when it is planned. So no reader ever sees what a
//! cluster held before, whatever the order in which transfers end. A format that can say of clusters that they are
//! allocated but not written (exFAT's valid data length) keeps the size apart from what is written; one that cannot (FAT)
//! has both the same, and zeroes what a larger size adds.

use crate::{Heap, Run, Runs};
use platter_device::sync::{FILE, RwLock, RwLockReadGuard, RwLockWriteGuard};
use platter_vfs::{Access, Claim, Error, Pass, Plan, RangeLock, Result};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A planned write past what is valid, until all before it are finished too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub ticket: u64,
    pub start: u64,
    pub end: u64,
    pub done: bool,
    /// From where on zeroes were written where it is writing, if they were.
    pub overtaken: Option<u64>,
}

/// Where a file's content lies.
#[derive(Debug, Default)]
pub struct FileState {
    /// Whether the fields below are the file's: its chain is read when it is first needed.
    pub loaded: bool,
    /// Its clusters are no longer its own.
    pub dead: bool,
    /// The size that the entry has. Readers see that of [`FileState::seen`].
    pub size: u64,
    /// Up to here the clusters hold what was written; from here to the size zeroes are read, whatever they hold.
    pub valid: u64,
    /// Its clusters, also those that the size does not cover yet.
    pub runs: Runs,
    /// How many of the clusters are linked in the table.
    pub linked: u32,
    /// The change in which it last lost some of its clusters and kept others.
    pub cut_in: u64,
    /// Planned writes past what is valid.
    pub(crate) pending: Vec<Pending>,
    pub(crate) next_ticket: u64,
}

/// A node's data path.
#[derive(Debug)]
pub(crate) struct File {
    pub number: u64,
    state: RwLock<FileState, FILE>,
    /// The plans in flight, and what keeps them from a range.
    ranges: RangeLock,
    /// Nobody holds the node: the last finish lets it go.
    pub released: AtomicBool,
    /// The read-only attribute.
    pub read_only: AtomicBool,
    /// Whether `modified` holds a time that the node's entry does not know yet.
    pub touched: AtomicBool,
    /// When a finished write last changed it, in nanoseconds since 1970.
    pub modified: AtomicU64,
    /// The change in which its size or its clusters were last recorded.
    pub recorded_in: AtomicU64,
}

impl File {
    pub fn new(number: u64, read_only: bool) -> File {
        File {
            number,
            state: RwLock::default(),
            ranges: RangeLock::default(),
            released: AtomicBool::new(false),
            read_only: AtomicBool::new(read_only),
            touched: AtomicBool::new(false),
            modified: AtomicU64::new(0),
            recorded_in: AtomicU64::new(0),
        }
    }

    pub fn read(&self) -> RwLockReadGuard<'_, FileState, FILE> {
        self.state.read()
    }

    pub fn write(&self) -> RwLockWriteGuard<'_, FileState, FILE> {
        self.state.write()
    }

    /// Lets a plan in. The caller holds the state.
    ///
    /// # Errors
    /// [`Error::Busy`] if another caller has part of the range for itself.
    #[inline]
    pub fn enter(&self, range: Range<u64>, access: Access) -> Result<Pass> {
        self.ranges.enter(range, access, None)
    }

    /// Waits until nobody has a range for itself. The caller holds no lock and has no plan in flight here.
    pub fn wait_free(&self) {
        self.ranges.wait_free();
    }

    /// [`RangeLock::claim`].
    pub fn claim(&self, range: impl Fn(&FileState) -> Range<u64>, waits_for: Access) -> Claim<'_> {
        self.ranges.claim(&self.state, range, waits_for)
    }

    /// Whether plans are in flight.
    pub fn busy(&self) -> bool {
        !self.ranges.is_quiet()
    }

    /// Lets a plan out. Returns whether it was the last one of a node that nobody holds.
    pub fn leave(&self, pass: Pass) -> bool {
        self.ranges.leave(pass);
        self.released.load(Ordering::SeqCst) && self.ranges.is_quiet()
    }
}

impl FileState {
    /// Calls `each(device offset, length)` for the pieces of a range of the file, which has clusters throughout.
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

    /// Fills a plan that begins at `offset` with the segments of a range.
    pub fn fill(&self, heap: &Heap, range: Range<u64>, offset: u64, plan: &mut Plan) -> Result<()> {
        let mut at = (range.start - offset) as u32;
        self.pieces(heap, range, |place, length| {
            plan.push(place, at, length as u32);
            at += length as u32;
            Ok(())
        })
    }

    /// How many clusters the size needs.
    pub fn needed(&self, heap: &Heap) -> u32 {
        heap.clusters_for(self.size) as u32
    }

    /// Notes a planned write past the end and returns its ticket.
    pub fn announce(&mut self, start: u64, end: u64) -> u64 {
        self.next_ticket += 1;
        self.pending.push(Pending { ticket: self.next_ticket, start, end, done: false, overtaken: None });
        self.next_ticket
    }

    /// Where the last planned write past what is valid will end; without any, that itself.
    pub fn planned(&self) -> u64 {
        self.pending.iter().map(|pending| pending.end).fold(self.valid, u64::max)
    }

    /// The size that readers see.
    pub fn seen(&self) -> u64 {
        self.finished().map(|range| range.end).fold(self.size, u64::max)
    }

    /// What was written past what is valid and waits there for writes before it.
    fn finished(&self) -> impl Iterator<Item = Range<u64>> {
        self.pending.iter().filter(|pending| pending.done).map(|pending| pending.start..pending.end)
    }

    /// Up to where finished writes wait for others, if one does.
    pub fn waits_up_to(&self) -> Option<u64> {
        self.finished().map(|range| range.end).max()
    }

    /// Makes all that is finished valid. What lies between it reads as zeroes now, though writes under way are to fill it.
    pub fn overtake(&mut self) {
        let Some(end) = self.waits_up_to() else { return };
        let valid = self.valid;
        for pending in self.pending.iter_mut().filter(|pending| !pending.done && pending.start < end) {
            (pending.start, pending.end) = (end, pending.end.max(end));
            pending.overtaken = pending.overtaken.or(Some(valid));
        }
        self.advance();
    }

    /// Notes that zeroes were written over this range, where writes may be under way.
    pub fn zeroed(&mut self, range: &Range<u64>) {
        let meets = |pending: &&mut Pending| pending.start < range.end && range.start < pending.end;
        for pending in self.pending.iter_mut().filter(|pending| !pending.done).filter(meets) {
            pending.overtaken = Some(pending.overtaken.map_or(range.start, |from| from.min(range.start)));
        }
    }

    /// From where on zeroes were written where this write was under way, if they were.
    pub fn overtaken(&self, ticket: u64) -> Option<u64> {
        self.pending.iter().find(|pending| pending.ticket == ticket)?.overtaken
    }

    /// Parts that together are this range of what readers see, in order, each with whether it is written: what is not reads
    /// as zeroes.
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

    /// Ends a pending write, and moves over it what is valid, and the size, if nothing before it is pending.
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

    /// Moves what is valid over what is finished and has nothing before it.
    fn advance(&mut self) {
        let open = self.pending.iter().filter(|pending| !pending.done).map(|pending| pending.start).min();
        let reached = |pending: &Pending| pending.done && open.is_none_or(|open| pending.start < open);
        let valid = self.pending.iter().filter(|pending| reached(pending)).map(|pending| pending.end).max();
        self.pending.retain(|pending| !reached(pending));
        self.valid = self.valid.max(valid.unwrap_or(0));
        self.size = self.size.max(self.valid);
    }

    /// Forgets a pending write.
    pub fn withdraw(&mut self, ticket: u64) {
        self.pending.retain(|pending| pending.ticket != ticket);
    }

    /// Takes back what concluding a write moved and could not be recorded: these were the size and what was valid. Readers
    /// go on seeing it.
    pub fn take_back(&mut self, size: u64, valid: u64, ticket: u64) {
        self.pending.push(Pending { ticket, start: valid, end: self.valid, done: true, overtaken: None });
        (self.size, self.valid) = (size, valid);
    }

    /// Whether a planned write ends after this one starts.
    pub fn is_followed(&self, start: u64, ticket: u64) -> bool {
        self.pending.iter().any(|pending| pending.ticket != ticket && pending.end > start)
    }

    /// Adds clusters that were just allocated.
    pub fn extend(&mut self, runs: &[Run]) {
        for run in runs {
            self.runs.push(run.cluster, run.count);
        }
    }
}

/// The files of a volume by number, apart from everything else that is known of them, so that finding one does not
/// wait for a change of names.
#[derive(Default)]
pub(crate) struct Files {
    shards: [RwLock<BTreeMap<u64, Arc<File>>>; 16],
}

impl Files {
    fn shard(&self, number: u64) -> &RwLock<BTreeMap<u64, Arc<File>>> {
        &self.shards[number as usize % self.shards.len()]
    }

    pub fn get(&self, number: u64) -> Option<Arc<File>> {
        self.shard(number).read().get(&number).cloned()
    }

    pub fn insert(&self, file: Arc<File>) {
        self.shard(file.number).write().insert(file.number, file);
    }

    /// All of them.
    pub fn all(&self) -> Vec<Arc<File>> {
        self.shards.iter().flat_map(|shard| shard.read().values().cloned().collect::<Vec<_>>()).collect()
    }

    pub fn remove(&self, number: u64) {
        self.shard(number).write().remove(&number);
    }
}

/// What a plan keeps between requests: the file it was last for, so that the next request for it need not look it up.
pub(crate) struct Remembered {
    pub volume: u64,
    pub file: Arc<File>,
}

/// In `Plan::notes[0]`: a write over what is there already.
pub(crate) const IN_PLACE: u64 = 1;
/// In `Plan::notes[0]`: a write past the end; `Plan::notes[1]` is its ticket.
pub(crate) const PENDING: u64 = 2;
/// Where in `Plan::notes` its [`Pass`] is.
pub(crate) const PASS: usize = 2;

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
