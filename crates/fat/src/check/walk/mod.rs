//! The walk over all directories and chains.
//!
//! The walk claims the clusters of every file and directory, reports what is wrong, and, in a repair, changes slots
//! and FAT entries in memory. Three kinds of change wait until the whole tree was walked, because only then is it
//! known which file each cluster belongs to: copying clusters that two files share, cutting chains, and freeing the
//! parts that were cut off.

mod bits;
mod content;
mod directory;
mod entry;

use super::table::Table;
use crate::layout::{Geometry, Link};
use bits::Late;
use platter_clusters::{Bits, Claims, Disk, Findings, MOST_CHANGES, SharedFinding, path_of};
use platter_vfs::{Name, Progress, Result, Severity};
use std::collections::BTreeSet;

/// A directory that the walk has reached.
pub(super) struct Dir {
    /// The index of its parent directory; the root is its own parent.
    pub parent: u32,
    /// Its first cluster; 0 for the fixed root directory.
    pub first: u32,
    /// The number of clusters found in its chain.
    pub count: u32,
    /// The device offset of its entry's slot; 0 for the root, which has none.
    pub slot: u64,
    /// Its name.
    pub name: Name,
    /// Whether its slots are not a sequence of whole entries.
    pub is_damaged: bool,
}

/// The clusters that a file shares with another.
pub(super) struct Shared {
    /// What leads to the shared clusters: the cluster before them, or the file's entry.
    pub from: Lead,
    /// The first shared cluster.
    pub first: u32,
    /// The number of clusters from `first` on that the file's size requires.
    pub count: u64,
    pub finding: SharedFinding,
}

/// The place where the number of a chain's next cluster is recorded.
#[derive(Clone, Copy)]
pub(super) enum Lead {
    /// The FAT entry of this cluster.
    Cluster(u32),
    /// The directory entry in the slot at this device offset.
    Entry(u64),
}

/// How a message describes a cluster in a chain whose FAT entry is 0.
const FREE: &str = "is marked free";

/// A walk and its results.
pub(super) struct Walk<'a, 'd> {
    pub disk: &'a mut Disk<'d>,
    pub geometry: &'a Geometry,
    pub table: &'a Table,
    pub findings: Findings<'a>,
    pub progress: &'a dyn Progress,
    /// The clusters that belong to a file or directory.
    pub claimed: Bits,
    pub dirs: Vec<Dir>,
    todo: Vec<u32>,
    /// The entries that are checked when all others are.
    late: Vec<Late>,
    /// The clusters to which the FAT entry of another leads.
    pointed: Bits,
    /// How many more steps along chains the search for wrong bits may take.
    steps: u64,
    /// Whether the volume was cleanly unmounted.
    is_closed: bool,
    /// First clusters that more than one entry names, or that lie inside another chain.
    pub contested: BTreeSet<u32>,
    /// The shared clusters to copy.
    pub shared: Vec<Shared>,
    /// FAT entries to change, with their new values, once the copies are made.
    pub cuts: Vec<(u32, u32)>,
    /// The first clusters of the parts that were cut off, and whether to free each part, unless another file has
    /// claimed it by then.
    pub tails: Vec<(u32, bool)>,
    /// The label in the root directory.
    pub label: Option<[u8; 11]>,
}

impl Claims for Walk<'_, '_> {
    fn link(&mut self, cluster: u32) -> Result<Link> {
        Ok(self.table.link(self.geometry, cluster))
    }

    fn is_claimed(&self, cluster: u32) -> bool {
        self.claimed.get(cluster)
    }

    fn claim(&mut self, cluster: u32) {
        self.claimed.set(cluster);
    }
}

impl<'a, 'd> Walk<'a, 'd> {
    pub(super) fn new(
        disk: &'a mut Disk<'d>,
        geometry: &'a Geometry,
        table: &'a Table,
        findings: Findings<'a>,
        progress: &'a dyn Progress,
        is_closed: bool,
    ) -> Walk<'a, 'd> {
        let mut pointed = Bits::new(geometry.clusters + 2);
        for cluster in 2..=geometry.last_cluster() {
            if let Link::Next(next) = table.link(geometry, cluster) {
                pointed.set(next);
            }
        }
        Walk {
            disk,
            geometry,
            table,
            findings,
            progress,
            claimed: Bits::new(geometry.clusters + 2),
            dirs: Vec::new(),
            todo: Vec::new(),
            late: Vec::new(),
            pointed,
            steps: u64::from(geometry.clusters) * 16 + (1 << 20),
            is_closed,
            contested: BTreeSet::new(),
            shared: Vec::new(),
            cuts: Vec::new(),
            tails: Vec::new(),
            label: None,
        }
    }

    /// Walks the whole tree.
    pub(super) fn run(&mut self) -> Result<()> {
        let root = Dir {
            parent: 0,
            first: self.geometry.root_cluster,
            count: 0,
            slot: 0,
            name: Name::from_units(&[]),
            is_damaged: false,
        };
        self.dirs.push(root);
        self.todo.push(0);
        if self.geometry.root_cluster != 0 {
            self.claimed.set(self.geometry.root_cluster);
        }
        self.go_on()
    }

    /// Walks the directories that were noted and not walked yet.
    pub(super) fn go_on(&mut self) -> Result<()> {
        let total = u64::from(self.geometry.clusters);
        loop {
            let Some(dir) = self.todo.pop() else {
                if self.late()? {
                    continue;
                }
                break;
            };
            self.directory(dir)?;
            self.findings.report.directories += 1;
            if self.findings.report.directories.is_multiple_of(64) {
                self.progress.step("checking directories", self.claimed.count(), total)?;
            }
        }
        self.progress.progress("checking directories", total, total);
        Ok(())
    }

    /// Returns the path of a directory, or of an entry in it.
    pub(super) fn path(&self, dir: u32, name: Option<&Name>) -> String {
        path_in(&self.dirs, dir, name)
    }

    /// Reports damage that a repair puts right. Returns whether this walk repairs it.
    pub(super) fn find(
        &mut self,
        code: &'static str,
        severity: Severity,
        path: Option<(u32, Option<&Name>)>,
        message: impl FnOnce() -> String,
    ) -> bool {
        let changes = self.disk.edits() + self.contested.len();
        let dirs = &self.dirs;
        let path = path.map(|(dir, name)| move || path_in(dirs, dir, name));
        self.findings.find(changes, code, severity, path, message)
    }

    /// Reports that a file shares clusters with another: `count` from `first` on, to which `from` leads. A repair copies
    /// them.
    pub(super) fn share(
        &mut self,
        (dir, name): (u32, &Name),
        (from, first, count): (Lead, u32, u64),
        message: impl FnOnce() -> String,
    ) {
        let changes = self.disk.edits() + self.contested.len();
        let path = || path_in(&self.dirs, dir, Some(name));
        let finding = self.findings.shares((changes, self.shared.len()), path, message);
        self.shared.extend(finding.map(|finding| Shared { from, first, count, finding }));
    }

    /// Reports how many clusters of a chain are beyond the end of a device that was cut off.
    fn find_end(&mut self, place: (u32, Option<&Name>), first: u32, count: u32) {
        if !self.disk.is_behind_end(self.disk.device().len(), 0) {
            return;
        }
        let size = u64::from(self.geometry.cluster_size);
        let (mut cluster, mut behind) = (first, 0);
        for _ in 0..count {
            behind += u32::from(self.disk.is_behind_end(self.geometry.cluster_offset(cluster), size));
            let Link::Next(next) = self.table.link(self.geometry, cluster) else { break };
            cluster = next;
        }
        if behind > 0 {
            let message = || format!("{behind} of its {count} clusters lie behind the end of the device");
            self.find("cut-off", Severity::DataLoss, Some(place), message);
        }
    }

    fn cut(&mut self, last: u32) {
        self.cuts.push((last, self.geometry.kind.end()));
    }

    fn contest(&mut self, start: u32) {
        if self.contested.len() < MOST_CHANGES {
            self.contested.insert(start);
        } else {
            self.findings.postponed = true;
        }
    }
}

/// Returns the path of a directory, or of an entry in it.
fn path_in(dirs: &[Dir], dir: u32, name: Option<&Name>) -> String {
    path_of(dir, name, |at| (dirs[at as usize].parent, &dirs[at as usize].name))
}
