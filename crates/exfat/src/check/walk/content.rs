//! The clusters of a file or directory: claimed as far as they are its own, and compared with its entry.

use super::links::{Broken, MOST_BROKEN};
use super::{FREE, Walk};
use crate::layout::{Attributes, EntrySet, FileInfo, LARGEST_DIRECTORY};
use platter_clusters::{Claims as _, Link, Stop, claim_chain};
use platter_vfs::{Name, Result, Severity};

/// The clusters of an entry as far as they are its own, and where they end.
struct EndOfChain<'a> {
    index: u32,
    name: &'a Name,
    slots: [u64; 2],
    is_sure: bool,
    set: &'a EntrySet,
    count: u32,
    last: u32,
    stop: Stop,
    /// Whether they are as many as the length of the entry needs.
    whole: bool,
}

/// How bad it is that this many bytes have no clusters.
fn severity_of(length: u64) -> Severity {
    if length == 0 { Severity::Inconsistent } else { Severity::DataLoss }
}

/// Leaves a file without clusters.
fn empty(info: &mut FileInfo) {
    (info.cluster, info.length, info.valid, info.contiguous) = (0, 0, 0, false);
}

impl Walk<'_, '_> {
    /// Checks the clusters of an entry, of which its checksum says whether it `is_sure`. Returns the values that the
    /// entry should have; `None` if the entry is to be removed.
    pub(super) fn content(
        &mut self,
        index: u32,
        set: &EntrySet,
        name: &Name,
        (slots, is_sure): ([u64; 2], bool),
    ) -> Result<Option<FileInfo>> {
        let mut info = set.info();
        let place = Some((index, Some(name)));
        for part in info.parts().collect::<Vec<_>>() {
            self.claim_part(part.contiguous, part.cluster, part.length)?;
        }
        if info.attributes.directory() && !self.looks_like_directory(&info, is_sure)? {
            let message = || "it is said to be a directory, but holds something else".to_owned();
            if self.find("not-a-directory", Severity::DataLoss, place, message) {
                info.attributes.0 &= !Attributes::DIRECTORY;
            }
        }
        let directory = info.attributes.directory();
        if !directory {
            self.findings.report.files += 1;
        }
        if info.valid > info.length || (directory && info.valid != info.length) {
            let message = || format!("{} bytes of {} are said to be written", info.valid, info.length);
            if self.find("valid-length", Severity::Inconsistent, place, message) {
                info.valid = info.length;
            }
        }
        let (first, length) = (info.cluster, info.length);
        let mut wanted = self.clusters.heap.clusters_for(length);
        if first == 0 {
            if length != 0 || info.contiguous {
                let message = || format!("{length} bytes without a cluster");
                if self.find("size-beyond-chain", severity_of(length), place, message) {
                    (info.length, info.valid, info.contiguous) = (0, 0, false);
                }
            }
            if directory {
                self.enter(index, name, &info, 0);
            }
            return Ok(Some(info));
        }
        let link = if self.clusters.heap.has(first) { Some(self.clusters.link(first)?) } else { None };
        let usable = match link {
            None => false,
            Some(Link::Bad) => info.contiguous,
            Some(Link::Free | Link::Invalid(_) | Link::Next(_) | Link::End) => true,
        };
        if !usable {
            let message = || {
                let why = if link.is_none() { "does not exist" } else { "is marked bad" };
                format!("{length} bytes start at cluster {first}, which {why}")
            };
            if self.find("bad-start", severity_of(length), place, message) {
                empty(&mut info);
            }
            return Ok(Some(info));
        }
        if wanted == 0 && !directory {
            let message = || format!("an empty file has clusters from {first}");
            if self.find("chain-too-long", Severity::Inconsistent, place, message) {
                empty(&mut info);
            }
            return Ok(Some(info));
        }
        if self.clusters.is_claimed(first) {
            return Ok(self.start_of_another(index, name, info));
        }
        let size = self.clusters.heap.cluster_size();
        if directory && (length == 0 || length % size != 0 || length > LARGEST_DIRECTORY) {
            let right = length.min(LARGEST_DIRECTORY).next_multiple_of(size).max(size);
            let message =
                || format!("a directory has a whole number of clusters up to 256 MiB, not {length} bytes");
            if self.find("directory-size", Severity::Inconsistent, place, message) {
                (info.length, info.valid) = (right, right);
            }
            wanted = self.clusters.heap.clusters_for(right);
        }
        self.clusters.claim(first);
        if !info.contiguous
            && wanted > 1
            && link == Some(Link::Free)
            && self.could_lie_together(first, wanted)
        {
            let message =
                || "its clusters lie together, but its entry says that the FAT links them".to_owned();
            if self.find("chain-flag", Severity::Inconsistent, place, message) {
                info.contiguous = true;
            }
        }
        let (count, last, stop) = match info.contiguous {
            true => self.run_of(first, wanted),
            false => claim_chain(self.clusters, first, wanted)?,
        };
        self.find_end((index, Some(name)), first, count, info.contiguous)?;
        let whole = u64::from(count) == wanted;
        self.end_of_chain(EndOfChain { index, name, slots, is_sure, set, count, last, stop, whole }, info)
    }

    /// Compares where the clusters of an entry end with its length, and goes on to what is inside a directory.
    fn end_of_chain(&mut self, chain: EndOfChain<'_>, mut info: FileInfo) -> Result<Option<FileInfo>> {
        let EndOfChain { index, name, slots, is_sure, set, count, last, stop, whole } = chain;
        let (place, length, directory) =
            (Some((index, Some(name))), set.info().length, info.attributes.directory());
        match stop {
            Stop::End if whole => {}
            Stop::More(next) => {
                let message = || format!("{length} bytes go on after cluster {last}, at {next}");
                self.find_cut(("chain-too-long", Severity::Inconsistent), place, last, message);
            }
            stop if whole => {
                let message = || format!("its last cluster, {last}, {}", stop.told(FREE));
                self.find_cut(("chain-without-end", Severity::Inconsistent), place, last, message);
            }
            stop => {
                let mut set = set.clone();
                set.set_info(&info);
                let broken = Broken { dir: index, name: name.clone(), slots, set, count, last, stop };
                if is_sure && !directory && self.broken.len() < MOST_BROKEN {
                    self.broken.push(broken);
                    return Ok(Some(info));
                }
                info = self.break_off(&broken);
                if let Stop::Claimed(_) = stop {
                    self.unsettled |= directory && self.findings.repair;
                    return Ok(Some(info));
                }
            }
        }
        if directory {
            self.enter(index, name, &info, count);
        }
        Ok(Some(info))
    }

    /// An entry whose first cluster is claimed: by another file, which is settled later, or by a directory above it.
    /// Returns as [`Walk::content`] does.
    fn start_of_another(&mut self, index: u32, name: &Name, mut info: FileInfo) -> Option<FileInfo> {
        let (first, length, place) = (info.cluster, info.length, Some((index, Some(name))));
        if !self.is_inside_itself(index, first) {
            self.contest(first);
            return Some(info);
        }
        if info.attributes.directory() {
            let message = || format!("it starts at cluster {first}, which is that of a directory above it");
            let gone = self.find("directory-loop", Severity::Inconsistent, place, message);
            return (!gone).then_some(info);
        }
        let message = || format!("{length} bytes start at cluster {first}, which is a directory's");
        if self.find("bad-start", Severity::DataLoss, place, message) {
            empty(&mut info);
        }
        Some(info)
    }

    /// Reports how many of these clusters are beyond the end of a device that was cut off.
    fn find_end(
        &mut self,
        place: (u32, Option<&Name>),
        first: u32,
        count: u32,
        contiguous: bool,
    ) -> Result<()> {
        if !self.disk.is_behind_end(self.disk.device().len(), 0) {
            return Ok(());
        }
        let (mut cluster, mut behind) = (first, 0);
        for _ in 0..count {
            let heap = self.clusters.heap;
            behind += u32::from(self.disk.is_behind_end(heap.offset(cluster), heap.cluster_size()));
            cluster = match contiguous {
                true => cluster + 1,
                false => match self.clusters.link(cluster)? {
                    Link::Next(next) => next,
                    _ => break,
                },
            };
        }
        if behind > 0 {
            let message = || format!("{behind} of its {count} clusters lie behind the end of the device");
            self.find("cut-off", Severity::DataLoss, Some(place), message);
        }
        Ok(())
    }

    /// Claims the clusters of an unknown entry, as far as no other file has claimed them.
    pub(super) fn claim_part(&mut self, contiguous: bool, first: u32, length: u64) -> Result<()> {
        let wanted = self.clusters.heap.clusters_for(length);
        if wanted > 0 && self.clusters.heap.has(first) && !self.clusters.is_claimed(first) {
            self.clusters.claim(first);
            match contiguous {
                true => drop(self.run_of(first, wanted)),
                false => drop(claim_chain(self.clusters, first, wanted)?),
            }
        }
        Ok(())
    }

    /// Claims consecutive clusters from `first` on, which is claimed already. Returns their number, the last of them,
    /// and why no more were claimed.
    fn run_of(&mut self, first: u32, most: u64) -> (u32, u32, Stop) {
        let mut last = first;
        for count in 1..most {
            let next = u64::from(first) + count;
            if next > u64::from(self.clusters.heap.last()) {
                return (count as u32, last, Stop::End);
            }
            let next = next as u32;
            if self.clusters.is_claimed(next) {
                return (count as u32, last, Stop::Claimed(next));
            }
            self.clusters.claim(next);
            last = next;
        }
        (most as u32, last, Stop::End)
    }

    /// Whether the clusters from `first` on can be a file's although the FAT does not link them: they are all taken
    /// in the bitmap, and no other file has claimed them.
    fn could_lie_together(&self, first: u32, wanted: u64) -> bool {
        let end = u64::from(first) + wanted;
        end <= u64::from(self.clusters.heap.last()) + 1
            && (first + 1..end as u32)
                .all(|cluster| self.clusters.is_set(cluster) && !self.clusters.is_claimed(cluster))
    }
}
