//! A file, put together from its records: the base record and those that extend it.

use super::Check;
use super::record;
use crate::layout::bytes::{u16_at, u32_at};
use crate::layout::runs;
use crate::layout::{
    Attribute, AttributeContent, FileName, Kind, ListEntry, NonResident, Record, Reference, Run,
    StandardInformation, attribute_flags, fixup,
};
use platter_vfs::Result;
use std::collections::BTreeMap;

/// The records of a file, the base first.
#[derive(Clone)]
pub struct Assembled {
    pub number: u64,
    pub records: Vec<Part>,
    /// The device offset of the base record.
    pub at: u64,
}

/// One record of a file.
#[derive(Clone)]
pub struct Part {
    pub number: u64,
    pub record: Record,
    pub is_changed: bool,
    /// The fault in the sizes in its header, if there is one; the sizes are computed anew when the record is written.
    pub header: Option<String>,
}

/// More attributes than an attribute list can name, so that a file with too long a list is read as a whole.
const MOST_ATTRIBUTES: usize = 1 << 16;

/// Type and name of an attribute.
pub(super) type Key = (Kind, Box<[u16]>);

/// The place of an attribute, or of a piece of one: the index of the part, and the index among the part's attributes.
pub(super) type AttributePlace = (usize, usize);

/// The key of the attribute with this type and name.
pub(super) fn key(kind: Kind, name: &str) -> Key {
    (kind, name.encode_utf16().collect())
}

impl Assembled {
    /// Reads the file whose base record has this number. Faults in the records themselves are added to `faults`.
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

    pub fn attribute(&self, place: AttributePlace) -> &Attribute {
        &self.records[place.0].record.attributes[place.1]
    }

    pub fn attribute_mut(&mut self, place: AttributePlace) -> &mut Attribute {
        self.records[place.0].is_changed = true;
        &mut self.records[place.0].record.attributes[place.1]
    }

    /// All attributes but names, each with its pieces in order.
    pub fn streams(&self) -> BTreeMap<Key, Vec<AttributePlace>> {
        let mut streams: BTreeMap<Key, Vec<AttributePlace>> = BTreeMap::new();
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
    pub fn of(&self, kind: Kind) -> Vec<AttributePlace> {
        self.places().filter(|&place| self.attribute(place).kind == kind).collect()
    }

    fn places(&self) -> impl Iterator<Item = AttributePlace> + '_ {
        self.records
            .iter()
            .enumerate()
            .flat_map(|(part, record)| (0..record.record.attributes.len()).map(move |index| (part, index)))
    }

    /// The pieces of the attribute of this type and name, in order.
    pub fn find(&self, key: &Key) -> Vec<AttributePlace> {
        let is_it = |place: &AttributePlace| {
            let attribute = self.attribute(*place);
            attribute.kind == key.0 && attribute.name == key.1
        };
        let mut places: Vec<AttributePlace> = self.places().filter(is_it).collect();
        self.sort(&mut places);
        places
    }

    fn sort(&self, places: &mut [AttributePlace]) {
        places.sort_by_key(|place| match &self.attribute(*place).content {
            AttributeContent::NonResident(piece) => piece.first,
            AttributeContent::Resident { .. } => 0,
        });
    }

    /// The value of a resident attribute without a name.
    pub fn value(&self, kind: Kind) -> Option<&[u8]> {
        let place = self.find(&(kind, Box::default())).first().copied()?;
        self.attribute(place).value()
    }

    /// `$STANDARD_INFORMATION`, if it can be read.
    pub fn standard(&self) -> Option<StandardInformation> {
        StandardInformation::from_bytes(self.value(Kind::STANDARD_INFORMATION)?, 0).ok()
    }

    /// The runs of an attribute up to the first damage, and the header that has the attribute's sizes.
    pub fn runs(&self, clusters: u64, key: &Key) -> Option<(Vec<Run>, NonResident)> {
        let places = self.find(key);
        let mut found = Vec::new();
        let mut header = None;
        for place in places {
            let AttributeContent::NonResident(piece) = &self.attribute(place).content else { break };
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

    /// The bytes of an attribute, resident or not; of a non-resident one at most `most`.
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

    /// Removes an attribute with all its pieces.
    pub fn remove(&mut self, key: &Key) {
        for part in &mut self.records {
            let before = part.record.attributes.len();
            part.record.attributes.retain(|other| {
                (other.kind, &other.name) != (key.0, &key.1) || other.kind == Kind::FILE_NAME
            });
            part.is_changed |= part.record.attributes.len() != before;
        }
    }

    /// Replaces the attribute of the same type and name, in the same record, or adds this one to the base record.
    pub fn put(&mut self, attribute: Attribute) {
        let key = (attribute.kind, attribute.name.clone());
        let part = self.find(&key).first().map_or(0, |place| place.0);
        self.remove(&key);
        self.records[part].record.add(attribute);
        self.records[part].is_changed = true;
    }

    /// Replaces all names of the file by these, in the record that holds its first name now.
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
        let AttributeContent::NonResident(piece) = &mut attribute.content else { return false };
        let (pairs, _) = runs::pack(runs, usize::from(u16::MAX));
        piece.first = 0;
        piece.end = runs.last().map_or(0, Run::end);
        piece.allocated = piece.end * check.geometry.cluster;
        piece.size = piece.size.min(piece.allocated);
        piece.valid = match is_initialized(key.0) {
            true => piece.size,
            false => piece.valid.min(piece.size),
        };
        piece.pairs = pairs;
        if attribute.flags & (attribute_flags::COMPRESSION_MASK | attribute_flags::SPARSE) != 0 {
            piece.taken = Some(taken(runs) * check.geometry.cluster);
        }
        self.put(attribute);
        true
    }

    /// The entries that this file's attribute list must have.
    pub fn entries(&self) -> Vec<ListEntry> {
        let mut entries = Vec::new();
        for part in &self.records {
            for attribute in &part.record.attributes {
                if attribute.kind == Kind::ATTRIBUTE_LIST {
                    continue;
                }
                let first = match &attribute.content {
                    AttributeContent::NonResident(piece) => piece.first,
                    AttributeContent::Resident { .. } => 0,
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
}

/// Whether every byte of attributes of this type has been written.
pub(super) fn is_initialized(kind: Kind) -> bool {
    matches!(kind, Kind::INDEX_ALLOCATION | Kind::ATTRIBUTE_LIST)
}

/// A non-resident attribute with these runs.
pub(super) fn outside(check: &Check<'_>, key: Key, runs: &[Run], size: u64) -> Attribute {
    let end = runs.last().map_or(0, Run::end);
    let content = AttributeContent::NonResident(NonResident {
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

/// The number of clusters in runs, holes not included.
pub(super) fn taken(runs: &[Run]) -> u64 {
    runs.iter().filter(|run| run.lcn.is_some()).map(|run| run.length).sum()
}

fn part(check: &Check<'_>, number: u64, faults: &mut Vec<String>) -> Result<Part> {
    let at = check.table.place(&check.geometry, number);
    let mut bytes = vec![0; check.geometry.record as usize];
    check.table.read(&check.disk, &check.geometry, number, &mut bytes)?;
    fixup::remove(&mut bytes, "file record", at)?;
    let (record, wrong) = record::salvage(&bytes, at)?;
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
