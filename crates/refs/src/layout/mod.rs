//! The structures on disk: one type for each, read through checked code and written back byte for byte.

mod allocator;
pub mod attribute;
mod boot;
pub use platter_vfs::bytes;
mod checkpoint;
mod checksum;
mod compression;
pub mod legacy;
pub mod node;
pub mod page;
pub mod record;
mod rows;
mod share;
mod superblock;

pub use allocator::{AllocatorPart, AllocatorRow, AllocatorSummary, ContainerRow, ObjectRow};
pub use attribute::Attribute;
#[cfg(feature = "fuzzing")]
pub(crate) use boot::checksum as boot_checksum;
pub use boot::{BootRecord, Version};
pub use checkpoint::{Checkpoint, ROOTS, Root};
pub(crate) use checksum::crc32c;
pub use checksum::{Algorithm, Checksum};
pub use compression::CompressionPolicy;
pub use node::{CHECKSUM_KIND, Row, TreeNode, TreeNodeMut, tree_header};
pub use page::{PageHeader, PageReference};
pub use record::{Record, ShortEntry};
pub use rows::{LIMIT, NumberRow, make_index, make_object_link, object_link, object_links};
pub use share::ShareRow;
pub use superblock::Superblock;
