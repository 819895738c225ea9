//! What this program asks of the operating system: one module for each, all with the same functions.
//!
//! Nothing else in this crate calls the system by other means than the standard library's portable functions, except
//! the queues in `rings`.

use std::ffi::OsStr;

#[cfg(any(windows, test))]
pub(crate) mod control;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod no_ending;
#[cfg(not(target_os = "linux"))]
mod no_groups;
#[cfg(all(unix, not(target_os = "linux")))]
mod plain;
#[cfg(unix)]
mod posix;
#[cfg(any(windows, test))]
mod settings;
#[cfg(windows)]
mod windows;

#[cfg(target_os = "linux")]
use linux as system;
#[cfg(all(unix, not(target_os = "linux")))]
use plain as system;
#[cfg(windows)]
use windows as system;

#[cfg(unix)]
use posix as files;
#[cfg(windows)]
use windows as files;

pub use files::{
    FileId, cpu_times, directory_of_records, drive_letters, entry_id, file_id, free_space, host_string,
    integrity, is_disk, make_link, make_with_mode, name_of_disk, permissions, read_exact_at, read_some_at,
    set_integrity, sync_directory, write_all_at,
};
pub(crate) use files::{changed, integrity_of, kind, kind_of, make_private, set_integrity_of, share};
#[cfg(target_os = "linux")]
pub use linux::{Ending, is_ending, memory_left, memory_limit};
#[cfg(not(target_os = "linux"))]
pub use no_ending::{Ending, is_ending};
#[cfg(not(target_os = "linux"))]
pub use no_groups::{memory_left, memory_limit};
pub(crate) use system::{
    advise_large_pages, direct_alignment, discard, geometry, identity, is_over_file, is_taken,
    is_write_protected, lock, make_sparse, next_data, open, open_unnamed, refuses_direct, start_on_disk,
    user_of, written,
};
pub use system::{
    file_behind, hardware, host_file_system, inherit_standard_files_only, is_claimed, memory, share_memory,
    writer_of,
};

#[cfg(windows)]
pub use windows::{
    Job, flush_volume, links, on_interrupt, power_plan, real_time_protection, set_attributes, streams,
    wait_for_end,
};

/// The reason if the system refuses exclusive access to a block device and no user of it can be found.
pub const IN_USE: &str = "is in use";

/// What a process is called that has a lock and that the system does not name.
pub(crate) const SOMEBODY: &str = "another process";

/// What is at a path. Not all systems have all of these.
#[allow(dead_code)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    File,
    /// A block device.
    Disk,
    Directory,
    Fifo,
    Socket,
    CharacterDevice,
    Other,
}

/// How a file or block device is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    pub read_only: bool,
    /// Whether transfers bypass the cache of the system.
    pub is_direct: bool,
    /// Whether opening a block device fails while the system uses it. Some systems open none.
    #[allow(dead_code)]
    pub claims: bool,
    /// Whether a file that is not there is made.
    pub makes: bool,
    /// Whether a file that is there is an error.
    pub makes_new: bool,
}

/// The bytes of a string of the system: on POSIX the string itself, on Windows its form in generalised UTF-8 (WTF-8), in
/// which every ASCII character is its own byte. [`host_string`] is the way back.
pub trait HostBytes {
    /// The bytes.
    fn as_bytes(&self) -> &[u8];
}

impl HostBytes for OsStr {
    fn as_bytes(&self) -> &[u8] {
        self.as_encoded_bytes()
    }
}

/// The model and other properties of a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hardware {
    /// The model that the disk reports.
    pub model: Option<String>,
    /// Whether it has rotating platters.
    pub rotational: Option<bool>,
    /// Version of its firmware, where the system shows it.
    pub firmware: Option<String>,
    /// What its cache does with writes, in words, where the system tells it with the rest: on Windows.
    pub write_cache: Option<String>,
}
