//! Errors as programs see them.

pub use platter_vfs::Errno;

/// The result of an operation, as the program that asked for it gets it.
pub type Answer<T> = Result<T, Errno>;
