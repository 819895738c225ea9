//! Repairs of the rows that lead from the numbers of files to their names and records.

use crate::core::Core;
use crate::layout::record::key;
use crate::layout::{NumberRow, Record, ShortEntry};
use platter_vfs::Result;
use std::collections::{HashMap, HashSet};

/// Puts the rows that a directory lacks, and removes those that lead nowhere. Rows that are right, and those of a kind
/// that is not written here, stay as they are.
pub(super) fn renew(core: &mut Core, directory: u64) -> Result<()> {
    let mut wanted: HashMap<u64, NumberRow> = HashMap::new();
    // Directories have such rows in some versions.
    let mut left: HashSet<u64> = HashSet::new();
    // A record that cannot be read may have any number.
    let mut is_unsure = false;
    let mut wrong: Vec<Vec<u8>> = Vec::new();
    let mut there: Vec<(Vec<u8>, NumberRow)> = Vec::new();
    let (tree, pages) = core.tree(directory)?;
    tree.scan(pages, &[], |row| {
        match (key::kind(row.key), key::form(row.key)) {
            (key::NUMBER, _) => there.push((row.key.to_vec(), NumberRow::from_bytes(row.value))),
            (key::NAME, key::LONG) => match Record::from_bytes(row.value, 0) {
                Ok(record) => drop(wanted.insert(record.ordinal, NumberRow::Name(key::units(row.key)))),
                Err(_) => is_unsure = true,
            },
            (key::NAME, key::SHORT) => match ShortEntry::from_bytes(row.value, 0) {
                Ok(entry) if entry.is_directory() => drop(left.insert(entry.ordinal)),
                _ => {}
            },
            (key::BODY, _) => {
                let ordinal = key::ordinal(row.key);
                wanted.insert(ordinal, NumberRow::Body(ordinal, directory));
            }
            _ => {}
        }
        Ok(true)
    })?;
    wanted.remove(&0);
    for (row_key, row) in there {
        let ordinal = key::ordinal(&row_key);
        let is_one = row_key == key::number(ordinal);
        if row == NumberRow::Other || is_one && wanted.get(&ordinal) == Some(&row) {
            wanted.remove(&ordinal);
        } else if !is_one || !is_unsure && !left.contains(&ordinal) && !wanted.contains_key(&ordinal) {
            wrong.push(row_key);
        }
    }
    for row_key in wrong {
        let (tree, pages) = core.tree_mut(directory)?;
        tree.remove(pages, &row_key)?;
    }
    wanted.into_iter().try_for_each(|(ordinal, row)| core.put_number(directory, ordinal, &row))
}
