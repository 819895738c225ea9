//! The form of a stream's runs on disk: in the stream's own row, or in pages below it.

use super::{Extent, Extents, Form, LEAST_NODE, Leaf, News};
use crate::container::Tier;
use crate::geometry::Geometry;
use crate::layout::extent::{CHILD_KEY, CHILD_LAST, FIXED, child_size, row_at, rows_size, store_rows};
use crate::layout::node::{INNER, NODE_HEADER, ROOT, STREAM};
use crate::layout::{PageReference, TreeNode, TreeNodeMut};
use crate::pages::{ANY_TABLE, Page, Pages};
use platter_vfs::{Error, Result};

/// The bytes of a node in a stream's own row with this many children, with references of `reference` bytes.
pub(super) fn inner_size(children: usize, reference: usize) -> usize {
    (NODE_HEADER + children * child_size(reference)).next_multiple_of(8).max(LEAST_NODE)
}

/// The result of [`Extents::store`].
pub(crate) struct Stored {
    /// The node for the stream's row.
    pub node: Vec<u8>,
    /// The number of leaf pages below the node; 0 if the runs are in the node.
    pub leaf_pages: u64,
    /// The number of runs.
    pub runs: u64,
}

/// The state of reading the inner pages between a stream's row and its leaves.
pub(super) struct Opening {
    /// The first cluster of the stream that the next leaf can cover.
    first: u32,
    /// The number of inner pages so far.
    inner: usize,
    /// The number of children of a full inner page.
    each: usize,
    /// For each level, from the leaves up: whether a page with fewer children than a full one was read.
    short: Vec<bool>,
    /// Whether all but the last page of each level are full.
    pub is_regular: bool,
}

impl Opening {
    /// Begins reading the tree below this node.
    pub(super) fn new(geometry: &Geometry, top: &TreeNode<'_>) -> Opening {
        let is_regular = top.len() <= Form::Roomy.children();
        Opening { first: 0, inner: 0, each: children_of_page(geometry), short: Vec::new(), is_regular }
    }

    /// Takes an inner page into account.
    fn see(&mut self, node: &TreeNode<'_>) {
        let level = usize::from(node.level());
        self.inner += 1;
        self.short.resize(self.short.len().max(level + 1), false);
        self.is_regular &= !self.short[level] && node.len() <= self.each;
        self.short[level] |= node.len() < self.each;
    }
}

/// The number of children of a full inner page.
pub(super) fn children_of_page(geometry: &Geometry) -> usize {
    super::node_room(geometry) / child_size(geometry.reference)
}

impl Extents {
    /// Reads the inner pages below a node, and adds their leaves without reading these.
    pub(super) fn open_inner(
        &mut self,
        pages: &mut Pages,
        node: &TreeNode<'_>,
        opening: &mut Opening,
        depth: usize,
    ) -> Result<()> {
        for row in node.rows() {
            let reference = PageReference::from_bytes(row.value, 0)?;
            let last = CHILD_LAST.of(row.key).min(u64::from(u32::MAX - 1)) as u32;
            if node.level() > 1 {
                if depth > 4 || opening.inner > 1 << 16 {
                    return Err(Error::damaged("stream's tree", 0, "at most 5 levels", "more"));
                }
                let level = usize::from(node.level()) - 2;
                self.inner.resize(self.inner.len().max(level + 1), Vec::new());
                self.inner[level].push(reference);
                let page = pages.get(&reference, ANY_TABLE, false)?;
                let (expected, found) = (node.level() - 1, page.node().level());
                if found != expected {
                    return Err(Error::damaged("level of a stream's node", 0, expected, found));
                }
                opening.see(&page.node());
                self.open_inner(pages, &page.node(), opening, depth + 1)?;
                continue;
            }
            if last < opening.first {
                let expected = format!("at least {}", opening.first);
                return Err(Error::damaged("key of a stream's node", 0, expected, last));
            }
            let first = std::mem::replace(&mut opening.first, last + 1);
            let page = Some(reference);
            self.leaves.push(Leaf { first, last, page, news: News::Nothing, rows: None, unfolded: 0 });
        }
        Ok(())
    }

    /// Splits leaves with more runs than a page holds, as rows with many checksums make when they are read.
    fn split_large(&mut self) {
        let is_large = |leaf: &Leaf, capacity: usize| {
            let rows = leaf.rows.as_ref().filter(|_| leaf.news == News::All);
            rows.is_some_and(|rows| rows.len() * 24 > capacity / 2 && rows_size(rows) > capacity)
        };
        let mut index = 0;
        while index < self.leaves.len() {
            if is_large(&self.leaves[index], self.capacity) {
                self.runs += std::mem::take(&mut self.leaves[index].unfolded) as u64;
                self.mend(index, index);
            }
            index += 1;
        }
    }

    /// Writes the changes of the runs to the pages in memory, and returns the node for the stream's row. Pages that are
    /// no longer needed are given back.
    pub(crate) fn store(&mut self, form: Form, pages: &mut Pages, clock: u64) -> Result<Stored> {
        self.split_large();
        let inline = match &self.leaves[..] {
            [] => true,
            [leaf] => leaf.rows.as_ref().is_some_and(|rows| rows_size(rows) <= form.runs()),
            _ => false,
        };
        let stored = if inline {
            self.forget_pages();
            let rows: &[Extent] = self.leaves.first().and_then(|leaf| leaf.rows.as_deref()).unwrap_or(&[]);
            self.runs = rows.len() as u64;
            // The length of the whole row is a multiple of 8.
            let length = (NODE_HEADER + rows_size(rows)).next_multiple_of(8).max(LEAST_NODE);
            let mut node = vec![0; length];
            let flags = if rows.is_empty() { ROOT | STREAM } else { ROOT | STREAM | FIXED };
            store_rows(&mut node, rows, flags, true);
            Stored { node, leaf_pages: 0, runs: self.runs }
        } else {
            self.store_pages(form, pages, clock)?
        };
        self.changed = 0;
        self.owe();
        self.free_left(pages)?;
        Ok(stored)
    }

    fn store_pages(&mut self, form: Form, pages: &mut Pages, clock: u64) -> Result<Stored> {
        let each = children_of_page(&pages.geometry);
        let changed = self.store_leaves(pages, clock)?;
        let top = self.inner.last().map_or(self.leaves.len(), Vec::len);
        self.is_regular &= top <= form.children();
        if !self.is_regular || !self.point(pages, clock, changed, each)? {
            self.store_inner(form, pages, clock, each)?;
        }
        let reference = pages.geometry.reference;
        let top = self.children(self.inner.len(), each);
        let level = self.inner.len() as u8 + 1;
        let mut node = vec![0; inner_size(top.len(), reference)];
        store_children(&mut node, &top, level, ROOT | STREAM | INNER, reference);
        Ok(Stored { node, leaf_pages: self.leaves.len() as u64, runs: self.runs })
    }

    /// Writes changed leaves to their pages in memory. Returns the indices of these leaves, with their new references.
    fn store_leaves(&mut self, pages: &mut Pages, clock: u64) -> Result<Vec<(usize, PageReference)>> {
        let (mut changed, mut places) = (Vec::new(), Vec::new());
        for (index, leaf) in self.leaves.iter_mut().enumerate() {
            if leaf.news == News::Nothing {
                continue;
            }
            let place = match leaf.change_rows(pages)? {
                Some(place) => place,
                None => {
                    self.runs += std::mem::take(&mut leaf.unfolded) as u64;
                    let rows = leaf.rows.as_ref().expect("what is not on disk is in memory");
                    let mut page = Page::new(pages.geometry.page(), 0);
                    page.with_area(|area| store_rows(area, rows, STREAM | FIXED, false));
                    self.left.extend(leaf.page.take());
                    pages.add(page, Tier::Medium)?
                }
            };
            (leaf.page, leaf.news) = (Some(place), News::Nothing);
            changed.push(index);
            places.push(place);
        }
        let sealed = pages.seal(&places, self.table, Tier::Medium, clock);
        let changed: Vec<(usize, PageReference)> = changed.into_iter().zip(sealed).collect();
        changed.iter().for_each(|&(index, page)| self.leaves[index].page = Some(page));
        Ok(changed)
    }

    /// Makes the inner pages refer to the new places of changed children. Returns `false` if an inner page is not in
    /// memory or has other children than expected: then all must be built anew.
    fn point(
        &mut self,
        pages: &mut Pages,
        clock: u64,
        mut changed: Vec<(usize, PageReference)>,
        each: usize,
    ) -> Result<bool> {
        for level in &mut self.inner {
            let (mut numbers, mut places) = (Vec::new(), Vec::new());
            for children in changed.chunk_by(|one, next| one.0 / each == next.0 / each) {
                let number = children[0].0 / each;
                let Some(before) = level.get_mut(number) else { return Ok(false) };
                let has_children = |page: &Page| {
                    let (node, size) = (page.node(), pages.geometry.reference);
                    let rows = children.iter().map(|(index, _)| index % each);
                    rows.into_iter().all(|row| row < node.len() && node.row(row).value.len() == size)
                };
                if !pages.at_hand(before, Tier::Medium).is_some_and(has_children) {
                    return Ok(false);
                }
                *before = pages.change(before, ANY_TABLE, Tier::Medium)?;
                let mut node = pages.dirty(before, Tier::Medium).node_mut();
                children.iter().for_each(|(index, child)| child.store(node.value_mut(index % each)));
                numbers.push(number);
                places.push(*before);
            }
            changed = numbers
                .into_iter()
                .zip(pages.seal(&places, self.table, Tier::Medium, clock))
                .inspect(|&(number, page)| level[number] = page)
                .collect();
        }
        Ok(true)
    }

    /// Builds the inner pages anew.
    fn store_inner(&mut self, form: Form, pages: &mut Pages, clock: u64, each: usize) -> Result<()> {
        self.left.extend(self.inner.drain(..).flatten());
        loop {
            let below = self.children(self.inner.len(), each);
            if below.len() <= form.children() {
                break;
            }
            let level = self.inner.len() as u8 + 1;
            let mut places = Vec::new();
            for children in below.chunks(each) {
                let mut page = Page::new(pages.geometry.page(), level);
                page.with_area(|area| {
                    store_children(area, children, level, STREAM | INNER, pages.geometry.reference)
                });
                places.push(pages.add(page, Tier::Medium)?);
            }
            self.inner.push(pages.seal(&places, self.table, Tier::Medium, clock));
        }
        self.is_regular = true;
        Ok(())
    }

    /// The pages of a level, level 0 being the leaves, each with the last cluster of the stream below it.
    fn children(&self, level: usize, each: usize) -> Vec<(u32, PageReference)> {
        let page = |leaf: &Leaf| leaf.page.expect("stored");
        let Some(above) = level.checked_sub(1) else {
            return self.leaves.iter().map(|leaf| (leaf.last, page(leaf))).collect();
        };
        let leaves = each.saturating_pow(level as u32);
        let last = |number: usize| {
            let after = (number + 1).saturating_mul(leaves).min(self.leaves.len());
            self.leaves[after - 1].last
        };
        self.inner[above].iter().enumerate().map(|(number, &page)| (last(number), page)).collect()
    }

    /// Drops all pages on disk, so that the runs are stored in new ones. Every leaf must be loaded.
    pub(crate) fn forget_pages(&mut self) {
        for leaf in &mut self.leaves {
            self.left.extend(leaf.page.take());
            leaf.news = News::All;
        }
        self.left.extend(self.inner.drain(..).flatten());
        self.is_regular = false;
        self.changed = self.leaves.len();
        self.owe();
    }

    /// Gives back the pages that were dropped.
    pub(crate) fn free_left(&mut self, pages: &mut Pages) -> Result<()> {
        self.left.drain(..).try_for_each(|page| pages.free(&page, Tier::Medium))
    }

    /// The references of all leaf pages and inner pages.
    pub(crate) fn page_places(&self) -> impl Iterator<Item = PageReference> + '_ {
        let leaves = self.leaves.iter().filter_map(|leaf| leaf.page);
        leaves.chain(self.inner.iter().flatten().copied())
    }

    /// Gives back all pages, and appends all runs to `gone`. Every leaf must be loaded.
    pub(crate) fn destroy(&mut self, pages: &mut Pages, gone: &mut Vec<(u64, u32)>) -> Result<()> {
        gone.extend(self.iter().map(|row| (row.cluster, row.count)));
        self.forget_pages();
        self.leaves.clear();
        (self.clusters, self.runs, self.changed) = (0, 0, 0);
        self.owe();
        self.free_left(pages)
    }
}

impl Leaf {
    /// Changes single rows of the leaf's existing page. `None` if more changed than single rows, or the page is not in
    /// memory or does not have its rows where [`store_rows`] puts them.
    fn change_rows(&self, pages: &mut Pages) -> Result<Option<PageReference>> {
        let (Some(before), News::Rows(changed), Some(rows)) = (&self.page, &self.news, &self.rows) else {
            return Ok(None);
        };
        let place_of = |position: &u16| {
            let position = usize::from(*position);
            (row_at(position), &rows[position])
        };
        let Some(page) = pages.at_hand(before, Tier::Medium) else { return Ok(None) };
        let (node, area) = (page.node(), page.area());
        let is_there = |position: &u16| {
            let (at, row) = place_of(position);
            let mut old = Vec::with_capacity(1);
            let is_read = Extent::read_checked(area, at, &mut old);
            usize::from(*position) < node.len()
                && node.offset(usize::from(*position)) == at
                && is_read.is_some()
                && matches!(old[..], [old] if old.at == row.at && old.checksum().is_some())
        };
        if !changed.iter().all(is_there) {
            return Ok(None);
        }
        let place = pages.change(before, ANY_TABLE, Tier::Medium)?;
        pages.dirty(&place, Tier::Medium).with_area(|area| {
            for (at, row) in changed.iter().map(place_of) {
                row.store(&mut area[at..]);
            }
        });
        Ok(Some(place))
    }
}

/// Stores references to children as the rows of an inner node of a stream.
fn store_children(
    area: &mut [u8],
    children: &[(u32, PageReference)],
    level: u8,
    flags: u8,
    reference: usize,
) {
    let mut node = TreeNodeMut::fresh(area, level, flags);
    let mut value = vec![0; reference];
    for (position, (last, page)) in children.iter().enumerate() {
        let mut key = [0; CHILD_KEY];
        CHILD_LAST.put(&mut key, u64::from(*last));
        page.store(&mut value);
        assert!(node.insert(position, &key, 0, &value), "sized for its rows");
    }
}
