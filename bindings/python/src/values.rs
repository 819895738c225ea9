//! Python objects for the properties of files and volumes.

use platter::{Attributes, Kind, Timestamp};
use pyo3::prelude::*;
use std::collections::BTreeMap;

/// Returns a time in nanoseconds since 1970. A Python integer has no limit, so all times are exact.
fn nanoseconds(time: Timestamp) -> i128 {
    i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds)
}

/// The attributes of a file or directory.
#[pyclass(frozen, get_all, subclass, module = "platterfs")]
pub struct Stat {
    /// "file", "directory" or "symlink".
    kind: &'static str,
    /// The size of the content in bytes.
    size: u64,
    /// The number of bytes that are allocated on the volume.
    allocated: u64,
    /// The number of names.
    links: u32,
    /// The DOS attribute flags: 1 read-only, 2 hidden, 4 system, 32 archive.
    flags: u32,
    /// When the file was created, in nanoseconds since 1970; `None` if the format does not store this.
    created_ns: Option<i128>,
    /// When the content last changed, in nanoseconds since 1970.
    modified_ns: i128,
    /// When the content was last read, in nanoseconds since 1970; `None` if the format does not store this.
    accessed_ns: Option<i128>,
    /// When the attributes last changed, in nanoseconds since 1970; `None` if the format does not store this.
    changed_ns: Option<i128>,
}

impl From<&Attributes> for Stat {
    fn from(known: &Attributes) -> Stat {
        Stat {
            kind: match known.kind {
                Kind::File => "file",
                Kind::Directory => "directory",
                Kind::SymbolicLink => "symlink",
            },
            size: known.size,
            allocated: known.allocated,
            links: known.links,
            flags: known.flags.0,
            created_ns: known.created.map(nanoseconds),
            modified_ns: nanoseconds(known.modified),
            accessed_ns: known.accessed.map(nanoseconds),
            changed_ns: known.changed.map(nanoseconds),
        }
    }
}

#[pymethods]
impl Stat {
    fn __repr__(&self) -> String {
        format!("Stat(kind={:?}, size={})", self.kind, self.size)
    }
}

/// One entry of a directory.
#[pyclass(frozen, get_all, extends = Stat, module = "platterfs")]
pub struct Entry {
    /// The name.
    name: String,
    /// The path: that of the directory that was listed, followed by the name.
    path: String,
}

impl Entry {
    /// Returns the Python object for an entry.
    pub fn new(python: Python<'_>, entry: &platter::DirEntry) -> PyResult<Py<Entry>> {
        let parts = PyClassInitializer::from(Stat::from(entry.metadata())).add_subclass(Entry {
            name: text(&entry.name().to_bytes()),
            path: text(std::os::unix::ffi::OsStrExt::as_bytes(entry.path().as_os_str())),
        });
        Py::new(python, parts)
    }
}

#[pymethods]
impl Entry {
    fn __repr__(slf: PyRef<'_, Entry>) -> String {
        let stat = slf.as_super();
        format!("Entry(path={:?}, kind={:?}, size={})", slf.path, stat.kind, stat.size)
    }
}

/// Returns a name as text. Parts without a text, such as a surrogate without its other half, are replaced with U+FFFD.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A named stream of a file or directory.
#[pyclass(frozen, get_all, module = "platterfs")]
pub struct Stream {
    /// The name, without the colon.
    pub name: String,
    /// The size of the content in bytes.
    pub size: u64,
}

#[pymethods]
impl Stream {
    fn __repr__(&self) -> String {
        format!("Stream(name={:?}, size={})", self.name, self.size)
    }
}

/// The properties of a volume.
#[pyclass(frozen, get_all, module = "platterfs")]
pub struct Info {
    /// The name of the format, with its version.
    pub format: String,
    /// The label; empty if there is none.
    pub label: String,
    /// The serial number or identifier.
    pub identifier: String,
    /// The size of a cluster in bytes.
    pub cluster: u64,
    /// The number of clusters.
    pub clusters: u64,
    /// The number of free clusters.
    pub free_clusters: u64,
    /// Whether the volume was not cleanly unmounted.
    pub dirty: bool,
    /// Further properties, in the terms of the format.
    pub details: BTreeMap<&'static str, String>,
}

#[pymethods]
impl Info {
    fn __repr__(&self) -> String {
        format!("Info(format={:?}, label={:?})", self.format, self.label)
    }
}
