//! The state in memory of clusters that several streams share.

use crate::layout::ShareRow;
use std::collections::{BTreeSet, HashMap};

/// The state in memory of clusters that several streams share, and of the table with their counts.
#[derive(Default)]
pub(crate) struct Shares {
    /// Whether the table has rows.
    pub any: bool,
    /// The rows that were read or changed since the last commit, by first cluster.
    pub rows: HashMap<u64, ShareRow>,
    /// The first clusters of changed rows that are not in the table yet.
    pub changed: BTreeSet<u64>,
    /// Clusters of files without a name that were shared with other streams.
    pub pins: HashMap<u64, Pin>,
    /// Clusters that had several owners and have one now, since the last commit was gathered. On disk the other owners
    /// still refer to them, so they are not overwritten before a commit without these is durable.
    pub lately: BTreeSet<u64>,
    /// Such clusters of the time before the last commit was gathered, until that commit is on disk.
    pub leaving: BTreeSet<u64>,
}

/// A cluster that files without a name keep in use.
pub(crate) struct Pin {
    /// The number of such files.
    pub count: u32,
    /// Whether nothing on disk refers to the cluster any more.
    pub is_last: bool,
}

impl Shares {
    /// Called when a commit has been gathered. Drops the rows in memory, to bound memory: the table has them.
    pub(crate) fn forget(&mut self) {
        debug_assert!(self.changed.is_empty());
        self.rows.clear();
        self.leaving.append(&mut self.lately);
    }

    /// Called when the commit that was gathered last is on disk.
    pub(crate) fn settle(&mut self) {
        self.leaving.clear();
    }

    /// Whether no cluster is shared.
    pub(crate) fn is_trivial(&self) -> bool {
        !self.any && self.pins.is_empty()
    }
}
