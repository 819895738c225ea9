//! What a volume knows in memory of clusters that several streams have.

use crate::layout::ShareRow;
use std::collections::{BTreeSet, HashMap};

/// What a volume keeps in memory of the clusters that several streams share, and of the table in which their counts stand.
#[derive(Default)]
pub struct Shares {
    /// Whether the table has rows.
    pub any: bool,
    /// Rows that were looked at since the last commit, by first cluster.
    pub rows: HashMap<u64, ShareRow>,
    /// Which of them the table has yet to be told of.
    pub changed: BTreeSet<u64>,
    /// Clusters of files without a name that others have, or had.
    pub pins: HashMap<u64, Pin>,
    /// Clusters that have one owner now and had several, since the last commit was gathered. On disk the others still have
    /// them, so they are not overwritten before a commit that says otherwise is there.
    pub lately: BTreeSet<u64>,
    /// The same of what that commit gathered.
    pub leaving: BTreeSet<u64>,
}

/// Clusters that a file without a name holds.
pub struct Pin {
    /// How many such files.
    pub count: u32,
    /// Nothing on disk refers to it any more.
    pub is_last: bool,
}

impl Shares {
    /// A commit has been gathered. Forgets rows, which bounds memory: they are in the table as they are.
    pub fn forget(&mut self) {
        debug_assert!(self.changed.is_empty());
        self.rows.clear();
        self.leaving.append(&mut self.lately);
    }

    /// The commit that was gathered last is on disk.
    pub fn settle(&mut self) {
        self.leaving.clear();
    }

    /// Whether no cluster is shared.
    pub fn is_trivial(&self) -> bool {
        !self.any && self.pins.is_empty()
    }
}
