//! `mount -o remount`: the options that the kernel can change of an existing mount.
//!
//! Source: mount(8), "remount": the helper is called with the options of `/etc/fstab` or of the existing mount,
//! followed by those that the user gave. The kernel changes `ro` and `rw` and the options that it implements itself,
//! and ignores the others (`fuse_reconfigure` of Linux).

use crate::command::failure::{About, Failure, Outcome, shown};
use platter_mount::{Options, attribute};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;

/// Options that `/proc/mounts` shows of any FUSE mount; mount(8) copies them from there.
const SHOWN: [&str; 4] = ["user_id", "group_id", "max_read", "blksize"];

/// Whether one of the option lists contains `remount`.
pub(crate) fn is_asked(lists: &[String]) -> bool {
    lists.iter().any(|list| list.split(',').any(|option| option == "remount"))
}

/// Whether an option is `remount`, or one that mount(8) adds when it remounts.
pub(crate) fn is_own(name: &str) -> bool {
    name == "remount" || SHOWN.contains(&name)
}

/// Changes the options of the mount at a directory.
pub(crate) fn remount(at: &Path, options: &Options) -> Outcome {
    let at = fs::canonicalize(at).about(shown(at))?;
    super::mounted_at(&at)?;
    if !options.read_only && reads_only(&at) {
        let why =
            "it was mounted for reading, and what serves it cannot write: unmount it, and mount it again";
        return Err(Failure::new(shown(&at), why));
    }
    platter_mount::remount(&at, options).map_err(|error| match error.kind() {
        ErrorKind::ResourceBusy => Failure::new(shown(&at), "files on it are open for writing"),
        _ => Failure::from_io(shown(&at), &error),
    })?;
    if options.read_only {
        // Before a read-only remount returns, all changes are made durable. Syncing the root directory syncs the
        // whole volume.
        File::open(&at).and_then(|root| root.sync_all()).about(shown(&at))?;
    }
    Ok(0)
}

/// Whether the process that serves the mount opened the volume for reading only.
fn reads_only(at: &Path) -> bool {
    let mut value = [0; 2];
    rustix::fs::getxattr(at, attribute::ACCESS, &mut value) == Ok(2) && value == *b"ro"
}
