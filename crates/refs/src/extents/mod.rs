//! Where a stream's clusters are: its runs, in order of their place in the stream. Where the stream has integrity, each
//! run is one cluster with its checksum; a row of Windows with the checksums of several is several runs here.
//!
//! The runs are kept in *leaves* of bounded size, so that finding a cluster takes two binary searches, and a commit
//! writes only the leaves that changed. Few runs stand in the stream's own row; more of them go to pages below it.
//!
//! The rows themselves are those of [`layout::extent`](crate::layout::extent).

mod changing;
mod stored;
#[cfg(test)]
mod tests;

use crate::geometry::Geometry;
use crate::layout::extent::{CHECKED_ROW, STREAM_HEADER, readable_rows, rows_size};
pub(crate) use crate::layout::extent::{Extent, RunKind};
use crate::layout::node::{INNER, NODE_HEADER, PLACE};
use crate::layout::{PageReference, TreeNode};
use crate::pages::{ANY_TABLE, Pages};
use crate::space::Owed;
use platter_vfs::{Error, Result};
use smallvec::SmallVec;
use stored::Opening;

/// How many of a stream's runs stand in its own row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Up to 720 bytes of runs, or references to up to eight pages, so that frequent look-ups need no further page.
    Roomy,
    /// As few as possible, for records that hold much else.
    Tight,
}

/// The fewest bytes of a node in a stream's own row: other readers expect room for two runs.
const LEAST_NODE: usize = 0x70;

impl Form {
    /// The bytes of runs, with their entries in the index, that a stream's own row holds; more go to pages.
    fn runs(self) -> usize {
        match self {
            Form::Roomy => 720,
            Form::Tight => LEAST_NODE - NODE_HEADER,
        }
    }

    /// The number of pages that a stream's own row refers to; more get a level between.
    fn children(self) -> usize {
        match self {
            Form::Roomy => 8,
            Form::Tight => 1,
        }
    }

    /// The most bytes of a node in a stream's own row.
    pub(crate) fn largest_node(self, geometry: &Geometry) -> usize {
        let runs = (NODE_HEADER + self.runs()).next_multiple_of(8);
        runs.max(stored::inner_size(self.children(), geometry.reference))
    }
}

struct Leaf {
    /// The first and the last cluster of the stream that the leaf covers.
    first: u32,
    last: u32,
    /// The leaf's page on disk, if it has one.
    page: Option<PageReference>,
    /// The changes that the page on disk does not have.
    news: News,
    /// The leaf's runs, if they are in memory.
    rows: Option<Vec<Extent>>,
    /// How many more runs these are than the page has rows: a row with several checksums is several runs in memory.
    unfolded: usize,
}

/// The changes of a leaf that its page on disk does not have.
#[derive(Debug, PartialEq, Eq)]
enum News {
    /// None: the page is the same as in memory.
    Nothing,
    /// The rows at these positions have other clusters and checksums; the others are the same, so the page need not be
    /// built anew.
    Rows(SmallVec<[u16; MOST_ROWS]>),
    /// Any: the page is built anew.
    All,
}

/// The most rows that are changed one by one in a page; with more the page is built anew.
const MOST_ROWS: usize = 8;

/// The runs of a stream.
pub(crate) struct Extents {
    leaves: Vec<Leaf>,
    /// The inner pages between the leaves and the stream's row, as they are on disk, by level from the leaves up.
    inner: Vec<Vec<PageReference>>,
    /// Whether the inner pages have as many children as [`Extents::store`] would give each, with the present keys of
    /// the leaves: then only the references in them change.
    is_regular: bool,
    /// Pages on disk to which nothing refers from the next commit on.
    left: Vec<PageReference>,
    /// The number of clusters in all runs.
    clusters: u64,
    /// The number of runs.
    runs: u64,
    /// The most bytes of runs in a leaf.
    capacity: usize,
    /// The number of the directory, which stands in the header of each page.
    table: u64,
    /// The number of leaves to be stored.
    changed: usize,
    /// The volume's count of owed pages, the number that this stream owes in it, and the most children of an inner
    /// page.
    owed: Owed,
    owes: u64,
    each: usize,
    /// Whether a hole that a change makes gets a row, see [`Extents::give_holes_rows`].
    holes_have_rows: bool,
}

impl Drop for Extents {
    fn drop(&mut self) {
        self.owed.change(self.owes, 0);
    }
}

/// A part of a stream: a run, or a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The first cluster, counted in the stream.
    pub at: u32,
    /// The cluster of the stream after the piece.
    pub end: u32,
    /// The run, or its part in the piece; `None` for a hole.
    pub run: Option<Extent>,
}

/// The state of a cluster of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mapping {
    /// The cluster is in this run.
    Extent(Extent),
    /// The cluster is in a hole that ends before this cluster.
    Hole(u32),
    /// The leaf with this index must be loaded first.
    Absent(usize),
}

/// The bytes of a page of a stream that rows and their index can take.
fn node_room(geometry: &Geometry) -> usize {
    geometry.page() - STREAM_HEADER - NODE_HEADER
}

impl Extents {
    /// A stream without runs.
    pub(crate) fn new(pages: &Pages, table: u64) -> Extents {
        let capacity = node_room(&pages.geometry);
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
            holes_have_rows: false,
        }
    }

    /// The number of pages of the runs, inner ones included, if the runs are not in the stream's row.
    pub(crate) fn pages(&self) -> u64 {
        (self.leaves.len() + self.leaves.len() / self.each) as u64
    }

    /// The most pages that this many new runs take, with the inner ones.
    pub(crate) fn pages_of(runs: usize, geometry: &Geometry) -> u64 {
        // A page that was split is half full.
        let each = node_room(geometry) / (CHECKED_ROW + PLACE) / 2;
        (runs / each + 8) as u64
    }

    /// Updates the pages owed for the next [`Extents::store`], after a change.
    fn owe(&mut self) {
        // The inner pages are built anew when the number of leaves changes.
        let above = || self.leaves.len() / self.each + 4;
        let owes = if self.changed > 0 { (self.changed + above()) as u64 } else { 0 };
        self.owed.change(std::mem::replace(&mut self.owes, owes), owes);
    }

    /// Reads the node in a stream's row. Inner pages are loaded at once, leaves when they are needed.
    pub(crate) fn open(
        pages: &mut Pages,
        table: u64,
        area: &[u8],
        (clusters, runs): (u64, u64),
    ) -> Result<Extents> {
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
            // The row has all runs, so the counts follow from it, whether or not its header counts holes.
            extents.clusters = rows.iter().filter(|row| !row.is_hole()).map(|row| u64::from(row.count)).sum();
            extents.runs = rows.len() as u64;
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

    /// The same stream with these runs, which are in order and have no holes among them. It is only read, never stored.
    pub(crate) fn only_read(&self, runs: &[Extent]) -> Extents {
        const TOGETHER: usize = 512;
        let leaf = |runs: &[Extent]| {
            let last = runs.last().map_or(0, |last| last.end() - 1);
            Leaf::new(runs[0].at, last, runs.to_vec())
        };
        Extents {
            leaves: runs.chunks(TOGETHER).map(leaf).collect(),
            inner: Vec::new(),
            left: Vec::new(),
            clusters: runs.iter().map(|run| u64::from(run.count)).sum(),
            runs: runs.len() as u64,
            owed: self.owed.clone(),
            owes: 0,
            changed: 0,
            is_regular: false,
            capacity: self.capacity,
            table: self.table,
            each: self.each,
            holes_have_rows: false,
        }
    }

    /// From now on each hole that a change makes gets a row. The data of a file that has snapshots needs them: where it
    /// has no row, Windows takes the clusters of the newest snapshot that has one.
    pub(crate) fn give_holes_rows(&mut self) {
        self.holes_have_rows = true;
    }

    /// Whether each hole that a change makes gets a row.
    pub(crate) fn holes_have_rows(&self) -> bool {
        self.holes_have_rows
    }

    /// Gives the holes between two clusters of the stream rows. The range must be loaded.
    pub(crate) fn fill_with_rows(&mut self, from: u32, to: u32) -> Result<()> {
        let mut holes = Vec::new();
        self.walk(from, to, |piece| {
            holes.extend(piece.run.is_none().then_some(piece.at..piece.end));
            Ok(())
        })?;
        for hole in holes {
            self.replace(hole.start, hole.end, &[Extent::hole(hole.start, hole.end)], &mut Vec::new());
        }
        Ok(())
    }

    /// Sets the number of the directory that stands in the pages from now on.
    pub(crate) fn set_table(&mut self, table: u64) {
        self.table = table;
    }

    /// The number of clusters in all runs.
    pub(crate) fn clusters(&self) -> u64 {
        self.clusters
    }

    /// Counts the clusters of all runs anew, where the stream's header may count holes among them.
    pub(crate) fn recount(&mut self, pages: &mut Pages) -> Result<()> {
        self.load_range(pages, 0, u32::MAX)?;
        self.clusters = self.iter().map(|row| u64::from(row.count)).sum();
        Ok(())
    }

    /// The cluster of the stream after the last run.
    pub(crate) fn end(&self) -> u64 {
        self.leaves.last().map_or(0, |leaf| u64::from(leaf.last) + 1)
    }

    /// The leaf that a cluster of the stream is in or would go to.
    fn leaf(&self, at: u32) -> usize {
        // In a stream that was written in order, with checksums, all leaves cover as many clusters as the first. Most
        // leaves are not in the processor's caches, so each step of a search would cost a cache miss.
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

    /// Returns the run or hole that a cluster of the stream is in.
    pub(crate) fn find(&self, at: u32) -> Mapping {
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
        let rest = &rows[first_from(rows, leaf.first, at).min(rows.len())..];
        match rest.first() {
            Some(row) if row.at <= at && !row.is_hole() => Mapping::Extent(*row),
            _ => Mapping::Hole(rest.iter().find(|row| !row.is_hole()).map_or_else(next, |row| row.at)),
        }
    }

    /// Returns the part of a run that covers a range, which is not empty. Most requests lie in one run, and then take
    /// one search. `None` if the range needs several runs or has a hole, or the leaf is not in memory.
    pub(crate) fn run_over(&self, from: u32, to: u32) -> Option<Extent> {
        match self.find(from) {
            Mapping::Extent(run) if run.end() >= to => Some(run.part(from, to)),
            _ => None,
        }
    }

    /// Whether there is no hole before the end of the last run.
    pub(crate) fn is_dense(&self) -> bool {
        self.clusters == self.end()
    }

    /// Calls `each` on the runs and holes, or the parts of them, between two clusters of the stream, in order. The
    /// range must be loaded. However long the range is, it takes one search.
    pub(crate) fn walk(&self, from: u32, to: u32, mut each: impl FnMut(Piece) -> Result<()>) -> Result<()> {
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
                if row.is_hole() {
                    continue;
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

    /// Reads the runs of a leaf from its page, unless they are in memory.
    pub(crate) fn load(&mut self, pages: &mut Pages, index: usize) -> Result<()> {
        let leaf = &mut self.leaves[index];
        if leaf.rows.is_some() {
            return Ok(());
        }
        let reference = leaf.page.expect("a leaf is in memory or on disk");
        let page = pages.get(&reference, ANY_TABLE, false)?;
        let start = page.bytes().len() - (page.capacity() + NODE_HEADER);
        let rows = readable_rows(&page.bytes()[start..])?;
        leaf.unfolded = rows.len().saturating_sub(page.node().len());
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
    pub(crate) fn end_of(&self, index: usize) -> u32 {
        self.leaves.get(index).map_or(u32::MAX, |leaf| leaf.last + 1)
    }

    /// Loads every leaf that covers a part of the range.
    pub(crate) fn load_range(&mut self, pages: &mut Pages, from: u32, to: u32) -> Result<()> {
        if self.leaves.is_empty() || from >= to {
            return Ok(());
        }
        for index in self.span(from, to) {
            self.load(pages, index)?;
        }
        Ok(())
    }

    /// Whether every leaf that covers a part of the range is in memory.
    pub(crate) fn is_loaded(&self, from: u32, to: u32) -> bool {
        self.leaves.is_empty()
            || from >= to
            || self.span(from, to).all(|index| self.leaves[index].rows.is_some())
    }

    /// The leaves that cover a part of the range and are not in memory: the first cluster of the stream of each, and its
    /// page.
    pub(crate) fn absent(&self, from: u32, to: u32) -> impl Iterator<Item = (u32, PageReference)> {
        let is_any = !self.leaves.is_empty() && from < to;
        let span = is_any.then(|| self.span(from, to)).into_iter().flatten();
        let absent = span.map(|index| &self.leaves[index]).filter(|leaf| leaf.rows.is_none());
        absent.filter_map(|leaf| Some((leaf.first, leaf.page?)))
    }

    /// The runs, or parts of them, between two clusters of the stream. The range must be loaded.
    pub(crate) fn within(&self, from: u32, to: u32) -> Result<Vec<Extent>> {
        let mut runs = Vec::new();
        self.walk(from, to, |piece| {
            runs.extend(piece.run);
            Ok(())
        })?;
        Ok(runs)
    }

    /// All rows in order, those of holes too. Every leaf must be loaded.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Extent> + '_ {
        self.leaves.iter().flat_map(|leaf| leaf.rows.as_ref().expect("loaded").iter().copied())
    }

    /// All runs in order, without holes. Every leaf must be loaded.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Extent> + '_ {
        self.rows().filter(|row| !row.is_hole())
    }

    /// The runs that are in memory, in order, without holes.
    pub(crate) fn in_memory(&self) -> impl Iterator<Item = Extent> + '_ {
        let rows = self.leaves.iter().filter_map(|leaf| leaf.rows.as_ref()).flatten().copied();
        rows.filter(|row| !row.is_hole())
    }

    /// The most bytes of the node that [`Extents::store`] makes for the stream's row in this form.
    pub(crate) fn node_size(&self, geometry: &Geometry, form: Form) -> usize {
        match &self.leaves[..] {
            [] => LEAST_NODE,
            [Leaf { rows: Some(rows), .. }] if rows_size(rows) <= form.runs() => {
                (NODE_HEADER + rows_size(rows)).next_multiple_of(8).max(LEAST_NODE)
            }
            leaves => stored::inner_size(form.children().min(leaves.len()), geometry.reference),
        }
    }

    /// Drops the runs of leaves that are on disk unchanged, to bound memory.
    pub(crate) fn unload(&mut self) {
        self.leaves.iter_mut().filter(|leaf| leaf.news == News::Nothing).for_each(|leaf| leaf.rows = None);
    }

    /// The number of runs that are in memory.
    pub(crate) fn loaded(&self) -> usize {
        self.leaves.iter().filter_map(|leaf| leaf.rows.as_ref()).map(Vec::len).sum()
    }
}

impl Leaf {
    /// A leaf that has no page yet.
    fn new(first: u32, last: u32, rows: Vec<Extent>) -> Leaf {
        Leaf { first, last, page: None, news: News::All, rows: Some(rows), unfolded: 0 }
    }
}

/// The position of the first run that does not end before this cluster of the stream, in a leaf that begins at `first`.
fn first_from(rows: &[Extent], first: u32, at: u32) -> usize {
    // Runs with checksums are one cluster each: where the leaf has no hole, the position needs no search.
    if let Some(distance) = at.checked_sub(first)
        && rows.get(distance as usize).is_some_and(|row| row.at == at)
    {
        return distance as usize;
    }
    rows.partition_point(|row| row.end() <= at)
}
