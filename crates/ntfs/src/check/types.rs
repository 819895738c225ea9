//! Attributes whose type has one wrong bit.
//!
//! A file whose `$DATA` seems to be of another type seems to have lost its content, and a repair that gave it an empty
//! stream would make that true. So the type is put back, if one bit away there is exactly one type that the file lacks,
//! that stands in the right order among the record's attributes, and that the attribute can be of.

use super::file::Assembled;
use super::{Check, Severity};
use crate::layout::bytes::{u16_at, u32_at};
use crate::layout::{
    Attribute, AttributeContent, FileName, Kind, StandardInformation, file_flags, record_number,
};
use platter_vfs::reparse;

/// Puts back types with one wrong bit.
pub fn restore(check: &mut Check<'_>, file: &mut Assembled) {
    let places = file.records.iter().enumerate();
    let places =
        places.flat_map(|(part, record)| (0..record.record.attributes.len()).map(move |at| (part, at)));
    for (part, at) in places.collect::<Vec<_>>() {
        let attribute = &file.records[part].record.attributes[at];
        let is_right = match attribute.kind {
            Kind::REPARSE_POINT => is_reparse(check, file, attribute),
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
    let standard = file.value(Kind::STANDARD_INFORMATION);
    let standard = standard.and_then(|value| StandardInformation::from_bytes(value, 0).ok());
    standard.is_some_and(|standard| standard.flags & file_flags::REPARSE != 0)
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
