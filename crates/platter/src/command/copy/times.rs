//! Setting file times on the host.

use platter_vfs::{Change, Timestamp};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_OMIT, utimensat};
use std::path::Path;

/// Sets the times of the file at a path; of a symbolic link the link's own.
pub fn set_times(path: &Path, change: &Change) -> std::io::Result<()> {
    let spec = |time: Option<Timestamp>| match time {
        Some(time) => Timespec { tv_sec: time.seconds, tv_nsec: time.nanoseconds.into() },
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
    };
    let times = Timestamps { last_access: spec(change.accessed), last_modification: spec(change.modified) };
    Ok(utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}
