//! What all systems of POSIX have in common.

use super::{HostFacts, Usual};
use platter_vfs::Name;
use platter_vfs::linux::{LinuxAttributes, Special, mode as bits};
use rustix::fs::{Access, access};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use std::fs::{self, DirBuilder, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, lchown};
use std::path::Path;
use std::sync::Arc;

/// Prepares the process.
pub fn begin() {
    // Without a handler, a write beyond the limit of a file's size (ulimit -f) ends the process; with one, it fails as
    // on a full disk. Where the system allows no handler, nothing else changes.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

/// Calls `told` for each Ctrl-C, SIGTERM and end of the terminal.
pub fn on_signals(mut told: impl FnMut() + Send + 'static) {
    // Where handlers cannot be installed, the signals keep their default action.
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    // nohup(1) starts a program so that it outlasts its terminal.
    let others = [SIGHUP].into_iter().filter(|signal| !is_ignored(&status, *signal));
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM].into_iter().chain(others)) else { return };
    std::thread::spawn(move || signals.forever().for_each(|_| told()));
}

/// Whether the process ignores a signal, by the content of `/proc/self/status` (proc_pid_status(5)).
fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Ends the process at once.
pub fn exit(code: u8) -> ! {
    signal_hook::low_level::exit(code.into())
}

/// What the system tells of a file.
pub fn facts(_path: &Path, metadata: &Metadata) -> HostFacts {
    let kind = metadata.file_type();
    let is_device = kind.is_char_device() || kind.is_block_device();
    let device =
        is_device.then(|| (rustix::fs::major(metadata.rdev() as _), rustix::fs::minor(metadata.rdev() as _)));
    HostFacts {
        special: Special::of_mode(metadata.mode()),
        owner: LinuxAttributes {
            uid: Some(metadata.uid()),
            gid: Some(metadata.gid()),
            mode: Some(metadata.mode()),
            device,
        },
        links: metadata.nlink(),
    }
}

/// The permissions of a file.
pub fn mode(metadata: &Metadata) -> Option<u32> {
    Some(metadata.mode() & bits::PERMISSIONS)
}

/// Has a new file be readable by its owner only.
pub fn private(options: &mut OpenOptions) {
    options.mode(0o600);
}

/// Makes a file with these permissions, if there is none.
pub fn make_with_mode(path: &Path, mode: u32) {
    if let Ok(file) = OpenOptions::new().write(true).create_new(true).mode(mode).open(path) {
        // If this fails, the file has the permissions that the umask left.
        let _ = file.set_permissions(fs::Permissions::from_mode(mode));
    }
}

/// Makes directories that only their owner can enter.
pub struct DirectoryMaker;

impl DirectoryMaker {
    pub fn make(path: &Path) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(path)
    }
}

/// Whether this user may make files in a directory.
pub fn may_make_files_in(directory: &Path) -> bool {
    access(directory, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

/// Sets owner and permissions, and returns whether the system accepted the owner. `otherwise` are the permissions where
/// none are recorded.
pub fn own(
    path: &Path,
    owner: &LinuxAttributes,
    is_link: bool,
    is_for_reading: bool,
    otherwise: u32,
) -> io::Result<bool> {
    let LinuxAttributes { uid, gid, mode, .. } = *owner;
    let permissions = |mode: u32| mode & bits::PERMISSIONS;
    let now = fs::symlink_metadata(path)?;
    let mut kept = true;
    let (new_uid, new_gid) = (uid.filter(|uid| *uid != now.uid()), gid.filter(|gid| *gid != now.gid()));
    if new_uid.is_some() || new_gid.is_some() {
        kept = lchown(path, new_uid, new_gid).is_ok();
    }
    if is_link {
        return Ok(kept);
    }
    let wanted = match mode {
        Some(mode) => permissions(mode) & allowed(kept, kept && uid.is_some() && gid.is_some()),
        None => {
            let inherited = permissions(now.mode()) & !0o777;
            inherited | otherwise & if is_for_reading { 0o555 } else { 0o777 }
        }
    };
    if wanted != permissions(now.mode()) || new_uid.is_some() || new_gid.is_some() {
        fs::set_permissions(path, fs::Permissions::from_mode(wanted))?;
    }
    Ok(kept)
}

/// The permission bits that a copy may have. The set-user-id and set-group-id bits give the owner's privileges, and so
/// are kept only where the copy has the owner and group that the source records: otherwise they would give those of
/// whoever copies.
fn allowed(is_owner_kept: bool, is_owner_recorded: bool) -> u32 {
    match (is_owner_kept, is_owner_recorded) {
        (true, true) => 0o7777,
        (true, false) => 0o1777,
        (false, _) => 0o777,
    }
}

/// Whether an error says that the file system has no place for an attribute.
pub fn is_refused(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let known =
        [Errno::NOTSUP, Errno::PERM, Errno::ACCESS, Errno::NOSPC, Errno::TOOBIG, Errno::RANGE, Errno::INVAL];
    error.raw_os_error().is_some_and(|code| known.iter().any(|errno| errno.raw_os_error() == code))
}

/// Whether files of the host have named streams themselves.
pub fn has_real_streams() -> bool {
    false
}

/// The names of the streams of a file: none.
pub fn streams(_path: &Path) -> io::Result<Vec<Name>> {
    Ok(Vec::new())
}

/// See [`has_real_streams`].
pub fn read_stream(_path: &Path, _name: &Name) -> io::Result<Vec<u8>> {
    Err(io::ErrorKind::Unsupported.into())
}

/// See [`has_real_streams`].
pub fn set_stream(_path: &Path, _name: &Name, _content: &[u8]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Reads the user, group and umask of this process.
pub fn usual() -> Usual {
    let umask = fs::read_to_string("/proc/self/status").ok().and_then(|status| {
        let line = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
        u32::from_str_radix(line.trim(), 8).ok()
    });
    Usual {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        umask: umask.unwrap_or(0o022),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_in_the_mask() {
        let status = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000004002\n";
        assert!(is_ignored(status, SIGHUP) && is_ignored(status, 13));
        assert!(!is_ignored(status, SIGINT) && !is_ignored("", SIGHUP) && !is_ignored("SigIgn: x", SIGHUP));
    }
}
