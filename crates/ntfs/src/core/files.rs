//! Files: their attributes, put together from their records.

use super::{Core, DETACHED, Undo};
use crate::bits::Bits;
use crate::file::{Ahead, Attr, Body, File};
use crate::layout::runs::unpack;
use crate::layout::{Attribute, AttributeContent, Kind, ListEntry, Record, Reference, record_number};
use platter_vfs::{Error, Result};
use std::sync::Arc;

pub(super) fn is_mft(file: &File) -> bool {
    file.reference.number() == record_number::MFT
}

impl Core {
    pub(super) fn room(&self) -> usize {
        Record::room(self.geometry.record as usize)
    }

    /// Cuts the attributes of a file that needs several records into pieces.
    pub(super) fn pieces_of(&self, file: &File) -> Vec<Attribute> {
        let room = self.room();
        // The first piece of `$MFT`'s own runs must lie in its base record, which leads to all others.
        file.pieces(if is_mft(file) { room / 3 } else { room }, room, self.geometry.cluster)
    }

    fn parsed(&mut self, number: u64) -> Result<(Record, u64)> {
        let bytes = self.record(number)?;
        let at = self.record_place(number)?;
        let record = Record::from_bytes(&bytes, at)?;
        if !record.in_use() {
            return Err(Error::damaged(
                "file record",
                at + 0x16,
                "a record in use",
                format!("flags {:#x}", record.flags),
            ));
        }
        Ok((record, at))
    }

    /// The file whose base record has this number.
    pub(crate) fn file(&mut self, number: u64) -> Result<Arc<File>> {
        if let Some(file) = self.files.get(&number) {
            return Ok(file.clone());
        }
        if number >= DETACHED {
            return Err(Error::NotFound);
        }
        let file = Arc::new(self.load(number)?);
        self.files.insert(number, file.clone());
        Ok(file)
    }

    /// Whether a reference leads to a file that there is now, and not to a record that is free or belongs to another file.
    pub(crate) fn is_file(&mut self, reference: Reference) -> bool {
        let number = reference.number();
        if number < record_number::FIRST_FREE
            || number >= self.record_count()
            || !self.is_record_taken(number)
        {
            return false;
        }
        let is_same = |known: Reference| known == reference;
        match self.files.get(&number) {
            Some(file) => is_same(file.reference),
            None => self.parsed(number).is_ok_and(|(record, _)| {
                record.base.number() == 0 && is_same(Reference::new(number, record.sequence))
            }),
        }
    }

    /// The file that a reference leads to; fails if the file has another sequence number.
    pub(crate) fn file_at(&mut self, reference: Reference) -> Result<Arc<File>> {
        let file = self.file(reference.number())?;
        let sequence = file.reference.sequence();
        if reference.sequence() != 0 && reference.sequence() != sequence {
            let at = self.record_place(reference.number())?;
            let expected = format!("sequence number {}", reference.sequence());
            return Err(Error::damaged("file record", at + 0x10, expected, sequence));
        }
        Ok(file)
    }

    /// Returns a record that extends another, from those known already or read to them.
    fn extension<'a>(
        &mut self,
        base: &Record,
        number: u64,
        reference: Reference,
        known: &'a mut Vec<(Reference, Record)>,
    ) -> Result<&'a Record> {
        let index = match known.iter().position(|(known, _)| *known == reference) {
            Some(index) => index,
            None => {
                let (record, place) = self.parsed(reference.number())?;
                if record.base.number() != number || record.sequence != reference.sequence() {
                    let expected = format!("one that extends {}", Reference::new(number, base.sequence));
                    let found = format!("{} in its life {}", record.base, record.sequence);
                    return Err(Error::damaged("file record", place + 0x20, expected, found));
                }
                known.push((reference, record));
                known.len() - 1
            }
        };
        Ok(&known[index].1)
    }

    fn load(&mut self, number: u64) -> Result<File> {
        let (base, at) = self.parsed(number)?;
        if base.base.number() != 0 {
            return Err(Error::damaged(
                "file record",
                at + 0x20,
                "a base record",
                format!("one that extends {}", base.base),
            ));
        }
        let (clusters, cluster) = (self.geometry.clusters, self.geometry.cluster);
        let Some(list) = base.attributes.iter().find(|attribute| attribute.kind == Kind::ATTRIBUTE_LIST)
        else {
            let pieces = base.attributes.clone();
            return File::from_pieces(&base, number, pieces, clusters, cluster, at);
        };
        let (value, list_runs) = match &list.content {
            AttributeContent::Resident { value, .. } => (value.clone(), Vec::new()),
            AttributeContent::NonResident(outside) => {
                let runs = unpack(&outside.pairs, outside.first, outside.end, clusters, at)?;
                if outside.size > ListEntry::LONGEST {
                    let expected = format!("at most {} bytes", ListEntry::LONGEST);
                    return Err(Error::damaged("$ATTRIBUTE_LIST", at, expected, outside.size));
                }
                (self.read_runs(&runs, 0, outside.size)?, runs)
            }
        };
        let mut extensions: Vec<(Reference, Record)> = Vec::new();
        let mut pieces: Vec<Attribute> = Vec::new();
        for entry in ListEntry::read_all(&value, at)? {
            let from = match entry.record.number() == number {
                true => &base,
                false => self.extension(&base, number, entry.record, &mut extensions)?,
            };
            let is_meant = |piece: &&Attribute| {
                piece.kind == entry.kind
                    && piece.name == entry.name
                    && piece.id == entry.id
                    && match &piece.content {
                        AttributeContent::Resident { .. } => entry.first == 0,
                        AttributeContent::NonResident(outside) => outside.first == entry.first,
                    }
            };
            let Some(piece) = from.attributes.iter().find(is_meant) else {
                let expected = format!("{} number {} in record {}", entry.kind, entry.id, entry.record);
                return Err(Error::damaged("$ATTRIBUTE_LIST", at, expected, "none"));
            };
            if piece.kind != Kind::ATTRIBUTE_LIST {
                pieces.push(piece.clone());
            }
        }
        // Not every driver keeps to the order of entries, so the pieces are sorted by their own types, names and first
        // clusters.
        let key = |piece: &Attribute| match &piece.content {
            AttributeContent::Resident { .. } => (piece.kind, piece.name.clone(), 0),
            AttributeContent::NonResident(outside) => (piece.kind, piece.name.clone(), outside.first),
        };
        pieces.sort_by_key(key);
        let keys: Vec<_> = pieces.iter().map(key).collect();
        let mut file = File::from_pieces(&base, number, pieces, clusters, cluster, at)?;
        file.is_strange = self.pieces_of(&file).iter().map(key).ne(keys);
        file.list = list_runs;
        file.list_value = Arc::new(value);
        file.extensions = extensions.into_iter().map(|(reference, _)| reference).collect();
        file.used = file.extensions.len();
        Ok(file)
    }

    /// Keeps a file in memory only, under a number that nothing on disk leads to, and returns that number.
    pub(crate) fn detach(&mut self, mut file: File) -> u64 {
        let number = self.next_detached;
        self.next_detached += 1;
        file.reference = Reference(number);
        (file.extensions, file.list, file.used) = (Vec::new(), Vec::new(), 0);
        (file.list_value, file.ahead) = (Arc::default(), Ahead::default());
        self.undo.push(Undo::File(number, None));
        self.files.insert(number, Arc::new(file));
        number
    }

    /// Forgets a file, whose record was given up.
    pub(crate) fn forget_file(&mut self, number: u64) {
        let old = self.files.remove(&number);
        self.undo.push(Undo::File(number, old));
    }

    /// Reads the bitmap of records.
    pub(crate) fn load_record_bits(&mut self) -> Result<()> {
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
        self.keep_for_mft();
        Ok(())
    }
}
