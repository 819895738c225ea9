//! Disks and volumes, and what the system tells of them.

use super::names::is_disk;
use crate::host::Hardware;
use crate::host::control::{self, Control, Transfers};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::windows::ffi::{OsStrExt, OsStringExt};
use std::os::windows::fs::{FileExt, OpenOptionsExt};
use std::os::windows::io::AsRawHandle;
use std::path::{Path, PathBuf};
use windows_sys::Win32::Storage::FileSystem::{
    GetLogicalDrives, GetVolumeInformationW, GetVolumeNameForVolumeMountPointW, GetVolumePathNameW,
};
use windows_sys::Win32::System::IO::DeviceIoControl;
use windows_sys::Win32::System::Ioctl::{DRIVE_LAYOUT_INFORMATION_EX, PARTITION_INFORMATION_EX};

/// The driver behind an open file.
pub(super) struct Driver<'f>(pub &'f File);

impl Control for Driver<'_> {
    fn send(&self, code: u32, input: &[u8], output: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        // SAFETY: the handle is open and synchronous; the system reads the input and fills the output, both live, as far as
        // their lengths say.
        let done = unsafe {
            DeviceIoControl(
                self.0.as_raw_handle(),
                code,
                input.as_ptr().cast(),
                input.len() as u32,
                output.as_mut_ptr().cast(),
                output.len() as u32,
                &raw mut filled,
                std::ptr::null_mut(),
            )
        };
        if done != 0 { Ok(filled as usize) } else { Err(io::Error::last_os_error()) }
    }
}

impl Transfers for Driver<'_> {
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.seek_read(buffer, offset)
    }

    fn write(&self, data: &[u8], offset: u64) -> io::Result<usize> {
        self.0.seek_write(data, offset)
    }
}

// The layouts that `control` has in bytes.
const _: () = assert!(
    control::PARTITION == size_of::<PARTITION_INFORMATION_EX>()
        && control::LAYOUT + control::PARTITION == size_of::<DRIVE_LAYOUT_INFORMATION_EX>()
);

/// Length, logical and physical sector of a disk, in bytes.
pub(crate) fn geometry(file: &File) -> io::Result<(u64, u32, u32)> {
    control::geometry(&Driver(file))
}

/// Whether a disk takes no writes.
pub(crate) fn is_write_protected(file: &File) -> io::Result<bool> {
    control::is_write_protected(&Driver(file))
}

/// The alignment that transfers without the system's cache need, in bytes: that of the largest sectors that disks have.
pub(crate) fn direct_alignment(_file: &File) -> u32 {
    4096
}

/// Whether the content of a disk lies in a file is not known.
pub(crate) fn is_over_file(_file: &File) -> bool {
    false
}

/// Where a volume begins on its disk is not asked.
pub(crate) fn start_on_disk(_file: &File) -> Option<u64> {
    None
}

/// The first offset from `offset` on at which a file of `length` bytes is no hole.
pub(crate) fn next_data(file: &File, offset: u64, length: u64) -> u64 {
    control::next_data(&Driver(file), offset, length)
}

/// Makes a range of a file a hole, and discards it on a disk or volume. `is_claimed` is whether a volume was locked and
/// dismounted; what may belong to a file system is not discarded.
pub(crate) fn discard(
    file: &File,
    is_disk: bool,
    is_claimed: bool,
    offset: u64,
    length: u64,
) -> io::Result<()> {
    let driver = Driver(file);
    match is_disk {
        true => control::discard(&driver, is_claimed, offset, length),
        false => control::make_hole(&driver, offset, length),
    }
}

/// Who uses a file as a disk is not known. A volume that is in use cannot be taken from its file system, and Windows
/// keeps writes to a disk away from the volumes on it that are mounted.
pub(crate) fn user_of(path: &Path) -> io::Result<Option<String>> {
    if is_disk(path) { Ok(None) } else { std::fs::metadata(path).map(|_| None) }
}

/// There is none.
pub fn file_behind(_path: &Path) -> Option<PathBuf> {
    None
}

/// What a disk tells of itself: the disk at a path, or the one below the volume that a file or directory is on. That needs no
/// administrator.
pub fn hardware(path: &Path) -> Option<Hardware> {
    let name = if is_disk(path) { path.to_owned() } else { volume_of(path)? };
    // Without any access, a disk can be asked about itself ("CreateFileW", dwDesiredAccess).
    let file = File::options().access_mode(0).open(name).ok()?;
    Some(control::hardware(&Driver(&file)))
}

/// The drive letters in use, a bit each, from A on.
pub fn drive_letters() -> u32 {
    // SAFETY: the call takes nothing.
    unsafe { GetLogicalDrives() }
}

/// Not asked.
pub(crate) fn identity(_path: &Path) -> Option<OsString> {
    None
}

/// Windows does not count this for each disk.
pub(crate) fn written(_path: &Path) -> Option<String> {
    None
}

/// The type of the file system that holds a path, for example `NTFS`; `None` if it is unknown.
pub fn host_file_system(path: &Path) -> Option<String> {
    let root = root_of(path)?;
    let mut name = [0_u16; 64];
    // SAFETY: the path ends with a zero, the buffer is live and of the length that is named, and what is not wanted is null.
    let done = unsafe {
        GetVolumeInformationW(
            root.as_ptr(),
            std::ptr::null_mut(),
            0,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            name.as_mut_ptr(),
            name.len() as u32,
        )
    };
    let end = name.iter().position(|&unit| unit == 0)?;
    (done != 0 && end > 0).then(|| OsString::from_wide(&name[..end]).to_string_lossy().into_owned())
}

/// The directory in which the volume that holds a path is mounted, with a zero at the end.
fn root_of(path: &Path) -> Option<Vec<u16>> {
    let path = std::path::absolute(path).ok()?;
    let path: Vec<u16> = path.as_os_str().encode_wide().chain([0]).collect();
    let mut root = vec![0_u16; path.len() + 260];
    // SAFETY: the path ends with a zero, and the buffer is live and of the length that is named.
    let done = unsafe { GetVolumePathNameW(path.as_ptr(), root.as_mut_ptr(), root.len() as u32) };
    (done != 0).then_some(root)
}

/// Makes everything durable that was written to the volume that holds a path (Microsoft, "FlushFileBuffers": with the handle of a
/// volume, of all its files; the caller must be an administrator).
///
/// # Errors
/// [`io::ErrorKind::PermissionDenied`] with the remedy if this user is no administrator; otherwise the errors of the system.
pub fn flush_volume(path: &Path) -> io::Result<()> {
    let name = volume_of(path).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::Unsupported,
            "the system names no volume for it, which could be flushed",
        )
    })?;
    let volume = File::options().write(true).open(name).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => {
            let why = "the system makes all that was written to a drive durable for administrators only: start the console as \
                       administrator";
            io::Error::new(io::ErrorKind::PermissionDenied, why)
        }
        _ => error,
    })?;
    volume.sync_all()
}

/// The name as a device of the volume that holds a path: `\\?\Volume{…}`.
fn volume_of(path: &Path) -> Option<PathBuf> {
    let root = root_of(path)?;
    let mut name = [0_u16; 64];
    // SAFETY: the root ends with a zero, and the buffer is live and of the length that is named.
    let done =
        unsafe { GetVolumeNameForVolumeMountPointW(root.as_ptr(), name.as_mut_ptr(), name.len() as u32) };
    let end = name.iter().position(|&unit| unit == 0)?;
    // With the backslash at its end it would be the root directory.
    let name = name[..end].strip_suffix(&[u16::from(b'\\')])?;
    (done != 0).then(|| OsString::from_wide(name).into())
}
