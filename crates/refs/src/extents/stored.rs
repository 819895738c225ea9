//! The runs as they stand on disk: in the stream's own row, or in pages below it.

use super::*;

/// The runs of a leaf node, if the content of all is known to be what their clusters hold.
pub(super) fn readable_rows(area: &[u8]) -> Result<Vec<Extent>> {
    let node = Node::new(area);
    for at in (0..node.len()).map(|position| node.offset(position)) {
        let kind = area.get(at..at + 24).map_or(PLAIN, |bytes| u16_at(bytes, 0x08));
        if !is_known(kind) {
            let expected = format!("{PLAIN:#x}, {OTHER:#x} or {CHECKED:#x}");
            return Err(Error::damaged(
                "kind of a run of a stream",
                at as u64,
                expected,
                format!("{kind:#x}"),
            ));
        }
    }
    rows(area)
}

/// Whether the content of a run of this kind is known to be what its clusters hold.
pub fn is_known(kind: u16) -> bool {
    matches!(kind, PLAIN | OTHER) || kind & CHECKED == CHECKED
}

/// The runs of a leaf node, in order, checked to be free of overlap.
pub fn rows(area: &[u8]) -> Result<Vec<Extent>> {
    let node = Node::new(area);
    let mut rows = Vec::with_capacity(node.len());
    for position in 0..node.len() {
        let at = node.offset(position);
        let Some(bytes) = area.get(at..at + 24) else {
            return Err(Error::damaged(
                "run of a stream",
                at as u64,
                format!("inside {:#x} bytes", area.len()),
                format!("{at:#x}"),
            ));
        };
        let long = area.get(at..at + 32).unwrap_or(bytes);
        let extent = Extent::from_bytes(long);
        let fits = extent.count > 0 && extent.at.checked_add(extent.count).is_some_and(|end| end < u32::MAX);
        if !fits || extent.checksum.is_some() && (extent.count != 1 || long.len() < 32) {
            return Err(Error::damaged(
                "run of a stream",
                at as u64,
                "a run that is not empty",
                format!("{extent:?}"),
            ));
        }
        rows.push(extent);
    }
    rows.sort_by_key(|row| row.at);
    if let Some(pair) = rows.windows(2).find(|pair| pair[0].end() > pair[1].at) {
        return Err(Error::damaged("runs of a stream", 0, "runs that do not overlap", format!("{pair:?}")));
    }
    Ok(rows)
}

/// Stores runs as the rows of a leaf node that fills `area`, which is empty, with the index at its end.
fn store_rows(area: &mut [u8], rows: &[Extent], flags: u8, embedded: bool) {
    let length = area.len();
    NodeMut::fresh(area, 0, flags);
    let index = length - 4 * rows.len();
    let mut at = NODE_HEADER;
    let mut clusters = 0u64;
    for (position, row) in rows.iter().enumerate() {
        row.store(&mut area[at..]);
        clusters += u64::from(row.count);
        let upper = if embedded { u64::from(row.at) } else { clusters };
        put(area, index + 4 * position, at as u16);
        put(area, index + 4 * position + 2, upper.min(0xFFFF) as u16);
        at += row.size();
    }
    put(area, 0x04, at as u32);
    put(area, 0x08, (index - at) as u32);
    put(area, 0x10, index as u32);
    put(area, 0x14, rows.len() as u32);
}

/// What [`Extents::store`] made of the runs.
pub struct Stored {
    /// The node for the stream's row.
    pub node: Vec<u8>,
    /// Leaf pages below it; 0 if the runs are in it.
    pub leaf_pages: u64,
    /// Runs in all.
    pub runs: u64,
}

impl Extents {
    /// Brings the pages up to date and returns the node for the stream's row. `before` are the pages it had, which are
    /// given back where they are no longer needed, and then the pages it has.
    pub fn store(
        &mut self,
        pages: &mut Pages,
        clock: u64,
        before: &mut Vec<PageReference>,
    ) -> Result<Stored> {
        let inline = match &self.leaves[..] {
            [] => true,
            [leaf] => leaf
                .rows
                .as_ref()
                .is_some_and(|rows| rows.iter().map(|row| row.size() + 4).sum::<usize>() <= INLINE),
            _ => false,
        };
        let stored = if inline {
            if let Some(leaf) = self.leaves.first_mut() {
                leaf.page = None;
            }
            let rows: &[Extent] = self.leaves.first().and_then(|leaf| leaf.rows.as_deref()).unwrap_or(&[]);
            let bytes: usize = rows.iter().map(Extent::size).sum();
            // Others expect room for two runs, and the whole row to end on 8 bytes.
            let length = (NODE_HEADER + bytes + 4 * rows.len()).next_multiple_of(8).max(0x70);
            let mut node = vec![0; length];
            let flags = if rows.is_empty() { ROOT | STREAM } else { ROOT | STREAM | FIXED };
            store_rows(&mut node, rows, flags, true);
            Stored { node, leaf_pages: 0, runs: self.runs }
        } else {
            self.store_pages(pages, clock)?
        };
        let now = self.pages();
        let mut kept: Vec<u64> = now.iter().map(|page| page.clusters[0]).collect();
        kept.sort_unstable();
        for page in before.drain(..) {
            if kept.binary_search(&page.clusters[0]).is_err() {
                pages.free(&page, Tier::Medium)?;
            }
        }
        *before = now;
        Ok(stored)
    }

    /// The pages that hold the runs on disk.
    pub fn pages(&self) -> Vec<PageReference> {
        self.leaves.iter().filter_map(|leaf| leaf.page).chain(self.inner.iter().copied()).collect()
    }

    fn store_pages(&mut self, pages: &mut Pages, clock: u64) -> Result<Stored> {
        let size = pages.geometry.page();
        let mut places = Vec::new();
        for leaf in self.leaves.iter().filter(|leaf| leaf.page.is_none()) {
            let rows = leaf.rows.as_ref().expect("what is not on disk is in memory");
            let mut page = Page::new(size, 0);
            page.with_area(|area| store_rows(area, rows, STREAM | FIXED, false));
            places.push(pages.add(page, Tier::Medium)?);
        }
        let sealed = pages.seal(&places, self.table, Tier::Medium, clock);
        let changed = self.leaves.iter_mut().filter(|leaf| leaf.page.is_none());
        changed.zip(sealed).for_each(|(leaf, page)| leaf.page = Some(page));
        let leaf_pages = self.leaves.len() as u64;
        let mut below: Vec<(u32, PageReference)> =
            self.leaves.iter().map(|leaf| (leaf.last, leaf.page.expect("stored"))).collect();
        self.inner.clear();
        let mut level = 1;
        while below.len() > INLINE_CHILDREN {
            let mut above = Vec::new();
            let each = (size - 0x58 - NODE_HEADER) / (32 + pages.geometry.reference + 4);
            for children in below.chunks(each) {
                let mut page = Page::new(size, level);
                page.with_area(|area| {
                    store_children(area, children, level, STREAM | INNER, pages.geometry.reference)
                });
                let place = pages.add(page, Tier::Medium)?;
                let sealed = pages.seal(&[place], self.table, Tier::Medium, clock)[0];
                self.inner.push(sealed);
                above.push((children[children.len() - 1].0, sealed));
            }
            below = above;
            level += 1;
        }
        let reference = pages.geometry.reference;
        let mut node =
            vec![0; (NODE_HEADER + below.len() * (32 + reference + 4)).next_multiple_of(8).max(0x70)];
        store_children(&mut node, &below, level, ROOT | STREAM | INNER, reference);
        Ok(Stored { node, leaf_pages, runs: self.runs })
    }

    /// Forgets the pages on disk, which the caller gives back. Every leaf must be loaded.
    pub fn forget_pages(&mut self) {
        self.leaves.iter_mut().for_each(|leaf| leaf.page = None);
        self.inner.clear();
    }

    /// Gives back all clusters and pages. Every leaf must be loaded.
    pub fn destroy(
        &mut self,
        pages: &mut Pages,
        before: &mut Vec<PageReference>,
        gone: &mut Vec<(u64, u32)>,
    ) -> Result<()> {
        gone.extend(self.iter().map(|row| (row.cluster, row.count)));
        self.leaves.clear();
        self.inner.clear();
        (self.clusters, self.runs) = (0, 0);
        before.drain(..).try_for_each(|page| pages.free(&page, Tier::Medium))
    }
}

/// Stores children as the rows of an inner node of a stream.
fn store_children(
    area: &mut [u8],
    children: &[(u32, PageReference)],
    level: u8,
    flags: u8,
    reference: usize,
) {
    let mut node = NodeMut::fresh(area, level, flags);
    for (position, (last, page)) in children.iter().enumerate() {
        let mut key = [0; 16];
        put(&mut key, 0, u64::from(*last));
        let mut value = vec![0; reference];
        page.store(&mut value);
        assert!(node.insert(position, &key, 0, &value), "sized for its rows");
    }
}
