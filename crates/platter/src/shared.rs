//! The state of an open volume.

use crate::error::{Error, ErrorKind, Result};
use platter_vfs::FileSystem;
use std::sync::Arc;

/// The state that all handles on one open volume share.
pub(crate) struct Shared {
    pub(crate) system: Arc<dyn FileSystem>,
    pub(crate) name: String,
    pub(crate) writes: bool,
    /// The process that opened the volume.
    process: u32,
}

impl Shared {
    pub(crate) fn new(system: Arc<dyn FileSystem>, name: &str, writes: bool) -> Shared {
        Shared { system, name: name.to_string(), writes, process: std::process::id() }
    }

    /// Fails in a process that came from the one that opened the volume by fork(2), if the volume was opened for writing:
    /// both would change it, neither knowing what the other has in memory.
    pub(crate) fn refuse_copies(&self) -> Result<()> {
        if self.is_copy() {
            let why = "was opened for writing by another process, of which this one is a copy; open it in one of them \
                       after fork(2)";
            return Err(Error::refused(ErrorKind::InUse, &self.name, why));
        }
        Ok(())
    }

    fn is_copy(&self) -> bool {
        self.writes && self.process != std::process::id()
    }
}

impl Drop for Shared {
    /// Closes a volume that was not closed by its owner, and ignores errors; [`Volume::close`](crate::Volume::close)
    /// returns them.
    fn drop(&mut self) {
        if self.writes && !self.is_copy() {
            let _ = self.system.unmount();
        }
    }
}
