//! What a program is told when something fails.

use platter_vfs::Error;
use std::fmt;

/// An error number of the system, such as `ENOSPC`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

/// What an operation returns to the program that asked for it.
pub type Answer<T> = Result<T, Errno>;

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", std::io::Error::from_raw_os_error(self.0))
    }
}

/// The numbers of the names that [`Error::errno_name`] gives.
const NUMBERS: &[(&str, i32)] = &[
    ("ENOENT", libc::ENOENT),
    ("EEXIST", libc::EEXIST),
    ("ENOTDIR", libc::ENOTDIR),
    ("EISDIR", libc::EISDIR),
    ("ENOTEMPTY", libc::ENOTEMPTY),
    ("ENOSPC", libc::ENOSPC),
    ("E2BIG", libc::E2BIG),
    ("EMLINK", libc::EMLINK),
    ("EFBIG", libc::EFBIG),
    ("ENAMETOOLONG", libc::ENAMETOOLONG),
    ("EINVAL", libc::EINVAL),
    ("EROFS", libc::EROFS),
    ("EPERM", libc::EPERM),
    ("EOPNOTSUPP", libc::EOPNOTSUPP),
    ("EAGAIN", libc::EAGAIN),
    ("EBUSY", libc::EBUSY),
    ("EIO", libc::EIO),
];

/// The number for a volume's error. One that is not in the table is a failure that nobody can do anything about.
pub fn number(error: &Error) -> Errno {
    let name = error.errno_name();
    Errno(NUMBERS.iter().find(|(known, _)| *known == name).map_or(libc::EIO, |(_, number)| *number))
}

impl Errno {
    /// No extended attribute of this name.
    pub const NODATA: Errno = Errno(libc::ENODATA);
    /// The format has no such thing.
    pub const UNSUPPORTED: Errno = Errno(libc::EOPNOTSUPP);
    /// The request makes no sense.
    pub const INVALID: Errno = Errno(libc::EINVAL);
    /// Not allowed on this volume, whoever asks.
    pub const NOT_PERMITTED: Errno = Errno(libc::EPERM);
    /// A name has more than the format holds.
    pub const NAME_TOO_LONG: Errno = Errno(libc::ENAMETOOLONG);

    /// The same error, unless it says that the format has no such thing: then `other`, where POSIX wants that.
    pub fn or_if_unsupported(self, other: Errno) -> Errno {
        if self == Errno::UNSUPPORTED { other } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_numbers_that_programs_know() {
        let long = Error::InvalidName { name: String::new(), reason: "it is too long" };
        let odd = Error::InvalidName { name: String::new(), reason: "it is empty" };
        for (error, expected) in [
            (Error::NotFound, libc::ENOENT),
            (Error::NoSpace, libc::ENOSPC),
            (Error::ReadOnly("x".into()), libc::EROFS),
            (Error::FileTooLarge { format: "F", limit: 1, wanted: 2 }, libc::EFBIG),
            (Error::TooManyLinks { format: "F", what: "x" }, libc::EMLINK),
            (Error::RecordFull { format: "F", what: "x" }, libc::E2BIG),
            (Error::Unsupported { format: "F", what: "x" }, libc::EOPNOTSUPP),
            (Error::IntoItself, libc::EINVAL),
            (Error::damaged("s", 0, 1, 2), libc::EIO),
            (long, libc::ENAMETOOLONG),
            (odd, libc::EINVAL),
        ] {
            assert_eq!(number(&error), Errno(expected), "{error}");
        }
    }
}
