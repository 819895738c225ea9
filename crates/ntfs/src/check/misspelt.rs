//! Names of which a directory and the file's record have different letters.
//!
//! One of the two is damaged, and neither has a checksum. Programs see the directory's: it stays, and the record gets it
//! too, unless something shows that it is the damaged one: it does not stand in its order, or the record's is more like
//! the names beside it, as "80.txt" is beside "79.txt" and "80.txu" is not.

use super::names::{self, KnownName};
use super::{Check, Severity, order};
use crate::layout::{FileName, Reference};
use platter_vfs::Result;
use std::cmp::Ordering;

/// In how many letters two names differ at most of which one is taken for the damaged other.
const MOST: usize = 2;

/// Entries of one directory whose names differ a little from those in their records.
#[derive(Default)]
pub(super) struct Misspelt {
    found: Vec<Misspelling>,
    /// The name that was visited last.
    last: Option<Box<[u16]>>,
    /// Whether the last of `found` is the entry that was visited last.
    is_newest: bool,
}

/// One such entry, and the names beside it in the directory.
struct Misspelling {
    file: u64,
    key: FileName,
    place: u64,
    before: Option<Box<[u16]>>,
    behind: Option<Box<[u16]>>,
}

impl Misspelt {
    /// Looks at the next entry of the directory, and says whether it is to be settled.
    pub(super) fn visit(
        &mut self,
        check: &Check<'_>,
        directory: Reference,
        reference: Reference,
        key: &FileName,
        place: u64,
    ) -> bool {
        let name = key.name.clone();
        if std::mem::take(&mut self.is_newest)
            && let Some(newest) = self.found.last_mut()
        {
            newest.behind = Some(name.clone());
        }
        let before = self.last.replace(name);
        let number = reference.number();
        let Some(file) = check.files.get(&number).filter(|file| file.sequence == reference.sequence()) else {
            return false;
        };
        let is_it = |name: &KnownName| name.parent.number() == directory.number() && name.is_called(key);
        let has_it = file.names.iter().any(is_it);
        let is_like = |name: &KnownName| is_like(name, key, directory);
        if has_it
            || key.parent != directory
            || !names::is_possible(key, number)
            || !file.names.iter().any(is_like)
        {
            return false;
        }
        self.found.push(Misspelling { file: number, key: key.clone(), place, before, behind: None });
        self.is_newest = true;
        true
    }

    /// Settles all that was found, after the whole directory was visited. Returns the faults of entries that cannot stay.
    pub(super) fn settle(self, check: &mut Check<'_>, directory: Reference) -> Result<Vec<String>> {
        let mut faults = Vec::new();
        for entry in self.found {
            let shown = String::from_utf16_lossy(&entry.key.name);
            let Some(file) = check.files.get_mut(&entry.file) else { continue };
            let mut like =
                file.names.iter_mut().filter(|name| !name.is_entered && is_like(name, &entry.key, directory));
            let (Some(name), None) = (like.next(), like.next()) else {
                faults.push(format!(
                    "entry \"{shown}\" at offset {}: expected a name that record {} has, found another",
                    entry.place, entry.file
                ));
                continue;
            };
            let others = String::from_utf16_lossy(&name.units);
            let less =
                |left: &[u16], right: &[u16]| order::names(&check.upper, left, right) == Ordering::Less;
            let is_in_order = entry.before.as_deref().is_none_or(|before| less(before, &entry.key.name))
                && entry.behind.as_deref().is_none_or(|behind| less(&entry.key.name, behind));
            let beside = [&entry.before, &entry.behind];
            let likeness = |name: &[u16]| -> usize {
                beside.iter().filter_map(|other| Some(alike(name, other.as_deref()?))).sum()
            };
            if !is_in_order || likeness(&name.units) > likeness(&entry.key.name) {
                faults.push(format!(
                    "entry \"{shown}\" at offset {}: expected \"{others}\", as in record {}",
                    entry.place, entry.file
                ));
                continue;
            }
            let known = name.clone();
            name.units = entry.key.name.clone();
            name.is_entered = true;
            let message = format!(
                "name \"{others}\": expected \"{shown}\", as in directory {directory}, where it stands in its order"
            );
            check.find("name-differs", Severity::Inconsistent, Some(entry.file), message, check.is_repairing);
            check.edit(entry.file, |file| {
                names::change_name(file, &known, |name| name.name = entry.key.name.clone());
            })?;
        }
        Ok(faults)
    }
}

/// Whether the letters of a name that a record has are nearly those of a directory's entry.
fn is_like(name: &KnownName, key: &FileName, directory: Reference) -> bool {
    let different = name.units.iter().zip(&key.name).filter(|(left, right)| left != right).count();
    name.parent == directory
        && name.space == key.namespace
        && name.units.len() == key.name.len()
        && (1..=MOST).contains(&different)
}

/// How many letters two names have in common at their beginnings and at their ends.
fn alike(one: &[u16], other: &[u16]) -> usize {
    let begin = one.iter().zip(other).take_while(|(one, other)| one == other).count();
    let end = one.iter().rev().zip(other.iter().rev()).take_while(|(one, other)| one == other).count();
    begin + end
}
