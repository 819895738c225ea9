//! Copying files and trees between the host and a volume.

use platter::copy::{CopyListener, Loss, Options, Outcome};
use platter::{Error, Progress};
use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError};

/// The most losses and failures that are kept one by one.
const KEPT: usize = 10_000;

/// The outcome of a copy.
#[pyclass(frozen, get_all, module = "platterfs")]
pub struct Copied {
    /// The number of files that were copied.
    files: u64,
    /// Their bytes.
    bytes: u64,
    /// What the target has no place for: the kind, and the path in the source. At most 10,000 of them.
    lost: Vec<(String, String)>,
    /// The number of all of them.
    losses: u64,
    /// Each file or attribute that could not be copied: its path, and the reason. At most 10,000 of them.
    failed: Vec<(String, String)>,
    /// The number of all of them.
    failures: u64,
}

#[pymethods]
impl Copied {
    fn __repr__(&self) -> String {
        let Copied { files, bytes, losses, failures, .. } = self;
        format!("Copied(files={files}, bytes={bytes}, losses={losses}, failures={failures})")
    }
}

/// Keeps what is told of a copy.
struct Told<'p> {
    progress: &'p dyn Progress,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    lost: Vec<(String, String)>,
    failed: Vec<(String, String)>,
}

impl Progress for Told<'_> {
    fn progress(&self, what: &'static str, done: u64, total: u64) {
        self.progress.progress(what, done, total);
    }

    fn is_stopped(&self) -> bool {
        self.progress.is_stopped()
    }
}

impl CopyListener for Told<'_> {
    fn lost(&self, loss: Loss, at: &str) {
        let lost = &mut self.kept.lock().unwrap_or_else(PoisonError::into_inner).lost;
        if lost.len() < KEPT {
            lost.push((loss.words().0.into(), at.into()));
        }
    }

    fn failed(&self, error: &Error) {
        let failed = &mut self.kept.lock().unwrap_or_else(PoisonError::into_inner).failed;
        if failed.len() < KEPT {
            failed.push((error.about().into(), error.to_string()));
        }
    }
}

/// Carries a copy out, and gathers what it tells.
pub fn told(
    progress: &dyn Progress,
    copy: impl FnOnce(&Options, &dyn CopyListener) -> platter::Result<Outcome>,
    options: Options,
) -> platter::Result<Copied> {
    let told = Told { progress, kept: Mutex::default() };
    let outcome = copy(&options, &told)?;
    let Kept { lost, failed } = told.kept.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(Copied {
        files: outcome.copied.files,
        bytes: outcome.copied.bytes,
        lost,
        losses: outcome.losses,
        failed,
        failures: outcome.failures,
    })
}
