//! Recovery of files from a damaged volume. First come the files and directories that the root directory still leads
//! to, then directories that are recognised by their content, then chains in the table to which no name leads, and at last
//! deleted files.
//!
//! The entry of a deleted file stays until another takes its slot, and its content until another file takes its clusters. A
//! file that lies in clusters which are free by now comes back. Where its entry or a chain that is left tells all of its
//! clusters, that is certain as far as the volume can tell. Otherwise the free clusters from its first one on are taken, as
//! most files are in one piece, and the path of the file begins with [`LIKELY`].
//!
//! Nothing on the volume is trusted. Each directory is read once, a chain ends where it meets itself, and a file has at
//! most the clusters that its size needs. The clusters of all files together are a small multiple of the volume's, whatever
//! sizes their entries state. What the device knows to be a hole is not read. Memory: a few bits for each cluster, and the names of directories still to be
//! read.

use crate::{Bits, Disk, Heap, Link, Runs};
use platter_device::Device;
use platter_vfs::{
    Error, Kind, Name, Progress, RecoverReport, Recovered, RecoveredData, Result, Stretch, Timestamp, Visit,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// An entry of a directory.
pub struct Remnant {
    /// The name.
    pub name: Name,
    /// Whether it is the entry of a directory.
    pub is_directory: bool,
    /// Whether the entry was deleted.
    pub is_deleted: bool,
    /// The first cluster, which may lie outside the volume; 0 for none.
    pub cluster: u32,
    /// The size of a file in bytes; for a directory the size in its entry, or 0 if the entry has none.
    pub size: u64,
    /// The valid data length in bytes; the content behind it is zeroes.
    pub valid: u64,
    /// Whether the clusters are contiguous and have no chain in the table.
    pub contiguous: bool,
    /// When the content last changed.
    pub modified: Timestamp,
    /// When the content was last read.
    pub accessed: Timestamp,
}

/// The access of a format to the remains of a volume.
pub trait Remains {
    /// The cluster heap of the volume.
    fn heap(&self) -> Heap;

    /// Returns the table's entry of a cluster.
    ///
    /// # Errors
    /// The errors of reading the table.
    fn link(&mut self, cluster: u32) -> Result<Link>;

    /// Whether a cluster is free, as far as the volume tells.
    fn is_free(&mut self, cluster: u32) -> bool {
        matches!(self.link(cluster), Ok(Link::Free) | Err(_))
    }

    /// Returns the first cluster from this one on of which the table's entry may be other than 0, if that can be told
    /// without reading it.
    fn next_entry(&self, cluster: u32) -> u32 {
        cluster
    }

    /// Returns the valid entries in the slots of a directory, the deleted ones too.
    fn entries(&self, slots: &[u8]) -> Vec<Remnant>;

    /// Whether a cluster looks like the first of a directory.
    fn looks_like_directory(&self, slots: &[u8]) -> bool;

    /// Whether a directory that has no end mark in one cluster seems to continue in the next one, of content `next`.
    /// Asked where the table has no entry for them.
    fn goes_on(&self, next: &[u8]) -> bool;

    /// The largest directory in bytes.
    fn largest_directory(&self) -> u64;
}

/// The directory for recovered directories whose names are lost.
const FOUND: &str = "found";
/// The directory for chains to which no name leads.
const CHAINS: &str = "chains";
/// The directory for files that share clusters with others.
const OVERLAPPING: &str = "overlapping";

/// The directory for deleted files of which the place is a guess, though a likely one.
const LIKELY: &str = "likely";
/// The most deleted files and directories that come back: a bound on memory.
const MOST_DELETED: usize = 1 << 20;

/// A directory that was found and is to be read.
struct Reached {
    path: Vec<Name>,
    runs: Runs,
    /// Whether it was deleted, and so all that is in it.
    is_deleted: bool,
}

struct Recovery<'a, R> {
    device: Arc<dyn Device>,
    remains: R,
    /// The clusters of everything found so far.
    claimed: Bits,
    /// The clusters of the present file.
    own: Bits,
    /// How many more clusters the files may have. Those of a volume without damage have each cluster once.
    room: u64,
    /// The deleted entries that were met, with their paths.
    deleted: Vec<(Vec<Name>, Remnant)>,
    report: RecoverReport,
    progress: &'a dyn Progress,
    visit: Visit<'a>,
}

/// Calls `visit` for everything that is left. `root` holds the slots of a root directory without clusters; `first` is
/// the first cluster of one with clusters.
///
/// # Errors
/// The errors of `visit`.
pub fn recover(
    device: Arc<dyn Device>,
    remains: impl Remains,
    root: &[u8],
    first: u32,
    progress: &dyn Progress,
    visit: Visit<'_>,
) -> Result<RecoverReport> {
    let bits = || Bits::new(remains.heap().count.saturating_add(2));
    let (claimed, own, report) = (bits(), bits(), RecoverReport::default());
    let room = u64::from(remains.heap().count) * 16 + (1 << 20);
    let deleted = Vec::new();
    let mut recovery = Recovery { device, remains, claimed, own, room, deleted, report, progress, visit };
    let mut todo = Vec::new();
    recovery.entries(&[], root, &mut todo)?;
    if recovery.is_free_directory(first) {
        let runs = recovery.directory_runs(first, 0, false);
        todo.push(Reached { path: Vec::new(), runs, is_deleted: false });
    }
    recovery.go_on(todo)?;
    recovery.deleted_directories()?;
    recovery.look_for_directories()?;
    recovery.chains()?;
    recovery.deleted_directories()?;
    recovery.deleted_files()?;
    Ok(recovery.report)
}

impl<R: Remains> Recovery<'_, R> {
    fn lose(&mut self, path: &[Name], why: String) {
        if self.report.lost.len() < RecoverReport::KEPT {
            let path: String = path.iter().map(|name| format!("/{name}")).collect();
            self.report.lost.push((path, why));
        }
    }

    /// Whether a cluster can be the first of a directory that was not yet found.
    fn is_free_directory(&self, cluster: u32) -> bool {
        self.remains.heap().has(cluster) && !self.claimed.get(cluster)
    }

    /// Claims at most `wanted` clusters of a file from the first on. Also returns whether some are another file's too.
    fn claim(&mut self, first: u32, wanted: u64, contiguous: bool) -> (Runs, bool) {
        let heap = self.remains.heap();
        let (mut runs, mut overlaps) = (Runs::default(), false);
        let mut cluster = first;
        // The chain is missing in the table; most files are contiguous, so this one is assumed to be.
        let contiguous =
            contiguous || wanted > 1 && matches!(self.remains.link(first), Ok(Link::Free) | Err(_));
        while u64::from(runs.clusters()) < wanted && heap.has(cluster) && self.room > 0 {
            self.room -= 1;
            if self.own.get(cluster) {
                // The chain leads back to one of its own clusters.
                break;
            }
            overlaps |= self.claimed.get(cluster);
            self.claimed.set(cluster);
            self.own.set(cluster);
            runs.push(cluster, 1);
            cluster = match contiguous {
                true => cluster.saturating_add(1),
                false => match self.remains.link(cluster) {
                    Ok(Link::Next(next)) => next,
                    _ => break,
                },
            };
        }
        runs.iter()
            .flat_map(|run| run.cluster..run.cluster + run.count)
            .for_each(|cluster| self.own.clear(cluster));
        (runs, overlaps)
    }

    /// Claims the clusters of a directory, up to the first that is claimed already.
    fn directory_runs(&mut self, first: u32, size: u64, contiguous: bool) -> Runs {
        let heap = self.remains.heap();
        let size = if contiguous { size } else { self.remains.largest_directory() };
        let most = heap.clusters_for(size.min(self.remains.largest_directory())).max(1);
        let mut runs = Runs::default();
        let mut cluster = first;
        while u64::from(runs.clusters()) < most && self.is_free_directory(cluster) {
            self.claimed.set(cluster);
            runs.push(cluster, 1);
            cluster = match contiguous {
                true => cluster + 1,
                false => match self.remains.link(cluster) {
                    Ok(Link::Next(next)) => next,
                    Ok(Link::Free) | Err(_) if self.goes_on(cluster) => cluster + 1,
                    _ => break,
                },
            };
        }
        runs
    }

    /// Whether the cluster behind one of a directory seems to belong to it too, where the table does not tell.
    fn goes_on(&self, cluster: u32) -> bool {
        let heap = self.remains.heap();
        let mut both = vec![0; 2 * heap.cluster_size() as usize];
        if !self.is_free_directory(cluster + 1)
            || Disk::new(&*self.device).read(heap.offset(cluster), &mut both).is_err()
        {
            return false;
        }
        let (one, next) = both.split_at(heap.cluster_size() as usize);
        let has_end = one.chunks_exact(crate::SLOT).any(|slot| slot[0] == 0);
        !has_end && self.remains.goes_on(next)
    }

    /// Reads directories and all those below them.
    fn go_on(&mut self, mut todo: Vec<Reached>) -> Result<()> {
        let heap = self.remains.heap();
        while let Some(Reached { path, runs, is_deleted }) = todo.pop() {
            let mut slots = Vec::new();
            for run in runs.iter() {
                for cluster in run.cluster..run.cluster + run.count {
                    let start = slots.len();
                    slots.resize(start + heap.cluster_size() as usize, 0);
                    let read = Disk::new(&*self.device).read(heap.offset(cluster), &mut slots[start..]);
                    if let Err(error) = read {
                        slots[start..].fill(0);
                        self.lose(&path, format!("a part of the directory cannot be read: {error}"));
                    }
                }
            }
            self.listed(&path, &slots, is_deleted, &mut todo)?;
            self.progress.step("recovering", self.claimed.count(), u64::from(heap.count))?;
        }
        Ok(())
    }

    /// Calls `visit` for the entries of a directory that exists.
    fn entries(&mut self, path: &[Name], slots: &[u8], todo: &mut Vec<Reached>) -> Result<()> {
        self.listed(path, slots, false, todo)
    }

    /// Calls `visit` for the entries of a directory, and notes those that were deleted: all, if it was itself.
    fn listed(
        &mut self,
        path: &[Name],
        slots: &[u8],
        is_deleted: bool,
        todo: &mut Vec<Reached>,
    ) -> Result<()> {
        for remnant in self.remains.entries(slots) {
            let mut path = path.to_vec();
            path.push(remnant.name.clone());
            if is_deleted || remnant.is_deleted {
                if self.deleted.len() < MOST_DELETED {
                    self.deleted.push((path, Remnant { is_deleted: true, ..remnant }));
                }
            } else if remnant.is_directory {
                self.directory(path, &remnant, todo)?;
            } else {
                self.file(path, &remnant)?;
            }
        }
        Ok(())
    }

    fn directory(&mut self, path: Vec<Name>, remnant: &Remnant, todo: &mut Vec<Reached>) -> Result<()> {
        if !self.is_free_directory(remnant.cluster) {
            let why = format!("the directory's first cluster, {}, is none or another's", remnant.cluster);
            self.lose(&path, why);
            return Ok(());
        }
        let runs = self.directory_runs(remnant.cluster, remnant.size, remnant.contiguous);
        self.tell_directory(&path, false, remnant.modified, remnant.accessed)?;
        todo.push(Reached { path, runs, is_deleted: false });
        Ok(())
    }

    /// Reads the directories among the deleted entries, and those in them, as far as their clusters still hold them. They
    /// are not told of by themselves, only with the files in them.
    fn deleted_directories(&mut self) -> Result<()> {
        loop {
            let deleted = std::mem::take(&mut self.deleted);
            let (directories, files): (Vec<_>, Vec<_>) =
                deleted.into_iter().partition(|(_, remnant)| remnant.is_directory);
            self.deleted = files;
            if directories.is_empty() {
                return Ok(());
            }
            for (path, remnant) in directories {
                let cluster = remnant.cluster;
                if !self.is_free_directory(cluster) || !self.remains.is_free(cluster) {
                    continue;
                }
                let heap = self.remains.heap();
                let mut slots = vec![0; heap.cluster_size() as usize];
                let read = Disk::new(&*self.device).read(heap.offset(cluster), &mut slots);
                if read.is_err() || !self.remains.looks_like_directory(&slots) {
                    continue;
                }
                let runs = self.directory_runs(cluster, remnant.size, remnant.contiguous);
                self.go_on(vec![Reached { path, runs, is_deleted: true }])?;
            }
        }
    }

    /// Calls `visit` for the deleted files of which the clusters are free, the latest first: where several had a cluster,
    /// it holds the content of the last.
    fn deleted_files(&mut self) -> Result<()> {
        let mut deleted = std::mem::take(&mut self.deleted);
        deleted.sort_by_key(|(_, remnant)| {
            std::cmp::Reverse((remnant.modified.seconds, remnant.modified.nanoseconds))
        });
        let heap = self.remains.heap();
        let mut taken = Bits::new(heap.count.saturating_add(2));
        let total = deleted.len() as u64;
        for (number, (mut path, remnant)) in deleted.into_iter().enumerate() {
            if number.is_multiple_of(256) {
                self.progress.step("looking for deleted files", number as u64, total)?;
            }
            let wanted = heap.clusters_for(remnant.size);
            let Some((runs, is_certain)) = self.free_runs(&remnant, wanted) else {
                self.report.overwritten += 1;
                continue;
            };
            let mut is_shared = false;
            for cluster in runs.iter().flat_map(|run| run.cluster..run.cluster + run.count) {
                is_shared |= taken.get(cluster);
                taken.set(cluster);
            }
            let is_certain = is_certain && !is_shared;
            if !is_certain {
                path.insert(0, Name::from(LIKELY));
            }
            self.report.deleted += 1;
            self.tell_file(path, &remnant, runs, is_certain)?;
        }
        Ok(())
    }

    /// Returns the clusters of a deleted file, and whether they are certain; `None` if others have them by now.
    fn free_runs(&mut self, remnant: &Remnant, wanted: u64) -> Option<(Runs, bool)> {
        let heap = self.remains.heap();
        let mut runs = Runs::default();
        if wanted == 0 {
            return Some((runs, true));
        }
        let first = remnant.cluster;
        if !heap.has(first) || wanted > u64::from(heap.count) || !self.is_unused(first) {
            return None;
        }
        if remnant.contiguous {
            let end = u64::from(first) + wanted;
            let is_whole = end <= u64::from(heap.last()) + 1
                && (first..end as u32).all(|cluster| self.spend() && self.is_unused(cluster));
            return is_whole.then(|| {
                runs.push(first, wanted as u32);
                (runs, true)
            });
        }
        // Some systems leave the chain of a deleted file in the table.
        let mut cluster = first;
        while u64::from(runs.clusters()) < wanted && self.spend() && self.is_unused(cluster) {
            runs.push(cluster, 1);
            match self.remains.link(cluster) {
                Ok(Link::Next(next)) => cluster = next,
                Ok(Link::End) if u64::from(runs.clusters()) == wanted => return Some((runs, true)),
                _ => break,
            }
        }
        let mut runs = Runs::default();
        let mut cluster = first;
        while u64::from(runs.clusters()) < wanted {
            if !heap.has(cluster) || !self.spend() {
                return None;
            }
            if self.is_unused(cluster) {
                runs.push(cluster, 1);
            }
            cluster += 1;
        }
        Some((runs, wanted == 1))
    }

    /// Counts a cluster that is looked at. Returns whether there may be more.
    fn spend(&mut self) -> bool {
        self.room = self.room.saturating_sub(1);
        self.room > 0
    }

    /// Whether a cluster is free, and no file that exists has it.
    fn is_unused(&mut self, cluster: u32) -> bool {
        self.remains.heap().has(cluster) && !self.claimed.get(cluster) && self.remains.is_free(cluster)
    }

    fn tell_directory(
        &mut self,
        path: &[Name],
        deleted: bool,
        modified: Timestamp,
        accessed: Timestamp,
    ) -> Result<()> {
        self.report.directories += 1;
        let found = Recovered {
            certain: true,
            ..Recovered::new(path.to_vec(), deleted, Kind::Directory, [modified, accessed])
        };
        (self.visit)(&found, &mut FileContent::none(&self.device, self.remains.heap()))
    }

    fn file(&mut self, mut path: Vec<Name>, remnant: &Remnant) -> Result<()> {
        let heap = self.remains.heap();
        let wanted = heap.clusters_for(remnant.size);
        if wanted > u64::from(heap.count) {
            self.lose(&path, format!("{} bytes are more than the volume has", remnant.size));
            return Ok(());
        }
        let (runs, overlaps) = match wanted {
            0 => (Runs::default(), false),
            _ => self.claim(remnant.cluster, wanted, remnant.contiguous),
        };
        if overlaps {
            self.lose(&path, format!("parts of it are another file's too; it is in {OVERLAPPING}"));
            path.insert(0, Name::from(OVERLAPPING));
        }
        self.tell_file(path, remnant, runs, !overlaps)
    }

    fn tell_file(&mut self, path: Vec<Name>, remnant: &Remnant, runs: Runs, is_certain: bool) -> Result<()> {
        self.report.files += 1;
        let times = [remnant.modified, remnant.accessed];
        let found = Recovered {
            certain: is_certain,
            size: remnant.size,
            ..Recovered::new(path, remnant.is_deleted, Kind::File, times)
        };
        let (device, heap) = (self.device.clone(), self.remains.heap());
        let mut content = FileContent { device, heap, runs, size: remnant.size, valid: remnant.valid };
        (self.visit)(&found, &mut content)
    }

    /// Searches unclaimed clusters for directories. Those to which no other found directory leads come first.
    fn look_for_directories(&mut self) -> Result<()> {
        /// The most directories that are found in this way: more than any real volume loses at once, and a bound on
        /// memory.
        const MOST: usize = 1 << 20;
        let heap = self.remains.heap();
        let mut slots = vec![0; heap.cluster_size() as usize];
        let mut candidates = BTreeSet::new();
        let mut below = BTreeSet::new();
        let mut next = 2;
        // The offset up to which the device is known to have no data.
        let mut data = 0;
        while next <= heap.last() && candidates.len() < MOST {
            let cluster = next;
            next += 1;
            if cluster.is_multiple_of(4096) {
                self.progress.step("looking for directories", u64::from(cluster), u64::from(heap.count))?;
            }
            if self.claimed.get(cluster) {
                continue;
            }
            data =
                if data > heap.offset(cluster) { data } else { self.device.next_data(heap.offset(cluster)) };
            if data >= heap.offset(cluster) + heap.cluster_size() {
                next = heap.cluster_at(data);
                continue;
            }
            // A cluster that cannot be read cannot be read as a directory either.
            let read = Disk::new(&*self.device).read(heap.offset(cluster), &mut slots);
            if read.is_err() || !self.remains.looks_like_directory(&slots) {
                continue;
            }
            candidates.insert(cluster);
            below.extend(
                self.remains.entries(&slots).iter().filter(|one| one.is_directory).map(|one| one.cluster),
            );
            if let Ok(Link::Next(next)) = self.remains.link(cluster) {
                below.insert(next);
            }
        }
        let (inner, outer): (Vec<u32>, Vec<u32>) =
            candidates.iter().partition(|cluster| below.contains(cluster));
        for cluster in outer.into_iter().chain(inner) {
            if self.claimed.get(cluster) {
                continue;
            }
            let path = vec![Name::from(FOUND), Name::from(format!("directory {cluster}").as_str())];
            self.tell_directory(&path, false, Timestamp::default(), Timestamp::default())?;
            let runs = self.directory_runs(cluster, 0, false);
            self.go_on(vec![Reached { path, runs, is_deleted: false }])?;
        }
        Ok(())
    }

    fn tell_chains(&self, cluster: u32) -> Result<()> {
        if cluster.is_multiple_of(1 << 16) {
            let total = u64::from(self.remains.heap().count);
            self.progress.step("looking for chains", u64::from(cluster), total)?;
        }
        Ok(())
    }

    /// Calls `visit` for chains to which no name leads.
    fn chains(&mut self) -> Result<()> {
        let heap = self.remains.heap();
        let is_taken = |link: &Result<Link>| matches!(link, Ok(Link::Next(_) | Link::End));
        let mut inside = Bits::new(heap.count.saturating_add(2));
        let mut at = 2;
        while at <= heap.last() {
            let cluster = self.remains.next_entry(at);
            at = cluster.saturating_add(1);
            if cluster > heap.last() || self.claimed.get(cluster) {
                continue;
            }
            self.tell_chains(cluster)?;
            if let Ok(Link::Next(next)) = self.remains.link(cluster)
                && heap.has(next)
            {
                inside.set(next);
            }
        }
        let mut at = 2;
        while at <= heap.last() {
            let cluster = self.remains.next_entry(at);
            at = cluster.saturating_add(1);
            if cluster > heap.last() {
                break;
            }
            self.tell_chains(cluster)?;
            let link = self.remains.link(cluster);
            if self.claimed.get(cluster) || inside.get(cluster) || !is_taken(&link) {
                continue;
            }
            let (runs, overlaps) = self.claim(cluster, u64::from(heap.count), false);
            let size = u64::from(runs.clusters()) << heap.shift;
            let remnant = Remnant {
                name: Name::from(format!("cluster {cluster}").as_str()),
                is_directory: false,
                is_deleted: false,
                cluster,
                size,
                valid: size,
                contiguous: false,
                modified: Timestamp::default(),
                accessed: Timestamp::default(),
            };
            let mut path = vec![Name::from(CHAINS), remnant.name.clone()];
            if overlaps {
                path.insert(0, Name::from(OVERLAPPING));
            }
            // What a chain without a name holds, and to its end, nothing tells.
            self.tell_file(path, &remnant, runs, false)?;
        }
        Ok(())
    }
}

/// The content of a file that was found.
struct FileContent {
    device: Arc<dyn Device>,
    heap: Heap,
    runs: Runs,
    size: u64,
    valid: u64,
}

impl FileContent {
    fn none(device: &Arc<dyn Device>, heap: Heap) -> FileContent {
        FileContent { device: device.clone(), heap, runs: Runs::default(), size: 0, valid: 0 }
    }
}

impl RecoveredData for FileContent {
    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let length = self.size.saturating_sub(offset).min(buffer.len() as u64) as usize;
        let written = self.valid.saturating_sub(offset).min(length as u64) as usize;
        buffer[written..length].fill(0);
        let mut at = 0;
        while at < written {
            let place = offset + at as u64;
            let index = (place >> self.heap.shift) as u32;
            let Some((cluster, together)) = self.runs.at(index) else {
                let found = format!("only {} clusters", self.runs.clusters());
                return Err(Error::damaged("cluster chain", 0, format!("a cluster for byte {place}"), found));
            };
            let inside = place & (self.heap.cluster_size() - 1);
            let room = (u64::from(together) << self.heap.shift) - inside;
            let piece = (written - at).min(room.min(usize::MAX as u64) as usize);
            Disk::new(&*self.device).read(self.heap.offset(cluster) + inside, &mut buffer[at..at + piece])?;
            at += piece;
        }
        Ok(length)
    }

    fn stretch(&mut self, offset: u64) -> (Stretch, u64) {
        let there = u64::from(self.runs.clusters()) << self.heap.shift;
        match () {
            () if offset >= self.valid => (Stretch::Zeroes, u64::MAX),
            () if offset >= there => (Stretch::Lost, self.valid),
            () => (Stretch::Content, there),
        }
    }
}
