//! The copies of mirrors.

use crate::errors::{Listening, freely, interruptibly};
use platter::Listener;
use platter::device::Standing;
use platter::mirror::{self, RebuildOptions};
use pyo3::prelude::*;
use std::path::PathBuf;

/// Where one copy of a mirror stands.
#[pyclass(frozen, get_all, module = "platterfs")]
#[derive(Clone)]
pub struct MirrorCopy {
    /// The path of the image or block device.
    name: String,
    /// "current", "damaged", "left-out" or "diverged".
    standing: &'static str,
    /// The same in words, with the reason.
    message: String,
    /// The number of sessions that its record knows; `None` if it has no record.
    sessions: Option<usize>,
    /// Whether the record is found by an identity of the device. If not, it goes by the name.
    identified: bool,
}

#[pymethods]
impl MirrorCopy {
    fn __repr__(&self) -> String {
        format!("MirrorCopy(name={:?}, standing={:?}, message={:?})", self.name, self.standing, self.message)
    }
}

/// Where the copies of a mirror stand.
#[pyclass(frozen, get_all, module = "platterfs")]
pub struct MirrorStatus {
    /// The copies, in the order in which the source names them.
    copies: Vec<MirrorCopy>,
    /// Whether the last session that wrote was cut off; the next one compares the copies.
    unclosed: bool,
    /// Whether every copy is current and the mirror was closed.
    whole: bool,
}

#[pymethods]
impl MirrorStatus {
    fn __repr__(&self) -> String {
        format!("MirrorStatus(copies={}, whole={})", self.copies.len(), self.whole)
    }
}

impl From<mirror::CopyStatus> for MirrorCopy {
    fn from(copy: mirror::CopyStatus) -> MirrorCopy {
        MirrorCopy {
            standing: match copy.standing {
                Standing::Current => "current",
                Standing::Damaged => "damaged",
                Standing::LeftOut(_) => "left-out",
                Standing::Diverged(_) => "diverged",
            },
            message: copy.standing.to_string(),
            name: copy.name,
            sessions: copy.sessions,
            identified: copy.is_identified,
        }
    }
}

/// Returns where each copy of a mirror stands.
#[pyfunction]
pub fn mirror_status(python: Python<'_>, source: PathBuf) -> PyResult<MirrorStatus> {
    let status = freely(python, || mirror::status(source, &Listener::default()))?;
    let (whole, unclosed) = (status.is_whole(), status.is_unclosed);
    Ok(MirrorStatus { copies: status.copies.into_iter().map(MirrorCopy::from).collect(), unclosed, whole })
}

/// Copies the current content over every copy that is not current; returns their number. With `keep`, the content of that
/// copy is what all get.
#[pyfunction]
#[pyo3(signature = (source, *, keep = None, force = false, progress = None))]
pub fn mirror_rebuild(
    python: Python<'_>,
    source: PathBuf,
    keep: Option<PathBuf>,
    force: bool,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<usize> {
    let options = RebuildOptions { from: keep, force, ..RebuildOptions::default() };
    interruptibly(&Listening::new(python, progress), |working| mirror::rebuild(source, &options, working))
}

/// Makes a further copy of a mirror, in a new image file or on a device that holds nothing.
#[pyfunction]
#[pyo3(signature = (source, image, *, force = false, progress = None))]
pub fn mirror_add(
    python: Python<'_>,
    source: PathBuf,
    image: PathBuf,
    force: bool,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<usize> {
    let options = RebuildOptions { force, ..RebuildOptions::default() };
    interruptibly(&Listening::new(python, progress), |working| mirror::add(source, image, &options, working))
}

/// Takes a copy out of its mirror; it stays a volume by itself.
#[pyfunction]
#[pyo3(signature = (source, image, *, force = false))]
pub fn mirror_drop(python: Python<'_>, source: PathBuf, image: PathBuf, force: bool) -> PyResult<()> {
    freely(python, || mirror::remove(source, image, force))
}
