//! Walking a tree row by row, with every page and the order of all keys verified on the way.

use super::order::Order;
use super::page::{MOST_LEVELS, Page, Role, Subject, named, plain};
use super::{Check, forms};
use crate::layout::{PageReference, Version, header};
use platter_vfs::Severity;
use std::collections::HashSet;

/// A row of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TreeRow {
    /// Its key.
    pub key: Vec<u8>,
    /// Its flags.
    pub flags: u16,
    /// Its value.
    pub value: Vec<u8>,
    /// The row's offset on the device, in bytes.
    pub at: u64,
    /// The offset of its value on the device, in bytes.
    pub value_at: u64,
}

/// A walk through a tree. Its depth is bounded by the levels of its nodes, its length by the clusters of the volume:
/// no page is visited twice.
pub(super) struct RowCursor {
    subject: Subject,
    root: PageReference,
    from: u64,
    levels: Vec<Level>,
    begun: bool,
    last: Option<Vec<u8>>,
    counted: (u64, u64),
    /// The tree header of the root.
    header: Vec<u8>,
    /// The offset of that header on the device, in bytes.
    header_at: u64,
    /// Whether the root leads to other pages.
    root_is_inner: bool,
    is_finished: bool,
    /// Whether a part of the tree could not be read.
    pub is_damaged: bool,
    /// Whether a key was out of place.
    is_disordered: bool,
    /// The first clusters of the pages of a walk that does not count clusters as used, by which a page that is met
    /// twice is noticed.
    visited: HashSet<u64>,
}

struct Level {
    page: Page,
    next: usize,
    /// The key that every key in or below this page must be greater than.
    above: Option<Vec<u8>>,
    /// The key that no key in or below this page may be greater than.
    most: Option<Vec<u8>>,
}

impl RowCursor {
    /// Returns a walk from a root; the reference to it stands at offset `from` on the device.
    pub(super) fn new(subject: Subject, root: PageReference, from: u64) -> RowCursor {
        RowCursor {
            subject,
            root,
            from,
            levels: Vec::new(),
            begun: false,
            last: None,
            counted: (0, 0),
            header: Vec::new(),
            header_at: 0,
            root_is_inner: false,
            is_finished: false,
            is_damaged: false,
            is_disordered: false,
            visited: HashSet::new(),
        }
    }

    /// The same walk from the start.
    pub(super) fn again(&self) -> RowCursor {
        RowCursor::new(self.subject.clone(), self.root, self.from)
    }

    /// Whether everything that was walked could be read and was in order.
    pub(super) fn is_sound(&self) -> bool {
        !self.is_damaged && !self.is_disordered
    }

    /// Returns the tree that is walked.
    pub(super) fn subject(&self) -> &Subject {
        &self.subject
    }

    /// From here on takes any order of the keys for right.
    pub(super) fn take_any_order(&mut self) {
        self.subject.order = Order::Unknown;
    }

    /// Returns the tree header of the root and its offset on the device; empty and 0 before the walk has begun.
    pub(super) fn header(&self) -> (&[u8], u64) {
        (&self.header, self.header_at)
    }

    /// Returns the next row; `None` at the end of the tree.
    pub(super) fn next(&mut self, check: &mut Check<'_>) -> Option<TreeRow> {
        if !self.begun {
            self.begun = true;
            let role = Role { level: None, stream: false, embedded: false };
            let root = self.root;
            self.enter(check, root, role, self.from, None, None);
            if let Some(level) = self.levels.first() {
                self.form(check, &level.page);
                self.header = level.page.header().to_vec();
                self.header_at = level.page.at + crate::layout::page::HEADER as u64;
                self.root_is_inner = level.page.node().is_inner();
            }
        }
        loop {
            let Some(level) = self.levels.last_mut() else {
                self.finish(check);
                return None;
            };
            let node = level.page.node();
            if level.next >= node.len() {
                self.levels.pop();
                continue;
            }
            let position = level.next;
            level.next += 1;
            let row = node.row(position);
            let at = level.page.place(node.offset(position));
            let value_at = level.page.place(node.value_offset(position));
            if !node.is_inner() {
                let (order, upper) = (self.subject.order, &check.upper);
                let follows = |before: &Option<Vec<u8>>| {
                    before.as_ref().is_none_or(|before| order.is_ascending(upper, before, row.key))
                };
                let is_past = level.most.as_ref().is_some_and(|most| order.is_past(upper, row.key, most));
                let wrong = if !follows(&self.last) {
                    Some(("key-order", "a key greater than the one before"))
                } else if !follows(&level.above) || is_past {
                    Some(("key-bound", "a key within the bounds of the inner node"))
                } else {
                    None
                };
                let (key, value) = (row.key.to_vec(), row.value.to_vec());
                let row = TreeRow { key, flags: row.flags, value, at, value_at };
                self.counted.1 += 1;
                let last = self.last.get_or_insert_default();
                last.clear();
                last.extend_from_slice(&row.key);
                if let Some((code, expected)) = wrong {
                    self.misplaced(check, &row, code, expected);
                }
                return Some(row);
            }
            let is_last = position + 1 == node.len();
            let above = match position {
                0 => level.above.clone(),
                _ => Some(node.row(position - 1).key.to_vec()),
            };
            let most = if is_last { level.most.clone() } else { Some(row.key.to_vec()) };
            let role = Role { level: Some(node.level() - 1), stream: false, embedded: false };
            match PageReference::from_bytes(row.value, value_at) {
                Ok(reference) => self.enter(check, reference, role, value_at, above, most),
                Err(error) => {
                    self.is_damaged = true;
                    check.is_incomplete = true;
                    check.is_content_lost |= !self.subject.renewable;
                    check.damaged.insert(self.subject.table);
                    let message = named(&self.subject, plain(&error));
                    check.find("page-reference", self.subject.severity, self.subject.path.clone(), message);
                }
            }
        }
    }

    fn enter(
        &mut self,
        check: &mut Check<'_>,
        reference: PageReference,
        role: Role,
        from: u64,
        above: Option<Vec<u8>>,
        most: Option<Vec<u8>>,
    ) {
        if check.is_again && !self.visited.insert(reference.clusters[0]) {
            self.is_damaged = true;
            return;
        }
        match check.page(&self.subject, &reference, role, from) {
            Some(page) if self.levels.len() <= usize::from(MOST_LEVELS) => {
                self.counted.0 += u64::from(page.node().level() == 0);
                self.levels.push(Level { page, next: 0, above, most });
            }
            _ => self.is_damaged = true,
        }
    }

    /// Reports a row whose key is not greater than the one before, or outside the bounds of the inner node above.
    fn misplaced(&mut self, check: &mut Check<'_>, row: &TreeRow, code: &'static str, expected: &str) {
        self.is_disordered = true;
        let found = shortened(&row.key);
        let message = format!("row at offset {}: expected {expected}, found {found:02x?}", row.at);
        check.find(code, Severity::Inconsistent, self.subject.path.clone(), named(&self.subject, message));
        check.repair.rebuild(self.subject.table);
    }

    /// Checks the tree header in a root page, on volumes that were made as 3.14: in others pages may be of an earlier version.
    fn form(&self, check: &mut Check<'_>, root: &Page) {
        if !check.anchors.checkpoint.echo || check.geometry.version != Version::V3_14 {
            return;
        }
        let subject = &self.subject;
        let checksum = check.geometry.algorithm.code();
        for (what, field, expected, found) in forms::header(root.header(), subject.table, checksum) {
            let at = root.at + crate::layout::page::HEADER as u64 + field;
            let message =
                format!("{what} in the tree header at offset {at}: expected {expected:#x}, found {found:#x}");
            check.find("tree-header", Severity::Inconsistent, subject.path.clone(), named(subject, message));
            check.repair.rebuild(subject.table);
        }
    }

    /// Compares the counts of the tree header with what was found.
    fn finish(&mut self, check: &mut Check<'_>) {
        if self.is_damaged || std::mem::replace(&mut self.is_finished, true) {
            return;
        }
        let (leaves, rows) = self.counted;
        let leaves = if self.root_is_inner { leaves } else { 0 };
        for (what, field, expected) in [("leaf pages", header::LEAVES, leaves), ("rows", header::ROWS, rows)]
        {
            let found = field.of(&self.header);
            if found != expected {
                let at = self.header_at + field.at() as u64;
                let message = format!("count of {what} at offset {at}: expected {expected}, found {found}");
                check.find(
                    "tree-count",
                    Severity::Inconsistent,
                    self.subject.path.clone(),
                    named(&self.subject, message),
                );
                check.repair.rebuild(self.subject.table);
            }
        }
    }
}

fn shortened(key: &[u8]) -> &[u8] {
    &key[..key.len().min(40)]
}
