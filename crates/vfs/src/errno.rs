//! Error numbers as a POSIX program knows them, with one value on every system.

use std::fmt;
use std::io;

/// An error number such as `ENOSPC`, as a POSIX caller gets it. The numbers are those of Linux on every system: those of
/// macOS and FreeBSD differ for some errors, and the codes of Windows count something else (5 is "access denied" there
/// and `EIO` here).
///
/// Source: Linux, `include/uapi/asm-generic/errno-base.h` and `errno.h`; POSIX.1-2017, `<errno.h>`, for the meanings.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    /// The operation is allowed to nobody on this volume (`EPERM`).
    pub const NOT_PERMITTED: Errno = Errno(1);
    /// There is no such file (`ENOENT`).
    pub const NOT_FOUND: Errno = Errno(2);
    /// Whoever waited for it asked for the end (`EINTR`).
    pub const INTERRUPTED: Errno = Errno(4);
    /// The device failed (`EIO`).
    pub const IO: Errno = Errno(5);
    /// There is no such device (`ENXIO`).
    pub const NO_DEVICE: Errno = Errno(6);
    /// One file can hold no more of this (`E2BIG`).
    pub const TOO_BIG: Errno = Errno(7);
    /// The file is not open for this (`EBADF`).
    pub const BAD_FILE: Errno = Errno(9);
    /// Another caller is at work; the call may be made again (`EAGAIN`).
    pub const AGAIN: Errno = Errno(11);
    /// There is no memory left (`ENOMEM`).
    pub const NO_MEMORY: Errno = Errno(12);
    /// This caller may not do it (`EACCES`).
    pub const ACCESS: Errno = Errno(13);
    /// Somebody uses it (`EBUSY`).
    pub const BUSY: Errno = Errno(16);
    /// The file is there already (`EEXIST`).
    pub const EXISTS: Errno = Errno(17);
    /// The places are on different volumes (`EXDEV`).
    pub const OTHER_VOLUME: Errno = Errno(18);
    /// It is no directory (`ENOTDIR`).
    pub const NOT_A_DIRECTORY: Errno = Errno(20);
    /// It is a directory (`EISDIR`).
    pub const IS_A_DIRECTORY: Errno = Errno(21);
    /// An argument of the request is invalid (`EINVAL`).
    pub const INVALID: Errno = Errno(22);
    /// The process has as many open files as it may have (`EMFILE`).
    pub const TOO_MANY_OPEN: Errno = Errno(24);
    /// The file would be too large (`EFBIG`).
    pub const FILE_TOO_LARGE: Errno = Errno(27);
    /// No space is left (`ENOSPC`).
    pub const NO_SPACE: Errno = Errno(28);
    /// The volume is read-only (`EROFS`).
    pub const READ_ONLY: Errno = Errno(30);
    /// The file has as many names as it can have (`EMLINK`).
    pub const TOO_MANY_LINKS: Errno = Errno(31);
    /// A name is longer than the format can hold (`ENAMETOOLONG`).
    pub const NAME_TOO_LONG: Errno = Errno(36);
    /// The directory has entries (`ENOTEMPTY`).
    pub const NOT_EMPTY: Errno = Errno(39);
    /// No extended attribute of this name (`ENODATA`).
    pub const NODATA: Errno = Errno(61);
    /// The key that this needs is not there (`ENOKEY`).
    pub const NO_KEY: Errno = Errno(126);
    /// The format does not have this feature (`EOPNOTSUPP`).
    pub const UNSUPPORTED: Errno = Errno(95);

    /// The same error number, but `other` instead of [`Errno::UNSUPPORTED`], for calls where POSIX prescribes another
    /// number.
    pub fn or_if_unsupported(self, other: Errno) -> Errno {
        if self == Errno::UNSUPPORTED { other } else { self }
    }

    /// The number for an error of the host. On Windows it is that of the table [`Errno::of_win32`].
    pub fn of_host(error: &io::Error) -> Errno {
        match error.raw_os_error() {
            Some(code) if cfg!(windows) => Errno::of_win32(code),
            Some(code) if cfg!(target_os = "linux") => Errno(code),
            _ => Errno::of_kind(error.kind()),
        }
    }

    /// The number for an error of the standard library.
    fn of_kind(kind: io::ErrorKind) -> Errno {
        use io::ErrorKind;
        match kind {
            ErrorKind::NotFound => Errno::NOT_FOUND,
            ErrorKind::PermissionDenied => Errno::ACCESS,
            ErrorKind::AlreadyExists => Errno::EXISTS,
            ErrorKind::WouldBlock => Errno::AGAIN,
            ErrorKind::NotADirectory => Errno::NOT_A_DIRECTORY,
            ErrorKind::IsADirectory => Errno::IS_A_DIRECTORY,
            ErrorKind::DirectoryNotEmpty => Errno::NOT_EMPTY,
            ErrorKind::ReadOnlyFilesystem => Errno::READ_ONLY,
            ErrorKind::InvalidInput => Errno::INVALID,
            ErrorKind::StorageFull => Errno::NO_SPACE,
            ErrorKind::FileTooLarge => Errno::FILE_TOO_LARGE,
            ErrorKind::ResourceBusy => Errno::BUSY,
            ErrorKind::CrossesDevices => Errno::OTHER_VOLUME,
            ErrorKind::TooManyLinks => Errno::TOO_MANY_LINKS,
            ErrorKind::Unsupported => Errno::UNSUPPORTED,
            ErrorKind::OutOfMemory => Errno::NO_MEMORY,
            _ => Errno::IO,
        }
    }

    /// The number for an error code of Windows.
    ///
    /// Source: Microsoft, "System Error Codes" (winerror.h).
    pub fn of_win32(code: i32) -> Errno {
        match code {
            2 | 3 | 15 | 53 | 67 | 123 | 161 => Errno::NOT_FOUND, // FILE, PATH, INVALID_DRIVE, BAD_NETPATH, BAD_NET_NAME, INVALID_NAME, BAD_PATHNAME
            4 => Errno::TOO_MANY_OPEN,
            5 | 65 | 1314 => Errno::ACCESS, // ACCESS_DENIED, NETWORK_ACCESS_DENIED, PRIVILEGE_NOT_HELD
            6 => Errno::BAD_FILE,           // INVALID_HANDLE
            8 | 14 | 1450 | 1455 => Errno::NO_MEMORY, // NOT_ENOUGH_MEMORY, OUTOFMEMORY, NO_SYSTEM_RESOURCES, COMMITMENT_LIMIT
            17 => Errno::OTHER_VOLUME,                // NOT_SAME_DEVICE
            19 => Errno::READ_ONLY,                   // WRITE_PROTECT
            20 | 21 | 55 | 1110 | 1112 | 1167 => Errno::NO_DEVICE, // BAD_UNIT, NOT_READY, DEV_NOT_EXIST, MEDIA_CHANGED, NO_MEDIA_IN_DRIVE, DEVICE_NOT_CONNECTED
            32 | 33 | 108 | 170 | 2401 | 2404 => Errno::BUSY, // SHARING and LOCK_VIOLATION, DRIVE_LOCKED, BUSY, OPEN_FILES, DEVICE_IN_USE
            39 | 112 | 1295 => Errno::NO_SPACE, // HANDLE_DISK_FULL, DISK_FULL, DISK_QUOTA_EXCEEDED
            80 | 183 => Errno::EXISTS,          // FILE_EXISTS, ALREADY_EXISTS
            1 | 50 | 120 => Errno::UNSUPPORTED, // INVALID_FUNCTION, NOT_SUPPORTED, CALL_NOT_IMPLEMENTED
            87 | 131 => Errno::INVALID,         // INVALID_PARAMETER, NEGATIVE_SEEK
            145 => Errno::NOT_EMPTY,            // DIR_NOT_EMPTY
            206 => Errno::NAME_TOO_LONG,        // FILENAME_EXCED_RANGE
            223 => Errno::FILE_TOO_LARGE,       // FILE_TOO_LARGE
            267 => Errno::NOT_A_DIRECTORY,      // DIRECTORY
            336 => Errno::IS_A_DIRECTORY,       // DIRECTORY_NOT_SUPPORTED
            1142 => Errno::TOO_MANY_LINKS,      // TOO_MANY_LINKS
            _ => Errno::IO,
        }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if cfg!(target_os = "linux") {
            write!(f, "{}", io::Error::from_raw_os_error(self.0))
        } else {
            write!(f, "error {} of POSIX", self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_windows_are_no_numbers_of_posix() {
        // ACCESS_DENIED is EACCES, not EIO; SHARING_VIOLATION is EBUSY, not EPIPE; CRC is EIO.
        for (code, expected) in [
            (5, Errno::ACCESS),
            (32, Errno::BUSY),
            (112, Errno::NO_SPACE),
            (19, Errno::READ_ONLY),
            (23, Errno::IO),
        ] {
            assert_eq!(Errno::of_win32(code), expected, "{code}");
        }
    }

    #[cfg(windows)]
    #[test]
    fn an_error_of_this_host_goes_through_the_table() {
        let missing = std::fs::metadata("no such file").unwrap_err();
        assert_eq!(Errno::of_host(&missing), Errno::NOT_FOUND);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_numbers_are_those_of_this_host() {
        for (number, text) in
            [(Errno::UNSUPPORTED, "not supported"), (Errno::NODATA, "No data"), (Errno::AGAIN, "temporarily")]
        {
            assert!(format!("{number:?}").contains(text), "{number:?}");
        }
        let missing = std::fs::metadata("no such file").unwrap_err();
        assert_eq!(Errno::of_host(&missing), Errno::NOT_FOUND);
    }
}
