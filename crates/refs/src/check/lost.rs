//! What is lost of a directory, and found elsewhere.

use crate::layout::PageReference;
use platter_device::Device;
use platter_vfs::Result;
use std::sync::Arc;

/// The tree of a directory of which a part cannot be read.
pub struct LostTree {
    /// The directory's number.
    pub table: u64,
    /// The root of its tree.
    pub root: PageReference,
}

/// A row that belongs into such a part.
pub struct LostRow {
    /// Its key, flags and value.
    pub row: (Vec<u8>, u16, Vec<u8>),
    /// What it leads to: virtual clusters, and how many. `None` where that cannot be read, as of a row that is damaged.
    pub places: Option<Vec<(u64, u64)>>,
    /// Whether the page that it stands in fails its checksum.
    pub is_damaged: bool,
}

/// Looks through a whole device for rows of parts that are lost, with the volume's upper-case letters. Trees of which it
/// cannot tell are left out.
pub type FindLost = fn(Arc<dyn Device>, &[LostTree], &[u16]) -> Result<Vec<(u64, Vec<LostRow>)>>;
