//! What can go wrong in the lab.

/// The result of a lab operation.
pub type Result<T> = std::result::Result<T, Error>;

/// A refusal or failure of the lab.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A device failed.
    #[error(transparent)]
    Device(#[from] platter_device::Error),
    /// A file system failed.
    #[error(transparent)]
    FileSystem(#[from] platter_vfs::Error),
    /// The job or comparison cannot be run as it was asked for.
    #[error("this job cannot be run: {0}")]
    Job(String),
    /// Every target failed before anything was measured on it.
    #[error("nothing was measured: {0}")]
    Unmeasured(String),
    /// The caller asked to stop before anything was measured.
    #[error("interrupted before anything was measured")]
    Interrupted,
    /// A workload, job file or report cannot be read.
    #[error("{name}: {reason}")]
    Input {
        /// The name of the file or of the workload.
        name: String,
        /// What is wrong and where in the text.
        reason: String,
    },
    /// A program of the user's failed.
    #[error("`{command}` ended with exit code {code}{}", last_words(.said))]
    Program {
        /// The command line.
        command: String,
        /// Its exit code; 128 and the signal's number if a signal ended it.
        code: i32,
        /// The last lines of its output.
        said: String,
    },
    /// A call of the operating system failed.
    #[error("{what}: {source}")]
    Io {
        /// What was tried, with the path.
        what: String,
        /// Why it failed.
        source: std::io::Error,
    },
}

/// The error of a run without results: it was `interrupted`, or each target was left out for one of these reasons.
pub(crate) fn unmeasured(interrupted: bool, reasons: &[String]) -> Error {
    match interrupted || reasons.is_empty() {
        true => Error::Interrupted,
        false => Error::Unmeasured(reasons.join("; ")),
    }
}

/// The last words of a program, as the end of a sentence.
fn last_words(words: &str) -> String {
    if words.is_empty() { ", and said nothing".into() } else { format!(": {words}") }
}
