//! What Windows refuses, and what to do about it: its own sentences say only that something is refused.
//!
//! The codes are those of Microsoft, "System Error Codes"; under which condition each call returns them, and where that is
//! written, stands at each line.

use std::io::{self, ErrorKind};

/// What was asked of Windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// Opening a disk or volume.
    OpenDisk,
    /// Asking for length and sectors.
    Measure,
    /// Locking a volume, and having its file system let go of it.
    Take,
    Read,
    Write,
}

/// `ERROR_INVALID_FUNCTION` and `ERROR_NOT_SUPPORTED`: what a driver answers to a code that it does not know ("DeviceIoControl").
pub(super) const NOT_THERE: [i32; 2] = [1, 50];
/// `ERROR_ACCESS_DENIED`.
pub(crate) const ACCESS_DENIED: i32 = 5;
/// `ERROR_WRITE_PROTECT`.
pub(super) const WRITE_PROTECT: i32 = 19;
/// `ERROR_NOT_READY`.
pub(super) const NOT_READY: i32 = 21;
/// `ERROR_INVALID_PARAMETER`.
pub(super) const INVALID_PARAMETER: i32 = 87;
/// `ERROR_FILE_NOT_FOUND`.
const FILE_NOT_FOUND: i32 = 2;
/// `ERROR_DEVICE_NOT_CONNECTED`.
const NOT_CONNECTED: i32 = 1167;

/// The sentence for each code, by what was asked.
pub(super) const REFUSALS: &[(Doing, i32, ErrorKind, &str)] = &[
    // "CreateFileW", physical disks and volumes: "the caller must have administrative privileges".
    (
        Doing::OpenDisk,
        ACCESS_DENIED,
        ErrorKind::PermissionDenied,
        "access is denied; open the terminal as administrator, disks are opened by administrators only",
    ),
    // "CreateFileW": there is no such device.
    (
        Doing::OpenDisk,
        FILE_NOT_FOUND,
        ErrorKind::NotFound,
        "there is no such disk or volume; in PowerShell, Get-Disk and Get-Volume list those that are there",
    ),
    // "IOCTL_DISK_GET_LENGTH_INFO", and every request to a drive without a medium.
    (Doing::Measure, NOT_READY, ErrorKind::Other, "no medium is in the drive; put one in and try again"),
    (
        Doing::Measure,
        NOT_THERE[0],
        ErrorKind::Unsupported,
        "its driver does not tell its length, so that it is neither a disk nor a volume; name \\\\.\\PhysicalDriveN or \\\\.\\X:",
    ),
    (
        Doing::Measure,
        NOT_THERE[1],
        ErrorKind::Unsupported,
        "its driver does not tell its length, so that it is neither a disk nor a volume; name \\\\.\\PhysicalDriveN or \\\\.\\X:",
    ),
    // "FSCTL_LOCK_VOLUME": it fails with this code while files of the volume are open, and for the system volume.
    (
        Doing::Take,
        ACCESS_DENIED,
        ErrorKind::ResourceBusy,
        "files of this volume are open, or Windows itself uses it; close the programs that have them open",
    ),
    (
        Doing::Take,
        NOT_THERE[0],
        ErrorKind::Unsupported,
        "Windows can neither lock this volume nor take it from its file system, so that nothing is written to it; remove its \
         drive letter and name the disk that it is on",
    ),
    (
        Doing::Take,
        NOT_THERE[1],
        ErrorKind::Unsupported,
        "Windows can neither lock this volume nor take it from its file system, so that nothing is written to it; remove its \
         drive letter and name the disk that it is on",
    ),
    // "WriteFile", on volumes and disks: writes to sectors of a mounted volume that was not locked or dismounted.
    (
        Doing::Write,
        ACCESS_DENIED,
        ErrorKind::PermissionDenied,
        "a volume that Windows has mounted is there; take the disk offline in Disk Management, or name the volume itself \
         (\\\\.\\X:), which is then locked",
    ),
    (
        Doing::Write,
        WRITE_PROTECT,
        ErrorKind::ReadOnlyFilesystem,
        "the medium is write-protected; release its switch, or, in diskpart, say attributes disk clear readonly",
    ),
    // "File Buffering": past the cache, offset, length and memory are multiples of the sector.
    (
        Doing::Read,
        INVALID_PARAMETER,
        ErrorKind::InvalidInput,
        "Windows takes this transfer past its cache only in whole sectors, which are larger here than the disk says; use the \
         cache",
    ),
    (
        Doing::Write,
        INVALID_PARAMETER,
        ErrorKind::InvalidInput,
        "Windows takes this transfer past its cache only in whole sectors, which are larger here than the disk says; use the \
         cache",
    ),
    (
        Doing::Read,
        NOT_READY,
        ErrorKind::Other,
        "no medium is in the drive any more; put it back and begin anew",
    ),
    (
        Doing::Write,
        NOT_READY,
        ErrorKind::Other,
        "no medium is in the drive any more; put it back and begin anew",
    ),
    (
        Doing::Read,
        NOT_CONNECTED,
        ErrorKind::NotConnected,
        "the disk is gone; connect it again and begin anew",
    ),
    (
        Doing::Write,
        NOT_CONNECTED,
        ErrorKind::NotConnected,
        "the disk is gone; connect it again and begin anew",
    ),
];

/// An error of Windows with the sentence that says what to do about it; others as they are.
pub(crate) fn explained(doing: Doing, error: io::Error) -> io::Error {
    let code = error.raw_os_error();
    let known = REFUSALS.iter().find(|(asked, refused, ..)| *asked == doing && Some(*refused) == code);
    known.map_or(error, |(_, _, kind, why)| io::Error::new(*kind, *why))
}
