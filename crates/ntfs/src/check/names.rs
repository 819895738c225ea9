//! Names: those in a file's records, compared with directories and the count of links.

use super::file::{Assembled, Key, key};
use super::streams::told;
use super::{Check, Severity};
use crate::layout::{
    Attribute, AttributeContent, FileName, Kind, ObjectId, Reference, StandardInformation, file_flags,
    namespace, record_flags, record_number as known,
};
use platter_vfs::Result;
use std::collections::{BTreeMap, BTreeSet};

/// Names of the system files, by number.
pub(super) const NAMES: [&str; 12] = [
    "$MFT", "$MFTMirr", "$LogFile", "$Volume", "$AttrDef", ".", "$Bitmap", "$Boot", "$BadClus", "$Secure",
    "$UpCase", "$Extend",
];

/// The facts that a round remembers of a file.
#[derive(Debug, Default)]
pub(super) struct File {
    pub sequence: u16,
    pub is_directory: bool,
    pub names: Vec<KnownName>,
    /// Number of its security descriptor; 0 for none.
    pub security: u32,
    pub reparse: Option<u32>,
    pub object: Option<[u8; 16]>,
    /// The links that its record counts.
    pub links: u16,
}

/// One name of a file.
#[derive(Clone, Debug)]
pub(super) struct KnownName {
    pub parent: Reference,
    pub units: Box<[u16]>,
    pub space: u8,
    /// Whether the name's directory has an entry for the name.
    pub is_entered: bool,
}

impl KnownName {
    /// Whether this is the name that a `$FILE_NAME` attribute holds: the same directory, letters and namespace.
    fn is(&self, name: &FileName) -> bool {
        self.parent == name.parent && self.is_called(name)
    }

    /// Whether this name has the letters and the namespace of another.
    pub(super) fn is_called(&self, name: &FileName) -> bool {
        (&self.units, self.space) == (&name.name, name.namespace)
    }
}

/// Whether a record is one of those without a name that every volume has: 12 to 15 are reserved, and so are those up to
/// 23.
pub(super) fn is_nameless(number: u64) -> bool {
    (12..known::FIRST_FREE).contains(&number)
}

/// Checks the names and flags in a file's records, and notes them.
pub(super) fn collect(check: &mut Check<'_>, file: &mut Assembled) {
    let repairing = check.is_repairing;
    let number = file.number;
    let standard =
        file.value(Kind::STANDARD_INFORMATION).map(|value| StandardInformation::from_bytes(value, file.at));
    let security = match standard {
        Some(Ok(standard)) => standard.extended.map_or(0, |extended| extended.security),
        _ => {
            let found = if standard.is_some() { "too few bytes" } else { "none" };
            let message =
                format!("file record at offset {}: expected $STANDARD_INFORMATION, found {found}", file.at);
            check.find("standard", Severity::Inconsistent, Some(number), message, repairing);
            restore_standard(file);
            0
        }
    };
    let names = names(check, file);
    unknown_indexes(check, file);
    let is_directory = is_directory(check, file);
    let is_view = file.base().flags & record_flags::VIEW_INDEX != 0;
    // Of the system's own files some have named streams only: Windows' change journal has `$J` and `$Max`.
    let is_systems = names.iter().any(|name| name.parent.number() == known::EXTEND)
        && file.streams().keys().any(|key| key.0 == Kind::DATA);
    let has_data = !file.find(&key(Kind::DATA, "")).is_empty();
    if !is_directory && !is_view && !is_systems && number >= known::FIRST_FREE && !has_data {
        let message = format!("file record at offset {}: expected $DATA, found none", file.at);
        check.find("data-lost", Severity::DataLoss, Some(number), message, repairing);
        file.put(Attribute::resident(Kind::DATA, Vec::new()));
    }
    let reparse = file.value(Kind::REPARSE_POINT).map(|value| crate::layout::bytes::u32_at(value, 0));
    let reparse = reparse.or_else(|| {
        let bytes = file.bytes(check, &key(Kind::REPARSE_POINT, ""), 8).ok().flatten()?;
        Some(crate::layout::bytes::u32_at(&bytes, 0))
    });
    let object = file.value(Kind::OBJECT_ID).and_then(ObjectId::from_bytes).map(|object| object.id);
    let (sequence, links) = (file.base().sequence, file.base().links);
    let known = File { sequence, is_directory, names, security, reparse, object, links };
    if !check.is_again {
        check.report.files += u64::from(!is_directory);
        check.report.directories += u64::from(is_directory);
        check.files.insert(number, known);
    }
}

/// Returns the names in a file's records; what is none is taken out.
fn names(check: &mut Check<'_>, file: &mut Assembled) -> Vec<KnownName> {
    let (number, repairing) = (file.number, check.is_repairing);
    let mut names = Vec::new();
    let mut bad = Vec::new();
    for place in file.of(Kind::FILE_NAME) {
        let value = file.attribute(place).value().map(|value| FileName::from_bytes(value, file.at));
        match value {
            Some(Ok(name)) if is_possible(&name, number) && names.len() < MOST_NAMES => {
                names.push(KnownName {
                    parent: name.parent,
                    units: name.name,
                    space: name.namespace,
                    is_entered: false,
                });
            }
            other => {
                let found = match other {
                    Some(Ok(name)) => format!("{:?}", String::from_utf16_lossy(&name.name)),
                    Some(Err(error)) => error.to_string(),
                    None => "one outside the record".into(),
                };
                let message = format!("file record at offset {}: expected a name, found {found}", file.at);
                check.find("name", Severity::Inconsistent, Some(number), message, repairing);
                bad.push(place);
            }
        }
    }
    lone_short_names(check, file, &mut names);
    for (part, index) in bad.into_iter().rev() {
        file.records[part].record.attributes.remove(index);
        file.records[part].is_changed = true;
    }
    names
}

/// Takes indexes out of a file that only the volume's own files have: all but that of names.
fn unknown_indexes(check: &mut Check<'_>, file: &mut Assembled) {
    let (number, repairing) = (file.number, check.is_repairing);
    let is_view = file.base().flags & record_flags::VIEW_INDEX != 0;
    let others: Vec<Key> =
        file.streams().into_keys().filter(|key| is_index(key) && *key.1 != *key_of_names().1).collect();
    if number >= known::FIRST_FREE && !is_view {
        for other in others {
            let message = format!(
                "file record at offset {}: {}: expected no index of this name",
                file.at,
                told(&other)
            );
            check.find("index-unknown", Severity::Inconsistent, Some(number), message, repairing);
            file.remove(&other);
        }
    }
}

/// Whether a file is a directory; a flag that says otherwise than its attributes is put right.
fn is_directory(check: &mut Check<'_>, file: &mut Assembled) -> bool {
    let (number, repairing) = (file.number, check.is_repairing);
    let has_index = !file.find(&key_of_names()).is_empty();
    let mut is_directory = file.base().flags & record_flags::DIRECTORY != 0;
    if has_index != is_directory {
        let found = if has_index { "an index of names" } else { "none" };
        let expected = if is_directory { "an index of names" } else { "no index of names" };
        let message = format!("file record at offset {}: expected {expected}, found {found}", file.at);
        check.find("directory-flag", Severity::Inconsistent, Some(number), message, repairing);
        // A file that has data is no directory, but the root is always one.
        is_directory = has_index || number == known::ROOT || file.find(&key(Kind::DATA, "")).is_empty();
        let flags = &mut file.base_mut().flags;
        *flags = *flags & !record_flags::DIRECTORY | if is_directory { record_flags::DIRECTORY } else { 0 };
        if is_directory && !has_index {
            check.rebuild.insert(number);
        }
    }
    is_directory
}

/// The index of the names in a directory.
pub(super) fn key_of_names() -> Key {
    key(Kind::INDEX_ROOT, "$I30")
}

fn is_index(key: &Key) -> bool {
    // `$MFT` has a `$BITMAP` too, which has no name and is not of an index.
    matches!(key.0, Kind::INDEX_ROOT | Kind::INDEX_ALLOCATION) || key.0 == Kind::BITMAP && !key.1.is_empty()
}

/// The most names of a file that are kept: no record of 64 KiB has more.
const MOST_NAMES: usize = 100_000;

/// Whether the file with this record number may have this name.
pub(super) fn is_possible(name: &FileName, number: u64) -> bool {
    let units = &name.name;
    let is_dot = **units == [u16::from(b'.')];
    let is_bad = |unit: &u16| *unit == 0 || *unit == u16::from(b'/');
    name.namespace <= namespace::WIN32_AND_DOS
        && !units.iter().any(is_bad)
        && (number == known::ROOT || !is_dot)
        && **units != [u16::from(b'.'); 2]
}

/// Finds short names without a long one: other drivers do not show them, so such a name becomes both.
fn lone_short_names(check: &mut Check<'_>, file: &mut Assembled, names: &mut [KnownName]) {
    for index in 0..names.len() {
        let parent = names[index].parent;
        let has_long = names.iter().any(|other| other.space == namespace::WIN32 && other.parent == parent);
        if names[index].space != namespace::DOS || has_long {
            continue;
        }
        let message = format!(
            "file record at offset {}: expected a long name to the short one \"{}\", found none",
            file.at,
            String::from_utf16_lossy(&names[index].units)
        );
        check.find("name-short", Severity::Inconsistent, Some(file.number), message, check.is_repairing);
        if !check.is_repairing {
            continue;
        }
        change_name(file, &names[index], |name| name.namespace = namespace::WIN32_AND_DOS);
        names[index].space = namespace::WIN32_AND_DOS;
    }
}

/// Makes `$STANDARD_INFORMATION` from the times and flags in a name.
fn restore_standard(file: &mut Assembled) {
    let name = file
        .of(Kind::FILE_NAME)
        .first()
        .and_then(|place| FileName::from_bytes(file.attribute(*place).value()?, 0).ok());
    let name = name.unwrap_or_default();
    let standard = StandardInformation {
        created: name.created,
        modified: name.modified,
        changed: name.changed,
        accessed: name.accessed,
        flags: name.flags & !(file_flags::DIRECTORY | file_flags::VIEW_INDEX),
        ..StandardInformation::default()
    };
    file.put(Attribute::resident(Kind::STANDARD_INFORMATION, standard.to_bytes()));
}

/// Called after all directories were walked: finds names that no directory has, files without names, and directories in
/// circles, and counts links.
pub(super) fn finish(check: &mut Check<'_>) -> Result<()> {
    let numbers: Vec<u64> = check.files.keys().copied().collect();
    let mut dead: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for &number in &numbers {
        let Some(file) = check.files.get(&number) else { continue };
        let mut missing = Vec::new();
        for (index, name) in file.names.iter().enumerate() {
            if name.is_entered {
                continue;
            }
            match check.directory(name.parent) {
                true => missing.push(name.parent.number()),
                false => dead.entry(number).or_default().push(index),
            }
        }
        for parent in missing {
            // Entries that a damaged index does not show any more are reported once, as damage of the directory.
            if !check.rebuild.contains(&parent) || check.missing.contains(&parent) {
                check.missing.insert(parent);
                let message = format!("directory {parent}: expected an entry for file {number}, found none");
                check.find(
                    "entry-missing",
                    Severity::Inconsistent,
                    Some(number),
                    message,
                    check.is_repairing,
                );
                check.rebuild.insert(parent);
            }
        }
    }
    for (number, names) in dead {
        drop_dead(check, number, &names)?;
    }
    circles(check)?;
    links(check, &numbers)
}

/// Names whose directory does not exist: the file loses them, and is put elsewhere if it has no others.
fn drop_dead(check: &mut Check<'_>, number: u64, names: &[usize]) -> Result<()> {
    let Some(file) = check.files.get(&number) else { return Ok(()) };
    let dead: Vec<KnownName> = names.iter().map(|&index| file.names[index].clone()).collect();
    let lives = file
        .names
        .iter()
        .enumerate()
        .any(|(index, name)| !names.contains(&index) && name.space != namespace::DOS);
    if is_nameless(number) || number <= known::EXTEND {
        return Ok(());
    }
    for name in &dead {
        let message = format!(
            "name \"{}\": expected a directory at record {}, found none",
            String::from_utf16_lossy(&name.units),
            name.parent
        );
        check.find("name-dead", Severity::Inconsistent, Some(number), message, check.is_repairing);
    }
    if lives {
        // Other names lead to the file: those without a directory are removed.
        return check.edit(number, |file| remove_names(file, &dead));
    }
    check.orphans.insert(number);
    Ok(())
}

/// Changes one of a file's names in its records.
pub(super) fn change_name(file: &mut Assembled, known: &KnownName, change: impl Fn(&mut FileName)) {
    for place in file.of(Kind::FILE_NAME) {
        let AttributeContent::Resident { value, .. } = &mut file.attribute_mut(place).content else {
            continue;
        };
        let Ok(mut name) = FileName::from_bytes(value, 0) else { continue };
        if known.is(&name) {
            change(&mut name);
            *value = name.to_bytes();
        }
    }
}

/// Gives a file one more name.
pub(super) fn add(file: &mut Assembled, name: FileName) {
    let known = file.of(Kind::FILE_NAME).into_iter();
    let known = known.filter_map(|place| FileName::from_bytes(file.attribute(place).value()?, 0).ok());
    file.set_names(known.chain([name]).collect());
}

/// Takes names out of a file's records.
pub(super) fn remove_names(file: &mut Assembled, names: &[KnownName]) {
    for part in &mut file.records {
        let before = part.record.attributes.len();
        part.record.attributes.retain(|attribute| {
            let name = (attribute.kind == Kind::FILE_NAME)
                .then(|| attribute.value().and_then(|value| FileName::from_bytes(value, 0).ok()))
                .flatten();
            !name.is_some_and(|name| names.iter().any(|dead| dead.is(&name)))
        });
        part.is_changed |= part.record.attributes.len() != before;
    }
}

/// Gives a system file its name, which is the same on every volume.
fn system_name(check: &mut Check<'_>, number: u64) -> Result<()> {
    let Some(name) = NAMES.get(number as usize) else { return Ok(()) };
    let message = format!("system file: expected the name \"{name}\" in the root, found another");
    check.find("system-name", Severity::Inconsistent, Some(number), message, check.is_repairing);
    check.rebuild.insert(known::ROOT);
    let parent = Reference::new(known::ROOT, check.sequence(known::ROOT));
    check.edit(number, |file| {
        let is_directory = file.base().flags & record_flags::DIRECTORY != 0;
        file.set_names(vec![FileName {
            parent,
            flags: file_flags::HIDDEN
                | file_flags::SYSTEM
                | if is_directory { file_flags::DIRECTORY } else { 0 },
            namespace: namespace::WIN32_AND_DOS,
            name: name.encode_utf16().collect(),
            ..FileName::default()
        }]);
    })
}

/// Whether a system file has its name and no other.
fn has_system_name(check: &Check<'_>, number: u64, names: &[KnownName]) -> bool {
    let root = Reference::new(known::ROOT, check.sequence(known::ROOT));
    match (names, NAMES.get(number as usize)) {
        ([only], Some(name)) => only.parent == root && only.units.iter().copied().eq(name.encode_utf16()),
        _ => false,
    }
}

/// Finds directories from which no way leads to the root.
fn circles(check: &mut Check<'_>) -> Result<()> {
    let mut good: BTreeSet<u64> = BTreeSet::from([known::ROOT]);
    let directories: Vec<u64> =
        check.files.iter().filter(|(_, file)| file.is_directory).map(|(number, _)| *number).collect();
    for start in directories {
        let (mut way, mut at) = (BTreeSet::new(), start);
        loop {
            if good.contains(&at) || check.orphans.contains(&at) || is_nameless(at) {
                good.extend(way);
                break;
            }
            if !way.insert(at) {
                let message = format!("directory {at}: expected a way to the root, found a circle");
                check.find("directory-circle", Severity::Inconsistent, Some(at), message, check.is_repairing);
                check.orphans.insert(at);
                good.extend(way);
                break;
            }
            let parent = check.files.get(&at).and_then(|file| {
                let name = file
                    .names
                    .iter()
                    .find(|name| name.space != namespace::DOS && check.directory(name.parent));
                name.map(|name| name.parent.number())
            });
            match parent {
                Some(parent) => at = parent,
                None => {
                    // A directory without a name, which is reported below.
                    good.extend(way);
                    break;
                }
            }
        }
    }
    Ok(())
}

/// Counts links, and finds files without names.
fn links(check: &mut Check<'_>, numbers: &[u64]) -> Result<()> {
    for &number in numbers {
        let Some(file) = check.files.get(&number) else { continue };
        let (names, links) = (file.names.len(), usize::from(file.links));
        if number <= known::EXTEND && !has_system_name(check, number, &file.names) {
            system_name(check, number)?;
            continue;
        }
        if names == 0 && !is_nameless(number) {
            if !check.orphans.contains(&number) {
                let message = "file without a name: expected at least one, found none".to_owned();
                check.find("nameless", Severity::Inconsistent, Some(number), message, check.is_repairing);
                check.orphans.insert(number);
            }
            continue;
        }
        let dead = file.names.iter().any(|name| !name.is_entered && !check.directory(name.parent));
        if names != links && !check.orphans.contains(&number) && !dead {
            let message = format!("links: expected {names}, found {links}");
            check.find("link-count", Severity::Inconsistent, Some(number), message, check.is_repairing);
            check.edit(number, |file| file.base_mut().links = names as u16)?;
        }
    }
    Ok(())
}
