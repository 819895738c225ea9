//! Storing files: what the commit will need to make a file's records is taken when the file changes.
//!
//! A change of a file that needs several records does not make these; it only takes the records, and the clusters for
//! the attribute list, that making them will need at most. If there are none, the change fails and nothing has changed.
//! Taking a record may make `$MFT` longer, which stores `$MFT`; so both are here.

use super::files::is_mft;
use super::runs::data_runs;
use super::spread::{Difference, difference, list_attribute_length, must_be_in_base, needs_of, piece_key};
use super::{Core, DETACHED, FREED, Key, OVERHEAD, PAGE, Undo};
use crate::file::{Ahead, Attr, Body, File, Outside};
use crate::layout::{Attribute, Kind, ListEntry, Record, Reference, Run, fixup, record_number};
use crate::space::Held;
use platter_vfs::{Error, Result};
use std::sync::Arc;

impl Core {
    /// Stores a file: notes that the commit must make its records, and takes the records and clusters that this needs.
    ///
    /// # Errors
    /// [`Error::NoSpace`], also if the free clusters lie in so small pieces that the runs of an attribute list in them
    /// would not fit into the base record. [`Error::RecordFull`] if the attribute list would be too long, or an
    /// attribute is.
    pub(crate) fn store(&mut self, mut file: File) -> Result<()> {
        let number = file.reference.number();
        if number < DETACHED {
            if file.ahead.commit != self.commit {
                file.ahead = Ahead { commit: self.commit, ..Ahead::default() };
            }
            let one = u64::from(self.geometry.record) + OVERHEAD;
            let records = if file.length() <= self.room() {
                for extension in std::mem::take(&mut file.extensions) {
                    self.give_record_back(extension);
                }
                self.give_list(&mut file);
                1
            } else {
                self.take_ahead(&mut file)?;
                (1 + file.ahead.same + 2 * file.ahead.moved).min(1 + file.extensions.len())
            };
            let cost = records as u64 * one;
            self.dirt += cost.saturating_sub(file.ahead.cost);
            file.ahead.cost = file.ahead.cost.max(cost);
            self.stale.insert(number);
            if number == record_number::MFT {
                self.mft = data_runs(&file);
            }
        }
        let old = self.files.insert(number, Arc::new(file));
        self.undo.push(Undo::File(number, old));
        Ok(())
    }

    /// Gives up a record, which may have been taken ahead and never stored.
    pub(super) fn give_record_back(&mut self, reference: Reference) {
        match self.is_stored(reference.number()) {
            true => self.free_record(reference),
            false => self.clear_record_bit(reference.number()),
        }
    }

    /// Gives up the clusters of a file's attribute list, and those that were taken for the next list.
    pub(crate) fn give_list(&mut self, file: &mut File) {
        for runs in [std::mem::take(&mut file.list), std::mem::take(&mut file.ahead.spare)] {
            self.give_runs(&runs, Held::Data, true);
        }
        file.list_value = Arc::default();
        file.used = 0;
    }

    /// Takes the records and clusters that the commit will need to store a file in several records.
    fn take_ahead(&mut self, file: &mut File) -> Result<()> {
        let room = self.room();
        let is_longer = |attr: &Attr| {
            let fixed = 0x48 + (attr.name.len() * 2).next_multiple_of(8);
            attr.value().map_or(fixed + 64, |value| fixed - 0x30 + value.len()) > room
        };
        if file.attributes.iter().any(is_longer) {
            return Err(Error::RecordFull { format: "NTFS", what: "an attribute fits into a file record" });
        }
        let mut needs = needs_of(file, room);
        if needs.list as u64 > ListEntry::LONGEST {
            let entries = self.pieces_of(file);
            needs.list = entries.iter().map(|piece| ListEntry::length_of(piece.name.len())).sum();
            if needs.list as u64 > ListEntry::LONGEST {
                let what = "the list of its attributes has at most 262,144 bytes";
                return Err(Error::RecordFull { format: "NTFS", what });
            }
        }
        let old = self.files.get(&file.reference.number()).cloned();
        let old = old.as_deref().filter(|old| old.used > 0 && !file.is_strange);
        let found = match old {
            Some(old) => difference(old, file, room),
            None => Difference { moved: needs.pieces, same: 0 },
        };
        file.ahead.moved += found.moved;
        file.ahead.same += found.same;
        if file.ahead.moved > 0 {
            // Two more, for pieces that a longer list of attributes drives out of the base record.
            let wanted = (file.used + file.ahead.moved + 2).min(needs.pieces);
            if !is_mft(file) {
                self.reserve_records(file, wanted, needs.pieces)?;
            }
            self.reserve_list(file, needs.list)?;
        }
        if is_mft(file) {
            self.reserve_for_mft(file)?;
        }
        // Removing the file writes each of its records once more, in one group. A change that makes the file smaller is
        // allowed.
        let pieces = old.map_or(0, |old| needs_of(old, room).pieces);
        if needs.pieces > pieces && file.extensions.len() as u64 * FREED > self.most_in_group {
            let what = "the log has room for the records of no larger file";
            return Err(Error::RecordFull { format: "NTFS", what });
        }
        Ok(())
    }

    fn reserve_records(&mut self, file: &mut File, wanted: usize, most: usize) -> Result<()> {
        if file.extensions.len() >= wanted {
            return Ok(());
        }
        // Some more than wanted, for changes until the commit.
        while file.extensions.len() < (wanted * 5 / 4 + 4).min(most) {
            match self.transact(Core::take_record) {
                Ok(reference) => file.extensions.push(reference),
                Err(Error::NoSpace) if file.extensions.len() >= wanted => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes new clusters for an attribute list of `bytes` bytes.
    fn reserve_list(&mut self, file: &mut File, bytes: usize) -> Result<()> {
        let clusters = |bytes: usize| (bytes as u64).div_ceil(self.geometry.cluster);
        let (least, most) = (clusters(bytes), clusters(bytes * 5 / 4 + 1024));
        let have = file.ahead.spare.last().map_or(0, Run::end);
        if self.is_resident_list(bytes) || have >= least {
            return Ok(());
        }
        let runs = std::mem::take(&mut file.ahead.spare);
        let mut reserved = Outside { runs: runs.into_iter().collect(), ..Outside::default() };
        let mut more = reserved.clone();
        // In few pieces if possible, as the runs of these clusters must lie in the base record.
        if self.transact(|core| core.extend_near(&mut more, most - have, None, true, true)).is_ok() {
            reserved = more;
        } else {
            self.extend_near(&mut reserved, least - have, None, true, true)?;
        }
        let pieces = self.pieces_of(file);
        let must = pieces.iter().filter(|piece| must_be_in_base(piece, is_mft(file)));
        let must: usize = must.map(Attribute::length).sum();
        let runs = reserved.runs.to_vec();
        if list_attribute_length(&runs) + must > self.room() {
            return Err(Error::NoSpace);
        }
        file.ahead.spare = runs;
        Ok(())
    }

    /// Takes records for `$MFT` itself: each must lie in clusters that the pieces before it lead to, as no driver
    /// could find it otherwise.
    fn reserve_for_mft(&mut self, file: &mut File) -> Result<()> {
        let pieces = self.pieces_of(file);
        let size = u64::from(self.geometry.record);
        loop {
            let Some(index) = self.spread(file, &pieces)?.lacking else { return Ok(()) };
            let end = match piece_key(&pieces[index]) {
                (Kind::DATA, [], first, _) => first * self.geometry.cluster / size,
                _ => self.records.len(),
            };
            let reference = self.take_record_of_mft(end)?;
            file.extensions.push(reference);
        }
    }

    /// Takes a free record. The reference has the sequence number with which the record will be stored.
    pub(crate) fn take_record(&mut self) -> Result<Reference> {
        let next = self.next_record.max(record_number::FIRST_FREE);
        let number = match self.next_free(next).or_else(|| self.next_free(record_number::FIRST_FREE)) {
            Some(number) => number,
            None => {
                self.grow_mft()?;
                return self.take_record();
            }
        };
        self.next_record = number + 1;
        self.take_free(number)
    }

    /// Makes `$MFT` longer by new unused records.
    fn grow_mft(&mut self) -> Result<()> {
        let (size, cluster) = (u64::from(self.geometry.record), self.geometry.cluster);
        let mut mft = (*self.file(record_number::MFT)?).clone();
        let count = self.records.len();
        let broken = || Error::damaged("file record", 0, "$DATA of $MFT in clusters", "none");
        let mut data = mft.find(Kind::DATA, &[]).and_then(Attr::outside).cloned().ok_or_else(broken)?;
        let allocated = data.clusters() * cluster / size;
        if allocated == count {
            let wanted =
                (size * 64).max(count * size / 32).min(4 << 20).div_ceil(cluster).max(size.div_ceil(cluster));
            let near = data.runs.last().and_then(|run| run.lcn.map(|lcn| lcn + run.length));
            let wanted = wanted.min(self.space.at_hand()).max(size.div_ceil(cluster));
            self.extend_near(&mut data, wanted, near, true, true)?;
        }
        let new = (data.clusters() * cluster / size).min(count + (64 << 10) / size.min(1024));
        if new == count {
            return Err(Error::NoSpace);
        }
        let mut blank = Vec::with_capacity(((new - count) * size) as usize);
        let mut images = Vec::new();
        for number in count..new {
            let start = blank.len();
            let image = Record::new(number).to_bytes(size as usize).unwrap_or_default();
            blank.extend_from_slice(&image);
            fixup::apply(&mut blank[start..]);
            images.push((Key::Record(number), image));
        }
        // Nothing on disk leads to these records before the commit.
        self.write_runs(&data.runs, count * size, &blank)?;
        images.into_iter().for_each(|(key, image)| self.keep(key, Arc::new(image)));
        (data.size, data.valid) = (new * size, new * size);
        self.undo.push(Undo::Records(count));
        self.records.grow(new);
        self.records_changed.extend(count / (PAGE * 8)..=(new - 1) / (PAGE * 8));
        if let Some(known) = mft.find_mut(Kind::DATA, &[]).and_then(Attr::outside_mut) {
            *known = data;
        }
        let bytes = new.div_ceil(64) * 8;
        let mut bitmap = mft.find(Kind::BITMAP, &[]).cloned().ok_or_else(broken)?;
        match &mut bitmap.body {
            Body::Resident { value, .. } => value.resize((bytes as usize).max(value.len()), 0),
            Body::Outside(outside) => {
                if outside.clusters() * cluster < bytes {
                    let from = outside.clusters() * cluster;
                    let wanted = (bytes - from).max(PAGE).div_ceil(cluster).min(self.space.at_hand());
                    self.extend(outside, wanted.max((bytes - from).div_ceil(cluster)), true, true)?;
                    let zeroes = vec![0; (outside.clusters() * cluster - from) as usize];
                    self.write_runs(&outside.runs, from, &zeroes)?;
                }
                outside.size = outside.size.max(bytes);
                outside.valid = outside.size;
            }
        }
        mft.put(bitmap);
        self.store(mft)?;
        self.keep_for_mft();
        Ok(())
    }
}
