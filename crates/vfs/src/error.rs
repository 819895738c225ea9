//! What can go wrong in a file system.

use std::fmt;

/// The result of a file system operation.
pub type Result<T> = std::result::Result<T, Error>;

/// A structure on the device that cannot be what it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The structure's name in the format's own terms, for example "boot sector" or "cluster chain".
    pub structure: &'static str,
    /// Where it stands, in bytes from the start of the volume.
    pub offset: u64,
    /// What should stand there.
    pub expected: String,
    /// What does.
    pub found: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Damage { structure, offset, expected, found } = self;
        write!(f, "{structure} at offset {offset}: expected {expected}, found {found}")
    }
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
    /// What is kept of a file or directory beside its content has no room for more, however empty the volume is.
    #[error("{format} holds no more of one file: {what}")]
    RecordFull {
        /// The format's name.
        format: &'static str,
        /// Which limit stands in the way.
        what: &'static str,
    },
    /// A file has as many names as the format can hold.
    #[error("{format} holds no more names of one file: {what}")]
    TooManyLinks {
        /// The format's name.
        format: &'static str,
        /// Which limit stands in the way.
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
        /// The name as it was given; what was not Unicode is shown as U+FFFD.
        name: String,
        /// Which rule it breaks.
        reason: &'static str,
    },
    /// A value in a call makes no sense.
    #[error("invalid argument: {0}")]
    InvalidArgument(&'static str),
    /// A plan's offset or length is not a multiple of the device's logical sector.
    #[error("planned I/O of {length} bytes at offset {offset} is not a multiple of the {sector}-byte sector")]
    Misaligned {
        /// Offset in the file.
        offset: u64,
        /// Length of the request.
        length: u64,
        /// The logical sector.
        sector: u32,
    },
    /// Another caller has this range of the file for itself at the moment. Who has plans in flight on the file finishes
    /// one and asks again; who has none may wait first ([`FileSystem::wait_until_free`](crate::FileSystem)).
    #[error("another caller is changing this part of the file")]
    Busy,
    /// A directory cannot become its own descendant.
    #[error("a directory cannot be moved into itself")]
    IntoItself,
    /// The volume is open for reading only.
    #[error("the volume is read-only: {0}")]
    ReadOnly(String),
    /// The entry's own read-only attribute, or the like, forbids it.
    #[error("not permitted: {0}")]
    NotPermitted(&'static str),
    /// The format has no such thing.
    #[error("{format} has no {what}")]
    Unsupported {
        /// The format's name.
        format: &'static str,
        /// What is missing, for example "hard links".
        what: &'static str,
    },
    /// A file's content is there, in a form that is not read: encrypted, compressed, kept elsewhere. The rest of the
    /// volume is not concerned.
    #[error("the content is not read: {0}")]
    Unreadable(&'static str),
    /// The device holds something else, or a version that is not read.
    #[error("not a usable {format} volume: {reason}")]
    NotThisFormat {
        /// The format's name.
        format: &'static str,
        /// What was found instead.
        reason: String,
    },
    /// No volume of this format can be made on this device with these options.
    #[error("cannot make a {format} volume: {reason}")]
    CannotMake {
        /// The format's name.
        format: &'static str,
        /// Which limit stands in the way, and what would fit.
        reason: String,
    },
    /// A structure on the device is damaged. Nothing derived from it was used.
    #[error("damaged {0}")]
    Damaged(Damage),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] platter_device::Error),
}

impl Error {
    /// A damaged structure: see [`Damage`].
    pub fn damaged(
        structure: &'static str,
        offset: u64,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) -> Error {
        Error::Damaged(Damage { structure, offset, expected: expected.to_string(), found: found.to_string() })
    }

    /// Whether something has no room for more: the volume, or what is kept of one file. Nothing has changed then.
    pub fn is_full(&self) -> bool {
        matches!(self, Error::NoSpace | Error::RecordFull { .. } | Error::TooManyLinks { .. })
    }

    /// The error a POSIX caller gets for this one, as an `errno` name.
    pub fn errno_name(&self) -> &'static str {
        match self {
            Error::NotFound => "ENOENT",
            Error::Exists => "EEXIST",
            Error::NotADirectory => "ENOTDIR",
            Error::IsADirectory => "EISDIR",
            Error::NotEmpty => "ENOTEMPTY",
            Error::NoSpace => "ENOSPC",
            Error::RecordFull { .. } => "E2BIG",
            Error::TooManyLinks { .. } => "EMLINK",
            Error::FileTooLarge { .. } => "EFBIG",
            Error::InvalidName { reason, .. } if reason.contains("long") => "ENAMETOOLONG",
            Error::InvalidName { .. }
            | Error::InvalidArgument(_)
            | Error::Misaligned { .. }
            | Error::IntoItself => "EINVAL",
            Error::Busy => "EAGAIN",
            Error::ReadOnly(_) => "EROFS",
            Error::NotPermitted(_) => "EPERM",
            Error::Unsupported { .. } | Error::Unreadable(_) => "EOPNOTSUPP",
            Error::NotThisFormat { .. } | Error::CannotMake { .. } => "EINVAL",
            Error::Damaged(_) | Error::Device(_) => "EIO",
        }
    }
}
