//! The structures on disk: one type for each, read through checked code and written back byte for byte.

mod allocator;
pub mod attribute;
mod boot;
pub use platter_vfs::bytes;
mod checkpoint;
mod checksum;
mod compression;
pub(crate) mod extended;
pub(crate) mod extent;
pub mod header;
pub mod legacy;
pub mod node;
pub mod page;
pub mod record;
pub(crate) mod reparse_point;
mod rows;
mod share;
pub(crate) mod stream;
mod superblock;
pub(crate) mod sync_entry;
pub(crate) mod system;
pub(crate) mod words;

pub use allocator::{AllocatorPart, AllocatorRow, AllocatorSummary, ContainerRow, ObjectRow};
pub use attribute::Attribute;
#[cfg(feature = "fuzzing")]
pub(crate) use boot::checksum as boot_checksum;
pub use boot::{BootRecord, Version};
pub use checkpoint::{Checkpoint, ROOTS, Root};
pub(crate) use checksum::crc32c;
pub use checksum::{Algorithm, Checksum};
pub use compression::CompressionPolicy;
pub use header::tree_header;
pub use node::{Row, TreeNode, TreeNodeMut};
pub use page::{PageHeader, PageReference};
pub use record::{Record, ShortEntry};
pub use rows::{LIMIT, NumberRow, ParentChildRow, make_index, make_object_link, object_link, object_links};
pub use share::ShareRow;
pub use superblock::Superblock;
