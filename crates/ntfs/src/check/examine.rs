//! Checking one file: its records, its attribute list, and then its attributes and names.

use super::file::Assembled;
use super::types;
use super::{Check, Severity, extended, names, record, reparse, streams};
use crate::layout::{Attribute, Kind, ListEntry, ObjectId};
use platter_vfs::Result;

/// Checks a file's records and attributes, claims its clusters, repairs what can be repaired, and notes the facts that
/// directories and tables are compared with later.
pub(super) fn file(check: &mut Check<'_>, number: u64) -> Result<()> {
    let mut faults = Vec::new();
    let mut file = Assembled::read(check, number, &mut faults)?;
    let repairing = check.is_repairing;
    for fault in faults.iter().take(8) {
        check.find("record", Severity::DataLoss, Some(number), fault.clone(), repairing);
    }
    if !faults.is_empty() {
        file.records.iter_mut().for_each(|part| part.is_changed = true);
    }
    types::restore(check, &mut file);
    headers(check, &mut file);
    list(check, &mut file)?;
    reparse::examine(check, &mut file)?;
    streams::examine_all(check, &mut file)?;
    extended::examine(check, &mut file)?;
    names::collect(check, &mut file);
    if repairing && !file.store(check)? {
        if check.is_used_known {
            let message =
                format!("file record at offset {}: what would put it right does not fit into it", file.at);
            check.cannot("record-full", Some(number), message);
        } else {
            check.retry.insert(number);
        }
    }
    Ok(())
}

/// Whether attributes of this type have names.
fn may_have_name(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::DATA | Kind::INDEX_ROOT | Kind::INDEX_ALLOCATION | Kind::BITMAP | Kind::LOGGED_UTILITY_STREAM
    )
}

fn headers(check: &mut Check<'_>, file: &mut Assembled) {
    let repairing = check.is_repairing;
    for index in 0..file.records.len() {
        let part = &file.records[index];
        let at = check.table.place(&check.geometry, part.number);
        let mut wrong: Vec<String> = part.header.iter().cloned().collect();
        // Linux' ntfs3 leaves the number at 0.
        if part.record.number != 0 && u64::from(part.record.number) != part.number & 0xFFFF_FFFF {
            wrong.push(format!("number: expected {}, found {}", part.number, part.record.number));
        }
        if part.record.sequence == 0 {
            wrong.push("sequence number: expected at least 1, found 0".into());
        }
        if part.record.attributes.windows(2).any(|pair| pair[0].kind > pair[1].kind) {
            wrong.push("attributes: expected in the order of their types, found another".into());
        }
        let mut ids: Vec<u16> = part.record.attributes.iter().map(|attribute| attribute.id).collect();
        ids.sort_unstable();
        if let Some(pair) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
            wrong.push(format!("attribute numbers: expected each once, found {} twice", pair[0]));
        }
        let unknown = part.record.attributes.iter().find(|attribute| !attribute.kind.is_known());
        if let Some(unknown) = unknown {
            let message =
                format!("file record at offset {at}: expected a known attribute, found {}", unknown.kind);
            check.find("attribute-unknown", Severity::DataLoss, Some(file.number), message, repairing);
            let part = &mut file.records[index];
            part.record.attributes.retain(|attribute| attribute.kind.is_known());
            part.is_changed = true;
        }
        let is_short = |attribute: &Attribute| {
            attribute.kind == Kind::OBJECT_ID && attribute.value().and_then(ObjectId::from_bytes).is_none()
        };
        if file.records[index].record.attributes.iter().any(is_short) {
            let message = format!(
                "file record at offset {at}: $OBJECT_ID: expected at least 16 bytes in the record, found fewer"
            );
            check.find("object-id", Severity::Inconsistent, Some(file.number), message, repairing);
            let part = &mut file.records[index];
            part.record.attributes.retain(|attribute| !is_short(attribute));
            part.is_changed = true;
        }
        let is_misnamed =
            |attribute: &Attribute| !attribute.name.is_empty() && !may_have_name(attribute.kind);
        if let Some(named) =
            file.records[index].record.attributes.iter().find(|attribute| is_misnamed(attribute))
        {
            let message = format!("file record at offset {at}: {}: expected no name, found one", named.kind);
            check.find("attribute-name", Severity::Inconsistent, Some(file.number), message, repairing);
            let part = &mut file.records[index];
            let named = part.record.attributes.iter_mut().filter(|attribute| is_misnamed(attribute));
            named.for_each(|attribute| attribute.name = Box::default());
            part.is_changed = true;
        }
        if wrong.is_empty() {
            continue;
        }
        for message in wrong {
            let message = format!("file record at offset {at}: {message}");
            check.find("record-header", Severity::Inconsistent, Some(file.number), message, repairing);
        }
        let part = &mut file.records[index];
        part.record.number = part.number as u32;
        if part.record.sequence == 0 {
            part.record.sequence = check.sequence(part.number).max(1);
        }
        part.is_changed = true;
    }
}

/// Compares the attribute list with the attributes in the records.
fn list(check: &mut Check<'_>, file: &mut Assembled) -> Result<()> {
    let repairing = check.is_repairing;
    let Some(place) = file.of(Kind::ATTRIBUTE_LIST).first().copied() else {
        if file.records.len() > 1 {
            let message = format!(
                "file record at offset {}: expected an attribute list for {} more records, found none",
                file.at,
                file.records.len() - 1
            );
            check.find("list-missing", Severity::Inconsistent, Some(file.number), message, repairing);
            file.records[0].is_changed = true;
        }
        return Ok(());
    };
    let listed = record::read_list(&check.disk, &check.geometry, file.attribute(place), file.at);
    let mut listed = match listed {
        Ok(listed) => listed,
        Err(error) => {
            check.find("list", Severity::Inconsistent, Some(file.number), error.to_string(), repairing);
            file.records[0].is_changed = true;
            return Ok(());
        }
    };
    listed.sort_by(|left, right| {
        (left.kind, &left.name, left.first, left.record, left.id).cmp(&(
            right.kind,
            &right.name,
            right.first,
            right.record,
            right.id,
        ))
    });
    let there = file.entries();
    if listed != there {
        let lost: Vec<&ListEntry> = listed.iter().filter(|entry| !there.contains(entry)).take(4).collect();
        let more = there.iter().filter(|entry| !listed.contains(entry)).count();
        let severity = if lost.is_empty() { Severity::Inconsistent } else { Severity::DataLoss };
        let mut message = format!(
            "attribute list of the file record at offset {}: expected {} entries, found {}; {more} attributes are missing in it",
            file.at,
            there.len(),
            listed.len()
        );
        for entry in lost {
            message += &format!(
                "; {} from virtual cluster {} in record {} is not there",
                entry.kind, entry.first, entry.record
            );
        }
        check.find("list", severity, Some(file.number), message, repairing);
        file.records[0].is_changed = true;
    }
    Ok(())
}
