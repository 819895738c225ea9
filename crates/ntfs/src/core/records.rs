//! File records: read, taken, given up, and `$MFT` made longer.

use super::*;

impl Core {
    /// How many records `$MFT` has.
    pub fn record_count(&self) -> u64 {
        self.records.len()
    }

    /// How many of them are taken.
    pub fn records_taken(&self) -> u64 {
        self.records.ones(0..self.records.len())
    }

    /// Where a record stands on the device.
    pub fn record_place(&self, number: u64) -> Result<u64> {
        let size = u64::from(self.geometry.record);
        Ok(self.places(&self.mft, number.saturating_mul(size), 1)?.first().map_or(0, |place| place.0))
    }

    /// A record's bytes without its update sequence.
    pub fn record(&mut self, number: u64) -> Result<Arc<Vec<u8>>> {
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
        // Neighbours are often wanted next.
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

    /// Takes a free record. Its sequence number is the one it will have.
    pub fn take_record(&mut self, is_mft: bool) -> Result<Reference> {
        let number = if is_mft {
            // Those that lead to the rest of `$MFT` stand near its start, so that they can be found without it.
            let low = self.records.next(false, 16, record_number::FIRST_FREE);
            if low < record_number::FIRST_FREE {
                low
            } else {
                self.records.next(false, 24, self.records.len())
            }
        } else {
            let next = self.next_record.max(record_number::FIRST_FREE);
            let found = self.records.next(false, next, self.records.len());
            if found < self.records.len() {
                found
            } else {
                self.records.next(false, record_number::FIRST_FREE, self.records.len())
            }
        };
        if number >= self.records.len() {
            if is_mft {
                return Err(Error::NoSpace);
            }
            self.grow_mft()?;
            return self.take_record(false);
        }
        if !is_mft {
            self.next_record = number + 1;
        }
        let sequence = match self.record(number) {
            Ok(bytes) => u16_at(&bytes, 0x10).max(1),
            Err(Error::Damaged(_)) => 1,
            Err(error) => return Err(error),
        };
        self.set_record_bit(number, true);
        Ok(Reference::new(number, sequence))
    }

    /// Gives a record up that a file needs no more, and empties it.
    pub fn free_record(&mut self, reference: Reference) {
        let record = self.successor_of(reference.number());
        self.put_free_record(reference, record.to_bytes(self.geometry.record as usize).unwrap_or_default());
    }

    /// Gives the records of a removed file up. What they said of it when it still had a name stays in them, as Windows
    /// leaves it, for whoever wants the file back.
    pub fn free_records(&mut self, last: &File) {
        let number = last.reference.number();
        let mut fresh = None;
        if self.stale.contains(&number) && last.extensions.is_empty() {
            let mut record = Record { flags: last.flags, ..self.successor_of(number) };
            for attribute in last.pieces(1 << 30, 1 << 30, self.geometry.cluster) {
                record.add(attribute);
            }
            fresh = record.to_bytes(self.geometry.record as usize);
        }
        for &reference in last.extensions.iter().chain([&last.reference]) {
            let part = reference.number();
            if fresh.is_none() && last.reserved == self.commit && !self.is_stored(part) {
                self.clear_record_bit(part);
                continue;
            }
            let old = fresh.take().or_else(|| self.record(part).ok().map(|old| (*old).clone()));
            match old {
                Some(old) => self.put_free_record(reference, old),
                None => self.free_record(reference),
            }
        }
    }

    /// Whether a record was stored since it was taken: what was taken ahead may never be.
    pub(super) fn is_stored(&mut self, number: u64) -> bool {
        self.record(number).is_ok_and(|bytes| u16_at(&bytes, 0x16) & record_flags::IN_USE != 0)
    }

    /// An empty record that will be written over the one there is.
    fn successor_of(&mut self, number: u64) -> Record {
        let mut record = Record::new(number);
        if let Ok(old) = self.record(number) {
            record.lsn = u64_at(&old, 8);
            record.update = u16_at(&old, usize::from(u16_at(&old, 4)));
        }
        record
    }

    /// Stores a record that is not in use. The next file in it has another sequence number.
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

    /// Gives a record back that was taken, and never stored.
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

    /// Reads the bitmap of records.
    pub fn load_record_bits(&mut self) -> Result<()> {
        let mft = self.file(record_number::MFT)?;
        let size = u64::from(self.geometry.record);
        let at = self.record_place(0)?;
        let count =
            mft.find(Kind::DATA, &[]).and_then(Attr::outside).map_or(0, |data| data.valid.min(data.size))
                / size;
        let bitmap = mft.find(Kind::BITMAP, &[]);
        let bytes = match bitmap.map(|bitmap| &bitmap.body) {
            Some(Body::Resident { value, .. }) => value.clone(),
            Some(Body::Outside(outside)) => {
                self.read_runs(&outside.runs, 0, outside.valid.min(count.div_ceil(8)))?
            }
            None => return Err(Error::damaged("file record", at, "$BITMAP of $MFT", "none")),
        };
        if count < 16 || (bytes.len() as u64) < count.div_ceil(8) {
            return Err(Error::damaged("$BITMAP", at, format!("bits for {count} records"), bytes.len() * 8));
        }
        self.records = Bits::from_bytes(&bytes, count);
        Ok(())
    }

    /// Makes `$MFT` longer by new unused records.
    pub(super) fn grow_mft(&mut self) -> Result<()> {
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
        self.store(mft)
    }
}
