//! Where a stream's clusters are: runs in order of their place in the stream, each with the checksum of its one cluster
//! where the stream has integrity.
//!
//! They are kept in *leaves* of bounded size, so that finding a cluster is two binary searches, and a commit writes only
//! the leaves that changed. Few runs stand in the stream's own row; more of them in pages below it.
//!
//! Source: forefst `docs/structures/extent_descriptors.md`. A run with a checksum is 32 bytes long, of which the field
//! at 0x0A counts 28: so the checksum is the 4 bytes at 0x18 (CRC-32C of the cluster); no real bytes confirm that yet.

mod changing;
mod stored;
#[cfg(test)]
mod tests;

use crate::container::Tier;
use crate::geometry::Geometry;
use crate::layout::bytes::{put, u16_at, u32_at, u64_at};
use crate::layout::node::{INNER, NODE_HEADER, ROOT, STREAM};
use crate::layout::{PageReference, TreeNode, TreeNodeMut};
use crate::pages::{ANY_TABLE, Page, Pages};
use crate::space::Owed;
use platter_vfs::{Error, Result};
use smallvec::SmallVec;
use stored::{Opening, readable_rows};
pub use stored::{Stored, is_known, rows};

/// A run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Its first cluster in the stream.
    pub at: u32,
    /// Clusters.
    pub count: u32,
    /// Its first cluster on the volume, as a virtual number.
    pub cluster: u64,
    /// The CRC-32C of its content, which is one cluster then.
    pub checksum: Option<u32>,
}

impl Extent {
    /// The cluster in the stream after it.
    pub fn end(&self) -> u32 {
        self.at + self.count
    }

    /// What of it lies between two clusters of the stream, which it does not end before.
    pub fn part(&self, from: u32, to: u32) -> Extent {
        Extent { at: from, count: to - from, cluster: self.cluster + u64::from(from - self.at), ..*self }
    }

    fn size(&self) -> usize {
        if self.checksum.is_some() { 32 } else { 24 }
    }

    fn from_bytes(bytes: &[u8]) -> Extent {
        let checked = u16_at(bytes, 0x08) & CHECKED == CHECKED;
        Extent {
            cluster: u64_at(bytes, 0x00),
            at: u32_at(bytes, 0x0C),
            count: u32_at(bytes, 0x14),
            checksum: checked.then(|| u32_at(bytes, 0x18)),
        }
    }

    /// Stores it at the beginning of `bytes`.
    fn store(&self, bytes: &mut [u8]) {
        // Whole first, and copied at once: a leaf has hundreds.
        let mut row = [0; 32];
        put(&mut row, 0x00, self.cluster);
        let (kind, length) = if self.checksum.is_some() { (CHECKED, 0x1Cu16) } else { (PLAIN, 0x18) };
        put(&mut row, 0x08, kind);
        put(&mut row, 0x0A, length);
        put(&mut row, 0x0C, self.at);
        put(&mut row, 0x14, self.count);
        put(&mut row, 0x18, self.checksum.unwrap_or(0));
        match self.checksum {
            Some(_) => bytes[..32].copy_from_slice(&row),
            None => bytes[..24].copy_from_slice(&row[..24]),
        }
    }
}

/// A run without checksum.
const PLAIN: u16 = 0x40;
/// A run of one cluster with its checksum.
const CHECKED: u16 = 0xD0;
/// Without checksum too, as Windows writes some; what tells it from the other is not known.
const OTHER: u16 = 0x50;
/// Rows have one size and no row header.
const FIXED: u8 = 8;

/// How much of a stream's runs stands in its own row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As much as keeps what is looked at again and again at hand.
    Roomy,
    /// As little as can be, for records that have much else in them.
    Tight,
}

/// Least bytes of a node in a stream's own row: others expect room for two runs.
const LEAST_NODE: usize = 0x70;

impl Form {
    /// Bytes of runs, with their places in the index, that a stream's own row holds; more go to pages.
    fn runs(self) -> usize {
        match self {
            Form::Roomy => 720,
            Form::Tight => LEAST_NODE - NODE_HEADER,
        }
    }

    /// Children that a stream's own row names; more get a level between.
    fn children(self) -> usize {
        match self {
            Form::Roomy => 8,
            Form::Tight => 1,
        }
    }

    /// Most bytes of a node in a stream's own row.
    pub fn largest_node(self, geometry: &Geometry) -> usize {
        let runs = (NODE_HEADER + self.runs()).next_multiple_of(8);
        runs.max(stored::inner_size(self.children(), geometry.reference))
    }
}

struct Leaf {
    /// The first and the last cluster of the stream that it knows of.
    first: u32,
    last: u32,
    /// Its page on disk, if it has one.
    page: Option<PageReference>,
    /// What of it the page does not hold.
    news: News,
    /// Its runs, if they are in memory.
    rows: Option<Vec<Extent>>,
}

/// What a leaf's page on disk does not hold.
#[derive(Debug, PartialEq, Eq)]
enum News {
    /// It is what is in memory.
    Nothing,
    /// These rows have other clusters and checksums now; all else is as it was, so that the page need not be made anew.
    Rows(SmallVec<[u16; MOST_ROWS]>),
    /// Anything.
    All,
}

/// Rows that are changed one by one in a page; with more it is made anew.
const MOST_ROWS: usize = 8;

/// The runs of a stream.
pub struct Extents {
    leaves: Vec<Leaf>,
    /// Pages between the leaves and the row, as they are on disk, by level from the leaves up.
    inner: Vec<Vec<PageReference>>,
    /// Whether the pages between have as many children as [`Extents::store`] would give each, with the keys of the leaves
    /// as they are: then only the references in them change.
    is_regular: bool,
    /// Pages on disk that nothing leads to from the next commit on.
    left: Vec<PageReference>,
    /// Clusters in all.
    clusters: u64,
    /// Runs in all.
    runs: u64,
    /// Most bytes of runs in a leaf.
    capacity: usize,
    /// The number that the pages carry: that of the directory.
    table: u64,
    /// Leaves that are to be stored.
    changed: usize,
    /// Where pages for that are owed, how many, and how many children a page above leaves has.
    owed: Owed,
    owes: u64,
    each: usize,
}

impl Drop for Extents {
    fn drop(&mut self) {
        self.owed.change(self.owes, 0);
    }
}

/// A part of a stream: a run, or a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its first cluster in the stream.
    pub at: u32,
    /// The cluster after it.
    pub end: u32,
    /// Where it is; nowhere for a hole.
    pub run: Option<Extent>,
}

/// What is at a place of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// This run.
    Extent(Extent),
    /// Nothing, up to this cluster.
    Hole(u32),
    /// The leaf with this index must be loaded first.
    Absent(usize),
}

impl Extents {
    /// No runs.
    pub fn new(pages: &Pages, table: u64) -> Extents {
        let capacity = pages.geometry.page() - 0x58 - NODE_HEADER;
        Extents {
            leaves: Vec::new(),
            inner: Vec::new(),
            is_regular: false,
            left: Vec::new(),
            clusters: 0,
            runs: 0,
            capacity,
            table,
            changed: 0,
            owed: pages.space.runs_owed(),
            owes: 0,
            each: stored::children_of_page(&pages.geometry),
        }
    }

    /// Pages that its runs are in, where they do not stand in the stream's row.
    pub fn pages(&self) -> u64 {
        (self.leaves.len() + self.leaves.len() / self.each) as u64
    }

    /// Pages that so many new runs take at most, with those above them.
    pub fn pages_of(runs: usize, geometry: &Geometry) -> u64 {
        // A page that was split is half full.
        let each = (geometry.page() - 0x58 - NODE_HEADER) / 36 / 2;
        (runs / each + 8) as u64
    }

    /// Brings what is owed for the next [`Extents::store`] up to date, after a change.
    fn owe(&mut self) {
        // Those above the leaves are made anew where their number changes.
        let above = || self.leaves.len() / self.each + 4;
        let owes = if self.changed > 0 { (self.changed + above()) as u64 } else { 0 };
        self.owed.change(std::mem::replace(&mut self.owes, owes), owes);
    }

    /// Reads the node that a stream's row holds. Its pages are loaded when they are needed, the ones between at once.
    pub fn open(pages: &mut Pages, table: u64, area: &[u8], (clusters, runs): (u64, u64)) -> Result<Extents> {
        let mut extents = Extents::new(pages, table);
        (extents.clusters, extents.runs) = (clusters, runs);
        let checked = |area: &[u8]| {
            TreeNode::check(area).map_err(|(offset, expected, found)| {
                Error::damaged("stream's node", offset as u64, expected, found)
            })
        };
        checked(area)?;
        let node = TreeNode::new(area);
        if node.flags() & INNER == 0 {
            let rows = readable_rows(area)?;
            if let (Some(first), Some(last)) = (rows.first(), rows.last()) {
                let (first, last) = (first.at, last.end() - 1);
                extents.leaves.push(Leaf::new(first, last, rows));
            }
            return Ok(extents);
        }
        let mut opening = Opening::new(&pages.geometry, &node);
        extents.open_inner(pages, &node, &mut opening, 0)?;
        extents.is_regular = opening.is_regular;
        Ok(extents)
    }

    /// The pages carry this number from now on.
    pub fn set_table(&mut self, table: u64) {
        self.table = table;
    }

    /// Clusters in all.
    pub fn clusters(&self) -> u64 {
        self.clusters
    }

    /// The cluster of the stream after the last run.
    pub fn end(&self) -> u64 {
        self.leaves.last().map_or(0, |leaf| u64::from(leaf.last) + 1)
    }

    /// The leaf that a cluster of the stream is in or would go to.
    fn leaf(&self, at: u32) -> usize {
        // Leaves of a stream that was written in order, with checksums, are all as long as the first. What is looked at
        // here has mostly left the processor's caches, so a search costs a miss for each step.
        if let Some(first) = self.leaves.first()
            && let Some(distance) = at.checked_sub(first.first)
            && let index = distance as usize / (first.last.saturating_sub(first.first) as usize + 1)
            && self.leaves.get(index).is_some_and(|leaf| (leaf.first..=leaf.last).contains(&at))
        {
            return index;
        }
        self.leaves.partition_point(|leaf| leaf.first <= at).saturating_sub(1)
    }

    /// The leaves that the clusters of a range, which is not empty, are in or would go to.
    fn span(&self, from: u32, to: u32) -> std::ops::RangeInclusive<usize> {
        let first = self.leaf(from);
        // Nearly every range lies in one leaf.
        match self.leaves.get(first) {
            Some(leaf) if to - 1 <= leaf.last => first..=first,
            _ => first..=self.leaf(to - 1),
        }
    }

    /// What is at a cluster of the stream.
    pub fn find(&self, at: u32) -> Mapping {
        if self.leaves.is_empty() {
            return Mapping::Hole(u32::MAX);
        }
        let index = self.leaf(at);
        let leaf = &self.leaves[index];
        let next = || self.leaves.get(index + 1).map_or(u32::MAX, |leaf| leaf.first);
        if at > leaf.last {
            return Mapping::Hole(next());
        }
        let Some(rows) = &leaf.rows else { return Mapping::Absent(index) };
        match rows.get(first_from(rows, leaf.first, at)) {
            Some(row) if row.at <= at => Mapping::Extent(*row),
            Some(row) => Mapping::Hole(row.at),
            None => Mapping::Hole(next()),
        }
    }

    /// What of one run takes the whole of a range, which is not empty. Most requests lie in one, and cost one search
    /// then. `None` if several do, or the leaf is not in memory.
    pub fn run_over(&self, from: u32, to: u32) -> Option<Extent> {
        match self.find(from) {
            Mapping::Extent(run) if run.end() >= to => Some(run.part(from, to)),
            _ => None,
        }
    }

    /// Whether there is no hole before the end.
    pub fn is_dense(&self) -> bool {
        self.clusters == self.end()
    }

    /// Calls `each` on the runs and holes, or the parts of them, between two clusters of the stream, in order. The range
    /// must be loaded. It walks from run to run, so that a long range costs one search.
    pub fn walk(&self, from: u32, to: u32, mut each: impl FnMut(Piece) -> Result<()>) -> Result<()> {
        let mut at = from;
        let first = self.leaf(from);
        for (index, leaf) in self.leaves.iter().enumerate().skip(first) {
            if at >= to || leaf.first >= to {
                break;
            }
            if leaf.last < at {
                continue;
            }
            let Some(rows) = &leaf.rows else {
                debug_assert!(index > first, "the range is loaded");
                return Err(Error::InvalidArgument("runs that were loaded are gone"));
            };
            for row in &rows[first_from(rows, leaf.first, at)..] {
                if row.at >= to {
                    break;
                }
                if row.at > at {
                    each(Piece { at, end: row.at, run: None })?;
                    at = row.at;
                }
                let end = row.end().min(to);
                each(Piece { at, end, run: Some(row.part(at, end)) })?;
                at = end;
            }
        }
        if at < to { each(Piece { at, end: to, run: None }) } else { Ok(()) }
    }

    /// Loads a leaf's runs.
    pub fn load(&mut self, pages: &mut Pages, index: usize) -> Result<()> {
        let leaf = &mut self.leaves[index];
        if leaf.rows.is_some() {
            return Ok(());
        }
        let reference = leaf.page.expect("a leaf is in memory or on disk");
        let page = pages.get(&reference, ANY_TABLE, false)?;
        let start = page.bytes().len() - (page.capacity() + NODE_HEADER);
        let rows = readable_rows(&page.bytes()[start..])?;
        if let (Some(first), Some(last)) = (rows.first(), rows.last()) {
            if first.at < leaf.first || last.end() - 1 > leaf.last && leaf.last != u32::MAX - 1 {
                let (expected, found) =
                    (format!("{}..={}", leaf.first, leaf.last), format!("{}..{}", first.at, last.end()));
                return Err(Error::damaged("runs of a stream's leaf", 0, expected, found));
            }
            self.is_regular &= leaf.last == last.end() - 1;
            leaf.last = last.end() - 1;
        }
        leaf.rows = Some(rows);
        Ok(())
    }

    /// The first cluster of the stream after a leaf.
    pub fn end_of(&self, index: usize) -> u32 {
        self.leaves.get(index).map_or(u32::MAX, |leaf| leaf.last + 1)
    }

    /// Loads every leaf that has a part of the range, and their neighbours where runs may be joined.
    pub fn load_range(&mut self, pages: &mut Pages, from: u32, to: u32) -> Result<()> {
        if self.leaves.is_empty() || from >= to {
            return Ok(());
        }
        for index in self.span(from, to) {
            self.load(pages, index)?;
        }
        Ok(())
    }

    /// Whether every leaf with a part of the range is in memory.
    pub fn is_loaded(&self, from: u32, to: u32) -> bool {
        self.leaves.is_empty()
            || from >= to
            || self.span(from, to).all(|index| self.leaves[index].rows.is_some())
    }

    /// The runs, or parts of them, between two clusters of the stream. The range must be loaded.
    pub fn within(&self, from: u32, to: u32) -> Result<Vec<Extent>> {
        let mut runs = Vec::new();
        self.walk(from, to, |piece| {
            runs.extend(piece.run);
            Ok(())
        })?;
        Ok(runs)
    }

    /// All runs in order. Every leaf must be loaded.
    pub fn iter(&self) -> impl Iterator<Item = Extent> + '_ {
        self.leaves.iter().flat_map(|leaf| leaf.rows.as_ref().expect("loaded").iter().copied())
    }

    /// The runs that are in memory, in order.
    pub fn in_memory(&self) -> impl Iterator<Item = Extent> + '_ {
        self.leaves.iter().filter_map(|leaf| leaf.rows.as_ref()).flatten().copied()
    }

    /// Most bytes of the node that [`Extents::store`] makes for the stream's row in a form.
    pub fn node_size(&self, geometry: &Geometry, form: Form) -> usize {
        match &self.leaves[..] {
            [] => LEAST_NODE,
            [Leaf { rows: Some(rows), .. }] if stored::runs_size(rows) <= form.runs() => {
                (NODE_HEADER + stored::runs_size(rows)).next_multiple_of(8).max(LEAST_NODE)
            }
            leaves => stored::inner_size(form.children().min(leaves.len()), geometry.reference),
        }
    }

    /// Forgets the runs of leaves that are on disk as they are, to bound memory.
    pub fn unload(&mut self) {
        self.leaves.iter_mut().filter(|leaf| leaf.news == News::Nothing).for_each(|leaf| leaf.rows = None);
    }

    /// How many runs are in memory.
    pub fn loaded(&self) -> usize {
        self.leaves.iter().filter_map(|leaf| leaf.rows.as_ref()).map(Vec::len).sum()
    }
}

impl Leaf {
    /// A leaf that has no page yet.
    fn new(first: u32, last: u32, rows: Vec<Extent>) -> Leaf {
        Leaf { first, last, page: None, news: News::All, rows: Some(rows) }
    }
}

/// The position of the first run that does not end before this cluster of the stream, in a leaf that begins at `first`.
fn first_from(rows: &[Extent], first: u32, at: u32) -> usize {
    // Runs with checksums are one cluster each: where none is missing, the place is known without a search.
    if let Some(distance) = at.checked_sub(first)
        && rows.get(distance as usize).is_some_and(|row| row.at == at)
    {
        return distance as usize;
    }
    rows.partition_point(|row| row.end() <= at)
}
