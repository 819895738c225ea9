//! Tables of which the volume keeps two copies.
//!
//! Each copy is walked on its own first. Where only one of the two is whole and in order, only its rows count.
//! Otherwise both are walked side by side, and where their rows differ, the row that is valid counts.

use super::Check;
use super::noted::Mend;
use super::page::named;
use super::tree::{RowCursor, TreeRow};
use platter_vfs::Severity;
use std::cmp::Ordering;

/// Tells whether a row can be right; called where the copies differ.
pub(super) type Valid<'v> = &'v dyn Fn(&mut Check<'_>, &TreeRow) -> bool;

/// Calls `each` on every row that counts, and reports where the copies differ. Returns whether at least one of the
/// copies is whole.
pub(super) fn walk(
    check: &mut Check<'_>,
    mut first: RowCursor,
    mut second: RowCursor,
    valid: Valid<'_>,
    each: &mut dyn FnMut(&mut Check<'_>, TreeRow),
) -> bool {
    let (again, other) = (first.again(), second.again());
    while first.next(check).is_some() {}
    while second.next(check).is_some() {}
    let tables = (first.subject().table, second.subject().table);
    match (first.is_sound(), second.is_sound()) {
        (true, true) => merge(check, again, other, valid, each),
        (true, false) | (false, true) => {
            let (good, from, to) = match first.is_sound() {
                true => (again, tables.0, tables.1),
                false => (other, tables.1, tables.0),
            };
            rest(check, good, each);
            check.repair.mend(Mend {
                from,
                to: vec![to],
                rows: Vec::new(),
                without: Vec::new(),
                is_whole: false,
            });
        }
        (false, false) => {
            let message = "both copies are damaged: rows of them may be lost".into();
            check.find("copies-lost", Severity::DataLoss, None, named(first.subject(), message));
            check.is_directory_lost = true;
            check.is_content_lost = true;
            merge(check, again, other, valid, each);
        }
    }
    first.is_sound() || second.is_sound()
}

/// The next row of a tree whose pages have been counted and verified before.
fn next(check: &mut Check<'_>, cursor: &mut RowCursor) -> Option<TreeRow> {
    check.is_again = true;
    let row = cursor.next(check);
    check.is_again = false;
    row
}

fn rest(check: &mut Check<'_>, mut cursor: RowCursor, each: &mut dyn FnMut(&mut Check<'_>, TreeRow)) {
    while let Some(row) = next(check, &mut cursor) {
        each(check, row);
    }
}

/// Walks both copies side by side.
fn merge(
    check: &mut Check<'_>,
    mut first: RowCursor,
    mut second: RowCursor,
    valid: Valid<'_>,
    each: &mut dyn FnMut(&mut Check<'_>, TreeRow),
) {
    let order = first.subject().order;
    let (mut one, mut other) = (next(check, &mut first), next(check, &mut second));
    // Rows that the first copy must get from the second; keys of rows that it must lose; whether the copies differ;
    // whether one of each two differing rows is valid, so that it is clear what to do.
    let (mut rows, mut without, mut differ, mut is_clear) = (Vec::new(), Vec::new(), false, true);
    loop {
        let compared = match (&one, &other) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(one), Some(other)) => order.compare(&check.upper, &one.key, &other.key),
        };
        let mut found = |check: &mut Check<'_>, cursor: &RowCursor, row: &TreeRow, found: &str| {
            differ = true;
            let message = format!("expected the row that its copy has at offset {}, found {found}", row.at);
            check.find("copies-differ", Severity::Inconsistent, None, named(cursor.subject(), message));
        };
        let counts = match (compared, &one, &other) {
            (Ordering::Less, Some(row), _) => {
                found(check, &second, row, "no such row");
                if ask(check, valid, row) {
                    one.take()
                } else {
                    without.push(row.key.clone());
                    None
                }
            }
            (Ordering::Greater, _, Some(row)) => {
                found(check, &first, row, "no such row");
                if ask(check, valid, row) {
                    rows.push((row.key.clone(), row.flags, row.value.clone()));
                    other.take()
                } else {
                    None
                }
            }
            (_, Some(row), Some(copy)) if (&row.key, &row.value) != (&copy.key, &copy.value) => {
                found(check, &second, row, "another value");
                if ask(check, valid, row) {
                    one.take()
                } else {
                    is_clear &= ask(check, valid, copy);
                    rows.push((copy.key.clone(), copy.flags, copy.value.clone()));
                    other.clone()
                }
            }
            _ => one.take(),
        };
        if let Some(row) = counts {
            each(check, row);
        }
        if compared.is_le() {
            one = next(check, &mut first);
        }
        if compared.is_ge() {
            other = next(check, &mut second);
        }
    }
    if differ && is_clear && !first.is_damaged && !second.is_damaged {
        let (from, copy) = (first.subject().table, second.subject().table);
        let to = if rows.is_empty() && without.is_empty() { vec![copy] } else { vec![from, copy] };
        check.repair.mend(Mend { from, to, rows, without, is_whole: false });
    }
}

fn ask(check: &mut Check<'_>, valid: Valid<'_>, row: &TreeRow) -> bool {
    check.is_again = true;
    let is_valid = valid(check, row);
    check.is_again = false;
    is_valid
}
