//! Files with several names: their records, and the entries that lead to them from anywhere.

use super::owner::nameless;
use super::{Check, Task};
use crate::layout::object_links;
use crate::layout::{Record, ShortEntry};
use platter_vfs::Severity;
use std::collections::BTreeMap;

/// All files with several names, by home directory and number.
pub(super) type Links = BTreeMap<(u64, u64), File>;

/// The parts of a file with several names that the check has met so far.
#[derive(Default)]
pub(super) struct File {
    body: Option<Body>,
    /// Whether the record is there but cannot be read.
    is_lost: bool,
    /// The number of names met.
    names: u64,
    /// Names whose link in the record has not been met.
    entries: Vec<LinkEntry>,
    /// Links in the record whose names have not been met.
    links: Vec<(u64, Box<[u16]>)>,
}

struct Body {
    times: [u64; 4],
    sizes: (u64, u64),
    attributes: u32,
    links: u32,
    linked: u64,
    at: u64,
}

struct LinkEntry {
    directory: u64,
    name: Box<[u16]>,
    content: ShortEntry,
}

/// Notes a name that leads to a record elsewhere, and compares its entry with the record if that has been met.
pub(super) fn entry(check: &mut Check<'_>, directory: u64, name: &[u16], content: &ShortEntry) {
    let file = check.links.entry((content.object, content.ordinal)).or_default();
    file.names += 1;
    match file.links.iter().position(|(above, other)| *above == directory && **other == *name) {
        Some(position) => {
            file.links.swap_remove(position);
            let is_stale = file.body.as_ref().is_some_and(|body| body.is_unlike(content));
            if is_stale {
                stale(check, directory, name, content);
            }
        }
        None => file.entries.push(LinkEntry { directory, name: name.into(), content: content.clone() }),
    }
}

/// Notes the record of a file with several names, and compares it with the entries that have been met.
pub(super) fn body(check: &mut Check<'_>, home: u64, ordinal: u64, record: &Record, at: u64) {
    let links: Vec<_> = object_links(&record.rows).collect();
    let body = Body {
        times: record.times,
        sizes: (record.allocated, record.size),
        attributes: record.attributes,
        links: record.links,
        linked: links.len() as u64,
        at,
    };
    let file = check.links.entry((home, ordinal)).or_default();
    let mut unlike = Vec::new();
    for (directory, name) in links {
        match file.entries.iter().position(|entry| entry.directory == directory && *entry.name == name[..]) {
            Some(position) => {
                let entry = file.entries.swap_remove(position);
                if body.is_unlike(&entry.content) {
                    unlike.push(entry);
                }
            }
            None => file.links.push((directory, name.into())),
        }
    }
    file.body = Some(body);
    for entry in unlike {
        stale(check, entry.directory, &entry.name, &entry.content);
    }
}

/// Notes that the record of a file with several names cannot be read.
pub(super) fn lost_body(check: &mut Check<'_>, home: u64, ordinal: u64) {
    check.links.entry((home, ordinal)).or_default().is_lost = true;
}

impl Body {
    fn is_unlike(&self, entry: &ShortEntry) -> bool {
        let entry = (entry.times, (entry.allocated, entry.size), entry.attributes);
        entry != (self.times, self.sizes, self.attributes)
    }
}

fn stale(check: &mut Check<'_>, directory: u64, name: &[u16], content: &ShortEntry) {
    let path = check.path(directory, Some(name));
    let message = format!(
        "times, size or attributes of the entry are not those of record {} in directory {:#x}",
        content.ordinal, content.object
    );
    check.find("entry-stale", Severity::Notice, Some(path), message);
    let file = (content.object, content.ordinal);
    check.repair.add(Task::Enter { file, directory, name: name.into() });
}

/// Reports names and records that do not fit together, once all of them have been met.
pub(super) fn finish(check: &mut Check<'_>) {
    for ((home, ordinal), file) in std::mem::take(&mut check.links) {
        match &file.body {
            Some(body) => compare(check, home, ordinal, &file, body),
            None if file.is_lost => {}
            None => {
                for entry in &file.entries {
                    let path = check.path(entry.directory, Some(&entry.name));
                    let message =
                        format!("entry: expected record {ordinal} in directory {home:#x}, found none");
                    check.find("entry-dead", Severity::DataLoss, Some(path), message);
                }
            }
        }
    }
}

fn compare(check: &mut Check<'_>, home: u64, ordinal: u64, file: &File, body: &Body) {
    let at = body.at;
    for entry in &file.entries {
        let path = check.path(entry.directory, Some(&entry.name));
        let message = format!(
            "record of a file with several names at offset {at}: expected a link to this name, found none"
        );
        check.find("link-missing", Severity::Inconsistent, Some(path), message);
        let (directory, name) = (entry.directory, entry.name.clone());
        check.repair.add(Task::LinkBack { file: (home, ordinal), directory, name });
    }
    // A name that is not there may be in a part of a directory that cannot be read.
    if check.is_directory_lost {
        return;
    }
    for (directory, name) in &file.links {
        let path = check.path(*directory, Some(name));
        let message = format!(
            "record of a file with several names at offset {at}: links to this name, which is not there"
        );
        check.find("entry-missing", Severity::Inconsistent, Some(path), message);
        check.repair.add(Task::Enter { file: (home, ordinal), directory: *directory, name: name.clone() });
    }
    if file.names == 0 && file.links.is_empty() {
        let path = check.path(home, Some(&nameless(ordinal)));
        let message = format!("record of a file with several names at offset {at}: no name leads to it");
        check.find("body-lost", Severity::Inconsistent, Some(path), message);
        check.repair.add(Task::Name { file: (home, ordinal) });
    }
    let (found, links) = (u64::from(body.links), body.linked);
    // forefst found the field to be 1 on every volume, those with hard links too (`docs/concepts/hard_links.md`), and 0 in
    // some records: what counts is the links.
    let is_counted = found == file.names || found <= 1;
    if !is_counted || links != file.names {
        let path = check.path(home, Some(&nameless(ordinal)));
        let message = format!(
            "names of the file in its record at offset {at}: expected {}, found {found}, and {links} links",
            file.names
        );
        check.find("link-count", Severity::Inconsistent, Some(path), message);
        check.repair.add(Task::Count { file: (home, ordinal) });
    }
}
