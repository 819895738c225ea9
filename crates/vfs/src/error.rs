//! The errors of a file system.

use crate::errno::Errno;
use platter_device::show_size;
use std::fmt;

/// The result of a file system operation.
pub type Result<T> = std::result::Result<T, Error>;

/// A damaged structure on the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The structure's name in the format's own terms, for example "boot sector" or "cluster chain".
    pub structure: &'static str,
    /// The structure's place, in bytes from the start of the volume.
    pub offset: u64,
    /// The value that should be there.
    pub expected: String,
    /// The value that is there.
    pub found: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Damage { structure, offset, expected, found } = self;
        write!(f, "{structure} at offset {offset}: expected {expected}, found {found}")
    }
}

/// Which rule a name or a label breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameRule {
    /// The name must not be empty.
    NotEmpty,
    /// `.` and `..` are reserved.
    NotReserved,
    /// The name is longer, in characters or UTF-16 units, than the format allows.
    Length,
    /// The name contains a character that is not allowed anywhere in it.
    Characters,
    /// The name begins or ends with a character that is not allowed there.
    Ends,
}

/// A file system's refusal or failure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No entry of this name, or the node is gone.
    #[error("no such file or directory")]
    NotFound,
    /// An entry of this name (by the volume's own case rule) is there already.
    #[error("an entry of this name exists")]
    Exists,
    /// The operation needs a directory.
    #[error("not a directory")]
    NotADirectory,
    /// The operation needs something other than a directory.
    #[error("is a directory")]
    IsADirectory,
    /// The directory has entries.
    #[error("directory not empty")]
    NotEmpty,
    /// No free cluster, directory slot or record is left.
    #[error("no space left on the volume")]
    NoSpace,
    /// A directory has as many entries as it can hold, however empty the volume is.
    #[error("the directory is full: its entries can take {} at most", show_size(*limit))]
    DirectoryFull {
        /// The most bytes of entries.
        limit: u64,
    },
    /// The metadata of one file or directory has no room for more, however empty the volume is.
    #[error("{format} holds no more of one file: {what}")]
    RecordFull {
        /// The format's name.
        format: &'static str,
        /// Which limit was reached.
        what: &'static str,
    },
    /// A file has as many names as the format can hold.
    #[error("{format} holds no more names of one file: {what}")]
    TooManyLinks {
        /// The format's name.
        format: &'static str,
        /// Which limit was reached.
        what: &'static str,
    },
    /// A file would be larger than the format can hold.
    #[error("a file on {format} can be at most {limit} bytes long; {wanted} were asked for")]
    FileTooLarge {
        /// The format's name.
        format: &'static str,
        /// The largest size in bytes.
        limit: u64,
        /// The size asked for in bytes.
        wanted: u64,
    },
    /// The format cannot hold this name.
    #[error("the name {name:?} cannot be used: {reason}")]
    InvalidName {
        /// The name as it was given, with U+FFFD for parts that are not Unicode.
        name: String,
        /// Which rule the name breaks.
        rule: NameRule,
        /// The rule in words.
        reason: &'static str,
    },
    /// An argument of the call is invalid.
    #[error("invalid argument: {0}")]
    InvalidArgument(&'static str),
    /// A plan's offset or length is not a multiple of the device's logical sector.
    #[error("planned I/O of {length} bytes at offset {offset} is not a multiple of the {sector}-byte sector")]
    Misaligned {
        /// Offset in the file.
        offset: u64,
        /// Length of the request in bytes.
        length: u64,
        /// The logical sector of the device in bytes.
        sector: u32,
    },
    /// Another caller has [claimed](crate::RangeLock) this range of the file. A caller with plans in flight on the file
    /// finishes one and asks again; a caller without any may wait first
    /// ([`Transfers::wait_until_free`](crate::Transfers::wait_until_free)).
    #[error("another caller is changing this part of the file")]
    Busy,
    /// A directory cannot become its own descendant.
    #[error("a directory cannot be moved into itself")]
    IntoItself,
    /// The volume is open for reading only.
    #[error("the volume is read-only: {0}")]
    ReadOnly(String),
    /// The entry's read-only attribute or another property of it forbids the operation.
    #[error("not permitted: {0}")]
    NotPermitted(&'static str),
    /// The format does not have this feature.
    #[error("{format} has no {what}")]
    Unsupported {
        /// The format's name.
        format: &'static str,
        /// The missing feature, for example "hard links".
        what: &'static str,
    },
    /// A file's content is in a form that Platter does not read: encrypted, compressed, or kept elsewhere. The rest of
    /// the volume is not affected.
    #[error("the content is not read: {0}")]
    Unreadable(&'static str),
    /// The device does not hold a volume of this format, or a version of it that Platter does not read.
    #[error("not a usable {format} volume: {reason}")]
    NotThisFormat {
        /// The format's name.
        format: &'static str,
        /// Why the volume cannot be used.
        reason: String,
    },
    /// The device does not hold a volume of any format that Platter knows, and this is what it holds.
    #[error("{0}")]
    Unrecognised(String),
    /// No volume of this format can be made on this device with these options.
    #[error("no {format} volume can be made: {reason}")]
    CannotMake {
        /// The format's name.
        format: &'static str,
        /// Which limit is exceeded, and what would fit.
        reason: String,
    },
    /// A structure on the device is damaged. None of its contents was used.
    #[error("damaged {0}")]
    Damaged(Damage),
    /// The caller asked the operation to end before it was complete: see [`Progress::is_stopped`](crate::Progress).
    #[error("stopped before it was complete")]
    Stopped,
    /// The device failed the transfer or flush.
    #[error(transparent)]
    Device(#[from] platter_device::Error),
}

impl Error {
    /// An [`Error::Damaged`] from the parts of a [`Damage`].
    pub fn damaged(
        structure: &'static str,
        offset: u64,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) -> Error {
        Error::Damaged(Damage { structure, offset, expected: expected.to_string(), found: found.to_string() })
    }

    /// Whether the operation failed for want of room, on the volume or in the metadata of one file. It has changed
    /// nothing then.
    pub fn is_full(&self) -> bool {
        matches!(
            self,
            Error::NoSpace
                | Error::DirectoryFull { .. }
                | Error::RecordFull { .. }
                | Error::TooManyLinks { .. }
        )
    }

    /// The error that a POSIX caller gets for this one.
    pub fn errno(&self) -> Errno {
        match self {
            Error::NotFound => Errno::NOT_FOUND,
            Error::Exists => Errno::EXISTS,
            Error::NotADirectory => Errno::NOT_A_DIRECTORY,
            Error::IsADirectory => Errno::IS_A_DIRECTORY,
            Error::NotEmpty => Errno::NOT_EMPTY,
            Error::NoSpace | Error::DirectoryFull { .. } => Errno::NO_SPACE,
            Error::RecordFull { .. } => Errno::TOO_BIG,
            Error::TooManyLinks { .. } => Errno::TOO_MANY_LINKS,
            Error::FileTooLarge { .. } => Errno::FILE_TOO_LARGE,
            Error::InvalidName { rule: NameRule::Length, .. } => Errno::NAME_TOO_LONG,
            Error::InvalidName { .. }
            | Error::InvalidArgument(_)
            | Error::Misaligned { .. }
            | Error::IntoItself
            | Error::NotThisFormat { .. }
            | Error::Unrecognised(_)
            | Error::CannotMake { .. } => Errno::INVALID,
            Error::Busy => Errno::AGAIN,
            Error::Stopped => Errno::INTERRUPTED,
            Error::ReadOnly(_) => Errno::READ_ONLY,
            Error::NotPermitted(_) => Errno::NOT_PERMITTED,
            Error::Unsupported { .. } | Error::Unreadable(_) => Errno::UNSUPPORTED,
            Error::Device(error) => number_of(error),
            Error::Damaged(_) => Errno::IO,
        }
    }
}

/// The number for a device's error. What the host says of opening is passed on, such as ENOENT; a transfer that failed
/// is EIO whatever the reason, because a caller would take ENOSPC, for one, for a word about the volume.
fn number_of(error: &platter_device::Error) -> Errno {
    use platter_device::{Error as Device, Operation};
    match error {
        Device::Io { operation: Operation::Open, source, .. } => Errno::of_host(source),
        Device::Protected { .. } | Device::InUse { .. } | Device::Locked { .. } => Errno::BUSY,
        Device::ReadOnly { .. } => Errno::READ_ONLY,
        _ => Errno::IO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_numbers_that_programs_know() {
        use platter_device::{Error as Device, Operation};
        use std::io::ErrorKind;
        let device =
            |operation, number| Error::Device(Device::io("d", operation, 0, 0, std::io::Error::from(number)));
        let name = |rule| Error::InvalidName { name: String::new(), rule, reason: "in any words" };
        for (error, expected) in [
            (Error::NotFound, Errno::NOT_FOUND),
            (Error::NoSpace, Errno::NO_SPACE),
            (Error::DirectoryFull { limit: 1 }, Errno::NO_SPACE),
            (Error::ReadOnly("x".into()), Errno::READ_ONLY),
            (Error::FileTooLarge { format: "F", limit: 1, wanted: 2 }, Errno::FILE_TOO_LARGE),
            (Error::TooManyLinks { format: "F", what: "x" }, Errno::TOO_MANY_LINKS),
            (Error::RecordFull { format: "F", what: "x" }, Errno::TOO_BIG),
            (Error::Unsupported { format: "F", what: "x" }, Errno::UNSUPPORTED),
            (Error::IntoItself, Errno::INVALID),
            (Error::damaged("s", 0, 1, 2), Errno::IO),
            (device(Operation::Open, ErrorKind::NotFound), Errno::NOT_FOUND),
            (device(Operation::Write, ErrorKind::StorageFull), Errno::IO),
            (Error::Device(Device::Locked { device: "d".into(), who: "w".into() }), Errno::BUSY),
            (Error::Device(Device::ReadOnly { device: "d".into() }), Errno::READ_ONLY),
            (name(NameRule::Length), Errno::NAME_TOO_LONG),
            (name(NameRule::NotEmpty), Errno::INVALID),
        ] {
            assert_eq!(error.errno(), expected, "{error}");
        }
    }
}
