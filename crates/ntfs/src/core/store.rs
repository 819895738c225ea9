//! Files stored: their attributes spread over records.

use super::*;
use crate::layout::runs::packed_length;
use crate::runlist::cut;

/// When the records of a file that needs several are made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Now,
    /// By the commit. What that will need is taken, with some more for changes until then.
    Ahead,
    /// By the commit, which uses what was taken.
    Last,
}

/// Longer than the runs of any file.
const ENDLESS: usize = usize::MAX / 2;

/// Whether the runs of one attribute fill records of their own. Changes of such a file are many, and each would make all
/// of its records anew.
fn is_scattered(file: &File, room: usize) -> bool {
    let is_long = |attr: &Attr| attr.outside().is_some_and(|data| packed_length(&data.runs, room) > room);
    file.reference.number() != record_number::MFT && file.attributes.iter().any(is_long)
}

/// How many records besides the first a file may need at most, and how many bytes its list.
fn needs(file: &File, room: usize) -> (usize, usize) {
    let (mut small, mut pieces, mut list) = (0, 0, 0);
    for attr in &file.attributes {
        let count = match attr.outside() {
            None => {
                small += (0x18 + attr.name.len() * 2).next_multiple_of(8)
                    + attr.size().next_multiple_of(8) as usize;
                1
            }
            Some(data) => {
                // What a header takes, the last pair that does not fit, and the longer first place.
                let fits = room.saturating_sub(0x48 + 8 + attr.name.len() * 2 + 40).max(24);
                let count = 1 + packed_length(&data.runs, ENDLESS).div_ceil(fits);
                pieces += count;
                count
            }
        };
        list += count * (0x1A + attr.name.len() * 2).next_multiple_of(8);
    }
    // Of two records with small attributes only, at most one is less than half full.
    (2 * small / room + 1 + pieces, list)
}

impl Core {
    /// Stores a file: its attributes are spread over as few records as they need.
    pub fn store(&mut self, mut file: File) -> Result<()> {
        let number = file.reference.number();
        if number < DETACHED {
            let room = Record::room(self.geometry.record as usize);
            if file.length() <= room {
                for extension in std::mem::take(&mut file.extensions) {
                    self.give_record_back(extension);
                }
                file.reserved = 0;
                let list = std::mem::take(&mut file.list);
                self.give_runs(&list, Held::Data, true);
                if self.stale.insert(number) {
                    self.dirt += u64::from(self.geometry.record) + 128;
                }
            } else if file.reserved != self.commit || !self.is_enough(&file, room) {
                let mode = if is_scattered(&file, room) { Mode::Ahead } else { Mode::Now };
                self.store_spread(&mut file, room, mode)?;
                file.reserved = if mode == Mode::Ahead { self.commit } else { 0 };
            }
            if file.reserved == self.commit && self.stale.insert(number) {
                self.dirt += (file.extensions.len() as u64 + 1) * (u64::from(self.geometry.record) + 128);
            }
            if number == record_number::MFT {
                self.mft = data_runs(&file);
            }
        }
        let old = self.files.insert(number, Arc::new(file));
        self.undo.push(Undo::File(number, old));
        Ok(())
    }

    /// Gives a record up, which may have been taken for nothing.
    fn give_record_back(&mut self, reference: Reference) {
        match self.is_stored(reference.number()) {
            true => self.free_record(reference),
            false => self.clear_record_bit(reference.number()),
        }
    }

    /// Whether what was taken ahead for a file is enough for what it is now.
    fn is_enough(&self, file: &File, room: usize) -> bool {
        let is_resident = |attr: &&Attr| attr.outside().is_none();
        let same = |(one, two): (&Attr, &Attr)| {
            (one.kind, &one.name, one.size()) == (two.kind, &two.name, two.size())
        };
        let Some(old) = self.files.get(&file.reference.number()) else { return false };
        let residents = file.attributes.iter().filter(is_resident);
        let (before, now) = (old.attributes.iter().filter(is_resident), residents.clone());
        if before.clone().count() != now.clone().count() || !before.zip(now).all(same) {
            return false;
        }
        let (records, list) = needs(file, room);
        let capacity = match file.list.last() {
            None => room / 3 - 0x18,
            Some(run) => (run.end() * self.geometry.cluster) as usize,
        };
        records <= file.extensions.len() && list <= capacity
    }

    /// Makes the records of files that need many, for which enough was taken ahead.
    pub(super) fn encode_scattered(&mut self) -> Result<()> {
        let room = Record::room(self.geometry.record as usize);
        let stale = self.stale.iter().filter_map(|number| self.files.get(number));
        let scattered: Vec<Arc<File>> = stale.filter(|file| file.reserved == self.commit).cloned().collect();
        for file in scattered {
            let mut file = (*file).clone();
            self.store_spread(&mut file, room, Mode::Last)?;
            file.reserved = 0;
            self.files.insert(file.reference.number(), Arc::new(file));
        }
        Ok(())
    }

    /// Makes the records of the files that changed since, each of which fits into one.
    pub(super) fn encode_stale(&mut self) -> Result<()> {
        let cluster = self.geometry.cluster;
        for number in std::mem::take(&mut self.stale) {
            // One that was removed again has none; those of one with several were stored at once.
            let Some(file) = self.files.get(&number).filter(|file| file.extensions.is_empty()).cloned()
            else {
                continue;
            };
            let pieces = file.pieces(1 << 30, 1 << 30, cluster);
            self.store_record(&file, file.reference, Reference::default(), pieces)?;
        }
        Ok(())
    }

    /// Spreads attributes over several records, and makes the list of where they are.
    fn store_spread(&mut self, file: &mut File, room: usize, mode: Mode) -> Result<()> {
        let cluster = self.geometry.cluster;
        let is_mft = file.reference.number() == record_number::MFT;
        // The first piece of `$MFT`'s own runs must stand in its base record, which leads to all others.
        let pieces = file.pieces(if is_mft { room / 3 } else { room }, room, cluster);
        let entry = |piece: &Attribute| ListEntry {
            kind: piece.kind,
            name: piece.name.clone(),
            first: match &piece.content {
                Content::Resident { .. } => 0,
                Content::NonResident(outside) => outside.first,
            },
            record: Reference::default(),
            id: 0,
        };
        let mut list: Vec<ListEntry> = pieces.iter().map(entry).collect();
        let list_bytes: usize = list.iter().map(ListEntry::length).sum();
        let is_resident = list_bytes + 0x18 <= room / 3;
        let list_length = if is_resident { (0x18 + list_bytes).next_multiple_of(8) } else { 0x40 + 0x28 };
        // The base record takes first what must be there, then what fits.
        let mut base_room = room - list_length;
        let mut bins: Vec<(usize, Vec<usize>)> = Vec::new();
        let mut in_base = vec![false; pieces.len()];
        let must = |piece: &Attribute| {
            piece.kind == Kind::STANDARD_INFORMATION
                || is_mft && piece.kind == Kind::DATA && entry(piece).first == 0
        };
        for pass in [true, false] {
            for (index, piece) in pieces.iter().enumerate() {
                if must(piece) != pass {
                    continue;
                }
                let length = piece.length();
                if length > room {
                    return Err(Error::NotPermitted("an attribute does not fit into a record"));
                }
                if length <= base_room {
                    base_room -= length;
                    in_base[index] = true;
                } else if pass {
                    return Err(Error::NotPermitted("its attributes do not fit into a record"));
                } else {
                    match bins.iter_mut().find(|(left, _)| *left >= length) {
                        Some((left, bin)) => {
                            *left -= length;
                            bin.push(index);
                        }
                        None => bins.push((room - length, vec![index])),
                    }
                }
            }
        }
        let (records, list_most) = match mode {
            // A quarter more than there is now.
            Mode::Ahead => {
                let (records, list) = needs(file, room);
                (records.max(bins.len()) * 5 / 4 + 4, list * 5 / 4 + 1024)
            }
            _ => (bins.len(), list_bytes),
        };
        while file.extensions.len() > records {
            let surplus = file.extensions.pop().expect("longer than that");
            self.give_record_back(surplus);
        }
        while file.extensions.len() < records {
            match self.transact(|core| core.take_record(is_mft)) {
                Ok(reference) => file.extensions.push(reference),
                Err(Error::NoSpace) if file.extensions.len() >= bins.len() => break,
                Err(error) => return Err(error),
            }
        }
        if mode == Mode::Ahead {
            return self.reserve_list(file, is_resident, list_bytes, list_most);
        }
        let mut pieces: Vec<Option<Attribute>> = pieces.into_iter().map(Some).collect();
        for (&extension, (_, bin)) in file.extensions.iter().zip(&bins) {
            let mine = bin.iter().filter_map(|index| pieces[*index].take()).collect();
            let ids = self.store_record(file, extension, file.reference, mine)?;
            for (index, id) in bin.iter().zip(ids) {
                (list[*index].record, list[*index].id) = (extension, id);
            }
        }
        let base_indexes: Vec<usize> = (0..pieces.len()).filter(|index| in_base[*index]).collect();
        let mut base: Vec<Attribute> =
            base_indexes.iter().filter_map(|index| pieces[*index].take()).collect();
        // Numbers are given in order; the list itself comes after them.
        for (id, index) in base_indexes.iter().enumerate() {
            (list[*index].record, list[*index].id) = (file.reference, id as u16);
        }
        let mut value = Vec::with_capacity(list_bytes);
        list.iter().for_each(|entry| entry.append_to(&mut value));
        let mut old = std::mem::take(&mut file.list);
        let attribute = if is_resident {
            Attribute::resident(Kind::ATTRIBUTE_LIST, value)
        } else {
            let mut outside =
                Outside { size: value.len() as u64, valid: value.len() as u64, ..Outside::default() };
            let wanted = (value.len() as u64).div_ceil(cluster);
            if mode == Mode::Last {
                // Taken since the last commit: nothing on disk leads to them.
                outside.runs = std::mem::take(&mut old);
                old = cut(&mut outside.runs, wanted);
            } else {
                self.extend(&mut outside, wanted, true, false)?;
            }
            value.resize((outside.clusters() * cluster) as usize, 0);
            // New clusters, written at once: the commit that leads to them comes later.
            self.write_runs(&outside.runs, 0, &value)?;
            file.list = outside.runs.clone();
            let attr = Attr {
                kind: Kind::ATTRIBUTE_LIST,
                name: Box::default(),
                flags: 0,
                body: Body::Outside(outside),
            };
            let single = File { attributes: vec![attr], ..File::new(Reference::default(), 0) };
            single.pieces(list_length, list_length, cluster).swap_remove(0)
        };
        self.give_runs(&old, Held::Data, true);
        base.push(attribute);
        self.store_record(file, file.reference, Reference::default(), base)?;
        Ok(())
    }

    /// Takes other clusters for a list, as many as it may need until the commit.
    fn reserve_list(&mut self, file: &mut File, is_resident: bool, least: usize, most: usize) -> Result<()> {
        let cluster = self.geometry.cluster;
        let old = std::mem::take(&mut file.list);
        if !is_resident {
            let mut outside = Outside::default();
            let clusters = |bytes: usize| (bytes as u64).div_ceil(cluster);
            let ahead = self.transact(|core| core.extend(&mut outside, clusters(most), true, false));
            if ahead.is_err() {
                outside = Outside::default();
                self.extend(&mut outside, clusters(least), true, false)?;
            }
            file.list = outside.runs;
        }
        self.give_runs(&old, Held::Data, true);
        Ok(())
    }

    /// Stores one record of a file, if it changed, and returns the attributes' numbers.
    fn store_record(
        &mut self,
        file: &File,
        reference: Reference,
        base: Reference,
        attributes: Vec<Attribute>,
    ) -> Result<Vec<u16>> {
        let number = reference.number();
        let mut record = Record::new(number);
        let old = self.known(Key::Record(number)).cloned();
        if let Some(old) = &old {
            record.lsn = crate::layout::bytes::u64_at(old, 8);
            record.update = u16_at(old, usize::from(u16_at(old, 4)));
        }
        record.sequence = reference.sequence();
        record.base = base;
        record.links = if base.0 == 0 { file.links } else { 0 };
        record.flags = if base.0 == 0 { file.flags } else { record_flags::IN_USE };
        let ids = attributes.into_iter().map(|attribute| record.add(attribute)).collect();
        let Some(bytes) = record.to_bytes(self.geometry.record as usize) else {
            return Err(Error::NotPermitted("its attributes do not fit into a record"));
        };
        if old.is_none_or(|old| *old != bytes) {
            self.put_image(Key::Record(number), bytes);
        }
        Ok(ids)
    }
}
