//! Verifying everything that has a checksum.

use crate::device::Origin;
use crate::errors::{Listening, interruptibly};
use crate::keys::keys;
use crate::report::Finding;
use platter::{DeviceOptions, ScrubOptions, Severity, Source};
use pyo3::prelude::*;
use std::path::PathBuf;

/// A damaged range of a file, or damaged metadata.
#[pyclass(frozen, get_all, extends = Finding, module = "platterfs")]
pub struct Damaged {
    /// The first damaged byte of the file or stream; `None` for metadata.
    start: Option<u64>,
    /// The byte behind the last damaged one; `None` for metadata.
    end: Option<u64>,
    /// The place of the first damaged byte, in bytes from the start of the volume.
    position: u64,
    /// The damaged copies of a mirror, counted from 0.
    copies: Vec<usize>,
}

/// The outcome of a scrub.
#[pyclass(frozen, get_all, module = "platterfs")]
pub struct ScrubReport {
    /// The format that the volume was recognised as.
    format: String,
    /// The damaged ranges, at most 10,000 of them.
    damaged: Vec<Py<Damaged>>,
    /// The number of damaged ranges, including those that are not in `damaged`.
    found: u64,
    /// The number of damaged ranges that were repaired from another copy.
    repaired: u64,
    /// The bytes of file data that are good in no copy.
    lost: u64,
    /// The bytes of metadata that were verified, in each copy.
    metadata: u64,
    /// The bytes of file data that were verified, in each copy.
    data: u64,
    /// The bytes that were compared between copies.
    compared: u64,
    /// The number of copies that were verified.
    copies: usize,
    /// Whether no damage is left.
    clean: bool,
    /// Where to go on, if not all was scrubbed: the `start` of the next call.
    next: Option<String>,
    /// The paths that were removed because their data is lost.
    removed: Vec<String>,
    /// The paths that should have been removed, each with the reason why it could not be.
    not_removed: Vec<(String, String)>,
}

#[pymethods]
impl ScrubReport {
    fn __repr__(&self) -> String {
        let ScrubReport { format, found, repaired, lost, .. } = self;
        format!("ScrubReport(format={format:?}, found={found}, repaired={repaired}, lost={lost})")
    }
}

fn damaged(python: Python<'_>, damaged: platter::vfs::Damaged) -> PyResult<Py<Damaged>> {
    let platter::vfs::Damaged { finding, range, place, copies } = damaged;
    let parts = PyClassInitializer::from(Finding::from(finding)).add_subclass(Damaged {
        start: range.as_ref().map(|range| range.start),
        end: range.map(|range| range.end),
        position: place,
        copies,
    });
    Py::new(python, parts)
}

/// Reads everything that has a checksum, from every copy of a mirror, and verifies it. Data that is damaged in one copy is
/// repaired from another; with `salvage`, files whose data is lost are removed. The volume must not be open.
#[pyfunction]
#[pyo3(signature = (
    source, *, rate = None, limit = None, start = None, checksums_only = false, salvage = false, progress = None,
    password = None, recovery_key = None, key_file = None
))]
#[allow(clippy::too_many_arguments, reason = "they have names in Python")]
pub fn scrub(
    source: &Bound<'_, PyAny>,
    rate: Option<u64>,
    limit: Option<u64>,
    start: Option<String>,
    checksums_only: bool,
    salvage: bool,
    progress: Option<&Bound<'_, PyAny>>,
    password: Option<&str>,
    recovery_key: Option<&str>,
    key_file: Option<PathBuf>,
) -> PyResult<ScrubReport> {
    let python = source.py();
    let keys = keys(password, recovery_key, key_file)?;
    let options = ScrubOptions { rate, limit, from: start, checksums_only, salvage };
    let origin = Origin::new(source, salvage)?;
    let scrubbed = interruptibly(&Listening::new(python, progress), |working| {
        let opening = DeviceOptions { keys: working.with(keys), ..DeviceOptions::default() };
        match origin {
            Origin::Path(path) => platter::scrub_source(&Source::parse(path)?, &options, &opening, working),
            Origin::Object(device) => platter::scrub_on(device, &options, &opening, working),
        }
    })?;
    let report = scrubbed.report;
    let all = report.damaged.into_iter().map(|one| damaged(python, one));
    Ok(ScrubReport {
        format: scrubbed.format,
        damaged: all.collect::<PyResult<_>>()?,
        found: report.found,
        repaired: report.repaired,
        lost: report.lost,
        metadata: report.metadata,
        data: report.data,
        compared: report.compared,
        copies: report.copies,
        clean: report.remaining.is_none_or(|worst| worst == Severity::Notice),
        next: report.next,
        removed: report.removed,
        not_removed: report.stuck,
    })
}
