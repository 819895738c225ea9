//! What keeps a volume open.

use platter_vfs::FileSystem;
use std::sync::Arc;

/// What handles on one volume share.
pub(crate) struct Shared {
    pub(crate) system: Arc<dyn FileSystem>,
    pub(crate) name: String,
    pub(crate) writes: bool,
}

impl Drop for Shared {
    /// A volume that nobody closed is closed here. Whoever needs to know whether that worked calls [`Volume::close`](crate::Volume::close).
    fn drop(&mut self) {
        if self.writes {
            let _ = self.system.unmount();
        }
    }
}
