//! What all systems of POSIX have in common.

use super::{HostFacts, Usual};
use platter_vfs::Name;
use platter_vfs::linux::{LinuxAttributes, Special, mode as bits};
use rustix::fs::{Access, access};
use std::fs::{self, DirBuilder, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, lchown};
use std::path::Path;

/// What the system tells of a file.
pub(crate) fn facts(_path: &Path, metadata: &Metadata) -> HostFacts {
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
pub(crate) fn mode(metadata: &Metadata) -> Option<u32> {
    Some(metadata.mode() & bits::PERMISSIONS)
}

/// Has a new file be readable by its owner only.
pub(crate) fn private(options: &mut OpenOptions) {
    options.mode(0o600);
}

/// Makes directories that only their owner can enter.
pub(crate) struct DirectoryMaker;

impl DirectoryMaker {
    pub(crate) fn make(path: &Path) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(path)
    }
}

/// Whether this user may make files in a directory.
pub(crate) fn may_make_files_in(directory: &Path) -> bool {
    access(directory, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

/// Sets owner and permissions, and returns whether the system accepted the owner. `otherwise` are the permissions where
/// none are recorded.
pub(crate) fn own(
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
pub(crate) fn is_refused(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let known =
        [Errno::NOTSUP, Errno::PERM, Errno::ACCESS, Errno::NOSPC, Errno::TOOBIG, Errno::RANGE, Errno::INVAL];
    error.raw_os_error().is_some_and(|code| known.iter().any(|errno| errno.raw_os_error() == code))
}

/// Whether files of the host have named streams themselves.
pub(crate) fn has_real_streams() -> bool {
    false
}

/// The names of the streams of a file: none.
pub(crate) fn streams(_path: &Path) -> io::Result<Vec<Name>> {
    Ok(Vec::new())
}

/// See [`has_real_streams`].
pub(crate) fn read_stream(_path: &Path, _name: &Name) -> io::Result<Vec<u8>> {
    Err(io::ErrorKind::Unsupported.into())
}

/// See [`has_real_streams`].
pub(crate) fn set_stream(_path: &Path, _name: &Name, _content: &[u8]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Reads the user, group and umask of this process.
pub(crate) fn usual() -> Usual {
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
