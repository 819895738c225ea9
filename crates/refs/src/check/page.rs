//! Reading a metadata page, with everything verified that it says about itself.

use super::Check;
use super::forms;
use super::order::Order;
use crate::anchor::in_copies;
use crate::container::Tier;
use crate::layout::node::{self, INNER, NODE_HEADER, ROOT, STREAM};
use crate::layout::page::{self, HEADER, NODE};
use crate::layout::{Algorithm, PageHeader, PageReference, TreeNode, Version, header};
use platter_vfs::{Error, Result, Severity};

/// The tree whose pages are walked.
#[derive(Clone)]
pub(super) struct Subject {
    /// The name of the tree in messages.
    pub name: String,
    /// The path of the file or directory that findings about the tree concern.
    pub path: Option<String>,
    /// The number of the tree, which its pages carry.
    pub table: u64,
    /// How the tree's keys are ordered.
    pub order: Order,
    /// The allocator that the tree's pages come from. References to pages of the small tier have real cluster numbers.
    pub tier: Tier,
    /// The severity of a finding that a page of the tree is lost.
    pub severity: Severity,
    /// Whether the tree can be made anew from other metadata, so that a lost page of it loses nothing.
    pub renewable: bool,
}

/// A page that was verified.
pub(super) struct Page {
    bytes: Vec<u8>,
    start: usize,
    /// The page's offset on the device, in bytes.
    pub at: u64,
}

impl Page {
    /// Returns the bytes from the node's header to the end of the page.
    pub(super) fn area(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Returns the page's node.
    pub(super) fn node(&self) -> TreeNode<'_> {
        TreeNode::new(self.area())
    }

    /// Returns the tree header, which has content only in a root page.
    pub(super) fn header(&self) -> &[u8] {
        &self.bytes[HEADER..self.start]
    }

    /// Returns the offset on the device that belongs to an offset in the node's area.
    pub(super) fn place(&self, offset: usize) -> u64 {
        self.at + (self.start + offset) as u64
    }
}

/// The properties that a page must have at its place in the tree.
#[derive(Clone, Copy)]
pub(super) struct Role {
    /// The level of the page; `None` for a root, which may have any.
    pub level: Option<u8>,
    /// Whether the page holds runs of a stream, or leads to pages that do.
    pub stream: bool,
    /// Whether the root of the page's tree is the value of a row. It is not known which table number such pages carry,
    /// and they are repaired with the row.
    pub embedded: bool,
}

impl Check<'_> {
    /// Returns the first real cluster of a run of `count` clusters from `cluster` on, which is a real cluster number in
    /// the small tier and a virtual one in the others.
    pub(super) fn real(&self, cluster: u64, count: u64, tier: Tier) -> Result<u64> {
        if tier == Tier::Small {
            return match cluster.checked_add(count) {
                Some(end) if end <= self.geometry.clusters => Ok(cluster),
                _ => Err(Error::damaged(
                    "real cluster",
                    0,
                    format!("below {:#x}", self.geometry.clusters),
                    cluster,
                )),
            };
        }
        let (container, inside) = self.geometry.split(cluster);
        let start = container
            .checked_sub(FIRST_CONTAINER)
            .and_then(|index| self.starts.get(index as usize).copied().flatten());
        match start {
            Some(start) if u64::from(inside) + count <= u64::from(self.geometry.per_container) => {
                Ok(start + u64::from(inside))
            }
            _ => {
                let last = FIRST_CONTAINER + self.starts.len() as u64;
                let expected =
                    format!("{count} clusters in one of containers {FIRST_CONTAINER} to {}", last - 1);
                Err(Error::damaged("virtual cluster", 0, expected, format!("{cluster:#x}")))
            }
        }
    }

    /// Reads the page that a reference at offset `from` leads to, and counts its clusters as used. Damage is reported;
    /// returns `None` if the page cannot be used.
    pub(super) fn page(
        &mut self,
        subject: &Subject,
        reference: &PageReference,
        role: Role,
        from: u64,
    ) -> Option<Page> {
        let count = u64::from(self.geometry.page_clusters());
        let first = reference.clusters[0];
        let consecutive: [u64; 4] =
            std::array::from_fn(
                |index| if (index as u64) < count { first.wrapping_add(index as u64) } else { 0 },
            );
        if reference.clusters != consecutive {
            let found = format!("{:x?}", reference.clusters);
            let message = format!(
                "page reference at offset {from}: expected {count} consecutive clusters, found {found}"
            );
            self.lost(subject, role, "page-reference", message);
            return None;
        }
        let real = match self.real(first, count, subject.tier) {
            Ok(real) => real,
            Err(error) => {
                self.lost(
                    subject,
                    role,
                    "page-reference",
                    format!("page reference at offset {from}: {}", plain(&error)),
                );
                return None;
            }
        };
        let at = self.geometry.offset(real);
        if !self.is_again && self.used.claim(real, count, Some(subject.tier)) > 0 {
            let message =
                format!("page at offset {at}, named at offset {from}: something else has its clusters");
            self.find("cross-link", Severity::DataLoss, subject.path.clone(), named(subject, message));
            self.is_incomplete = true;
            self.is_content_lost |= !subject.renewable;
            self.damaged.extend((!role.embedded).then_some(subject.table));
            return None;
        }
        let mut bytes = vec![0; self.geometry.page()];
        let read = self.device.read_at(at, &mut bytes).map_err(|error| ("unreadable", error.into()));
        let verified = read.and_then(|()| self.verify(subject, reference, role, &bytes, at));
        if let Err((code, error)) = verified {
            let good = self.other_copy(subject, reference, role, at);
            let good = good.or_else(|| self.corrected(subject, reference, role, bytes, at));
            let Some(good) = good else {
                let message = match &error {
                    Error::Damaged(damage) => damage.to_string(),
                    error => format!("page at offset {at}: {error}"),
                };
                self.lost(subject, role, code, message);
                return None;
            };
            bytes = good;
        }
        let page = Page { start: page::node_start(&bytes), bytes, at };
        let clock = PageHeader::from_bytes(&page.bytes).clock;
        if clock > self.clock {
            let message = format!(
                "clock of a page at offset {}: expected at most {}, found {clock}",
                at + PageHeader::CLOCK.at() as u64,
                self.clock
            );
            self.find("page-clock", Severity::Inconsistent, subject.path.clone(), named(subject, message));
            self.repair.raise_clock(clock);
        }
        if let Err((offset, expected, found)) = tidy(page.area()) {
            let at = page.place(offset);
            let message = format!("node at offset {at}: expected {expected}, found {found}");
            self.find("node-count", Severity::Inconsistent, subject.path.clone(), named(subject, message));
            if !role.embedded {
                self.repair.rebuild(subject.table);
            }
        }
        self.form(subject, role, &page);
        Some(page)
    }

    /// Checks the fields that are the same in every page, and the marks in the index of the page's node.
    fn form(&mut self, subject: &Subject, role: Role, page: &Page) {
        let mut wrong: Vec<(&str, String)> = forms::page(&page.bytes)
            .map(|(what, at, expected, found)| {
                let at = page.at + at;
                ("page-header", format!("{what} at offset {at}: expected {expected:#x}, found {found:#x}"))
            })
            .collect();
        let is_marked = self.geometry.version >= Version::V3_10 && !role.embedded;
        match forms::marks(page.area(), is_marked) {
            Ok(true) => {}
            // Windows keeps this form in pages that it has not written since an upgrade.
            Ok(false) if !self.anchors.checkpoint.echo || self.is_again => {}
            Ok(false) => self.unmarked.add(page.place(0)),
            Err((offset, expected, found)) => {
                let at = page.place(offset);
                let message = format!("index of a node at offset {at}: expected {expected}, found {found}");
                wrong.push(("node-mark", message));
            }
        }
        for (code, message) in wrong {
            self.find(code, Severity::Inconsistent, subject.path.clone(), named(subject, message));
            if !role.embedded {
                self.repair.rebuild(subject.table);
            }
        }
    }

    fn verify(
        &self,
        subject: &Subject,
        reference: &PageReference,
        role: Role,
        bytes: &[u8],
        at: u64,
    ) -> std::result::Result<(), (&'static str, Error)> {
        let wrong = |code, structure, at, expected: String, found: String| {
            Err((code, Error::damaged(structure, at, expected, found)))
        };
        let algorithm = reference.checksum.algorithm;
        if algorithm != self.geometry.algorithm && (algorithm != Algorithm::None || self.is_verified) {
            let (expected, found) = (self.geometry.algorithm.name().into(), algorithm.name().into());
            return wrong("page-checksum", "kind of a page's checksum", at, expected, found);
        }
        if !reference.checksum.matches(bytes) {
            let (expected, found) = (reference.checksum.to_string(), algorithm.of(bytes).to_string());
            return wrong("page-checksum", "metadata page checksum", at, expected, found);
        }
        let header = PageHeader::from_bytes(bytes);
        if header.signature != NODE {
            let found = String::from_utf8_lossy(&header.signature).into();
            return wrong("page-header", "metadata page", at, "MSB+".into(), found);
        }
        let numbers = [
            (
                "page's volume signature",
                PageHeader::VOLUME.at(),
                u64::from(self.geometry.signature),
                u64::from(header.volume),
            ),
            (
                "page's own cluster",
                PageHeader::CLUSTER.within(0).at(),
                reference.clusters[0],
                header.clusters[0],
            ),
            (
                "page's own cluster",
                PageHeader::CLUSTER.within(8).at(),
                reference.clusters[1],
                header.clusters[1],
            ),
            (
                "page's own cluster",
                PageHeader::CLUSTER.within(16).at(),
                reference.clusters[2],
                header.clusters[2],
            ),
            (
                "page's own cluster",
                PageHeader::CLUSTER.within(24).at(),
                reference.clusters[3],
                header.clusters[3],
            ),
            ("page's table", PageHeader::TABLE.at(), subject.table, header.table),
        ];
        for (structure, field, expected, found) in numbers {
            if expected != found && !(field == PageHeader::TABLE.at() && role.embedded) {
                return wrong(
                    "page-header",
                    structure,
                    at + field as u64,
                    format!("{expected:#x}"),
                    format!("{found:#x}"),
                );
            }
        }
        let start = page::node_start(bytes);
        let least = HEADER + if role.level.is_none() { header::FIXED } else { 8 };
        if start < least || start > bytes.len() / 2 || !start.is_multiple_of(8) {
            let expected = format!("{:#x} to half a page", least - HEADER);
            let found = format!("{:#x}", page::tree_header_length(bytes));
            return wrong("page-header", "size of the tree header", at + HEADER as u64, expected, found);
        }
        let place = at + start as u64;
        if let Err((offset, expected, found)) = node(&bytes[start..], role) {
            return wrong("node", "node", place + offset as u64, expected, found);
        }
        Ok(())
    }

    /// Looks for a good version of a damaged page in the copies of a mirrored device, and has the bad copies repaired.
    fn other_copy(
        &mut self,
        subject: &Subject,
        reference: &PageReference,
        role: Role,
        at: u64,
    ) -> Option<Vec<u8>> {
        let copies = self.device.copies();
        if copies < 2 {
            return None;
        }
        let parse =
            |bytes: &[u8]| self.verify(subject, reference, role, bytes, at).map_err(|(_, error)| error);
        let found = in_copies(self.device, (at, self.geometry.page()), &parse);
        let (_, good, ()) = found.whole.into_iter().next()?;
        let is_again = self.is_again;
        for (copy, _) in found.damaged.into_iter().filter(|_| !is_again) {
            let message =
                format!("page at offset {at}: copy {copy} of the device is damaged, another is good");
            self.find("page-copy", Severity::Inconsistent, subject.path.clone(), named(subject, message));
            self.repair.write_copy(copy, at, good.clone());
        }
        Some(good)
    }

    /// Returns the corrected page, if a single bit of it is wrong: the checksum tells which one.
    fn corrected(
        &mut self,
        subject: &Subject,
        reference: &PageReference,
        role: Role,
        mut bytes: Vec<u8>,
        at: u64,
    ) -> Option<Vec<u8>> {
        let is_whole = reference.checksum.correct_one_bit(&mut bytes)
            && self.verify(subject, reference, role, &bytes, at).is_ok();
        if !is_whole {
            return None;
        }
        if !self.is_again {
            let message = format!("page at offset {at}: one bit is wrong, and its checksum tells which");
            self.find("page-bit", Severity::Inconsistent, subject.path.clone(), named(subject, message));
            self.repair.write(at, bytes.clone());
        }
        Some(bytes)
    }

    /// Reports a page that is lost, with all that is below it.
    fn lost(&mut self, subject: &Subject, role: Role, code: &'static str, message: String) {
        if self.is_again {
            return;
        }
        self.is_incomplete = true;
        self.is_content_lost |= !subject.renewable;
        // The tree of a directory can be changed although runs of a file in it are lost.
        self.damaged.extend((!role.embedded).then_some(subject.table));
        self.find(code, subject.severity, subject.path.clone(), named(subject, message));
    }
}

/// The number of the first container.
pub(super) const FIRST_CONTAINER: u64 = 2;

/// Returns a message that begins with the name of the tree that it is about.
pub(super) fn named(subject: &Subject, message: String) -> String {
    format!("{}: {message}", subject.name)
}

/// Returns the text of an error; that of damage comes without the word "damaged" before it.
pub(super) fn plain(error: &Error) -> String {
    match error {
        Error::Damaged(damage) => damage.to_string(),
        other => other.to_string(),
    }
}

type Wrong = (usize, String, String);

/// Checks that a node's rows can be read and do not overlap, and that its level and flags are those of its role. The
/// error has the offset in the node, the expected and the found value.
pub(super) fn node(area: &[u8], role: Role) -> std::result::Result<(), Wrong> {
    TreeNode::check(area)?;
    let node = TreeNode::new(area);
    let (level, flags) = (node.level(), node.flags());
    match role.level {
        Some(expected) if expected != level => {
            return Err((node::LEVEL.at(), format!("level {expected}"), level.to_string()));
        }
        None if level > MOST_LEVELS => {
            return Err((node::LEVEL.at(), format!("at most level {MOST_LEVELS}"), level.to_string()));
        }
        _ => {}
    }
    let mut expected = if level > 0 { INNER } else { 0 };
    expected |= if role.level.is_none() { ROOT } else { 0 };
    expected |= if role.stream { STREAM } else { 0 };
    if flags & (INNER | ROOT | STREAM) != expected {
        return Err((node::FLAGS.at(), format!("flags {expected:#x}"), format!("{flags:#x}")));
    }
    if role.stream && level == 0 {
        return Ok(());
    }
    let mut places: Vec<(usize, usize)> = (0..node.len())
        .map(|position| node.offset(position))
        .map(|offset| (offset, offset.saturating_add(node::row_length(area, offset))))
        .collect();
    places.sort_unstable();
    match places.windows(2).find(|pair| pair[0].1 > pair[1].0) {
        Some(pair) => {
            Err((pair[1].0, format!("a row from {:#x} on", pair[0].1), format!("{:#x}", pair[1].0)))
        }
        None => Ok(()),
    }
}

/// Checks that the counts in a node's header are those of its rows: code that adds a row relies on them. The error is
/// as of [`node`].
pub(super) fn tidy(area: &[u8]) -> std::result::Result<(), Wrong> {
    let node = TreeNode::new(area);
    let (index, end) = (node::INDEX.of(area) as usize, node::LENGTH.of(area));
    if end != area.len() as u64 || index + node::PLACE * node.len() != area.len() {
        let expected = format!("an index of {} rows up to {:#x}", node.len(), area.len());
        return Err((node::INDEX.at(), expected, format!("{index:#x} to {end:#x}")));
    }
    if node.is_stream() && !node.is_inner() {
        return Ok(());
    }
    let expected = area.len().checked_sub(NODE_HEADER + node.used());
    match expected {
        Some(expected) if expected == node.free() => Ok(()),
        expected => {
            Err((node::FREE.at(), format!("{} free bytes", expected.unwrap_or(0)), node.free().to_string()))
        }
    }
}

/// The highest level that a root may have; no tree has so many levels.
pub(super) const MOST_LEVELS: u8 = 12;
