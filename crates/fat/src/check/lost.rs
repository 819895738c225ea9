//! Lost clusters: taken in the FAT, but used by no file.
//!
//! A lost chain becomes a file `FSCKnnnn.REC` in the root directory; a lost directory becomes, with everything below
//! it, `FSCKnnnn.DIR`. Only empty directories are deleted.

use super::listing::Listing;
use super::table::Table;
use crate::layout::{
    Attributes, DosTime, Geometry, LARGEST_FILE, Link, MOST_SLOTS, Precision, SLOT, ShortEntry, ShortName,
    Slot,
};
use platter_clusters::{Bits, Disk};
use platter_vfs::{CheckReport, Finding, Result, Severity};
use std::collections::{BTreeMap, HashSet};

/// The highest number of recovered entries; further lost chains are appended to the last file.
const MOST_NAMES: u32 = 10_000;

/// The code of findings of chains that belong to no file.
pub(super) const CODE: &str = "lost-chain";

/// The state that the search for lost chains works on.
pub(super) struct Lost<'a, 'd> {
    pub disk: &'a mut Disk<'d>,
    pub geometry: &'a Geometry,
    pub table: &'a mut Table,
    /// The clusters that files and directories use.
    pub claimed: &'a mut Bits,
    pub report: &'a mut CheckReport,
    pub repair: bool,
}

#[derive(Clone, Copy)]
struct Chain {
    first: u32,
    last: u32,
    count: u64,
}

impl Lost<'_, '_> {
    /// Reports lost chains, and in a repair gives them entries in the root directory.
    pub(super) fn recover(&mut self) -> Result<()> {
        let directories = self.directories()?;
        let mut room = Room::new(self)?;
        if self.repair && !directories.is_empty() {
            // Clusters below the recovered directories are not lost any more; the next round finds out which.
            return self.reconnect(&directories, &mut room);
        }
        let mut seen = Bits::new(self.geometry.clusters + 2);
        let pointed = self.pointed();
        let clusters = 2..=self.geometry.last_cluster();
        // First the chains with a first cluster that no other leads to; the clusters left after that form loops.
        for heads in [true, false] {
            for cluster in clusters.clone() {
                if !self.is_lost(cluster) || seen.get(cluster) || (heads && pointed.get(cluster)) {
                    continue;
                }
                let mut next = Some(cluster);
                while let Some(first) = next {
                    let (chain, rest) = self.chain(first, &mut seen);
                    self.file(chain, &mut room)?;
                    next = rest;
                }
            }
        }
        room.finish(self);
        Ok(())
    }

    fn is_lost(&self, cluster: u32) -> bool {
        !self.claimed.get(cluster)
            && !matches!(self.table.link(self.geometry, cluster), Link::Free | Link::Bad)
    }

    /// Returns the clusters that a lost cluster leads to.
    fn pointed(&self) -> Bits {
        let mut pointed = Bits::new(self.geometry.clusters + 2);
        for cluster in (2..=self.geometry.last_cluster()).filter(|&cluster| self.is_lost(cluster)) {
            if let Link::Next(next) = self.table.link(self.geometry, cluster) {
                pointed.set(next);
            }
        }
        pointed
    }

    /// Returns the lost chain from `first` on, and the cluster after it if the chain is too long for one file.
    fn chain(&self, first: u32, seen: &mut Bits) -> (Chain, Option<u32>) {
        let most = LARGEST_FILE / u64::from(self.geometry.cluster_size);
        let mut chain = Chain { first, last: first, count: 1 };
        seen.set(first);
        loop {
            match self.table.link(self.geometry, chain.last) {
                Link::Next(next) if self.is_lost(next) && !seen.get(next) => {
                    if chain.count == most {
                        return (chain, Some(next));
                    }
                    seen.set(next);
                    chain.last = next;
                    chain.count += 1;
                }
                _ => return (chain, None),
            }
        }
    }

    fn report(&mut self, code: &'static str, repaired: bool, message: String) {
        let severity = Severity::Inconsistent;
        self.report.add(Finding { code, severity, path: None, message, repaired });
    }

    // Directories

    /// Returns the first clusters of lost directories, each with the cluster that its ".." names and whether it is
    /// empty.
    fn directories(&self) -> Result<BTreeMap<u32, (u32, bool)>> {
        let mut found = BTreeMap::new();
        let pointed = self.pointed();
        for cluster in 2..=self.geometry.last_cluster() {
            if !self.is_lost(cluster) || pointed.get(cluster) {
                continue;
            }
            let mut slots = [[0; SLOT]; 2];
            let offset = self.geometry.cluster_offset(cluster);
            self.disk.read_slots(offset, slots.as_flattened_mut())?;
            let [Slot::Short(dot), Slot::Short(above)] = slots.map(|slot| Slot::from_bytes(&slot)) else {
                continue;
            };
            let start = self.geometry.first_cluster(&dot);
            if dot.name != ShortName::DOT
                || !dot.attributes.directory()
                || start != cluster
                || above.name != ShortName::DOT_DOT
                || !above.attributes.directory()
            {
                continue;
            }
            let count = self.directory_chain(cluster).len() as u32;
            let listing = Listing::read(self.disk, self.geometry, self.table, cluster, count)?;
            let empty = (2..listing.end()).all(|at| !listing.is_live(at));
            found.insert(cluster, (self.geometry.first_cluster(&above), empty));
        }
        Ok(found)
    }

    /// Returns the lost chain from `first` on, up to the size that a directory can have.
    fn directory_chain(&self, first: u32) -> Vec<u32> {
        let most = self.geometry.clusters_for(u64::from(MOST_SLOTS) * SLOT as u64) as usize;
        let mut chain = vec![first];
        while chain.len() < most
            && let Link::Next(next) = self.table.link(self.geometry, chain[chain.len() - 1])
            && self.is_lost(next)
            && next != first
        {
            chain.push(next);
        }
        chain
    }

    fn reconnect(&mut self, directories: &BTreeMap<u32, (u32, bool)>, room: &mut Room) -> Result<()> {
        // A directory whose parent is lost too is recovered with its parent, unless the parents form a loop.
        let is_top = |(_, (above, _)): &(&u32, &(u32, bool))| !directories.contains_key(above);
        let mut top: Vec<_> = directories.iter().filter(is_top).collect();
        if top.is_empty() {
            top.extend(directories.iter().next());
        }
        for (&cluster, &(_, empty)) in top {
            if empty {
                for cluster in self.directory_chain(cluster) {
                    self.table.set(cluster, 0);
                }
                self.report(
                    "lost-directory",
                    true,
                    format!("an empty directory at cluster {cluster} has no entry"),
                );
                continue;
            }
            let entry = ShortEntry {
                attributes: Attributes(Attributes::DIRECTORY),
                cluster,
                ..ShortEntry::default()
            };
            let name = room.add(self, b"DIR", entry)?;
            let what = format!("a directory at cluster {cluster} has no entry");
            match name {
                Some(name) => self.report(
                    "lost-directory",
                    true,
                    format!("{what}; it comes back as {}", name.to_name(0)),
                ),
                None => {
                    self.report("lost-directory", false, format!("{what}, and the root directory is full"))
                }
            }
        }
        Ok(())
    }

    // Files

    fn file(&mut self, chain: Chain, room: &mut Room) -> Result<()> {
        let Chain { first, last, count } = chain;
        let what = format!("{count} clusters from {first} belong to no file");
        if !self.repair {
            self.report(CODE, false, what);
            return Ok(());
        }
        let bytes = count * u64::from(self.geometry.cluster_size);
        let entry = ShortEntry {
            attributes: Attributes(Attributes::ARCHIVE),
            cluster: first,
            size: bytes as u32,
            ..ShortEntry::default()
        };
        let end = self.geometry.kind.end();
        if let Some(name) = room.add(self, b"REC", entry)? {
            self.table.set(last, end);
            room.last = Some((last, bytes));
            self.report(CODE, true, format!("{what}; they become {}", name.to_name(0)));
        } else if let Some((before, size)) = room.last
            && size + bytes <= LARGEST_FILE
        {
            self.table.set(before, first);
            self.table.set(last, end);
            room.last = Some((last, size + bytes));
            self.report(CODE, true, format!("{what}; they are appended to the last recovered file"));
        } else {
            self.report(CODE, false, format!("{what}, and the root directory is full"));
        }
        Ok(())
    }
}

/// The root directory's free slots and names, for new entries.
struct Room {
    listing: Listing,
    /// The slot from which to search for a free one.
    next: usize,
    /// The last cluster of the root directory; 0 if it is fixed.
    last_cluster: u32,
    names: HashSet<ShortName>,
    number: u32,
    /// The slot and the entry of the last file that was added.
    file: Option<(u64, ShortEntry)>,
    /// The last cluster and the size of that file.
    last: Option<(u32, u64)>,
}

impl Room {
    fn new(lost: &Lost) -> Result<Room> {
        let root = lost.geometry.root_cluster;
        let (mut last_cluster, mut count) = (root, 0);
        if root != 0 {
            count = 1;
            while let Link::Next(next) = lost.table.link(lost.geometry, last_cluster)
                && count < lost.geometry.clusters
            {
                last_cluster = next;
                count += 1;
            }
        }
        let listing = Listing::read(lost.disk, lost.geometry, lost.table, root, count)?;
        let names = (0..listing.end())
            .filter_map(|at| match Slot::from_bytes(&listing.slot(at)) {
                Slot::Short(short) => Some(short.name),
                _ => None,
            })
            .collect();
        Ok(Room { listing, next: 0, last_cluster, names, number: 0, file: None, last: None })
    }

    /// Adds an entry under a new name, which is returned; `None` if there is no room.
    fn add(&mut self, lost: &mut Lost, extension: &[u8; 3], entry: ShortEntry) -> Result<Option<ShortName>> {
        let name = loop {
            if self.number == MOST_NAMES {
                return Ok(None);
            }
            let mut name = [b' '; 11];
            name[..8].copy_from_slice(format!("FSCK{:04}", self.number).as_bytes());
            name[8..].copy_from_slice(extension);
            self.number += 1;
            if self.names.insert(ShortName(name)) {
                break ShortName(name);
            }
        };
        while self.next < self.listing.len() && self.listing.is_live(self.next) {
            self.next += 1;
        }
        if self.next == self.listing.len() && !self.extend(lost)? {
            self.number = MOST_NAMES;
            return Ok(None);
        }
        let now = lost.disk.device().now().into();
        let modified = DosTime::from_timestamp(now, 0, Precision::TwoSeconds);
        let entry = ShortEntry { name, modified, created: modified, accessed: modified, ..entry };
        self.finish(lost);
        self.last = None;
        if !entry.attributes.directory() {
            self.file = Some((self.listing.offset(self.next), entry.clone()));
        }
        self.listing.change(lost.disk, self.next, entry.to_bytes());
        self.next += 1;
        Ok(Some(name))
    }

    /// Adds a cluster to the root directory, if it can grow. Returns whether it did.
    fn extend(&mut self, lost: &mut Lost) -> Result<bool> {
        if self.last_cluster == 0 || self.listing.len() >= MOST_SLOTS as usize {
            return Ok(false);
        }
        let mut clusters = 2..=lost.geometry.last_cluster();
        let free = |&cluster: &u32| lost.table.get(cluster) == 0 && !lost.claimed.get(cluster);
        let Some(new) = clusters.find(free) else { return Ok(false) };
        let size = lost.geometry.cluster_size as usize;
        lost.disk.write(lost.geometry.cluster_offset(new), &vec![0; size])?;
        lost.table.set(new, lost.geometry.kind.end());
        lost.table.set(self.last_cluster, new);
        lost.claimed.set(new);
        self.last_cluster = new;
        self.listing.extend(lost.geometry, new);
        Ok(true)
    }

    /// Writes the size of the last file, to which further chains were appended.
    fn finish(&mut self, lost: &mut Lost) {
        if let (Some((slot, entry)), Some((_, size))) = (self.file.take(), self.last)
            && size != u64::from(entry.size)
        {
            lost.disk.edit(slot, ShortEntry { size: size as u32, ..entry }.to_bytes());
        }
    }
}
