//! The index of reparse points, and the files that have them.

use super::Check;
use super::known::own_cursor;
use super::noted::Mend;
use crate::layout::Record;
use crate::system;
use platter_vfs::Severity;
use std::collections::BTreeSet;

/// The index and its copy.
const INDEX: [u64; 2] = [0x540, 0x541];
/// Most reparse points that are remembered, to be compared with the index.
const MOST: usize = 1 << 22;

/// Reparse points met, as the keys of the index would be.
#[derive(Default)]
pub struct Points {
    keys: BTreeSet<Vec<u8>>,
    /// What the index may have besides: how it names a directory is not known.
    other: BTreeSet<Vec<u8>>,
    /// Not all of them are known.
    is_partial: bool,
}

/// A file's record.
pub fn file(check: &mut Check<'_>, directory: u64, record: &Record) {
    if record.reparse == 0 {
        return;
    }
    let points = &mut check.reparse;
    if points.keys.len() < MOST {
        points.keys.insert(system::reparse_row(record.reparse, record.ordinal, directory).0);
    } else {
        points.is_partial = true;
    }
}

/// A directory's record, with its number in the directory above and that one.
pub fn directory(check: &mut Check<'_>, object: u64, record: &Record, entry: Option<(u64, u64)>) {
    if record.reparse == 0 {
        return;
    }
    let points = &mut check.reparse;
    for (ordinal, directory) in [(0, object), (record.ordinal, object)].into_iter().chain(entry) {
        if points.other.len() < MOST {
            points.other.insert(system::reparse_row(record.reparse, ordinal, directory).0);
        } else {
            points.is_partial = true;
        }
    }
}

/// Compares the index with what was met.
pub fn finish(check: &mut Check<'_>) {
    let Points { mut keys, other, is_partial } = std::mem::take(&mut check.reparse);
    if check.is_directory_lost || is_partial {
        return;
    }
    let Some(number) = INDEX.into_iter().find(|number| !check.damaged.contains(number)) else { return };
    let Some(mut cursor) = own_cursor(check, "reparse index", number) else { return };
    let mut missing = keys.clone();
    let mut differs = false;
    loop {
        check.is_again = true;
        let row = cursor.next(check);
        check.is_again = false;
        let Some(row) = row else { break };
        if other.contains(&row.key) {
            keys.insert(row.key);
        } else if !missing.remove(&row.key) {
            let message = format!("reparse index: row at offset {} is about no file that is there", row.at);
            check.find("reparse-index", Severity::Inconsistent, None, message);
            differs = true;
        }
    }
    if !missing.is_empty() {
        let message = format!("reparse index: {} reparse points are not in it", missing.len());
        check.find("reparse-index", Severity::Inconsistent, None, message);
        differs = true;
    }
    if differs {
        let rows = keys.into_iter().map(|key| (key, 0, Vec::new())).collect();
        check.repair.mend(Mend { from: number, to: INDEX.into(), rows, without: Vec::new(), is_whole: true });
    }
}
