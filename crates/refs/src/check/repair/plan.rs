//! What the changes of a repair go by.

use crate::check::anchors::Anchors;
use crate::check::noted::Repair;
use crate::container::{Container, Tier};
use crate::geometry::Geometry;
use crate::layout::{Root, ShareRow};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// Where the names of directories are.
pub type Names = HashMap<u64, (u64, Box<[u16]>)>;

/// What the changes go by: all that the check found out.
pub struct RepairPlan {
    pub repair: Repair,
    pub anchors: Anchors,
    pub geometry: Geometry,
    pub reached: Names,
    pub orphans: Names,
    /// Trees of which a part cannot be read: they are left alone.
    pub damaged: HashSet<u64>,
    /// The time.
    pub now: Duration,
    /// Clusters belong to several files.
    pub is_crossed: bool,
    /// The table of reference counts has rows.
    pub is_shared: bool,
    /// The rows of the table of reference counts, if they are known.
    pub shares: Option<Vec<ShareRow>>,
    /// A part of a directory is lost.
    pub is_directory_lost: bool,
    /// Where containers start, and what is free of each.
    pub starts: Vec<u64>,
    pub containers: Vec<Container>,
    /// The upper case of all units.
    pub upper: Arc<[u16]>,
}

/// Which allocator a root's pages come from.
pub fn tier(root: Root) -> Tier {
    match root {
        root if root.is_real() => Tier::Small,
        Root::MediumAllocator | Root::ContainerAllocator => Tier::Container,
        _ => Tier::Medium,
    }
}
