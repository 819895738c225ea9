//! The errors of this library, in one type for all layers.

use platter_device::{IN_USE, Operation};
use platter_vfs::{Damage, Errno, Error as SystemError};
use std::fmt;
use std::io;
use std::path::Path;

/// The result of a call of this library.
pub type Result<T> = std::result::Result<T, Error>;

/// The kind of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No file, directory or device of this name.
    NotFound,
    /// An entry with this name exists already.
    Exists,
    /// The path leads to something that is not a directory, where a directory is needed.
    NotADirectory,
    /// The path leads to a directory, where something else is needed.
    IsADirectory,
    /// The directory has entries.
    NotEmpty,
    /// The volume, or the record of one file, has no room for more.
    NoSpace,
    /// The file would be larger than the format can hold.
    FileTooLarge,
    /// The format cannot hold this name.
    InvalidName,
    /// A value in the call makes no sense.
    InvalidArgument,
    /// Another caller has claimed this part of the file at the moment.
    Busy,
    /// The volume or the device is open for reading only.
    ReadOnly,
    /// An attribute of the file forbids this.
    NotPermitted,
    /// The format does not have this feature.
    Unsupported,
    /// The content exists, but in a form that this library does not read, for example encrypted.
    Unreadable,
    /// The device holds no volume, or one that cannot be used.
    NotAVolume,
    /// A volume with these options cannot be made on this device.
    CannotMake,
    /// A structure on the device is damaged: see [`Error::damage`].
    Damaged,
    /// The device or the host's file system failed.
    Io,
    /// The content of the device would be lost; whoever means it can insist.
    Protected,
    /// The kernel uses the device, for example for a mount: nothing else may write to it.
    InUse,
    /// Another process has locked the device.
    Locked,
    /// The caller asked for the end before the operation was complete: see [`Progress::is_stopped`](crate::Progress).
    Stopped,
    /// The bytes that a repair would overwrite could not be saved, so nothing was overwritten.
    CannotSave,
    /// The device is a copy of a mirror whose rebuild was not completed: it holds parts of two contents.
    Unfinished,
    /// The volume is encrypted, and no key that was given opens it: see [`Keys`](crate::Keys).
    Encrypted,
}

/// A refusal or a failure: its kind, its cause, and the file, volume or device concerned.
///
/// As text an error is one line, `what: why`. Programs decide by values: [`Error::kind`], [`Error::errno`], and for
/// damage its [structure, position, expected and found content](Damage).
#[derive(Debug)]
pub struct Error {
    about: String,
    cause: Cause,
}

#[derive(Debug)]
enum Cause {
    System(SystemError),
    Host(io::Error),
    /// A refusal by this library: its kind, and the reason, which follows the name in the text.
    Refused(ErrorKind, String),
}

impl Error {
    /// An error of the file system or the device that concerns `about`.
    pub fn new(about: impl fmt::Display, cause: impl Into<SystemError>) -> Error {
        Error { about: about.to_string(), cause: Cause::System(cause.into()) }
    }

    /// An error of the host's file system at `about`.
    pub fn host(about: impl fmt::Display, cause: io::Error) -> Error {
        Error { about: about.to_string(), cause: Cause::Host(cause) }
    }

    /// A refusal by this library itself.
    pub(crate) fn refused(kind: ErrorKind, about: impl fmt::Display, why: impl fmt::Display) -> Error {
        Error { about: about.to_string(), cause: Cause::Refused(kind, why.to_string()) }
    }

    /// The same error, said of `to` if it is said of `from`: of a file that has another name while it is written.
    pub(crate) fn said_of(self, from: &str, to: &str) -> Error {
        if self.about == from { Error { about: to.into(), ..self } } else { self }
    }

    /// What the error is about: a path on a volume, a source as the caller named it, or a device.
    pub fn about(&self) -> &str {
        match &self.cause {
            Cause::System(SystemError::Device(error)) if self.about.is_empty() => error.device(),
            _ => &self.about,
        }
    }

    /// The kind of the failure.
    pub fn kind(&self) -> ErrorKind {
        match &self.cause {
            Cause::System(error) => kind(error),
            Cause::Host(error) => match error.kind() {
                io::ErrorKind::NotFound => ErrorKind::NotFound,
                io::ErrorKind::AlreadyExists => ErrorKind::Exists,
                io::ErrorKind::PermissionDenied => ErrorKind::NotPermitted,
                _ => ErrorKind::Io,
            },
            Cause::Refused(kind, _) => *kind,
        }
    }

    /// The errno that a POSIX caller gets for this error.
    pub fn errno(&self) -> Errno {
        match &self.cause {
            Cause::System(error) => error.errno(),
            Cause::Host(error) => Errno::of_host(error),
            Cause::Refused(kind, _) => match kind {
                ErrorKind::NotFound => Errno::NOT_FOUND,
                ErrorKind::Exists => Errno::EXISTS,
                ErrorKind::NotADirectory => Errno::NOT_A_DIRECTORY,
                ErrorKind::IsADirectory => Errno::IS_A_DIRECTORY,
                ErrorKind::NotEmpty => Errno::NOT_EMPTY,
                ErrorKind::Protected | ErrorKind::Unfinished | ErrorKind::InUse | ErrorKind::Locked => {
                    Errno::BUSY
                }
                ErrorKind::Busy => Errno::AGAIN,
                ErrorKind::InvalidArgument
                | ErrorKind::InvalidName
                | ErrorKind::NotAVolume
                | ErrorKind::CannotMake => Errno::INVALID,
                ErrorKind::NoSpace => Errno::NO_SPACE,
                ErrorKind::FileTooLarge => Errno::FILE_TOO_LARGE,
                ErrorKind::Stopped => Errno::INTERRUPTED,
                ErrorKind::ReadOnly => Errno::READ_ONLY,
                ErrorKind::NotPermitted => Errno::NOT_PERMITTED,
                ErrorKind::Encrypted => Errno::NO_KEY,
                ErrorKind::Unsupported | ErrorKind::Unreadable => Errno::UNSUPPORTED,
                ErrorKind::Damaged | ErrorKind::Io | ErrorKind::CannotSave => Errno::IO,
            },
        }
    }

    /// The damaged structure, if damage is the cause: its name, its offset on the volume in bytes, and the expected
    /// and found content.
    pub fn damage(&self) -> Option<&Damage> {
        match &self.cause {
            Cause::System(SystemError::Damaged(damage)) => Some(damage),
            _ => None,
        }
    }

    /// Whether a process or the kernel has the device, and nothing tells for what.
    pub(crate) fn is_taken_by_somebody(&self) -> bool {
        use platter_device::Error as Device;
        match &self.cause {
            Cause::System(SystemError::Device(Device::Locked { .. }))
            | Cause::Refused(ErrorKind::Locked, _) => true,
            Cause::System(SystemError::Device(Device::InUse { reason, .. })) => reason == IN_USE,
            Cause::System(SystemError::Device(Device::Io { source, .. })) => {
                source.kind() == io::ErrorKind::ResourceBusy
            }
            _ => false,
        }
    }

    /// The error of the file system or the device, if one of them is the cause.
    pub fn system(&self) -> Option<&SystemError> {
        match &self.cause {
            Cause::System(error) => Some(error),
            Cause::Host(_) | Cause::Refused(..) => None,
        }
    }
}

fn kind(error: &SystemError) -> ErrorKind {
    use platter_device::Error as Device;
    match error {
        SystemError::NotFound => ErrorKind::NotFound,
        SystemError::Exists => ErrorKind::Exists,
        SystemError::NotADirectory => ErrorKind::NotADirectory,
        SystemError::IsADirectory => ErrorKind::IsADirectory,
        SystemError::NotEmpty => ErrorKind::NotEmpty,
        SystemError::NoSpace
        | SystemError::DirectoryFull { .. }
        | SystemError::RecordFull { .. }
        | SystemError::TooManyLinks { .. } => ErrorKind::NoSpace,
        SystemError::FileTooLarge { .. } => ErrorKind::FileTooLarge,
        SystemError::InvalidName { .. } => ErrorKind::InvalidName,
        SystemError::InvalidArgument(_) | SystemError::Misaligned { .. } | SystemError::IntoItself => {
            ErrorKind::InvalidArgument
        }
        SystemError::Busy => ErrorKind::Busy,
        SystemError::ReadOnly(_) | SystemError::Device(Device::ReadOnly { .. }) => ErrorKind::ReadOnly,
        SystemError::NotPermitted(_) => ErrorKind::NotPermitted,
        SystemError::Unsupported { .. } => ErrorKind::Unsupported,
        SystemError::Unreadable(_) => ErrorKind::Unreadable,
        SystemError::NotThisFormat { .. } | SystemError::Unrecognised(_) => ErrorKind::NotAVolume,
        SystemError::CannotMake { .. } => ErrorKind::CannotMake,
        SystemError::Stopped | SystemError::Device(Device::Stopped { .. }) => ErrorKind::Stopped,
        SystemError::Damaged(_) => ErrorKind::Damaged,
        SystemError::Device(Device::Protected { .. }) => ErrorKind::Protected,
        SystemError::Device(Device::InUse { .. }) => ErrorKind::InUse,
        SystemError::Device(Device::Locked { .. }) => ErrorKind::Locked,
        SystemError::Device(Device::Io { operation: Operation::Open, source, .. }) => match source.kind() {
            io::ErrorKind::NotFound => ErrorKind::NotFound,
            io::ErrorKind::PermissionDenied => ErrorKind::NotPermitted,
            _ => ErrorKind::Io,
        },
        // Kinds of errors that are added later count as I/O failures.
        _ => ErrorKind::Io,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            // A device's errors contain its name.
            Cause::System(SystemError::Device(error)) => error.fmt(f),
            Cause::System(error) => write!(f, "{}: {error}", self.about),
            Cause::Host(error) => {
                let text = error.to_string();
                // Without the error number that the standard library appends.
                let end = text.rfind(" (os error ").unwrap_or(text.len());
                write!(f, "{}: {}", self.about, &text[..end])
            }
            Cause::Refused(_, why) => write!(f, "{}: {why}", self.about),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.cause {
            Cause::System(error) => Some(error),
            Cause::Host(error) => Some(error),
            Cause::Refused(..) => None,
        }
    }
}

/// For [`std::io::Read`] and the like. The [`Error`] is inside: `get_ref` and `downcast_ref` return it.
impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        io::Error::new(io::Error::from_raw_os_error(error.errno().0).kind(), error)
    }
}

/// A device's errors contain its name.
impl From<platter_device::Error> for Error {
    fn from(error: platter_device::Error) -> Error {
        Error { about: String::new(), cause: Cause::System(error.into()) }
    }
}

/// Adds to an error the path or the name that it is about.
pub(crate) trait About<T> {
    fn about(self, what: impl fmt::Display) -> Result<T>;
}

impl<T> About<T> for platter_vfs::Result<T> {
    fn about(self, what: impl fmt::Display) -> Result<T> {
        self.map_err(|error| Error::new(what, error))
    }
}

impl<T> About<T> for io::Result<T> {
    fn about(self, what: impl fmt::Display) -> Result<T> {
        self.map_err(|error| Error::host(what, error))
    }
}

/// A host path, for use in a message.
pub(crate) fn shown(path: &Path) -> impl fmt::Display + '_ {
    path.display()
}
