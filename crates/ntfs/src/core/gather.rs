//! Gathering the images that a commit writes.

use super::runs::data_runs;
use super::{Core, Key, PAGE, Pending, Segments};
use crate::file::{Attr, Body};
use crate::layout::bytes::{put, u16_at};
use crate::layout::{Kind, record_number};
use crate::runlist::RunList;
use platter_vfs::Result;
use smallvec::SmallVec;
use std::sync::Arc;

/// The images that one commit writes.
pub(crate) struct Batch {
    /// The images that changed, in the order of their keys, and behind them the pages of `$Bitmap` that changed.
    pub images: Vec<(Key, Pending)>,
}

impl Core {
    /// Returns all images that changed since the last commit, and makes them pending.
    pub(crate) fn gather(&mut self) -> Result<Batch> {
        // The files in several records come first: encoding them may give records back, which the bitmap of records
        // must show.
        self.encode_spread()?;
        self.gather_record_bits()?;
        self.encode_stale()?;
        debug_assert_eq!(self.depth, 0, "no change is half made when a commit gathers");
        self.commit += 1;
        self.undo.clear();
        for key in std::mem::take(&mut self.dropped) {
            if !self.images.contains_key(&key) {
                self.pending.remove(&key);
            }
        }
        let mut images = Vec::new();
        (self.dirt, self.others) = (0, 0);
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.sort_unstable();
        dirty.dedup();
        for key in dirty {
            let Some(image) = self.images.get_mut(&key).filter(|image| image.is_dirty()) else { continue };
            image.cost = 0;
            if !matches!(key, Key::Value(..)) {
                // Each version that is written has another update sequence number.
                let bytes = Arc::make_mut(&mut image.bytes);
                let at = usize::from(u16_at(bytes, 4));
                let next = match u16_at(bytes, at).wrapping_add(1) {
                    0 | 0xFFFF => 1,
                    next => next,
                };
                put(bytes, at, next);
            }
            let bytes = image.bytes.clone();
            let places = self.places_of(key, bytes.len() as u64)?;
            images.push((key, Pending { bytes, places }));
        }
        let bitmap = self.file(record_number::BITMAP)?;
        let runs = data_runs(&bitmap);
        let end = self.space.total().div_ceil(64) * 8;
        for page in self.space.gather()? {
            let at = page * PAGE;
            let bytes = self.space.bytes(at, (end - at).min(PAGE) as usize);
            let places = self.places(&runs, at, bytes.len() as u64)?;
            images.push((
                Key::Value(record_number::BITMAP, Kind::DATA, "", at),
                Pending { bytes: Arc::new(bytes), places },
            ));
        }
        debug_assert!(
            images.iter().all(|(_, one)| {
                one.places.iter().map(|(_, length)| length).sum::<u64>() == one.bytes.len() as u64
            }),
            "each image has places for all its bytes"
        );
        for (key, pending) in &images {
            self.pending.insert(*key, pending.clone());
        }
        Ok(Batch { images })
    }

    fn gather_record_bits(&mut self) -> Result<()> {
        if self.records_changed.is_empty() {
            return Ok(());
        }
        let mft = self.file(record_number::MFT)?;
        let changed = std::mem::take(&mut self.records_changed);
        match mft.find(Kind::BITMAP, &[]).map(|bitmap| &bitmap.body) {
            Some(Body::Resident { value, .. }) => {
                let value = self.records.bytes(0, value.len(), false);
                let mut mft = (*mft).clone();
                mft.put(Attr::resident(Kind::BITMAP, value));
                self.store(mft)?;
                self.undo.clear();
            }
            Some(Body::Outside(outside)) => {
                for page in changed {
                    let at = page * PAGE;
                    let length = outside.size.saturating_sub(at).min(PAGE);
                    let bytes = self.records.bytes(at, length as usize, false);
                    self.put_image(Key::Value(record_number::MFT, Kind::BITMAP, "", at), bytes);
                }
                self.undo.clear();
            }
            None => {}
        }
        Ok(())
    }

    /// Where on the device an image is written.
    fn places_of(&mut self, key: Key, length: u64) -> Result<Segments> {
        match key {
            Key::Record(number) => {
                let size = u64::from(self.geometry.record);
                self.places(&self.mft, number * size, size)
            }
            Key::Block(file, index, at) => {
                let file = self.file(file)?;
                let outside = file.find(Kind::INDEX_ALLOCATION, index.units()).and_then(Attr::outside);
                self.places(outside.map_or(RunList::NONE, |outside| &outside.runs), at, length)
            }
            Key::Value(file, kind, name, at) => {
                let file = self.file(file)?;
                let name: SmallVec<[u16; 8]> = name.encode_utf16().collect();
                let outside = file.find(kind, &name).and_then(Attr::outside);
                self.places(outside.map_or(RunList::NONE, |outside| &outside.runs), at, length)
            }
        }
    }
}
