//! The walk over all directories and what lies in them.
//!
//! It claims every cluster that a file or directory has a right to, notes what is wrong, and, when it may repair,
//! changes slots and FAT entries in memory. Copies of clusters that two files share wait until the whole tree was
//! seen, because only then is it known whose a cluster is.

mod content;
mod directory;
mod set;

use super::clusters::Clusters;
use super::listing::Listing;
use super::names::Names;
use super::system::System;
use crate::layout::{EntrySet, FileInfo, LARGEST_DIRECTORY, Upcase};
use platter_clusters::{Claims, Disk, Findings, MOST_CHANGES, Stop, claim_chain, is_inside, path_of};
use platter_vfs::{Name, Progress, Result, Severity};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A directory that was reached.
pub struct Dir {
    /// The directory that holds it, as an index; the root's is the root.
    pub parent: u32,
    /// Its first cluster; 0 if it has none.
    pub first: u32,
    /// How many clusters it was found to have, and whether they lie together.
    pub count: u32,
    pub contiguous: bool,
    /// Its name.
    pub name: Name,
    /// Slots of it are not what one entry after the other leaves.
    pub is_damaged: bool,
}

/// A file or directory whose clusters are partly another's, or all of which are.
pub struct Shared {
    /// Device offsets of its first two slots.
    pub slots: [u64; 2],
    pub set: EntrySet,
    /// How many of its clusters are its own.
    pub own: u32,
}

/// What 0 in the FAT means of a cluster in a chain: which clusters are free the bitmap says.
const FREE: &str = "has the FAT entry 0";

/// A walk and what it found.
pub struct Walk<'a, 'd> {
    pub disk: &'a mut Disk<'d>,
    pub clusters: &'a mut Clusters<'d>,
    pub findings: Findings<'a>,
    pub progress: &'a dyn Progress,
    pub upcase: Arc<Upcase>,
    pub system: System,
    pub dirs: Vec<Dir>,
    todo: Vec<u32>,
    /// First clusters that more than one entry names, or that lie inside another's.
    pub contested: BTreeSet<u32>,
    /// What is to be copied.
    pub shared: Vec<Shared>,
    /// Clusters that are to end their chains, when the copies are made.
    pub cuts: Vec<u32>,
    /// Whether something was not looked into until another thing is settled.
    pub unsettled: bool,
}

impl<'a, 'd> Walk<'a, 'd> {
    #[allow(clippy::too_many_arguments)] // Called once, by the round that it belongs to.
    pub fn new(
        disk: &'a mut Disk<'d>,
        clusters: &'a mut Clusters<'d>,
        findings: Findings<'a>,
        progress: &'a dyn Progress,
        upcase: Arc<Upcase>,
        system: System,
    ) -> Walk<'a, 'd> {
        Walk {
            disk,
            clusters,
            findings,
            progress,
            upcase,
            system,
            dirs: Vec::new(),
            todo: Vec::new(),
            contested: BTreeSet::new(),
            shared: Vec::new(),
            cuts: Vec::new(),
            unsettled: false,
        }
    }

    /// Walks from the root.
    pub fn run(&mut self) -> Result<()> {
        let first = self.clusters.geometry.root_cluster;
        let most = (LARGEST_DIRECTORY >> self.clusters.heap.shift).max(1);
        let (count, last, stop) = claim_chain(self.clusters, first, most)?;
        let root = Dir {
            parent: 0,
            first,
            count,
            contiguous: false,
            name: Name::from_units(&[]),
            is_damaged: false,
        };
        self.dirs.push(root);
        let broken = match stop {
            Stop::End => false,
            Stop::More(next) => {
                let message = || format!("the root directory goes on after {most} clusters, at {next}");
                self.find("directory-too-large", Severity::Inconsistent, Some((0, None)), message)
            }
            stop => {
                let message = || format!("the root directory's chain: cluster {last} {}", stop.told(FREE));
                self.find(stop.code(), Severity::DataLoss, Some((0, None)), message)
            }
        };
        if broken {
            self.cuts.push(last);
        }
        self.todo.push(0);
        let total = u64::from(self.clusters.heap.count);
        while let Some(dir) = self.todo.pop() {
            self.directory(dir)?;
            self.findings.report.directories += 1;
            if self.findings.report.directories.is_multiple_of(64) {
                self.progress.progress("checking directories", self.clusters.claimed(), total);
            }
        }
        self.progress.progress("checking directories", total, total);
        Ok(())
    }

    /// The path of a directory, or of an entry in it.
    pub fn path(&self, dir: u32, name: Option<&Name>) -> String {
        path_in(&self.dirs, dir, name)
    }

    /// Reports something that is put right if the walk repairs. Whether it does is the answer.
    pub fn find(
        &mut self,
        code: &'static str,
        severity: Severity,
        path: Option<(u32, Option<&Name>)>,
        message: impl FnOnce() -> String,
    ) -> bool {
        let changes = self.disk.edits() + self.contested.len() + self.shared.len();
        let dirs = &self.dirs;
        let path = path.map(|(dir, name)| move || path_in(dirs, dir, name));
        self.findings.find(changes, code, severity, path, message)
    }

    /// Reads a directory that was reached.
    pub fn listing(&mut self, dir: u32) -> Result<Listing> {
        let Dir { first, count, contiguous, .. } = self.dirs[dir as usize];
        Listing::read(self.disk, self.clusters, first, count, contiguous)
    }

    /// Notes a directory to be looked into.
    fn enter(&mut self, parent: u32, name: &Name, info: &FileInfo, count: u32) {
        let (first, contiguous) = (info.cluster, info.contiguous);
        self.todo.push(self.dirs.len() as u32);
        self.dirs.push(Dir { parent, first, count, contiguous, name: name.clone(), is_damaged: false });
    }

    /// Whether a cluster is the first of a directory or of one above it.
    pub fn is_inside_itself(&self, dir: u32, cluster: u32) -> bool {
        is_inside(dir, cluster, |at| (self.dirs[at as usize].parent, self.dirs[at as usize].first))
    }

    fn contest(&mut self, start: u32) {
        self.unsettled = true;
        if self.contested.len() < MOST_CHANGES {
            self.contested.insert(start);
        } else {
            self.findings.postponed = true;
        }
    }
}

/// The path of a directory, or of an entry in it.
fn path_in(dirs: &[Dir], dir: u32, name: Option<&Name>) -> String {
    path_of(dir, name, |at| (dirs[at as usize].parent, &dirs[at as usize].name))
}
