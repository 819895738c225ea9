//! Changes that are made as a whole or not at all: what they put aside is put back if they fail.

use super::runs::data_runs;
use super::{Core, Key, PAGE, Undo};
use crate::layout::{index, record_number};
use platter_vfs::{Error, Result};
use std::sync::Arc;

impl Core {
    /// Makes a change. If it fails, everything that it changed is put back.
    pub(crate) fn transact<T>(&mut self, change: impl FnOnce(&mut Core) -> Result<T>) -> Result<T> {
        let (start, dirt, whole) = (self.undo.len(), (self.dirt, self.others), self.dirt());
        self.depth += 1;
        let mut outcome = change(self);
        self.depth -= 1;
        debug_assert!(self.undo.len() >= start, "a change inside another puts back its own alone");
        // A commit may make room in the log: the caller makes one and tries once more.
        if self.depth == 0 && outcome.is_ok() && self.dirt() > self.most_in_group.max(whole) {
            outcome = Err(Error::NoSpace);
        }
        if outcome.is_err() {
            self.roll_back(start);
            (self.dirt, self.others) = dirt;
        }
        debug_assert!(outcome.is_ok() || self.undo.len() == start, "a change that failed is put back");
        if self.depth == 0 {
            self.undo.clear();
        }
        outcome
    }

    fn roll_back(&mut self, start: usize) {
        while self.undo.len() > start {
            match self.undo.pop().expect("longer than start") {
                Undo::Image(key, Some(image)) => drop(self.insert_image(key, image)),
                Undo::Image(key, None) => drop(self.remove_image(key)),
                Undo::Entries(key, offset, old, length, cost) => {
                    if let Some(image) = self.images.get_mut(&key) {
                        image.cost = cost;
                        let bytes: &mut Vec<u8> = Arc::make_mut(&mut image.bytes);
                        index::splice(bytes, offset, length, &old);
                    }
                }
                Undo::File(number, Some(file)) => {
                    if number == record_number::MFT {
                        self.mft = data_runs(&file);
                    }
                    self.files.insert(number, file);
                }
                Undo::File(number, None) => drop(self.files.remove(&number)),
                Undo::Take(clusters, on_disk) => self.space.untake(clusters, on_disk),
                Undo::Give(clusters, on_disk) => self.space.ungive(clusters, on_disk),
                Undo::RecordBit(number, value) => self.put_record_bit(number, value),
                Undo::Records(count) => {
                    self.records.shrink(count);
                    // Nothing may be left of the removed records that a commit would store.
                    self.keep_images(|key, _| !matches!(key, Key::Record(number) if *number >= count));
                    self.stale.retain(|number| *number < count);
                    self.kept_for_mft.retain(|number| *number < count);
                    self.records_changed.retain(|page| page * PAGE * 8 < count);
                }
                Undo::Dropped => drop(self.dropped.pop()),
                Undo::Hide(clusters) => self.space.mark(clusters, true),
            }
        }
    }
}
