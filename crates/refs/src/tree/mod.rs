//! B+-trees of rows.
//!
//! The key of an inner row is the greatest key below it; the last row of an inner node has an empty key and leads to
//! all keys greater than the others. Other readers rely on both (libfsrefs' documentation; refsprogs descends so).

mod order;
mod removing;

use crate::container::Tier;
use crate::layout::node::{INNER, ROOT, row_size};
use crate::layout::{PageReference, Row, TreeNode, header, tree_header};
use crate::pages::{Page, Pages};
pub(crate) use order::Order;
use platter_vfs::{Error, Result};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A tree, by its root.
#[derive(Clone)]
pub(crate) struct Tree {
    /// The table's number, which stands in the header of each page.
    pub table: u64,
    /// The reference to the root page.
    pub root: PageReference,
    order: Order,
    tier: Tier,
}

/// The state of a scan through the rows of a tree.
struct Scan<'a> {
    each: &'a mut dyn FnMut(Row<'_>) -> Result<bool>,
    /// Whether pages that cannot be read are left out; otherwise they end the scan.
    goes_on: bool,
    /// The number of pages that the scan may still read.
    left: u64,
    /// The first error in reading a page that was left out.
    damage: Option<Error>,
}

/// The result of splitting a page: the greatest key that stayed in it, and the new page after it.
type Split = (Vec<u8>, PageReference);

impl Tree {
    /// The largest size of a row in bytes, header included: two such rows fit any page even after a split.
    pub(crate) const LARGEST_ROW: usize = 7 << 10;

    /// An existing tree with this root.
    pub(crate) fn open(table: u64, order: Order, tier: Tier, root: PageReference) -> Tree {
        Tree { table, root, order, tier }
    }

    /// Makes a new, empty tree. `extra` follows the fixed part of the tree header.
    pub(crate) fn create(
        pages: &mut Pages,
        table: u64,
        schema: u32,
        order: Order,
        tier: Tier,
        extra: &[u8],
        kind: u16,
    ) -> Result<Tree> {
        let mut header = tree_header(schema, kind, extra);
        header::CHECKSUM_KIND.put(&mut header, u32::from(pages.geometry.algorithm.code()));
        let page = Page::with_header(pages.geometry.page(), &header, 0, ROOT);
        let root = pages.add(page, tier)?;
        Ok(Tree { table, root, order, tier })
    }

    /// Makes a tree without rows that has this tree header, and otherwise number, order and tier of this one.
    pub(crate) fn emptied(&self, pages: &mut Pages, header: &[u8]) -> Result<Tree> {
        let mut header = header.to_vec();
        header::LEAVES.put(&mut header, 0);
        header::ROWS.put(&mut header, 0);
        let root = pages.add(Page::with_header(pages.geometry.page(), &header, 0, ROOT), self.tier)?;
        Ok(self.at(root))
    }

    /// Returns the tree header, from the root page.
    pub(crate) fn header(&self, pages: &mut Pages) -> Result<Vec<u8>> {
        Ok(self.page(pages, &self.root)?.tree_header_view().to_vec())
    }

    /// A tree with the same number, order and tier, and another root.
    pub(crate) fn at(&self, root: PageReference) -> Tree {
        Tree { root, ..self.clone() }
    }

    /// The order of the tree's rows.
    pub(crate) fn order(&self) -> Order {
        self.order.clone()
    }

    /// The tier in which the tree's pages are allocated.
    pub(crate) fn tier(&self) -> Tier {
        self.tier
    }

    fn real(&self) -> bool {
        self.tier == Tier::Small
    }

    fn page(&self, pages: &mut Pages, reference: &PageReference) -> Result<Arc<Page>> {
        pages.get(reference, self.table, self.real())
    }

    /// The position of the row that leads to the child for this key.
    fn child(&self, node: &TreeNode<'_>, key: &[u8]) -> usize {
        let last = node.len().saturating_sub(1);
        let (mut low, mut high) = (0, last);
        while low < high {
            let middle = (low + high) / 2;
            match self.order.compare(node.row(middle).key, key) {
                Ordering::Less => low = middle + 1,
                _ => high = middle,
            }
        }
        low
    }

    /// Calls `with` on the row of this key, if there is one.
    pub(crate) fn get<T>(
        &self,
        pages: &mut Pages,
        key: &[u8],
        with: impl FnOnce(Row<'_>) -> T,
    ) -> Result<Option<T>> {
        let mut page = self.page(pages, &self.root)?;
        for _ in 0..MOST_LEVELS {
            let node = page.node();
            if !node.is_inner() {
                let (position, found) = node.find(|other| self.order.compare(other, key));
                return Ok(found.then(|| with(node.row(position))));
            }
            if node.is_empty() {
                return Ok(None);
            }
            let child = self.reference(&node, self.child(&node, key))?;
            page = self.below(pages, &page, &child)?;
        }
        Err(too_deep())
    }

    /// Calls `each` on every row in order, from the first that does not come before `from`, until `each` returns false.
    pub(crate) fn scan(
        &self,
        pages: &mut Pages,
        from: &[u8],
        mut each: impl FnMut(Row<'_>) -> Result<bool>,
    ) -> Result<()> {
        match self.scan_all(pages, from, &mut each, false)? {
            None => Ok(()),
            Some(damage) => Err(damage),
        }
    }

    /// Like [`Tree::scan`], but leaves out pages that cannot be read, with everything below them, and returns the first
    /// error.
    pub(crate) fn scan_past_damage(
        &self,
        pages: &mut Pages,
        from: &[u8],
        mut each: impl FnMut(Row<'_>) -> Result<bool>,
    ) -> Result<Option<Error>> {
        self.scan_all(pages, from, &mut each, true)
    }

    fn scan_all(
        &self,
        pages: &mut Pages,
        from: &[u8],
        each: &mut dyn FnMut(Row<'_>) -> Result<bool>,
        goes_on: bool,
    ) -> Result<Option<Error>> {
        let page = self.page(pages, &self.root)?;
        // A damaged tree may refer to one page many times. No tree has more pages than the volume.
        let left = pages.geometry.clusters / u64::from(pages.geometry.page_clusters()) + 1;
        let mut scan = Scan { each, goes_on, left, damage: None };
        self.scan_page(pages, page, from, &mut scan, 0)?;
        Ok(scan.damage)
    }

    fn scan_page(
        &self,
        pages: &mut Pages,
        page: Arc<Page>,
        from: &[u8],
        scan: &mut Scan<'_>,
        depth: usize,
    ) -> Result<bool> {
        let node = page.node();
        if !node.is_inner() {
            let (first, _) = match from {
                [] => (0, false),
                key => node.find(|other| self.order.compare(other, key)),
            };
            for position in first..node.len() {
                if !(scan.each)(node.row(position))? {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        let first = if from.is_empty() { 0 } else { self.child(&node, from) };
        for position in first..node.len() {
            let child = match (depth, scan.left) {
                (MOST_LEVELS.., _) => Err(too_deep()),
                (_, 0) => Err(Error::damaged("tree", 0, "each page once", "one that comes again")),
                _ => self.reference(&node, position).and_then(|child| self.below(pages, &page, &child)),
            };
            scan.left = scan.left.saturating_sub(1);
            let child = match child {
                Ok(child) => child,
                Err(error) => {
                    scan.damage.get_or_insert(error);
                    if scan.goes_on && scan.left > 0 {
                        continue;
                    }
                    return Ok(false);
                }
            };
            let from = if position == first { from } else { &[] };
            if !self.scan_page(pages, child, from, scan, depth + 1)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The reference in an inner row.
    fn reference(&self, node: &TreeNode<'_>, position: usize) -> Result<PageReference> {
        PageReference::from_bytes(node.row(position).value, 0)
    }

    /// The page of a reference in `above`, which must be one level lower.
    fn below(&self, pages: &mut Pages, above: &Page, reference: &PageReference) -> Result<Arc<Page>> {
        self.at_level(pages, reference, above.node().level() - 1)
    }

    fn at_level(&self, pages: &mut Pages, reference: &PageReference, expected: u8) -> Result<Arc<Page>> {
        let page = self.page(pages, reference)?;
        let found = page.node().level();
        if found != expected {
            return Err(Error::damaged("level of a node", 0, expected, found));
        }
        Ok(page)
    }

    /// Inserts a row, or replaces the one with the same key. Returns whether there was one.
    ///
    /// The pages on the path to the row are made changeable from the root down, and each is referred to from the page
    /// above before a page below is touched. So where a page cannot be read, the tree is whole and has the rows that it
    /// had.
    pub(crate) fn put(&mut self, pages: &mut Pages, key: &[u8], flags: u16, value: &[u8]) -> Result<bool> {
        if row_size(key, value) > Tree::LARGEST_ROW {
            return Err(Error::RecordFull { format: "ReFS", what: crate::layout::LIMIT });
        }
        let mut put = Put { key, flags, value, replaced: false, leaves: 0 };
        self.begin(pages)?;
        self.root = pages.change(&self.root, self.table, self.tier)?;
        let root = self.root;
        self.put_below(pages, &root, &mut put, true)?;
        self.count(pages, i64::from(!put.replaced), put.leaves);
        pages.edits += 1;
        Ok(put.replaced)
    }

    /// Makes sure, before a change begins, that there are free pages enough for it.
    fn begin(&self, pages: &Pages) -> Result<()> {
        if pages.space.has_pages(self.tier, MOST_LEVELS as u64) { Ok(()) } else { Err(Error::NoSpace) }
    }

    /// Puts a row into the tree below `at`, a page that can be changed.
    fn put_below(
        &self,
        pages: &mut Pages,
        at: &PageReference,
        put: &mut Put<'_>,
        is_root: bool,
    ) -> Result<Option<Split>> {
        let node = pages.dirty(at, self.tier).node();
        if !node.is_inner() {
            let (position, found) = node.find(|other| self.order.compare(other, put.key));
            put.replaced = found;
            let mut node = pages.dirty(at, self.tier).node_mut();
            let done = match found {
                true => node.replace(position, put.flags, put.value),
                false => node.insert(position, put.key, put.flags, put.value),
            };
            if done {
                return Ok(None);
            }
            if found {
                node.remove(position);
            }
            let row = (put.key.to_vec(), put.flags, put.value.to_vec());
            put.leaves += 1;
            return self.split(pages, at, position, row, is_root);
        }
        let position = self.child(&node, put.key);
        let child = self.change_child(pages, at, position)?;
        let Some((greatest, right)) = self.put_below(pages, &child, put, false)? else { return Ok(None) };
        self.point(pages, at, position, &right);
        let mut value = vec![0; pages.geometry.reference];
        child.store(&mut value);
        if pages.dirty(at, self.tier).node_mut().insert(position, &greatest, 0, &value) {
            return Ok(None);
        }
        self.split(pages, at, position, (greatest, 0, value), is_root)
    }

    /// Makes the child at `position` of `at` changeable and returns its new reference. The page `at` itself can be
    /// changed.
    fn change_child(&self, pages: &mut Pages, at: &PageReference, position: usize) -> Result<PageReference> {
        let (level, child) = {
            let node = pages.dirty(at, self.tier).node();
            if node.is_empty() {
                return Err(Error::damaged("inner node", 0, "rows", "none"));
            }
            (node.level(), self.reference(&node, position)?)
        };
        self.at_level(pages, &child, level - 1)?;
        let now = pages.change(&child, self.table, self.tier)?;
        self.point(pages, at, position, &now);
        Ok(now)
    }

    /// Stores the reference `to` in the row at `position` of an inner page.
    fn point(&self, pages: &mut Pages, page: &PageReference, position: usize, to: &PageReference) {
        to.store(pages.dirty(page, self.tier).node_mut().value_mut(position));
    }

    /// Splits a page that has no room for a row at `position`, and inserts the row. A root keeps its place and gets two
    /// pages below it. If no page can be had here, although [`Tree::begin`] found room, the tree has lost rows.
    fn split(
        &self,
        pages: &mut Pages,
        now: &PageReference,
        position: usize,
        row: (Vec<u8>, u16, Vec<u8>),
        is_root: bool,
    ) -> Result<Option<Split>> {
        let node = pages.dirty(now, self.tier).node();
        let (level, count) = (node.level(), node.len());
        let mut rows: Vec<(Vec<u8>, u16, Vec<u8>)> =
            node.rows().map(|row| (row.key.to_vec(), row.flags, row.value.to_vec())).collect();
        rows.insert(position, row);
        let sizes: Vec<usize> = rows.iter().map(|(key, _, value)| row_size(key, value) + 4).collect();
        let total: usize = sizes.iter().sum();
        // Where rows come in order of their keys, the page on the left stays full.
        let in_order = level == 0 && position == count;
        let goal = if in_order { total - sizes[count] } else { total / 2 };
        let mut middle = 0;
        let mut left_size = 0;
        while middle + 1 < rows.len() && (middle == 0 || left_size + sizes[middle] / 2 <= goal) {
            left_size += sizes[middle];
            middle += 1;
        }
        if in_order {
            middle = rows.len() - 1;
        }
        let fill = |page: &mut Page, rows: &[(Vec<u8>, u16, Vec<u8>)]| {
            let mut node = page.node_mut();
            for (index, (key, flags, value)) in rows.iter().enumerate() {
                assert!(node.insert(index, key, *flags, value), "half of the rows fit a page");
            }
        };
        let greatest = rows[middle - 1].0.clone();
        if level > 0 {
            // The last row of an inner node leads to all keys greater than the others.
            rows[middle - 1].0 = Vec::new();
        }
        let size = pages.geometry.page();
        let mut right = Page::new(size, level);
        fill(&mut right, &rows[middle..]);
        let mut left = Page::new(size, level);
        fill(&mut left, &rows[..middle]);
        let right = pages.add(right, self.tier).inspect_err(|_| pages.is_broken = true)?;
        if !is_root {
            *pages.dirty(now, self.tier) = left;
            return Ok(Some((greatest, right)));
        }
        let left = pages.add(left, self.tier).inspect_err(|_| pages.is_broken = true)?;
        let length = pages.geometry.reference;
        let root = pages.dirty(now, self.tier);
        let header = root.tree_header_view().to_vec();
        *root = Page::with_header(size, &header, level + 1, ROOT | INNER);
        let mut node = root.node_mut();
        let mut value = vec![0; length];
        left.store(&mut value);
        let first = node.insert(0, &greatest, 0, &value);
        right.store(&mut value);
        let second = node.insert(1, &[], 0, &value);
        assert!(first && second, "a new root has room");
        Ok(None)
    }

    /// Updates the counts in the tree header: rows, and leaves if there are pages below the root.
    fn count(&self, pages: &mut Pages, rows: i64, leaves: i64) {
        let root = pages.dirty(&self.root, self.tier);
        let is_inner = root.node().is_inner();
        let header = root.tree_header();
        let total = header::ROWS.of(header).wrapping_add_signed(rows);
        header::ROWS.put(header, total);
        let before = header::LEAVES.of(header);
        let now = match (is_inner, before) {
            (false, _) => 0,
            (true, 0) => 2,
            (true, before) => before.wrapping_add_signed(leaves),
        };
        header::LEAVES.put(header, now);
    }

    /// Returns the tree header after its fixed part.
    pub(crate) fn extra(&self, pages: &mut Pages) -> Result<Vec<u8>> {
        Ok(header::extra(&self.header(pages)?).to_vec())
    }

    /// The tree header after its fixed part, to be changed.
    pub(crate) fn extra_mut<'p>(&mut self, pages: &'p mut Pages) -> Result<&'p mut [u8]> {
        self.root = pages.change(&self.root, self.table, self.tier)?;
        Ok(header::extra_mut(pages.dirty(&self.root, self.tier).tree_header()))
    }

    /// Computes the checksum of every changed page, leaves first. [`Tree::root`] has that of the root afterwards.
    pub(crate) fn seal(&mut self, pages: &mut Pages, clock: u64) -> Result<()> {
        let root = self.root;
        if pages.is_dirty(&root, self.tier) {
            self.root = self.seal_page(pages, &root, clock)?;
        }
        Ok(())
    }

    fn seal_page(&self, pages: &mut Pages, reference: &PageReference, clock: u64) -> Result<PageReference> {
        let node = pages.dirty(reference, self.tier).node();
        if node.is_inner() {
            let above_leaves = node.level() == 1;
            let children: Vec<PageReference> =
                node.rows().map(|row| PageReference::from_bytes(row.value, 0)).collect::<Result<_>>()?;
            let changed: Vec<usize> = (0..children.len())
                .filter(|&position| pages.is_dirty(&children[position], self.tier))
                .collect();
            let children: Vec<PageReference> = changed.iter().map(|&position| children[position]).collect();
            let sealed = match above_leaves {
                true => pages.seal(&children, self.table, self.tier, clock),
                false => {
                    children.iter().map(|child| self.seal_page(pages, child, clock)).collect::<Result<_>>()?
                }
            };
            for (&position, sealed) in changed.iter().zip(&sealed) {
                self.point(pages, reference, position, sealed);
            }
        }
        Ok(pages.seal(&[*reference], self.table, self.tier, clock)[0])
    }

    /// Gives back all pages of the tree, or none if one cannot be read.
    pub(crate) fn destroy(self, pages: &mut Pages) -> Result<()> {
        let mut all = vec![self.root];
        let mut seen = BTreeSet::from([self.root.clusters[0]]);
        let mut inner = vec![self.page(pages, &self.root)?];
        while let Some(page) = inner.pop() {
            let level = page.node().level();
            for position in 0..if level > 0 { page.node().len() } else { 0 } {
                let child = self.reference(&page.node(), position)?;
                let page = self.at_level(pages, &child, level - 1)?;
                if !seen.insert(child.clusters[0]) {
                    let twice = format!("cluster {:#x} twice", child.clusters[0]);
                    return Err(Error::damaged("tree", 0, "every page once", twice));
                }
                all.push(child);
                if level > 1 {
                    inner.push(page);
                }
            }
        }
        all.iter().try_for_each(|page| pages.free(page, self.tier)).inspect_err(|_| pages.is_broken = true)
    }
}

/// A row to be put into the tree, and what came of it so far.
struct Put<'a> {
    key: &'a [u8],
    flags: u16,
    value: &'a [u8],
    replaced: bool,
    leaves: i64,
}

/// The most levels that a tree may have: more than any volume needs.
const MOST_LEVELS: usize = 12;

fn too_deep() -> Error {
    Error::damaged("tree", 0, format!("at most {MOST_LEVELS} levels"), "more")
}
