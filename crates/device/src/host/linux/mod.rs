//! Linux.

mod allocator;
mod file;
mod identity;
mod inherit;
mod kernel;
mod lock;
mod unnamed;
mod users;
mod written;

pub use allocator::{advise_large_pages, share_memory};
pub use file::{
    direct_alignment, discard, geometry, is_over_file, is_taken, is_write_protected, make_sparse, next_data,
    open, refuses_direct, start_on_disk,
};
pub use inherit::inherit_standard_files_only;
pub use kernel::{hardware, host_file_system};
pub use lock::{is_claimed, lock, writer_of};
pub use unnamed::open_unnamed;
pub use users::{file_behind, user_of};

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::time::Duration;

/// Identifies a block device; `None` if nothing that belongs to the device does.
pub fn identity(path: &Path) -> Option<OsString> {
    identity::identity(users::block_number(path)?)
}

/// Which device of which start of the system a block device is, and how much was written to it since: two words; `None`
/// if the kernel does not show them.
pub fn written(path: &Path) -> Option<String> {
    written::written(users::block_number(path)?)
}

/// The CPU time of this process so far, in user mode and in the kernel: not asked here.
pub fn cpu_times() -> (Duration, Duration) {
    Default::default()
}

/// The memory of the machine and what of it is available, in bytes; 0 for what is unknown: not asked here.
pub fn memory() -> (u64, u64) {
    (0, 0)
}

/// The bytes that are free in the file system that holds a path, and the bytes of its allocation unit: not asked here.
///
/// # Errors
/// Always.
pub fn free_space(_path: &Path) -> io::Result<(u64, u64)> {
    Err(io::ErrorKind::Unsupported.into())
}
