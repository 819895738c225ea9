//! The walk over all directories and their entries.
//!
//! The walk claims the clusters of every file and directory, reports what is wrong, and, in a repair, changes slots
//! and FAT entries in memory. Clusters that two files share are copied only after the whole tree was walked, because
//! only then is it known which file each cluster belongs to.

mod content;
mod directory;
mod links;
mod mend;
mod oddities;
mod set;

use super::clusters::Clusters;
use super::kept::Kept;
use super::listing::Listing;
use super::system::System;
use crate::layout::{EntrySet, FileInfo, LARGEST_DIRECTORY, Upcase};
use links::Broken;
use platter_clusters::{
    Claims as _, Disk, Findings, Link, MOST_CHANGES, SharedFinding, Stop, claim_chain, is_inside, path_of,
};
use platter_vfs::{Name, Progress, Result, Severity};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A directory that the walk has reached.
pub(super) struct Dir {
    /// The index of its parent directory; the root is its own parent.
    pub parent: u32,
    /// Its first cluster; 0 if it has none.
    pub first: u32,
    /// The number of clusters found, and whether they are consecutive.
    pub count: u32,
    pub contiguous: bool,
    /// Its name.
    pub name: Name,
    /// Whether its slots are not a sequence of whole entries.
    pub is_damaged: bool,
    /// Whether it has clusters that the repair keeps, so that it is not changed.
    pub is_kept: bool,
}

/// A file or directory some or all of whose clusters belong to another.
pub(super) struct Shared {
    /// The device offsets of its first two slots.
    pub slots: [u64; 2],
    pub set: EntrySet,
    /// The number of its first clusters that are its own.
    pub own: u32,
    pub finding: SharedFinding,
}

/// How a message describes a cluster in a chain whose FAT entry is 0. (The bitmap, not the FAT, says which clusters
/// are free.)
const FREE: &str = "has the FAT entry 0";

/// A walk and its results.
pub(super) struct Walk<'a, 'd> {
    pub disk: &'a mut Disk<'d>,
    pub clusters: &'a mut Clusters<'d>,
    pub findings: Findings<'a>,
    pub progress: &'a dyn Progress,
    pub upcase: Arc<Upcase>,
    pub system: System,
    pub dirs: Vec<Dir>,
    todo: Vec<u32>,
    /// The sets that are not right, by directory: the first slot of each, and the one after it. They are checked when all
    /// other sets are.
    doubtful: BTreeMap<u32, Vec<(usize, usize)>>,
    /// The number of bytes that were summed up to find what such sets were.
    summed: u64,
    /// The files whose chains break off, until the whole tree was walked, and the steps along chains that the search for
    /// wrong links took.
    broken: Vec<Broken>,
    followed: u64,
    /// First clusters that more than one entry names, or that lie inside another file's clusters.
    pub contested: BTreeSet<u32>,
    /// The files and directories whose shared clusters are to be copied.
    pub shared: Vec<Shared>,
    /// The clusters that become the last of their chains once the copies are made.
    pub cuts: Vec<u32>,
    /// Whether a directory was not read because a contested or shared cluster must be resolved first.
    pub unsettled: bool,
    /// Clusters that are shared and stay so.
    kept: &'a Kept,
}

impl<'a, 'd> Walk<'a, 'd> {
    #[allow(clippy::too_many_arguments)] // Called once, by the round that it belongs to.
    pub(super) fn new(
        disk: &'a mut Disk<'d>,
        clusters: &'a mut Clusters<'d>,
        findings: Findings<'a>,
        progress: &'a dyn Progress,
        upcase: Arc<Upcase>,
        system: System,
        kept: &'a Kept,
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
            doubtful: BTreeMap::new(),
            summed: 0,
            broken: Vec::new(),
            followed: 0,
            contested: BTreeSet::new(),
            shared: Vec::new(),
            cuts: Vec::new(),
            unsettled: false,
            kept,
        }
    }

    /// Walks the whole tree.
    pub(super) fn run(&mut self) -> Result<()> {
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
            is_kept: self.has_kept(first, count, false),
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
        loop {
            let Some(dir) = self.todo.pop() else {
                // A set that is put right may be that of a directory, which is read next.
                let Some((dir, sets)) = self.doubtful.pop_first() else { break };
                self.unless_kept(dir, |walk| walk.doubtful_sets(dir, sets))?;
                continue;
            };
            self.unless_kept(dir, |walk| walk.directory(dir))?;
            self.findings.report.directories += 1;
            if self.findings.report.directories.is_multiple_of(64) {
                self.progress.step("checking directories", self.clusters.claimed(), total)?;
            }
        }
        self.broken_chains()?;
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
        let changes = self.disk.edits() + self.contested.len() + self.shared.len();
        let dirs = &self.dirs;
        let repair = self.findings.repair;
        self.findings.repair &= !path.as_ref().is_some_and(|&(dir, _)| dirs[dir as usize].is_kept);
        let path = path.map(|(dir, name)| move || path_in(dirs, dir, name));
        let is_repaired = self.findings.find(changes, code, severity, path, message);
        self.findings.repair = repair;
        is_repaired
    }

    /// Reports damage that a repair puts right by cutting a chain after its cluster `last`. Nothing is cut where another file
    /// has the cluster too, and no copy has room.
    fn find_cut(
        &mut self,
        (code, severity): (&'static str, Severity),
        path: Option<(u32, Option<&Name>)>,
        last: u32,
        message: impl FnOnce() -> String,
    ) -> bool {
        let repair = self.findings.repair;
        self.findings.repair &= !self.kept.has(last);
        let is_cut = self.find(code, severity, path, message);
        self.findings.repair = repair;
        if is_cut {
            self.cuts.push(last);
        }
        is_cut
    }

    /// Looks at a directory, which is only reported on if it has clusters that are kept.
    fn unless_kept(&mut self, dir: u32, look: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let repair = self.findings.repair;
        self.findings.repair &= !self.dirs[dir as usize].is_kept;
        let done = look(self);
        self.findings.repair = repair;
        done
    }

    /// Whether one of a directory's clusters is kept.
    fn has_kept(&mut self, first: u32, count: u32, contiguous: bool) -> bool {
        let mut at = first;
        for _ in 0..if self.kept.is_empty() { 0 } else { count } {
            if self.kept.has(at) {
                return true;
            }
            at = match contiguous {
                true => at.saturating_add(1),
                false => match self.clusters.link(at) {
                    Ok(Link::Next(next)) => next,
                    _ => break,
                },
            };
        }
        false
    }

    /// Reports that a file shares clusters, from its cluster number `own` on, with another. A repair copies them.
    pub(super) fn share(
        &mut self,
        (dir, name): (u32, &Name),
        (slots, set, own): ([u64; 2], &EntrySet, u32),
        message: impl FnOnce() -> String,
    ) {
        let changes = self.disk.edits() + self.contested.len() + self.shared.len();
        let path = || path_in(&self.dirs, dir, Some(name));
        let finding = self.findings.shares((changes, self.shared.len()), path, message);
        self.shared.extend(finding.map(|finding| Shared { slots, set: set.clone(), own, finding }));
    }

    /// Reads the slots of a directory.
    pub(super) fn listing(&mut self, dir: u32) -> Result<Listing> {
        let Dir { first, count, contiguous, .. } = self.dirs[dir as usize];
        Listing::read(self.disk, self.clusters, first, count, contiguous)
    }

    /// Adds a directory to those that the walk is still to read.
    fn enter(&mut self, parent: u32, name: &Name, info: &FileInfo, count: u32) {
        let (first, contiguous) = (info.cluster, info.contiguous);
        let is_kept = self.has_kept(first, count, contiguous);
        self.todo.push(self.dirs.len() as u32);
        self.dirs.push(Dir {
            parent,
            first,
            count,
            contiguous,
            name: name.clone(),
            is_damaged: false,
            is_kept,
        });
    }

    /// Puts off the check of a set in these slots.
    fn doubt(&mut self, dir: u32, at: usize, after: usize) {
        self.doubtful.entry(dir).or_default().push((at, after));
    }

    /// Whether a cluster is the first of the directory `dir` or of one of its ancestors.
    pub(super) fn is_inside_itself(&self, dir: u32, cluster: u32) -> bool {
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

/// Returns the path of a directory, or of an entry in it.
fn path_in(dirs: &[Dir], dir: u32, name: Option<&Name>) -> String {
    path_of(dir, name, |at| (dirs[at as usize].parent, &dirs[at as usize].name))
}
