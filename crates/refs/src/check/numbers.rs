//! The rows of a directory that lead from the numbers of files to their names and records.

use super::{Check, Task};
use crate::layout::NumberRow;
use crate::layout::record::key;
use platter_vfs::Severity;
use std::collections::HashMap;

/// The most rows of one directory that are remembered at a time. In a directory that has more, those beyond are not
/// compared.
const MOST: usize = 1 << 22;

/// The rows of one directory that have been met, and not yet what they lead to.
#[derive(Default)]
pub(super) struct Numbers {
    rows: HashMap<u64, (NumberRow, u64)>,
    /// Whether there were more rows than are remembered.
    is_partial: bool,
    /// Whether a record cannot be read that may have any number.
    is_unsure: bool,
    /// How many files have no row, and the number of the first of them.
    missing: u64,
    first: Option<u64>,
    /// What is wrong with the first wrong row, and how many there are.
    wrong: u64,
    message: Option<String>,
}

impl Numbers {
    /// Notes a row. `at` is where it stands on the device.
    pub(super) fn met(&mut self, key: &[u8], value: &[u8], at: u64) {
        if self.rows.len() == MOST {
            self.is_partial = true;
            return;
        }
        let row = NumberRow::from_bytes(value);
        if row == NumberRow::Other {
            return;
        }
        let ordinal = key::ordinal(key);
        if key != key::number(ordinal) {
            self.refuse(format!("row at offset {at}: expected a key of 24 bytes with a number alone"));
        } else {
            self.rows.insert(ordinal, (row, at));
        }
    }

    /// Compares the row of a number with what it must lead to.
    pub(super) fn leads_to(&mut self, ordinal: u64, expected: &NumberRow) {
        if ordinal == 0 {
            return;
        }
        match self.rows.remove(&ordinal) {
            Some((found, _)) if found == *expected => {}
            Some((found, at)) => {
                let (expected, found) = (said(expected), said(&found));
                self.refuse(format!("number {ordinal} at offset {at}: expected {expected}, found {found}"));
            }
            None if self.is_partial => {}
            None => {
                self.missing += 1;
                self.first.get_or_insert(ordinal);
            }
        }
    }

    /// Takes note that a directory has a number. Whether it has a row depends on the version.
    pub(super) fn directory(&mut self, ordinal: u64) {
        self.rows.remove(&ordinal);
    }

    /// Takes note of a record that cannot be read.
    pub(super) fn unreadable(&mut self) {
        self.is_unsure = true;
    }

    fn refuse(&mut self, message: String) {
        self.wrong += 1;
        self.message.get_or_insert(message);
    }

    /// Reports what is wrong with the rows of a directory, once all its rows have been met.
    pub(super) fn finish(mut self, check: &mut Check<'_>, directory: u64) {
        let mut left = std::mem::take(&mut self.rows);
        if self.is_unsure {
            left.clear();
        }
        if let Some((ordinal, (row, at))) = left.iter().min_by_key(|(ordinal, _)| **ordinal) {
            self.refuse(format!(
                "number {ordinal} at offset {at}: leads to {}, which is not there",
                said(row)
            ));
            self.wrong += left.len() as u64 - 1;
        }
        let path = check.path(directory, None);
        if let Some(message) = self.message {
            let more = self.wrong - 1;
            let more = if more > 0 { format!("; and {more} more") } else { String::new() };
            let message = format!("row that leads from a number to a file: {message}{more}");
            check.find("number-row", Severity::Inconsistent, Some(path.clone()), message);
        }
        if let Some(first) = self.first {
            let message = format!(
                "{} files have no row that leads from their number to them, by which Windows opens files by \
                 identifier; the first is number {first}",
                self.missing
            );
            check.find("number-row-missing", Severity::Notice, Some(path), message);
        }
        if self.wrong > 0 || self.missing > 0 {
            check.repair.add(Task::Numbers { directory });
        }
    }
}

fn said(row: &NumberRow) -> String {
    match row {
        NumberRow::Name(units) => format!("the name \"{}\"", String::from_utf16_lossy(units)),
        NumberRow::Body(ordinal, home) => format!("record {ordinal} in directory {home:#x}"),
        NumberRow::Other => "something else".into(),
    }
}
