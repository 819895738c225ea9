//! The state of an open volume.

use platter_vfs::FileSystem;
use std::sync::Arc;

/// The state that all handles on one open volume share.
pub(crate) struct Shared {
    pub(crate) system: Arc<dyn FileSystem>,
    pub(crate) name: String,
    pub(crate) writes: bool,
}

impl Drop for Shared {
    /// Closes a volume that was not closed by its owner, and ignores errors; [`Volume::close`](crate::Volume::close)
    /// returns them.
    fn drop(&mut self) {
        if self.writes {
            let _ = self.system.unmount();
        }
    }
}
