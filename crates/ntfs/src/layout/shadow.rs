//! The structures of shadow copies (Volume Shadow Copy Service): a header in `$Boot`, the blocks of the catalog and of the
//! stores, and the entries in them.
//!
//! Source: the libvshadow project's format documentation
//! (<https://github.com/libyal/libvshadow/blob/main/documentation/Volume%20Shadow%20Snapshot%20(VSS)%20format.asciidoc>),
//! and a volume on which Windows made two shadow copies. All offsets are bytes from the start of the volume.

use super::FileTime;
use super::bytes::{u32_at, u64_at};
use platter_vfs::{Error, Result};

/// Bytes of a block: of the catalog, of the lists of a store, and of the data that is kept.
pub const BLOCK: u64 = 0x4000;
/// Where the volume has the header.
pub const HEADER: u64 = 0x1E00;
/// Bytes of an entry of the catalog, and of the header of a block.
pub const ENTRY: usize = 128;

/// The GUID 3808876b-c176-4e48-b7ae-04046e6cc752, with which the header and each block begin.
pub const IDENTIFIER: [u8; 16] =
    [0x6B, 0x87, 0x08, 0x38, 0x76, 0xC1, 0x48, 0x4E, 0xB7, 0xAE, 0x04, 0x04, 0x6E, 0x6C, 0xC7, 0x52];

/// What a block holds, at 0x14 of it.
pub mod block_kind {
    /// Entries of the catalog.
    pub const CATALOG: u32 = 2;
    /// Descriptors of blocks that are kept.
    pub const BLOCK_LIST: u32 = 3;
    /// The first block of a store.
    pub const STORE: u32 = 4;
    /// The ranges of the volume in which a store lies.
    pub const RANGES: u32 = 5;
    /// A bitmap of blocks.
    pub const BITMAP: u32 = 6;
}

/// The offset of the first block of the catalog that a header (at least 0x38 bytes from [`HEADER`] on) names; 0 if
/// there is no catalog, which is so on a volume without shadow copies. `None` if the bytes are no such header.
pub fn catalog_of(header: &[u8]) -> Option<u64> {
    (header.len() >= 0x38 && header[..16] == IDENTIFIER).then(|| u64_at(header, 0x30))
}

/// Reads the header of a block of this kind at device offset `at`, and returns the offset of the next block of its
/// list, 0 after the last.
///
/// # Errors
/// [`Error::Damaged`] for any other bytes.
pub fn next_block(block: &[u8], kind: u32, at: u64) -> Result<u64> {
    if block.get(..16) != Some(&IDENTIFIER[..]) {
        let found = guid(block);
        return Err(Error::damaged("block of a shadow copy", at, guid(&IDENTIFIER), found));
    }
    match u32_at(block, 0x14) {
        found if found == kind => Ok(u64_at(block, 0x28)),
        found => Err(Error::damaged("block of a shadow copy", at + 0x14, format!("kind {kind}"), found)),
    }
}

/// An entry of the catalog, 128 bytes. A shadow copy has one of each kind, in any order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CatalogEntry {
    /// Says that a shadow copy exists.
    Copy {
        /// Names the store, and its file in `System Volume Information`.
        store: [u8; 16],
        /// Bytes of the volume.
        size: u64,
        /// When it was made.
        created: FileTime,
    },
    /// Says where its store is.
    Store {
        /// Names the store.
        store: [u8; 16],
        /// The first block of the list of blocks that it keeps.
        list: u64,
        /// The first block of the bitmap of blocks that it need not keep.
        bitmap: u64,
        /// The first block of the bitmap of the shadow copy before it; 0 without one.
        earlier_bitmap: u64,
    },
    /// Not used.
    Free,
}

impl CatalogEntry {
    /// Reads an entry. Kinds that are not known are taken for free ones.
    pub fn from_bytes(bytes: &[u8]) -> CatalogEntry {
        let mut store = [0; 16];
        store.iter_mut().zip(bytes.iter().skip(0x10)).for_each(|(to, from)| *to = *from);
        match u64_at(bytes, 0) {
            2 => CatalogEntry::Copy { store, size: u64_at(bytes, 8), created: FileTime(u64_at(bytes, 0x30)) },
            3 => CatalogEntry::Store {
                store,
                list: u64_at(bytes, 8),
                bitmap: u64_at(bytes, 0x30),
                earlier_bitmap: u64_at(bytes, 0x48),
            },
            _ => CatalogEntry::Free,
        }
    }
}

/// A descriptor of a block that a store keeps, 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockDescriptor {
    /// Where the block was on the volume.
    pub original: u64,
    /// Where its content is in the store, or, of a forwarder, where it went on the volume.
    pub relative: u64,
    /// Where its content is on the volume.
    pub kept: u64,
    /// [`descriptor_flags`].
    pub flags: u32,
    /// Of an overlay, a bit for each 512 bytes of the block that it has.
    pub bitmap: u32,
}

/// Flags of a [`BlockDescriptor`].
pub mod descriptor_flags {
    /// The content is that of another block.
    pub const FORWARDER: u32 = 1;
    /// It has a part of the block only.
    pub const OVERLAY: u32 = 2;
    /// It is not used.
    pub const UNUSED: u32 = 4;
}

impl BlockDescriptor {
    /// Bytes of a descriptor.
    pub const LENGTH: usize = 32;

    /// Reads a descriptor; `None` for an empty one, with which a list may end.
    pub fn from_bytes(bytes: &[u8]) -> Option<BlockDescriptor> {
        let descriptor = BlockDescriptor {
            original: u64_at(bytes, 0),
            relative: u64_at(bytes, 8),
            kept: u64_at(bytes, 16),
            flags: u32_at(bytes, 24),
            bitmap: u32_at(bytes, 28),
        };
        bytes.iter().any(|byte| *byte != 0).then_some(descriptor)
    }
}

/// The text of a GUID as Windows writes it, without braces.
pub fn guid(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (index, place) in [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15].into_iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{:02x}", bytes.get(place).copied().unwrap_or(0)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identifier_is_that_of_the_files() {
        assert_eq!(guid(&IDENTIFIER), "3808876b-c176-4e48-b7ae-04046e6cc752");
    }

    #[test]
    fn a_header_names_the_catalog() {
        let mut header = vec![0; 100];
        assert_eq!(catalog_of(&header), None);
        header[..16].copy_from_slice(&IDENTIFIER);
        assert_eq!(catalog_of(&header), Some(0));
        header[0x31] = 0x40;
        assert_eq!(catalog_of(&header), Some(0x4000));
        assert_eq!(catalog_of(&header[..0x37]), None);
    }
}
