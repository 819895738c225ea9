//! A directory's rows: those of the newest tree that is left of it, and those that only older pages have.

use super::scan::{Loose, Scan};
use crate::layout::record::key;
use crate::layout::{PageReference, Record, ShortEntry};
use crate::pages::Page;
use crate::tree::Order;
use std::collections::HashSet;

/// The most levels of a tree that are followed.
const MOST_LEVELS: usize = 12;

/// A row of a directory.
pub(super) struct RecoveredRow {
    /// The row's key.
    pub key: Vec<u8>,
    /// The row's flags.
    pub flags: u16,
    /// The row's value.
    pub value: Vec<u8>,
    /// Whether the page that the row stands in fails its checksum.
    pub is_damaged: bool,
}

/// What a name leads to.
pub(super) enum Leads {
    /// A file with this record.
    File(Box<Record>),
    /// A directory, by its number.
    Directory(u64),
    /// A file with several names: its home directory and its number there.
    Body(u64, u64),
}

impl Loose {
    fn rows(&self) -> impl Iterator<Item = RecoveredRow> {
        let is_damaged = self.is_damaged;
        self.page.node().rows().map(move |row| RecoveredRow {
            key: row.key.to_vec(),
            flags: row.flags,
            value: row.value.to_vec(),
            is_damaged,
        })
    }
}

impl RecoveredRow {
    /// Returns the name, and what it leads to, if this row is that of a name.
    pub(super) fn name(&self) -> Option<(Vec<u16>, Leads)> {
        if key::likely_kind(&self.key) != key::NAME || key::unit(&self.key, 0).is_none() {
            return None;
        }
        let leads = match key::likely_form(&self.key) {
            key::LONG => Leads::File(Box::new(Record::from_bytes(&self.value, 0).ok()?)),
            key::SHORT => match ShortEntry::from_bytes(&self.value, 0).ok()? {
                short if short.is_directory() => Leads::Directory(short.object),
                short => Leads::Body(short.object, short.ordinal),
            },
            _ => return None,
        };
        Some((key::units(&self.key), leads))
    }

    /// Returns a key that tells the entry in directory `table` from others there, and stays the same when the entry is
    /// changed or renamed, or when its record moves to a row of its own.
    fn identity(&self, table: u64) -> (u8, u64, u64) {
        match self.name() {
            Some((_, Leads::File(record))) => (0, table, record.ordinal),
            Some((_, Leads::Directory(object))) => (1, table, object),
            Some((_, Leads::Body(home, ordinal))) => (0, home, ordinal),
            None => (self.key.first().copied().unwrap_or(0), table, key::ordinal(&self.key)),
        }
    }

    /// The identity of the file whose record this row is, if it is a row of a record alone.
    fn body(&self, table: u64) -> Option<(u8, u64, u64)> {
        (key::likely_kind(&self.key) == key::BODY).then(|| (0, table, key::ordinal(&self.key)))
    }
}

/// A directory's rows.
#[derive(Default)]
pub(super) struct Directory {
    /// The rows of the directory's newest tree.
    pub rows: Vec<RecoveredRow>,
    /// The rows in older pages whose entries are not in `rows`, each as the newest of these pages has it.
    pub older: Vec<RecoveredRow>,
    /// Whether every page of the newest tree could be read. If so, the entries in `older` were deleted.
    pub is_whole: bool,
}

impl Directory {
    /// Collects the rows of a directory.
    pub(super) fn collect(scan: &Scan, table: u64) -> Directory {
        let mut directory = Directory { is_whole: true, ..Directory::default() };
        let found = scan.tables.get(&table).map_or(&[][..], |found| found);
        let root = found
            .iter()
            .filter(|found| found.is_root)
            .find_map(|found| scan.page(found).map(|page| (found, page)));
        let mut visited = HashSet::new();
        match root {
            Some((found, root)) => {
                visited.insert(found.place);
                directory.descend(scan, table, &root, &mut visited, 0);
            }
            None => directory.is_whole = false,
        }
        // The older names of a file whose record is here were renamed or moved: they were not deleted.
        let bodies = directory.rows.iter().filter_map(|row| row.body(table));
        let mut known: HashSet<_> =
            directory.rows.iter().map(|row| row.identity(table)).chain(bodies).collect();
        for found in found.iter().filter(|found| found.level == 0 && !visited.contains(&found.place)) {
            let Some(leaf) = scan.page(found) else { continue };
            for row in leaf.rows() {
                if known.insert(row.identity(table)) {
                    directory.older.push(row);
                }
            }
        }
        directory
    }

    fn descend(&mut self, scan: &Scan, table: u64, at: &Loose, visited: &mut HashSet<u64>, depth: usize) {
        let node = at.page.node();
        if !node.is_inner() {
            return self.rows.extend(at.rows());
        }
        for row in node.rows() {
            let below =
                PageReference::from_bytes(row.value, 0).and_then(|reference| read(scan, table, &reference));
            match below {
                Ok((place, below)) if depth < MOST_LEVELS && below.node().level() < node.level() => {
                    if visited.insert(place) {
                        let below = Loose { page: below, is_damaged: false };
                        self.descend(scan, table, &below, visited, depth + 1);
                    }
                }
                _ => self.is_whole = false,
            }
        }
    }
}

/// The most lost rows that are looked for.
const MOST_ROWS: usize = 1 << 16;
/// The most pages that lost rows are taken from.
const MOST_PAGES: usize = 1 << 10;

/// A range of keys: those greater than the first one, and not greater than the second. `None` is no bound.
type Gap = (Option<Vec<u8>>, Option<Vec<u8>>);

/// Returns rows for the parts of a directory's tree that cannot be read: each as the newest leaf that is left has it.
pub(super) fn lost(scan: &Scan, table: u64, root: &PageReference, order: &Order) -> Vec<RecoveredRow> {
    let (mut gaps, mut visited) = (Vec::new(), HashSet::new());
    match read(scan, table, root) {
        Ok((place, page)) => {
            visited.insert(place);
            find_gaps(scan, table, &page, (None, None), (&mut visited, &mut gaps), 0);
        }
        Err(_) => gaps.push((None, None)),
    }
    let is_in = |key: &[u8], (low, high): &Gap| {
        let is_above = low.as_ref().is_none_or(|low| order.compare(key, low).is_gt());
        is_above && high.as_ref().is_none_or(|high| order.compare(key, high).is_le())
    };
    let mut rows: Vec<RecoveredRow> = Vec::new();
    // The key ranges of the leaves that were taken, which come newest first. A row of an older leaf within one of them
    // was removed before the newer leaf was written, and is left out.
    let mut spans: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    let all = scan.tables.get(&table).map_or(&[][..], |found| found);
    for found in all.iter().filter(|found| found.level == 0 && !visited.contains(&found.place)) {
        let Some(leaf) = scan.page(found) else { continue };
        let mut its: Vec<RecoveredRow> = leaf.rows().collect();
        let (Some(first), Some(last)) = (its.first(), its.last()) else { continue };
        let span = (first.key.clone(), last.key.clone());
        its.retain(|row| gaps.iter().any(|gap| is_in(&row.key, gap)));
        if its.is_empty() {
            continue;
        }
        let is_said = |key: &[u8]| {
            let covers = |(first, last): &(Vec<u8>, Vec<u8>)| {
                order.compare(key, first).is_ge() && order.compare(key, last).is_le()
            };
            spans.iter().any(covers)
        };
        its.retain(|row| !is_said(&row.key));
        rows.append(&mut its);
        spans.push(span);
        if rows.len() > MOST_ROWS || spans.len() > MOST_PAGES {
            break;
        }
    }
    rows
}

/// Reads the page of a reference. Returns its offset on the device, and the page.
fn read(scan: &Scan, table: u64, reference: &PageReference) -> platter_vfs::Result<(u64, Page)> {
    let address = crate::pages::Address { real: false, cluster: reference.clusters[0] };
    Ok((scan.pages.offset(address)?, scan.pages.read(reference, table, false)?))
}

/// Collects in `gaps` the key ranges of the pages below `page` that cannot be read. `within` is the range of `page`
/// itself.
fn find_gaps(
    scan: &Scan,
    table: u64,
    page: &Page,
    within: Gap,
    (visited, gaps): (&mut HashSet<u64>, &mut Vec<Gap>),
    depth: usize,
) {
    let node = page.node();
    if !node.is_inner() {
        return;
    }
    let (mut low, count) = (within.0, node.len());
    for (position, row) in node.rows().enumerate() {
        // The last child also has the keys greater than the one of its row.
        let high = if position + 1 == count { within.1.clone() } else { Some(row.key.to_vec()) };
        let gap = (low, high.clone());
        low = Some(row.key.to_vec());
        let below =
            PageReference::from_bytes(row.value, 0).and_then(|reference| read(scan, table, &reference));
        match below {
            Ok((place, below)) if depth < MOST_LEVELS && below.node().level() < node.level() => {
                if visited.insert(place) {
                    find_gaps(scan, table, &below, gap, (visited, gaps), depth + 1);
                }
            }
            _ => gaps.push(gap),
        }
    }
}
