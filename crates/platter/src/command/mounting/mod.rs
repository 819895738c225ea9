//! Helpers of mounting: the background process, its log, the programs that use a mount, remounting, and what files on a
//! mount have besides their content.

use crate::command::failure::{About, Failure, shown};
use platter::Source;
use platter_mount::MountPoint;
use rustix::fs::{lstat, major, minor};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

pub(super) use platter_mount::attribute;

pub(super) mod attributes;
pub(super) mod daemon;
pub(super) mod log;
pub(super) mod remount;
pub(super) mod scrubbing;
pub(super) mod users;

/// The mount that Platter serves at a directory, which is given without symbolic links.
pub(super) fn mounted_at(at: &Path) -> Result<MountPoint, Failure> {
    let found = platter_mount::mount_point(at).about(shown(at))?;
    found.ok_or_else(|| Failure::new(shown(at), "no volume is mounted here by platter"))
}

/// Returns where this program has mounted an image or device, or the image behind a loop device.
pub(super) fn image_mounted_at(path: &Path) -> Result<Option<PathBuf>, Failure> {
    let Ok(real) = fs::canonicalize(path) else { return Ok(None) };
    let mounts = platter_mount::mount_points().about("/proc/self/mountinfo")?;
    let behind = platter_device::file_behind(&real);
    // A mount holds a lock. Where there is none, the file has only got the name that the mounted one had.
    let is_this =
        |path: &PathBuf| (*path == real || Some(path) == behind.as_ref()) && platter_device::is_claimed(path);
    let holds =
        |mount: &&MountPoint| Source::whole(&mount.source).is_ok_and(|image| image.paths.iter().any(is_this));
    Ok(mounts.iter().find(holds).map(|mount| mount.at.clone()))
}

/// Returns the file that an argument names if it is one on a mount of Platter.
pub(super) fn on_mount(argument: &OsStr) -> Result<Option<&Path>, Failure> {
    let path = Path::new(argument);
    let Ok(data) = lstat(path) else { return Ok(None) };
    let device = format!("{}:{}", major(data.st_dev), minor(data.st_dev));
    let mounts = platter_mount::mount_points().about("/proc/self/mountinfo")?;
    Ok(mounts.iter().any(|mount| mount.device == device).then_some(path))
}
