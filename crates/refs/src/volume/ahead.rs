//! What a plan remembers of its prereads.

use crate::extents::{Extent, Extents, Mapping};
use crate::layout::PageReference;
use platter_device::Buffer;
use platter_vfs::{Plan, Result};
use smallvec::SmallVec;
use std::ops::Range;

/// After so many prereads for one request that came too late, the volume reads with the stream locked.
const MOST_TRIES: u8 = 3;

/// What a plan has asked the device for, and what it got.
#[derive(Default)]
pub(super) struct Ahead {
    pub(super) asked: Asked,
    /// The clusters that were read.
    pub(super) around: Option<Around>,
    /// Whether the volume has to read by itself: a preread failed, or was in vain too often.
    is_over: bool,
    tries: u8,
    /// A buffer for the next preread.
    spare: Option<Buffer>,
}

#[derive(Default)]
pub(super) enum Asked {
    #[default]
    Nothing,
    /// Pages, each with the first cluster of the stream of which it holds the rows.
    Pages(SmallVec<[(u32, PageReference); 2]>),
    Clusters(Rows),
}

/// Rows of a stream, by which it is seen later whether its clusters are still the same.
pub(super) struct Rows {
    /// The parts of the stream, in clusters.
    pub(super) parts: SmallVec<[Range<u32>; 2]>,
    rows: SmallVec<[Extent; 2]>,
    /// The cluster of the stream with which the content begins.
    first: u32,
}

/// Whole clusters around a request.
pub(super) struct Around {
    pub(super) rows: Rows,
    /// The content of all clusters of the request. Those that were not asked for hold anything.
    pub(super) content: Buffer,
}

impl Rows {
    pub(super) fn of(extents: &Extents, first: u32, parts: SmallVec<[Range<u32>; 2]>) -> Result<Rows> {
        let mut rows = SmallVec::new();
        for part in &parts {
            extents.walk(part.start, part.end, |piece| {
                rows.extend(piece.run);
                Ok(())
            })?;
        }
        Ok(Rows { parts, rows, first })
    }

    /// Whether the parts have only holes.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The place of each row's clusters in the content, in bytes.
    pub(super) fn places(&self, cluster: u32) -> impl Iterator<Item = (&Extent, Range<usize>)> {
        self.rows.iter().map(move |row| {
            let at = ((row.at - self.first) * cluster) as usize;
            (row, at..at + (row.count * cluster) as usize)
        })
    }

    /// Whether the stream still has these rows. The rows of the parts must be loaded.
    pub(super) fn are_in(&self, extents: &Extents) -> bool {
        let mut known = self.rows.iter();
        for part in &self.parts {
            let mut at = part.start;
            while at < part.end {
                at = match extents.find(at) {
                    Mapping::Extent(run) => {
                        let run = run.part(at, run.end().min(part.end));
                        if known.next() != Some(&run) {
                            return false;
                        }
                        run.end()
                    }
                    Mapping::Hole(end) => end,
                    Mapping::Absent(_) => return false,
                };
            }
        }
        known.next().is_none()
    }
}

impl Ahead {
    /// Begins a new request.
    pub(super) fn begin(&mut self) {
        (self.tries, self.is_over) = (0, false);
    }

    /// Notes that a preread has ended, and whether it was of use.
    pub(super) fn note(&mut self, is_good: bool) {
        self.tries += 1;
        self.is_over = !is_good || self.tries >= MOST_TRIES;
    }

    /// Whether clusters may be asked for.
    pub(super) fn is_open(&self, plan: &Plan) -> bool {
        plan.prereads && !self.is_over
    }

    /// Takes the clusters that were read, if they are of these parts and the stream still has them.
    pub(super) fn take(&mut self, extents: &Extents, parts: &[Range<u32>]) -> Option<Around> {
        let is_it = |around: &mut Around| around.rows.parts[..] == *parts && around.rows.are_in(extents);
        self.around.take_if(is_it)
    }

    /// Keeps a buffer for the next preread.
    pub(super) fn keep(&mut self, buffer: Option<Buffer>) {
        self.spare = buffer.or(self.spare.take());
    }

    /// Puts back clusters that were taken and are still to be used.
    pub(super) fn put_back(&mut self, around: Around) {
        self.around = Some(around);
    }

    pub(super) fn buffer(&mut self, length: usize) -> Buffer {
        self.spare.take().filter(|buffer| buffer.len() == length).unwrap_or_else(|| Buffer::new(length))
    }
}
