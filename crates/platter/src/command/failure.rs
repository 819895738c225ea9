//! The error type of commands, and their exit codes.

use std::fmt;
use std::io::Write;
use std::path::Path;
use std::sync::OnceLock;

/// The result of a command: its exit code, or the reason of its failure.
pub(super) type Outcome = Result<u8, Failure>;

/// Exit code for wrong arguments.
pub(super) const USAGE: u8 = 2;
/// Exit code of `check` for wrong arguments, as in fsck(8).
pub(super) const CHECK_USAGE: u8 = 16;
/// Exit code of `check` when it could not be carried out, as in fsck(8).
pub(super) const CHECK_FAILED: u8 = 8;
/// Exit code after an interrupt, as shells have it: 128 plus the signal's number.
pub(super) const INTERRUPTED: u8 = 130;
/// Exit code of every other failure.
pub(super) const FAILED: u8 = 1;

/// The reason of a failure, as one line that is printed after `platter: `.
#[derive(Debug)]
pub(super) struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    /// A failure with the message `what: why` and exit code 1.
    pub(super) fn new(what: impl fmt::Display, why: impl fmt::Display) -> Failure {
        Failure { message: without_numbers(format!("{what}: {why}")), code: FAILED }
    }

    /// A failure with the message `what: why`.
    pub(super) fn from_io(what: impl fmt::Display, why: &std::io::Error) -> Failure {
        Failure::new(what, why)
    }

    /// A command that the user interrupted, with where it stands.
    pub(super) fn interrupted(standing: impl fmt::Display) -> Failure {
        Failure { message: format!("interrupted; {standing}"), code: INTERRUPTED }
    }

    /// A failure without a message: the reader of standard output is gone.
    pub(super) fn silent() -> Failure {
        Failure { message: String::new(), code: FAILED }
    }

    /// The same failure with another exit code; an interrupt keeps its own.
    pub(super) fn with_code(self, code: u8) -> Failure {
        let code = if self.code == INTERRUPTED { INTERRUPTED } else { code };
        Failure { code, ..self }
    }

    /// The exit code.
    pub(super) fn code(&self) -> u8 {
        self.code
    }
}

impl Failure {
    /// Whether there is nothing to print.
    pub(super) fn is_silent(&self) -> bool {
        self.message.is_empty()
    }

    /// Prints the message on standard error.
    pub(super) fn print(&self) {
        if !self.is_silent() {
            tell(format_args!("platter: {self}"));
        }
    }
}

/// The log that [`tell`] writes to in a background process, which has no standard error.
static LOG: OnceLock<Log> = OnceLock::new();

type Log = Box<dyn Fn(&str) + Send + Sync>;

/// Prints a line on standard error, or in the log set by [`tell_to`]. Errors of writing are ignored. Control characters
/// become `?`, except at the ends of lines: names and values that messages quote come from files of others.
pub(super) fn tell(line: impl fmt::Display) {
    let line = harmless(&line.to_string());
    match LOG.get() {
        Some(log) => log(&line),
        None => {
            let _ = writeln!(std::io::stderr(), "{line}");
        }
    }
}

/// Replaces control characters, so that the text cannot move a terminal's cursor or change its colours, and marks that
/// change the direction of writing, by which `gpj.exe` would look like `exe.jpg`: for lines and names on standard output.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|c| if is_harmful(c) { '?' } else { c }).collect()
}

/// The same for messages, in which ends of lines and tabs stay.
pub(super) fn harmless(text: &str) -> String {
    let replaced = |c: char| is_harmful(c) && c != '\n' && c != '\t';
    text.chars().map(|c| if replaced(c) { '?' } else { c }).collect()
}

/// Whether a character makes a terminal or a page show something else than the text: controls, separators of lines, and
/// what the Unicode Standard Annex 9 lists as directional formatting characters.
fn is_harmful(c: char) -> bool {
    let is_directional =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || is_directional || matches!(c, '\u{2028}' | '\u{2029}')
}

/// Makes [`tell`] write to `log` from now on: nobody reads the standard error of a background process.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub(super) fn tell_to(log: impl Fn(&str) + Send + Sync + 'static) {
    // A log that is set already stays: a process serves one mount only.
    let _ = LOG.set(Box::new(log));
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// A device's errors contain its name. Where content is protected, the message says how to insist.
impl From<platter_device::Error> for Failure {
    fn from(error: platter_device::Error) -> Failure {
        let hint = match error {
            platter_device::Error::Protected { .. } => FORCE,
            _ => "",
        };
        Failure { message: without_numbers(format!("{error}{hint}")), code: FAILED }
    }
}

/// Appended to messages about a device whose content is protected from being overwritten.
pub(super) const FORCE: &str = "; use --force to write to it all the same";

/// The library's errors name what they are about. Where an option makes the command go on all the same, or do
/// otherwise, the message names it.
impl From<platter::Error> for Failure {
    fn from(error: platter::Error) -> Failure {
        use platter::ErrorKind;
        let hint = match error.kind() {
            ErrorKind::Protected => FORCE,
            ErrorKind::CannotSave => {
                "; --undo FILE puts the undo file elsewhere, --no-undo repairs without one"
            }
            ErrorKind::Encrypted => "; --password-file, --recovery-key-file or --key-file gives a key",
            _ => "",
        };
        let code = if error.kind() == ErrorKind::Stopped { INTERRUPTED } else { FAILED };
        Failure { message: without_numbers(format!("{error}{hint}")), code }
    }
}

/// The lab's errors name what they are about. A job or input that makes no sense has the exit code of wrong
/// arguments.
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
            error => Failure { message: without_numbers(error.to_string()), code },
        }
    }
}

/// Adds the name of a file or volume to an error.
pub(super) trait About<T> {
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

/// Removes the numbers that the standard library appends to the system's texts of errors: the words say it all.
fn without_numbers(mut text: String) -> String {
    const NUMBER: &str = " (os error ";
    while let Some(start) = text.find(NUMBER) {
        let digits = text[start + NUMBER.len()..].bytes().take_while(u8::is_ascii_digit).count();
        let end = start + NUMBER.len() + digits;
        if !text[end..].starts_with(')') {
            break;
        }
        text.replace_range(start..=end, "");
    }
    text
}

/// A path, for use in a message.
pub(super) fn shown(path: &Path) -> impl fmt::Display + '_ {
    path.display()
}
