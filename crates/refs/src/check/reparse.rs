//! The index of reparse points, and the files that have them.

use super::Check;
use super::known::own_cursor;
use super::noted::Mend;
use crate::layout::Record;
use crate::layout::system;
use platter_vfs::Severity;
use std::collections::{BTreeMap, BTreeSet};

/// The object numbers of the index and its copy.
const INDEX: [u64; 2] = [0x540, 0x541];
/// The most reparse points that are remembered, to be compared with the index.
const MOST: usize = 1 << 22;

/// The reparse points that the check has met, as the keys that the index must have for them.
#[derive(Default)]
pub(super) struct Points {
    keys: BTreeSet<Vec<u8>>,
    /// Other keys that the index may have for the reparse points of directories, each with the one that is written
    /// here: which of them Windows uses is inferred.
    other: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Whether there were more reparse points than are remembered.
    is_partial: bool,
}

/// Notes the reparse point of a file, if its record has one.
pub(super) fn file(check: &mut Check<'_>, directory: u64, record: &Record) {
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

/// Notes the reparse point of a directory, if its record has one. `entry` is its number in the directory above, and the
/// number of that directory.
pub(super) fn directory(check: &mut Check<'_>, object: u64, record: &Record, entry: Option<(u64, u64)>) {
    if record.reparse == 0 {
        return;
    }
    let points = &mut check.reparse;
    if points.keys.len() >= MOST {
        points.is_partial = true;
        return;
    }
    let key = |ordinal, directory| system::reparse_row(record.reparse, ordinal, directory).0;
    let own = key(0, object);
    for (ordinal, directory) in
        [(record.ordinal, object)].into_iter().chain(entry.filter(|entry| entry.0 != 0))
    {
        points.other.insert(key(ordinal, directory), own.clone());
    }
    points.keys.insert(own);
}

/// Compares the index with the reparse points that the check has met.
pub(super) fn finish(check: &mut Check<'_>) {
    let Points { mut keys, other, is_partial } = std::mem::take(&mut check.reparse);
    let is_lost = |number: &u64| check.damaged.contains(number) || !check.objects.contains_key(number);
    if INDEX.iter().all(is_lost) && !is_partial {
        // Points in directories that can be read only after this repair are added by the next round.
        check.repair.remake(INDEX, 0x160, keys.into_iter().map(|key| (key, Vec::new())).collect());
        return;
    }
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
        if missing.remove(&row.key) {
            continue;
        }
        let own = other.get(&row.key).filter(|own| missing.remove(*own));
        if let Some(own) = own {
            keys.remove(own);
            keys.insert(row.key);
        } else {
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
