//! A directory's rows: those of the newest tree that is left of it, and those that only older pages have.

use super::scan::Scan;
use crate::layout::bytes::u64_at;
use crate::layout::record::key;
use crate::layout::{PageReference, Record, ShortEntry};
use crate::pages::Page;
use std::collections::HashSet;

/// Levels of a tree that are followed.
const MOST_LEVELS: usize = 12;

/// A row.
pub struct Row {
    /// Its key.
    pub key: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
}

/// What a name leads to.
pub enum Leads {
    /// A file with this record.
    File(Box<Record>),
    /// A directory, by its number.
    Directory(u64),
    /// A file with several names: its home directory and its number there.
    Body(u64, u64),
}

impl Row {
    /// The name, and what it leads to, if this row is a name's.
    pub fn name(&self) -> Option<(Vec<u16>, Leads)> {
        if self.key.first() != Some(&0x30) || self.key.len() <= 4 {
            return None;
        }
        let leads = match u16::from(self.key[2]) {
            key::LONG => Leads::File(Box::new(Record::from_bytes(&self.value, 0).ok()?)),
            key::SHORT => match ShortEntry::from_bytes(&self.value, 0).ok()? {
                short if short.is_directory() => Leads::Directory(short.object),
                short => Leads::Body(short.object, short.ordinal),
            },
            _ => return None,
        };
        Some((key::units(&self.key), leads))
    }

    /// What tells the entry from others of the directory, also when it was changed.
    fn identity(&self) -> (u8, u64) {
        match self.name() {
            Some((_, Leads::File(record))) => (0, record.ordinal),
            Some((_, Leads::Directory(object))) => (1, object),
            Some((_, Leads::Body(_, ordinal))) => (0, ordinal),
            None => (self.key.first().copied().unwrap_or(0), u64_at(&self.key, 8)),
        }
    }
}

/// A directory's rows.
#[derive(Default)]
pub struct Directory {
    /// Of its newest tree.
    pub rows: Vec<Row>,
    /// Of older pages: entries that are not in `rows`, each as it was last.
    pub older: Vec<Row>,
    /// Whether every page of the tree was there: then what is in `older` was deleted.
    pub is_whole: bool,
}

impl Directory {
    /// Collects the rows of a directory.
    pub fn collect(scan: &Scan, table: u64) -> Directory {
        let mut directory = Directory { is_whole: true, ..Directory::default() };
        let found = scan.tables.get(&table).map_or(&[][..], |found| found);
        let root = found
            .iter()
            .filter(|found| found.is_root)
            .find_map(|found| scan.page(found).map(|page| (found, page)));
        let mut visited = HashSet::new();
        match root {
            Some((found, page)) => {
                visited.insert(found.place);
                directory.descend(scan, table, &page, &mut visited, 0);
            }
            None => directory.is_whole = false,
        }
        let mut known: HashSet<(u8, u64)> = directory.rows.iter().map(Row::identity).collect();
        for found in found.iter().filter(|found| found.level == 0 && !visited.contains(&found.place)) {
            let Some(page) = scan.page(found) else { continue };
            for row in page.node().rows() {
                let row = Row { key: row.key.to_vec(), value: row.value.to_vec() };
                if known.insert(row.identity()) {
                    directory.older.push(row);
                }
            }
        }
        directory
    }

    fn descend(&mut self, scan: &Scan, table: u64, page: &Page, visited: &mut HashSet<u64>, depth: usize) {
        let node = page.node();
        if !node.is_inner() {
            let rows = node.rows().map(|row| Row { key: row.key.to_vec(), value: row.value.to_vec() });
            return self.rows.extend(rows);
        }
        for row in node.rows() {
            let below = PageReference::from_bytes(row.value, 0).and_then(|reference| {
                let address = crate::pages::Address { real: false, cluster: reference.clusters[0] };
                Ok((scan.pages.offset(address)?, scan.pages.read(&reference, table, false)?))
            });
            match below {
                Ok((place, below)) if depth < MOST_LEVELS && below.node().level() < node.level() => {
                    if visited.insert(place) {
                        self.descend(scan, table, &below, visited, depth + 1);
                    }
                }
                _ => self.is_whole = false,
            }
        }
    }
}
