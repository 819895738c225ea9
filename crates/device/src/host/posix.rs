//! What all systems of POSIX have in common.

use crate::host::FileKind;
use std::ffi::OsString;
use std::fs::{self, File, FileType, Metadata};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What is at a path, behind all links.
pub(crate) fn kind(path: &Path) -> io::Result<FileKind> {
    fs::metadata(path).map(|data| kind_of_type(data.file_type()))
}

/// What an open file is.
pub(crate) fn kind_of(file: &File) -> io::Result<FileKind> {
    file.metadata().map(|data| kind_of_type(data.file_type()))
}

fn kind_of_type(kind: FileType) -> FileKind {
    match () {
        () if kind.is_file() => FileKind::File,
        () if kind.is_block_device() => FileKind::Disk,
        () if kind.is_dir() => FileKind::Directory,
        () if kind.is_fifo() => FileKind::Fifo,
        () if kind.is_socket() => FileKind::Socket,
        () if kind.is_char_device() => FileKind::CharacterDevice,
        () => FileKind::Other,
    }
}

/// Whether a path leads to a block device.
pub fn is_disk(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|data| data.file_type().is_block_device())
}

/// Which file this is, whatever its names: the numbers of its file system and of its inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(u64, u64);

impl FileId {
    /// The number of the file system that the file is in.
    pub fn file_system(&self) -> u64 {
        self.0
    }
}

/// Which file a path leads to; `None` if there is none.
pub fn file_id(path: &Path) -> Option<FileId> {
    fs::metadata(path).ok().map(|data: Metadata| FileId(data.dev(), data.ino()))
}

/// Which file an entry of a directory is: of a symbolic link the link itself. `None` if there is none.
pub fn entry_id(path: &Path) -> Option<FileId> {
    fs::symlink_metadata(path).ok().map(|data: Metadata| FileId(data.dev(), data.ino()))
}

/// Has ReFS keep checksums of the content of a directory's new files: only Windows does.
///
/// # Errors
/// A sentence that says so.
pub fn set_integrity(_path: &Path, _is_on: bool) -> io::Result<()> {
    Err(no_integrity())
}

/// Has ReFS keep checksums of the content of an empty file: only Windows does.
pub(crate) fn set_integrity_of(_file: &File) -> io::Result<()> {
    Err(no_integrity())
}

fn no_integrity() -> io::Error {
    let why =
        "only ReFS on Windows has integrity streams; leave +integrity out, or compare with refs+integrity";
    io::Error::new(io::ErrorKind::Unsupported, why)
}

/// Whether ReFS keeps checksums of the content of a file: never here.
pub(crate) fn integrity_of(_file: &File) -> io::Result<Option<bool>> {
    Ok(None)
}

/// Whether ReFS keeps checksums of the content of a file: never here.
///
/// # Errors
/// None.
pub fn integrity(_path: &Path) -> io::Result<Option<bool>> {
    Ok(None)
}

/// The permissions of a file, and the group that they are for.
pub fn permissions(path: &Path) -> Option<(u32, u32)> {
    fs::metadata(path).ok().map(|data| (data.mode() & 0o777, data.gid()))
}

/// Makes a file with these permissions, if there is none.
pub fn make_with_mode(path: &Path, mode: u32) {
    if let Ok(file) = File::options().write(true).create_new(true).mode(mode).open(path) {
        // If this fails, the file has the permissions that the umask left.
        let _ = file.set_permissions(fs::Permissions::from_mode(mode));
    }
}

/// Makes a file that only its owner can read.
pub(crate) fn make_private(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).mode(0o600).open(path)
}

/// Gives a file these permissions, except for its group if that cannot be this one.
pub(crate) fn share(file: &File, mode: u32, group: u32) -> io::Result<()> {
    let is_theirs = file.metadata()?.gid() == group || fchown(file, None, Some(group)).is_ok();
    let mode = if is_theirs { mode } else { mode & !0o070 };
    file.set_permissions(fs::Permissions::from_mode(mode))
}

/// Length and time of the last change of a file, as text. Renaming the file changes neither.
pub(crate) fn changed(path: &Path) -> io::Result<String> {
    let data = fs::metadata(path)?;
    Ok(format!("{} {}.{:09}", data.len(), data.mtime(), data.mtime_nsec()))
}

/// Makes the names in a directory durable.
///
/// # Errors
/// The errors of the system.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// The drive letters in use: there are none.
pub fn drive_letters() -> u32 {
    0
}

/// What a block device is called in its directory.
pub fn name_of_disk(path: &Path) -> OsString {
    path.file_name().unwrap_or_default().into()
}

/// The directory in which is noted what belongs to block devices.
pub fn directory_of_records() -> PathBuf {
    PathBuf::from("/var/lib/platter")
}

/// A string of the system from the bytes that [`OsStr::as_encoded_bytes`](std::ffi::OsStr::as_encoded_bytes) returns, or from bytes of a name on a volume.
/// On Windows, what is neither text nor an unpaired surrogate becomes U+FFFD.
pub fn host_string(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_vec())
}

/// Makes a symbolic link.
///
/// # Errors
/// The errors of the system.
pub fn make_link(target: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

/// Reads from an offset of a file into a buffer, and returns how many bytes; 0 at the end of the file.
///
/// # Errors
/// The errors of the system.
pub fn read_some_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    file.read_at(buffer, offset)
}

/// Fills a buffer from an offset of a file, whose own position stays.
///
/// # Errors
/// [`io::ErrorKind::UnexpectedEof`] at the end of the file, and the errors of the system.
pub fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    file.read_exact_at(buffer, offset)
}

/// Writes all of the data at an offset of a file.
///
/// # Errors
/// The errors of the system.
pub fn write_all_at(file: &File, data: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(data, offset)
}

/// The CPU time of this process so far, in user mode and in the kernel: not asked here.
pub fn cpu_times() -> (Duration, Duration) {
    Default::default()
}

/// The bytes that are free in the file system that holds a path, and the bytes of its allocation unit: not asked here.
///
/// # Errors
/// Always.
pub fn free_space(_path: &Path) -> io::Result<(u64, u64)> {
    Err(io::ErrorKind::Unsupported.into())
}
