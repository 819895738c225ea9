//! Directories: their indexes are compared with the names in file records, and built anew from those.

use super::file::{Assembled, Key, key};
use super::misspelt::Misspelt;
use super::names::{self, KnownName};
use super::tree::{self, Tree};
use super::{Check, Severity, build, order};
use crate::layout::bytes::u32_at;
use crate::layout::index::{IndexRoot, collation};
use crate::layout::{
    AttributeContent, FileName, Kind, Reference, Run, file_flags, namespace, record_number as known,
};
use platter_vfs::Result;
use std::collections::{BTreeMap, BTreeSet};

/// Where the node of an index root begins in its value.
const NODE: usize = 0x10;

/// How many faults of one index are reported.
const TOLD: usize = 8;

/// The most bytes of an index's bitmap that are read: bits for 2^27 blocks.
const MOST_BITMAP: u64 = 16 << 20;

/// Opens an index of a file; the error says which part is missing or damaged.
pub(super) fn open(check: &Check<'_>, file: &Assembled, name: &str) -> std::result::Result<Tree, String> {
    let root = file.find(&key(Kind::INDEX_ROOT, name));
    let value = root.first().and_then(|place| file.attribute(*place).value());
    let value = value.ok_or_else(|| "expected $INDEX_ROOT, found none".to_owned())?;
    let root = IndexRoot::from_bytes(value, file.at).map_err(|error| error.to_string())?;
    // The node in the root takes what is left of the value.
    let (used, allocated) = (u32_at(value, NODE + 4), u32_at(value, NODE + 8));
    let room = (value.len() - NODE) as u32;
    if !(used..=room).contains(&allocated) {
        return Err(format!("index root: expected {used} to {room} allocated bytes, found {allocated}"));
    }
    let (mut runs, mut size): (Vec<Run>, u64) = (Vec::new(), 0);
    if let Some((found, header)) = file.runs(check.geometry.clusters, &key(Kind::INDEX_ALLOCATION, name)) {
        size = header.size.min(found.last().map_or(0, Run::end) * check.geometry.cluster);
        runs = found;
    }
    let bitmap =
        file.bytes(check, &key(Kind::BITMAP, name), MOST_BITMAP).map_err(|error| error.to_string())?;
    Ok(Tree { root, runs, size, bitmap: bitmap.unwrap_or_default(), at: file.at })
}

/// Checks the indexes of all directories.
pub(super) fn walk_all(check: &mut Check<'_>) -> Result<()> {
    let directories: Vec<u64> =
        check.files.iter().filter(|(_, file)| file.is_directory).map(|(number, _)| *number).collect();
    let total = directories.len() as u64;
    for (done, number) in directories.into_iter().enumerate() {
        check.progress.step("checking directories", done as u64, total)?;
        walk(check, number)?;
    }
    Ok(())
}

fn walk(check: &mut Check<'_>, number: u64) -> Result<()> {
    let file = Assembled::read(check, number, &mut Vec::new())?;
    let repairing = check.is_repairing;
    let own = file.reference();
    let told = |check: &mut Check<'_>, code, message: String| {
        check.find(code, Severity::Inconsistent, Some(number), message, repairing);
        check.rebuild.insert(number);
    };
    let tree = match open(check, &file, "$I30") {
        Ok(tree) => tree,
        Err(fault) => {
            told(check, "index", fault);
            return Ok(());
        }
    };
    if tree.root.kind != Kind::FILE_NAME || tree.root.collation != collation::FILE_NAME {
        let message = format!(
            "index: expected one of names, found {} with collation {}",
            tree.root.kind, tree.root.collation
        );
        told(check, "index", message);
    }
    if check.crossed.has_any_of(&tree.runs) {
        told(check, "index", "index: clusters of it belong to others".into());
    }
    let mut dead: u64 = 0;
    let mut first: Option<String> = None;
    let mut misled = Vec::new();
    let mut misspelt = Misspelt::default();
    let faults = tree::walk(check, &tree, TOLD, &mut |check, entry, place| {
        let reference = Reference(entry.head());
        let is_cut_off = check.is_record_cut_off(reference.number());
        let fault = match FileName::from_bytes(entry.key(), place) {
            Err(error) => Some(error.to_string()).filter(|_| !is_cut_off),
            Ok(key) => {
                misled.extend(lead_back(check, own, reference, &key));
                if misspelt.visit(check, own, reference, &key, place) {
                    return;
                }
                if is_cut_off && key.namespace != namespace::DOS {
                    check.find_name_behind_end(number, &key.name, reference.number());
                }
                if is_cut_off { None } else { name(check, own, reference, &key, place).err() }
            }
        };
        if let Some(fault) = fault {
            dead += 1;
            first.get_or_insert(fault);
        }
    });
    for fault in misspelt.settle(check, own)? {
        dead += 1;
        first.get_or_insert(fault);
    }
    // Blocks behind the end of the device are reported with their file. The faults and missing entries that follow from
    // them are no further damage.
    if check.is_cut_off(&file, &key(Kind::INDEX_ALLOCATION, "$I30")) {
        check.rebuild.insert(number);
    } else {
        faults.into_iter().for_each(|fault| told(check, "index", fault));
    }
    for (child, name, before) in misled {
        let shown = String::from_utf16_lossy(&name.name);
        let (code, message) = match &before {
            Some(before) => {
                let found = before.parent;
                (
                    "name-parent",
                    format!("name \"{shown}\": expected directory {own}, which has it, found {found}"),
                )
            }
            None => (
                "name-lost",
                format!("name \"{shown}\": expected in its record too, found in directory {own} only"),
            ),
        };
        check.find(code, Severity::Inconsistent, Some(child), message, repairing);
        check.edit(child, |file| match &before {
            Some(before) => names::change_name(file, before, |name| name.parent = own),
            None => names::add(file, name),
        })?;
    }
    if let Some(first) = first {
        let more = if dead > 1 { format!(", and {} more", dead - 1) } else { String::new() };
        told(check, "entry-dead", format!("{first}{more}"));
    }
    Ok(())
}

/// Handles a name that a directory has and the file's record has not: the record has the name in another directory,
/// which does not exist, or has lost the name. From then on the file has the name. Returns the number of its record,
/// the name, and the name as it was in the record.
fn lead_back(
    check: &mut Check<'_>,
    directory: Reference,
    reference: Reference,
    key: &FileName,
) -> Option<(u64, FileName, Option<KnownName>)> {
    let number = reference.number();
    let file = check.files.get(&number).filter(|file| file.sequence == reference.sequence())?;
    if key.parent != directory {
        return None;
    }
    let is_it = |name: &KnownName| name.is_called(key);
    // A parent with the sequence number 0 matches every use of the directory's record, but the entry states the right
    // number, so such a parent counts as wrong.
    let is_astray = |parent: Reference| {
        !check.directory(parent) || parent.number() == directory.number() && parent != directory
    };
    let index = file.names.iter().position(|name| is_it(name) && is_astray(name.parent));
    let is_lost = number >= known::FIRST_FREE
        && !file.names.iter().any(is_it)
        && file.names.len() < usize::from(file.links.max(1))
        && names::is_possible(key, number);
    if index.is_none() && !is_lost {
        return None;
    }
    let names = &mut check.files.get_mut(&number)?.names;
    let before = index.map(|index| names[index].clone());
    match index {
        Some(index) => names[index].parent = directory,
        None => names.push(KnownName {
            parent: directory,
            units: key.name.clone(),
            space: key.namespace,
            is_entered: false,
        }),
    }
    Some((number, key.clone(), before))
}

/// Compares an entry with the record that it leads to.
fn name(
    check: &mut Check<'_>,
    directory: Reference,
    reference: Reference,
    key: &FileName,
    place: u64,
) -> std::result::Result<(), String> {
    let shown = String::from_utf16_lossy(&key.name);
    let wrong = |expected: String, found: String| {
        Err(format!("entry \"{shown}\" at offset {place}: expected {expected}, found {found}"))
    };
    let sequence = check.sequence(reference.number());
    let Some(file) = check.files.get_mut(&reference.number()) else {
        return wrong(format!("a file at record {reference}"), "none".into());
    };
    if reference.sequence() != file.sequence {
        return wrong(
            format!("sequence number {sequence} of record {}", reference.number()),
            reference.to_string(),
        );
    }
    let is_it = |name: &KnownName| name.parent.number() == directory.number() && name.is_called(key);
    let found = file.names.iter_mut().find(|name| is_it(name));
    let Some(name) = found else {
        return wrong(format!("a name that record {reference} has"), "another".into());
    };
    if name.parent != directory || key.parent != directory {
        return wrong(format!("directory {directory}"), format!("{} and {}", name.parent, key.parent));
    }
    if std::mem::replace(&mut name.is_entered, true) {
        return wrong("each name once".into(), "it again".into());
    }
    if (key.flags & file_flags::DIRECTORY != 0) != file.is_directory {
        let found = if file.is_directory { "a file" } else { "a directory" };
        let expected = if file.is_directory { "a directory" } else { "a file" };
        return wrong(expected.into(), found.into());
    }
    if (key.flags & file_flags::REPARSE != 0) != file.reparse.is_some() {
        let (expected, found) = if file.reparse.is_some() { ("one", "none") } else { ("none", "one") };
        return wrong(format!("{expected} with a reparse point"), found.into());
    }
    Ok(())
}

/// Builds indexes anew from the names in file records.
pub(super) fn rebuild_all(check: &mut Check<'_>) -> Result<()> {
    if !check.is_repairing || check.rebuild.is_empty() {
        return Ok(());
    }
    let mut children: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    for (number, file) in &check.files {
        for name in &file.names {
            let parent = name.parent.number();
            if check.rebuild.contains(&parent) && check.directory(name.parent) {
                children.entry(parent).or_default().insert(*number);
            }
        }
    }
    for number in check.rebuild.clone() {
        rebuild(check, number, children.get(&number))?;
    }
    Ok(())
}

fn rebuild(check: &mut Check<'_>, number: u64, children: Option<&BTreeSet<u64>>) -> Result<()> {
    let mut file = Assembled::read(check, number, &mut Vec::new())?;
    let directory = file.reference();
    let mut entries: Vec<(FileName, Reference)> = Vec::new();
    for &child in children.into_iter().flatten() {
        let Ok(child) = Assembled::read(check, child, &mut Vec::new()) else { continue };
        entries.extend(names_in(&child, directory).into_iter().map(|name| (name, child.reference())));
    }
    let upper = check.upper.clone();
    entries.sort_by(|left, right| order::names(&upper, &left.0.name, &right.0.name));
    // Two files with one name: the second gets another name.
    let mut twice = BTreeSet::new();
    entries.dedup_by(|right, left| {
        let is_same = order::names(&upper, &left.0.name, &right.0.name).is_eq();
        if is_same && left.1 != right.1 {
            twice.insert(right.1.number());
        }
        is_same
    });
    for other in twice {
        check.find(
            "name-twice",
            Severity::Inconsistent,
            Some(other),
            format!("name: expected one file of it in directory {number}, found two"),
            true,
        );
        rename(check, other, directory)?;
    }
    let entries: Vec<Vec<u8>> = entries
        .iter()
        .map(|(name, reference)| crate::layout::index::name_entry(*reference, &name.to_bytes()))
        .collect();
    let shape = build::Shape {
        name: "$I30",
        siblings: &["$I30"],
        kind: Kind::FILE_NAME,
        collation: collation::FILE_NAME,
    };
    if !build::index(check, &mut file, &shape, &entries)? || !file.store(check)? {
        let message = "directory: its index cannot be made anew: too little room".to_owned();
        check.cannot("index-full", Some(number), message);
    }
    Ok(())
}

/// A file's names in a directory, with the present times, sizes and flags of the file.
pub(super) fn names_in(file: &Assembled, directory: Reference) -> Vec<FileName> {
    let standard = file.standard().unwrap_or_default();
    let data: Key = key(Kind::DATA, "");
    let (allocated, size) = match file.find(&data).first().map(|place| &file.attribute(*place).content) {
        Some(AttributeContent::NonResident(outside)) => {
            (outside.taken.unwrap_or(outside.allocated), outside.size)
        }
        Some(AttributeContent::Resident { value, .. }) => {
            (value.len().next_multiple_of(8) as u64, value.len() as u64)
        }
        None => (0, 0),
    };
    let flags = file.base().flags;
    let is_directory = flags & crate::layout::record_flags::DIRECTORY != 0;
    let is_view = flags & crate::layout::record_flags::VIEW_INDEX != 0;
    let mut names = Vec::new();
    for place in file.of(Kind::FILE_NAME) {
        let Some(value) = file.attribute(place).value() else { continue };
        let Ok(mut name) = FileName::from_bytes(value, 0) else { continue };
        if name.parent.number() != directory.number() {
            continue;
        }
        name.parent = directory;
        (name.created, name.modified) = (standard.created, standard.modified);
        (name.changed, name.accessed) = (standard.changed, standard.accessed);
        (name.allocated, name.size) = (allocated, size);
        let kept = name.flags & (file_flags::DIRECTORY | file_flags::VIEW_INDEX);
        name.flags = standard.flags & !(file_flags::DIRECTORY | file_flags::VIEW_INDEX);
        name.flags |= if is_directory { file_flags::DIRECTORY } else { 0 };
        name.flags |= if is_view { kept & file_flags::VIEW_INDEX } else { 0 };
        if standard.flags & file_flags::REPARSE != 0
            && let Some(value) = file.value(Kind::REPARSE_POINT)
        {
            name.tag = crate::layout::bytes::u32_at(value, 0);
        }
        names.push(name);
    }
    names
}

/// Gives a file another name in a directory where a second file has the same.
pub(super) fn rename(check: &mut Check<'_>, number: u64, directory: Reference) -> Result<()> {
    give(check, number, directory, numbered(number))
}

/// The name that a file gets if it has none, or if its name is taken: its record number.
pub(super) fn numbered(number: u64) -> Box<[u16]> {
    format!("FILE{number:08}").encode_utf16().collect()
}

/// Makes this the only name of a file.
pub(super) fn give(
    check: &mut Check<'_>,
    number: u64,
    directory: Reference,
    units: Box<[u16]>,
) -> Result<()> {
    let name = FileName {
        parent: directory,
        namespace: namespace::POSIX,
        name: units.clone(),
        ..FileName::default()
    };
    check.edit(number, |file| {
        file.set_names(vec![name]);
        // Adds times, sizes and flags to the name.
        let names = names_in(file, directory);
        file.set_names(names);
        file.base_mut().links = 1;
    })?;
    if let Some(file) = check.files.get_mut(&number) {
        file.names = vec![KnownName { parent: directory, units, space: namespace::POSIX, is_entered: true }];
    }
    Ok(())
}
