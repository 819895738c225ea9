//! Attributes whose type has one wrong bit, and indexes with a wrong name.
//!
//! A file whose `$DATA` seems to be of another type seems to have lost its content, and a repair that gave it an empty
//! stream would make that true. So the type is put back, if one bit away there is exactly one type that the file lacks,
//! that stands in the right order among the record's attributes, and that the attribute can be of.

use super::file::{Assembled, key};
use super::names::key_of_names;
use super::{Check, Severity};
use crate::layout::bytes::{u16_at, u32_at};
use crate::layout::index::IndexRoot;
use crate::layout::{
    Attribute, AttributeContent, FileName, Kind, StandardInformation, file_flags, record_flags, record_number,
};
use platter_vfs::reparse;

/// Puts back types with one wrong bit, and names of indexes.
pub fn restore(check: &mut Check<'_>, file: &mut Assembled) {
    names_of_indexes(check, file);
    let places = file.records.iter().enumerate();
    let places =
        places.flat_map(|(part, record)| (0..record.record.attributes.len()).map(move |at| (part, at)));
    let is_directory = file.base().flags & record_flags::DIRECTORY != 0;
    for (part, at) in places.collect::<Vec<_>>() {
        let attribute = &file.records[part].record.attributes[at];
        let is_right = match attribute.kind {
            Kind::REPARSE_POINT => is_reparse(check, file, attribute),
            // A directory may have a stream of any name, but not one that is the index which it lacks.
            Kind::DATA if is_directory => attribute.name != key_of_names().1 || !is_index_of_names(attribute),
            // What may be the only index of a directory is no data, whatever its name.
            Kind::INDEX_ROOT if is_directory && file.of(Kind::INDEX_ROOT).len() == 1 => true,
            kind => may_be(attribute, kind),
        };
        if is_right {
            continue;
        }
        let found = attribute.kind;
        let near = (0..u32::BITS).map(|bit| Kind(found.0 ^ 1 << bit));
        let mut right = near.filter(|&kind| fits(file, part, at, kind));
        let (Some(kind), None) = (right.next(), right.next()) else { continue };
        let message = format!(
            "file record at offset {}: expected {kind} ({:#x}), found attribute type {:#x}, in which one bit differs",
            check.table.place(&check.geometry, file.records[part].number),
            kind.0,
            found.0
        );
        let (severity, repairing) = (Severity::Inconsistent, check.is_repairing);
        check.find("attribute-type", severity, Some(file.number), message, repairing);
        file.records[part].record.attributes[at].kind = kind;
        file.records[part].is_changed = true;
    }
}

/// Puts back the name `$I30` of the index of a directory. Without it the directory has no index, and without any name its
/// index passes for data.
fn names_of_indexes(check: &mut Check<'_>, file: &mut Assembled) {
    // Only the volume's own files have other indexes, and views are none of file names.
    let is_view = file.base().flags & record_flags::VIEW_INDEX != 0;
    let is_systems = file.number < record_number::FIRST_FREE
        && ![record_number::ROOT, record_number::EXTEND].contains(&file.number);
    if is_view || is_systems {
        return;
    }
    for kind in [Kind::INDEX_ROOT, Kind::INDEX_ALLOCATION, Kind::BITMAP] {
        for place in file.of(kind) {
            let right = key(kind, "$I30");
            let attribute = file.attribute(place);
            let is_of_names = match kind {
                Kind::INDEX_ROOT => is_index_of_names(attribute),
                _ => !file.find(&key_of_names()).is_empty(),
            };
            // Only the blocks may be in several pieces.
            let is_there = kind != Kind::INDEX_ALLOCATION && !file.find(&right).is_empty();
            if attribute.name == right.1 || !is_of_names || is_there {
                continue;
            }
            let found = String::from_utf16_lossy(&attribute.name);
            let message = format!(
                "file record at offset {}: expected the name $I30 of {kind}, found {found:?}",
                file.at
            );
            check.find("index-name", Severity::Inconsistent, Some(file.number), message, check.is_repairing);
            file.attribute_mut(place).name = right.1;
        }
    }
}

fn is_index_of_names(attribute: &Attribute) -> bool {
    let root = attribute.value().and_then(|value| IndexRoot::from_bytes(value, 0).ok());
    root.is_some_and(|root| root.kind == Kind::FILE_NAME)
}

/// Whether an attribute may be of a type, as far as it shows by itself. Types that are not named here are not judged:
/// they count as right, and no other is taken for one of them.
fn may_be(attribute: &Attribute, kind: Kind) -> bool {
    let value = attribute.value();
    let is_named = !attribute.name.is_empty();
    match kind {
        Kind::STANDARD_INFORMATION => {
            !is_named && value.is_some_and(|value| StandardInformation::from_bytes(value, 0).is_ok())
        }
        Kind::FILE_NAME => !is_named && value.is_some_and(|value| FileName::from_bytes(value, 0).is_ok()),
        Kind::INDEX_ROOT => is_named && value.is_some(),
        Kind::INDEX_ALLOCATION => is_named && value.is_none(),
        kind => kind.is_known(),
    }
}

/// Whether an attribute begins like a reparse point, and has room for it (\[MS-FSCC\] 2.1.2): tag and length, a GUID if the
/// tag is not Microsoft's, and the data.
fn is_reparse(check: &Check<'_>, file: &Assembled, attribute: &Attribute) -> bool {
    let start = match attribute.value() {
        Some(value) => Some(value.to_vec()),
        None => file.bytes(check, &(attribute.kind, attribute.name.clone()), 8).ok().flatten(),
    };
    let length = match &attribute.content {
        AttributeContent::Resident { value, .. } => value.len() as u64,
        AttributeContent::NonResident(piece) => piece.size,
    };
    // What cannot be read is not judged.
    start.is_none_or(|start| {
        start.len() >= 8 && {
            let whole = (reparse::header(u32_at(&start, 0)) + usize::from(u16_at(&start, 4))) as u64;
            whole == length || whole < length && is_told(file)
        }
    })
}

/// Whether the flags of a file say that it has a reparse point.
fn is_told(file: &Assembled) -> bool {
    file.standard().is_some_and(|standard| standard.flags & file_flags::REPARSE != 0)
}

/// Whether an attribute fits into its record if it is of another type.
fn fits(file: &Assembled, part: usize, at: usize, kind: Kind) -> bool {
    let attributes = &file.records[part].record.attributes;
    let attribute = &attributes[at];
    let is_judged = matches!(
        kind,
        Kind::STANDARD_INFORMATION
            | Kind::FILE_NAME
            | Kind::DATA
            | Kind::INDEX_ROOT
            | Kind::INDEX_ALLOCATION
            | Kind::BITMAP
    );
    // Only an index has a bitmap of its blocks, and `$MFT` one of its records.
    let is_needed = kind != Kind::BITMAP || file.number == record_number::MFT || !attribute.name.is_empty();
    let is_missing = kind == Kind::FILE_NAME || file.find(&(kind, attribute.name.clone())).is_empty();
    let is_ordered = at.checked_sub(1).is_none_or(|before| attributes[before].kind <= kind)
        && attributes.get(at + 1).is_none_or(|behind| kind <= behind.kind);
    is_judged && is_needed && is_missing && is_ordered && may_be(attribute, kind)
}
