//! The log of syncs: the changes that were made durable since the last commit without another commit, to be carried out
//! again after a power cut.
//!
//! A commit after a few scattered writes writes a page of runs for each of them. So a sync after which only file
//! content is new writes one *entry* to a file of the volume instead: where the changed clusters of which files are
//! now. The data is already in these clusters, which the last checkpoint counts as free, and stays there. An entry
//! belongs to the checkpoint whose clock it has, and entries are numbered from 0: the next commit makes them void, and
//! the next entry goes to the file's beginning.
//!
//! An entry of files with integrity has the checksums of the data, so reading it shows whether the data arrived.
//! Therefore it need not wait for the data: a planned sync writes its entry at the same time as the data, *beside*
//! these writes. There is never more than one such entry in flight, and no other follows until it and its data are
//! durable. So only for the last entry of the log the data must be verified.
//!
//! What an entry holds is described by [`layout::sync_entry`](crate::layout::sync_entry). The file is Platter's own
//! and no part of the format: other programs see the volume as of the last checkpoint. It
//! lies in the directory without a name in which the driver keeps files of its own (forefst
//! `docs/structures/directories.md`).

use crate::extents::Extent;
pub(crate) use crate::layout::sync_entry::{Purpose, UNIT, Written, begins, length, read, store};
use std::ops::Range;

/// The object number of the directory with the log's file.
pub(crate) const DIRECTORY: u64 = 0x520;
/// The name of the log's file.
pub(crate) const NAME: &str = "Platter Sync Log";

/// The most changes that wait for an entry; with more a commit is no more expensive.
const MOST_CHANGES: usize = 8192;

/// The log of an open volume.
pub(crate) struct SyncLog {
    /// The bytes of the device that the log takes.
    area: Range<u64>,
    /// The number of bytes filled with entries, and the number of the next entry.
    filled: u64,
    number: u64,
    /// The changes that are in no entry yet.
    pub changes: Vec<Change>,
    /// Whether some of these changes are of bytes that were written in place, past the former end of a file: their data
    /// must be durable before the entry is, or the file would show what its last cluster held before.
    pub needs_data: bool,
    /// The entry that is in flight at the same time as its data, if there is one.
    pub beside: Option<Beside>,
}

/// A change of a node's data: a new run, or `None` if only the time of the last write is new.
pub(crate) type Change = (u64, Option<Extent>);

/// An entry in flight at the same time as the writes of its data.
pub(crate) struct Beside {
    /// The clock of the checkpoint that the entry belongs to: once there is another checkpoint it is void.
    pub clock: u64,
    /// The number of writes that are not finished yet.
    pub left: usize,
    /// Whether one of the writes failed: then the entry describes data that is not on the device, and a commit must
    /// follow.
    pub is_wrong: bool,
}

impl SyncLog {
    /// An empty log with this place on the device.
    pub(crate) fn new(area: Range<u64>) -> SyncLog {
        debug_assert!(area.start <= area.end, "the log lies on the device");
        SyncLog {
            area,
            filled: 0,
            number: 0,
            changes: Vec::with_capacity(MOST_CHANGES),
            needs_data: false,
            beside: None,
        }
    }

    /// Notes the new runs of a node, or, without runs, a write in place. Returns `false`, and notes nothing, if there
    /// would be too many changes.
    pub(crate) fn note(&mut self, node: u64, runs: &[Extent]) -> bool {
        let fits = self.changes.len() + runs.len().max(1) <= MOST_CHANGES;
        match runs {
            _ if !fits => {}
            [] => self.changes.push((node, None)),
            runs => self.changes.extend(runs.iter().map(|run| (node, Some(*run)))),
        }
        fits
    }

    /// What holds whenever an entry was given a place or a commit made the entries void: entries begin and end at whole
    /// units inside the log's area, there are as many as were numbered, and one that is in flight beside its data is the
    /// last.
    fn check(&self) {
        let area = self.area.end - self.area.start;
        assert!(self.filled <= area && self.filled.is_multiple_of(UNIT as u64), "entries are inside the log");
        assert!((self.filled == 0) == (self.number == 0), "each entry has a number and a place");
        assert!(self.filled >= self.number * UNIT as u64, "no two entries share a unit");
        assert!(self.changes.len() <= MOST_CHANGES, "more changes than an entry is for are a commit's");
    }

    /// Empties the log after a commit, which has all changes.
    pub(crate) fn clear(&mut self) {
        self.changes.clear();
        self.needs_data = false;
        (self.filled, self.number) = (0, 0);
        self.check();
    }

    /// Returns the byte offset on the device and the number of the next entry, if there is room for it. There is no
    /// next entry while another is in flight beside its data: after a commit both could go to the same place.
    pub(crate) fn next(&mut self, length: usize) -> Option<(u64, u64)> {
        let (place, number) = (self.area.start + self.filled, self.number);
        debug_assert!(length > 0 && length.is_multiple_of(UNIT), "an entry takes whole units");
        (self.beside.is_none() && place + length as u64 <= self.area.end).then(|| {
            (self.filled, self.number) = (self.filled + length as u64, number + 1);
            self.check();
            (place, number)
        })
    }
}
