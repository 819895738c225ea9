//! Attribute lists that are longer than any driver accepts. Records with named streams go to a new file, which keeps
//! them under their names; names that are too many are removed.

use super::file::{Assembled, Part};
use super::record::RecordState;
use super::{Check, Pending, Severity};
use crate::layout::{
    Attribute, AttributeContent, Kind, ListEntry, Record, Reference, record_flags, record_number as known,
};
use platter_vfs::Result;
use std::collections::BTreeMap;

fn length(file: &Assembled) -> u64 {
    file.entries().iter().map(|entry| entry.length() as u64).sum()
}

fn told(check: &mut Check<'_>, code: &'static str, severity: Severity, record: u64, message: String) {
    check.pending.push(Pending { code, severity, record: Some(record), message, repaired: true });
}

/// Makes the attribute list of a file short enough to be stored. Returns `false` if that is not possible.
pub(super) fn shorten(check: &mut Check<'_>, file: &mut Assembled) -> Result<bool> {
    if file.records.len() < 2 || length(file) <= ListEntry::LONGEST {
        return Ok(true);
    }
    if !check.is_used_known || file.number < known::FIRST_FREE {
        return Ok(false);
    }
    while length(file) > ListEntry::LONGEST {
        if !part_with_streams(check, file)? && !drop_names(check, file) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Gives records with nothing but named streams to a new file, as many as must go and as the new file can have.
fn part_with_streams(check: &mut Check<'_>, file: &mut Assembled) -> Result<bool> {
    let mut pieces: BTreeMap<(Kind, Box<[u16]>), usize> = BTreeMap::new();
    for entry in file.entries() {
        *pieces.entry((entry.kind, entry.name)).or_default() += 1;
    }
    let is_whole = |attribute: &Attribute| {
        let is_first = match &attribute.content {
            AttributeContent::Resident { .. } => true,
            AttributeContent::NonResident(piece) => piece.first == 0,
        };
        let key = (attribute.kind, attribute.name.clone());
        attribute.kind == Kind::DATA && !attribute.name.is_empty() && is_first && pieces.get(&key) == Some(&1)
    };
    let excess = (length(file) - ListEntry::LONGEST).min(ListEntry::LONGEST / 2);
    let (mut moved, mut bytes, mut index): (Vec<Part>, u64, usize) = (Vec::new(), 0, file.records.len());
    while index > 1 && bytes < excess {
        index -= 1;
        let attributes = &file.records[index].record.attributes;
        if attributes.is_empty() || !attributes.iter().all(is_whole) {
            continue;
        }
        bytes += attributes.iter().map(|other| ListEntry::length_of(other.name.len()) as u64).sum::<u64>();
        moved.push(file.records.remove(index));
    }
    let free =
        (known::FIRST_FREE..check.table.count).find(|&number| check.state(number) == RecordState::Free);
    let (Some(number), false) = (free, moved.is_empty()) else {
        file.records.append(&mut moved);
        return Ok(false);
    };
    let mut record = Record::new(number);
    record.sequence = check.sequence(number).wrapping_add(1).max(1);
    record.flags = record_flags::IN_USE;
    let standard = file.of(Kind::STANDARD_INFORMATION).first().map(|place| file.attribute(*place).clone());
    if let Some(standard) = standard {
        record.add(standard);
    }
    record.add(Attribute::resident(Kind::DATA, Vec::new()));
    let reference = Reference::new(number, record.sequence);
    check.states[number as usize] = RecordState::Base;
    check.sequences[number as usize] = record.sequence;
    let count: usize = moved.iter().map(|part| part.record.attributes.len()).sum();
    for part in &mut moved {
        (part.record.base, part.is_changed) = (reference, true);
    }
    let numbers: Vec<u64> = moved.iter().map(|part| part.number).collect();
    if let Some(own) = check.extensions.get_mut(&file.number) {
        own.retain(|part| !numbers.contains(part));
    }
    check.extensions.insert(number, numbers);
    let base = Part { number, record, is_changed: true, header: None };
    let at = check.table.place(&check.geometry, number);
    let mut further = Assembled { number, records: [base].into_iter().chain(moved).collect(), at };
    file.records[0].is_changed = true;
    if !further.store(check)? {
        // Neither of the two files is written.
        check.states[number as usize] = RecordState::Free;
        let parts = further.records.split_off(1);
        let own = check.extensions.entry(file.number).or_default();
        own.extend(parts.iter().map(|part| part.number));
        check.extensions.remove(&number);
        file.records.extend(parts);
        return Ok(false);
    }
    let message = format!(
        "attribute list: expected at most {} bytes, found more; {count} named streams are with a file of their own, record \
         {number}",
        ListEntry::LONGEST
    );
    told(check, "streams-parted", Severity::Inconsistent, file.number, message);
    Ok(true)
}

/// Removes names, the last ones first, as many as must go; one stays.
fn drop_names(check: &mut Check<'_>, file: &mut Assembled) -> bool {
    let mut names = file.of(Kind::FILE_NAME);
    let excess = length(file) - ListEntry::LONGEST;
    let count = (excess.div_ceil(ListEntry::length_of(0) as u64) as usize).min(names.len().saturating_sub(1));
    if count == 0 {
        return false;
    }
    names.sort_unstable();
    for (part, index) in names.split_off(names.len() - count).into_iter().rev() {
        file.records[part].record.attributes.remove(index);
        file.records[part].is_changed = true;
    }
    let links = file.base().links.saturating_sub(count as u16);
    file.base_mut().links = links;
    let message = format!(
        "attribute list: expected at most {} bytes, found more; {count} of its names are taken away",
        ListEntry::LONGEST
    );
    told(check, "names-dropped", Severity::DataLoss, file.number, message);
    true
}
