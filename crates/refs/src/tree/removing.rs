//! Removing rows: pages that hold little are joined with a neighbour.

use super::Tree;
use crate::layout::PageReference;
use crate::layout::node::{INNER, ROOT};
use crate::pages::{Page, Pages};
use platter_vfs::{Error, Result};

impl Tree {
    /// Removes the row of this key. Returns whether there was one. As with [`Tree::put`], the tree keeps its rows where
    /// a page cannot be read; a neighbour that cannot be read is not joined with.
    pub(crate) fn remove(&mut self, pages: &mut Pages, key: &[u8]) -> Result<bool> {
        if self.get(pages, key, |_| ())?.is_none() {
            return Ok(false);
        }
        self.begin(pages)?;
        self.root = pages.change(&self.root, self.table, self.tier)?;
        let root = self.root;
        let mut leaves = 0;
        self.remove_below(pages, &root, key, &mut leaves)?;
        self.lower_root(pages).inspect_err(|_| pages.is_broken = true)?;
        self.count(pages, -1, leaves);
        pages.edits += 1;
        Ok(true)
    }

    /// Removes a row from the tree below `at`, a page that can be changed.
    fn remove_below(
        &self,
        pages: &mut Pages,
        at: &PageReference,
        key: &[u8],
        leaves: &mut i64,
    ) -> Result<()> {
        let node = pages.dirty(at, self.tier).node();
        if !node.is_inner() {
            let (position, found) = node.find(|other| self.order.compare(other, key));
            if found {
                pages.dirty(at, self.tier).node_mut().remove(position);
            }
            return Ok(());
        }
        let position = self.child(&node, key);
        let child = self.change_child(pages, at, position)?;
        self.remove_below(pages, &child, key, leaves)?;
        self.merge(pages, at, position, leaves).inspect_err(|_| pages.is_broken = true)
    }

    /// Removes an empty child, or joins a small one with a neighbour. The child can be changed.
    fn merge(
        &self,
        pages: &mut Pages,
        above: &PageReference,
        position: usize,
        leaves: &mut i64,
    ) -> Result<()> {
        let node = pages.dirty(above, self.tier).node();
        let (count, level) = (node.len(), node.level());
        let child = self.reference(&node, position)?;
        let page = pages.dirty(&child, self.tier);
        let (used, capacity) = (page.capacity() - page.node().free(), page.capacity());
        if used > capacity / 4 {
            return Ok(());
        }
        if used == 0 {
            pages.free(&child, self.tier)?;
            *leaves -= i64::from(level == 1);
            self.drop_child(pages, above, position);
            return Ok(());
        }
        if count < 2 {
            return Ok(());
        }
        let left_position = if position + 1 < count { position } else { position - 1 };
        let node = pages.dirty(above, self.tier).node();
        let greatest = node.row(left_position).key.to_vec();
        let references = (self.reference(&node, left_position), self.reference(&node, left_position + 1));
        let (Ok(left), Ok(right)) = references else { return Ok(()) };
        let read = |pages: &mut Pages, reference| self.at_level(pages, reference, level - 1);
        // Both are read before anything is changed: where a neighbour is damaged, the child stays as small as it is.
        let (Ok(left_page), Ok(right_page)) = (read(pages, &left), read(pages, &right)) else {
            return Ok(());
        };
        let used = |page: &Page| page.capacity() - page.node().free();
        if used(&left_page) + used(&right_page) + greatest.len() > capacity * 3 / 4
            || left_page.node().is_empty()
        {
            return Ok(());
        }
        drop(left_page);
        let left = pages.change(&left, self.table, self.tier)?;
        let left_page = pages.dirty(&left, self.tier);
        if level > 1 {
            // The last row of the left page led to all greater keys. Now rows follow, so it gets a key that bounds it.
            let last = left_page.node().len() - 1;
            let value = left_page.node().row(last).value.to_vec();
            let mut node = left_page.node_mut();
            node.remove(last);
            if !node.insert(last, &greatest, 0, &value) {
                return Err(Error::InvalidArgument("a half-empty page has no room for a key"));
            }
        }
        let mut right_page = Page::clone(&right_page);
        right_page.node_mut().move_rows(0, &mut left_page.node_mut());
        pages.free(&right, self.tier)?;
        *leaves -= i64::from(level == 1);
        // The row of the right page, with the greater key, now leads to the left one.
        self.point(pages, above, left_position + 1, &left);
        pages.dirty(above, self.tier).node_mut().remove(left_position);
        Ok(())
    }

    /// Removes the row of a child from an inner node. The row that is last afterwards leads to all greater keys.
    fn drop_child(&self, pages: &mut Pages, above: &PageReference, position: usize) {
        let mut node = pages.dirty(above, self.tier).node_mut();
        node.remove(position);
        let count = node.view().len();
        if position == count && count > 0 {
            let value = node.view().row(count - 1).value.to_vec();
            node.remove(count - 1);
            assert!(node.insert(count - 1, &[], 0, &value), "a shorter key fits where a longer one was");
        }
    }

    /// Moves the rows of the only page below the root into the root if they fit, as often as there is such a page.
    fn lower_root(&mut self, pages: &mut Pages) -> Result<()> {
        let size = pages.geometry.page();
        loop {
            let root = pages.dirty(&self.root, self.tier);
            let node = root.node();
            if !node.is_inner() || node.len() > 1 {
                return Ok(());
            }
            let header = root.tree_header_view().to_vec();
            if node.is_empty() {
                *root = Page::with_header(size, &header, 0, ROOT);
                return Ok(());
            }
            let above = node.level();
            let Ok(child) = self.reference(&node, 0) else { return Ok(()) };
            // A damaged child stays below the root.
            let Ok(page) = self.at_level(pages, &child, above - 1) else { return Ok(()) };
            let level = page.node().level();
            let mut whole =
                Page::with_header(size, &header, level, if level > 0 { ROOT | INNER } else { ROOT });
            if page.node().used() > whole.capacity() {
                return Ok(());
            }
            Page::clone(&page).node_mut().move_rows(0, &mut whole.node_mut());
            pages.free(&child, self.tier)?;
            *pages.dirty(&self.root, self.tier) = whole;
        }
    }
}
