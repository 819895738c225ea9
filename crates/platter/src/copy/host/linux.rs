//! Linux: extended attributes, holes, special files, times.

use super::Layout;
use platter_vfs::linux::{LinuxAttributes, Special, mode};
use platter_vfs::{Change, DosFlags, Timestamp};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, SeekFrom, Timespec, Timestamps, UTIME_OMIT, XattrFlags, lgetxattr,
    lgetxattr_query, llistxattr, llistxattr_query, lsetxattr, makedev, mknodat, seek, utimensat,
};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::path::Path;

const FLAGS: &str = "user.DOSATTRIB";

/// Returns the names of a file's extended attributes; none if the file system has no extended attributes.
pub(crate) fn extended_names(path: &Path) -> io::Result<Vec<Vec<u8>>> {
    let found = llistxattr_query(path).and_then(|length| {
        // Room for attributes that are added between the two calls.
        let mut list = vec![0; length + 4096];
        let length = llistxattr(path, &mut list[..])?;
        list.truncate(length);
        Ok(list)
    });
    match found {
        Ok(list) => {
            Ok(list.split(|byte| *byte == 0).filter(|name| !name.is_empty()).map(Vec::from).collect())
        }
        Err(Errno::NOTSUP | Errno::PERM) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the value of an extended attribute.
pub(crate) fn extended_value(path: &Path, name: &[u8]) -> io::Result<Vec<u8>> {
    let mut value = vec![0; lgetxattr_query(path, name)? + 1];
    let length = lgetxattr(path, name, &mut value[..])?;
    value.truncate(length);
    Ok(value)
}

/// Sets an extended attribute.
pub(crate) fn set_extended(path: &Path, name: &[u8], value: &[u8]) -> io::Result<()> {
    Ok(lsetxattr(path, name, value, XattrFlags::empty())?)
}

/// Returns the DOS flags kept in `user.DOSATTRIB`, if there are any.
pub(crate) fn flags(path: &Path) -> Option<DosFlags> {
    let value = extended_value(path, FLAGS.as_bytes()).ok()?;
    let text = std::str::from_utf8(&value).ok()?.trim_end_matches('\0');
    let flags = u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()?;
    Some(DosFlags(flags & DosFlags::SETTABLE.0))
}

/// Keeps DOS flags in `user.DOSATTRIB`.
pub(crate) fn set_flags(path: &Path, flags: DosFlags) -> io::Result<()> {
    set_extended(path, FLAGS.as_bytes(), format!("{:#x}", flags.0).as_bytes())
}

/// Returns which parts of a host file have content; the whole file, where the host cannot tell.
pub(crate) fn layout(file: &File, size: u64) -> Layout {
    let mut layout = Layout { data: Vec::new(), has_holes: false };
    let mut at = 0;
    while at < size {
        let start = match seek(file, SeekFrom::Data(at)) {
            Ok(start) => start.min(size),
            Err(Errno::NXIO) => size,
            Err(_) => at,
        };
        layout.has_holes |= start > at;
        if start >= size {
            break;
        }
        let end = match seek(file, SeekFrom::Hole(start)) {
            Ok(end) if end > start => end.min(size),
            _ => size,
        };
        layout.data.push(start..end);
        at = end;
    }
    layout
}

/// Makes a FIFO, socket or device; returns whether this user may.
pub(crate) fn make_special(path: &Path, special: Special, owner: &LinuxAttributes) -> io::Result<bool> {
    let (major, minor) = owner.device.unwrap_or((0, 0));
    let bits = Mode::from_raw_mode(owner.mode.unwrap_or(0o600) & mode::PERMISSIONS);
    let kind = FileType::from_raw_mode(special.mode());
    match mknodat(CWD, path, kind, bits, makedev(major, minor)) {
        Err(Errno::PERM) => Ok(false),
        made => Ok(made.map(|()| true)?),
    }
}

/// Sets the times of the file at a path; of a symbolic link the link's own.
pub(crate) fn set_times(path: &Path, change: &Change) -> io::Result<()> {
    let spec = |time: Option<Timestamp>| match time {
        Some(time) => Timespec { tv_sec: time.seconds, tv_nsec: time.nanoseconds.into() },
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
    };
    let times = Timestamps { last_access: spec(change.accessed), last_modification: spec(change.modified) };
    Ok(utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}
