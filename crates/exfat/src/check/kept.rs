//! Clusters that several files share and that no copy has room for: what a repair leaves as it is.
//!
//! A directory with such clusters is not changed, nor is a chain cut in one of them: the other file would lose what it has
//! there. Whether there is room is known only after the walk, so a walk that notes changes and then finds none is
//! thrown away, and begun anew with the clusters that are kept.

use std::collections::BTreeSet;

/// The most clusters that are remembered. With more of them nothing of the volume's directories is changed.
const MOST: usize = 1 << 20;

/// The clusters that a repair keeps.
#[derive(Default)]
pub(super) struct Kept {
    clusters: BTreeSet<u32>,
    are_all: bool,
}

impl Kept {
    /// Adds clusters. Returns whether one of them was not kept before.
    pub(super) fn add(&mut self, clusters: impl IntoIterator<Item = u32>) -> bool {
        let mut is_new = false;
        for cluster in clusters {
            if self.are_all {
                break;
            }
            is_new |= self.clusters.insert(cluster);
            self.are_all = self.clusters.len() > MOST;
        }
        is_new
    }

    /// Whether a cluster is kept.
    pub(super) fn has(&self, cluster: u32) -> bool {
        self.are_all || self.clusters.contains(&cluster)
    }

    /// Whether none is.
    pub(super) fn is_empty(&self) -> bool {
        self.clusters.is_empty()
    }
}
