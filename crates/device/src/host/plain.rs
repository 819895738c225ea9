//! Systems of POSIX that are not Linux, such as macOS and FreeBSD: image files with the calls that all of them have.
//! Block devices are not opened, and nobody can be named who uses a file.

use crate::host::{Hardware, Opening, SOMEBODY};
use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};

/// Opens a file. On macOS direct I/O is a setting of the open file (`F_NOCACHE`, fcntl(2)), elsewhere a flag
/// (`O_DIRECT`, open(2)).
pub(crate) fn open(path: &Path, opening: &Opening) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(!opening.read_only).create(opening.makes).create_new(opening.makes_new);
    #[cfg(not(target_vendor = "apple"))]
    if opening.is_direct {
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_DIRECT);
    }
    let file = options.open(path)?;
    #[cfg(target_vendor = "apple")]
    if opening.is_direct {
        use std::os::fd::AsRawFd;
        // SAFETY: the command only sets a flag of the open file.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_NOCACHE, 1) } == -1 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(file)
}

/// Whether opening failed because the file system has no direct I/O.
pub(crate) fn refuses_direct(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EINVAL)
}

/// Whether opening failed because another process has the file.
pub(crate) fn is_taken(_error: &io::Error) -> bool {
    false
}

/// Makes a file in a directory and removes its name at once.
pub(crate) fn open_unnamed(directory: &Path, direct: bool) -> io::Result<File> {
    // `RandomState` is the standard library's access to the system's random numbers.
    let path = directory.join(format!(".platter-{:016x}.tmp", RandomState::new().hash_one(())));
    let opening =
        Opening { read_only: false, is_direct: direct, claims: false, makes: false, makes_new: true };
    let file = open(&path, &opening)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

/// Holes need no setting here.
pub(crate) fn make_sparse(_file: &File) {}

/// Block devices are not opened on this system.
pub(crate) fn geometry(_file: &File) -> io::Result<(u64, u32, u32)> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "disks are opened on Linux and Windows; here, an image file is",
    ))
}

/// See [`geometry`].
pub(crate) fn is_write_protected(_file: &File) -> io::Result<bool> {
    Ok(false)
}

/// The alignment that every file system accepts for direct I/O, in bytes.
pub(crate) fn direct_alignment(_file: &File) -> u32 {
    4096
}

/// See [`geometry`].
pub(crate) fn is_over_file(_file: &File) -> bool {
    false
}

/// See [`geometry`].
pub(crate) fn start_on_disk(_file: &File) -> Option<u64> {
    None
}

/// Holes are not looked for.
pub(crate) fn next_data(_file: &File, offset: u64, _length: u64) -> u64 {
    offset
}

/// The content stays, which the contract of a device allows.
pub(crate) fn discard(
    _file: &File,
    _is_block: bool,
    _is_claimed: bool,
    _offset: u64,
    _length: u64,
) -> io::Result<()> {
    Ok(())
}

/// Locks a file until it is closed; returns who has it if another process does.
pub(crate) fn lock(file: &File, _is_block: bool, read_only: bool) -> Option<String> {
    let locked = if read_only { file.try_lock_shared() } else { file.try_lock() };
    matches!(locked, Err(TryLockError::WouldBlock)).then(|| SOMEBODY.into())
}

/// Whether another process has locked an image file.
pub fn is_claimed(path: &Path) -> bool {
    opened(path).is_some_and(|file| lock(&file, false, false).is_some())
}

/// The process that has locked an image file for writing.
pub fn writer_of(path: &Path) -> Option<String> {
    opened(path).and_then(|file| lock(&file, false, true))
}

/// Opens an image file for a question about its locks; nothing else, since opening a FIFO waits for the other end.
fn opened(path: &Path) -> Option<File> {
    if std::fs::metadata(path).ok()?.is_file() { File::open(path).ok() } else { None }
}

/// Who uses a file as a disk is not known.
pub(crate) fn user_of(path: &Path) -> io::Result<Option<String>> {
    std::fs::metadata(path).map(|_| None)
}

/// There is none.
pub fn file_behind(_path: &Path) -> Option<PathBuf> {
    None
}

/// Not known.
pub fn hardware(_path: &Path) -> Option<Hardware> {
    None
}

/// Not known.
pub fn host_file_system(_path: &Path) -> Option<String> {
    None
}

/// Not known.
pub(crate) fn identity(_path: &Path) -> Option<OsString> {
    None
}

/// Not known.
pub(crate) fn written(_path: &Path) -> Option<String> {
    None
}

/// The standard library opens no file that is inherited.
pub fn inherit_standard_files_only() {}

/// The allocator has no such setting.
pub fn share_memory() {}

/// No advice is given.
pub(crate) fn advise_large_pages(_start: *mut u8, _length: usize) {}

/// The memory of the machine and what of it is available, in bytes; 0 for what is unknown: not asked here.
pub fn memory() -> (u64, u64) {
    (0, 0)
}
