//! `$MFT` as the check reads it: where its records are, and what each of them is at first sight.

use super::disk::Disk;
use super::mft;
use crate::layout::bytes::{put, u16_at, u32_at};
use crate::layout::{Attribute, Content, Geometry, Kind, ListEntry, Record, Reference, Run, fixup, runs};
use platter_vfs::{Error, Result};

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has nothing.
    Free,
    /// It has a file.
    Base,
    /// It has a part of a file's attributes.
    Extension,
    /// It cannot be read.
    Bad,
}

/// Where the records are.
pub struct Table {
    /// The runs of `$MFT`'s data.
    pub runs: Vec<Run>,
    /// How many records were ever written.
    pub count: u64,
    /// The records that have these runs, except the first.
    pub pieces: Vec<mft::Piece>,
    /// The first record could not be used: its copy in `$MFTMirr` was.
    pub is_from_mirror: bool,
    /// Both could be.
    pub has_mirror: bool,
    /// How many of some records are where they are expected, and how many there are.
    pub score: (u64, u64),
}

/// The most records that are looked at to see whether runs of `$MFT` are right.
const SAMPLES: u64 = 64;

impl Table {
    /// Finds `$MFT` by its own first record, or by the copy of it.
    ///
    /// # Errors
    /// [`Error::Damaged`] if neither leads to it.
    pub fn find(disk: &Disk, geometry: &Geometry) -> Result<Table> {
        let mut strays = None;
        let [own, mirror] = [geometry.mft, geometry.mirror]
            .map(|cluster| Table::from_first(disk, geometry, cluster, &mut strays));
        match (own, mirror) {
            (Ok(own), Ok(mirror)) if mirror.score > own.score => Ok(Table { is_from_mirror: true, ..mirror }),
            (Ok(own), mirror) => Ok(Table { has_mirror: mirror.is_ok(), ..own }),
            (Err(_), Ok(mirror)) => Ok(Table { is_from_mirror: true, ..mirror }),
            (own, _) => own,
        }
    }

    fn from_first(
        disk: &Disk,
        geometry: &Geometry,
        cluster: u64,
        strays: &mut Option<Vec<mft::Stray>>,
    ) -> Result<Table> {
        let at = cluster * geometry.cluster;
        let mut bytes = vec![0; geometry.record as usize];
        disk.read(at, &mut bytes)?;
        fixup::remove(&mut bytes, "file record of $MFT", at)?;
        let (record, _) = salvage(&bytes, at)?;
        let missing = || Error::damaged("file record of $MFT", at, "non-resident data", "none");
        let data = |record: &Record, first: u64| {
            record.attributes.iter().find_map(|attribute| match &attribute.content {
                Content::NonResident(piece)
                    if attribute.kind == Kind::DATA && attribute.name.is_empty() && piece.first == first =>
                {
                    Some(piece.clone())
                }
                _ => None,
            })
        };
        let first = data(&record, 0).ok_or_else(missing)?;
        let mut found = runs::unpack(&first.pairs, 0, first.end, geometry.clusters, at)?;
        let mut list = Vec::new();
        if let Some(attribute) =
            record.attributes.iter().find(|attribute| attribute.kind == Kind::ATTRIBUTE_LIST)
        {
            list = read_list(disk, geometry, attribute, at).unwrap_or_default();
        }
        let listed: Vec<u64> = list
            .iter()
            .filter(|entry| entry.kind == Kind::DATA && entry.name.is_empty() && entry.record.number() > 0)
            .map(|entry| entry.record.number())
            .collect();
        // Without a list there are no further pieces, whatever a size says.
        let has_list = record.attributes.iter().any(|other| other.kind == Kind::ATTRIBUTE_LIST);
        let whole = if has_list { first.allocated / geometry.cluster } else { 0 };
        let pieces = mft::follow(disk, geometry, &mut found, whole, &listed, strays)?;
        // Holes have no records.
        let whole = found.iter().take_while(|run| run.lcn.is_some()).last().map_or(0, Run::end);
        let bytes = first.size.min(first.valid).min(whole * geometry.cluster);
        let count = bytes / u64::from(geometry.record);
        if count == 0 {
            return Err(Error::damaged("file record of $MFT", at, "at least one record", "none"));
        }
        let score = (0, 0);
        let mut table = Table { runs: found, count, pieces, is_from_mirror: false, has_mirror: false, score };
        table.score = (table.measure(disk, geometry), count);
        Ok(table)
    }

    /// How many of some records are there and know their number.
    fn measure(&self, disk: &Disk, geometry: &Geometry) -> u64 {
        let is_right = |number: u64| {
            let mut bytes = vec![0; geometry.record as usize];
            let Ok(()) = self.read(disk, geometry, number, &mut bytes) else { return false };
            // Linux' ntfs3 leaves the number at 0.
            bytes.starts_with(Record::SIGNATURE) && [0, number].contains(&u64::from(u32_at(&bytes, 0x2C)))
        };
        // The first ones count twice.
        let few = (0..16).filter(|&number| is_right(number)).count() as u64;
        let spread = (0..SAMPLES)
            .map(|sample| (u128::from(sample) * u128::from(self.count) / u128::from(SAMPLES)) as u64);
        few + spread.filter(|&number| is_right(number)).count() as u64
    }

    /// Where a record begins, in bytes on the device.
    pub fn place(&self, geometry: &Geometry, number: u64) -> u64 {
        let offset = number * u64::from(geometry.record);
        super::disk::pieces(geometry, &self.runs, offset, 1).first().and_then(|piece| piece.1).unwrap_or(0)
    }

    /// Reads records from `number` on as they stand on the device.
    pub fn read(&self, disk: &Disk, geometry: &Geometry, number: u64, buffer: &mut [u8]) -> Result<()> {
        disk.read_runs(geometry, &self.runs, number * u64::from(geometry.record), buffer)
    }
}

/// Reads what can be read of a record whose update sequence was removed: what is wrong is told, and left out.
///
/// # Errors
/// [`Error::Damaged`] if it is no record at all.
pub fn salvage(bytes: &[u8], at: u64) -> Result<(Record, Vec<String>)> {
    match Record::from_bytes(bytes, at) {
        Ok(record) => return Ok((record, Vec::new())),
        Err(error) if bytes.get(..4) != Some(Record::SIGNATURE) => return Err(error),
        Err(_) => {}
    }
    let mut faults = Vec::new();
    let mut used = u32_at(bytes, 0x18) as usize;
    if !(0x30..=bytes.len()).contains(&used) {
        faults.push(format!("used bytes: expected 48 to {}, found {used}", bytes.len()));
        used = bytes.len();
    }
    let usual = Record::header_length(bytes.len());
    let mut position = usize::from(u16_at(bytes, 0x14));
    if position < 0x28 || position + 8 > used || !position.is_multiple_of(8) {
        faults.push(format!("first attribute: expected at {usual}, found {position}"));
        position = usual;
    }
    // The header alone, as a record without attributes.
    let mut header = bytes.to_vec();
    put(&mut header, 0x14, usual as u16);
    put(&mut header, 0x18, bytes.len() as u32);
    put(&mut header, usual, Kind::END.0);
    let mut record = Record::from_bytes(&header, at)?;
    while position + 8 <= used && Kind(u32_at(bytes, position)) != Kind::END {
        match Attribute::from_bytes(&bytes[position..used], at + position as u64) {
            Ok((attribute, length)) => {
                record.attributes.push(attribute);
                position += length;
            }
            Err(error) => {
                faults.push(error.to_string());
                let length = u32_at(bytes, position + 4) as usize;
                if length < 0x18 || !length.is_multiple_of(8) || length > used - position {
                    break;
                }
                position += length;
            }
        }
    }
    if faults.is_empty() {
        faults.push("attributes: expected an end mark, found none".into());
    }
    Ok((record, faults))
}

/// The entries of an attribute list.
///
/// # Errors
/// [`Error::Damaged`] if it is not one as a whole; [`Error::Device`].
pub fn read_list(disk: &Disk, geometry: &Geometry, attribute: &Attribute, at: u64) -> Result<Vec<ListEntry>> {
    let bytes = match &attribute.content {
        Content::Resident { value, .. } => value.clone(),
        Content::NonResident(outside) => {
            if outside.size > ListEntry::LONGEST || outside.first != 0 {
                let found = format!("{} from virtual cluster {}", outside.size, outside.first);
                return Err(Error::damaged(
                    "attribute list",
                    at,
                    format!("at most {} bytes", ListEntry::LONGEST),
                    found,
                ));
            }
            let runs = runs::unpack(&outside.pairs, 0, outside.end, geometry.clusters, at)?;
            let mut bytes = vec![0; outside.size as usize];
            disk.read_runs(geometry, &runs, 0, &mut bytes)?;
            bytes
        }
    };
    ListEntry::read_all(&bytes, at)
}

/// What a record is at first sight: its state, its sequence number and the record that it extends.
pub fn look(bytes: &mut [u8], at: u64) -> (State, u16, Reference) {
    let sequence = u16_at(bytes, 0x10);
    let none = Reference::default();
    if bytes.iter().all(|&byte| byte == 0) {
        return (State::Free, 0, none);
    }
    if !bytes.starts_with(Record::SIGNATURE) || fixup::remove(bytes, "file record", at).is_err() {
        return (State::Bad, sequence, none);
    }
    let base = Reference(crate::layout::bytes::u64_at(bytes, 0x20));
    match u16_at(bytes, 0x16) & crate::layout::record_flags::IN_USE {
        0 => (State::Free, sequence, none),
        _ if base.0 == 0 => (State::Base, sequence, none),
        _ => (State::Extension, sequence, base),
    }
}
