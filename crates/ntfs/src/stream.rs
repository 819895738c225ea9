//! An open file or named stream: everything that reading, and writing in place, needs to find the content.

use crate::file::{Attr, Body, resident_bytes};
use crate::layout::{Run, attribute_flags, elsewhere, lacks_content};
use crate::runlist::{RunList, Runs};
use crate::wof::Packing;
use platter_device::sync::{FILE, RwLock, RwLockReadGuard, RwLockWriteGuard};
use platter_vfs::{Access, Claim, Error, Noted, Pass, RangeLock, Result};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The largest file in bytes: NTFS itself allows sizes below 2^63, Windows makes 8 PiB with clusters of 2 MiB.
pub(crate) const LARGEST: u64 = 1 << 53;

/// An open stream.
pub(crate) struct Stream {
    /// The stream's node.
    pub node: u64,
    state: RwLock<StreamState, FILE>,
    /// Plans under way, and claims that keep plans from a range.
    ranges: RangeLock,
    /// The number of exchanges of clusters so far (see `volume/valid_length.rs`). A plan compares it when it finishes, and reads
    /// or writes again what was exchanged since it was planned.
    pub exchanges: AtomicU64,
    /// Whether the file's read-only attribute is set.
    pub read_only: AtomicBool,
    /// Whether the file is a symbolic link, which has no content.
    pub is_link: AtomicBool,
    /// When the stream was last written, in units of 100 ns since 1601; 0 if no such time waits to be recorded.
    pub written: AtomicU64,
    /// Whether the node leads to this stream. A node that is forgotten and found again has the same number and may have
    /// another stream; a plan that was kept from before still has the old one.
    pub is_listed: AtomicBool,
    /// Whether the node is on the list of nodes that the next commit records, or was just taken off that list to be
    /// recorded. It is changed with the list locked.
    pub is_touched: AtomicBool,
    /// Notes when the stream last got another size, valid length or other clusters: from then on writes in place need a
    /// sync, until a commit has recorded the change.
    pub resized: Noted,
}

/// Where the content is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StreamPlace {
    /// The content is in the record.
    Resident(Vec<u8>),
    /// The content is in clusters, from virtual cluster 0 without a gap.
    Runs(RunList),
}

/// The part of a stream that changes while the stream is open.
#[derive(Debug)]
pub(crate) struct StreamState {
    /// Where the content is.
    pub place: StreamPlace,
    /// Bytes of content.
    pub size: u64,
    /// The valid length: bytes from the start that were written, or are holes; bytes after them read as zeroes.
    pub valid: u64,
    /// The end of all planned and finished writes: up to there the device holds written bytes, or will when the plans
    /// under way end.
    pub planned: u64,
    /// Ranges past `valid` that were written, by writes that finished before an earlier one did.
    pub done: SmallVec<[Range<u64>; 4]>,
    /// Flags of the attribute.
    pub flags: u16,
    /// The base-2 logarithm of the number of clusters in a compression unit.
    pub unit: u8,
    /// The reason why the content is not in the stream, if it is not: see [`elsewhere`].
    pub elsewhere: Option<&'static str>,
    /// How the content is packed in another stream of the file, if it is; it can be read then.
    pub packed: Option<Packing>,
    /// Whether more clusters were allocated than the content needs, for writes to come.
    pub is_ahead: bool,
    /// Clusters that the stream has lost, and that plans under way still read or write. On disk they are free.
    pub left: Vec<Run>,
    /// Byte ranges that got other clusters while plans were under way, each with the number of its exchange, as
    /// [`Stream::exchanges`] counts them.
    pub exchanged: Vec<(u64, Range<u64>)>,
}

impl StreamState {
    /// Returns the state of a stream that is stored in this attribute; without an attribute, that of an empty stream.
    pub(crate) fn of(attr: Option<&Attr>) -> StreamState {
        let (place, size, valid, unit) = match attr.map(|attr| &attr.body) {
            None => (StreamPlace::Resident(Vec::new()), 0, 0, 0),
            Some(Body::Resident { value, .. }) => {
                let size = value.len() as u64;
                (StreamPlace::Resident(value.clone()), size, size, 0)
            }
            Some(Body::Outside(outside)) => {
                (StreamPlace::Runs(outside.runs.clone()), outside.size, outside.valid, outside.unit)
            }
        };
        let flags = attr.map_or(0, |attr| attr.flags);
        let (done, left, exchanged) = (SmallVec::new(), Vec::new(), Vec::new());
        StreamState {
            place,
            size,
            valid,
            planned: valid,
            done,
            flags,
            unit,
            elsewhere: None,
            packed: None,
            is_ahead: false,
            left,
            exchanged,
        }
    }

    /// Returns a copy, for a change that takes effect only if all of it succeeds.
    pub(crate) fn copy(&self) -> StreamState {
        let (place, done, left) = (self.place.clone(), self.done.clone(), self.left.clone());
        StreamState { place, done, left, exchanged: self.exchanged.clone(), ..*self }
    }

    /// The parts of a range that got other clusters after exchange number `exchanges`.
    pub(crate) fn exchanged_since(&self, exchanges: u64, range: &Range<u64>) -> Vec<Range<u64>> {
        let since = self.exchanged.iter().filter(|(number, _)| *number > exchanges);
        let parts = since.map(|(_, one)| one.start.max(range.start)..one.end.min(range.end));
        parts.filter(|part| part.start < part.end).collect()
    }

    /// Whether the stream is compressed.
    pub(crate) fn is_compressed(&self) -> bool {
        self.flags & attribute_flags::COMPRESSION_MASK != 0
    }

    /// Fails if the content can be neither read nor written, because it is encrypted or not in the stream.
    pub(crate) fn check_plain(&self) -> Result<()> {
        if self.flags & attribute_flags::ENCRYPTED != 0 {
            return Err(Error::Unreadable("it is encrypted (EFS)"));
        }
        self.check_here()
    }

    /// Fails if the content is not in the stream: then the stream's holes are no zeroes of the content, and what is
    /// written to the stream would be mixed with it.
    pub(crate) fn check_here(&self) -> Result<()> {
        match self.elsewhere {
            Some(why) => Err(Error::Unreadable(why)),
            None => Ok(()),
        }
    }

    /// Notes whether the content is elsewhere, for the unnamed stream of a file with this reparse tag, on a volume with
    /// clusters of `cluster` bytes; `packed` says how it is packed, if it is in another stream of the file.
    pub(crate) fn set_tag(&mut self, tag: Option<u32>, packed: Option<Packing>, cluster: u64) {
        let is_lacking = match &self.place {
            StreamPlace::Resident(_) => false,
            StreamPlace::Runs(runs) => {
                lacks_content(self.size, self.valid, self.is_compressed(), runs.iter().copied(), cluster)
            }
        };
        self.elsewhere = tag.and_then(elsewhere).filter(|_| is_lacking);
        self.packed = packed.filter(|_| is_lacking);
    }

    /// The number of clusters from the first to the last, holes included.
    pub(crate) fn clusters(&self) -> u64 {
        self.runs().end()
    }

    /// The stream's runs; none if it is resident.
    pub(crate) fn runs(&self) -> &RunList {
        match &self.place {
            StreamPlace::Resident(_) => RunList::NONE,
            StreamPlace::Runs(runs) => runs,
        }
    }

    /// The number of clusters that are allocated, holes not included.
    pub(crate) fn taken(&self) -> u64 {
        self.runs().taken()
    }

    /// Bytes that the content takes: of clusters of `cluster` bytes, or of the record.
    pub(crate) fn allocated(&self, cluster: u64) -> u64 {
        match &self.place {
            StreamPlace::Resident(_) => resident_bytes(self.size),
            StreamPlace::Runs(_) => self.taken() * cluster,
        }
    }

    /// Splits a byte range into parts, in order, each with whether it was written; a part that was not reads as zeroes.
    /// Past the valid length, only the ranges in `done` were written.
    pub(crate) fn parts(&self, range: Range<u64>) -> SmallVec<[(Range<u64>, bool); 2]> {
        let mut parts = SmallVec::new();
        let mut at = range.start;
        while at < range.end {
            let valid = (at < self.valid).then_some(self.valid);
            let done = || self.done.iter().find(|done| done.contains(&at)).map(|done| done.end);
            let written = valid.or_else(done);
            let next = || self.done.iter().map(|done| done.start).filter(|start| *start > at).min();
            let stop = written.or_else(next).unwrap_or(range.end).min(range.end);
            debug_assert!(at < stop, "each part brings a read on");
            parts.push((at..stop, written.is_some()));
            at = stop;
        }
        parts
    }

    /// Notes that a range is written. The valid length grows over all ranges that are written without a gap before
    /// them.
    pub(crate) fn note_written(&mut self, mut range: Range<u64>) {
        self.planned = self.planned.max(range.end);
        // Ranges that touch become one, so that a read begins inside a sector only at the valid length.
        while let Some(index) =
            self.done.iter().position(|one| one.start <= range.end && range.start <= one.end)
        {
            let one = self.done.swap_remove(index);
            range = range.start.min(one.start)..range.end.max(one.end);
        }
        if range.start <= self.valid {
            self.valid = self.valid.max(range.end);
        } else {
            self.done.push(range);
        }
        while let Some(index) = self.done.iter().position(|range| range.start <= self.valid) {
            let range = self.done.swap_remove(index);
            self.valid = self.valid.max(range.end);
        }
        self.planned = self.planned.max(self.valid);
        #[cfg(debug_assertions)]
        self.check();
    }

    /// What holds after every write: the ranges written past the valid length touch neither it nor each other, and end
    /// where the writes that are planned do.
    #[cfg(any(test, debug_assertions))]
    fn check(&self) {
        assert!(self.valid <= self.planned, "what is written was planned");
        for (index, one) in self.done.iter().enumerate() {
            assert!(one.start < one.end, "a written range has bytes");
            assert!(self.valid < one.start, "a range that touches the valid length is part of it");
            assert!(one.end <= self.planned, "a written range was planned");
            let is_apart = |other: &Range<u64>| other.end < one.start || one.end < other.start;
            assert!(self.done[..index].iter().all(is_apart), "ranges that touch are one");
        }
    }
}

impl Stream {
    /// An open stream.
    pub(crate) fn new(node: u64, state: StreamState) -> Stream {
        Stream {
            node,
            state: RwLock::new(state),
            ranges: RangeLock::default(),
            exchanges: AtomicU64::new(0),
            read_only: AtomicBool::new(false),
            is_link: AtomicBool::new(false),
            written: AtomicU64::new(0),
            is_listed: AtomicBool::new(false),
            is_touched: AtomicBool::new(false),
            resized: Noted::default(),
        }
    }

    /// Locks the state for reading.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, StreamState, FILE> {
        self.state.read()
    }

    /// Locks the state for a change.
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, StreamState, FILE> {
        self.state.write()
    }

    /// Lets a plan into a range of the stream: see [`RangeLock::enter`].
    pub(crate) fn enter(
        &self,
        range: Range<u64>,
        access: Access,
        within: Option<&Claim<'_>>,
    ) -> Result<Pass> {
        self.ranges.enter(range, access, within)
    }

    /// Ends the pass of a plan.
    pub(crate) fn leave(&self, pass: Pass) {
        self.ranges.leave(pass);
    }

    /// Whether no plan is under way.
    pub(crate) fn is_quiet(&self) -> bool {
        self.ranges.is_quiet()
    }

    /// Waits until no range is claimed. The caller must hold no lock and have no plan under way on this stream.
    pub(crate) fn wait_free(&self) {
        self.ranges.wait_free();
    }

    /// Claims a range of the stream: see [`RangeLock::claim`].
    pub(crate) fn claim(&self, range: impl Fn(&StreamState) -> Range<u64>, waits_for: Access) -> Claim<'_> {
        self.ranges.claim(&self.state, range, waits_for)
    }

    /// Notes the time of a write.
    pub(crate) fn stamp(&self, now: u64) {
        self.written.store(now, Ordering::Release);
    }

    /// Returns the time of the last write and clears it, so that it is recorded once; 0 if there is none to record.
    pub(crate) fn take_stamp(&self) -> u64 {
        self.written.swap(0, Ordering::SeqCst)
    }

    /// Puts back a time from [`Stream::take_stamp`], unless the stream was written since.
    pub(crate) fn put_stamp_back(&self, stamp: u64) {
        let _ = self.written.compare_exchange(0, stamp, Ordering::SeqCst, Ordering::SeqCst);
    }
}
