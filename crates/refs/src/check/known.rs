//! Objects with fixed numbers.

use super::Check;
use super::order::Order;
use super::page::Subject;
use super::tree::RowCursor;
use crate::container::Tier;
use crate::core::{FIRST_OBJECT, ROOT_DIRECTORY};
use platter_vfs::Severity;

/// The number of the object that holds the security descriptors.
pub(super) const SECURITY: u64 = 0x530;
/// The number of the directory "FS Metadata", which no entry leads to.
pub(super) const METADATA_DIRECTORY: u64 = 0x520;
/// The number of the trash, which holds what is still to be removed. It has rows only on volumes that Windows has used.
pub(super) const TRASH: u64 = 0x0D;

/// The volume's own objects that are kept twice: the name for messages, and the numbers of both copies.
pub(super) const DOUBLED: [(&str, u64, u64); 4] = [
    ("upcase table", 0x07, 0x08),
    ("logfile information", 0x09, 0x0A),
    ("volume information", 0x500, 0x501),
    ("reparse index", 0x540, 0x541),
];

/// Whether an object of this number is a directory.
pub(super) fn is_directory(number: u64) -> bool {
    number >= FIRST_OBJECT || number == ROOT_DIRECTORY || number == METADATA_DIRECTORY
}

/// Returns a cursor over the rows of an object that is not a directory; `None` if there is no object of this number.
pub(super) fn own_cursor(check: &Check<'_>, name: &str, number: u64) -> Option<RowCursor> {
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
