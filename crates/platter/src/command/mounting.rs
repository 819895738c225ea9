//! Helpers of mounting: the background process, its log, the programs that use a mount, remounting, and what files on a
//! mount have besides their content.

use crate::command::failure::{About, Failure, shown};
use platter_mount::MountPoint;
use rustix::fs::{lstat, major, minor};
use std::ffi::OsStr;
use std::path::Path;

pub mod attributes;
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

/// Returns the file that an argument names if it is one on a mount of Platter.
pub fn on_mount(argument: &OsStr) -> Result<Option<&Path>, Failure> {
    let path = Path::new(argument);
    let Ok(data) = lstat(path) else { return Ok(None) };
    let device = format!("{}:{}", major(data.st_dev), minor(data.st_dev));
    let mounts = platter_mount::mount_points().about("/proc/self/mountinfo")?;
    Ok(mounts.iter().any(|mount| mount.device == device).then_some(path))
}
