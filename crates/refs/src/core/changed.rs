//! The nodes and objects that changed since the last commit, and the most pages that storing them takes.

use std::collections::{BTreeMap, BTreeSet};

/// The most pages that putting a row into a tree takes: two for the leaf, which may be split, and two for the page
/// above. Pages above those are shared by all rows, and counted in [`Changed::ALWAYS`].
const FOR_A_ROW: u64 = 4;
/// The most pages that a changed object takes: a row in the object table and one in its copy.
const FOR_AN_OBJECT: u64 = 2 * FOR_A_ROW;

/// The nodes and objects that changed since the last commit.
#[derive(Default)]
pub(super) struct Changed {
    nodes: BTreeMap<u64, u64>,
    rows: u64,
    objects: BTreeSet<u64>,
}

impl Changed {
    /// The pages that every commit takes: those near the roots of some trees.
    const ALWAYS: u64 = 32;

    /// Notes a node that takes this many rows to store.
    pub(super) fn node(&mut self, node: u64, rows: u64) {
        self.rows += rows;
        self.rows -= self.nodes.insert(node, rows).unwrap_or(0);
        debug_assert!(self.rows >= rows, "the rows of a node are among all");
    }

    /// Whether a node is to be stored.
    pub(super) fn has(&self, node: u64) -> bool {
        self.nodes.contains_key(&node)
    }

    /// Returns how many nodes are to be stored.
    pub(super) fn count(&self) -> usize {
        self.nodes.len()
    }

    /// Drops a node that no longer needs storing.
    pub(super) fn forget(&mut self, node: u64) {
        self.rows -= self.nodes.remove(&node).unwrap_or(0);
    }

    /// Returns the nodes to be stored, and begins again without any.
    pub(super) fn take_nodes(&mut self) -> Vec<u64> {
        self.rows = 0;
        std::mem::take(&mut self.nodes).into_keys().collect()
    }

    /// Notes an object to be stored.
    pub(super) fn object(&mut self, number: u64) {
        self.objects.insert(number);
    }

    /// Drops an object that was removed or is stored.
    pub(super) fn forget_object(&mut self, number: u64) {
        self.objects.remove(&number);
    }

    /// The first of the objects to be stored.
    pub(super) fn first_object(&self) -> Option<u64> {
        self.objects.first().copied()
    }

    /// The most pages that storing all nodes and objects takes.
    pub(super) fn pages(&self) -> u64 {
        Changed::ALWAYS + Changed::of_rows(self.rows) + FOR_AN_OBJECT * self.objects.len() as u64
    }

    /// The most pages that this many more rows take, each of which may be in an object of its own.
    pub(super) fn of_rows(rows: u64) -> u64 {
        FOR_A_ROW * rows
    }
}
