//! The log: segments of 4 KiB in a ring, written in groups.
//!
//! A thread that needs its changes durable writes all changes collected so far as one group; threads that come
//! meanwhile wait for the next group. Each group begins with a new segment, so a segment with durable changes is never
//! written again: a power cut can tear only changes that no caller was told are durable.
//!
//! A position counts bytes of content: segment number N holds the content from position N times [`CONTENT`] on.

use super::change::Change;
use super::store::{Store, Whose};
use crate::{Error, Result};
use platter_device::Buffer;
use platter_device::sync::{Condvar, Mutex, MutexGuard};
use std::sync::atomic::{AtomicU64, Ordering};

/// The size of a segment in bytes: ESE's since Exchange 2013.
pub(super) const SEGMENT: usize = 4096;
const HEADER: usize = 32;

// A segment holds some content, and is whole sectors.
const _: () = assert!(HEADER < SEGMENT && SEGMENT.is_multiple_of(4096));

/// Bytes of a segment that are content.
pub(super) const CONTENT: u64 = (SEGMENT - HEADER) as u64;
/// The number of segments that a replay reads at once.
const READ: u64 = 64;

struct LogState {
    /// The changes for the next group, which are not being written yet.
    group: Vec<u8>,
    /// The position of the beginning of that group.
    start: u64,
    /// All changes before this position are durable.
    durable: u64,
    is_writing: bool,
    failure: Option<String>,
}

/// The log of one database.
pub(super) struct Log {
    pub store: Store,
    stamp: u64,
    /// The number of segments in the ring.
    segments: u64,
    /// No change before this position is needed for a replay.
    needed: AtomicU64,
    state: Mutex<LogState>,
    changed: Condvar,
}

impl Log {
    /// Makes a log that continues with segment number `first`.
    pub(super) fn new(store: Store, stamp: u64, segments: u64, first: u64) -> Log {
        let start = first * CONTENT;
        let state = LogState { group: Vec::new(), start, durable: start, is_writing: false, failure: None };
        let needed = AtomicU64::new(start);
        Log { store, stamp, segments, needed, state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, LogState> {
        self.state.lock()
    }

    /// Continues with segment number `first`, after a replay.
    pub(super) fn go_on(&mut self, first: u64) {
        let state = self.state.get_mut();
        (state.start, state.durable) = (first * CONTENT, first * CONTENT);
        *self.needed.get_mut() = first * CONTENT;
    }

    /// Appends a change; returns the positions of its beginning and its end.
    pub(super) fn append(&self, change: &Change) -> (u64, u64) {
        let bytes = change.encode();
        let mut state = self.lock();
        let begin = state.start + state.group.len() as u64;
        state.group.extend_from_slice(&bytes);
        (begin, begin + bytes.len() as u64)
    }

    /// The position of the next change.
    pub(super) fn end(&self) -> u64 {
        let state = self.lock();
        state.start + state.group.len() as u64
    }

    /// The bytes of content that a replay would read.
    pub(super) fn depth(&self) -> u64 {
        self.end().saturating_sub(self.needed.load(Ordering::Acquire))
    }

    /// Notes that no change before this position is needed any more, so that its segments may be reused.
    pub(super) fn forget(&self, before: u64) {
        self.needed.fetch_max(before, Ordering::AcqRel);
    }

    /// Whether the log is so full that changes have to wait for a checkpoint.
    pub(super) fn is_crowded(&self) -> bool {
        self.depth() > self.segments * CONTENT / 2
    }

    /// Returns when everything before a position is durable.
    pub(super) fn flush(&self, position: u64) -> Result<()> {
        let mut state = self.lock();
        loop {
            if let Some(failure) = &state.failure {
                return Err(Error::Job(format!("the log has failed: {failure}")));
            }
            if state.durable >= position {
                return Ok(());
            }
            if !state.is_writing {
                break;
            }
            state = self.changed.wait(state);
        }
        let group = std::mem::take(&mut state.group);
        let start = state.start;
        state.start = (start + group.len() as u64).next_multiple_of(CONTENT);
        let next = state.start;
        state.is_writing = true;
        drop(state);
        let written = self.write(&group, start);
        let mut state = self.lock();
        state.is_writing = false;
        match &written {
            Ok(()) => state.durable = next,
            Err(error) => state.failure = Some(error.to_string()),
        }
        self.changed.notify_all();
        drop(state);
        written
    }

    fn write(&self, group: &[u8], start: u64) -> Result<()> {
        if group.is_empty() {
            return Ok(());
        }
        let first = start / CONTENT;
        let count = (group.len() as u64).div_ceil(CONTENT);
        let oldest = self.needed.load(Ordering::Acquire) / CONTENT;
        if first + count > oldest + self.segments {
            return Err(Error::Job("the log is full of what a checkpoint has not written yet".into()));
        }
        let mut bytes = Buffer::new(count as usize * SEGMENT);
        bytes.fill(0);
        for (index, content) in group.chunks(CONTENT as usize).enumerate() {
            let segment = &mut bytes[index * SEGMENT..(index + 1) * SEGMENT];
            segment[4..8].copy_from_slice(&(content.len() as u32).to_le_bytes());
            segment[8..16].copy_from_slice(&(first + index as u64).to_le_bytes());
            segment[16..24].copy_from_slice(&self.stamp.to_le_bytes());
            segment[HEADER..HEADER + content.len()].copy_from_slice(content);
            let sum = crc32fast::hash(&segment[4..]);
            segment[..4].copy_from_slice(&sum.to_le_bytes());
        }
        let place = first % self.segments;
        let before_end = (self.segments - place).min(count) as usize * SEGMENT;
        self.store.write(place * SEGMENT as u64, &bytes[..before_end])?;
        if before_end < bytes.len() {
            self.store.write(0, &bytes[before_end..])?;
        }
        Ok(())
    }

    /// Passes every change from a position on to `take`, with the positions of its beginning and its end; returns the
    /// number of the first segment without valid content.
    pub(super) fn replay(
        &self,
        from: u64,
        take: &mut dyn FnMut(u64, u64, Change) -> Result<()>,
    ) -> Result<u64> {
        let mut number = from / CONTENT;
        let mut skip = (from % CONTENT) as usize;
        let last = number + self.segments;
        // The content that is not decoded yet, and the position of its beginning.
        let (mut content, mut begin) = (Vec::new(), from);
        let mut bytes = Buffer::new(READ as usize * SEGMENT);
        'all: while number < last {
            let place = number % self.segments;
            let count = READ.min(self.segments - place);
            let read = &mut bytes[..count as usize * SEGMENT];
            self.store.read(place * SEGMENT as u64, read, Whose::Work)?;
            for segment in read.chunks(SEGMENT) {
                let Some(used) = self.used(segment, number) else { break 'all };
                content.extend_from_slice(segment.get(HEADER + skip..HEADER + used).unwrap_or_default());
                skip = 0;
                number += 1;
                let mut at = 0;
                while let Some((change, length)) = Change::decode(&content[at..]) {
                    let position = begin + at as u64;
                    take(position, position + length as u64, change)?;
                    at += length;
                }
                content.drain(..at);
                begin += at as u64;
                if used < CONTENT as usize {
                    // A segment that is not full ends a group; a change that is incomplete there was torn, and is
                    // dropped.
                    content.clear();
                    begin = number * CONTENT;
                }
            }
        }
        Ok(number)
    }

    /// Returns the number of bytes of content if this is the intact segment of this number.
    fn used(&self, segment: &[u8], number: u64) -> Option<usize> {
        let long = |at: usize| u64::from_le_bytes(segment[at..at + 8].try_into().expect("eight bytes"));
        let word = |at: usize| u32::from_le_bytes(segment[at..at + 4].try_into().expect("four bytes"));
        let used = word(4) as usize;
        let is_it = long(8) == number && long(16) == self.stamp && used as u64 <= CONTENT;
        (is_it && crc32fast::hash(&segment[4..]) == word(0)).then_some(used)
    }
}
