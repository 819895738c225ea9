//! The log of a background process.

use crate::command::failure::{About, Failure, shown};
use std::fs::File;
use std::io::Write;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// A log. Clones write to the same log.
#[derive(Clone)]
pub(crate) struct Logger(Arc<Mutex<Sink>>);

enum Sink {
    StandardError,
    File(File),
    System(Option<UnixDatagram>),
}

/// Priority "informational" of facility "daemon": RFC 3164, 4.1.1.
const PRIORITY: u32 = 3 * 8 + 6;

impl Logger {
    /// A log on standard error, for a process in the foreground.
    pub(crate) fn standard_error() -> Logger {
        Logger(Arc::new(Mutex::new(Sink::StandardError)))
    }

    /// A log that appends lines to a file, each with its time.
    pub(crate) fn file(path: &Path) -> Result<Logger, Failure> {
        let file = File::options().append(true).create(true).open(path).about(shown(path))?;
        Ok(Logger(Arc::new(Mutex::new(Sink::File(file)))))
    }

    /// Makes lines go to the system's log from now on, if there is one.
    pub(crate) fn use_system(&self) {
        let socket = UnixDatagram::unbound().ok().filter(|socket| socket.connect("/dev/log").is_ok());
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Sink::System(socket);
    }

    /// Writes a line. Errors are ignored.
    pub(crate) fn line(&self, line: &str) {
        match &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Sink::StandardError => {
                let _ = writeln!(std::io::stderr(), "platter: {line}");
            }
            Sink::File(file) => {
                let now = chrono::Local::now().format("%Y-%m-%d %H:%M:%S%.3f %z");
                let _ = file.write_all(format!("{now} {line}\n").as_bytes());
            }
            Sink::System(Some(socket)) => {
                let _ =
                    socket.send(format!("<{PRIORITY}>platter[{}]: {line}", std::process::id()).as_bytes());
            }
            Sink::System(None) => {}
        }
    }
}
