//! The indexes in `$Extend` by which reparse points (`$Reparse`) and object identifiers (`$ObjId`) are found.

use super::file::Assembled;
use super::{Check, Severity, build, directory, order, tree};
use crate::layout::index::collation;
use crate::layout::{Kind, ObjectId, Reference, record_number as known, reparse_entry, reparse_key};
use platter_vfs::Result;
use std::collections::{BTreeMap, BTreeSet};

/// Compares both indexes with the reparse points and identifiers of files.
pub(super) fn examine(check: &mut Check<'_>) -> Result<()> {
    let mut points: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let mut objects: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    for (number, file) in &check.files {
        let reference = Reference::new(*number, file.sequence);
        if let Some(tag) = file.reparse {
            points.insert(reparse_key(tag, reference).to_vec(), reparse_entry(tag, reference));
        }
        if let Some(object) = file.object {
            objects.insert(object.to_vec(), *number);
        }
    }
    if let Some(number) = find(check, "$Reparse") {
        compare(check, number, "$R", &points.keys().cloned().collect(), |_| {
            Ok(points.values().cloned().collect())
        })?;
    }
    if let Some(number) = find(check, "$ObjId") {
        compare(check, number, "$O", &objects.keys().cloned().collect(), |check| {
            let mut entries = Vec::new();
            for number in objects.values() {
                let file = Assembled::read(check, *number, &mut Vec::new())?;
                let object = file.value(Kind::OBJECT_ID).and_then(ObjectId::from_bytes);
                entries.extend(object.map(|object| object.entry(file.reference())));
            }
            Ok(entries)
        })?;
    }
    Ok(())
}

/// The number of the file with a name in `$Extend`.
pub(super) fn find(check: &Check<'_>, name: &str) -> Option<u64> {
    let units: Vec<u16> = name.encode_utf16().collect();
    let has = |file: &super::names::File| {
        file.names.iter().any(|name| name.parent.number() == known::EXTEND && *name.units == units[..])
    };
    check.files.iter().find(|(_, file)| has(file)).map(|(number, _)| *number)
}

fn compare(
    check: &mut Check<'_>,
    number: u64,
    name: &'static str,
    expected: &BTreeSet<Vec<u8>>,
    entries: impl FnOnce(&Check<'_>) -> Result<Vec<Vec<u8>>>,
) -> Result<()> {
    let mut file = Assembled::read(check, number, &mut Vec::new())?;
    if check.is_any_cut_off(&file) {
        return Ok(());
    }
    let mut found = BTreeSet::new();
    let mut faults = match directory::open(check, &file, name) {
        Ok(tree) if tree.root.collation == collation::NUMBERS => {
            tree::walk(check, &tree, 4, &mut |_, entry, _| {
                found.insert(entry.key().to_vec());
            })
        }
        Ok(tree) => vec![format!("index: expected collation 0x13, found {:#x}", tree.root.collation)],
        Err(fault) => vec![fault],
    };
    if faults.is_empty() && found != *expected {
        let missing = expected.difference(&found).count();
        let more = found.difference(expected).count();
        faults
            .push(format!("expected {} entries, found {missing} missing and {more} others", expected.len()));
    }
    if faults.is_empty() {
        return Ok(());
    }
    for fault in faults {
        check.find(
            "view-index",
            Severity::Inconsistent,
            Some(number),
            format!("{name}: {fault}"),
            check.is_repairing,
        );
    }
    if !check.is_repairing {
        return Ok(());
    }
    let mut entries = entries(check)?;
    let key = |entry: &Vec<u8>| crate::layout::index::IndexEntry { bytes: entry, offset: 0 }.key().to_vec();
    entries.sort_by(|left, right| {
        order::compare(collation::NUMBERS, &[], &key(left), &key(right)).unwrap_or(std::cmp::Ordering::Equal)
    });
    let shape = build::Shape { name, siblings: &[name], kind: Kind(0), collation: collation::NUMBERS };
    if !build::index(check, &mut file, &shape, &entries)? || !file.store(check)? {
        check.cannot("index-full", Some(number), format!("{name}: no room for the index"));
    }
    Ok(())
}
