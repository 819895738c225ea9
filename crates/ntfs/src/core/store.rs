//! Storing files: their attributes are spread over records.
//!
//! A change of a file that needs several records does not make these; it only takes the records, and the clusters for
//! the attribute list, that making them will need at most. If there are none, the change fails and nothing has changed.
//! The commit spreads the attributes over the records, once for however many changes, and gives back the records and
//! clusters that were not needed. An attribute stays in its record as long as it fits there, so that a change of one
//! attribute writes few records; an attribute list that does not change stays in its clusters.

use super::*;
use crate::layout::runs::packed_length;
use crate::runlist::cut;
use std::collections::HashMap;

/// More bytes than the packed runs of any file have.
const ENDLESS: usize = usize::MAX / 2;

/// What storing a file may need at most: pieces of attributes, each of which could want a record of its own, and bytes
/// of attribute list.
struct Needs {
    pieces: usize,
    list: usize,
}

/// How many pieces of attributes changed: those that may want another place, and those that stay.
#[derive(Default)]
struct Difference {
    moved: usize,
    same: usize,
}

/// The number of pieces that an attribute is in, at most.
fn most_pieces(attr: &Attr, room: usize) -> usize {
    attr.outside().map_or(1, |data| {
        // Subtracted: the header, the last mapping pair, which may not fit, and the longer first cluster number.
        let fits = room.saturating_sub(0x48 + 8 + attr.name.len() * 2 + 40).max(24);
        1 + data.runs.most_packed().div_ceil(fits)
    })
}

fn needs_of(file: &File, room: usize) -> Needs {
    let (mut pieces, mut list) = (0, 0);
    for attr in &file.attributes {
        let count = most_pieces(attr, room);
        pieces += count;
        list += count * ListEntry::length_of(attr.name.len());
    }
    Needs { pieces, list }
}

fn difference(old: &File, new: &File, room: usize) -> Difference {
    let mut found = Difference::default();
    let (mut before, mut after) = (&old.attributes[..], &new.attributes[..]);
    let key = |attr: &Attr| (attr.kind, attr.name.clone());
    loop {
        match (before, after) {
            ([], []) => return found,
            ([one, rest @ ..], []) => {
                found.moved += most_pieces(one, room);
                before = rest;
            }
            ([], [two, rest @ ..]) => {
                found.moved += most_pieces(two, room);
                after = rest;
            }
            ([one, rest @ ..], [two, next @ ..]) if one == two => (before, after) = (rest, next),
            // A file has several `$FILE_NAME`s, of which one comes or goes.
            ([one, rest @ ..], [two, ..]) if rest.first() == Some(two) || key(one) < key(two) => {
                found.moved += most_pieces(one, room);
                before = rest;
            }
            ([one, ..], [two, next @ ..]) if next.first() == Some(one) || key(one) > key(two) => {
                found.moved += most_pieces(two, room);
                after = next;
            }
            ([one, rest @ ..], [two, next @ ..]) => {
                let is_same = match (&one.body, &two.body) {
                    (Body::Resident { value: one, .. }, Body::Resident { value: two, .. }) => {
                        one.len() == two.len()
                    }
                    (Body::Outside(left), Body::Outside(right)) => {
                        left.runs == right.runs && one.flags == two.flags
                    }
                    _ => false,
                };
                match is_same && one.kind != Kind::FILE_NAME {
                    true => found.same += 1,
                    false => found.moved += most_pieces(one, room) + most_pieces(two, room),
                }
                (before, after) = (rest, next);
            }
        }
    }
}

/// A record of a file while the file's pieces are assigned to records.
struct Bin {
    reference: Reference,
    left: usize,
    /// The attributes that the record has at present.
    old: Vec<Attribute>,
    /// The number that the next new attribute of the record gets.
    next: u16,
    is_used: bool,
}

/// How the pieces of a file are spread over its records.
struct Spread {
    bins: Vec<Bin>,
    /// For each piece the index of its bin, and its attribute number if it is in that record already.
    homes: Vec<(usize, Option<u16>)>,
    /// The index of the first piece for which no bin has room.
    lacking: Option<usize>,
}

/// What tells pieces of a file apart: type, name, first virtual cluster, and of a `$FILE_NAME` its value.
type PieceKey<'a> = (Kind, &'a [u16], u64, &'a [u8]);

fn piece_key(piece: &Attribute) -> PieceKey<'_> {
    match &piece.content {
        AttributeContent::Resident { value, .. } if piece.kind == Kind::FILE_NAME => {
            (piece.kind, &piece.name, 0, value)
        }
        AttributeContent::Resident { .. } => (piece.kind, &piece.name, 0, &[]),
        AttributeContent::NonResident(outside) => (piece.kind, &piece.name, outside.first, &[]),
    }
}

/// The attribute list entry of a piece; its record and attribute number are filled in later.
fn entry(piece: &Attribute) -> ListEntry {
    let (kind, _, first, _) = piece_key(piece);
    ListEntry { kind, name: piece.name.clone(), first, record: Reference::default(), id: 0 }
}

/// Whether two records are the same, apart from the bytes that their update sequences have put aside.
fn is_same_record(one: &[u8], two: &[u8]) -> bool {
    let (at, count) = (usize::from(u16_at(two, 4)), usize::from(u16_at(two, 6)));
    let aside = at + 2..at + 2 * count;
    one[..aside.start] == two[..aside.start] && one[aside.end..] == two[aside.end..]
}

/// Bytes that an attribute list with these runs takes in the base record.
fn list_attribute_length(runs: &[Run]) -> usize {
    0x40 + packed_length(runs, ENDLESS).next_multiple_of(8)
}

fn is_mft(file: &File) -> bool {
    file.reference.number() == record_number::MFT
}

/// Whether a piece must lie in the base record: `$STANDARD_INFORMATION`, and the first runs of `$MFT`, which lead to
/// its other records.
fn must_be_in_base(piece: &Attribute, is_mft: bool) -> bool {
    let (kind, name, first, _) = piece_key(piece);
    kind == Kind::STANDARD_INFORMATION || is_mft && kind == Kind::DATA && name.is_empty() && first == 0
}

impl Core {
    fn room(&self) -> usize {
        Record::room(self.geometry.record as usize)
    }

    /// Whether an attribute list of `bytes` bytes is resident in the base record.
    fn is_resident_list(&self, bytes: usize) -> bool {
        bytes + 0x18 <= self.room() / 3
    }

    /// Cuts the attributes of a file that needs several records into pieces.
    pub(super) fn pieces_of(&self, file: &File) -> Vec<Attribute> {
        let room = self.room();
        // The first piece of `$MFT`'s own runs must lie in its base record, which leads to all others.
        file.pieces(if is_mft(file) { room / 3 } else { room }, room, self.geometry.cluster)
    }

    /// Stores a file: notes that the commit must make its records, and takes the records and clusters that this needs.
    ///
    /// # Errors
    /// [`Error::NoSpace`], also if the free clusters lie in so small pieces that the runs of an attribute list in them
    /// would not fit into the base record. [`Error::RecordFull`] if the attribute list would be too long, or an
    /// attribute is.
    pub fn store(&mut self, mut file: File) -> Result<()> {
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
    fn give_record_back(&mut self, reference: Reference) {
        match self.is_stored(reference.number()) {
            true => self.free_record(reference),
            false => self.clear_record_bit(reference.number()),
        }
    }

    /// Gives up the clusters of a file's attribute list, and those that were taken for the next list.
    pub fn give_list(&mut self, file: &mut File) {
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

    /// Assigns each piece of a file to one of the file's records.
    fn spread(&mut self, file: &File, pieces: &[Attribute]) -> Result<Spread> {
        let (room, is_mft) = (self.room(), is_mft(file));
        let (size, cluster) = (u64::from(self.geometry.record), self.geometry.cluster);
        let bytes: usize = pieces.iter().map(|piece| ListEntry::length_of(piece.name.len())).sum();
        let list = match self.is_resident_list(bytes) {
            true => (0x18 + bytes).next_multiple_of(8),
            false => list_attribute_length(&file.list).max(list_attribute_length(&file.ahead.spare)),
        };
        let mut bins = Vec::with_capacity(1 + file.extensions.len());
        for &reference in [&file.reference].into_iter().chain(&file.extensions) {
            let number = reference.number();
            let mut bin = Bin { reference, left: room, old: Vec::new(), next: 0, is_used: false };
            if self.is_stored(number) {
                let record = Record::from_bytes(&self.record(number)?, self.record_place(number)?)?;
                let greatest = record.attributes.iter().map(|attribute| attribute.id + 1).max();
                bin.next = record.next_id.max(greatest.unwrap_or(0));
                bin.old = record.attributes;
            }
            bins.push(bin);
        }
        bins[0].left = room.saturating_sub(list);
        let olds: Vec<Vec<Attribute>> = bins.iter_mut().map(|bin| std::mem::take(&mut bin.old)).collect();
        let mut known: HashMap<PieceKey<'_>, (usize, u16, usize)> = HashMap::new();
        for (bin, old) in olds.iter().enumerate() {
            known.extend(old.iter().map(|piece| (piece_key(piece), (bin, piece.id, piece.length()))));
        }
        let homes: Vec<Option<(usize, u16, usize)>> =
            pieces.iter().map(|piece| known.get(&piece_key(piece)).copied()).collect();
        let mut places: Vec<Option<(usize, Option<u16>)>> = vec![None; pieces.len()];
        // Whether a driver that has read the pieces before this one can find the record, if this is a piece of `$MFT`'s
        // own runs.
        let can_be_found = |index: usize, reference: Reference| match piece_key(&pieces[index]) {
            (Kind::DATA, [], first, _) if is_mft => {
                reference.number() == record_number::MFT || (reference.number() + 1) * size <= first * cluster
            }
            _ => true,
        };
        let put = |bins: &mut [Bin], index: usize, bin: usize| -> bool {
            let length = pieces[index].length();
            let fits = bins[bin].left >= length && can_be_found(index, bins[bin].reference);
            if fits {
                bins[bin].left -= length;
                bins[bin].is_used = true;
            }
            fits
        };
        for index in (0..pieces.len()).filter(|index| must_be_in_base(&pieces[*index], is_mft)) {
            if !put(&mut bins, index, 0) {
                return Err(Error::RecordFull { format: "NTFS", what: "its base record is full" });
            }
            places[index] = Some((0, homes[index].filter(|home| home.0 == 0).map(|home| home.1)));
        }
        for may_grow in [false, true] {
            for index in 0..pieces.len() {
                if places[index].is_none()
                    && let Some((bin, id, length)) = homes[index]
                    && (may_grow || length == pieces[index].length())
                    && put(&mut bins, index, bin)
                {
                    places[index] = Some((bin, Some(id)));
                }
            }
        }
        let mut lacking = None;
        for (index, place) in places.iter_mut().enumerate().filter(|(_, place)| place.is_none()) {
            *place = (0..bins.len()).find(|bin| put(&mut bins, index, *bin)).map(|bin| (bin, None));
            if place.is_none() {
                lacking = lacking.or(Some(index));
            }
        }
        for (bin, old) in bins.iter_mut().zip(olds) {
            bin.old = old;
        }
        let homes = places.into_iter().map(|place| place.unwrap_or((0, None))).collect();
        Ok(Spread { bins, homes, lacking })
    }

    /// Makes the records of changed files that need several, from the records and clusters that were taken ahead.
    pub(super) fn encode_spread(&mut self) -> Result<()> {
        let room = self.room();
        let stale = self.stale.iter().filter_map(|number| self.files.get(number));
        let spread: Vec<Arc<File>> = stale.filter(|file| file.length() > room).cloned().collect();
        for file in spread {
            self.encode((*file).clone())?;
        }
        Ok(())
    }

    fn encode(&mut self, mut file: File) -> Result<()> {
        let number = file.reference.number();
        let pieces = self.pieces_of(&file);
        let mut spread = self.spread(&file, &pieces)?;
        debug_assert!(spread.lacking.is_none(), "file {number}: records were taken for all its attributes");
        while spread.lacking.is_some() {
            if is_mft(&file) {
                return Err(Error::NoSpace);
            }
            file.extensions.push(self.take_record()?);
            spread = self.spread(&file, &pieces)?;
        }
        let Spread { mut bins, homes, .. } = spread;
        let mut list: Vec<ListEntry> = pieces.iter().map(entry).collect();
        let mut parts: Vec<Vec<Attribute>> = bins.iter().map(|_| Vec::new()).collect();
        for (piece, ((bin, id), entry)) in pieces.into_iter().zip(homes.into_iter().zip(&mut list)) {
            let id = id.unwrap_or(bins[bin].next);
            bins[bin].next = bins[bin].next.max(id.wrapping_add(1));
            (entry.record, entry.id) = (bins[bin].reference, id);
            parts[bin].push(Attribute { id, ..piece });
        }
        let mut value = Vec::new();
        list.iter().for_each(|entry| entry.append_to(&mut value));
        let is_resident = self.is_resident_list(value.len());
        let attribute = if is_resident {
            self.give_list(&mut file);
            Attribute::resident(Kind::ATTRIBUTE_LIST, value.clone())
        } else {
            self.place_list(&mut file, &list, &mut value)?
        };
        file.list_value = Arc::new(value);
        let old_list = bins[0].old.iter().find(|old| old.kind == Kind::ATTRIBUTE_LIST);
        let id = old_list.map_or(bins[0].next, |old| old.id);
        bins[0].next = bins[0].next.max(id.wrapping_add(1));
        parts[0].push(Attribute { id, ..attribute });
        let mut extensions = Vec::new();
        for (index, (bin, attributes)) in bins.into_iter().zip(parts).enumerate() {
            if index > 0 && !bin.is_used {
                self.give_record_back(bin.reference);
                continue;
            }
            let base = if index == 0 { Reference::default() } else { file.reference };
            self.store_record(&file, bin.reference, base, attributes, bin.next)?;
            if index > 0 {
                extensions.push(bin.reference);
            }
        }
        file.used = extensions.len();
        file.extensions = extensions;
        file.ahead = Ahead::default();
        file.is_strange = false;
        self.files.insert(number, Arc::new(file));
        Ok(())
    }

    /// Writes an attribute list to the clusters that were taken for it, unless the old list has the same entries.
    fn place_list(&mut self, file: &mut File, list: &[ListEntry], value: &mut Vec<u8>) -> Result<Attribute> {
        let cluster = self.geometry.cluster;
        let spare = std::mem::take(&mut file.ahead.spare);
        let sorted = |mut entries: Vec<ListEntry>| {
            entries.sort_by(|one, two| one.order().cmp(&two.order()));
            entries
        };
        let is_same = !file.list.is_empty()
            && ListEntry::read_all(&file.list_value, 0).is_ok_and(|old| sorted(old) == sorted(list.to_vec()));
        if is_same {
            self.give_runs(&spare, Held::Data, true);
            value.clone_from(&file.list_value);
        } else {
            let old = std::mem::replace(&mut file.list, spare);
            let wanted = (value.len() as u64).div_ceil(cluster);
            let surplus = cut(&mut file.list, wanted);
            let have = file.list.last().map_or(0, Run::end);
            debug_assert!(have == wanted, "clusters were taken for {wanted} of the list, not for {have}");
            if have < wanted {
                let mut outside = Outside { runs: file.list.drain(..).collect(), ..Outside::default() };
                self.extend(&mut outside, wanted - have, true, true)?;
                file.list = outside.runs.to_vec();
            }
            self.give_runs(&surplus, Held::Data, true);
            self.give_runs(&old, Held::Data, true);
            let mut whole = value.clone();
            whole.resize((wanted * cluster) as usize, 0);
            // New clusters, written at once: the commit that leads to them comes later.
            self.write_runs(&file.list, 0, &whole)?;
        }
        let size = value.len() as u64;
        let outside = Outside { runs: file.list.iter().copied().collect(), size, valid: size, unit: 0 };
        let body = Body::Outside(outside);
        let attr = Attr { kind: Kind::ATTRIBUTE_LIST, name: Box::default(), flags: 0, body };
        let mut whole = File { attributes: vec![attr], ..File::new(Reference::default(), 0) }.pieces(
            1 << 30,
            1 << 30,
            cluster,
        );
        Ok(whole.swap_remove(0))
    }

    /// Makes the records of the other files that changed since the last commit; nearly all fit into one.
    pub(super) fn encode_stale(&mut self) -> Result<()> {
        let (cluster, room) = (self.geometry.cluster, self.room());
        for number in std::mem::take(&mut self.stale) {
            // A file that was removed again has no record to make.
            let Some(file) = self.files.get(&number).cloned() else { continue };
            if file.length() > room {
                self.encode((*file).clone())?;
                continue;
            }
            let mut pieces = file.pieces(1 << 30, 1 << 30, cluster);
            let count = pieces.len() as u16;
            pieces.iter_mut().zip(0..).for_each(|(piece, id)| piece.id = id);
            self.store_record(&file, file.reference, Reference::default(), pieces, count)?;
        }
        Ok(())
    }

    /// Stores one record of a file, if it changed.
    fn store_record(
        &mut self,
        file: &File,
        reference: Reference,
        base: Reference,
        attributes: Vec<Attribute>,
        next: u16,
    ) -> Result<()> {
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
        attributes.into_iter().for_each(|attribute| record.put(attribute));
        record.next_id = next;
        let Some(bytes) = record.to_bytes(self.geometry.record as usize) else {
            return Err(Error::RecordFull { format: "NTFS", what: "its attributes fit into a file record" });
        };
        if old.is_none_or(|old| !is_same_record(&old, &bytes)) {
            self.put_image(Key::Record(number), bytes);
        }
        Ok(())
    }
}
