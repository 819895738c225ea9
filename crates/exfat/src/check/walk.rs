//! The walk over all directories and what lies in them.
//!
//! It claims every cluster that a file or directory has a right to, notes what is wrong, and, when it may repair,
//! changes slots and FAT entries in memory. Copies of clusters that two files share wait until the whole tree was
//! seen, because only then is it known whose a cluster is.

use super::clusters::Clusters;
use super::listing::Listing;
use super::names::{Names, is_allowed};
use super::system::System;
use crate::layout::{
    Attributes, EntrySet, Fault, FileInfo, Geometry, LARGEST_DIRECTORY, Primary, SLOT, UNITS_IN_NAME, Upcase,
    is_benign, kind, set_checksum,
};
use platter_clusters::{Claims, Disk, Link, Stop, claim_chain, is_inside, path_of};
use platter_vfs::{CheckReport, Finding, Name, Progress, Result, Severity};
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
}

/// A file or directory whose clusters are partly another's, or all of which are.
pub struct Shared {
    /// Device offsets of its first two slots.
    pub slots: [u64; 2],
    pub set: EntrySet,
    /// How many of its clusters are its own.
    pub own: u32,
}

/// The most directory slots that one round changes, and the most shared clusters it looks into: a bound on memory.
/// What is over waits for the next round.
pub const MOST_CHANGES: usize = 1 << 20;
/// What 0 in the FAT means of a cluster in a chain: which clusters are free the bitmap says.
const FREE: &str = "has the FAT entry 0";

/// A walk and what it found.
pub struct Walk<'a, 'd> {
    pub disk: &'a mut Disk<'d>,
    pub clusters: &'a mut Clusters<'d>,
    pub report: &'a mut CheckReport,
    pub progress: &'a dyn Progress,
    pub repair: bool,
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
    /// Whether there was more to repair than one round may.
    pub postponed: bool,
    /// Whether something was not looked into until another thing is settled.
    pub unsettled: bool,
}

impl<'a, 'd> Walk<'a, 'd> {
    #[allow(clippy::too_many_arguments)] // Called once, by the round that it belongs to.
    pub fn new(
        disk: &'a mut Disk<'d>,
        clusters: &'a mut Clusters<'d>,
        report: &'a mut CheckReport,
        progress: &'a dyn Progress,
        repair: bool,
        upcase: Arc<Upcase>,
        system: System,
    ) -> Walk<'a, 'd> {
        Walk {
            disk,
            clusters,
            report,
            progress,
            repair,
            upcase,
            system,
            dirs: Vec::new(),
            todo: Vec::new(),
            contested: BTreeSet::new(),
            shared: Vec::new(),
            cuts: Vec::new(),
            postponed: false,
            unsettled: false,
        }
    }

    /// Walks from the root.
    pub fn run(&mut self) -> Result<()> {
        let first = self.clusters.geometry.root_cluster;
        let most = (LARGEST_DIRECTORY >> self.clusters.heap.shift).max(1);
        let (count, last, stop) = claim_chain(self.clusters, first, most)?;
        let root = Dir { parent: 0, first, count, contiguous: false, name: Name::from_units(&[]) };
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
            self.report.directories += 1;
            if self.report.directories.is_multiple_of(64) {
                self.progress.progress("checking directories", self.clusters.claimed(), total);
            }
        }
        self.progress.progress("checking directories", total, total);
        Ok(())
    }

    /// The path of a directory, or of an entry in it.
    pub fn path(&self, dir: u32, name: Option<&Name>) -> String {
        path_of(dir, name, |at| (self.dirs[at as usize].parent, &self.dirs[at as usize].name))
    }

    /// Reports something that is put right if the walk repairs. Whether it does is the answer.
    pub fn find(
        &mut self,
        code: &'static str,
        severity: Severity,
        path: Option<(u32, Option<&Name>)>,
        message: impl FnOnce() -> String,
    ) -> bool {
        let room = self.disk.edits() + self.contested.len() + self.shared.len() < MOST_CHANGES;
        let repaired = self.repair && room;
        self.postponed |= self.repair && !room;
        let kept = self.report.findings.len() < CheckReport::KEPT;
        self.report.add(Finding {
            code,
            severity,
            path: path.filter(|_| kept).map(|(dir, name)| self.path(dir, name)),
            message: if kept { message() } else { String::new() },
            repaired,
        });
        repaired
    }

    /// Reads a directory that was reached.
    pub fn listing(&mut self, dir: u32) -> Result<Listing> {
        let Dir { first, count, contiguous, .. } = self.dirs[dir as usize];
        Listing::read(self.disk, self.clusters, first, count, contiguous)
    }

    // Clusters

    /// Claims clusters that lie together from `first`, which is claimed already.
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

    /// Whether clusters that the FAT does not link can be a file's all the same: they lie together, are taken, and
    /// nobody else's.
    fn could_lie_together(&self, first: u32, wanted: u64) -> bool {
        let end = u64::from(first) + wanted;
        end <= u64::from(self.clusters.heap.last()) + 1
            && (first + 1..end as u32)
                .all(|cluster| self.clusters.is_set(cluster) && !self.clusters.is_claimed(cluster))
    }

    // Directories

    fn directory(&mut self, index: u32) -> Result<()> {
        let mut listing = self.listing(index)?;
        self.after_end(index, &mut listing);
        self.entries(index, &mut listing)
    }

    /// Sees to what stands after the end mark, where nothing should.
    ///
    /// If it is sound, a slot in the middle was wiped, and what follows is given back. Else it is what some systems
    /// leave in the clusters they take for a directory.
    fn after_end(&mut self, index: u32, listing: &mut Listing) {
        let end = listing.end();
        let after = end..listing.slots().len();
        if after.is_empty() {
            return;
        }
        let (mut sets, mut other, mut at) = (0, 0, end);
        while at < after.end {
            let rest = &listing.slots()[at..];
            at += match Primary::of(&rest[0]) {
                Primary::End | Primary::Unused => 1,
                _ => match EntrySet::read(rest, &self.upcase) {
                    Ok(set) => {
                        sets += 1;
                        set.slots().len()
                    }
                    Err(_) => {
                        other += 1;
                        1
                    }
                },
            };
        }
        let message = || {
            let what = format!("{sets} sound entries, which are kept, and {other} others");
            format!("slot {end} says that nothing follows, but up to slot {} there are {what}", after.end - 1)
        };
        let severity = if sets + other > 0 { Severity::Inconsistent } else { Severity::Notice };
        if !self.find("entries-after-end", severity, Some((index, None)), message) {
            return;
        }
        for at in after {
            match sets > 0 {
                true if listing.slot(at)[0] & 0x7F == 0 => listing.delete(self.disk, at..at + 1),
                true => {}
                false => listing.change(self.disk, at, [0; SLOT]),
            }
        }
    }

    fn entries(&mut self, index: u32, listing: &mut Listing) -> Result<()> {
        let mut names = Names::default();
        let (mut label, mut guid) = (false, false);
        let mut at = 0;
        while at < listing.end() {
            let here = at;
            let slot = listing.slot(here);
            at += 1;
            match Primary::of(&slot) {
                Primary::End => break,
                Primary::Unused => {}
                Primary::File => at = self.set(index, listing, &mut names, here)?,
                Primary::Secondary(other) => {
                    let message =
                        || format!("slot {here}, of type {other:02X}, belongs to no entry before it");
                    if self.find("orphan-entry", Severity::Inconsistent, Some((index, None)), message) {
                        listing.delete(self.disk, here..here + 1);
                    }
                }
                Primary::Other(kind::LABEL) if index == 0 && !label => {
                    label = true;
                    if slot[1] > 11 {
                        let message =
                            || format!("the label has {} units, of which there are at most 11", slot[1]);
                        if self.find("bad-label", Severity::Inconsistent, Some((index, None)), message) {
                            let mut slot = slot;
                            slot[1] = 11;
                            listing.change(self.disk, here, slot);
                        }
                    }
                }
                Primary::Other(kind::GUID) if index == 0 && !guid && slot[1] == 0 => {
                    guid = true;
                    let sum = set_checksum(&[slot]).to_le_bytes();
                    if slot[2..4] != sum {
                        let message = || "the checksum of the volume's GUID is wrong".to_owned();
                        if self.find("set-checksum", Severity::Inconsistent, Some((index, None)), message) {
                            let mut slot = slot;
                            slot[2..4].copy_from_slice(&sum);
                            listing.change(self.disk, here, slot);
                        }
                    }
                }
                Primary::Other(other) if index == 0 && self.system.has(here) && other != kind::GUID => {}
                Primary::Other(other)
                    if is_benign(other) && other != kind::GUID && is_whole(&listing.slots()[here..]) =>
                {
                    at = self.benign(listing, here)?;
                }
                Primary::Other(other) => {
                    let message = || format!("slot {here}, of type {other:02X}, has no place there");
                    if self.find("misplaced-entry", Severity::Inconsistent, Some((index, None)), message) {
                        listing.delete(self.disk, here..here + 1);
                    }
                }
            }
        }
        Ok(())
    }

    /// A primary entry that is not known and may stay: its clusters are its own (8.2). The slot after its set is the
    /// answer.
    fn benign(&mut self, listing: &Listing, at: usize) -> Result<usize> {
        let mut end = at + 1;
        let count = usize::from(listing.slot(at)[1]);
        while end <= at + count
            && let Primary::Secondary(_) = Primary::of(&listing.slot(end))
        {
            end += 1;
        }
        for number in at..end {
            // 6.3.4 has 16 bits of flags after the checksum, 6.4.2 eight after the type.
            let slot = listing.slot(number);
            let flags = if number == at { slot[4] } else { slot[1] };
            let mut info = FileInfo::from_slots(&[0; SLOT], &slot);
            info.contiguous = flags & 2 != 0;
            if flags & 1 != 0 {
                self.claim_part(info.contiguous, info.cluster, info.length)?;
            }
        }
        Ok(end)
    }

    /// Claims the clusters of something that is not known, as far as they are nobody's.
    fn claim_part(&mut self, contiguous: bool, first: u32, length: u64) -> Result<()> {
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

    // Entries

    /// The set that begins in a slot; the slot after it is the answer.
    fn set(&mut self, index: u32, listing: &mut Listing, names: &mut Names, at: usize) -> Result<usize> {
        let end = listing.end();
        let rest = &listing.slots()[at..end];
        let (set, fault) = match EntrySet::read(rest, &self.upcase) {
            Ok(set) => (set, None),
            Err(fault) => match self.salvaged(rest, fault) {
                Some(set) => (set, Some(fault)),
                None => return Ok(self.torn(index, listing, at, fault)),
            },
        };
        let after = at + set.slots().len();
        if let Some(Fault::Unknown(_)) = fault {
            // It stays as it is, with all that it has (8.2).
            let info = set.info();
            self.claim_part(info.contiguous, info.cluster, info.length)?;
            for part in info.parts() {
                self.claim_part(part.contiguous, part.cluster, part.length)?;
            }
            names.insert(&set.name(), &self.upcase);
            return Ok(after);
        }
        let oddities = oddities(self.clusters, &set, &self.upcase);
        if matches!(fault, Some(fault) if fault != Fault::Hash) && oddities >= 2 {
            return Ok(self.torn(index, listing, at, fault.unwrap_or(Fault::Checksum)));
        }
        let mut right = set.clone();
        let shown = set.name();
        if let Some(fault) = fault {
            let (code, what) = match fault {
                Fault::Checksum => ("set-checksum", "the checksum of its entries is wrong"),
                Fault::Hash => ("name-hash", "the hash of its name is wrong"),
                _ => ("set-damaged", "its entries were damaged"),
            };
            if self.find(code, Severity::Inconsistent, Some((index, Some(&shown))), || what.into()) {
                right.rehash(&self.upcase);
            }
        }
        if !right.may_have_clusters() {
            let message = || "its stream extension says that it can have no clusters".to_owned();
            if self.find("bad-flags", Severity::Inconsistent, Some((index, Some(&shown))), message) {
                right.set_info(&set.info());
            }
        }
        self.name(index, names, &mut right, &shown);
        let offsets = [listing.offset(at), listing.offset(at + 1)];
        let info = self.content(index, &right, &shown, offsets)?;
        if let Some(info) = info {
            right.set_info(&info);
        } else {
            // It has no content of its own and no right to a name.
            if self.repair {
                listing.delete(self.disk, at..after);
            }
            return Ok(after);
        }
        if self.repair {
            listing.put(self.disk, at, &right);
        }
        Ok(after)
    }

    /// A set that can be believed although something is wrong with it.
    fn salvaged(&self, rest: &[[u8; SLOT]], fault: Fault) -> Option<EntrySet> {
        if let Ok(set) = EntrySet::read_loosely(rest) {
            return Some(set);
        }
        // The count may be what is wrong: then name and hash say that the rest belongs together.
        let stream = rest.get(1).filter(|slot| slot[0] == kind::STREAM && fault != Fault::Stream)?;
        let parts = usize::from(stream[3]).div_ceil(UNITS_IN_NAME);
        let mut slots = rest.get(..2 + parts)?.to_vec();
        slots[0][1] = (1 + parts) as u8;
        let mut set = EntrySet::read_loosely(&slots).ok()?;
        let hash = set.hash();
        set.rehash(&self.upcase);
        (set.hash() == hash).then_some(set)
    }

    /// A set that is not whole. The slot after it is the answer.
    fn torn(&mut self, index: u32, listing: &mut Listing, at: usize, fault: Fault) -> usize {
        let mut end = at + 1;
        while end < listing.end()
            && let Primary::Secondary(_) = Primary::of(&listing.slot(end))
        {
            end += 1;
        }
        let message =
            || format!("slots {at} to {} are what is left of a file's entries ({fault:?})", end - 1);
        if self.find("torn-set", Severity::DataLoss, Some((index, None)), message) {
            listing.delete(self.disk, at..end);
        }
        end
    }

    /// Sees to an entry's name: allowed, and different from all others in the directory.
    fn name(&mut self, index: u32, names: &mut Names, set: &mut EntrySet, shown: &Name) {
        let place = Some((index, Some(shown)));
        let written = set.written_name();
        if written != *shown {
            let (stated, found) = (shown.units().len(), written.units().len());
            let message = || format!("its name is said to have {stated} units, and {found} stand there");
            if self.find("name-length", Severity::Inconsistent, place, message) {
                let longer = crate::layout::name_hash(written.units(), &self.upcase) == set.hash();
                set.set_name(if longer { &written } else { shown }, &self.upcase);
            }
        }
        let shown = &set.name();
        let place = Some((index, Some(shown)));
        let wrong = if !is_allowed(shown) {
            Some(("bad-name", "the name has characters that it may not"))
        } else if !names.insert(shown, &self.upcase) {
            // Two names for one thing: which of them stays is decided when all is known.
            let first = set.info().cluster;
            match first != 0 && self.clusters.heap.has(first) && self.clusters.is_claimed(first) {
                true => None,
                false => Some(("duplicate-name", "the name is there twice")),
            }
        } else {
            None
        };
        if let Some((code, what)) = wrong
            && self.find(code, Severity::Inconsistent, place, || what.into())
        {
            let other = names.other(shown, &self.upcase);
            names.insert(&other, &self.upcase);
            set.set_name(&other, &self.upcase);
        }
    }

    /// Sees to what an entry has. What it should say is the answer; nothing, if it should not be.
    fn content(
        &mut self,
        index: u32,
        set: &EntrySet,
        name: &Name,
        slots: [u64; 2],
    ) -> Result<Option<FileInfo>> {
        let mut info = set.info();
        let place = Some((index, Some(name)));
        for part in info.parts().collect::<Vec<_>>() {
            self.claim_part(part.contiguous, part.cluster, part.length)?;
        }
        if info.attributes.directory() && !self.looks_like_directory(&info)? {
            let message = || "it is said to be a directory, but holds something else".to_owned();
            if self.find("not-a-directory", Severity::DataLoss, place, message) {
                info.attributes.0 &= !Attributes::DIRECTORY;
            }
        }
        let directory = info.attributes.directory();
        if !directory {
            self.report.files += 1;
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
                let severity = if length == 0 { Severity::Inconsistent } else { Severity::DataLoss };
                let message = || format!("{length} bytes without a cluster");
                if self.find("size-beyond-chain", severity, place, message) {
                    (info.length, info.valid, info.contiguous) = (0, 0, false);
                }
            }
            if directory {
                self.enter(index, name, &info, 0);
            }
            return Ok(Some(info));
        }
        let empty = |info: &mut FileInfo| {
            (info.cluster, info.length, info.valid, info.contiguous) = (0, 0, 0, false);
        };
        let link = if self.clusters.heap.has(first) { Some(self.clusters.link(first)?) } else { None };
        let usable = match link {
            None => false,
            Some(Link::Bad) => info.contiguous,
            Some(Link::Free | Link::Invalid(_) | Link::Next(_) | Link::End) => true,
        };
        if !usable {
            let severity = if length == 0 { Severity::Inconsistent } else { Severity::DataLoss };
            let message = || {
                let why = if link.is_none() { "does not exist" } else { "is marked bad" };
                format!("{length} bytes start at cluster {first}, which {why}")
            };
            if self.find("bad-start", severity, place, message) {
                empty(&mut info);
            }
            return Ok(Some(info));
        }
        if self.clusters.is_claimed(first) {
            if self.is_inside_itself(index, first) {
                let message =
                    || format!("it starts at cluster {first}, which is that of a directory above it");
                let gone = self.find("directory-loop", Severity::Inconsistent, place, message);
                return Ok(if gone { None } else { Some(info) });
            }
            self.contest(first);
            return Ok(Some(info));
        }
        let size = self.clusters.heap.cluster_size();
        if directory && (length == 0 || length % size != 0 || length > LARGEST_DIRECTORY) {
            let right = length.next_multiple_of(size).clamp(size, LARGEST_DIRECTORY.max(size));
            let message =
                || format!("a directory has a whole number of clusters up to 256 MiB, not {length} bytes");
            if self.find("directory-size", Severity::Inconsistent, place, message) {
                (info.length, info.valid) = (right, right);
            }
            wanted = self.clusters.heap.clusters_for(right);
        }
        if wanted == 0 {
            let message = || format!("an empty file has clusters from {first}");
            if self.find("chain-too-long", Severity::Inconsistent, place, message) {
                empty(&mut info);
            }
            return Ok(Some(info));
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
        let held = u64::from(count) << self.clusters.heap.shift;
        let whole = u64::from(count) == wanted;
        match stop {
            Stop::End if whole => {}
            Stop::More(next) => {
                let message = || format!("{length} bytes go on after cluster {last}, at {next}");
                if self.find("chain-too-long", Severity::Inconsistent, place, message) {
                    self.cuts.push(last);
                }
            }
            stop if whole => {
                let message = || format!("its last cluster, {last}, {}", stop.told(FREE));
                if self.find("chain-without-end", Severity::Inconsistent, place, message) {
                    self.cuts.push(last);
                }
            }
            Stop::Claimed(next) => {
                let message = || format!("it shares clusters from {next} with another");
                if self.find("cross-link", Severity::DataLoss, place, message) {
                    let mut set = set.clone();
                    set.set_info(&info);
                    self.shared.push(Shared { slots, set, own: count });
                    self.unsettled |= directory;
                }
                return Ok(Some(info));
            }
            stop => {
                let message =
                    || format!("{length} bytes break off after {held}: cluster {last} {}", stop.told(FREE));
                let code = if stop == Stop::End { "size-beyond-chain" } else { stop.code() };
                if self.find(code, Severity::DataLoss, place, message) {
                    if !info.contiguous && stop != Stop::End {
                        self.cuts.push(last);
                    }
                    info.length = held;
                    info.valid = info.valid.min(held);
                }
            }
        }
        if directory {
            self.enter(index, name, &info, count);
        }
        Ok(Some(info))
    }

    /// Notes a directory to be looked into.
    fn enter(&mut self, parent: u32, name: &Name, info: &FileInfo, count: u32) {
        let (first, contiguous) = (info.cluster, info.contiguous);
        self.todo.push(self.dirs.len() as u32);
        self.dirs.push(Dir { parent, first, count, contiguous, name: name.clone() });
    }

    /// Whether this may be a directory: it is empty, or at least half of the first of what stands there are entries.
    fn looks_like_directory(&mut self, info: &FileInfo) -> Result<bool> {
        if !self.clusters.heap.has(info.cluster) {
            return Ok(true);
        }
        let size = self.clusters.heap.cluster_size().min(4096) as usize;
        let mut slots = vec![[0; SLOT]; size / SLOT];
        self.disk.read_slots(self.clusters.heap.offset(info.cluster), slots.as_flattened_mut())?;
        let (mut sound, mut other, mut at) = (0, 0, 0);
        while at < slots.len() && slots[at][0] != 0 {
            let rest = &slots[at..];
            at += match Primary::of(&rest[0]) {
                Primary::End => break,
                Primary::Unused => {
                    // Erased entries keep their types.
                    sound += usize::from(matches!(
                        rest[0][0] & 0x7F,
                        0x01..=0x05 | 0x20 | 0x40 | 0x41 | 0x60 | 0x61
                    ));
                    other += usize::from(!matches!(
                        rest[0][0] & 0x7F,
                        0x01..=0x05 | 0x20 | 0x40 | 0x41 | 0x60 | 0x61
                    ));
                    1
                }
                _ => match EntrySet::read_loosely(rest) {
                    Ok(set) => {
                        sound += set.slots().len();
                        set.slots().len()
                    }
                    // One that goes on in the next piece.
                    Err(Fault::Count) if rest.len() < 19 && rest[0][0] == kind::FILE => break,
                    Err(_) => {
                        other += usize::from(!matches!(rest[0][0], kind::FILE | kind::STREAM | kind::NAME));
                        1
                    }
                },
            };
        }
        Ok(sound >= other)
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
            self.postponed = true;
        }
    }
}

/// Gives a file clusters of its own for those that it shares with another: all of them anew, one behind the other.
/// Where there is no room it ends where its own do.
pub fn copy(disk: &mut Disk, clusters: &mut Clusters, shared: &Shared) -> Result<()> {
    let mut info = shared.set.info();
    let size = clusters.heap.cluster_size();
    let count = u32::try_from(clusters.heap.clusters_for(info.length)).unwrap_or(u32::MAX);
    let mut sources = Vec::new();
    let mut at = info.cluster;
    while sources.len() < count as usize && clusters.heap.has(at) {
        sources.push(at);
        at = match info.contiguous {
            true => at + 1,
            false => match clusters.link(at)? {
                Link::Next(next) => next,
                _ => break,
            },
        };
    }
    // A chain that goes round in a circle, or breaks off, holds no more than its clusters: what comes after is not
    // copied again and again.
    let mut met = BTreeSet::new();
    let unique = sources.iter().take_while(|cluster| met.insert(**cluster)).count();
    sources.truncate(unique);
    let length = info.length.min(sources.len() as u64 * size);
    let place = clusters.allocate(sources.len() as u32)?;
    match place {
        Some(first) => {
            let mut bytes = vec![0; size.min(1 << 20) as usize];
            for (number, source) in sources.iter().enumerate() {
                for at in (0..size).step_by(bytes.len()) {
                    disk.read(clusters.heap.offset(*source) + at, &mut bytes)?;
                    disk.write(clusters.heap.offset(first + number as u32) + at, &bytes)?;
                }
            }
            sources[..shared.own as usize].iter().for_each(|&cluster| clusters.release(cluster));
            (info.cluster, info.contiguous) = (first, true);
            (info.length, info.valid) = (length, info.valid.min(length));
        }
        None => {
            info.length = u64::from(shared.own) * size;
            info.valid = info.valid.min(info.length);
            match shared.own {
                0 => (info.cluster, info.contiguous) = (0, false),
                own if !info.contiguous => clusters.set_link(sources[own as usize - 1], Geometry::END),
                _ => {}
            }
        }
    }
    let mut set = shared.set.clone();
    set.set_info(&info);
    for (offset, slot) in shared.slots.into_iter().zip(set.slots()) {
        disk.edit(offset, *slot);
    }
    Ok(())
}

/// Whether a primary entry that is not known is what a system wrote: its checksum is right (6.3.3), or it is TexFAT's
/// padding, of which nothing is said (7.10).
fn is_whole(slots: &[[u8; SLOT]]) -> bool {
    const PADDING: u8 = 0xA1;
    let count = usize::from(slots[0][1]) + 1;
    slots[0][0] == PADDING
        || slots.get(..count).is_some_and(|set| set_checksum(set).to_le_bytes() == set[0][2..4])
}

/// How many fields of a set no system writes so. One can be a flipped bit; a set with several is none.
fn oddities(clusters: &Clusters, set: &EntrySet, upcase: &Upcase) -> u32 {
    let info = set.info();
    let mut rehashed = set.clone();
    rehashed.rehash(upcase);
    let date = |date: u16| date & 0x1F == 0 || !(1..=12).contains(&(date >> 5 & 0xF));
    [
        rehashed.hash() != set.hash(),
        !is_allowed(&set.name()),
        info.attributes.0 & !Attributes::KNOWN != 0,
        info.created.local.hundredths > 199 || info.modified.local.hundredths > 199,
        date(info.created.local.date) || date(info.modified.local.date),
        info.cluster != 0 && !clusters.heap.has(info.cluster),
        info.valid > info.length,
        clusters.heap.clusters_for(info.length) > u64::from(clusters.heap.count),
    ]
    .into_iter()
    .map(u32::from)
    .sum()
}
