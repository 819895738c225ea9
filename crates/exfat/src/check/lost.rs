//! Lost clusters: taken in the bitmap, but used by no file.
//!
//! A lost directory becomes, with everything below it, `FSCKnnnn.DIR` in the root directory; then lost clusters that
//! are consecutive, or that the FAT links, become a file `FSCKnnnn.REC`. Clusters for which the root directory has no
//! room stay lost.

use super::clusters::{Clusters, Tally};
use super::listing::Listing;
use crate::layout::{Attributes, EntrySet, FileInfo, Geometry, Precision, SLOT, Stamp, Upcase};
use platter_clusters::{Claims, Disk, Link, Runs};
use platter_vfs::{CheckReport, DosFlags, Finding, Name, Result, Severity};
use std::collections::HashSet;

/// The highest number of recovered entries.
const MOST_NAMES: u32 = 10_000;

/// Reports lost clusters, and in a repair gives them entries in the root directory.
pub(super) fn recover(
    disk: &mut Disk,
    clusters: &mut Clusters,
    report: &mut CheckReport,
    repair: bool,
    upcase: &Upcase,
) -> Result<()> {
    if !repair {
        // The comparison with the bitmap reports their number.
        return Ok(());
    }
    let (mut room, mut left) = (None, Tally::default());
    let mut found = false;
    for cluster in 2..=clusters.heap.last() {
        if clusters.is_lost(cluster)? && is_directory(disk, clusters, cluster, upcase)? {
            let runs = directory(disk, clusters, cluster, upcase)?;
            match add(disk, clusters, report, upcase, &mut room, &runs, true)? {
                true => found = true,
                false => note(&mut left, &runs),
            }
        }
    }
    if found {
        // Clusters below the recovered directories are not lost any more; the next round finds out which.
        return keep(clusters);
    }
    // Clusters that another lost cluster links to are not the first of a chain.
    let mut pointed = HashSet::new();
    for cluster in 2..=clusters.heap.last() {
        if clusters.is_lost(cluster)?
            && let Link::Next(next) = clusters.link(cluster)?
            && clusters.is_lost(next)?
        {
            pointed.insert(next);
        }
    }
    for heads in [true, false] {
        for cluster in 2..=clusters.heap.last() {
            if clusters.is_lost(cluster)? && !(heads && pointed.contains(&cluster)) {
                let runs = chain(clusters, cluster, &pointed)?;
                if !add(disk, clusters, report, upcase, &mut room, &runs, false)? {
                    note(&mut left, &runs);
                }
            }
        }
    }
    left.lost(false).into_iter().for_each(|finding| report.add(finding));
    keep(clusters)
}

/// Notes clusters for which the root directory has no room.
fn note(left: &mut Tally, runs: &Runs) {
    runs.iter().flat_map(|run| run.cluster..run.cluster + run.count).for_each(|cluster| left.add(cluster));
}

/// Claims the clusters that are still lost, so that this round does not free them.
fn keep(clusters: &mut Clusters) -> Result<()> {
    for cluster in 2..=clusters.heap.last() {
        if clusters.is_lost(cluster)? {
            clusters.claim(cluster);
        }
    }
    Ok(())
}

/// Whether a cluster begins with a file's entry set.
fn is_directory(disk: &Disk, clusters: &Clusters, cluster: u32, upcase: &Upcase) -> Result<bool> {
    let mut slots = vec![[0; SLOT]; clusters.heap.cluster_size().min(4096) as usize / SLOT];
    disk.read_slots(clusters.heap.offset(cluster), slots.as_flattened_mut())?;
    let first = slots.iter().position(|slot| slot[0] & 0x80 != 0).unwrap_or(0);
    Ok(slots[..first].iter().all(|slot| slot[0] != 0) && EntrySet::read(&slots[first..], upcase).is_ok())
}

/// Returns the clusters of a lost directory, up to the one with the end mark.
fn directory(disk: &Disk, clusters: &mut Clusters, first: u32, upcase: &Upcase) -> Result<Runs> {
    let mut runs = Runs::default();
    let mut at = first;
    loop {
        runs.push(at, 1);
        clusters.claim(at);
        let mut slots = vec![[0; SLOT]; clusters.heap.cluster_size() as usize / SLOT];
        disk.read_slots(clusters.heap.offset(at), slots.as_flattened_mut())?;
        let next = match clusters.link(at)? {
            Link::Next(next) => next,
            _ => at + 1,
        };
        let ends = slots.iter().any(|slot| slot[0] == 0) || !clusters.heap.has(next);
        let most = (u64::from(runs.clusters()) + 1) << clusters.heap.shift > crate::layout::LARGEST_DIRECTORY;
        if ends || most || !clusters.is_lost(next)? || !is_directory(disk, clusters, next, upcase)? {
            return Ok(runs);
        }
        at = next;
    }
}

/// Returns a chain of lost clusters from `first` on: linked by the FAT, or else consecutive.
fn chain(clusters: &mut Clusters, first: u32, pointed: &HashSet<u32>) -> Result<Runs> {
    let mut runs = Runs::default();
    let mut at = first;
    loop {
        runs.push(at, 1);
        clusters.claim(at);
        let next = match clusters.link(at)? {
            Link::Next(next) => next,
            Link::Free if !pointed.contains(&(at + 1)) => at + 1,
            _ => return Ok(runs),
        };
        if !clusters.heap.has(next) || !clusters.is_lost(next)? {
            return Ok(runs);
        }
        at = next;
    }
}

/// The root directory's free slots and names, for new entries.
struct Room {
    listing: Listing,
    /// The slot from which to search for free slots.
    next: usize,
    last_cluster: u32,
    names: HashSet<Box<[u16]>>,
    number: u32,
}

impl Room {
    fn new(disk: &Disk, clusters: &mut Clusters, upcase: &Upcase) -> Result<Room> {
        let first = clusters.geometry.root_cluster;
        let (mut count, mut last_cluster) = (1, first);
        while let Link::Next(next) = clusters.link(last_cluster)?
            && count < clusters.heap.count
        {
            (count, last_cluster) = (count + 1, next);
        }
        let listing = Listing::read(disk, clusters, first, count, false)?;
        let mut names = HashSet::new();
        for at in 0..listing.end() {
            if let Ok(set) = EntrySet::read_loosely(&listing.slots()[at..]) {
                names.insert(upcase.fold(set.name().units()));
            }
        }
        Ok(Room { listing, next: 0, last_cluster, names, number: 0 })
    }

    /// Returns a name that the root directory does not have yet.
    fn name(&mut self, extension: &str, upcase: &Upcase) -> Option<Name> {
        while self.number < MOST_NAMES {
            let name = Name::from(format!("FSCK{:04}.{extension}", self.number).as_str());
            self.number += 1;
            if self.names.insert(upcase.fold(name.units())) {
                return Some(name);
            }
        }
        None
    }

    /// Returns the first of `count` free slots in a row. If there are none, the root directory gets a further
    /// cluster.
    fn slots(&mut self, disk: &mut Disk, clusters: &mut Clusters, count: usize) -> Result<Option<usize>> {
        let mut free = 0;
        let mut at = self.next;
        loop {
            if at == self.listing.capacity() && !self.extend(disk, clusters)? {
                return Ok(None);
            }
            free = if self.listing.slot(at)[0] & 0x80 == 0 { free + 1 } else { 0 };
            at += 1;
            if free == count {
                let first = at - count;
                // Slots that were never used count as an end mark; those before the new entry are erased instead.
                for before in self.listing.end()..first {
                    self.listing.delete(disk, before..before + 1);
                }
                self.next = at;
                return Ok(Some(first));
            }
        }
    }

    fn extend(&mut self, disk: &mut Disk, clusters: &mut Clusters) -> Result<bool> {
        let bytes = (self.listing.capacity() * SLOT) as u64;
        if bytes >= crate::layout::LARGEST_DIRECTORY {
            return Ok(false);
        }
        let Some(new) = clusters.allocate(1)? else { return Ok(false) };
        let offset = clusters.heap.offset(new);
        let zeroes = vec![0; clusters.heap.cluster_size().min(1 << 20) as usize];
        for at in (0..clusters.heap.cluster_size()).step_by(zeroes.len()) {
            disk.write(offset + at, &zeroes)?;
        }
        clusters.set_chain(new, 1);
        clusters.set_link(self.last_cluster, new);
        self.last_cluster = new;
        self.listing.extend(offset);
        Ok(true)
    }
}

/// Adds an entry in the root directory for clusters, which are claimed already. Returns whether there was room.
fn add(
    disk: &mut Disk,
    clusters: &mut Clusters,
    report: &mut CheckReport,
    upcase: &Upcase,
    room: &mut Option<Room>,
    runs: &Runs,
    directory: bool,
) -> Result<bool> {
    if room.is_none() {
        *room = Some(Room::new(disk, clusters, upcase)?);
    }
    let room = room.as_mut().expect("made just now");
    let (first, count) = (runs.first(), runs.clusters());
    let length = u64::from(count) << clusters.heap.shift;
    let contiguous = runs.iter().count() == 1;
    let now = Stamp::from_timestamp(disk.device().now().into(), 0, Precision::TwoSeconds);
    let attributes = if directory { Attributes::DIRECTORY } else { DosFlags::ARCHIVE.0 as u16 };
    let info = FileInfo {
        attributes: Attributes(attributes),
        created: now,
        modified: now,
        accessed: now,
        contiguous,
        cluster: first,
        valid: length,
        length,
        additions: Vec::new(),
    };
    let (code, what, extension) = match directory {
        true => ("lost-directory", "a directory", "DIR"),
        false => ("lost-clusters", "what was a file or a part of one", "REC"),
    };
    let mut finding = |repaired, how: String| {
        let message = format!("{what}, {count} clusters from {first}, has no entry; {how}");
        // What stays lost is reported together.
        let severity = if repaired { Severity::Inconsistent } else { Severity::Notice };
        report.add(Finding { code, severity, path: None, message, repaired });
    };
    let set = match room.name(extension, upcase) {
        Some(name) => EntrySet::new(&name, &info, upcase),
        None => {
            finding(false, "the root directory has no name left for it".into());
            return Ok(false);
        }
    };
    let Some(at) = room.slots(disk, clusters, set.slots().len())? else {
        finding(false, "the root directory is full".into());
        return Ok(false);
    };
    if !contiguous {
        let all: Vec<u32> = runs.iter().flat_map(|run| run.cluster..run.cluster + run.count).collect();
        for pair in all.windows(2) {
            clusters.set_link(pair[0], pair[1]);
        }
        clusters.set_link(*all.last().unwrap_or(&first), Geometry::END);
    }
    room.listing.put(disk, at, &set);
    finding(true, format!("it comes back as {}", set.name()));
    Ok(true)
}
