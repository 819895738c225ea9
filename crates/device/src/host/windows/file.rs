//! Image files, and what the system tells of files.

use super::device::Driver;
use super::names::is_disk;
use crate::host::control::{self, Control, Doing};
use crate::host::{FileKind, Opening};
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::windows::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::os::windows::io::AsRawHandle;
use std::path::Path;
use windows_sys::Win32::Storage::FileSystem::{
    FILE_ATTRIBUTE_TEMPORARY, FILE_FLAG_BACKUP_SEMANTICS, FILE_FLAG_DELETE_ON_CLOSE, FILE_FLAG_NO_BUFFERING,
    FILE_FLAG_OPEN_REPARSE_POINT, FILE_ID_INFO, FILE_SHARE_DELETE, FILE_SHARE_READ, FILE_SHARE_WRITE,
    FILE_TYPE_CHAR, FILE_TYPE_PIPE, FileIdInfo, GetFileInformationByHandleEx, GetFileType,
};

/// Opens a file or disk. Nobody can remove or rename it meanwhile.
///
/// Writing to a volume takes it from its file system first, so that nobody else writes to it.
pub(crate) fn open(path: &Path, opening: &Opening) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(!opening.read_only).create(opening.makes).create_new(opening.makes_new);
    options.share_mode(FILE_SHARE_READ | FILE_SHARE_WRITE);
    let is_disk = is_disk(path);
    if opening.is_direct {
        options.custom_flags(FILE_FLAG_NO_BUFFERING);
    }
    let file = options.open(path).map_err(|error| match is_disk {
        true => control::explained(Doing::OpenDisk, error),
        false => error,
    })?;
    if is_disk && opening.claims && !opening.read_only && is_volume(path) {
        control::take_volume(&Driver(&file))?;
    }
    Ok(file)
}

fn is_volume(path: &Path) -> bool {
    !path.to_string_lossy().to_ascii_lowercase().contains("physicaldrive")
}

/// Makes a file in a directory that is gone when it is closed, even if the process is killed.
pub(crate) fn open_unnamed(directory: &Path, direct: bool) -> io::Result<File> {
    // `RandomState` is the standard library's access to the system's random numbers.
    let path = directory.join(format!("platter-{:016x}.tmp", RandomState::new().hash_one(())));
    let mut options = File::options();
    options.read(true).write(true).create_new(true);
    options
        .share_mode(FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE)
        .attributes(FILE_ATTRIBUTE_TEMPORARY);
    let flags = if direct { FILE_FLAG_NO_BUFFERING } else { 0 };
    options.custom_flags(FILE_FLAG_DELETE_ON_CLOSE | flags);
    options.open(path)
}

/// Has zeroes of a file take no room, where the file system can do that.
pub(crate) fn make_sparse(file: &File) {
    control::make_sparse(&Driver(file));
}

/// What is at a path, behind all links.
pub(crate) fn kind(path: &Path) -> io::Result<FileKind> {
    if is_disk(path) {
        return Ok(FileKind::Disk);
    }
    // Names such as NUL and CON are devices in every directory.
    let data = fs::metadata(path)?;
    match () {
        () if data.is_dir() => Ok(FileKind::Directory),
        () => kind_of(&File::open(path)?),
    }
}

/// What an open file is.
pub(crate) fn kind_of(file: &File) -> io::Result<FileKind> {
    // SAFETY: the handle is open.
    match unsafe { GetFileType(file.as_raw_handle()) } {
        FILE_TYPE_CHAR => return Ok(FileKind::CharacterDevice),
        FILE_TYPE_PIPE => return Ok(FileKind::Fifo),
        _ => {}
    }
    match file.metadata() {
        Ok(data) if data.is_dir() => Ok(FileKind::Directory),
        Ok(_) => Ok(FileKind::File),
        Err(error) => {
            let is_disk = Driver(file).send(control::GET_LENGTH, &[], &mut [0; 8]).is_ok();
            if is_disk { Ok(FileKind::Disk) } else { Err(error) }
        }
    }
}

/// Which file this is, whatever its names: the numbers of its volume and on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(u64, [u8; 16]);

impl FileId {
    /// The number of the file system that the file is in.
    pub fn file_system(&self) -> u64 {
        self.0
    }
}

/// Which file a path leads to; `None` if there is none.
pub fn file_id(path: &Path) -> Option<FileId> {
    id_with(path, FILE_FLAG_BACKUP_SEMANTICS)
}

/// Which file an entry of a directory is: of a link the link itself. `None` if there is none.
pub fn entry_id(path: &Path) -> Option<FileId> {
    id_with(path, FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT)
}

fn id_with(path: &Path, flags: u32) -> Option<FileId> {
    let file = File::options().access_mode(0).custom_flags(flags).open(path).ok()?;
    let mut id = FILE_ID_INFO::default();
    let size = size_of::<FILE_ID_INFO>() as u32;
    // SAFETY: the handle is open, and the call fills one structure at the address given, which is live and of the size
    // that is named.
    let done =
        unsafe { GetFileInformationByHandleEx(file.as_raw_handle(), FileIdInfo, (&raw mut id).cast(), size) };
    (done != 0).then_some(FileId(id.VolumeSerialNumber, id.FileId.Identifier))
}

/// Has ReFS keep checksums of the content of an empty file or of a directory's new files, or not, and reads back that it
/// does.
///
/// # Errors
/// Where the file system has no integrity streams, and if it did not do as it was told.
pub fn set_integrity(path: &Path, is_on: bool) -> io::Result<()> {
    let mut options = File::options();
    options.read(true).write(true).custom_flags(FILE_FLAG_BACKUP_SEMANTICS);
    control::set_integrity(&Driver(&options.open(path)?), is_on)
}

/// Has ReFS keep checksums of the content of an empty file, and reads back that it does.
pub(crate) fn set_integrity_of(file: &File) -> io::Result<()> {
    control::set_integrity(&Driver(file), true)
}

/// Whether ReFS keeps checksums of the content of a file; `None` on a file system without integrity streams.
pub(crate) fn integrity_of(file: &File) -> io::Result<Option<bool>> {
    control::integrity(&Driver(file))
}

/// Whether ReFS keeps checksums of the content of a file, or of new files in a directory; `None` on a file system without
/// integrity streams.
///
/// # Errors
/// The errors of opening the file and of asking.
pub fn integrity(path: &Path) -> io::Result<Option<bool>> {
    let file = File::options().read(true).custom_flags(FILE_FLAG_BACKUP_SEMANTICS).open(path)?;
    control::integrity(&Driver(&file))
}

/// The permissions of a file and the group that they are for: of POSIX, which Windows does not have.
pub fn permissions(_path: &Path) -> Option<(u32, u32)> {
    None
}

/// The file is made by who writes to it.
pub fn make_with_mode(_path: &Path, _mode: u32) {}

/// Makes a file. It has the permissions that its directory gives it.
pub(crate) fn make_private(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).open(path)
}

/// See [`permissions`].
pub(crate) fn share(_file: &File, _mode: u32, _group: u32) -> io::Result<()> {
    Ok(())
}

/// Length and time of the last change of a file, as text. Renaming the file changes neither.
pub(crate) fn changed(path: &Path) -> io::Result<String> {
    let data = fs::metadata(path)?;
    Ok(format!("{} {}", data.len(), data.last_write_time()))
}

/// Makes the names in a directory durable: NTFS and ReFS log them in order, and a directory cannot be flushed.
///
/// # Errors
/// None.
pub fn sync_directory(_path: &Path) -> io::Result<()> {
    Ok(())
}

/// Makes a symbolic link, to a file or to a directory by what is there. Windows wants a privilege for that.
///
/// # Errors
/// The errors of the system.
pub fn make_link(target: &Path, link: &Path) -> io::Result<()> {
    let meant = link.parent().unwrap_or(link).join(target);
    match meant.is_dir() {
        true => std::os::windows::fs::symlink_dir(target, link),
        false => std::os::windows::fs::symlink_file(target, link),
    }
}

/// Reads from an offset of a file into a buffer, and returns how many bytes; 0 at the end of the file.
///
/// # Errors
/// The errors of the system.
pub fn read_some_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    file.seek_read(buffer, offset)
}

/// Fills a buffer from an offset of a file.
///
/// # Errors
/// [`io::ErrorKind::UnexpectedEof`] at the end of the file, and the errors of the system.
pub fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    control::read_exact(&Driver(file), buffer, offset)
}

/// Writes all of the data at an offset of a file.
///
/// # Errors
/// The errors of the system.
pub fn write_all_at(file: &File, data: &[u8], offset: u64) -> io::Result<()> {
    control::write_all(&Driver(file), data, offset)
}
