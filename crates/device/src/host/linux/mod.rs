//! Linux.

mod allocator;
mod file;
mod identity;
mod inherit;
mod kernel;
mod lock;
mod memory;
mod unnamed;
mod users;
mod written;

pub(crate) use allocator::advise_large_pages;
pub use allocator::share_memory;
pub(crate) use file::{
    direct_alignment, discard, geometry, is_over_file, is_taken, is_write_protected, make_sparse, next_data,
    open, refuses_direct, start_on_disk,
};
pub use inherit::inherit_standard_files_only;
pub use kernel::{hardware, host_file_system};
pub(crate) use lock::lock;
pub use lock::{Ending, is_claimed, is_ending, writer_of};
pub use memory::{memory, memory_left, memory_limit};
pub(crate) use unnamed::open_unnamed;
pub use users::file_behind;
pub(crate) use users::user_of;

use std::ffi::OsString;
use std::path::Path;

/// Identifies a block device; `None` if nothing that belongs to the device does.
pub(crate) fn identity(path: &Path) -> Option<OsString> {
    identity::identity(users::block_number(path)?)
}

/// Which device of which start of the system a block device is, and how much was written to it since: two words; `None`
/// if the kernel does not show them.
pub(crate) fn written(path: &Path) -> Option<String> {
    written::written(users::block_number(path)?)
}
