//! What is known of files and volumes, as objects.

use platter::{Attributes, Kind, Timestamp};
use pyo3::prelude::*;
use std::collections::BTreeMap;

/// Nanoseconds since 1970, of which Python takes any number.
fn nanoseconds(time: Timestamp) -> i128 {
    i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds)
}

/// What is known about a file or directory besides its content.
#[pyclass(frozen, get_all, subclass, module = "platter")]
pub struct Stat {
    /// "file", "directory" or "symlink".
    kind: &'static str,
    /// Bytes of content.
    size: u64,
    /// Bytes taken on the volume.
    allocated: u64,
    /// How many names lead to it.
    links: u32,
    /// DOS flags: 1 read-only, 2 hidden, 4 system, 32 archive.
    flags: u32,
    /// When it was created, in nanoseconds since 1970; `None` if the format does not keep that.
    created_ns: Option<i128>,
    /// When its content last changed.
    modified_ns: i128,
    /// When its content was last read.
    accessed_ns: Option<i128>,
    /// When its attributes last changed.
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
#[pyclass(frozen, get_all, extends = Stat, module = "platter")]
pub struct Entry {
    /// Its name.
    name: String,
    /// The path of the directory that was listed, with the name behind it.
    path: String,
}

impl Entry {
    /// The object for an entry.
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

/// A name as text. What has no text (a surrogate without its half) is shown by a sign that stands for it.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A named stream of a file or directory.
#[pyclass(frozen, get_all, module = "platter")]
pub struct Stream {
    /// Its name, without the colon.
    pub name: String,
    /// Bytes of content.
    pub size: u64,
}

#[pymethods]
impl Stream {
    fn __repr__(&self) -> String {
        format!("Stream(name={:?}, size={})", self.name, self.size)
    }
}

/// What a volume says of itself.
#[pyclass(frozen, get_all, module = "platter")]
pub struct Info {
    /// The format's name with its version.
    pub format: String,
    /// The label; empty if there is none.
    pub label: String,
    /// Serial number or identifier.
    pub identifier: String,
    /// Bytes per cluster.
    pub cluster: u64,
    /// Clusters there are.
    pub clusters: u64,
    /// Clusters that are free.
    pub free_clusters: u64,
    /// Whether it was not cleanly unmounted.
    pub dirty: bool,
    /// Further facts in the format's terms.
    pub details: BTreeMap<&'static str, String>,
}

#[pymethods]
impl Info {
    fn __repr__(&self) -> String {
        format!("Info(format={:?}, label={:?})", self.format, self.label)
    }
}
