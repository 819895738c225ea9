//! What changed since the last commit, and how many pages storing it takes at most.

use std::collections::{BTreeMap, BTreeSet};

/// Pages that putting a row takes at most: the leaf as a copy and as two, and as many above it. What is higher is
/// shared by all rows, and in [`Changed::ALWAYS`].
const FOR_A_ROW: u64 = 4;
/// Pages that an object takes whose tree has a new root: a row in the table of objects and in its copy.
const FOR_AN_OBJECT: u64 = 2 * FOR_A_ROW;

/// Nodes and objects that changed.
#[derive(Default)]
pub struct Changed {
    nodes: BTreeMap<u64, u64>,
    rows: u64,
    objects: BTreeSet<u64>,
}

impl Changed {
    /// Pages that a commit takes whatever changed: the ways down from the roots of some trees.
    const ALWAYS: u64 = 32;

    /// Notes a node that has so many rows.
    pub fn node(&mut self, node: u64, rows: u64) {
        self.rows += rows;
        self.rows -= self.nodes.insert(node, rows).unwrap_or(0);
    }

    /// Whether a node is noted.
    pub fn has(&self, node: u64) -> bool {
        self.nodes.contains_key(&node)
    }

    /// A node need not be stored any more.
    pub fn forget(&mut self, node: u64) {
        self.rows -= self.nodes.remove(&node).unwrap_or(0);
    }

    /// Takes the nodes to store them.
    pub fn take_nodes(&mut self) -> Vec<u64> {
        self.rows = 0;
        std::mem::take(&mut self.nodes).into_keys().collect()
    }

    /// Notes an object.
    pub fn object(&mut self, number: u64) {
        self.objects.insert(number);
    }

    /// An object is gone.
    pub fn forget_object(&mut self, number: u64) {
        self.objects.remove(&number);
    }

    /// An object to be stored.
    pub fn first_object(&self) -> Option<u64> {
        self.objects.first().copied()
    }

    /// Pages that storing all of it takes at most.
    pub fn pages(&self) -> u64 {
        Changed::ALWAYS + Changed::of_rows(self.rows) + FOR_AN_OBJECT * self.objects.len() as u64
    }

    /// Pages that so many more rows take, each of which may be in an object of its own.
    pub fn of_rows(rows: u64) -> u64 {
        FOR_A_ROW * rows
    }
}
