//! What callers did to the files they share, and what they saw.

use super::moment::Moment;
use super::names::NameCall;
use std::ops::Range;

/// What one call did to one file, or saw of it.
#[derive(Clone, Debug)]
pub enum Action {
    /// Filled the range with bytes that nobody else writes.
    Write(Range<u64>, u8),
    /// Gave the file another size.
    Resize(u64),
    /// Made the range a hole.
    Punch(Range<u64>),
    /// Made the file at least so long.
    Extend(u64),
    /// Made the range what it is in the other file.
    Clone(Range<u64>, usize),
    /// Saw this content from an offset on, of so many bytes that were asked for.
    Read(u64, u64, Vec<u8>),
    /// Saw this size.
    Size(u64),
}

/// A call.
#[derive(Clone, Debug)]
pub struct Call {
    /// Which caller's.
    pub caller: usize,
    /// The file.
    pub file: usize,
    /// What it did.
    pub action: Action,
    /// When it began and returned.
    pub began: Moment,
    /// See `began`.
    pub returned: Moment,
    /// It failed, so it may have been done or not.
    pub failed: bool,
    /// A write that was planned.
    pub planned: bool,
    /// A write that survives by itself from this moment on, without a sync: after how many writes of the device.
    pub durable: Option<usize>,
}

/// A sync that returned without an error.
#[derive(Clone, Copy, Debug)]
pub struct Sync {
    /// The file; all of them if none.
    pub file: Option<usize>,
    /// When it began and returned.
    pub began: Moment,
    /// See `began`.
    pub returned: Moment,
}

/// A run.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Calls, in the order in which they returned.
    pub calls: Vec<Call>,
    /// Calls on names that all share.
    pub names: Vec<NameCall>,
    /// Files of those names, held to the end.
    pub held: Vec<platter_vfs::Node>,
    /// Syncs.
    pub syncs: Vec<Sync>,
    /// Files whose name was taken away: when that began and returned, and whether it was done for certain.
    pub removals: Vec<(usize, Moment, Moment, bool)>,
    /// A caller unmounted the volume: some formats give up then what has no name any more.
    pub unmounts: bool,
    /// After how many writes a copy of the device was made.
    pub looks: Vec<usize>,
    /// After how many writes of the device a caller first heard that one of its transfers failed.
    pub failed_at: Option<usize>,
    /// Moments so far.
    pub ticks: u64,
    /// A copy of a mirror failed, and the other one answered: writes that met while they were under way may have reached that
    /// in another order, and be seen once more until the last of them has returned.
    pub copy_failed: bool,
    /// What is wrong whatever the order: errors where none is due.
    pub faults: Vec<String>,
}

impl History {
    /// Before which tick calls have begun and returned that a sync covers which had returned before a write: a sync of
    /// all, or of this file too.
    pub fn covered(&self, file: Option<usize>, write: usize) -> u64 {
        let counts =
            |sync: &&Sync| sync.returned.writes <= write && (sync.file.is_none() || sync.file == file);
        self.syncs.iter().filter(counts).map(|sync| sync.began.tick).max().unwrap_or(0)
    }

    /// After how many writes of the device a sync or a durable write returned.
    pub fn promised(&self) -> Vec<usize> {
        let syncs = self.syncs.iter().map(|sync| sync.returned.writes);
        syncs.chain(self.calls.iter().filter_map(|call| call.durable)).collect()
    }

    /// The first of these after a transfer failed.
    pub fn promised_in_spite(&self) -> Option<usize> {
        let failed_at = self.failed_at?;
        self.promised().into_iter().filter(|&promised| promised >= failed_at).min()
    }

    /// Whether the file had lost its name before this tick.
    pub fn is_removed(&self, file: usize, before: u64) -> bool {
        self.removals
            .iter()
            .any(|(removed, _, returned, done)| *removed == file && *done && returned.tick < before)
    }

    /// Whether the file may have lost its name when a write was made.
    pub fn may_be_removed(&self, file: usize, write: usize) -> bool {
        self.removals.iter().any(|(removed, began, ..)| *removed == file && began.writes <= write)
    }

    /// Lets each planned write have happened or not, for where transfers fail: one that was followed by one that failed need
    /// not survive.
    pub fn doubt_planned(&mut self) {
        for call in self.calls.iter_mut().filter(|call| call.planned && call.durable.is_none()) {
            call.failed = true;
        }
    }
}
