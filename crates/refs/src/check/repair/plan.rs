//! The input of a repair.

use crate::check::anchors::Anchors;
use crate::check::noted::Repair;
use crate::container::{Container, Tier};
use crate::geometry::Geometry;
use crate::layout::{Root, ShareRow};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// The directory above each directory, and its name there.
pub(super) type Names = HashMap<u64, (u64, Box<[u16]>)>;

/// Everything that a repair needs: the repairs that were noted, and the state of the volume as the check found it.
pub(super) struct RepairPlan {
    pub repair: Repair,
    pub anchors: Anchors,
    pub geometry: Geometry,
    pub reached: Names,
    pub orphans: Names,
    /// Trees of which a part cannot be read: they are left alone.
    pub damaged: HashSet<u64>,
    /// The current time, since 1970.
    pub now: Duration,
    /// Some clusters belong to several files although the table of reference counts does not have them as shared.
    pub is_crossed: bool,
    /// The table of reference counts has rows.
    pub is_shared: bool,
    /// The rows of the table of reference counts, if they are known.
    pub shares: Option<Vec<ShareRow>>,
    /// A part of a directory is lost.
    pub is_directory_lost: bool,
    /// The first real cluster of each container.
    pub starts: Vec<u64>,
    /// The containers, with their tiers and the clusters in use.
    pub containers: Vec<Container>,
    /// The volume's upper-case table.
    pub upper: Arc<[u16]>,
}

/// Which allocator a root's pages come from.
pub(super) fn tier(root: Root) -> Tier {
    match root {
        root if root.is_real() => Tier::Small,
        Root::MediumAllocator | Root::ContainerAllocator => Tier::Container,
        _ => Tier::Medium,
    }
}
