//! The changes that wait for the next commit, and how a commit gathers them.

use super::family::{Directory, DirectoryEntry, Family};
use super::{Core, Entity, ROOT};
use crate::Images;
use platter_vfs::{DosFlags, Result, Timestamp};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

/// The changes since the last commit, besides the changed pages of the table and the changed directories.
#[derive(Default)]
pub struct Change {
    /// The number of the change, which is that of the commit that will cover it.
    pub id: u64,
    /// The nodes whose directory entry is to be written.
    pub entries: BTreeSet<u64>,
    /// The nodes that must stay in memory until the commit is complete.
    pub pinned: BTreeSet<u64>,
    /// The clusters to free, as first cluster and count.
    pub freed: Vec<(u32, u32)>,
    /// The clusters that become the last of their chain.
    pub ends: BTreeSet<u32>,
    /// Whether slots of removed entries are to be erased.
    pub erases: bool,
    /// Whether more than times changed, so that data written before must be flushed first.
    pub depends: bool,
    /// Whether sectors besides those of directories change together with names ([`Family::named`]).
    pub named: bool,
}

/// The sectors that a commit writes, phase by phase, at device offsets.
pub(crate) struct Batch {
    pub id: u64,
    pub depends: bool,
    pub mark: Images,
    pub linked: Images,
    pub grown: Images,
    pub named: Images,
    pub erased: Images,
    pub freed: Images,
    pub release: Vec<(u32, u32)>,
    pub pinned: BTreeSet<u64>,
}

impl<F: Family> Core<F> {
    /// Keeps an entity in memory until the next commit is complete.
    pub fn pin(&mut self, number: u64) {
        if let Some(entity) = self.nodes.get_mut(&number)
            && self.change.pinned.insert(number)
        {
            entity.pins += 1;
        }
    }

    /// Has the next commit write an entity's entry, in which more than times changed.
    pub fn mark(&mut self, number: u64) {
        let id = self.change.id;
        self.change.depends = true;
        if let Some(entity) = self.nodes.get_mut(&number) {
            entity.changed_in = id;
        }
        self.mark_times(number);
    }

    /// Has the next commit write an entity's entry.
    pub fn mark_times(&mut self, number: u64) {
        if number != ROOT {
            self.pin(number);
            self.change.entries.insert(number);
            if let Some(entity) = self.nodes.get_mut(&number) {
                entity.lazy = false;
            }
        }
    }

    /// Notes that the names in a directory changed, which sets the directory's modification time.
    pub fn stamp_directory(&mut self, number: u64, now: Timestamp) {
        self.pin(number);
        if number != ROOT
            && let Some(entity) = self.nodes.get_mut(&number)
        {
            entity.entry.set_times([None, Some(now), None], self.local);
            self.mark_times(number);
        }
    }

    /// Takes over the modification time that finished writes have set in the file's data path.
    pub fn absorb(&mut self, number: u64) {
        if let Some(entity) = self.nodes.get_mut(&number)
            && let Some(file) = &entity.file
            && file.touched.swap(false, Ordering::AcqRel)
        {
            let since = std::time::Duration::from_nanos(file.modified.load(Ordering::Acquire));
            entity.entry.set_times([None, Some(Timestamp::from(since)), None], self.local);
            entity.entry.set_flags(DosFlags(entity.entry.flags().0 | DosFlags::ARCHIVE.0));
            entity.lazy = true;
        }
    }

    /// Has the next commit write all changed entries, including those in which only times changed.
    pub fn mark_all(&mut self) {
        let mut numbers: Vec<u64> = self.nodes.keys().copied().collect();
        // In order of the numbers, so that a commit is the same on every run.
        numbers.sort_unstable();
        for number in numbers {
            self.absorb(number);
            if self.nodes.get(&number).is_some_and(|entity| entity.lazy) {
                self.mark_times(number);
            }
        }
    }

    /// Removes all entities without a name from memory, handed out or not, and returns them.
    pub(crate) fn drop_removed(&mut self) -> Vec<(u64, Entity<F::Entry>)> {
        let mut removed: Vec<u64> =
            self.nodes.iter().filter(|(_, entity)| !entity.linked).map(|(number, _)| *number).collect();
        removed.sort_unstable();
        removed.into_iter().filter_map(|number| Some((number, self.drop_entity(number)?))).collect()
    }

    /// Gathers everything that the commit is to write, and starts the next change. Clusters and slots that were given
    /// up are freed on disk by this batch; the clusters can be allocated again after [`Core::release`].
    pub(crate) fn gather(&mut self) -> Result<Batch> {
        for number in self.change.entries.clone() {
            let Some(entity) = self.nodes.get(&number).filter(|entity| entity.linked) else { continue };
            let (parent, slot, entry) = (entity.parent, entity.slot, entity.entry.clone());
            let moved = self.directory(parent)?.update(slot, &entry);
            if moved != slot {
                self.place(number, parent, moved);
            }
            // The changed sector keeps the directory in memory from now on.
        }
        let mut mark = Images::new();
        let everything = !self.change.freed.is_empty()
            || !self.change.ends.is_empty()
            || self.change.named
            || self.family.is_changed()
            || self.directories.values().any(|open| !open.content.slots().is_clean());
        if everything && !self.marked {
            mark = F::mark(self, true)?;
            self.marked = true;
        }
        let linked = F::linked(self)?;
        let grown = F::grown(self)?;
        let mut named = match std::mem::take(&mut self.change.named) {
            true => F::named(self),
            false => Images::new(),
        };
        let mut erased = Images::new();
        let mut numbers: Vec<u64> = self.directories.keys().copied().collect();
        numbers.sort_unstable();
        for number in numbers {
            let directory = &mut self.directories.get_mut(&number).expect("listed just now").content;
            if !directory.slots().is_clean() {
                let images = directory.take_images();
                named.extend(images.added);
                erased.extend(images.removed);
            }
        }
        let change = std::mem::take(&mut self.change);
        self.change.id = change.id + 1;
        let mut freed = F::freed(self, &change.freed, &change.ends)?;
        if [&linked, &grown, &named, &erased, &freed].iter().any(|images| !images.is_empty()) {
            freed.extend(F::counted(self));
        }
        Ok(Batch {
            id: change.id,
            depends: change.depends,
            mark,
            linked,
            grown,
            named,
            erased,
            freed,
            release: change.freed,
            pinned: change.pinned,
        })
    }

    /// Makes the clusters that a batch freed available, now that nothing on disk refers to them.
    pub(crate) fn release(&mut self, batch: &Batch) {
        for &(start, count) in &batch.release {
            assert!(count <= self.waiting, "clusters wait until the commit that frees them");
            self.space.free_parked(start, count);
            self.waiting -= count;
        }
        #[cfg(debug_assertions)]
        self.space.check();
        for number in &batch.pinned {
            // What has the number by now, but came after the batch was gathered, is not what the batch has pinned.
            if let Some(entity) = self.nodes.get_mut(number)
                && entity.since <= batch.id
            {
                assert!(entity.pins > 0, "a batch lets go of what it has pinned");
                entity.pins -= 1;
            }
        }
    }
}
