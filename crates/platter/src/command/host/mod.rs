//! What the program asks of the operating system: signals, whether the terminal is still there, and sockets with a path. One
//! module for each system, both with the same functions. What copying asks is in [`platter::copy`]; what needs `unsafe` is in
//! [`platter_device::host`].

#[cfg(unix)]
mod posix;
#[cfg(unix)]
mod socket;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(super) use posix::{begin, exit, keep_memory, on_signals, terminal_has_gone};
#[cfg(unix)]
pub(super) use socket::listen_at;
#[cfg(windows)]
pub(super) use windows::{begin, exit, keep_memory, listen_at, on_signals, terminal_has_gone};

use std::io::{Read, Result, Write};

/// Where clients connect.
pub(super) trait Listening {
    /// The next client; `None` if none waits.
    fn next(&self) -> Result<Option<Box<dyn Connection>>>;
}

/// A client that has connected.
pub(super) trait Connection {
    /// What it sends.
    fn reader(&self) -> Result<Box<dyn Read + Send>>;

    /// What is sent to it.
    fn writer(&self) -> Result<Box<dyn Write + Send>>;

    /// Ends the connection: what waits for the client returns.
    fn end(&self);
}
