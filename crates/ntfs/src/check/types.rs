//! Attributes whose type has one wrong bit, and indexes with a wrong name.
//!
//! A file whose `$DATA` seems to be of another type seems to have lost its content, and a repair that gave it an empty
//! stream would make that true. So the type is put back, if one bit away there is exactly one type that the file lacks,
//! that stands in the right order among the record's attributes, and that the attribute can be of.

use super::file::{Assembled, key};
use super::names::key_of_names;
use super::{Check, Severity};
use crate::layout::bytes::{u16_at, u32_at};
use crate::layout::index::{IndexRoot, collation};
use crate::layout::{
    Attribute, AttributeContent, FileName, Kind, ListEntry, StandardInformation, file_flags, record_flags,
    record_number,
};
use platter_vfs::reparse;

/// Puts back types with one wrong bit, and names of indexes.
pub(super) fn restore(check: &mut Check<'_>, file: &mut Assembled) {
    names_of_indexes(check, file);
    let places = file.records.iter().enumerate();
    let places =
        places.flat_map(|(part, record)| (0..record.record.attributes.len()).map(move |at| (part, at)));
    for (part, at) in places.collect::<Vec<_>>() {
        let attribute = &file.records[part].record.attributes[at];
        if is_right(check, file, attribute) {
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
    let is_systems = file.number < record_number::FIRST_FREE
        && ![record_number::ROOT, record_number::EXTEND].contains(&file.number);
    if is_view(file) || is_systems {
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

/// Whether an attribute begins like the root of an index of the volume's own data, such as `$SDH` and `$O`.
fn is_index_of_view(attribute: &Attribute) -> bool {
    let root = attribute.value().and_then(|value| IndexRoot::from_bytes(value, 0).ok());
    let rules = collation::NUMBER..=collation::NUMBERS;
    root.is_some_and(|root| root.kind == Kind(0) && rules.contains(&root.collation))
}

/// Whether nothing speaks against the type that an attribute has.
fn is_right(check: &Check<'_>, file: &Assembled, attribute: &Attribute) -> bool {
    let is_directory = file.base().flags & record_flags::DIRECTORY != 0;
    let is_named = !attribute.name.is_empty();
    match attribute.kind {
        Kind::REPARSE_POINT => is_reparse(check, file, attribute),
        // A directory may have a stream of any name, but not one that is the index which it lacks.
        Kind::DATA if is_directory => {
            attribute.name != key_of_names().1 || attribute.value().is_some() && !is_index_of_names(attribute)
        }
        // Views have streams too, but none that is an index which they lack.
        Kind::DATA if is_view(file) => !is_index_of_view(attribute),
        // What may be the only index of a directory is no data, whatever its name.
        Kind::INDEX_ROOT if is_directory && file.of(Kind::INDEX_ROOT).len() == 1 => true,
        Kind::INDEX_ALLOCATION => attribute.value().is_none() && is_of_index(file, attribute),
        Kind::BITMAP if is_named => has_root(file, attribute),
        Kind::EA => !is_named && !file.of(Kind::EA_INFORMATION).is_empty(),
        Kind::EA_INFORMATION => !is_named,
        Kind::PROPERTY_SET => false,
        kind => may_be(file, attribute, kind),
    }
}

fn is_view(file: &Assembled) -> bool {
    file.base().flags & record_flags::VIEW_INDEX != 0
}

/// Whether an attribute has the name of an index of the file.
fn has_root(file: &Assembled, attribute: &Attribute) -> bool {
    let is_root = attribute.kind == Kind::INDEX_ROOT;
    !is_root && !file.find(&(Kind::INDEX_ROOT, attribute.name.clone())).is_empty()
}

/// Whether an attribute has the name of an index of the file, or one that only indexes have: the index may have lost its
/// root.
fn is_of_index(file: &Assembled, attribute: &Attribute) -> bool {
    has_root(file, attribute) || is_named_as_index(attribute)
}

/// Whether an attribute has a name that only indexes have.
fn is_named_as_index(attribute: &Attribute) -> bool {
    INDEXES.iter().any(|name| name.encode_utf16().eq(attribute.name.iter().copied()))
}

/// The names of all indexes that NTFS has.
const INDEXES: [&str; 6] = ["$I30", "$SDH", "$SII", "$O", "$Q", "$R"];

/// Whether an attribute of a file may be of a type, as far as it shows by itself. Types that are not named here are not
/// judged: they count as right, and no other is taken for one of them.
fn may_be(file: &Assembled, attribute: &Attribute, kind: Kind) -> bool {
    let value = attribute.value();
    let is_named = !attribute.name.is_empty();
    let is_of_volume = file.number == record_number::VOLUME && !is_named;
    match kind {
        Kind::STANDARD_INFORMATION => {
            !is_named && value.is_some_and(|value| StandardInformation::from_bytes(value, 0).is_ok())
        }
        Kind::ATTRIBUTE_LIST => !is_named && value.is_none_or(|value| ListEntry::read_all(value, 0).is_ok()),
        Kind::FILE_NAME => !is_named && value.is_some_and(|value| FileName::from_bytes(value, 0).is_ok()),
        Kind::OBJECT_ID => {
            let is_long = value.is_some_and(|value| [16, 64].contains(&value.len()));
            // An identifier is not made of Latin letters.
            let is_name = file.number == record_number::VOLUME
                && value.is_some_and(|value| value.as_chunks::<2>().0.iter().all(|unit| unit[1] == 0));
            !is_named && is_long && !is_name
        }
        Kind::SECURITY_DESCRIPTOR => !is_named && value.is_none_or(is_descriptor),
        // Units of UTF-16.
        Kind::VOLUME_NAME => {
            is_of_volume && value.is_some_and(|value| value.len() <= 0x100 && value.len().is_multiple_of(2))
        }
        Kind::VOLUME_INFORMATION => is_of_volume && value.is_some_and(|value| value.len() == 12),
        Kind::INDEX_ROOT => is_named && value.is_some(),
        Kind::INDEX_ALLOCATION => is_named && value.is_none(),
        // Only an index has a bitmap of its blocks, and `$MFT` one of its records.
        Kind::BITMAP => is_named || file.number == record_number::MFT,
        Kind::LOGGED_UTILITY_STREAM => is_named,
        kind => kind.is_known(),
    }
}

/// Whether a value begins like a security descriptor that has its parts behind it (\[MS-DTYP\] 2.4.6).
fn is_descriptor(value: &[u8]) -> bool {
    const SELF_RELATIVE: u16 = 0x8000;
    value.len() >= 20 && value[0] == 1 && u16_at(value, 2) & SELF_RELATIVE != 0
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
    let is_likely = match kind {
        Kind::STANDARD_INFORMATION | Kind::FILE_NAME | Kind::VOLUME_NAME | Kind::VOLUME_INFORMATION => true,
        Kind::INDEX_ROOT => attribute.value().is_some_and(|value| IndexRoot::from_bytes(value, 0).is_ok()),
        Kind::SECURITY_DESCRIPTOR => attribute.value().is_some(),
        Kind::DATA => !is_named_as_index(attribute),
        Kind::INDEX_ALLOCATION => is_of_index(file, attribute),
        Kind::BITMAP => attribute.name.is_empty() || has_root(file, attribute),
        _ => false,
    };
    let is_missing = kind == Kind::FILE_NAME || file.find(&(kind, attribute.name.clone())).is_empty();
    let is_ordered = at.checked_sub(1).is_none_or(|before| attributes[before].kind <= kind)
        && attributes.get(at + 1).is_none_or(|behind| kind <= behind.kind);
    is_likely && is_missing && is_ordered && may_be(file, attribute, kind)
}
