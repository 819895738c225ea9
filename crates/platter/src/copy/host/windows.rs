//! Windows: files have attributes and named streams themselves, and neither owners nor permissions of POSIX.

use super::{HostFacts, Layout, Usual};
use platter_device::host;
use platter_vfs::linux::{LinuxAttributes, Special};
use platter_vfs::{Change, DosFlags, Name, why_windows_refuses};
use std::ffi::OsString;
use std::fs::{self, File, FileTimes, Metadata, OpenOptions};
use std::io;
use std::os::windows::ffi::OsStringExt;
use std::os::windows::fs::{FileTimesExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// `FILE_WRITE_ATTRIBUTES`: to change times and attributes, of files that may only be read too.
const WRITE_ATTRIBUTES: u32 = 0x100;
/// `FILE_FLAG_BACKUP_SEMANTICS`, with which directories are opened, and `FILE_FLAG_OPEN_REPARSE_POINT`, with which links are
/// not followed.
const ITSELF: u32 = 0x0200_0000 | 0x0020_0000;

/// What the system tells of a file.
pub(crate) fn facts(path: &Path, metadata: &Metadata) -> HostFacts {
    let links = if metadata.is_file() { host::links(path) } else { 1 };
    HostFacts { special: None, owner: LinuxAttributes::default(), links }
}

/// There are no permissions of POSIX.
pub(crate) fn mode(_metadata: &Metadata) -> Option<u32> {
    None
}

/// A new file has the permissions that its directory gives it.
pub(crate) fn private(_options: &mut OpenOptions) {}

/// Makes directories, with the permissions that the directory above gives them.
pub(crate) struct DirectoryMaker;

impl DirectoryMaker {
    pub(crate) fn make(path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }
}

/// Whether files can be made in a directory shows when one is made.
pub(crate) fn may_make_files_in(_directory: &Path) -> bool {
    true
}

/// Owners of POSIX are not kept.
pub(crate) fn own(
    _path: &Path,
    owner: &LinuxAttributes,
    _is_link: bool,
    _is_for_reading: bool,
    _otherwise: u32,
) -> io::Result<bool> {
    Ok(*owner == LinuxAttributes::default())
}

/// Whether an error says that the file system has no place for an attribute: FAT has no streams.
pub(crate) fn is_refused(error: &io::Error) -> bool {
    const INVALID_NAME: i32 = 123;
    error.kind() == io::ErrorKind::Unsupported || error.raw_os_error() == Some(INVALID_NAME)
}

/// Extended attributes of Linux are not kept.
pub(crate) fn extended_names(_path: &Path) -> io::Result<Vec<Vec<u8>>> {
    Ok(Vec::new())
}

/// See [`extended_names`].
pub(crate) fn extended_value(_path: &Path, _name: &[u8]) -> io::Result<Vec<u8>> {
    Err(io::ErrorKind::Unsupported.into())
}

/// See [`extended_names`].
pub(crate) fn set_extended(_path: &Path, _name: &[u8], _value: &[u8]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The attributes of a file that can be set.
pub(crate) fn flags(path: &Path) -> Option<DosFlags> {
    let attributes = fs::symlink_metadata(path).ok()?.file_attributes();
    Some(DosFlags(attributes & DosFlags::SETTABLE.0))
}

/// Sets the attributes of a file.
pub(crate) fn set_flags(path: &Path, flags: DosFlags) -> io::Result<()> {
    host::set_attributes(path, flags.0 & DosFlags::SETTABLE.0)
}

/// Whether files of the host have named streams themselves.
pub(crate) fn has_real_streams() -> bool {
    true
}

/// The names of the streams of a file.
pub(crate) fn streams(path: &Path) -> io::Result<Vec<Name>> {
    Ok(host::streams(path)?.iter().map(|units| Name::from_units(units)).collect())
}

/// The path of a stream, if its name leads nowhere else.
fn stream(path: &Path, name: &Name) -> io::Result<PathBuf> {
    if why_windows_refuses(name).is_some() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let mut whole = path.as_os_str().to_os_string();
    whole.push(":");
    whole.push(OsString::from_wide(name.units()));
    Ok(whole.into())
}

/// Reads a stream of a file.
pub(crate) fn read_stream(path: &Path, name: &Name) -> io::Result<Vec<u8>> {
    fs::read(stream(path, name)?)
}

/// Makes a stream of a file, or replaces its content.
pub(crate) fn set_stream(path: &Path, name: &Name, content: &[u8]) -> io::Result<()> {
    fs::write(stream(path, name)?, content)
}

/// All of a file counts as content.
pub(crate) fn layout(_file: &File, size: u64) -> Layout {
    Layout { data: (size > 0).then_some(0..size).into_iter().collect(), has_holes: false }
}

/// There are no special files.
pub(crate) fn make_special(_path: &Path, _special: Special, _owner: &LinuxAttributes) -> io::Result<bool> {
    Ok(false)
}

/// Sets the times of the file at a path; of a link the link's own.
pub(crate) fn set_times(path: &Path, change: &Change) -> io::Result<()> {
    let mut times = FileTimes::new();
    if let Some(time) = change.created.and_then(|time| time.to_system_time()) {
        times = times.set_created(time);
    }
    if let Some(time) = change.modified.and_then(|time| time.to_system_time()) {
        times = times.set_modified(time);
    }
    if let Some(time) = change.accessed.and_then(|time| time.to_system_time()) {
        times = times.set_accessed(time);
    }
    File::options().access_mode(WRITE_ATTRIBUTES).custom_flags(ITSELF).open(path)?.set_times(times)
}

/// What new files of this process have is nothing of POSIX.
pub(crate) fn usual() -> Usual {
    Usual { uid: 0, gid: 0, umask: 0 }
}
