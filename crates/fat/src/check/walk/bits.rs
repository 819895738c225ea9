//! Entries in which one bit of the first cluster, the size or the kind is wrong.
//!
//! An entry has no checksum. But a chain of the FAT that begins where no other chain leads to, has as many clusters as the
//! size of a file needs, and belongs to no other entry, confirms first cluster and size; and a directory begins with an
//! entry that names its own cluster, and a second that names the directory above. If an entry does not fit to the FAT, and does with one bit changed in exactly one way,
//! that bit is wrong. Entries of which this may be so are checked after all others, when it is known which chains are theirs.

use super::Walk;
use crate::check::listing::Listing;
use crate::layout::{Attributes, FatKind, Link, SLOT, ShortEntry, ShortName, Slot};
use platter_vfs::{Name, Result, Severity};

/// An entry whose check is put off.
pub(super) struct Late {
    dir: u32,
    slot: usize,
    is_directory: bool,
    name: Name,
}

/// The most entries of which the check is put off: a bound on memory. Damage of single bits concerns a few.
const MOST_LATE: usize = 1 << 16;

impl Walk<'_, '_> {
    /// Checks the clusters of an entry, or puts that off if one of its bits may be wrong.
    pub(super) fn clusters_of(
        &mut self,
        index: u32,
        listing: &mut Listing,
        at: usize,
        short: ShortEntry,
        name: Name,
    ) -> Result<()> {
        if self.late.len() < MOST_LATE
            && !self.fits(&short)
            && (self.may_be_another(index, &short) || self.is_doubtful_directory(&short))
        {
            let is_directory = short.attributes.directory();
            self.late.push(Late { dir: index, slot: at, is_directory, name });
            return Ok(());
        }
        self.settle(index, listing, at, short, name)
    }

    /// Whether the entry of a directory leads into the middle of another chain, where no directory begins. What is there
    /// belongs to the file with that chain, if there is one.
    fn is_doubtful_directory(&self, short: &ShortEntry) -> bool {
        let start = self.geometry.first_cluster(short);
        short.attributes.directory() && start != 0 && !self.is_head(start) && !self.is_own_directory(start)
    }

    /// Whether an entry that does not fit to the FAT may do so with one bit changed.
    fn may_be_another(&mut self, dir: u32, short: &ShortEntry) -> bool {
        !self.others(dir, short).is_empty() || self.empty_file(short).is_some()
    }

    fn settle(
        &mut self,
        index: u32,
        listing: &mut Listing,
        at: usize,
        short: ShortEntry,
        name: Name,
    ) -> Result<()> {
        if short.attributes.directory() {
            self.subdirectory(index, listing, at, short, name);
            return Ok(());
        }
        self.file(index, listing, at, short, &name)
    }

    /// Checks an entry that was put off: directories first, since they say which chains are those of the files in them.
    /// Returns whether there was one.
    pub(super) fn late(&mut self) -> Result<bool> {
        let Some(last) = self.late.len().checked_sub(1) else { return Ok(false) };
        let next = self.late.iter().position(|late| late.is_directory).unwrap_or(last);
        let Late { dir, slot, name, .. } = self.late.swap_remove(next);
        let known = &self.dirs[dir as usize];
        let mut listing = Listing::read(self.disk, self.geometry, self.table, known.first, known.count)?;
        let mut short = ShortEntry::from_bytes(&listing.slot(slot));
        let start = |walk: &Self, short: &ShortEntry| walk.geometry.first_cluster(short);
        let mut others = self.others(dir, &short);
        others.retain(|other| !self.claimed.get(start(self, other)));
        if others.is_empty() {
            others.extend(self.empty_file(&short).filter(|file| start(self, file) == 0));
        }
        if let [other] = &others[..] {
            let message = || {
                let told = |short: &ShortEntry| {
                    let what = if short.attributes.directory() { "directory" } else { "file" };
                    format!("a {what} of {} bytes from cluster {}", short.size, start(self, short))
                };
                format!("a bit is wrong in the entry of {}: {} fits to the FAT", told(&short), told(other))
            };
            let message = message();
            if self.find("entry-bit", Severity::Inconsistent, Some((dir, Some(&name))), || message) {
                short = other.clone();
                listing.change(self.disk, slot, short.to_bytes());
            }
        }
        self.settle(dir, &mut listing, slot, short, name)?;
        Ok(true)
    }

    /// Whether the first cluster, size and kind of an entry fit to the FAT.
    fn fits(&mut self, short: &ShortEntry) -> bool {
        let start = self.geometry.first_cluster(short);
        if short.attributes.directory() {
            return short.size == 0 && self.is_head(start) && self.is_own_directory(start);
        }
        let wanted = self.geometry.clusters_for(short.size.into());
        if start == 0 || wanted == 0 {
            return start == 0 && wanted == 0;
        }
        self.is_head(start) && self.length(start, wanted) == Some(wanted)
    }

    /// Returns the entries with one bit changed that fit to the FAT and, if they are directories, to the directory that
    /// they are in.
    fn others(&mut self, dir: u32, short: &ShortEntry) -> Vec<ShortEntry> {
        let mut others = Vec::new();
        let bits = if self.geometry.kind == FatKind::Fat32 { 28 } else { 16 };
        for bit in 0..bits {
            others.push(ShortEntry { cluster: short.cluster ^ 1 << bit, ..short.clone() });
        }
        // A chain that is longer than its file is what a power cut leaves, or what a wrong link of the FAT makes. Of a volume
        // that was closed, one that is longer by several clusters speaks for a wrong bit of the size.
        let held = self.length(self.geometry.first_cluster(short), u64::from(u32::MAX));
        let wanted = self.geometry.clusters_for(short.size.into());
        let is_short = held.is_none_or(|held| wanted < held);
        let is_much_longer = self.is_closed && held.is_some_and(|held| held > wanted + 1);
        if short.attributes.directory() || !is_short || is_much_longer {
            others.extend((0..32).map(|bit| ShortEntry { size: short.size ^ 1 << bit, ..short.clone() }));
        }
        let kind = short.attributes.0 ^ Attributes::DIRECTORY;
        others.push(ShortEntry { attributes: Attributes(kind), ..short.clone() });
        others.retain(|other| {
            let start = self.geometry.first_cluster(other);
            let is_its_place = match other.attributes.directory() {
                true => self.is_below(start, dir),
                false => !self.is_own_directory(start),
            };
            start != 0 && is_its_place && self.fits(other)
        });
        others
    }

    /// Returns the empty file that a directory without a cluster may be.
    fn empty_file(&mut self, short: &ShortEntry) -> Option<ShortEntry> {
        let attributes = Attributes(short.attributes.0 & !Attributes::DIRECTORY);
        let file = ShortEntry { attributes, ..short.clone() };
        (short.attributes.directory() && self.fits(&file)).then_some(file)
    }

    /// Whether a chain begins at a cluster: no other cluster leads to it.
    fn is_head(&self, cluster: u32) -> bool {
        self.geometry.has_cluster(cluster)
            && !self.pointed.get(cluster)
            && matches!(self.table.link(self.geometry, cluster), Link::Next(_) | Link::End)
    }

    /// Whether a directory begins at a cluster, by the entry for itself.
    fn is_own_directory(&self, cluster: u32) -> bool {
        self.dot_entry(cluster, 0, ShortName::DOT) == Some(cluster)
    }

    /// Whether the directory that begins at a cluster says that it is in `dir`.
    fn is_below(&self, cluster: u32, dir: u32) -> bool {
        let above = if dir == 0 { 0 } else { self.dirs[dir as usize].first };
        self.dot_entry(cluster, 1, ShortName::DOT_DOT) == Some(above)
    }

    /// Returns the first cluster that the entry with this name in a slot of a directory's first cluster has.
    fn dot_entry(&self, cluster: u32, at: u64, name: ShortName) -> Option<u32> {
        if !self.geometry.has_cluster(cluster) {
            return None;
        }
        let mut slot = [0; SLOT];
        let offset = self.geometry.cluster_offset(cluster) + at * SLOT as u64;
        self.disk.read(offset, &mut slot).ok()?;
        match Slot::from_bytes(&slot) {
            Slot::Short(dot) if dot.name == name && dot.attributes.directory() => {
                Some(self.geometry.first_cluster(&dot))
            }
            _ => None,
        }
    }

    /// Returns the number of clusters of a chain, if it ends after at most `most`, and if the time that all chains may take
    /// is not used up.
    fn length(&mut self, start: u32, most: u64) -> Option<u64> {
        let (mut cluster, mut count) = (start, 1);
        loop {
            if !self.geometry.has_cluster(cluster) {
                return None;
            }
            match self.table.link(self.geometry, cluster) {
                Link::End => return Some(count),
                Link::Next(next) if count < most && self.steps > 0 => {
                    self.steps -= 1;
                    (cluster, count) = (next, count + 1);
                }
                _ => return None,
            }
        }
    }
}
