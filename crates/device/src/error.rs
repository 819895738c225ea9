//! The errors of devices.

use std::fmt;
use std::io;

/// The result of a device operation.
pub type Result<T> = std::result::Result<T, Error>;

/// An operation of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Read sectors into memory.
    Read,
    /// Write memory to sectors.
    Write,
    /// Make completed writes durable.
    Flush,
    /// Discard a range, whose content is no longer needed.
    Discard,
    /// Open the device, or query its size and sectors.
    Open,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Flush => "flush",
            Operation::Discard => "discard",
            Operation::Open => "open",
        })
    }
}

/// The refusal or failure of a device operation. Offsets and lengths are in bytes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system or the medium failed.
    #[error("{device}: {} failed: {source}", transfer(*operation, *offset, *length))]
    Io {
        /// The device's name.
        device: Box<str>,
        /// The operation that failed.
        operation: Operation,
        /// Its offset.
        offset: u64,
        /// Its length.
        length: u64,
        /// The error of the operating system.
        source: io::Error,
    },
    /// An offset or a length is not a multiple of the logical sector.
    #[error(
        "{device}: {operation} of {length} bytes at offset {offset} is not a multiple of the {sector}-byte sector"
    )]
    Misaligned {
        /// The device's name.
        device: Box<str>,
        /// The operation that was refused.
        operation: Operation,
        /// Its offset.
        offset: u64,
        /// Its length.
        length: u64,
        /// The logical sector of the device in bytes.
        sector: u32,
    },
    /// A transfer reaches past the end of the device.
    #[error(
        "{device}: {operation} of {length} bytes at offset {offset} reaches past the end at {size} bytes"
    )]
    OutOfRange {
        /// The device's name.
        device: Box<str>,
        /// The operation that was refused.
        operation: Operation,
        /// Its offset.
        offset: u64,
        /// Its length.
        length: u64,
        /// The device's size.
        size: u64,
    },
    /// The device was opened for reading only.
    #[error("{device}: opened for reading only")]
    ReadOnly {
        /// The device's name.
        device: Box<str>,
    },
    /// Writing would destroy something that the user did not name. Whoever means it can insist.
    #[error("{device}: {reason}")]
    Protected {
        /// The device's name.
        device: Box<str>,
        /// The reason, for example "holds an ext4 file system".
        reason: String,
    },
    /// The kernel uses the device. Writing beside it would do damage, so no option overrides this error.
    #[error("{device}: {reason}")]
    InUse {
        /// The device's name.
        device: Box<str>,
        /// Who uses it, for example "is mounted at /home".
        reason: String,
    },
    /// Another process has locked the device. Writing beside that process would do damage, so no option overrides this
    /// error.
    #[error("{device}: {who} works on it")]
    Locked {
        /// The device's name.
        device: Box<str>,
        /// The process that holds the lock: its number and name, or "another process".
        who: String,
    },
    /// The operation was asked to end: see [`Stoppable`](crate::Stoppable).
    #[error("{device}: stopped")]
    Stopped {
        /// The device's name.
        device: Box<str>,
    },
    /// The name or the parameters of a device are invalid.
    #[error("{device}: {reason}")]
    Unusable {
        /// The device's name.
        device: Box<str>,
        /// What is wrong with the name or the parameters.
        reason: String,
    },
}

/// The operation as text, with offset and length if it has any.
fn transfer(operation: Operation, offset: u64, length: u64) -> String {
    match operation {
        Operation::Open | Operation::Flush => operation.to_string(),
        _ => format!("{operation} of {length} bytes at offset {offset}"),
    }
}

impl Error {
    /// An [`Error::Io`] for a failed system call.
    pub fn io(device: &str, operation: Operation, offset: u64, length: u64, source: io::Error) -> Error {
        Error::Io { device: device.into(), operation, offset, length, source }
    }

    /// The name of the device.
    pub fn device(&self) -> &str {
        match self {
            Error::Io { device, .. }
            | Error::Misaligned { device, .. }
            | Error::OutOfRange { device, .. }
            | Error::ReadOnly { device }
            | Error::Protected { device, .. }
            | Error::InUse { device, .. }
            | Error::Locked { device, .. }
            | Error::Stopped { device }
            | Error::Unusable { device, .. } => device,
        }
    }
}
