//! Building a tree at once from rows in the order of their keys: every page is filled, and none is changed again.
//!
//! Tables with a row for each container have hundreds of thousands of rows on a large volume. Inserted one by one, each
//! would need a search from the root.

use crate::layout::node::{INNER, ROOT, row_size};
use crate::layout::{PageReference, header};
use crate::pages::{Page, Pages};
use crate::tree::Tree;
use platter_vfs::{Error, Result};

/// A tree that is being built.
pub(crate) struct Bulk<'t> {
    like: &'t Tree,
    header: Vec<u8>,
    leaf: Page,
    /// The greatest key of `leaf`, the leaf that is being filled.
    greatest: Vec<u8>,
    inner: Vec<Level>,
    rows: u64,
    leaves: u64,
}

/// The page of an inner level that is being filled. Its last child is held back, because the last row has no key.
struct Level {
    page: Page,
    last: Option<(Vec<u8>, PageReference)>,
}

impl<'t> Bulk<'t> {
    /// Begins a tree with the number, order and tier of `like`, under this tree header.
    pub(crate) fn new(pages: &Pages, like: &'t Tree, header: &[u8]) -> Bulk<'t> {
        let leaf = Page::new(pages.geometry.page(), 0);
        Bulk {
            like,
            header: header.to_vec(),
            leaf,
            greatest: Vec::new(),
            inner: Vec::new(),
            rows: 0,
            leaves: 0,
        }
    }

    /// Appends a row. Its key must be greater than all before.
    pub(crate) fn add(&mut self, pages: &mut Pages, key: &[u8], flags: u16, value: &[u8]) -> Result<()> {
        if row_size(key, value) > Tree::LARGEST_ROW {
            return Err(Error::RecordFull { format: "ReFS", what: crate::layout::LIMIT });
        }
        let end = self.leaf.node().len();
        if !self.leaf.node_mut().insert(end, key, flags, value) {
            self.end_leaf(pages)?;
            assert!(self.leaf.node_mut().insert(0, key, flags, value), "an empty page has room for any row");
        }
        self.greatest.clear();
        self.greatest.extend_from_slice(key);
        self.rows += 1;
        Ok(())
    }

    fn end_leaf(&mut self, pages: &mut Pages) -> Result<()> {
        let leaf = std::mem::replace(&mut self.leaf, Page::new(pages.geometry.page(), 0));
        let reference = pages.add(leaf, self.like.tier())?;
        self.leaves += 1;
        self.child(pages, 0, self.greatest.clone(), reference)
    }

    /// Adds a finished page as a child to the inner level `level`, which counts from 0 above the leaves.
    fn child(&mut self, pages: &mut Pages, level: usize, key: Vec<u8>, child: PageReference) -> Result<()> {
        let new = |level: usize| Page::new(pages.geometry.page(), level as u8 + 1);
        if self.inner.len() == level {
            self.inner.push(Level { page: new(level), last: None });
        }
        let above = &mut self.inner[level];
        let Some((greatest, last)) = above.last.replace((key, child)) else { return Ok(()) };
        let mut value = vec![0; pages.geometry.reference];
        last.store(&mut value);
        // Room is left for the row without a key that ends the page.
        let room = above.page.node().free();
        let end = above.page.node().len();
        if row_size(&greatest, &value) + 4 + row_size(&[], &value) + 4 <= room {
            assert!(above.page.node_mut().insert(end, &greatest, 0, &value), "there is room");
            return Ok(());
        }
        assert!(above.page.node_mut().insert(end, &[], 0, &value), "room was left");
        let page = std::mem::replace(&mut above.page, new(level));
        let reference = pages.add(page, self.like.tier())?;
        self.child(pages, level + 1, greatest, reference)
    }

    /// Ends the last pages and returns the tree.
    pub(crate) fn finish(mut self, pages: &mut Pages) -> Result<Tree> {
        let (size, tier) = (pages.geometry.page(), self.like.tier());
        let is_small = self.inner.is_empty() && {
            let root = Page::with_header(size, &self.header, 0, ROOT);
            self.leaf.node().used() <= root.capacity()
        };
        if !is_small {
            self.end_leaf(pages)?;
        }
        let mut level = 0;
        let mut top = std::mem::replace(&mut self.leaf, Page::new(size, 0));
        while level < self.inner.len() {
            let is_top = level + 1 == self.inner.len();
            let above = &mut self.inner[level];
            let (greatest, last) = above.last.take().expect("a level begins with a child");
            let mut value = vec![0; pages.geometry.reference];
            last.store(&mut value);
            let end = above.page.node().len();
            assert!(above.page.node_mut().insert(end, &[], 0, &value), "room was left");
            let page = std::mem::replace(&mut above.page, Page::new(size, 1));
            let capacity = Page::with_header(size, &self.header, 0, ROOT).capacity();
            if is_top && page.node().used() <= capacity {
                top = page;
                break;
            }
            let reference = pages.add(page, tier)?;
            self.child(pages, level + 1, greatest, reference)?;
            level += 1;
        }
        let levels = top.node().level();
        let mut root =
            Page::with_header(size, &self.header, levels, if levels > 0 { ROOT | INNER } else { ROOT });
        top.node_mut().move_rows(0, &mut root.node_mut());
        let leaves = if levels > 0 { self.leaves } else { 0 };
        header::LEAVES.put(root.tree_header(), leaves);
        header::ROWS.put(root.tree_header(), self.rows);
        let root = pages.add(root, tier)?;
        Ok(self.like.at(root))
    }
}
