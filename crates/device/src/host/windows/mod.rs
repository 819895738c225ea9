//! Windows.

mod console;
mod device;
mod file;
mod job;
mod lock;
mod names;
mod process;
mod settings;
mod streams;

pub use console::on_interrupt;
pub(crate) use device::{
    direct_alignment, discard, geometry, identity, is_over_file, is_write_protected, next_data,
    start_on_disk, user_of, written,
};
pub use device::{drive_letters, file_behind, flush_volume, hardware, host_file_system};
pub use file::{
    FileId, entry_id, file_id, integrity, make_link, make_with_mode, permissions, read_exact_at,
    read_some_at, set_integrity, sync_directory, write_all_at,
};
pub(crate) use file::{
    changed, integrity_of, kind, kind_of, make_private, make_sparse, open, open_unnamed, set_integrity_of,
    share,
};
pub use job::{Job, wait_for_end};
pub use lock::{is_claimed, writer_of};
pub(crate) use lock::{is_taken, lock};
pub use names::{directory_of_records, host_string, is_disk, name_of_disk};
pub use process::{cpu_times, free_space, memory};
pub use settings::{power_plan, real_time_protection};
pub use streams::{links, set_attributes, streams};

use std::io;

/// Whether opening failed because the file system has no direct I/O. Windows emulates it everywhere.
pub(crate) fn refuses_direct(_error: &io::Error) -> bool {
    false
}

/// The standard library opens no file that is inherited.
pub fn inherit_standard_files_only() {}

/// The allocator has no such setting.
pub fn share_memory() {}

/// Large pages need a privilege here.
pub(crate) fn advise_large_pages(_start: *mut u8, _length: usize) {}
