//! What can go wrong below a file system.

use std::fmt;
use std::io;

/// The result of a device operation.
pub type Result<T> = std::result::Result<T, Error>;

/// What was asked of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Sectors to memory.
    Read,
    /// Memory to sectors.
    Write,
    /// Make completed writes durable.
    Flush,
    /// Give up a range's content.
    Discard,
    /// Open the device, or learn its size and sectors.
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

/// A device's refusal or failure. Offsets and lengths are bytes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system or the medium failed.
    #[error("{device}: {} failed: {source}", transfer(*operation, *offset, *length))]
    Io {
        /// The device's name.
        device: Box<str>,
        /// What was asked.
        operation: Operation,
        /// Where.
        offset: u64,
        /// How much.
        length: u64,
        /// Why.
        source: io::Error,
    },
    /// An offset or a length is not a multiple of the logical sector.
    #[error(
        "{device}: {operation} of {length} bytes at offset {offset} is not a multiple of the {sector}-byte sector"
    )]
    Misaligned {
        /// The device's name.
        device: Box<str>,
        /// What was asked.
        operation: Operation,
        /// Where.
        offset: u64,
        /// How much.
        length: u64,
        /// The logical sector.
        sector: u32,
    },
    /// A transfer reaches past the end.
    #[error(
        "{device}: {operation} of {length} bytes at offset {offset} reaches past the end at {size} bytes"
    )]
    OutOfRange {
        /// The device's name.
        device: Box<str>,
        /// What was asked.
        operation: Operation,
        /// Where.
        offset: u64,
        /// How much.
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
    /// Writing would destroy something the user did not name, or race with the kernel.
    #[error("{device}: {reason}")]
    Protected {
        /// The device's name.
        device: Box<str>,
        /// What stands in the way, for example "mounted at /home" or "holds an ext4 file system".
        reason: String,
    },
    /// Another process has locked it. Nothing good comes of writing beside it, so nobody is offered to.
    #[error("{device}: {who} works on it")]
    Locked {
        /// The device's name.
        device: Box<str>,
        /// Who has: a process's number and name, or "another process".
        who: String,
    },
    /// The text or the parameters that name a device make no sense.
    #[error("{device}: {reason}")]
    Unusable {
        /// The device's name.
        device: Box<str>,
        /// What is wrong with it.
        reason: String,
    },
}

/// What was asked, with place and length where it has any.
fn transfer(operation: Operation, offset: u64, length: u64) -> String {
    match operation {
        Operation::Open | Operation::Flush => operation.to_string(),
        _ => format!("{operation} of {length} bytes at offset {offset}"),
    }
}

impl Error {
    /// The failure of a system call.
    pub fn io(device: &str, operation: Operation, offset: u64, length: u64, source: io::Error) -> Error {
        Error::Io { device: device.into(), operation, offset, length, source }
    }
}
