//! A node of a B+-tree: rows with a key and a value, and an index that holds their order.
//!
//! A node is worked on in the very bytes that stand on disk: a row is appended to the data area and its offset put
//! into the index; a removed row leaves a gap that counts as free. The *area* of a node begins with the node header and
//! ends with the index, and all its offsets count from its own start, wherever it stands: in a page, or embedded in a
//! row's value.
//!
//! Source: libfsrefs' documentation ("Node header", "Node record"), forefst `docs/structures/btree_node.md`, and pages
//! that Windows wrote.

use super::bytes::{FieldAt, put, u16_at, u32_at};
use std::cmp::Ordering;

/// Bytes of the node header.
pub const NODE_HEADER: usize = 0x28;
/// Of a node header: where the rows begin.
pub const DATA_START: FieldAt<u32> = FieldAt::new(0x00);
/// Of a node header: where the rows end.
pub const DATA_END: FieldAt<u32> = FieldAt::new(0x04);
/// Of a node header: bytes that are free, gaps between rows included.
pub const FREE: FieldAt<u32> = FieldAt::new(0x08);
/// Of a node header: the number of levels below.
pub const LEVEL: FieldAt<u8> = FieldAt::new(0x0C);
/// Of a node header: [`INNER`], [`ROOT`], [`STREAM`].
pub const FLAGS: FieldAt<u8> = FieldAt::new(0x0D);
/// Of a node header: where the index begins.
pub const INDEX: FieldAt<u32> = FieldAt::new(0x10);
/// Of a node header: the number of rows.
pub const COUNT: FieldAt<u32> = FieldAt::new(0x14);
/// Of a node header: the bytes of the node, header and index included.
pub const LENGTH: FieldAt<u64> = FieldAt::new(0x20);

/// Bytes of an entry of the index.
pub const PLACE: usize = 4;
/// Of an entry of the index: where its row begins.
pub const PLACE_ROW: FieldAt<u16> = FieldAt::new(0);
/// Of an entry of the index: 0xFFFF, or a mark, see [`TreeNodeMut::mark_last_child`].
pub const PLACE_MARK: FieldAt<u16> = FieldAt::new(2);

/// The bytes of the row that begins at this offset of a node's area, as it states them.
pub fn row_length(area: &[u8], at: usize) -> usize {
    u32_at(area, at) as usize
}

/// Bytes of a row before its key.
pub const ROW_HEADER: usize = 16;

/// Flag of a node: its rows refer to children and hold no values.
pub const INNER: u8 = 1;
/// Flag of a node: it is the root of its table.
pub const ROOT: u8 = 2;
/// Flag of a node: its rows are runs of a stream, without row headers.
pub const STREAM: u8 = 4;

/// A row as it stands in a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'n> {
    /// The row's key.
    pub key: &'n [u8],
    /// The row's flags.
    pub flags: u16,
    /// The row's value, which may overlap the key.
    pub value: &'n [u8],
}

impl Row<'_> {
    /// Flag of a row: the value holds a node of its own.
    pub const EMBEDDED: u16 = 1;
}

/// A node, to be read. Made by [`TreeNode::new`] from bytes that [`TreeNode::check`] accepted, or that this code built.
#[derive(Clone, Copy)]
pub struct TreeNode<'n>(&'n [u8]);

impl<'n> TreeNode<'n> {
    /// The node in this area.
    pub fn new(area: &'n [u8]) -> TreeNode<'n> {
        TreeNode(area)
    }

    /// Checks that every row and every offset lies inside the area, on which all other calls rely.
    ///
    /// # Errors
    /// For the first violation its offset in the area, what was expected and what was found.
    pub fn check(area: &[u8]) -> std::result::Result<(), (usize, String, String)> {
        let wrong = |at: usize, expected: String, found: usize| Err((at, expected, format!("{found:#x}")));
        if area.len() < NODE_HEADER {
            return wrong(0, format!("at least {NODE_HEADER:#x} bytes"), area.len());
        }
        let node = TreeNode(area);
        let (data, end, index) = (DATA_START.of(area) as usize, node.data_end(), node.index());
        if data < NODE_HEADER || data > end {
            return wrong(0, format!("a data area from {NODE_HEADER:#x} to {end:#x}"), data);
        }
        if index < end || index > area.len() {
            return wrong(INDEX.at(), format!("an index between {end:#x} and {:#x}", area.len()), index);
        }
        if node.len() > (area.len() - index) / 4 {
            return wrong(COUNT.at(), format!("at most {} rows", (area.len() - index) / 4), node.len());
        }
        if node.is_stream() {
            return Ok(());
        }
        for position in 0..node.len() {
            let at = node.offset(position);
            if at < data || at + ROW_HEADER > end {
                return wrong(index + 4 * position, format!("a row between {data:#x} and {end:#x}"), at);
            }
            let size = u32_at(area, at) as usize;
            if size < ROW_HEADER || size > end - at {
                return wrong(at, format!("a row of {ROW_HEADER:#x} to {:#x} bytes", end - at), size);
            }
            for field in [4, 10] {
                let (start, length) = (u16_at(area, at + field), u16_at(area, at + field + 2));
                if usize::from(start) + usize::from(length) > size {
                    return wrong(
                        at + field,
                        format!("key and value inside the row's {size:#x} bytes"),
                        usize::from(start) + usize::from(length),
                    );
                }
            }
        }
        Ok(())
    }

    /// The number of rows in the node.
    pub fn len(&self) -> usize {
        COUNT.of(self.0) as usize
    }

    /// Whether the node has no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of levels below the node; 0 for a leaf.
    pub fn level(&self) -> u8 {
        LEVEL.of(self.0)
    }

    /// The node's flags: [`INNER`], [`ROOT`], [`STREAM`].
    pub fn flags(&self) -> u8 {
        FLAGS.of(self.0)
    }

    /// Whether its rows lead to further nodes.
    pub fn is_inner(&self) -> bool {
        self.level() > 0
    }

    /// Whether its rows are runs of a stream.
    pub fn is_stream(&self) -> bool {
        self.flags() & STREAM != 0
    }

    /// Bytes that are free for further rows, gaps included.
    pub fn free(&self) -> usize {
        FREE.of(self.0) as usize
    }

    /// Bytes that the rows and their entries in the index take.
    pub fn used(&self) -> usize {
        (0..self.len()).map(|position| u32_at(self.0, self.offset(position)) as usize + 4).sum()
    }

    fn data_end(&self) -> usize {
        DATA_END.of(self.0) as usize
    }

    fn index(&self) -> usize {
        INDEX.of(self.0) as usize
    }

    /// Where the row at this position begins.
    pub fn offset(&self, position: usize) -> usize {
        // The upper half is 0xFFFF on disk, or 0 for the last child of an inner node.
        (u32_at(self.0, self.index() + 4 * position) & 0xFFFF) as usize
    }

    /// The row at this position.
    pub fn row(&self, position: usize) -> Row<'n> {
        let at = self.offset(position);
        let part = |field| {
            let start = at + usize::from(u16_at(self.0, at + field));
            self.0.get(start..start + usize::from(u16_at(self.0, at + field + 2))).unwrap_or(&[])
        };
        Row { key: part(4), flags: u16_at(self.0, at + 8), value: part(10) }
    }

    /// Where the value of the row at this position begins.
    pub fn value_offset(&self, position: usize) -> usize {
        let at = self.offset(position);
        at + usize::from(u16_at(self.0, at + 10))
    }

    /// The rows in order.
    pub fn rows(self) -> impl Iterator<Item = Row<'n>> {
        (0..self.len()).map(move |position| self.row(position))
    }

    /// The position of the first row whose key is not less than the one looked for, and whether that row has exactly
    /// this key. `compare` compares a row's key with it.
    pub fn find(&self, mut compare: impl FnMut(&[u8]) -> Ordering) -> (usize, bool) {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = (low + high) / 2;
            match compare(self.row(middle).key) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return (middle, true),
                Ordering::Greater => high = middle,
            }
        }
        (low, false)
    }
}

/// Where in the key a row's value begins, if the two share bytes, as Windows stores some rows.
fn overlap(key: &[u8], value: &[u8]) -> Option<usize> {
    if key.is_empty() || value.is_empty() {
        None
    } else if value.len() >= key.len() && value.starts_with(key) {
        Some(0)
    } else if key.len() >= 16 && key.ends_with(value) {
        Some(key.len() - value.len())
    } else {
        None
    }
}

/// Bytes that a row with this key and value takes in the data area.
pub fn row_size(key: &[u8], value: &[u8]) -> usize {
    let body = match overlap(key, value) {
        Some(start) => key.len().max(start + value.len()),
        None => key.len().next_multiple_of(8) + value.len(),
    };
    ROW_HEADER + body.next_multiple_of(8)
}

/// A node, to be changed.
pub struct TreeNodeMut<'n>(&'n mut [u8]);

impl<'n> TreeNodeMut<'n> {
    /// The node that this area already holds.
    pub fn new(area: &'n mut [u8]) -> TreeNodeMut<'n> {
        TreeNodeMut(area)
    }

    /// Makes the area an empty node.
    pub fn empty(area: &'n mut [u8], level: u8, flags: u8) -> TreeNodeMut<'n> {
        area.fill(0);
        TreeNodeMut::fresh(area, level, flags)
    }

    /// Makes an empty node of an area that is all zeroes or already an empty node.
    pub fn fresh(area: &'n mut [u8], level: u8, flags: u8) -> TreeNodeMut<'n> {
        let length = area.len() as u32;
        DATA_START.put(area, NODE_HEADER as u32);
        DATA_END.put(area, NODE_HEADER as u32);
        FREE.put(area, length - NODE_HEADER as u32);
        LEVEL.put(area, level);
        FLAGS.put(area, flags);
        INDEX.put(area, length);
        LENGTH.put(area, u64::from(length));
        TreeNodeMut(area)
    }

    /// The node to be read.
    pub fn view(&self) -> TreeNode<'_> {
        TreeNode(self.0)
    }

    /// Puts a row at this position. Returns whether there was room; if not, nothing changed.
    #[must_use]
    pub fn insert(&mut self, position: usize, key: &[u8], flags: u16, value: &[u8]) -> bool {
        let size = row_size(key, value);
        if size + 4 > self.view().free() {
            return false;
        }
        if self.view().index() - self.view().data_end() < size + 4 {
            self.close_gaps();
        }
        let (at, index, count) = (self.view().data_end(), self.view().index() - 4, self.view().len());
        let key_start = ROW_HEADER;
        let value_start = match overlap(key, value) {
            Some(start) => key_start + start,
            None => key_start + key.len().next_multiple_of(8),
        };
        self.0[at..at + size].fill(0);
        put(self.0, at, size as u32);
        put(self.0, at + 4, key_start as u16);
        put(self.0, at + 6, key.len() as u16);
        put(self.0, at + 8, flags);
        put(self.0, at + 10, value_start as u16);
        put(self.0, at + 12, value.len() as u16);
        self.0[at + value_start..at + value_start + value.len()].copy_from_slice(value);
        self.0[at + key_start..at + key_start + key.len()].copy_from_slice(key);
        self.0.copy_within(index + 4..index + 4 + 4 * position, index);
        put(self.0, index + 4 * position, 0xFFFF_0000 | at as u32);
        DATA_END.put(self.0, (at + size) as u32);
        INDEX.put(self.0, index as u32);
        COUNT.put(self.0, count as u32 + 1);
        self.add_free(-(size as i64 + 4));
        true
    }

    /// Marks, in the index of an inner node, the entry of its last child, which has an empty key: the upper half of that
    /// entry is 0, and of all others 0xFFFF. Windows writes this mark from 3.10 on: of 843,408 entries on volumes of
    /// all versions 879 have it, and no other entry has anything but 0xFFFF (forefst). In nodes of runs the upper half
    /// has another meaning.
    pub fn mark_last_child(&mut self) {
        let node = self.view();
        if !node.is_inner() || node.is_stream() {
            return;
        }
        let (index, count) = (node.index(), node.len());
        let is_marked = count > 0 && node.row(count - 1).key.is_empty();
        for position in 0..count {
            let upper = if is_marked && position + 1 == count { 0 } else { 0xFFFFu16 };
            PLACE_MARK.within(index + PLACE * position).put(self.0, upper);
        }
    }

    /// Removes the row at this position.
    pub fn remove(&mut self, position: usize) {
        let (index, count) = (self.view().index(), self.view().len());
        let at = self.view().offset(position);
        let size = u32_at(self.0, at) as usize;
        self.0.copy_within(index..index + 4 * position, index + 4);
        put(self.0, index, 0u32);
        INDEX.put(self.0, index as u32 + 4);
        COUNT.put(self.0, count as u32 - 1);
        if at + size == self.view().data_end() {
            DATA_END.put(self.0, at as u32);
        }
        self.0[at..at + size].fill(0);
        self.add_free(size as i64 + 4);
    }

    /// Gives the row at this position another value. Returns whether there was room; if not, nothing changed.
    #[must_use]
    pub fn replace(&mut self, position: usize, flags: u16, value: &[u8]) -> bool {
        let row = self.view().row(position);
        let at = self.view().offset(position);
        let (key, size) = (row.key.to_vec(), u32_at(self.0, at) as usize);
        let wanted = row_size(&key, value);
        if row.value.len() == value.len()
            && wanted == size
            && overlap(&key, value) == overlap(row.key, row.value)
        {
            let start = at + usize::from(u16_at(self.0, at + 10));
            self.0[start..start + value.len()].copy_from_slice(value);
            put(self.0, at + 8, flags);
            return true;
        }
        if wanted > size + self.view().free() {
            return false;
        }
        self.remove(position);
        self.insert(position, &key, flags, value)
    }

    /// Moves the rows from `position` on to the end of `other`, which has room for them.
    pub fn move_rows(&mut self, position: usize, other: &mut TreeNodeMut<'_>) {
        for from in position..self.view().len() {
            let row = self.view().row(from);
            let end = other.view().len();
            assert!(other.insert(end, row.key, row.flags, row.value), "the other node has room");
        }
        while self.view().len() > position {
            self.remove(self.view().len() - 1);
        }
    }

    /// The bytes of the value of the row at this position, to be changed in place.
    pub fn value_mut(&mut self, position: usize) -> &mut [u8] {
        let at = self.view().offset(position);
        let start = at + usize::from(u16_at(self.0, at + 10));
        let length = usize::from(u16_at(self.0, at + 12));
        &mut self.0[start..start + length]
    }

    /// Moves the rows together, in order, so that all free bytes lie in one piece.
    fn close_gaps(&mut self) {
        let view = self.view();
        let start = DATA_START.of(view.0) as usize;
        let mut data = Vec::with_capacity(view.data_end() - start);
        let mut places = Vec::with_capacity(view.len());
        for position in 0..view.len() {
            let at = view.offset(position);
            places.push((start + data.len()) as u32);
            data.extend_from_slice(&view.0[at..at + u32_at(view.0, at) as usize]);
        }
        let (index, end) = (view.index(), view.data_end());
        self.0[start..start + data.len()].copy_from_slice(&data);
        self.0[start + data.len()..end].fill(0);
        for (position, place) in places.iter().enumerate() {
            put(self.0, index + 4 * position, 0xFFFF_0000 | place);
        }
        put(self.0, 0x04, (start + data.len()) as u32);
    }

    fn add_free(&mut self, change: i64) {
        let free = self.view().free() as i64 + change;
        FREE.put(self.0, free as u32);
    }
}

const _: () = assert!(LENGTH.end() == NODE_HEADER, "the length is the last field of a node header");
const _: () = assert!(PLACE_MARK.end() == PLACE, "an entry of the index is a place and a mark");
const _: () =
    assert!(NODE_HEADER.is_multiple_of(8) && ROW_HEADER.is_multiple_of(8), "rows begin at words of 8 bytes");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_child_is_marked() {
        let upper = |area: &[u8]| -> Vec<u16> {
            let (index, count) = (u32_at(area, 0x10) as usize, u32_at(area, 0x14) as usize);
            (0..count).map(|position| u16_at(area, index + 4 * position + 2)).collect()
        };
        let mut area = vec![0; 512];
        let mut node = TreeNodeMut::empty(&mut area, 1, INNER);
        assert!(node.insert(0, &[1; 8], 0, &[1; 16]) && node.insert(1, &[], 0, &[2; 16]));
        node.mark_last_child();
        assert_eq!(upper(&area), [0xFFFF, 0]);
        // A mark that has moved is put right, and a node whose last key is not empty gets none.
        let mut node = TreeNodeMut::new(&mut area);
        assert!(node.insert(2, &[9; 8], 0, &[3; 16]));
        assert_eq!(node.view().offset(1), TreeNode::new(node.0).offset(1));
        node.mark_last_child();
        assert_eq!(upper(&area), [0xFFFF; 3]);
        let mut leaf = vec![0; 512];
        let mut node = TreeNodeMut::empty(&mut leaf, 0, ROOT);
        assert!(node.insert(0, &[], 0, &[2; 16]));
        node.mark_last_child();
        assert_eq!(upper(&leaf), [0xFFFF]);
    }

    fn keys(node: &TreeNode<'_>) -> Vec<u8> {
        node.rows().map(|row| row.key[0]).collect()
    }

    #[test]
    fn rows_stay_in_order_through_removals_and_gaps() {
        let mut area = vec![0; 0x28 + 6 * 44];
        let mut node = TreeNodeMut::empty(&mut area, 0, ROOT);
        for key in [3u8, 1, 5, 2, 4, 6] {
            let (position, found) = node.view().find(|other| other[0].cmp(&key));
            assert!(!found);
            assert!(node.insert(position, &[key; 8], 0, &[key + 100; 16]));
        }
        assert_eq!(node.view().free(), 0);
        assert!(!node.insert(0, &[9; 8], 0, &[]));
        node.remove(1);
        node.remove(3);
        assert_eq!(keys(&node.view()), [1, 3, 4, 6]);
        assert!(node.insert(1, &[2; 8], 7, &[9; 50]), "gaps count as room");
        assert_eq!(keys(&node.view()), [1, 2, 3, 4, 6]);
        assert_eq!(node.view().row(1), Row { key: &[2; 8], flags: 7, value: &[9; 50] });
        assert!(node.replace(1, 8, &[1; 3]));
        assert_eq!(node.view().row(1).value, [1; 3]);
        assert_eq!(TreeNode::check(&area), Ok(()));
    }

    #[test]
    fn a_value_that_repeats_its_key_shares_its_bytes() {
        let mut area = vec![0; 0x100];
        let mut node = TreeNodeMut::empty(&mut area, 0, ROOT);
        let value: Vec<u8> = (0..160).collect();
        assert!(node.insert(0, &value[..16], 0, &value));
        assert_eq!((row_size(&value[..16], &value), node.view().row(0).value), (176, &value[..]));
        let link: Vec<u8> = (0..0x22).collect();
        assert_eq!(row_size(&link, &link[8..]), 0x38);
    }

    #[test]
    fn what_points_outside_is_refused() {
        let mut area = vec![0; 0x100];
        let mut node = TreeNodeMut::empty(&mut area, 0, ROOT);
        assert!(node.insert(0, &[1; 8], 0, &[2; 8]));
        for (at, value) in
            [(0x00, 0x10u32), (0x04, 0x200), (0x10, 0x20), (0x14, 1000), (0x28, 4), (0x28, 0x300)]
        {
            let mut bad = area.clone();
            put(&mut bad, at, value);
            assert!(TreeNode::check(&bad).is_err(), "{at:#x} = {value:#x}");
        }
        let mut bad = area.clone();
        put(&mut bad, 0x28 + 12, 100u16);
        assert!(TreeNode::check(&bad).is_err());
    }
}
