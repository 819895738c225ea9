//! Files that no directory leads to: they are put into `found.000` in the root.

use super::file::{Assembled, key};
use super::names::{File, KnownName};
use super::record::RecordState;
use super::{Check, Severity, directory, order};
use crate::layout::index::{IndexRoot, collation};
use crate::layout::{
    Attribute, FileName, Kind, Record, Reference, file_flags, journal, namespace, record_flags,
    record_number as known,
};
use platter_vfs::Result;
use std::collections::BTreeSet;

/// The name of the directory for such files.
const FOUND: &str = "found.000";

/// Gives every file that no directory leads to a name in the directory [`FOUND`].
pub(super) fn connect(check: &mut Check<'_>) -> Result<()> {
    let orphans = std::mem::take(&mut check.orphans);
    if orphans.is_empty() {
        return Ok(());
    }
    for &number in &orphans {
        let message = "file: expected a directory that has it, found none".to_owned();
        check.find("orphan", Severity::Inconsistent, Some(number), message, check.is_repairing);
    }
    if !check.is_repairing || !check.files.get(&known::ROOT).is_some_and(|root| root.is_directory) {
        return Ok(());
    }
    let found = found(check)?;
    let upper = check.upper.clone();
    let fold = |units: &[u16]| -> Vec<u16> {
        units.iter().map(|unit| upper.get(usize::from(*unit)).copied().unwrap_or(*unit)).collect()
    };
    let there = check.files.values().flat_map(|file| &file.names).filter(|name| name.parent == found);
    let mut taken: BTreeSet<Vec<u16>> = there.map(|name| fold(&name.units)).collect();
    for number in orphans {
        if let Some(name) = system_name(check, number)? {
            let extend = Reference::new(known::EXTEND, check.sequence(known::EXTEND));
            directory::give(check, number, extend, name)?;
            check.rebuild.insert(known::EXTEND);
            continue;
        }
        let units = check.files.get(&number).and_then(|file| {
            let name = file.names.iter().find(|name| name.space != namespace::DOS)?;
            Some(name.units.clone())
        });
        let name = units
            .filter(|units| !taken.contains(&fold(units)))
            .unwrap_or_else(|| directory::numbered(number));
        taken.insert(fold(&name));
        directory::give(check, number, found, name)?;
    }
    check.rebuild.insert(found.number());
    Ok(())
}

/// The name in `$Extend` of a system file that has lost its own, recognised by its indexes and streams.
fn system_name(check: &Check<'_>, number: u64) -> Result<Option<Box<[u16]>>> {
    let file = Assembled::read(check, number, &mut Vec::new())?;
    let has = |kind, name| !file.find(&key(kind, name)).is_empty();
    let name = if has(Kind::INDEX_ROOT, "$Q") {
        "$Quota"
    } else if has(Kind::INDEX_ROOT, "$R") {
        "$Reparse"
    } else if has(Kind::INDEX_ROOT, "$O") {
        "$ObjId"
    } else if has(Kind::DATA, journal::RECORDS) {
        journal::NAME
    } else {
        return Ok(None);
    };
    let is_directory = check.files.get(&known::EXTEND).is_some_and(|extend| extend.is_directory);
    let units: Box<[u16]> = name.encode_utf16().collect();
    let mut names = check.files.values().flat_map(|file| &file.names);
    let is_there = names.any(|name| {
        name.parent.number() == known::EXTEND && check.directory(name.parent) && name.units == units
    });
    Ok((is_directory && !is_there).then_some(units))
}

/// The directory [`FOUND`], made if it does not exist; the root if there is no record for it.
fn found(check: &mut Check<'_>) -> Result<Reference> {
    let root = Reference::new(known::ROOT, check.sequence(known::ROOT));
    let units: Box<[u16]> = FOUND.encode_utf16().collect();
    let there = check.files.iter().find(|(_, file)| {
        file.is_directory
            && file
                .names
                .iter()
                .any(|name| name.parent == root && order::names(&check.upper, &name.units, &units).is_eq())
    });
    if let Some((number, file)) = there {
        return Ok(Reference::new(*number, file.sequence));
    }
    let free =
        (known::FIRST_FREE..check.table.count).find(|&number| check.state(number) == RecordState::Free);
    let Some(number) = free else { return Ok(root) };
    let sequence = check.sequence(number).wrapping_add(1).max(1);
    let above = Assembled::read(check, known::ROOT, &mut Vec::new())?;
    let mut standard = above.standard().unwrap_or_default();
    standard.flags = 0;
    let name = FileName {
        parent: root,
        created: standard.created,
        modified: standard.modified,
        changed: standard.changed,
        accessed: standard.accessed,
        flags: file_flags::DIRECTORY,
        namespace: namespace::POSIX,
        name: units.clone(),
        ..FileName::default()
    };
    let mut record = Record::new(number);
    record.sequence = sequence;
    record.flags = record_flags::IN_USE | record_flags::DIRECTORY;
    record.links = 1;
    record.add(Attribute::resident(Kind::STANDARD_INFORMATION, standard.to_bytes()));
    record.add(Attribute::resident(Kind::FILE_NAME, name.to_bytes()));
    let index =
        IndexRoot::new(Kind::FILE_NAME, collation::FILE_NAME, check.geometry.index, check.geometry.cluster);
    record.add(Attribute::resident(Kind::INDEX_ROOT, index.to_bytes()).named("$I30"));
    check.put_record(number, &record)?;
    check.states[number as usize] = RecordState::Base;
    check.sequences[number as usize] = sequence;
    let names = vec![KnownName { parent: root, units, space: namespace::POSIX, is_entered: true }];
    check.files.insert(number, File { sequence, is_directory: true, names, links: 1, ..File::default() });
    check.rebuild.insert(known::ROOT);
    Ok(Reference::new(number, sequence))
}
