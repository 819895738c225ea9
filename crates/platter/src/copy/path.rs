//! Paths on volumes, for messages and to find entries again.

use platter_vfs::Name;
use std::fmt;

/// A path on a volume.
#[derive(Clone, Debug)]
pub struct EntryPath {
    /// What messages call the volume; may be empty.
    pub volume: String,
    /// The components of the path, from the root directory on.
    pub names: Vec<Name>,
}

impl EntryPath {
    /// The path of an entry of this directory.
    pub fn join(&self, name: &Name) -> EntryPath {
        let mut path = self.clone();
        path.names.push(name.clone());
        path
    }
}

impl fmt::Display for EntryPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.volume.is_empty() {
            write!(f, "{}:", self.volume)?;
        }
        if self.names.is_empty() {
            return f.write_str("/");
        }
        self.names.iter().try_for_each(|name| write!(f, "/{name}"))
    }
}
