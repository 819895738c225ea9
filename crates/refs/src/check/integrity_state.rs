//! The integrity state: rows that together cover every cluster of all containers, mostly one.
//!
//! Source: forefst `docs/structures/integrity_state.md`: one row on all of its volumes but two, which have three.

use super::Check;
use super::tree::TreeRow;
use crate::layout::{AllocatorRow, Root, system};
use platter_vfs::Severity;

/// The rows walked so far.
#[derive(Default)]
pub(super) struct Rows {
    /// The cluster after the last row.
    end: u64,
    /// What is wrong with the first row that is not as it must be.
    wrong: Option<String>,
}

/// Reads a row.
pub(super) fn row(rows: &mut Rows, row: &TreeRow) {
    let is_keyed = system::is_integrity_state_row(&row.key, &row.value);
    let (start, count) = match is_keyed {
        true => AllocatorRow::clusters_of(&row.key),
        false => (u64::MAX, 0),
    };
    match start.checked_add(count).filter(|_| start == rows.end && count > 0) {
        Some(end) => rows.end = end,
        None => {
            let found = format!(
                "row at offset {}: expected clusters from {:#x} on, found {:02x?}",
                row.at, rows.end, row.key
            );
            rows.wrong.get_or_insert(found);
        }
    }
}

/// Reports rows that do not cover every cluster once.
pub(super) fn finish(check: &mut Check<'_>, rows: Rows) {
    // Without all containers it is not known how many clusters there are.
    if check.starts.iter().any(Option::is_none) {
        return;
    }
    let all = check.starts.len() as u64 * u64::from(check.geometry.per_container);
    let short = || format!("expected rows of {all:#x} clusters, found rows of {:#x}", rows.end);
    let Some(wrong) = rows.wrong.clone().or_else(|| (rows.end != all).then(short)) else { return };
    let message = format!("{}: {wrong}", Root::IntegrityState.name());
    check.find("integrity-state", Severity::Inconsistent, None, message);
    check.repair.renew(Root::IntegrityState);
}
