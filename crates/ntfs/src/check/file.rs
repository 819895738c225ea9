//! A file as its records say: the base record and those that extend it.

use super::Check;
use super::records::{self, State};
use crate::layout::bytes::{u16_at, u32_at};
use crate::layout::record_number as known;
use crate::layout::runs;
use crate::layout::{
    Attribute, Content, FileName, Kind, ListEntry, NonResident, Record, Reference, Run, attribute_flags,
    fixup,
};
use platter_vfs::Result;
use std::collections::BTreeMap;

/// The records of a file, the base first.
#[derive(Clone)]
pub struct Assembled {
    pub number: u64,
    pub records: Vec<Part>,
    /// The place of the base record.
    pub at: u64,
}

/// One of them.
#[derive(Clone)]
pub struct Part {
    pub number: u64,
    pub record: Record,
    pub is_changed: bool,
    /// What is wrong with sizes in its header that nothing else is made of.
    pub header: Option<String>,
}

/// More than an attribute list can name, so that of a file with too long a list all is known.
const MOST_ATTRIBUTES: usize = 1 << 16;

/// Type and name of an attribute.
pub type Key = (Kind, Box<[u16]>);

/// Where an attribute, or a piece of it, is: which part, and which of its attributes.
pub type Place = (usize, usize);

/// The attribute names that matter to a directory.
pub fn key(kind: Kind, name: &str) -> Key {
    (kind, name.encode_utf16().collect())
}

impl Assembled {
    /// Reads a file whose base record has this number. What is wrong with the records themselves is added to `faults`.
    ///
    /// # Errors
    /// If the base record cannot be read.
    pub fn read(check: &Check<'_>, number: u64, faults: &mut Vec<String>) -> Result<Assembled> {
        let at = check.table.place(&check.geometry, number);
        let mut records = vec![part(check, number, faults)?];
        let mut count = records[0].record.attributes.len();
        for &extension in check.extensions.get(&number).into_iter().flatten() {
            if count > MOST_ATTRIBUTES {
                faults.push(format!("attributes: expected at most {MOST_ATTRIBUTES}, found more"));
                break;
            }
            match part(check, extension, faults) {
                Ok(part) => {
                    count += part.record.attributes.len();
                    records.push(part);
                }
                Err(error) => faults.push(error.to_string()),
            }
        }
        Ok(Assembled { number, records, at })
    }

    pub fn base(&self) -> &Record {
        &self.records[0].record
    }

    pub fn base_mut(&mut self) -> &mut Record {
        self.records[0].is_changed = true;
        &mut self.records[0].record
    }

    pub fn reference(&self) -> Reference {
        Reference::new(self.number, self.base().sequence)
    }

    pub fn attribute(&self, place: Place) -> &Attribute {
        &self.records[place.0].record.attributes[place.1]
    }

    pub fn attribute_mut(&mut self, place: Place) -> &mut Attribute {
        self.records[place.0].is_changed = true;
        &mut self.records[place.0].record.attributes[place.1]
    }

    /// All attributes but names, with their pieces in order.
    pub fn streams(&self) -> BTreeMap<Key, Vec<Place>> {
        let mut streams: BTreeMap<Key, Vec<Place>> = BTreeMap::new();
        for place in self.places() {
            let attribute = self.attribute(place);
            if attribute.kind != Kind::FILE_NAME {
                streams.entry((attribute.kind, attribute.name.clone())).or_default().push(place);
            }
        }
        streams.values_mut().for_each(|places| self.sort(places));
        streams
    }

    /// All attributes of a type.
    pub fn of(&self, kind: Kind) -> Vec<Place> {
        self.places().filter(|&place| self.attribute(place).kind == kind).collect()
    }

    fn places(&self) -> impl Iterator<Item = Place> + '_ {
        self.records
            .iter()
            .enumerate()
            .flat_map(|(part, record)| (0..record.record.attributes.len()).map(move |index| (part, index)))
    }

    /// The pieces of the attribute of this type and name, in order.
    pub fn find(&self, key: &Key) -> Vec<Place> {
        let is_it = |place: &Place| {
            let attribute = self.attribute(*place);
            attribute.kind == key.0 && attribute.name == key.1
        };
        let mut places: Vec<Place> = self.places().filter(is_it).collect();
        self.sort(&mut places);
        places
    }

    fn sort(&self, places: &mut [Place]) {
        places.sort_by_key(|place| match &self.attribute(*place).content {
            Content::NonResident(piece) => piece.first,
            Content::Resident { .. } => 0,
        });
    }

    /// The value of a resident attribute without a name.
    pub fn value(&self, kind: Kind) -> Option<&[u8]> {
        let place = self.find(&(kind, Box::default())).first().copied()?;
        self.attribute(place).value()
    }

    /// The runs of an attribute as far as they are right, and the header that has its sizes.
    pub fn runs(&self, clusters: u64, key: &Key) -> Option<(Vec<Run>, NonResident)> {
        let places = self.find(key);
        let mut found = Vec::new();
        let mut header = None;
        for place in places {
            let Content::NonResident(piece) = &self.attribute(place).content else { break };
            let end = found.last().map_or(0, Run::end);
            if piece.first != end {
                break;
            }
            header.get_or_insert_with(|| piece.clone());
            if runs::unpack_into(&mut found, &piece.pairs, piece.first, piece.end, clusters, 0).is_err() {
                break;
            }
        }
        header.map(|header| (found, header))
    }

    /// The bytes of an attribute, wherever they are; at most `most`.
    pub fn bytes(&self, check: &Check<'_>, key: &Key, most: u64) -> Result<Option<Vec<u8>>> {
        let Some(place) = self.find(key).first().copied() else { return Ok(None) };
        if let Some(value) = self.attribute(place).value() {
            return Ok(Some(value.to_vec()));
        }
        let Some((runs, header)) = self.runs(check.geometry.clusters, key) else { return Ok(None) };
        let whole = runs.last().map_or(0, Run::end) * check.geometry.cluster;
        let mut bytes = vec![0; header.size.min(whole).min(most) as usize];
        check.disk.read_runs(&check.geometry, &runs, 0, &mut bytes)?;
        let valid = header.valid.min(bytes.len() as u64) as usize;
        bytes[valid..].fill(0);
        Ok(Some(bytes))
    }

    /// Takes an attribute out, all pieces of it.
    pub fn remove(&mut self, key: &Key) {
        for part in &mut self.records {
            let before = part.record.attributes.len();
            part.record.attributes.retain(|other| {
                (other.kind, &other.name) != (key.0, &key.1) || other.kind == Kind::FILE_NAME
            });
            part.is_changed |= part.record.attributes.len() != before;
        }
    }

    /// Puts an attribute in the place of one of the same type and name, or into the base record.
    pub fn put(&mut self, attribute: Attribute) {
        let key = (attribute.kind, attribute.name.clone());
        let part = self.find(&key).first().map_or(0, |place| place.0);
        self.remove(&key);
        self.records[part].record.add(attribute);
        self.records[part].is_changed = true;
    }

    /// Gives the file these names and no others, where the first of those that it has is.
    pub fn set_names(&mut self, names: Vec<FileName>) {
        let part = self.of(Kind::FILE_NAME).first().map_or(0, |place| place.0);
        for part in &mut self.records {
            let before = part.record.attributes.len();
            part.record.attributes.retain(|attribute| attribute.kind != Kind::FILE_NAME);
            part.is_changed |= part.record.attributes.len() != before;
        }
        for name in names {
            self.records[part].record.add(Attribute::resident(Kind::FILE_NAME, name.to_bytes()));
        }
        self.records[part].is_changed = true;
    }

    /// Gives an attribute these runs: its first piece gets them all.
    pub fn set_runs(&mut self, check: &Check<'_>, key: &Key, runs: &[Run]) -> bool {
        let places = self.find(key);
        let Some(&place) = places.first() else { return false };
        let mut attribute = self.attribute(place).clone();
        let Content::NonResident(piece) = &mut attribute.content else { return false };
        let (pairs, _) = runs::pack(runs, usize::from(u16::MAX));
        piece.first = 0;
        piece.end = runs.last().map_or(0, Run::end);
        piece.allocated = piece.end * check.geometry.cluster;
        piece.size = piece.size.min(piece.allocated);
        piece.valid = piece.valid.min(piece.size);
        piece.pairs = pairs;
        if attribute.flags & (attribute_flags::COMPRESSION_MASK | attribute_flags::SPARSE) != 0 {
            piece.taken = Some(taken(runs) * check.geometry.cluster);
        }
        self.put(attribute);
        true
    }

    /// What an attribute list of this file has to have.
    pub fn entries(&self) -> Vec<ListEntry> {
        let mut entries = Vec::new();
        for part in &self.records {
            for attribute in &part.record.attributes {
                if attribute.kind == Kind::ATTRIBUTE_LIST {
                    continue;
                }
                let first = match &attribute.content {
                    Content::NonResident(piece) => piece.first,
                    Content::Resident { .. } => 0,
                };
                let record = Reference::new(part.number, part.record.sequence);
                let (kind, name, id) = (attribute.kind, attribute.name.clone(), attribute.id);
                entries.push(ListEntry { kind, name, first, record, id });
            }
        }
        entries.sort_by(|left, right| {
            (left.kind, &left.name, left.first, left.record, left.id).cmp(&(
                right.kind,
                &right.name,
                right.first,
                right.record,
                right.id,
            ))
        });
        entries
    }

    /// Writes the records that changed, after the attribute list was made anew if there is one. `false` if something
    /// does not fit; then nothing is written.
    pub fn store(&mut self, check: &mut Check<'_>) -> Result<bool> {
        if !self.records.iter().any(|part| part.is_changed) {
            return Ok(true);
        }
        if !super::long_list::shorten(check, self)? {
            return Ok(false);
        }
        self.arrange(check);
        let size = check.geometry.record as usize;
        let mut spilled = Vec::new();
        loop {
            let has_list = self.base().attributes.iter().any(|other| other.kind == Kind::ATTRIBUTE_LIST);
            let fits = (self.records.iter().all(|part| !part.record.attributes.is_empty())
                || self.drop_empty())
                && (self.records.len() == 1 && !has_list || self.store_list(check)?)
                && self.records.iter().all(|part| part.record.to_bytes(size).is_some());
            if fits {
                break;
            }
            // Attributes are moved to another record until all fit.
            if !may_have_list(self.number) || !self.spill(check, &mut spilled) {
                spilled.iter().for_each(|&number| check.states[number as usize] = State::Free);
                return Ok(false);
            }
        }
        for part in &mut self.records {
            check.put_record(part.number, &part.record)?;
            part.is_changed = false;
        }
        let kept: Vec<u64> = self.records.iter().skip(1).map(|part| part.number).collect();
        for part in check.extensions.insert(self.number, kept.clone()).unwrap_or_default() {
            if !kept.contains(&part) {
                check.free_record(part)?;
            }
        }
        Ok(true)
    }

    /// Puts attributes in their order, with different numbers.
    fn arrange(&mut self, check: &Check<'_>) {
        let room = Record::room(check.geometry.record as usize);
        for part in &mut self.records {
            if may_have_list(self.number) {
                part_long_runs(part, check.geometry.clusters, room);
            }
            // Drivers stop looking where a type comes that is behind the one they want.
            part.record.attributes.sort_by_key(|attribute| attribute.kind);
            renumber(part);
        }
    }

    /// Leaves out extension records that have nothing any more.
    fn drop_empty(&mut self) -> bool {
        let mut is_base = true;
        self.records.retain(|part| std::mem::take(&mut is_base) || !part.record.attributes.is_empty());
        true
    }

    /// Moves an attribute from a record that is too full to one that has room.
    fn spill(&mut self, check: &mut Check<'_>, spilled: &mut Vec<u64>) -> bool {
        let size = check.geometry.record as usize;
        let room = |part: &Part| Record::room(size).saturating_sub(part.record.length());
        let full = self.records.iter().position(|part| part.record.to_bytes(size).is_none()).unwrap_or(0);
        let may_move = |attribute: &Attribute| {
            !matches!(attribute.kind, Kind::STANDARD_INFORMATION | Kind::ATTRIBUTE_LIST)
                && attribute.length() <= Record::room(size)
        };
        let attributes = self.records[full].record.attributes.iter().enumerate();
        let largest = attributes.filter(|(_, other)| may_move(other)).max_by_key(|(_, other)| other.length());
        let Some((index, length)) = largest.map(|(index, other)| (index, other.length())) else {
            return false;
        };
        let other =
            (1..self.records.len()).find(|&other| other != full && room(&self.records[other]) >= length);
        let other = match other {
            Some(other) => other,
            None => {
                if !check.is_used_known {
                    return false;
                }
                let free =
                    (known::FIRST_FREE..check.table.count).find(|&number| check.state(number) == State::Free);
                let Some(number) = free else { return false };
                check.states[number as usize] = State::Extension;
                spilled.push(number);
                let mut record = Record::new(number);
                record.sequence = check.sequence(number).wrapping_add(1).max(1);
                record.flags = crate::layout::record_flags::IN_USE;
                record.base = self.reference();
                self.records.push(Part { number, record, is_changed: true, header: None });
                self.records.len() - 1
            }
        };
        let moved = self.records[full].record.attributes.remove(index);
        self.records[other].record.add(moved);
        for part in [full, other] {
            self.records[part].is_changed = true;
            renumber(&mut self.records[part]);
        }
        true
    }

    fn store_list(&mut self, check: &mut Check<'_>) -> Result<bool> {
        let list = key(Kind::ATTRIBUTE_LIST, "");
        if self.records.len() == 1 {
            self.remove(&list);
            return Ok(true);
        }
        let mut bytes = Vec::new();
        self.entries().iter().for_each(|entry| entry.append_to(&mut bytes));
        let old = self.runs(check.geometry.clusters, &list);
        self.remove(&list);
        self.base_mut().add(Attribute::resident(Kind::ATTRIBUTE_LIST, bytes.clone()));
        if self.base().to_bytes(check.geometry.record as usize).is_some() {
            return Ok(true);
        }
        self.remove(&list);
        if bytes.len() as u64 > ListEntry::LONGEST {
            return Ok(false);
        }
        let clusters = (bytes.len() as u64).div_ceil(check.geometry.cluster);
        let runs = match old {
            Some((runs, _))
                if check.is_used_known
                    && check.is_own(&runs)
                    && runs.last().map_or(0, Run::end) >= clusters =>
            {
                runs
            }
            _ => match check.allocate(clusters) {
                Some(runs) => runs,
                None => return Ok(false),
            },
        };
        check.disk.write_runs(&check.geometry, &runs, 0, &bytes)?;
        let attribute = outside(check, list, &runs, bytes.len() as u64);
        self.base_mut().add(attribute);
        Ok(true)
    }
}

/// Whether a repair may put attributes of a file into records of their own: those that lead to all others, or that are
/// read before any other, stay whole.
fn may_have_list(number: u64) -> bool {
    number >= known::FIRST_FREE
        || [known::ROOT, known::BITMAP, known::SECURE, known::EXTEND].contains(&number)
}

/// Parts attributes whose runs do not fit into any record.
fn part_long_runs(part: &mut Part, clusters: u64, room: usize) {
    while let Some(index) = part.record.attributes.iter().position(|other| other.length() > room) {
        let attribute = &mut part.record.attributes[index];
        let fixed = attribute.length();
        let Content::NonResident(piece) = &mut attribute.content else { return };
        let fixed = fixed - piece.pairs.len().next_multiple_of(8);
        let mut all = Vec::new();
        // As far as they are right: what is not is told elsewhere.
        let _ = runs::unpack_into(&mut all, &piece.pairs, piece.first, piece.end, clusters, 0);
        let (pairs, fitted) = runs::pack(&all, (room - fixed) & !7);
        if fitted == 0 || fitted >= all.len() {
            return;
        }
        let first = all[fitted].vcn;
        let rest = NonResident {
            first,
            end: piece.end,
            unit: 0,
            allocated: 0,
            size: 0,
            valid: 0,
            taken: None,
            pairs: runs::pack(&all[fitted..], usize::MAX).0,
        };
        (piece.pairs, piece.end) = (pairs, first);
        let rest = Attribute { content: Content::NonResident(rest), ..attribute.clone() };
        part.record.attributes.insert(index + 1, rest);
        part.is_changed = true;
    }
}

/// A non-resident attribute with these runs.
pub fn outside(check: &Check<'_>, key: Key, runs: &[Run], size: u64) -> Attribute {
    let end = runs.last().map_or(0, Run::end);
    let content = Content::NonResident(NonResident {
        first: 0,
        end,
        unit: 0,
        allocated: end * check.geometry.cluster,
        size,
        valid: size,
        taken: None,
        pairs: runs::pack(runs, usize::from(u16::MAX)).0,
    });
    Attribute { kind: key.0, name: key.1, flags: 0, id: 0, content }
}

/// Clusters that runs really have.
pub fn taken(runs: &[Run]) -> u64 {
    runs.iter().filter(|run| run.lcn.is_some()).map(|run| run.length).sum()
}

/// Gives attributes that have the same number in their record others.
fn renumber(part: &mut Part) {
    let record = &mut part.record;
    let mut next =
        record.attributes.iter().map(|attribute| attribute.id).max().map_or(0, |id| id.saturating_add(1));
    let mut seen = std::collections::BTreeSet::new();
    if next == u16::MAX {
        // The numbers are used up: all anew.
        next = 0;
        record.attributes.iter_mut().for_each(|attribute| {
            attribute.id = next;
            next += 1;
        });
    }
    for attribute in &mut record.attributes {
        if !seen.insert(attribute.id) {
            attribute.id = next;
            next += 1;
        }
    }
    record.next_id = record.next_id.max(next);
}

fn part(check: &Check<'_>, number: u64, faults: &mut Vec<String>) -> Result<Part> {
    let at = check.table.place(&check.geometry, number);
    let mut bytes = vec![0; check.geometry.record as usize];
    check.table.read(&check.disk, &check.geometry, number, &mut bytes)?;
    fixup::remove(&mut bytes, "file record", at)?;
    let (record, wrong) = records::salvage(&bytes, at)?;
    let mut header = None;
    if wrong.is_empty() {
        let (used, allocated) = (u32_at(&bytes, 0x18) as usize, u32_at(&bytes, 0x1C) as usize);
        let end = usize::from(u16_at(&bytes, 0x14)) + record.length() + 8;
        if allocated != bytes.len() {
            header = Some(format!("allocated bytes: expected {}, found {allocated}", bytes.len()));
        } else if used < end.min(bytes.len()) || used > end + 0x100 {
            header = Some(format!("used bytes: expected {end}, found {used}"));
        }
    }
    faults.extend(wrong);
    Ok(Part { number, record, is_changed: false, header })
}
