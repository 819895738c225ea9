//! File records: read, given up, and the bitmap that says which are taken.

use super::{Core, Key, OVERHEAD, PAGE, READ_AHEAD, Undo};
use crate::file::File;
use crate::layout::bytes::{put, u16_at, u64_at};
use crate::layout::{Record, Reference, Run, fixup, record_flags, record_number};
use platter_vfs::{Error, Result};
use std::sync::Arc;

/// Records from this number up to the last of the system's are for pieces of `$MFT`'s own attributes.
const MFT_RECORDS: u64 = 16;
/// How many records, in that range or beyond, are kept free for `$MFT`.
const KEPT_FOR_MFT: usize = 2;

impl Core {
    /// How many records `$MFT` has.
    pub(crate) fn record_count(&self) -> u64 {
        self.records.len()
    }

    /// How many records are taken.
    pub(crate) fn records_taken(&self) -> u64 {
        self.records.ones(0..self.records.len())
    }

    /// Whether the bitmap of `$MFT` says that a record is taken.
    pub(crate) fn is_record_taken(&self, number: u64) -> bool {
        self.records.get(number)
    }

    /// Where a record is on the device.
    pub(crate) fn record_place(&self, number: u64) -> Result<u64> {
        let size = u64::from(self.geometry.record);
        Ok(self.places(&self.mft, number.saturating_mul(size), 1)?.first().map_or(0, |place| place.0))
    }

    /// A record's bytes without its update sequence.
    pub(crate) fn record(&mut self, number: u64) -> Result<Arc<Vec<u8>>> {
        let key = Key::Record(number);
        if let Some(bytes) = self.known(key) {
            return Ok(bytes.clone());
        }
        let size = u64::from(self.geometry.record);
        let cluster = self.geometry.cluster;
        let end = self.mft.last().map_or(0, Run::end) * cluster;
        if number.checked_add(1).and_then(|next| next.checked_mul(size)).is_none_or(|next| next > end) {
            return Err(Error::damaged(
                "file reference",
                0,
                format!("a record below {}", end / size),
                number,
            ));
        }
        // Neighbouring records are often wanted next.
        let window = match self.ahead {
            (next, window) if next == number => (window * 2).min(READ_AHEAD),
            _ => PAGE,
        }
        .max(size);
        let first = number * size / window * window;
        let length = window.min(end - first);
        let ahead = if self.places(&self.mft, first, length)?.len() == 1 {
            (first, length)
        } else {
            (number * size, size)
        };
        self.ahead = ((ahead.0 + ahead.1) / size, window);
        let mut bytes = self.read_runs(&self.mft, ahead.0, ahead.1)?;
        let mut wanted = None;
        for (index, bytes) in bytes.chunks_exact_mut(size as usize).enumerate() {
            let this = ahead.0 / size + index as u64;
            let place = self.record_place(this)?;
            if this == number {
                if bytes.get(..4) != Some(Record::SIGNATURE) {
                    let found = String::from_utf8_lossy(&bytes[..4]).into_owned();
                    return Err(Error::damaged("file record", place, "\"FILE\"", format!("{found:?}")));
                }
                fixup::remove(bytes, "file record", place)?;
                let bytes = Arc::new(bytes.to_vec());
                wanted = Some(bytes.clone());
                self.keep(key, bytes);
            } else if !self.images.contains_key(&Key::Record(this))
                && !self.pending.contains_key(&Key::Record(this))
                && bytes.get(..4) == Some(Record::SIGNATURE)
                && fixup::remove(bytes, "file record", place).is_ok()
            {
                self.keep(Key::Record(this), Arc::new(bytes.to_vec()));
            }
        }
        wanted.ok_or(Error::NotFound)
    }

    /// Whether a record was stored since it was taken; a record that was taken ahead may not be.
    pub(super) fn is_stored(&mut self, number: u64) -> bool {
        self.record(number).is_ok_and(|bytes| u16_at(&bytes, 0x16) & record_flags::IN_USE != 0)
    }

    /// The first free record from a number on, except those that are kept for `$MFT`.
    pub(super) fn next_free(&self, from: u64) -> Option<u64> {
        let mut at = from;
        loop {
            at = self.records.next(false, at, self.records.len());
            if at >= self.records.len() {
                return None;
            }
            if !self.kept_for_mft.contains(&at) {
                return Some(at);
            }
            at += 1;
        }
    }

    pub(super) fn take_free(&mut self, number: u64) -> Result<Reference> {
        let sequence = match self.record(number) {
            Ok(bytes) => u16_at(&bytes, 0x10).max(1),
            Err(Error::Damaged(_)) => 1,
            Err(error) => return Err(error),
        };
        assert!(!self.records.get(number), "a record is given to one file");
        self.set_record_bit(number, true);
        Ok(Reference::new(number, sequence))
    }

    /// Takes a free record below `end` for a piece of `$MFT`'s own attributes.
    pub(super) fn take_record_of_mft(&mut self, end: u64) -> Result<Reference> {
        let low = self.records.next(false, MFT_RECORDS, end.min(record_number::FIRST_FREE));
        let kept = self
            .kept_for_mft
            .iter()
            .copied()
            .find(|number| *number < end.min(self.records.len()) && !self.records.get(*number));
        let number = match (low, kept) {
            (low, _) if low < end.min(record_number::FIRST_FREE) => low,
            (_, Some(kept)) => kept,
            _ => self.records.next(false, record_number::FIRST_FREE, end),
        };
        if number >= end.min(self.records.len()) {
            return Err(Error::NoSpace);
        }
        self.take_free(number)
    }

    /// Keeps free records for `$MFT` alone. When its runs need a further record, that record must lie where the runs in
    /// the records before it lead to; if all those were in use, there would be none.
    pub(super) fn keep_for_mft(&mut self) {
        let records = &self.records;
        self.kept_for_mft.retain(|number| *number < records.len() && !records.get(*number));
        let low = MFT_RECORDS..record_number::FIRST_FREE.min(records.len());
        let free = (low.end - low.start) - records.ones(low);
        // The search begins behind the last record that was taken, where a free one is found soonest.
        let mut at = self.next_record.max(record_number::FIRST_FREE);
        while free as usize + self.kept_for_mft.len() < KEPT_FOR_MFT {
            let Some(number) = self.next_free(at).or_else(|| self.next_free(record_number::FIRST_FREE))
            else {
                break;
            };
            debug_assert!(!self.records.get(number), "a record that is kept for $MFT is free");
            self.kept_for_mft.insert(number);
            at = number + 1;
        }
    }

    /// Gives up a record that a file no longer needs, and empties it.
    pub(crate) fn free_record(&mut self, reference: Reference) {
        let record = self.successor_of(reference.number());
        self.put_free_record(reference, record.to_bytes(self.geometry.record as usize).unwrap_or_default());
    }

    /// Gives up the records of a removed file. They keep the attributes that the file had with its name, as Windows
    /// leaves them, so that the file can be recovered.
    pub(crate) fn free_records(&mut self, last: &File) {
        let number = last.reference.number();
        let mut fresh = None;
        if self.stale.contains(&number) && last.extensions.is_empty() && last.used == 0 {
            let mut record = Record { flags: last.flags, ..self.successor_of(number) };
            for attribute in last.pieces(1 << 30, 1 << 30, self.geometry.cluster) {
                record.add(attribute);
            }
            fresh = record.to_bytes(self.geometry.record as usize);
        }
        // If the records are very many, the log has no room for their old attributes.
        let whole = last.extensions.len() as u64 * (u64::from(self.geometry.record) + OVERHEAD);
        let is_kept = whole <= self.most_in_group / 4;
        for &reference in last.extensions.iter().chain([&last.reference]) {
            let part = reference.number();
            if fresh.is_none() && last.ahead.commit == self.commit && !self.is_stored(part) {
                self.clear_record_bit(part);
                continue;
            }
            if !is_kept && reference != last.reference {
                self.free_record(reference);
                continue;
            }
            let old = fresh.take().or_else(|| self.record(part).ok().map(|old| (*old).clone()));
            match old {
                Some(old) => self.put_free_record(reference, old),
                None => self.free_record(reference),
            }
        }
    }

    /// An empty record that goes on with the log sequence number and the update sequence of the present one.
    fn successor_of(&mut self, number: u64) -> Record {
        let mut record = Record::new(number);
        if let Ok(old) = self.record(number) {
            record.lsn = u64_at(&old, 8);
            record.update = u16_at(&old, usize::from(u16_at(&old, 4)));
        }
        record
    }

    /// Stores a record as not in use, with the sequence number for the next file in it.
    fn put_free_record(&mut self, reference: Reference, mut bytes: Vec<u8>) {
        let number = reference.number();
        let sequence = match reference.sequence().wrapping_add(1) {
            0 => 1,
            next => next,
        };
        put(&mut bytes, 0x10, sequence);
        put(&mut bytes, 0x12, 0u16);
        let flags = u16_at(&bytes, 0x16) & !record_flags::IN_USE;
        put(&mut bytes, 0x16, flags);
        self.put_image(Key::Record(number), bytes);
        self.clear_record_bit(number);
    }

    /// Marks a record as free, so that it is found again.
    pub(super) fn clear_record_bit(&mut self, number: u64) {
        self.set_record_bit(number, false);
        self.next_record = self.next_record.min(number);
    }

    fn set_record_bit(&mut self, number: u64, value: bool) {
        self.undo.push(Undo::RecordBit(number, !value));
        self.put_record_bit(number, value);
    }

    pub(super) fn put_record_bit(&mut self, number: u64, value: bool) {
        self.records.put(number..number + 1, value);
        self.records_changed.insert(number / (PAGE * 8));
    }
}
