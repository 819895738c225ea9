//! Objects whose numbers are known.

use super::Check;
use super::order::Order;
use super::page::Subject;
use super::tree::RowCursor;
use crate::container::Tier;
use crate::core::{FIRST_OBJECT, ROOT_DIRECTORY};
use platter_vfs::Severity;

/// The security descriptors.
pub const SECURITY: u64 = 0x530;
/// A directory that has no name anywhere.
pub const METADATA_DIRECTORY: u64 = 0x520;
/// What is to be removed; empty but on volumes of Windows that were in use.
pub const TRASH: u64 = 0x0D;

/// The volume's own objects that are kept twice: what they are, and the number of each copy.
pub const DOUBLED: [(&str, u64, u64); 4] = [
    ("upcase table", 0x07, 0x08),
    ("logfile information", 0x09, 0x0A),
    ("volume information", 0x500, 0x501),
    ("reparse index", 0x540, 0x541),
];

/// Whether an object of this number is a directory.
pub fn is_directory(number: u64) -> bool {
    number >= FIRST_OBJECT || number == ROOT_DIRECTORY || number == METADATA_DIRECTORY
}

/// A walk through an object that is not a directory.
pub fn own_cursor(check: &Check<'_>, name: &str, number: u64) -> Option<RowCursor> {
    let object = check.objects.get(&number)?;
    let order = match number {
        SECURITY => Order::SecondWord,
        0x07..=0x0D | 0x500 | 0x501 | 0x540 | 0x541 => Order::Words,
        _ => Order::Unknown,
    };
    let subject = Subject {
        name: format!("{name} ({number:#x})"),
        path: None,
        table: number,
        order,
        tier: Tier::Medium,
        severity: Severity::Inconsistent,
        renewable: DOUBLED.iter().any(|(_, first, second)| number == *first || number == *second),
    };
    Some(RowCursor::new(subject, object.root, object.at))
}
