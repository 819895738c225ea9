//! Errors as programs see them.

pub use platter_vfs::Errno;

/// What an operation returns to the program that asked for it.
pub type Answer<T> = Result<T, Errno>;
