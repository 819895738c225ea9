//! Systems of POSIX that are not Linux: what they have of extended attributes, holes and special files is not used.

use super::Layout;
use platter_vfs::linux::{LinuxAttributes, Special};
use platter_vfs::{Change, DosFlags};
use std::fs::{File, FileTimes};
use std::io;
use std::path::Path;

/// None are read.
pub(crate) fn extended_names(_path: &Path) -> io::Result<Vec<Vec<u8>>> {
    Ok(Vec::new())
}

/// See [`extended_names`].
pub(crate) fn extended_value(_path: &Path, _name: &[u8]) -> io::Result<Vec<u8>> {
    Err(io::ErrorKind::Unsupported.into())
}

/// None are set.
pub(crate) fn set_extended(_path: &Path, _name: &[u8], _value: &[u8]) -> io::Result<()> {
    Err(rustix::io::Errno::NOTSUP.into())
}

/// There are none.
pub(crate) fn flags(_path: &Path) -> Option<DosFlags> {
    None
}

/// There are none.
pub(crate) fn set_flags(_path: &Path, _flags: DosFlags) -> io::Result<()> {
    Err(rustix::io::Errno::NOTSUP.into())
}

/// All of a file counts as content.
pub(crate) fn layout(_file: &File, size: u64) -> Layout {
    Layout { data: (size > 0).then_some(0..size).into_iter().collect(), has_holes: false }
}

/// None are made.
pub(crate) fn make_special(_path: &Path, _special: Special, _owner: &LinuxAttributes) -> io::Result<bool> {
    Ok(false)
}

/// Sets the times of the file at a path; those of a symbolic link stay.
pub(crate) fn set_times(path: &Path, change: &Change) -> io::Result<()> {
    if path.is_symlink() {
        return Ok(());
    }
    let mut times = FileTimes::new();
    if let Some(time) = change.modified.and_then(|time| time.to_system_time()) {
        times = times.set_modified(time);
    }
    if let Some(time) = change.accessed.and_then(|time| time.to_system_time()) {
        times = times.set_accessed(time);
    }
    File::open(path)?.set_times(times)
}
