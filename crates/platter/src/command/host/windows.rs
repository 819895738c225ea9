//! Windows has no signals of POSIX.

use super::Listening;
use platter_device::host;
use std::io;
use std::path::Path;

/// Prepares the process.
pub(crate) fn begin() {}

/// Windows makes no file of the memory of a process by itself.
pub(crate) fn keep_memory() {}

/// Calls `told` for each Ctrl-C, and when the console is closed.
pub(crate) fn on_signals(told: impl FnMut() + Send + 'static) {
    let told = std::sync::Mutex::new(told);
    host::on_interrupt(move || {
        if let Ok(mut told) = told.lock() {
            told();
        }
    });
}

/// Who closes the console interrupts the program.
pub(crate) fn terminal_has_gone() -> bool {
    false
}

/// Ends the process at once.
pub(crate) fn exit(code: u8) -> ! {
    std::process::exit(code.into())
}

/// Clients reach a port only.
pub(crate) fn listen_at(_path: &Path) -> io::Result<Box<dyn Listening>> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "there are no sockets with paths here; --port takes a port",
    ))
}
