//! What the program asks of the operating system: signals, and the permissions of a file. One module for each system, both
//! with the same functions. What copying asks is in [`platter::copy`]; what needs `unsafe` is in
//! [`platter_device::host`].

#[cfg(unix)]
mod posix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub use posix::{begin, exit, make_with_mode, mode, on_signals};
#[cfg(windows)]
pub use windows::{begin, exit, make_with_mode, mode, on_signals};
