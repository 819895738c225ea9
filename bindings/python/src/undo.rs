//! Taking repairs back.

use crate::device::Origin;
use crate::errors::{Listening, interruptibly};
use platter::UndoOptions;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

/// The outcome of taking a repair back.
#[pyclass(frozen, get_all, module = "platterfs")]
pub struct Undone {
    /// When the repair began, in nanoseconds since 1970; `None` if it had changed nothing.
    began_ns: Option<u128>,
    /// The number of blocks that were given their old content.
    blocks: u64,
    /// The number of blocks that could not be read before they were overwritten, and that stay as they are.
    unknown: u64,
}

#[pymethods]
impl Undone {
    fn __repr__(&self) -> String {
        format!("Undone(blocks={}, unknown={})", self.blocks, self.unknown)
    }
}

/// Takes a repair back: gives an image the bytes that it had before. `file` is the `undo` of the report of that check.
#[pyfunction]
#[pyo3(signature = (file, source, *, force = false, progress = None))]
pub fn undo(
    file: PathBuf,
    source: &Bound<'_, PyAny>,
    force: bool,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Undone> {
    let options = UndoOptions { force, ..UndoOptions::default() };
    let origin = Origin::new(source, true)?;
    let undone = interruptibly(&Listening::new(source.py(), progress), |working| match origin {
        Origin::Path(path) => platter::undo(file, path, &options, working),
        Origin::Object(device) => platter::undo_on(file, device, &options, working),
    })?;
    let since =
        |time: std::time::SystemTime| time.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
    Ok(Undone { began_ns: undone.began.map(since), blocks: undone.blocks, unknown: undone.unknown })
}
