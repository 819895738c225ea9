//! Tables of which the volume keeps two copies, walked side by side.

use super::Check;
use super::page::named;
use super::tree::{Cursor, TreeRow};
use platter_vfs::Severity;
use std::cmp::Ordering;

/// Calls `each` on every row that at least one of the copies has, and reports where they differ.
pub fn walk(
    check: &mut Check<'_>,
    first: &mut Cursor,
    second: &mut Cursor,
    each: &mut dyn FnMut(&mut Check<'_>, TreeRow),
) {
    let order = first.subject().order;
    let (mut one, mut other) = (first.next(check), second.next(check));
    let mut different = false;
    loop {
        let compared = match (&one, &other) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(one), Some(other)) => order.compare(&check.upper, &one.key, &other.key),
        };
        // What is missing because of damage has been reported.
        let found = match compared {
            Ordering::Less if !second.is_damaged => Some((&*second, &one, "no such row")),
            Ordering::Greater if !first.is_damaged => Some((&*first, &other, "no such row")),
            Ordering::Equal if !alike(&one, &other) => Some((&*second, &one, "another value")),
            _ => None,
        };
        if let Some((cursor, Some(row), found)) = found {
            let subject = cursor.subject();
            let message = format!("expected the row that its copy has at offset {}, found {found}", row.at);
            check.find("copies-differ", Severity::Inconsistent, None, named(subject, message));
            different = true;
        }
        if compared.is_le() {
            one.into_iter().for_each(|row| each(check, row));
            one = first.next(check);
        } else {
            other.take().into_iter().for_each(|row| each(check, row));
        }
        if compared.is_ge() {
            other = second.next(check);
        }
    }
    let damaged = (first.is_damaged, second.is_damaged);
    let (first, second) = (first.subject(), second.subject());
    if damaged == (true, true) {
        let message = "both copies are damaged: rows of them may be lost".into();
        check.find("copies-lost", Severity::DataLoss, None, named(first, message));
        check.is_directory_lost = true;
        check.is_content_lost = true;
    } else if different || damaged != (false, false) {
        check.repair.mend_copies(first.table, second.table, damaged);
    }
}

fn alike(one: &Option<TreeRow>, other: &Option<TreeRow>) -> bool {
    let content = |row: &Option<TreeRow>| row.as_ref().map(|row| (row.key.clone(), row.value.clone()));
    content(one) == content(other)
}
