//! Making, checking and recovering volumes.

use crate::device::Origin;
use crate::errors::{Listening, interruptibly};
use crate::keys::keys;
use platter::{CheckOptions, FormatOptions, MakeOptions, Pattern, RecoverOptions, Severity, Source, Undo};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBool;
use std::path::PathBuf;

/// A place where a volume differs from what its format requires.
#[pyclass(frozen, get_all, subclass, module = "platterfs")]
#[derive(Clone)]
pub struct Finding {
    /// A short, stable name for the kind of finding.
    code: &'static str,
    /// "notice", "inconsistent" or "data-loss".
    severity: &'static str,
    /// The path of the file or directory that is concerned, if there is one.
    path: Option<String>,
    /// A sentence that names the structure, its place, and the expected and found values.
    message: String,
    /// Whether the finding was repaired.
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
#[pyclass(frozen, get_all, module = "platterfs")]
pub struct CheckReport {
    /// The format that the volume was recognised as.
    format: String,
    /// The findings, at most 10,000 of them.
    findings: Vec<Finding>,
    /// The number of findings, including those that are not in `findings`.
    found: u64,
    /// The number of findings that were repaired.
    repaired: u64,
    /// Whether there are no findings other than notices.
    clean: bool,
    /// The number of files.
    files: u64,
    /// The number of directories.
    directories: u64,
    /// The file from which the repair can be undone, if the repair overwrote anything.
    undo: Option<PathBuf>,
}

#[pymethods]
impl CheckReport {
    fn __repr__(&self) -> String {
        let CheckReport { format, found, repaired, .. } = self;
        format!("CheckReport(format={format:?}, found={found}, repaired={repaired})")
    }
}

/// Checks a volume, which must not be open, and repairs it if `repair` is set. What a repair overwrites is saved beside the
/// image, in the file `undo` if it is a path, and nowhere if it is `False`.
#[pyfunction]
#[pyo3(signature = (
    source, *, repair = false, data = false, surface = false, format = None, undo = None, force = false, progress = None,
    password = None, recovery_key = None, key_file = None
))]
#[allow(clippy::too_many_arguments, reason = "they have names in Python")]
pub fn check(
    source: &Bound<'_, PyAny>,
    repair: bool,
    data: bool,
    surface: bool,
    format: Option<String>,
    undo: Option<&Bound<'_, PyAny>>,
    force: bool,
    progress: Option<&Bound<'_, PyAny>>,
    password: Option<&str>,
    recovery_key: Option<&str>,
    key_file: Option<PathBuf>,
) -> PyResult<CheckReport> {
    let keys = keys(password, recovery_key, key_file)?;
    let origin = Origin::new(source, repair)?;
    let undo = place_of_undo(undo)?;
    let checked = interruptibly(&Listening::new(source.py(), progress), |working| {
        let keys = working.with(keys);
        let options =
            CheckOptions { repair, data, surface, format, undo, force, keys, ..CheckOptions::default() };
        match origin {
            Origin::Path(path) => platter::check(path, &options, working),
            Origin::Object(device) => platter::check_on(device, &options, working),
        }
    })?;
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

/// Where a repair saves what it overwrites: `None` beside the image, `False` nowhere, otherwise a path.
fn place_of_undo(undo: Option<&Bound<'_, PyAny>>) -> PyResult<Undo> {
    match undo {
        None => Ok(Undo::Beside),
        Some(place) if place.is_instance_of::<PyBool>() => match place.extract()? {
            true => Ok(Undo::Beside),
            false => Ok(Undo::Nowhere),
        },
        Some(place) => Ok(Undo::At(place.extract()?)),
    }
}

/// Makes a volume. If `size` is given and the image file does not exist, it is created.
#[pyfunction]
#[pyo3(signature = (
    source, format, *, size = None, label = None, cluster = None, integrity = None, version = None, checksum = None,
    serial = None, align = None, mft_record = None, compress = None, full = false, force = false, progress = None
))]
#[allow(clippy::too_many_arguments, reason = "they have names in Python")]
pub fn mkfs(
    source: &Bound<'_, PyAny>,
    format: &str,
    size: Option<u64>,
    label: Option<String>,
    cluster: Option<u64>,
    integrity: Option<bool>,
    version: Option<String>,
    checksum: Option<String>,
    serial: Option<u64>,
    align: Option<u64>,
    mft_record: Option<u64>,
    compress: Option<bool>,
    full: bool,
    force: bool,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    let how = FormatOptions {
        label,
        cluster,
        integrity,
        variant: version,
        checksum,
        serial,
        align,
        record: mft_record,
        compress,
        full,
    };
    let options = MakeOptions { size, force, format: how, ..MakeOptions::default() };
    let origin = Origin::new(source, true)?;
    interruptibly(&Listening::new(source.py(), progress), |working| match origin {
        Origin::Path(path) => platter::mkfs(path, format, &options, working).map(drop),
        Origin::Object(device) => platter::mkfs_on(device, format, &options, working),
    })
}

/// The outcome of copying files out of a damaged volume.
#[pyclass(frozen, get_all, module = "platterfs")]
pub struct Recovered {
    /// The number of files found, including deleted ones.
    files: u64,
    /// The number of directories found.
    directories: u64,
    /// The number of deleted files found.
    deleted: u64,
    /// The number of files and directories whose metadata is damaged.
    damaged: u64,
    /// The number of files that are in the directory now, whole or with zeroes for what cannot be read.
    saved: u64,
    /// The number of files that could not be written.
    failed: u64,
    /// The number of bytes of these files.
    bytes: u64,
    /// Each file or directory that was not copied, or not completely: its path, and the reason.
    lost: Vec<(String, String)>,
}

#[pymethods]
impl Recovered {
    fn __repr__(&self) -> String {
        format!("Recovered(saved={}, failed={}, lost={})", self.saved, self.failed, self.lost.len())
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

/// Copies the files that can still be read from a volume to a directory that is empty, does not exist, or holds what an
/// earlier call copied that did not come to its end; only those that one of the patterns matches, if any are given. Nothing
/// is written to the source.
#[pyfunction]
#[pyo3(signature = (
    source, directory, *, format = None, patterns = Vec::new(), skip_damaged = false, progress = None, password = None,
    recovery_key = None, key_file = None
))]
#[allow(clippy::too_many_arguments, reason = "they have names in Python")]
pub fn recover(
    source: &Bound<'_, PyAny>,
    directory: PathBuf,
    format: Option<String>,
    patterns: Vec<String>,
    skip_damaged: bool,
    progress: Option<&Bound<'_, PyAny>>,
    password: Option<&str>,
    recovery_key: Option<&str>,
    key_file: Option<PathBuf>,
) -> PyResult<Recovered> {
    let keys = keys(password, recovery_key, key_file)?;
    let patterns: Result<Vec<Pattern>, String> = patterns.iter().map(|text| Pattern::parse(text)).collect();
    let patterns = patterns.map_err(PyValueError::new_err)?;
    let origin = Origin::new(source, false)?;
    let to = interruptibly(&Listening::new(source.py(), progress), |working| {
        let keys = working.with(keys);
        let options = RecoverOptions { format, patterns, skip_damaged, keys, ..RecoverOptions::default() };
        match origin {
            Origin::Path(path) => platter::recover_to(&Source::parse(path)?, &directory, &options, working),
            Origin::Object(device) => platter::recover_on(device, &directory, &options, working),
        }
    })?;
    Ok(Recovered {
        files: to.report.files,
        directories: to.report.directories,
        deleted: to.report.deleted,
        damaged: to.damaged,
        saved: to.saved,
        failed: to.failed,
        bytes: to.bytes,
        lost: to.report.lost.into_iter().chain(to.troubles.into_iter().map(lost)).collect(),
    })
}
