//! Rows that a directory has lost, and that are found elsewhere on the device.

use crate::layout::PageReference;
use platter_device::Device;
use platter_vfs::Result;
use std::sync::Arc;

/// The tree of a directory of which a part cannot be read.
pub(crate) struct LostTree {
    /// The directory's number.
    pub table: u64,
    /// The root of its tree.
    pub root: PageReference,
}

/// A row that belongs in the lost part of a directory.
pub(crate) struct LostRow {
    /// The row's key, flags and value.
    pub row: (Vec<u8>, u16, Vec<u8>),
    /// The clusters that the row leads to: first virtual cluster and number of each run. `None` where they cannot be
    /// read, as in a damaged row.
    pub places: Option<Vec<(u64, u64)>>,
    /// Whether the page that the row stands in fails its checksum.
    pub is_damaged: bool,
}

/// Functions that look through a whole device.
#[derive(Clone, Copy)]
pub(crate) struct FindLost {
    /// Finds the rows that the given directories have lost. The last argument is the volume's upper-case table. Returns
    /// the rows by directory number; a directory is left out if it is not known which clusters its lost rows lead to.
    pub rows: FindRows,
    /// Counts the files that a recovery would copy, without those that were deleted.
    pub files: fn(Arc<dyn Device>) -> Result<u64>,
}

/// See [`FindLost::rows`].
pub(super) type FindRows = fn(Arc<dyn Device>, &[LostTree], &[u16]) -> Result<Vec<(u64, Vec<LostRow>)>>;
