//! The clusters of an entry: a directory is noted for the walk, a file's chain is claimed as far as it is the file's
//! own.

use super::{Dir, FREE, Lead, Walk};
use crate::check::listing::Listing;
use crate::layout::{LARGEST_FILE, Link, ShortEntry};
use platter_clusters::{Stop, claim_chain};
use platter_vfs::{Name, Result, Severity};

/// The directory that an entry is in, and its name.
type Named<'n> = (u32, &'n Name);

/// What the entry of a file is to say.
struct Right {
    start: u32,
    size: u64,
}

impl Right {
    const EMPTY: Right = Right { start: 0, size: 0 };
}

impl Walk<'_, '_> {
    pub(super) fn subdirectory(
        &mut self,
        index: u32,
        listing: &mut Listing,
        at: usize,
        mut short: ShortEntry,
        name: Name,
    ) {
        let start = self.geometry.first_cluster(&short);
        let place = Some((index, Some(&name)));
        if short.size != 0 {
            let message = || format!("a directory has size 0, not {}", short.size);
            if self.find("directory-size", Severity::Inconsistent, place, message) {
                short.size = 0;
                listing.change(self.disk, at, short.to_bytes());
            }
        }
        if !self.geometry.has_cluster(start) || self.table.link(self.geometry, start) == Link::Bad {
            let message = || format!("a directory cannot start at cluster {start}");
            if self.find("bad-start", Severity::DataLoss, place, message) {
                listing.delete(self.disk, at..at + 1);
            }
            return;
        }
        if self.claimed.get(start) {
            self.contest(start);
            return;
        }
        self.claimed.set(start);
        let dir =
            Dir { parent: index, first: start, count: 0, slot: listing.offset(at), name, is_damaged: false };
        self.todo.push(self.dirs.len() as u32);
        self.dirs.push(dir);
    }

    pub(super) fn file(
        &mut self,
        index: u32,
        listing: &mut Listing,
        at: usize,
        mut short: ShortEntry,
        name: &Name,
    ) -> Result<()> {
        self.findings.report.files += 1;
        let (start, size) = (self.geometry.first_cluster(&short), u64::from(short.size));
        if let Some(right) = self.claim_file((index, name), start, size)? {
            short.cluster = right.start;
            short.size = right.size.min(LARGEST_FILE) as u32;
            listing.change(self.disk, at, short.to_bytes());
        }
        Ok(())
    }

    /// Claims the clusters of a file from its first one on. Returns what its entry is to say, if a repair changes that.
    fn claim_file(&mut self, (index, name): Named<'_>, start: u32, size: u64) -> Result<Option<Right>> {
        let place = Some((index, Some(name)));
        let wanted = self.geometry.clusters_for(size);
        if start == 0 {
            let message = || format!("a file of {size} bytes has no clusters");
            let is_emptied = size != 0 && self.find("size-beyond-chain", Severity::DataLoss, place, message);
            return Ok(is_emptied.then_some(Right::EMPTY));
        }
        let link = self.geometry.has_cluster(start).then(|| self.table.link(self.geometry, start));
        // A file of one cluster is read without the FAT. Its cluster is kept although the FAT marks it as free.
        let is_all_free = wanted == 1 && link == Some(Link::Free);
        if !is_all_free && !matches!(link, Some(Link::Next(_) | Link::End | Link::Invalid(_))) {
            let severity = if size == 0 { Severity::Inconsistent } else { Severity::DataLoss };
            let message = || {
                let why = match link {
                    None => "does not exist",
                    Some(Link::Free) => "is free",
                    _ => "is marked bad",
                };
                format!("a file of {size} bytes starts at cluster {start}, which {why}")
            };
            return Ok(self.find("bad-start", severity, place, message).then_some(Right::EMPTY));
        }
        let is_others = self.claimed.get(start);
        if wanted == 0 {
            let message = || match is_others {
                true => format!("an empty file starts at cluster {start}, which is another's"),
                false => format!("an empty file has clusters from {start}"),
            };
            let repaired = self.find("chain-too-long", Severity::Inconsistent, place, message);
            if !is_others {
                self.tails.push((start, repaired));
            }
            return Ok(repaired.then_some(Right::EMPTY));
        }
        if is_others {
            self.contest(start);
            return Ok(None);
        }
        self.claimed.set(start);
        let chain = claim_chain(self, start, wanted)?;
        self.find_end((index, Some(name)), start, chain.0);
        Ok(self.end_of_file((index, name), (start, size), wanted, chain))
    }

    /// Judges where the clusters of a file end: how many there are, which is the last, and why it is. Returns what its entry
    /// is to say, if a repair changes that.
    fn end_of_file(
        &mut self,
        (index, name): Named<'_>,
        (start, size): (u32, u64),
        wanted: u64,
        (count, last, stop): (u32, u32, Stop),
    ) -> Option<Right> {
        let place = Some((index, Some(name)));
        let count = u64::from(count);
        let held = count * u64::from(self.geometry.cluster_size);
        let as_held = Right { start, size: held };
        match stop {
            Stop::End if count == wanted => {}
            Stop::End => {
                let message = || format!("a file of {size} bytes has clusters for {held}");
                let is_cut = self.find("size-beyond-chain", Severity::DataLoss, place, message);
                return is_cut.then_some(as_held);
            }
            Stop::More(next) => {
                let message = || format!("a file of {size} bytes goes on after cluster {last}, at {next}");
                let repaired = self.find("chain-too-long", Severity::Inconsistent, place, message);
                if repaired {
                    self.cut(last);
                }
                self.tails.push((next, repaired));
            }
            stop if count == wanted => {
                let message = || format!("the last cluster of the file, {last}, {}", stop.told(FREE));
                if self.find("chain-without-end", Severity::Inconsistent, place, message) {
                    self.cut(last);
                }
            }
            Stop::Claimed(next) => {
                let message = || format!("the file shares clusters from {next} with another");
                self.share((index, name), (Lead::Cluster(last), next, wanted - count), message);
            }
            stop => {
                let why = stop.told(FREE);
                let message =
                    || format!("a file of {size} bytes breaks off after {held}: cluster {last} {why}");
                if self.find(stop.code(), Severity::DataLoss, place, message) {
                    self.cut(last);
                    return Some(as_held);
                }
            }
        }
        None
    }
}
