//! Making, checking and recovering volumes.

use crate::errors::freely;
use platter::{CheckOptions, FormatOptions, MakeOptions, RecoverOptions, Severity, Silent, Source};
use pyo3::prelude::*;
use std::path::PathBuf;

/// One thing that is not as the format says.
#[pyclass(frozen, get_all, module = "platter")]
#[derive(Clone)]
pub struct Finding {
    /// A short, stable name for the kind of finding.
    code: &'static str,
    /// "notice", "inconsistent" or "data-loss".
    severity: &'static str,
    /// The path it concerns, where there is one.
    path: Option<String>,
    /// A sentence that names structure, place, expected and found.
    message: String,
    /// Whether it was put right.
    repaired: bool,
}

impl From<platter::Finding> for Finding {
    fn from(finding: platter::Finding) -> Finding {
        Finding {
            code: finding.code,
            severity: match finding.severity {
                Severity::Notice => "notice",
                Severity::Inconsistent => "inconsistent",
                Severity::DataLoss => "data-loss",
            },
            path: finding.path,
            message: finding.message,
            repaired: finding.repaired,
        }
    }
}

#[pymethods]
impl Finding {
    fn __repr__(&self) -> String {
        let Finding { code, severity, path, message, .. } = self;
        let path = path.as_ref().map_or("None".to_string(), |path| format!("{path:?}"));
        format!("Finding(code={code:?}, severity={severity:?}, path={path}, message={message:?})")
    }
}

/// The outcome of a check.
#[pyclass(frozen, get_all, module = "platter")]
pub struct CheckReport {
    /// What the volume was recognised as.
    format: String,
    /// What was found, at most 10,000 of it.
    findings: Vec<Finding>,
    /// How many were found.
    found: u64,
    /// How many were repaired.
    repaired: u64,
    /// Whether nothing but notices was found.
    clean: bool,
    /// Files seen.
    files: u64,
    /// Directories seen.
    directories: u64,
    /// The file that takes the repair back, if anything was overwritten.
    undo: Option<PathBuf>,
}

#[pymethods]
impl CheckReport {
    fn __repr__(&self) -> String {
        let CheckReport { format, found, repaired, .. } = self;
        format!("CheckReport(format={format:?}, found={found}, repaired={repaired})")
    }
}

/// Checks a volume, which must not be open, and repairs it if that is asked for.
#[pyfunction]
#[pyo3(signature = (source, *, repair = false, data = false, format = None))]
pub fn check(
    python: Python<'_>,
    source: PathBuf,
    repair: bool,
    data: bool,
    format: Option<String>,
) -> PyResult<CheckReport> {
    let options = CheckOptions { repair, data, format, ..CheckOptions::default() };
    let checked = freely(python, || platter::check(source, &options, &Silent))?;
    let report = checked.report;
    Ok(CheckReport {
        format: checked.format,
        found: report.found,
        repaired: report.repaired,
        clean: report.is_clean(),
        files: report.files,
        directories: report.directories,
        undo: checked.undo.map(|(path, _)| path),
        findings: report.findings.into_iter().map(Finding::from).collect(),
    })
}

/// Makes a volume. An image file is made if it is not there and a size is given.
#[pyfunction]
#[pyo3(signature = (source, format, *, size = None, label = None, cluster = None, integrity = None, force = false))]
#[allow(clippy::too_many_arguments, reason = "they have names in Python")]
pub fn mkfs(
    python: Python<'_>,
    source: PathBuf,
    format: &str,
    size: Option<u64>,
    label: Option<String>,
    cluster: Option<u64>,
    integrity: Option<bool>,
    force: bool,
) -> PyResult<()> {
    let how = FormatOptions { label, cluster, integrity, ..FormatOptions::default() };
    let options = MakeOptions { size, force, format: how, ..MakeOptions::default() };
    freely(python, || platter::mkfs(source, format, &options, &Silent).map(drop))
}

/// What was copied out of a damaged volume.
#[pyclass(frozen, get_all, module = "platter")]
pub struct Recovered {
    /// Files found, with those deleted.
    files: u64,
    /// Directories found.
    directories: u64,
    /// Files found that had been deleted.
    deleted: u64,
    /// Files and directories whose metadata is damaged.
    damaged: u64,
    /// Bytes copied.
    bytes: u64,
    /// What could not be copied, or not whole: its path, and why.
    lost: Vec<(String, String)>,
}

#[pymethods]
impl Recovered {
    fn __repr__(&self) -> String {
        format!("Recovered(files={}, lost={})", self.files, self.lost.len())
    }
}

fn lost(trouble: platter::Trouble) -> (String, String) {
    match trouble.unread {
        0 => (trouble.path, trouble.why),
        unread => {
            (trouble.path, format!("{unread} bytes are zeroes because they cannot be read: {}", trouble.why))
        }
    }
}

/// Copies what is left of a volume to a directory that is empty or does not exist. Nothing is written to the source.
#[pyfunction]
#[pyo3(signature = (source, directory, *, format = None))]
pub fn recover(
    python: Python<'_>,
    source: PathBuf,
    directory: PathBuf,
    format: Option<String>,
) -> PyResult<Recovered> {
    let options = RecoverOptions { format, ..RecoverOptions::default() };
    let to = freely(python, || platter::recover_to(&Source::parse(source)?, &directory, &options, &Silent))?;
    Ok(Recovered {
        files: to.report.files,
        directories: to.report.directories,
        deleted: to.report.deleted,
        damaged: to.damaged,
        bytes: to.bytes,
        lost: to.report.lost.into_iter().chain(to.troubles.into_iter().map(lost)).collect(),
    })
}
