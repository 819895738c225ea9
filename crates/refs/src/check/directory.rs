//! The tree of directories: the rows of each directory, the files and directories that they lead to, and the links
//! back.

use super::known::{METADATA_DIRECTORY, is_directory};
use super::lost::LostTree;
use super::numbers::Numbers;
use super::order::Order;
use super::owner::{Spot, nameless, units};
use super::page::Subject;
use super::tree::{RowCursor, TreeRow};
use super::{Check, Task, links, reparse};
use crate::container::Tier;
use crate::core::ROOT_DIRECTORY;
use crate::layout::object_links;
use crate::layout::record::key;
use crate::layout::{NumberRow, ParentChildRow, Record, Root, ShortEntry};
use platter_vfs::{Name, NameRules, Severity};
use std::collections::{BTreeSet, HashSet};

/// A directory that waits to be walked, with the entry that leads to it.
struct Waiting {
    object: u64,
    entry: Option<ShortEntry>,
}

/// Walks all directories: first those that are reached from the root, then those that no name leads to.
pub(super) fn walk_all(check: &mut Check<'_>) {
    if !check.objects.contains_key(&ROOT_DIRECTORY) {
        let message = format!("object table: expected the root directory ({ROOT_DIRECTORY:#x}), found none");
        check.find("object-missing", Severity::DataLoss, None, message);
        check.is_directory_lost = true;
    }
    check.reached.insert(ROOT_DIRECTORY, (ROOT_DIRECTORY, units(".").into()));
    walk_from(check, ROOT_DIRECTORY);
    if !check.objects.contains_key(&METADATA_DIRECTORY) {
        let message = format!(
            "object table: expected the directory without a name ({METADATA_DIRECTORY:#x}), found none"
        );
        check.find("object-missing", Severity::Inconsistent, None, message);
        check.repair.renew_metadata();
    } else {
        check.reached.insert(METADATA_DIRECTORY, (ROOT_DIRECTORY, units("FS Metadata").into()));
        walk_from(check, METADATA_DIRECTORY);
    }
    let is_orphan = |check: &Check<'_>, number: u64| {
        let known = check.reached.contains_key(&number) || check.orphans.contains_key(&number);
        is_directory(number) && check.objects.contains_key(&number) && !known
    };
    let orphans: Vec<u64> =
        check.objects.keys().copied().filter(|&number| is_orphan(check, number)).collect();
    // A directory whose parent is without a name too is reached from that parent. The second pass takes the directories
    // that are each other's parents in a circle.
    for last in [false, true] {
        for &number in &orphans {
            if !is_orphan(check, number) {
                continue;
            }
            let link = own_link(check, number);
            let above = link.as_ref().map(|(above, _)| *above);
            if !last && above.is_some_and(|above| above != number && is_orphan(check, above)) {
                continue;
            }
            let at = check.objects[&number].at;
            let said = match &link {
                Some((above, name)) => format!("its record says {}", check.path(*above, Some(name))),
                None => "its record does not say where it was".into(),
            };
            let message =
                format!("object {number:#x} at offset {at}: no name leads to this directory; {said}");
            check.find("orphan", Severity::Inconsistent, None, message);
            check.repair.add(Task::Adopt { directory: number });
            // A directory in `orphans` has no path: messages show its number instead.
            let (above, name) = link.unwrap_or_else(|| (ROOT_DIRECTORY, Vec::new()));
            check.orphans.insert(number, (above, name.into()));
            walk_from(check, number);
        }
    }
}

/// Returns the directory above and the name in it, as a directory's own record gives them.
fn own_link(check: &mut Check<'_>, number: u64) -> Option<(u64, Vec<u16>)> {
    check.is_again = true;
    let mut cursor = cursor(check, number)?;
    let row = cursor.next(check);
    check.is_again = false;
    let record = row
        .filter(|row| row.key == key::OWN)
        .and_then(|row| Record::from_bytes(&row.value, row.value_at).ok())?;
    object_links(&record.rows).next()
}

fn cursor(check: &Check<'_>, number: u64) -> Option<RowCursor> {
    let object = check.objects.get(&number)?;
    let subject = Subject {
        name: format!("directory ({number:#x})"),
        path: Some(check.path(number, None)),
        table: number,
        order: Order::Directory,
        tier: Tier::Medium,
        severity: if number == METADATA_DIRECTORY { Severity::Inconsistent } else { Severity::DataLoss },
        renewable: number == METADATA_DIRECTORY,
    };
    Some(RowCursor::new(subject, object.root, object.at))
}

fn walk_from(check: &mut Check<'_>, first: u64) {
    let mut waiting = vec![Waiting { object: first, entry: None }];
    while let Some(next) = waiting.pop() {
        check.walked += 1;
        let total = check.objects.len() as u64;
        check.progress.progress("checking directories", check.walked.min(total), total);
        let (ordinals, numbers) = (HashSet::new(), Numbers::default());
        Walk { object: next.object, entry: next.entry, has_own: false, ordinals, highest: 0, numbers }
            .run(check, &mut waiting);
    }
}

/// A walk through one directory.
struct Walk {
    object: u64,
    entry: Option<ShortEntry>,
    has_own: bool,
    ordinals: HashSet<u64>,
    highest: u64,
    numbers: Numbers,
}

impl Walk {
    fn run(mut self, check: &mut Check<'_>, waiting: &mut Vec<Waiting>) {
        let Some(mut cursor) = cursor(check, self.object) else { return };
        let last_child = check.objects[&self.object].last_child;
        while let Some(row) = cursor.next(check) {
            match key::kind(&row.key) {
                key::RECORD => {
                    // In what order Windows puts names that it tells apart by case is not sure.
                    if check.geometry.version.keeps_homes() && Record::tells_case(&row.value) {
                        cursor.take_any_order();
                    }
                    self.own(check, &row);
                }
                key::NUMBER => self.numbers.met(&row.key, &row.value, row.at),
                key::NAME => self.name(check, &row, waiting),
                key::BODY => self.body(check, &row),
                kind => {
                    let message =
                        format!("row at offset {}: a directory has no rows of type {kind:#x}", row.at);
                    self.find(check, "row", Severity::Notice, message);
                }
            }
        }
        if cursor.is_damaged {
            if self.object == METADATA_DIRECTORY {
                check.repair.renew_metadata();
            } else {
                check.is_directory_lost = true;
                let root = check.objects[&self.object].root;
                check.lost_trees.push(LostTree { table: self.object, root });
            }
        } else if !self.has_own {
            let message = "directory: expected a row of its own record, found none".into();
            self.find(check, "own-record", Severity::Inconsistent, message);
            check.repair.add(Task::Own { directory: self.object });
        }
        let numbers = std::mem::take(&mut self.numbers);
        if !cursor.is_damaged {
            numbers.finish(check, self.object);
        }
        match last_child {
            Some(last) if self.highest <= last => {}
            found => {
                let found = found.map_or_else(|| "none".into(), |last| last.to_string());
                let at = check.objects[&self.object].at;
                let message = format!(
                    "number last given to a child, in the object row at offset {at}: expected at least {}, found {found}",
                    self.highest
                );
                self.find(check, "ordinal", Severity::Inconsistent, message);
                check.repair.add(Task::Ordinal { directory: self.object, least: self.highest });
            }
        }
    }

    fn find(&self, check: &mut Check<'_>, code: &'static str, severity: Severity, message: String) {
        let path = check.path(self.object, None);
        check.find(code, severity, Some(path), message);
    }

    fn find_at(
        &self,
        check: &mut Check<'_>,
        name: &[u16],
        code: &'static str,
        severity: Severity,
        message: String,
    ) {
        let path = check.path(self.object, Some(name));
        check.find(code, severity, Some(path), message);
    }

    /// Checks the row with the directory's own record.
    fn own(&mut self, check: &mut Check<'_>, row: &TreeRow) {
        self.has_own = true;
        let spot =
            Spot { table: self.object, row: &row.key, directory: self.object, name: &[], at: row.value_at };
        let Some(record) = check.record(&spot, &row.value) else {
            check.repair.add(Task::Own { directory: self.object });
            return;
        };
        check.directory_streams(&spot, &record);
        let above = check.reached.get(&self.object).map(|(above, _)| *above);
        let entry = self.entry.as_ref().map(|entry| entry.ordinal).zip(above);
        reparse::directory(check, self.object, &record, entry);
        let links: Vec<_> = object_links(&record.rows).collect();
        let expected = check.reached.get(&self.object).map(|(above, name)| (*above, name.to_vec()));
        let is_nameless = self.object == METADATA_DIRECTORY;
        match (&links[..], expected) {
            ([(above, name)], Some(expected)) => {
                if (*above, &name[..]) != (expected.0, &expected.1[..]) && !is_nameless {
                    let found = check.path(*above, Some(name));
                    let message = format!(
                        "link to the directory above, in the record at offset {}: expected {}, found {found}",
                        row.at,
                        check.path(expected.0, Some(&expected.1))
                    );
                    self.find(check, "directory-link", Severity::Inconsistent, message);
                    check.repair.add(Task::Link { directory: self.object });
                }
            }
            ([_], None) => {}
            (found, _) => {
                let message = format!(
                    "links to the directory above, in the record at offset {}: expected one, found {}",
                    row.at,
                    found.len()
                );
                self.find(check, "directory-link", Severity::Inconsistent, message);
                check.repair.add(Task::Link { directory: self.object });
            }
        }
        if let Some(entry) = &self.entry {
            let same =
                entry.times == record.times && entry.attributes == record.attributes | Record::DIRECTORY;
            if !same {
                let message = format!(
                    "times or attributes of the directory's entry are not those of its record at offset {}",
                    row.at
                );
                self.find(check, "entry-stale", Severity::Notice, message);
                check.repair.add(Task::Refresh { directory: self.object });
            }
        }
    }

    fn ordinal(&mut self, check: &mut Check<'_>, name: &[u16], ordinal: u64, row: &TreeRow) {
        self.highest = self.highest.max(ordinal);
        if ordinal != 0 && !self.ordinals.insert(ordinal) {
            let message =
                format!("number {ordinal} at offset {}: something else in the directory has it too", row.at);
            self.find_at(check, name, "ordinal-twice", Severity::Inconsistent, message);
            check.repair.add(Task::Renumber { directory: self.object, key: row.key.clone() });
        }
    }

    /// Checks the row of a name.
    fn name(&mut self, check: &mut Check<'_>, row: &TreeRow, waiting: &mut Vec<Waiting>) {
        let name = key::units(&row.key);
        if !row.key.len().is_multiple_of(2) {
            let message = format!("name at offset {}: its key has {} bytes", row.at, row.key.len());
            self.find_at(check, &name, "name", Severity::Inconsistent, message);
        } else if let Err(error) = NameRules::WINDOWS.check(&Name::from_units(&name)) {
            self.find_at(
                check,
                &name,
                "name",
                Severity::Inconsistent,
                format!("name at offset {}: {error}", row.at),
            );
        }
        match key::form(&row.key) {
            key::LONG => {
                let spot = Spot {
                    table: self.object,
                    row: &row.key,
                    directory: self.object,
                    name: &name,
                    at: row.value_at,
                };
                if let Some(record) = check.file(&spot, &row.value) {
                    reparse::file(check, self.object, &record);
                    self.ordinal(check, &name, record.ordinal, row);
                    self.numbers.leads_to(record.ordinal, &NumberRow::Name(name.clone()));
                    if record.links != 1 {
                        let message = format!(
                            "names of the file in its record at offset {}: expected 1, found {}",
                            row.value_at, record.links
                        );
                        self.find_at(check, &name, "link-count", Severity::Inconsistent, message);
                        let change = Box::new(|record: &mut Record| record.links = 1);
                        check.repair.add(Task::Amend {
                            directory: self.object,
                            key: row.key.clone(),
                            change,
                        });
                    }
                } else {
                    self.numbers.unreadable();
                }
            }
            key::SHORT => match ShortEntry::from_bytes(&row.value, row.value_at) {
                Ok(entry) if entry.is_directory() => self.below(check, &name, entry, row, waiting),
                Ok(entry) => links::entry(check, self.object, &name, &entry),
                Err(error) => {
                    self.find_at(check, &name, "entry", Severity::DataLoss, super::page::plain(&error));
                    check.is_directory_lost = true;
                }
            },
            flags => {
                let message = format!("name at offset {}: expected flags 1 or 2, found {flags:#x}", row.at);
                self.find_at(check, &name, "entry", Severity::DataLoss, message);
                check.is_incomplete = true;
                check.is_content_lost = true;
                check.is_directory_lost = true;
            }
        }
    }

    /// Checks a name that leads to a directory, and has that directory walked later.
    fn below(
        &mut self,
        check: &mut Check<'_>,
        name: &[u16],
        entry: ShortEntry,
        row: &TreeRow,
        waiting: &mut Vec<Waiting>,
    ) {
        let at = row.at;
        self.ordinal(check, name, entry.ordinal, row);
        self.numbers.directory(entry.ordinal);
        let number = entry.object;
        if !is_directory(number) || !check.objects.contains_key(&number) {
            let message =
                format!("entry at offset {at}: expected a directory with number {number:#x}, found none");
            self.find_at(check, name, "entry-dead", Severity::DataLoss, message);
            return;
        }
        if check.reached.contains_key(&number) || check.orphans.contains_key(&number) {
            let other = check.path(number, None);
            let message =
                format!("entry at offset {at}: leads to directory {number:#x}, which is {other} already");
            self.find_at(check, name, "directory-twice", Severity::Inconsistent, message);
            check.repair.add(Task::Twice { above: self.object, name: name.into(), directory: number });
            return;
        }
        check.reached.insert(number, (self.object, name.into()));
        waiting.push(Waiting { object: number, entry: Some(entry) });
    }

    /// Checks the record of a file with several names.
    fn body(&mut self, check: &mut Check<'_>, row: &TreeRow) {
        let (ordinal, home) = (key::ordinal(&row.key), key::home(&row.key));
        let fallback = nameless(ordinal);
        if home != self.object {
            let message = format!(
                "record of a file with several names at offset {}: expected directory {:#x} in its key, found {home:#x}",
                row.at, self.object
            );
            self.find_at(check, &fallback, "body", Severity::Inconsistent, message);
        }
        let links = Record::from_bytes(&row.value, row.value_at)
            .map(|record| object_links(&record.rows).collect::<Vec<_>>())
            .unwrap_or_default();
        let (directory, name) =
            links.first().map_or((self.object, &fallback[..]), |(above, name)| (*above, name));
        let spot = Spot { table: self.object, row: &row.key, directory, name, at: row.value_at };
        self.ordinal(check, &fallback, ordinal, row);
        self.numbers.leads_to(ordinal, &NumberRow::Body(ordinal, self.object));
        match check.file(&spot, &row.value) {
            Some(record) => {
                reparse::file(check, self.object, &record);
                if record.ordinal != ordinal {
                    let message = format!(
                        "number in the record at offset {}: expected {ordinal}, found {}",
                        row.value_at, record.ordinal
                    );
                    self.find_at(check, &fallback, "ordinal", Severity::Inconsistent, message);
                }
                links::body(check, self.object, ordinal, &record, row.value_at);
            }
            None => links::lost_body(check, self.object, ordinal),
        }
    }
}

/// Compares the parent-child table with the tree of directories.
pub(super) fn compare_parents(check: &mut Check<'_>) {
    let mut missing: BTreeSet<(u64, u64)> = check
        .reached
        .iter()
        .filter(|(number, _)| **number != ROOT_DIRECTORY)
        .map(|(number, (above, _))| (*above, *number))
        .collect();
    let mut cursor = check.root_cursor(Root::ParentChild);
    loop {
        check.is_again = true;
        let row = cursor.next(check);
        check.is_again = false;
        let Some(row) = row else { break };
        let found = ParentChildRow::from_bytes(&row.key);
        let pair = (found.above, found.child);
        let is_sound = row.key == found.to_bytes() && row.value == row.key;
        if is_sound && missing.remove(&pair) {
            continue;
        }
        let (above, child) = pair;
        if is_sound && check.orphans.get(&child).is_some_and(|(own, _)| *own == above) {
            continue;
        }
        let message = format!(
            "parent-child table: row at offset {} says that {child:#x} lies in {above:#x}, which it does not",
            row.at
        );
        check.find("parent-child", Severity::Inconsistent, None, message);
        check.repair.renew(Root::ParentChild);
    }
    if cursor.is_damaged {
        return;
    }
    for (above, child) in missing {
        let path = check.path(child, None);
        let message = format!(
            "parent-child table: expected a row that says that {child:#x} lies in {above:#x}, found none"
        );
        check.find("parent-child", Severity::Inconsistent, Some(path), message);
        check.repair.renew(Root::ParentChild);
    }
}
