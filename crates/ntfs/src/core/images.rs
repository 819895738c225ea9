//! Images: the current bytes of metadata, by record, index block or page.

use super::{Core, DETACHED, FREED, Image, Key, MOST_FILES, MOST_IMAGES, NAMING, OVERHEAD, PAGE, Undo};
use crate::file::Outside;
use crate::layout::log::used_of_record;
use crate::layout::{Index, fixup, index, record_number};
use crate::runlist::RunList;
use platter_vfs::{Error, Result};
use std::collections::hash_map::Entry;
use std::sync::Arc;

impl Core {
    /// About how many bytes of the log a commit would take now.
    pub(crate) fn dirt(&self) -> u64 {
        self.dirt + (self.space.changed() + self.records_changed.len()) as u64 * (PAGE + OVERHEAD)
    }

    /// Bytes that an image takes in the log, at most.
    fn cost(key: Key, bytes: &[u8]) -> u32 {
        let length = match key {
            // A record that is given up and emptied is short.
            Key::Record(_) => match used_of_record(bytes) {
                Some(..=72) => return FREED as u32,
                used => used.unwrap_or(bytes.len()) as u64,
            },
            // A block counts as a whole: it may fill up without a new image.
            _ => bytes.len() as u64 + NAMING,
        };
        (length + OVERHEAD) as u32
    }

    /// Notes that the cost of an image is `now` and was `before`, which is 0 for an image that was not dirty.
    fn soil(&mut self, key: Key, before: u32, now: u32) {
        debug_assert!(now > 0, "an image that changed takes room in the log");
        if before == 0 {
            self.dirty.push(key);
            self.others += usize::from(!matches!(key, Key::Record(_)));
        }
        self.dirt += u64::from(now.saturating_sub(before));
    }

    /// How many attributes a commit would have to name in the log, at most.
    pub(crate) fn attributes_changed(&self) -> usize {
        self.others + 2
    }

    /// Whether there is anything to commit.
    pub(crate) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
            || !self.stale.is_empty()
            || self.space.changed() > 0
            || !self.records_changed.is_empty()
    }

    /// How many images a commit would write.
    pub(crate) fn dirty_count(&self) -> usize {
        self.dirty.len() + self.stale.len() + self.space.changed()
    }

    /// Replaces the image of the structure that a key names.
    pub(crate) fn put_image(&mut self, key: Key, bytes: Vec<u8>) {
        #[cfg(test)]
        {
            self.made += 1;
        }
        let cost = Core::cost(key, &bytes);
        let old = self.images.get(&key).map_or(0, |old| old.cost);
        self.soil(key, old, cost);
        let old = self.insert_image(key, Image { bytes: Arc::new(bytes), cost: cost.max(old) });
        self.undo.push(Undo::Image(key, old));
    }

    /// Replaces bytes among the entries of an index block that is in memory. Returns false, and changes nothing, if the
    /// block is not in memory or has no room for the new bytes.
    pub(crate) fn splice_entries(&mut self, key: Key, offset: usize, length: usize, with: &[u8]) -> bool {
        let Some(image) = self.images.get_mut(&key) else { return false };
        let bytes: &mut Vec<u8> = Arc::make_mut(&mut image.bytes);
        let Some(old) = index::splice(bytes, offset, length, with) else { return false };
        let cost = Core::cost(key, bytes);
        let before = std::mem::replace(&mut image.cost, cost);
        self.soil(key, before, cost);
        self.undo.push(Undo::Entries(key, offset, old, with.len(), before));
        true
    }

    /// Changes bytes of an image that is in memory.
    pub(crate) fn change_image(&mut self, key: Key, change: impl FnOnce(&mut Vec<u8>)) {
        let Some(image) = self.images.get_mut(&key) else { return };
        self.undo.push(Undo::Image(key, Some(image.clone())));
        let bytes = Arc::make_mut(&mut image.bytes);
        change(bytes);
        let (before, cost) = (image.cost, Core::cost(key, bytes));
        image.cost = cost.max(before);
        self.soil(key, before, cost);
    }

    /// Forgets the image of a structure that is not there any more.
    pub(crate) fn drop_image(&mut self, key: Key) {
        let old = self.remove_image(key);
        if old.is_none() && !self.pending.contains_key(&key) {
            return;
        }
        self.undo.push(Undo::Image(key, old));
        self.dropped.push(key);
        self.undo.push(Undo::Dropped);
    }

    /// The image of a key if it is in memory, current or pending from an earlier commit.
    pub(crate) fn known(&mut self, key: Key) -> Option<&mut Arc<Vec<u8>>> {
        match self.images.entry(key) {
            Entry::Occupied(image) => Some(&mut image.into_mut().bytes),
            Entry::Vacant(vacant) => {
                let bytes = self.pending.get(&key)?.bytes.clone();
                self.image_bytes += bytes.len();
                Some(&mut vacant.insert(Image { bytes, cost: 0 }).bytes)
            }
        }
    }

    /// The keys of all images.
    pub(crate) fn images(&self) -> impl Iterator<Item = &Key> {
        self.images.keys()
    }

    /// Keeps an image that was read from the device.
    pub(super) fn keep(&mut self, key: Key, bytes: Arc<Vec<u8>>) {
        self.insert_image(key, Image { bytes, cost: 0 });
    }

    /// Sets the image of a key. Returns the image that the key had before.
    pub(super) fn insert_image(&mut self, key: Key, image: Image) -> Option<Image> {
        self.image_bytes += image.bytes.len();
        let old = self.images.insert(key, image);
        self.count_off(old.as_ref());
        old
    }

    /// Removes the image of a key, and returns it.
    pub(super) fn remove_image(&mut self, key: Key) -> Option<Image> {
        let old = self.images.remove(&key);
        self.count_off(old.as_ref());
        old
    }

    /// Subtracts the length of a removed image from `image_bytes`. If the image grew after it was added, too much is
    /// subtracted, which the next call of [`Core::keep_images`] corrects.
    fn count_off(&mut self, gone: Option<&Image>) {
        let bytes = gone.map_or(0, |image| image.bytes.len());
        self.image_bytes = self.image_bytes.saturating_sub(bytes);
    }

    /// Lets go of images and files that can be read again, if there are many.
    pub(crate) fn make_room(&mut self) {
        self.rounds += 1;
        let rounds = self.rounds;
        if self.image_bytes > MOST_IMAGES {
            // About half of the images are dropped, chosen by a bit of their number: by another bit in each round.
            self.keep_images(|key, image| image.is_dirty() || key.number() >> (rounds % 4) & 1 == 0);
            if self.image_bytes > MOST_IMAGES {
                self.keep_images(|_, image| image.is_dirty());
            }
        }
        if self.files.len() > MOST_FILES {
            let stale = &self.stale;
            let is_kept = |number: u64| {
                number == record_number::MFT
                    || number >= DETACHED
                    || number >> (rounds % 4) & 1 == 0
                    || stale.contains(&number)
            };
            self.files.retain(|number, _| is_kept(*number));
        }
    }

    /// Drops all images for which `is_kept` returns false, and sums up the lengths of those that are left.
    pub(super) fn keep_images(&mut self, is_kept: impl Fn(&Key, &Image) -> bool) {
        let mut left = 0;
        self.images.retain(|key, image| {
            let is_kept = is_kept(key, image);
            left += if is_kept { image.bytes.len() } else { 0 };
            is_kept
        });
        self.image_bytes = left;
    }

    /// Returns how many files are in memory, and the length of all images in bytes.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> (usize, usize) {
        (self.files.len(), self.images.values().map(|image| image.bytes.len()).sum())
    }

    /// A page of an attribute's value, as far as it is allocated.
    pub(crate) fn page(&mut self, key: Key, outside: &Outside) -> Result<Arc<Vec<u8>>> {
        let Key::Value(.., at) = key else { return Err(Error::InvalidArgument("not a page")) };
        debug_assert!(at.is_multiple_of(PAGE), "a page begins at a whole page");
        let length = (outside.clusters() * self.geometry.cluster).saturating_sub(at).min(PAGE);
        if let Some(bytes) = self.known(key) {
            if (bytes.len() as u64) < length {
                // Clusters were added behind the page since it was read.
                Arc::make_mut(bytes).resize(length as usize, 0);
            }
            return Ok(bytes.clone());
        }
        let mut bytes = self.read_runs(&outside.runs, at, length)?;
        let valid = outside.valid.saturating_sub(at).min(length) as usize;
        bytes[valid..].fill(0);
        let bytes = Arc::new(bytes);
        self.keep(key, bytes.clone());
        Ok(bytes)
    }

    /// An index block without its update sequence.
    pub(crate) fn block(
        &mut self,
        file: u64,
        tree: Index,
        at: u64,
        length: u32,
        runs: &RunList,
    ) -> Result<Arc<Vec<u8>>> {
        let key = Key::Block(file, tree, at);
        if let Some(bytes) = self.known(key) {
            return Ok(bytes.clone());
        }
        let mut bytes = self.read_runs(runs, at, u64::from(length))?;
        let place = self.places(runs, at, 1)?.first().map_or(0, |place| place.0);
        fixup::remove(&mut bytes, "index block", place)?;
        let vcn = at / index::vcn_unit(length, self.geometry.cluster);
        // The block is checked once, when it is read.
        index::IndexBlock::check(&bytes, vcn, place)?;
        let bytes = Arc::new(bytes);
        self.keep(key, bytes.clone());
        Ok(bytes)
    }
}
