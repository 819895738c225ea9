//! One record of `$MFT` as it is on the device: its state according to its header, and the parts that can be read.

use super::disk::Disk;
use crate::layout::bytes::{put, u16_at, u32_at, u64_at};
use crate::layout::{
    Attribute, AttributeContent, Geometry, Kind, ListEntry, Record, Reference, fixup, record_flags, runs,
};
use platter_vfs::{Error, Result};
use std::collections::BTreeSet;

/// The state of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordState {
    /// The record is unused.
    Free,
    /// The record is the base record of a file.
    Base,
    /// The record extends a file: it holds a part of the file's attributes.
    Extension,
    /// The record cannot be read.
    Bad,
}

/// Reads the undamaged parts of a record whose update sequence was removed, and returns them with a list of the faults.
///
/// # Errors
/// [`Error::Damaged`] if it is no record at all.
pub(crate) fn salvage(bytes: &[u8], at: u64) -> Result<(Record, Vec<String>)> {
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
    // The header is read by itself, as that of a record without attributes.
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
                // Of the byte that says whether the attribute is resident, only the lowest bit has a meaning.
                let mut other = bytes[position..position + length].to_vec();
                if std::mem::replace(&mut other[8], bytes[position + 8] & 1) > 1
                    && let Ok((attribute, _)) = Attribute::from_bytes(&other, at + position as u64)
                {
                    record.attributes.push(attribute);
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

/// The record in `bytes`, although its signature or its update sequence says that it was not written whole, if all the
/// rest of it says that it was: it has the right number, and attributes that NTFS has, in their order, up to the end mark.
pub(crate) fn believed(bytes: &[u8], number: u64, at: u64) -> Option<Record> {
    let (bytes, _) = Record::mended(bytes)?;
    let record = Record::from_bytes(&bytes, at).ok()?;
    let has_standard = record.find(Kind::STANDARD_INFORMATION, "").is_some();
    let ids: BTreeSet<u16> = record.attributes.iter().map(|attribute| attribute.id).collect();
    let is_whole = record.in_use()
        && u64::from(record.number) == number & 0xFFFF_FFFF
        && record.sequence != 0
        // Only base records have this attribute.
        && (record.base.0 == 0) == has_standard
        && !record.attributes.is_empty()
        && record.attributes.is_sorted_by_key(|attribute| attribute.kind)
        && record.attributes.iter().all(|attribute| attribute.kind.is_known())
        && ids.len() == record.attributes.len();
    is_whole.then_some(record)
}

/// The entries of an attribute list.
///
/// # Errors
/// [`Error::Damaged`] if the list cannot be read as a whole; [`Error::Device`].
pub(crate) fn read_list(
    disk: &Disk,
    geometry: &Geometry,
    attribute: &Attribute,
    at: u64,
) -> Result<Vec<ListEntry>> {
    let bytes = match &attribute.content {
        AttributeContent::Resident { value, .. } => value.clone(),
        AttributeContent::NonResident(outside) => {
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

/// The state of a record according to its header, its sequence number, and the record that it extends.
pub(crate) fn look(bytes: &mut [u8], at: u64) -> (RecordState, u16, Reference) {
    let sequence = u16_at(bytes, 0x10);
    let none = Reference::default();
    if bytes.iter().all(|&byte| byte == 0) {
        return (RecordState::Free, 0, none);
    }
    if !bytes.starts_with(Record::SIGNATURE) || fixup::remove(bytes, "file record", at).is_err() {
        return (RecordState::Bad, sequence, none);
    }
    let base = Reference(u64_at(bytes, 0x20));
    match u16_at(bytes, 0x16) & record_flags::IN_USE {
        0 => (RecordState::Free, sequence, none),
        _ if base.0 == 0 => (RecordState::Base, sequence, none),
        _ => (RecordState::Extension, sequence, base),
    }
}
