//! The record of what callers did to the shared files, and what they saw.

use super::moment::Moment;
use super::names::NameCall;
use std::ops::Range;

/// What one call did to a file, or saw of it.
#[derive(Clone, Debug)]
pub(super) enum Action {
    /// Filled the range with a byte value that no other write uses.
    Write(Range<u64>, u8),
    /// Set the size.
    Resize(u64),
    /// Made the range a hole.
    Punch(Range<u64>),
    /// Extended the file to at least this size.
    Extend(u64),
    /// Cloned the range from this other file, at the same offset.
    Clone(Range<u64>, usize),
    /// Read from this offset, asked for this many bytes, and got this content.
    Read(u64, u64, Vec<u8>),
    /// Saw this size.
    Size(u64),
}

/// A call with its times and outcome.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// The number of the caller.
    pub caller: usize,
    /// The file.
    pub file: usize,
    /// What the call did or saw.
    pub action: Action,
    /// The moment when the call began.
    pub began: Moment,
    /// The moment when the call returned.
    pub returned: Moment,
    /// Whether the call failed, so that its effect may have happened or not.
    pub failed: bool,
    /// Whether the call was a planned write.
    pub planned: bool,
    /// For a write that is durable without a sync: the number of writes of the device after which it is.
    pub durable: Option<usize>,
}

/// A sync that returned without an error.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sync {
    /// The file; all files if `None`.
    pub file: Option<usize>,
    /// The moment when the sync began.
    pub began: Moment,
    /// The moment when the sync returned.
    pub returned: Moment,
}

/// The history of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    /// The calls, in the order in which they returned.
    pub calls: Vec<Call>,
    /// The calls on shared names.
    pub names: Vec<NameCall>,
    /// The nodes of files with shared names, held to the end.
    pub held: Vec<platter_vfs::Node>,
    /// The syncs that returned without an error.
    pub syncs: Vec<Sync>,
    /// The files whose name was removed: when the removal began and returned, and whether it succeeded.
    pub removals: Vec<(usize, Moment, Moment, bool)>,
    /// Whether a caller unmounted the volume; some formats then free files without a name.
    pub unmounts: bool,
    /// The numbers of writes after which a copy of the device was made.
    pub looks: Vec<usize>,
    /// The number of writes of the device after which a caller first got an error of a transfer.
    pub failed_at: Option<usize>,
    /// The number of moments so far.
    pub ticks: u64,
    /// Whether a copy of a mirror failed and the other one answered. Overlapping writes in flight at that time may have
    /// reached the other copy in a different order, so a write may become visible once more until the last of them has
    /// returned; and a write under way that was read from the copy that failed may not have reached the other one yet.
    pub copy_failed: bool,
    /// Faults that no order of the calls can explain, such as unexpected errors.
    pub faults: Vec<String>,
}

impl History {
    /// Returns the tick at which the latest sync of the volume or of this file began, among the syncs that had returned
    /// before device write number `write`: it covers all calls that returned before that tick. 0 if there is no such
    /// sync.
    pub(super) fn covered(&self, file: Option<usize>, write: usize) -> u64 {
        let counts =
            |sync: &&Sync| sync.returned.writes <= write && (sync.file.is_none() || sync.file == file);
        self.syncs.iter().filter(counts).map(|sync| sync.began.tick).max().unwrap_or(0)
    }

    /// The numbers of device writes after which a sync or a durable write returned.
    pub(super) fn promised(&self) -> Vec<usize> {
        let syncs = self.syncs.iter().map(|sync| sync.returned.writes);
        syncs.chain(self.calls.iter().filter_map(|call| call.durable)).collect()
    }

    /// The first of the [`History::promised`] numbers after a transfer failed.
    pub(super) fn promised_in_spite(&self) -> Option<usize> {
        let failed_at = self.failed_at?;
        self.promised().into_iter().filter(|&promised| promised >= failed_at).min()
    }

    /// Whether the file had certainly lost its name before this tick.
    pub(super) fn is_removed(&self, file: usize, before: u64) -> bool {
        self.removals
            .iter()
            .any(|(removed, _, returned, done)| *removed == file && *done && returned.tick < before)
    }

    /// Whether the file may have lost its name when device write number `write` was made.
    pub(super) fn may_be_removed(&self, file: usize, write: usize) -> bool {
        self.removals.iter().any(|(removed, began, ..)| *removed == file && began.writes <= write)
    }

    /// Marks each planned write that is not durable as uncertain, for runs in which transfers fail: such a write need
    /// not survive if one before it fails.
    pub(super) fn doubt_planned(&mut self) {
        for call in self.calls.iter_mut().filter(|call| call.planned && call.durable.is_none()) {
            call.failed = true;
        }
    }
}
