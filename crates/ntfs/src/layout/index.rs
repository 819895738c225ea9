//! Indexes: B-trees of entries, whose root is a resident attribute and whose other nodes are blocks of
//! `$INDEX_ALLOCATION`.
//!
//! Entries have keys in every node, not only in the leaves. A node ends with an entry without a key; in a node with
//! children each entry leads to the child whose keys come before its own.

use super::bytes::{put, u16_at, u32_at, u64_at};
use super::{Kind, fixup};
use platter_vfs::{Error, Result};

/// How the keys of an index are ordered.
pub mod collation {
    /// Byte by byte.
    pub const BINARY: u32 = 0;
    /// File names: unit by unit in upper case.
    pub const FILE_NAME: u32 = 1;
    /// One 32-bit number: `$SII`, `$Q`.
    pub const NUMBER: u32 = 0x10;
    /// A security identifier: `$O` of `$Quota`.
    pub const SID: u32 = 0x11;
    /// Hash, then number, of a security descriptor: `$SDH`.
    pub const SECURITY_HASH: u32 = 0x12;
    /// Several 32-bit numbers: `$R`, `$O` of `$ObjId`.
    pub const NUMBERS: u32 = 0x13;
}

/// Flag of an entry: it leads to a child.
const HAS_CHILD: u16 = 1;
/// Flag of an entry: it ends the node.
const LAST: u16 = 2;
/// Bytes of an entry before its key.
const ENTRY_HEADER: usize = 0x10;
/// Bytes of a node's header.
pub const NODE_HEADER: usize = 0x10;
/// Where a block's node begins.
const BLOCK_NODE: usize = 0x18;
/// Where a block's update sequence is.
const BLOCK_SEQUENCE: usize = 0x28;

// The update sequence of a block begins behind the header of its node.
const _: () = assert!(BLOCK_NODE + NODE_HEADER <= BLOCK_SEQUENCE);

/// One entry of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexEntry<'a> {
    /// All bytes of the entry.
    pub bytes: &'a [u8],
    /// The entry's byte offset among the node's entries.
    pub offset: usize,
}

impl<'a> IndexEntry<'a> {
    /// The first 8 bytes: in an index of file names the reference of the file.
    pub fn head(&self) -> u64 {
        u64_at(self.bytes, 0)
    }

    fn flags(&self) -> u16 {
        u16_at(self.bytes, 0x0C)
    }

    /// Whether the entry ends the node. Such an entry has no key.
    pub fn is_last(&self) -> bool {
        self.flags() & LAST != 0
    }

    /// The key.
    pub fn key(&self) -> &'a [u8] {
        let length = if self.is_last() { 0 } else { usize::from(u16_at(self.bytes, 0x0A)) };
        self.bytes.get(ENTRY_HEADER..ENTRY_HEADER + length).unwrap_or(&[])
    }

    /// The data of the key, in an index of something other than file names.
    pub fn data(&self) -> &'a [u8] {
        let (at, length) = (usize::from(u16_at(self.bytes, 0)), usize::from(u16_at(self.bytes, 2)));
        self.bytes.get(at..at + length).unwrap_or(&[])
    }

    /// The virtual cluster of the child whose keys come before this one.
    pub fn child(&self) -> Option<u64> {
        (self.flags() & HAS_CHILD != 0).then(|| u64_at(self.bytes, self.bytes.len() - 8))
    }

    /// The offset of the entry after it.
    pub fn end(&self) -> usize {
        self.offset + self.bytes.len()
    }

    /// The entry's bytes with another child, or none.
    pub fn with_child(&self, child: Option<u64>) -> Vec<u8> {
        let length = self.bytes.len() - if self.child().is_some() { 8 } else { 0 };
        let mut bytes = self.bytes[..length].to_vec();
        bytes.extend(child.map(u64::to_le_bytes).into_iter().flatten());
        let all = bytes.len() as u16;
        put(&mut bytes, 8, all);
        put(&mut bytes, 0x0C, self.flags() & !HAS_CHILD | if child.is_some() { HAS_CHILD } else { 0 });
        bytes
    }
}

/// The bytes of an entry of an index of file names: a file's reference and its `$FILE_NAME`.
pub fn name_entry(reference: super::Reference, file_name: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; (ENTRY_HEADER + file_name.len()).next_multiple_of(8)];
    let length = bytes.len() as u16;
    put(&mut bytes, 0, reference.0);
    put(&mut bytes, 8, length);
    put(&mut bytes, 0x0A, file_name.len() as u16);
    bytes[ENTRY_HEADER..ENTRY_HEADER + file_name.len()].copy_from_slice(file_name);
    bytes
}

/// The bytes of an entry of another index: a key and its data.
pub fn view_entry(key: &[u8], data: &[u8]) -> Vec<u8> {
    let data_at = ENTRY_HEADER + key.len();
    let mut bytes = vec![0; (data_at + data.len()).next_multiple_of(8)];
    let length = bytes.len() as u16;
    if !data.is_empty() {
        put(&mut bytes, 0, data_at as u16);
        put(&mut bytes, 2, data.len() as u16);
    }
    put(&mut bytes, 8, length);
    put(&mut bytes, 0x0A, key.len() as u16);
    bytes[ENTRY_HEADER..data_at].copy_from_slice(key);
    bytes[data_at..data_at + data.len()].copy_from_slice(data);
    bytes
}

/// The bytes of the entry that ends a node.
pub fn last_entry(child: Option<u64>) -> Vec<u8> {
    let mut bytes = vec![0; ENTRY_HEADER];
    put(&mut bytes, 8, ENTRY_HEADER as u16);
    put(&mut bytes, 0x0C, LAST);
    let plain = IndexEntry { bytes: &bytes, offset: 0 };
    plain.with_child(child)
}

/// A checked node's entries, the last one included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexNode {
    /// The bytes of the entries.
    pub entries: Vec<u8>,
}

/// Goes through entries that [`IndexNode::from_bytes`] would accept.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Iterator for Entries<'a> {
    type Item = IndexEntry<'a>;

    fn next(&mut self) -> Option<IndexEntry<'a>> {
        let rest = self.bytes.get(self.offset..).filter(|rest| rest.len() >= ENTRY_HEADER)?;
        let bytes = rest.get(..usize::from(u16_at(rest, 8)).max(ENTRY_HEADER))?;
        let entry = IndexEntry { bytes, offset: self.offset };
        self.offset += bytes.len();
        Some(entry)
    }
}

/// The entries of a checked node, without copying; `node` begins with the node's header.
pub fn entries_of(node: &[u8]) -> Entries<'_> {
    Entries { bytes: entry_bytes(node), offset: 0 }
}

/// The bytes of the entries of a checked node, which begins with its header.
pub fn entry_bytes(node: &[u8]) -> &[u8] {
    let (from, to) = (u32_at(node, 0) as usize, u32_at(node, 4) as usize);
    node.get(from..to).unwrap_or(&[])
}

/// The node in the bytes of a checked index block.
pub fn block_node(block: &[u8]) -> &[u8] {
    block.get(BLOCK_NODE..).unwrap_or(&[])
}

/// Replaces `length` bytes among the entries of a checked index block, and returns the replaced bytes; `None`, with
/// nothing changed, if there is no room for `with`.
pub fn splice(block: &mut [u8], offset: usize, length: usize, with: &[u8]) -> Option<Box<[u8]>> {
    let node = block.get_mut(BLOCK_NODE..)?;
    let (from, to, allocated) =
        (u32_at(node, 0) as usize, u32_at(node, 4) as usize, u32_at(node, 8) as usize);
    let (start, end) = (from + offset, from + offset + length);
    let new_end = (to + with.len()).checked_sub(length)?;
    if end > to || new_end > allocated.min(node.len()) {
        return None;
    }
    let old = node[start..end].into();
    node.copy_within(end..to, start + with.len());
    node[start..start + with.len()].copy_from_slice(with);
    if new_end < to {
        node[new_end..to].fill(0);
    }
    put(node, 4, new_end as u32);
    Some(old)
}

/// The node in the value of a checked `$INDEX_ROOT`.
pub fn root_node(value: &[u8]) -> &[u8] {
    value.get(IndexRoot::HEADER..).unwrap_or(&[])
}

impl IndexNode {
    /// An empty leaf.
    pub fn empty() -> IndexNode {
        IndexNode { entries: last_entry(None) }
    }

    /// Reads a node from its header to the end of its attribute or block.
    ///
    /// # Errors
    /// [`Error::Damaged`] if an entry is not inside, the last one is missing or in the middle, or some entries lead to
    /// children and others do not.
    pub fn from_bytes(bytes: &[u8], structure: &'static str, at: u64) -> Result<IndexNode> {
        Ok(IndexNode { entries: IndexNode::checked(bytes, structure, at)?.to_vec() })
    }

    /// The entries of a node, after the checks of [`IndexNode::from_bytes`].
    fn checked<'a>(bytes: &'a [u8], structure: &'static str, at: u64) -> Result<&'a [u8]> {
        let (from, to) = (u32_at(bytes, 0) as usize, u32_at(bytes, 4) as usize);
        let allocated = u32_at(bytes, 8) as usize;
        if from < NODE_HEADER || from > to || to > bytes.len() || allocated < to || !from.is_multiple_of(8) {
            let expected = format!("entries between 16 and {}", bytes.len());
            return Err(Error::damaged(structure, at, expected, format!("{from} to {to} of {allocated}")));
        }
        let children = bytes[12] & 1 != 0;
        let entries = &bytes[from..to];
        let mut position = 0;
        loop {
            let place = at + (from + position) as u64;
            let rest = entries.get(position..).unwrap_or(&[]);
            let (length, key) = (usize::from(u16_at(rest, 8)), usize::from(u16_at(rest, 0x0A)));
            let flags = u16_at(rest, 0x0C);
            let tail = if flags & HAS_CHILD != 0 { 8 } else { 0 };
            let key = if flags & LAST != 0 { 0 } else { key };
            if rest.len() < ENTRY_HEADER || length > rest.len() || length < ENTRY_HEADER + key + tail {
                let expected = format!("an entry with a key of {key} bytes inside {}", rest.len());
                return Err(Error::damaged(structure, place, expected, format!("{length} bytes")));
            }
            if !length.is_multiple_of(8) {
                return Err(Error::damaged(structure, place + 8, "a length that is a multiple of 8", length));
            }
            if (tail != 0) != children {
                let expected = if children { "an entry with a child" } else { "an entry without a child" };
                return Err(Error::damaged(structure, place + 0x0C, expected, format!("flags {flags:#x}")));
            }
            position += length;
            if flags & LAST != 0 && position < entries.len() {
                // Entries behind the last one would be left out silently.
                let expected = format!("the last entry at the end of {} bytes", entries.len());
                return Err(Error::damaged(structure, place + 0x0C, expected, format!("one at {position}")));
            }
            if flags & LAST != 0 {
                return Ok(entries);
            }
        }
    }

    /// The entries, the last one included.
    pub fn iter(&self) -> Entries<'_> {
        Entries { bytes: &self.entries, offset: 0 }
    }

    /// Whether the entries lead to children.
    pub fn has_children(&self) -> bool {
        self.iter().next().is_some_and(|entry| entry.child().is_some())
    }

    /// Inserts an entry at an offset.
    pub fn insert(&mut self, offset: usize, entry: &[u8]) {
        self.entries.splice(offset..offset, entry.iter().copied());
    }

    /// Replaces the entry at an offset by any number of others.
    pub fn replace(&mut self, offset: usize, with: &[u8]) {
        let length = usize::from(u16_at(&self.entries, offset + 8));
        self.entries.splice(offset..offset + length, with.iter().copied());
    }

    fn store(&self, bytes: &mut [u8], from: usize) {
        let end = from + self.entries.len();
        let allocated = bytes.len() as u32;
        put(bytes, 0, from as u32);
        put(bytes, 4, end as u32);
        put(bytes, 8, allocated);
        put(bytes, 12, u32::from(self.has_children()));
        bytes[from..end].copy_from_slice(&self.entries);
    }
}

/// The value of `$INDEX_ROOT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexRoot {
    /// The attribute type that the index is of, at 0x00: `$FILE_NAME`, or 0.
    pub kind: Kind,
    /// How its keys are ordered, at 0x04: see [`collation`].
    pub collation: u32,
    /// Bytes per block, at 0x08.
    pub block: u32,
    /// Clusters (or, where a block is smaller than a cluster, 512-byte units) per block, at 0x0C.
    pub clusters_per_block: u8,
    /// The root node, at 0x10.
    pub node: IndexNode,
}

impl IndexRoot {
    /// Bytes before the node's header.
    pub const HEADER: usize = 0x10;

    /// An empty index with blocks of `block` bytes on a volume with clusters of `cluster` bytes.
    pub fn new(kind: Kind, collation: u32, block: u32, cluster: u64) -> IndexRoot {
        let unit = vcn_unit(block, cluster);
        let clusters_per_block = (u64::from(block) / unit) as u8;
        IndexRoot { kind, collation, block, clusters_per_block, node: IndexNode::empty() }
    }

    /// Reads a value.
    ///
    /// # Errors
    /// [`Error::Damaged`] for impossible sizes or a damaged node.
    pub fn from_bytes(bytes: &[u8], at: u64) -> Result<IndexRoot> {
        let (block, entries) = IndexRoot::checked(bytes, at)?;
        Ok(IndexRoot {
            kind: Kind(u32_at(bytes, 0)),
            collation: u32_at(bytes, 4),
            block,
            clusters_per_block: bytes[0x0C],
            node: IndexNode { entries: entries.to_vec() },
        })
    }

    /// Bytes per block and the entries of a value that [`IndexRoot::from_bytes`] would read.
    fn checked(bytes: &[u8], at: u64) -> Result<(u32, &[u8])> {
        if bytes.len() < IndexRoot::HEADER + NODE_HEADER {
            return Err(Error::damaged("$INDEX_ROOT", at, "at least 32 bytes", bytes.len()));
        }
        let block = u32_at(bytes, 8);
        if !block.is_power_of_two() || !(512..=65536).contains(&block) {
            return Err(Error::damaged("$INDEX_ROOT", at + 8, "blocks of 512 bytes to 64 KiB", block));
        }
        let node_at = at + IndexRoot::HEADER as u64;
        Ok((block, IndexNode::checked(&bytes[IndexRoot::HEADER..], "$INDEX_ROOT", node_at)?))
    }

    /// Bytes per block in a value of `$INDEX_ROOT`, which is checked as a whole.
    ///
    /// # Errors
    /// As [`IndexRoot::from_bytes`].
    pub fn block_of(bytes: &[u8], at: u64) -> Result<u32> {
        Ok(IndexRoot::checked(bytes, at)?.0)
    }

    /// The value's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; IndexRoot::HEADER + NODE_HEADER + self.node.entries.len()];
        put(&mut bytes, 0, self.kind.0);
        put(&mut bytes, 4, self.collation);
        put(&mut bytes, 8, self.block);
        bytes[0x0C] = self.clusters_per_block;
        self.node.store(&mut bytes[IndexRoot::HEADER..], NODE_HEADER);
        bytes
    }
}

/// Bytes per virtual cluster as an index with blocks of `block` bytes counts them: clusters, or units of 512 bytes
/// where a block is smaller than a cluster.
pub fn vcn_unit(block: u32, cluster: u64) -> u64 {
    if u64::from(block) < cluster { 512 } else { cluster }
}

/// A block of `$INDEX_ALLOCATION`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexBlock {
    /// Log sequence number of its last change, at 0x08.
    pub lsn: u64,
    /// The block's own virtual cluster in units of [`vcn_unit`], at 0x10.
    pub vcn: u64,
    /// The number of its update sequence as it was last written.
    pub update: u16,
    /// The block's node, at 0x18.
    pub node: IndexNode,
}

impl IndexBlock {
    /// The bytes that a block begins with.
    pub const SIGNATURE: &'static [u8; 4] = b"INDX";

    /// Bytes of entries that a block of `size` has room for.
    pub fn room(size: u32) -> usize {
        size as usize - BLOCK_NODE - IndexBlock::entries_at(size as usize)
    }

    fn entries_at(size: usize) -> usize {
        (BLOCK_SEQUENCE + fixup::fields(size) * 2).next_multiple_of(8) - BLOCK_NODE
    }

    /// Reads a block whose update sequence was removed.
    ///
    /// # Errors
    /// [`Error::Damaged`] if it is no index block or not the one at `vcn`, or if its node is damaged.
    pub fn from_bytes(bytes: &[u8], vcn: u64, at: u64) -> Result<IndexBlock> {
        let entries = IndexBlock::checked(bytes, vcn, at)?;
        Ok(IndexBlock {
            lsn: u64_at(bytes, 8),
            vcn,
            update: u16_at(bytes, usize::from(u16_at(bytes, 4))),
            node: IndexNode { entries: entries.to_vec() },
        })
    }

    fn checked(bytes: &[u8], vcn: u64, at: u64) -> Result<&[u8]> {
        if bytes.get(..4) != Some(IndexBlock::SIGNATURE) {
            let found = String::from_utf8_lossy(bytes.get(..4).unwrap_or(bytes)).into_owned();
            return Err(Error::damaged("index block", at, "\"INDX\"", format!("{found:?}")));
        }
        if u64_at(bytes, 0x10) != vcn {
            return Err(Error::damaged(
                "index block",
                at + 0x10,
                format!("virtual cluster {vcn}"),
                u64_at(bytes, 0x10),
            ));
        }
        IndexNode::checked(block_node(bytes), "index block", at + BLOCK_NODE as u64)
    }

    /// Checks a block as [`IndexBlock::from_bytes`] does.
    ///
    /// # Errors
    /// As [`IndexBlock::from_bytes`].
    pub fn check(bytes: &[u8], vcn: u64, at: u64) -> Result<()> {
        IndexBlock::checked(bytes, vcn, at).map(drop)
    }

    /// The block's bytes for a block of `size`, its update sequence not yet applied; `None` if the entries do not fit.
    pub fn to_bytes(&self, size: u32) -> Option<Vec<u8>> {
        if self.node.entries.len() > IndexBlock::room(size) {
            return None;
        }
        let size = size as usize;
        let mut bytes = vec![0; size];
        bytes[..4].copy_from_slice(IndexBlock::SIGNATURE);
        put(&mut bytes, 4, BLOCK_SEQUENCE as u16);
        put(&mut bytes, 6, fixup::fields(size) as u16);
        put(&mut bytes, 8, self.lsn);
        put(&mut bytes, 0x10, self.vcn);
        put(&mut bytes, BLOCK_SEQUENCE, self.update);
        self.node.store(&mut bytes[BLOCK_NODE..], IndexBlock::entries_at(size));
        Some(bytes)
    }
}

const _: () = assert!(
    BLOCK_NODE + NODE_HEADER == BLOCK_SEQUENCE,
    "the update sequence of a block follows its node header"
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Reference;

    #[test]
    fn entries_are_put_in_and_read_back() {
        let mut node = IndexNode::empty();
        node.insert(0, &name_entry(Reference::new(7, 2), &[9; 70]));
        let first = node.iter().next().unwrap();
        assert_eq!((first.head(), first.key(), first.child()), (7 | 2 << 48, &[9; 70][..], None));
        let lead = first.with_child(Some(4));
        node.replace(0, &lead);
        let end = node.iter().nth(1).unwrap();
        let (offset, with) = (end.offset, end.with_child(Some(8)));
        node.replace(offset, &with);
        let block = IndexBlock { lsn: 1, vcn: 3, update: 1, node };
        let bytes = block.to_bytes(4096).unwrap();
        let again = IndexBlock::from_bytes(&bytes, 3, 0).unwrap();
        assert_eq!(again, block);
        assert!(again.node.has_children());
        assert_eq!(again.node.iter().filter_map(|entry| entry.child()).collect::<Vec<_>>(), [4, 8]);
        assert!(IndexBlock::from_bytes(&bytes, 4, 0).is_err());
        let root = IndexRoot {
            kind: Kind::FILE_NAME,
            collation: 1,
            block: 4096,
            clusters_per_block: 1,
            node: block.node,
        };
        assert_eq!(IndexRoot::from_bytes(&root.to_bytes(), 0).unwrap(), root);
    }

    #[test]
    fn entries_are_replaced_in_place_as_in_a_node_of_its_own() {
        let mut node = IndexNode::empty();
        for number in 0..3u8 {
            node.insert(0, &name_entry(Reference::new(7, 2), &[number; 70]));
        }
        let block = |node: &IndexNode| {
            IndexBlock { lsn: 1, vcn: 3, update: 1, node: node.clone() }.to_bytes(4096).unwrap()
        };
        let mut bytes = block(&node);
        let (before, second) = (bytes.clone(), node.iter().nth(1).unwrap());
        let (offset, length, new) =
            (second.offset, second.bytes.len(), name_entry(Reference::new(9, 1), &[8; 90]));
        let old = splice(&mut bytes, offset, length, &new).unwrap();
        assert_eq!(*old, *second.bytes);
        node.replace(offset, &new);
        assert_eq!(bytes, block(&node));
        assert_eq!(splice(&mut bytes, offset, new.len(), &old).as_deref(), Some(&new[..]));
        assert_eq!(bytes, before);
        assert_eq!(splice(&mut bytes, offset, 0, &vec![0; 4096 - node.entries.len()]), None);
        assert_eq!(bytes, before);
    }

    #[test]
    fn a_view_entry_has_its_data() {
        let bytes = view_entry(&[1; 8], &[2; 20]);
        assert_eq!(bytes.len(), 0x30);
        let entry = IndexEntry { bytes: &bytes, offset: 0 };
        assert_eq!((entry.key(), entry.data()), (&[1; 8][..], &[2; 20][..]));
    }
}
