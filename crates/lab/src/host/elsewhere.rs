//! Systems other than Linux: what is asked on all of them in the same way, and what is not known.

use super::{System, UserAndSystem};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

fn not_here(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, format!("{what} on Linux only"))
}

/// What the system tells of itself.
pub(crate) fn system() -> System {
    let host = std::env::var("COMPUTERNAME").or_else(|_| std::env::var("HOSTNAME")).unwrap_or_default();
    System {
        host,
        machine_id: String::new(),
        cpu: std::env::var("PROCESSOR_IDENTIFIER").ok(),
        kernel: std::env::consts::OS.into(),
        os: std::env::var("OS").ok(),
    }
}

/// Whether this user may do everything is not asked.
pub(crate) fn is_root() -> bool {
    false
}

/// The size of a memory page in bytes.
pub(crate) fn page_size() -> Option<u64> {
    None
}

/// The bytes that are free for this user in the file system that holds a path, and the bytes of its allocation unit.
pub(crate) fn free_space(path: &Path) -> io::Result<(u64, u64)> {
    platter_device::host::free_space(path)
}

/// Nothing is dropped from the cache.
pub(crate) fn forget_cached(_file: &File) -> io::Result<()> {
    Ok(())
}

/// Clusters are not shared.
pub(crate) fn copy_range(_from: &File, _offset: u64, _to: &File, _at: u64, _length: u64) -> io::Result<u64> {
    Err(not_here("clusters are shared"))
}

/// The number of the file system that holds a path; 0 where it is not known.
pub(crate) fn file_system_number(path: &Path) -> u64 {
    platter_device::host::file_id(path).map_or(0, |id| id.file_system())
}

/// The bytes of a file.
pub(crate) fn allocated(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |data| data.len())
}

/// The CPU time of this process so far.
pub(crate) fn cpu() -> UserAndSystem {
    platter_device::host::cpu_times()
}

/// Not known.
pub(crate) fn cpu_of_children() -> UserAndSystem {
    UserAndSystem::default()
}

/// There is no such limit.
pub(crate) fn memory_limit_of_process() -> u64 {
    u64::MAX
}

/// Nothing is mounted.
pub(crate) fn mount(_block: &Path, _at: &Path, _kind: &str, _options: &str) -> io::Result<()> {
    Err(not_here("file systems are mounted"))
}

/// See [`mount`].
pub(crate) fn unmount(_at: &Path) -> io::Result<()> {
    Err(not_here("file systems are unmounted"))
}

/// Makes a directory.
pub(crate) fn make_private_directory(path: &Path) -> io::Result<()> {
    std::fs::create_dir(path)
}

/// There are no groups.
pub(crate) fn own_group(_command: &mut Command) {}

/// Devices have no directory.
pub(crate) fn is_missing_device(_path: &Path) -> bool {
    false
}

/// Transfers are not counted.
pub(crate) fn statistics_of_block(_path: &Path) -> Option<PathBuf> {
    None
}
