//! Helpers of mounting: the background process, its log, the programs that use a mount, and remounting.

use crate::command::failure::{About, Failure, shown};
use platter_mount::MountPoint;
use std::path::Path;

pub mod daemon;
pub mod log;
pub mod remount;
pub mod scrubbing;
pub mod users;

/// The mount that Platter serves at a directory, which is given without symbolic links.
pub fn mounted_at(at: &Path) -> Result<MountPoint, Failure> {
    let found = platter_mount::mount_point(at).about(shown(at))?;
    found.ok_or_else(|| Failure::new(shown(at), "no volume is mounted here by platter"))
}
