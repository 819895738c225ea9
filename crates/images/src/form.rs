//! What a container with blocks has to say of itself; the rest is the same for all of them.

use crate::bytes::unusable;
use crate::marks::Marks;
use platter_device::{Device, Growing, Result, Sectors, read_any};
use std::ops::Range;

/// The virtual disk in a container.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Its size in bytes, whole sectors.
    pub size: u64,
    /// The size of a block in bytes, a power of two of at least a sector.
    pub block: u64,
    /// Its sectors.
    pub sectors: Sectors,
}

impl Shape {
    /// The number of blocks; the last one may reach past the end of the disk.
    pub(crate) fn blocks(&self) -> u64 {
        self.size.div_ceil(self.block)
    }

    /// The bytes of a block that belong to the disk.
    pub(crate) fn used(&self, block: u64) -> u64 {
        self.block.min(self.size - block * self.block)
    }
}

/// Where the content of a block is, as its entry in the table says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// In the parent; a disk without one has zeroes there.
    Absent,
    /// Zeroes, whatever the parent has.
    Zero,
    /// At this offset of the file.
    Whole(u64),
    /// At this offset of the file, as far as marks say so.
    Marked(u64),
    /// Zeroes, with a place in the file that has something else.
    Reserved(u64),
    /// Compressed, in these bytes of the file.
    Packed(Packed),
}

/// The place of a block that is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packed {
    pub block: u64,
    pub at: u64,
    pub length: u64,
}

/// Changes of a container's own structures that one flush makes durable.
#[derive(Default)]
pub(crate) struct Changes {
    /// Pages of the table: their number, and their content.
    pub pages: Vec<(u64, Box<[u8]>)>,
    /// Blocks that were there in part and now are whole, with the offset of their content in the file.
    pub completed: Vec<(u64, u64)>,
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        self.pages.is_empty() && self.completed.is_empty()
    }
}

/// The bytes of a page of a table that is in one piece.
pub(crate) const PAGE: u64 = 4096;

/// Reads a page of a table that is in one piece.
pub(crate) fn page_of(file: &dyn Device, table: &Range<u64>, number: u64) -> Result<Box<[u8]>> {
    let offset = table.start + number * PAGE;
    let mut bytes = vec![0; PAGE.min(table.end - offset) as usize].into_boxed_slice();
    read_any(file, offset, &mut bytes)?;
    Ok(bytes)
}

/// A format of containers with a table of blocks.
pub(crate) trait Form: Send + Sync {
    /// What it is called, for example "VHDX, dynamic".
    fn name(&self) -> String;

    /// The number of bytes of a page of the table, a multiple of an entry.
    fn page_length(&self) -> u64 {
        PAGE
    }

    /// Reads a page of the table.
    fn page(&self, file: &dyn Device, number: u64) -> Result<Box<[u8]>>;

    /// The offset in the table of the entry of a block.
    fn entry_offset(&self, block: u64) -> u64;

    /// The number of bytes of an entry.
    fn entry_width(&self) -> usize;

    /// Reads the entry of a block. `end` is the length of the file.
    fn decode(&self, block: u64, bytes: &[u8], end: u64) -> Result<Kept>;

    /// The entry for a block whose content is at this offset of the file.
    fn encode(&self, at: u64, bytes: &mut [u8]);

    /// Reads the marks of a block whose content is at this offset.
    fn marks(&self, file: &dyn Device, block: u64, at: u64) -> Result<Marks>;

    /// Returns the content of a block that is compressed.
    fn unpack(&self, file: &dyn Device, packed: Packed) -> Result<Vec<u8>> {
        let reason = format!("has no compressed blocks, and one at offset {}", packed.at);
        Err(unusable(file.name(), reason))
    }

    /// Makes the file longer by a block, and returns the offset of the block's content, which reads as zeroes.
    fn extend(&self, file: &dyn Growing) -> Result<u64>;

    /// Called once before the first change of anything.
    fn begin(&self, file: &dyn Growing) -> Result<()>;

    /// Called before the flush that makes data durable on which changes of the table depend.
    fn prepare(&self, file: &dyn Growing) -> Result<()>;

    /// Makes changes durable. Everything that they depend on is durable already, and so are the changes before.
    fn commit(&self, file: &dyn Growing, changes: &Changes) -> Result<()>;
}
