//! Why a command did not do what it was asked.

use std::fmt;
use std::io::Write;
use std::path::Path;
use std::sync::OnceLock;

/// What a command returns: its exit code, or why it failed.
pub type Outcome = Result<u8, Failure>;

/// Exit code for wrong arguments.
pub const USAGE: u8 = 2;
/// Exit code of `check` for wrong arguments, as in fsck(8).
pub const CHECK_USAGE: u8 = 16;
/// Exit code of `check` when it could not be carried out, as in fsck(8).
pub const CHECK_FAILED: u8 = 8;
/// Exit code of what a person interrupted, as shells have it: 128 and the signal's number.
pub const INTERRUPTED: u8 = 130;
/// Exit code of what failed in any other way.
pub const FAILED: u8 = 1;

/// What went wrong, as one line that is printed after `platter: `.
#[derive(Debug)]
pub struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    /// `what: why`, exit code 1.
    pub fn new(what: impl fmt::Display, why: impl fmt::Display) -> Failure {
        Failure { message: format!("{what}: {why}"), code: FAILED }
    }

    /// `what: why`, without the number that the standard library adds.
    pub fn from_io(what: impl fmt::Display, why: &std::io::Error) -> Failure {
        Failure::new(what, plain(why))
    }

    /// Nobody is left to be told: the reader of the output went away.
    pub fn silent() -> Failure {
        Failure { message: String::new(), code: FAILED }
    }

    /// The same failure with another exit code.
    pub fn with_code(self, code: u8) -> Failure {
        Failure { code, ..self }
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        self.code
    }
}

impl Failure {
    /// Whether there is nothing to print.
    pub fn is_silent(&self) -> bool {
        self.message.is_empty()
    }

    /// Prints it on standard error.
    pub fn print(&self) {
        if !self.is_silent() {
            tell(format_args!("platter: {self}"));
        }
    }
}

/// Where lines go that a process in the background has for whoever keeps the machine.
static LOG: OnceLock<Log> = OnceLock::new();

type Log = Box<dyn Fn(&str) + Send + Sync>;

/// Prints a line on standard error, or where [`tell_to`] said. Nothing can be done where that is full or closed.
pub fn tell(line: impl fmt::Display) {
    match LOG.get() {
        Some(log) => log(&line.to_string()),
        None => {
            let _ = writeln!(std::io::stderr(), "{line}");
        }
    }
}

/// From now on lines go to `log`: nobody reads the standard error of a process in the background.
pub fn tell_to(log: impl Fn(&str) + Send + Sync + 'static) {
    // A second log would be of a second mount, which a process does not have.
    let _ = LOG.set(Box::new(log));
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// A device's errors name it themselves. What is protected is so until somebody insists.
impl From<platter_device::Error> for Failure {
    fn from(error: platter_device::Error) -> Failure {
        let hint = match error {
            platter_device::Error::Protected { .. } => FORCE,
            _ => "",
        };
        Failure { message: format!("{error}{hint}"), code: FAILED }
    }
}

/// Appended to messages about a device whose content is protected from being overwritten.
pub const FORCE: &str = "; use --force to write to it all the same";

/// The library's errors name what they are about. Where a command can be told to do it all the same, or otherwise, it says
/// how.
impl From<platter::Error> for Failure {
    fn from(error: platter::Error) -> Failure {
        use platter::ErrorKind;
        let hint = match error.kind() {
            ErrorKind::Protected => FORCE,
            ErrorKind::CannotSave => {
                "; --undo FILE puts the undo file elsewhere, --no-undo repairs without one"
            }
            _ => "",
        };
        Failure { message: format!("{error}{hint}"), code: FAILED }
    }
}

/// The lab's errors say what they are about. What was asked and makes no sense is a wrong argument.
impl From<platter_lab::Error> for Failure {
    fn from(error: platter_lab::Error) -> Failure {
        use platter_lab::Error;
        let code = match &error {
            Error::Job(_) | Error::Input { .. } => USAGE,
            Error::Interrupted => INTERRUPTED,
            _ => FAILED,
        };
        match error {
            Error::Device(error) => error.into(),
            error => Failure { message: error.to_string(), code },
        }
    }
}

/// Says which file or volume an error is about.
pub trait About<T> {
    /// Turns an error into a failure about `what`.
    fn about(self, what: impl fmt::Display) -> Result<T, Failure>;
}

impl<T> About<T> for platter_vfs::Result<T> {
    fn about(self, what: impl fmt::Display) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(what, error))
    }
}

impl<T> About<T> for std::io::Result<T> {
    fn about(self, what: impl fmt::Display) -> Result<T, Failure> {
        self.map_err(|error| Failure::from_io(what, &error))
    }
}

/// The system's words for an error, without the number that the standard library adds.
fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.rfind(" (os error ") {
        Some(end) => text[..end].to_string(),
        None => text,
    }
}

/// A path for a message.
pub fn shown(path: &Path) -> impl fmt::Display + '_ {
    path.display()
}
