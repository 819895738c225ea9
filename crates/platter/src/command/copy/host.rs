//! The attributes that the host keeps of a file besides its content, and the extended attributes of the host in which
//! attributes that only volumes have are kept.
//!
//! | on a volume | on the host |
//! |---|---|
//! | an extended attribute in `user.`, `trusted.` or `security.` | the same |
//! | the named stream NAME | `user.DosStream.NAME:$DATA`, with a zero byte behind the content |
//! | flags that differ from a new file's | `user.DOSATTRIB`, in text such as `0x22` |
//!
//! The names and forms are those of other programs: of Samba's `vfs_streams_xattr` (manual page,
//! `streams_xattr:prefix` and `store_stream_type`), and of Wine and Samba.

use super::extras::{Extras, Layout, Stream, StreamContent};
use crate::command::failure::{Failure, shown};
use platter_vfs::{DosFlags, Name, linux};
use rustix::fs::{
    SeekFrom, XattrFlags, lgetxattr, lgetxattr_query, llistxattr, llistxattr_query, lsetxattr, seek,
};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const STREAM_PREFIX: &str = "user.DosStream.";
const STREAM_SUFFIX: &str = ":$DATA";
const FLAGS: &str = "user.DOSATTRIB";

/// Returns the last component of a host path, as a name for a volume.
pub fn host_name(path: &Path) -> Result<Name, Failure> {
    match path.file_name() {
        Some(name) => Ok(Name::from_bytes(name.as_bytes())),
        None => Err(Failure::new(shown(path), "has no name of its own; say under which one to copy it")),
    }
}

/// Returns the host path for a name from a volume. Refuses names that would lead out of `directory`.
pub fn host_path(directory: &Path, name: &Name) -> Result<PathBuf, Failure> {
    let bytes = name.to_bytes();
    if matches!(&bytes[..], b"" | b"." | b"..") || bytes.iter().any(|byte| matches!(byte, b'/' | 0)) {
        let why = format!("the name {name:?} on the volume cannot be used on the host");
        return Err(Failure::new(shown(directory), why));
    }
    Ok(directory.join(OsStr::from_bytes(&bytes)))
}

/// Returns the names of a file's extended attributes; none if the host's file system has no extended attributes.
fn names(path: &Path) -> io::Result<Vec<Vec<u8>>> {
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

fn value(path: &Path, name: &[u8]) -> io::Result<Vec<u8>> {
    let mut value = vec![0; lgetxattr_query(path, name)? + 1];
    let length = lgetxattr(path, name, &mut value[..])?;
    value.truncate(length);
    Ok(value)
}

/// Returns the DOS flags kept in `user.DOSATTRIB`, if there are any.
pub fn flags(path: &Path, is_link: bool) -> Option<DosFlags> {
    if is_link {
        return None;
    }
    let value = value(path, FLAGS.as_bytes()).ok()?;
    let text = std::str::from_utf8(&value).ok()?.trim_end_matches('\0');
    let flags = u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()?;
    Some(DosFlags(flags & DosFlags::SETTABLE.0))
}

/// Keeps DOS flags in `user.DOSATTRIB`.
pub fn set_flags(path: &Path, flags: DosFlags) -> io::Result<()> {
    set(path, FLAGS, format!("{:#x}", flags.0).as_bytes())
}

/// Reads the named streams and extended attributes of a host file, and counts the attributes that a copy cannot keep.
pub fn extras(path: &Path) -> io::Result<Extras> {
    let mut extras = Extras::default();
    for name in names(path)? {
        let Ok(text) = std::str::from_utf8(&name) else {
            extras.rights += 1;
            continue;
        };
        let stream =
            text.strip_prefix(STREAM_PREFIX).map(|rest| rest.strip_suffix(STREAM_SUFFIX).unwrap_or(rest));
        match stream {
            _ if text == FLAGS || text == "security.selinux" => {}
            Some(stream) if !stream.is_empty() => {
                let mut content = value(path, &name)?;
                // Only a final zero byte is removed, so that a stream written without one loses nothing.
                content.pop_if(|last| *last == 0);
                let name = Name::from_bytes(stream.as_bytes());
                extras.streams.push(Stream { name, content: StreamContent::Bytes(content) });
            }
            _ if linux::is_kept(text) => {
                extras.extended.push((text.to_owned(), value(path, &name)?));
            }
            _ => extras.rights += 1,
        }
    }
    Ok(extras)
}

/// Sets an extended attribute.
pub fn set(path: &Path, name: &str, value: &[u8]) -> io::Result<()> {
    Ok(lsetxattr(path, name, value, XattrFlags::empty())?)
}

/// Keeps a named stream as an extended attribute.
pub fn set_stream(path: &Path, name: &Name, mut content: Vec<u8>) -> io::Result<()> {
    content.push(0);
    let name = [STREAM_PREFIX.as_bytes(), &name.to_bytes(), STREAM_SUFFIX.as_bytes()].concat();
    Ok(lsetxattr(path, &name[..], &content, XattrFlags::empty())?)
}

/// The largest value in bytes of an extended attribute of Linux.
pub const LARGEST_VALUE: u64 = 64 << 10;

/// Returns which parts of a host file have content; the whole file, where the host cannot tell.
pub fn layout(file: &File, size: u64) -> Layout {
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

/// The attributes that new files of this process get on the host: owner, group and umask.
#[derive(Clone, Copy, Debug)]
pub struct Usual {
    pub uid: u32,
    pub gid: u32,
    pub umask: u32,
}

impl Usual {
    /// Reads the user, group and umask of this process.
    pub fn of_process() -> Usual {
        let umask = std::fs::read_to_string("/proc/self/status").ok().and_then(|status| {
            let line = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
            u32::from_str_radix(line.trim(), 8).ok()
        });
        Usual {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            umask: umask.unwrap_or(0o022),
        }
    }

    /// Returns the permissions of a new file or directory.
    pub fn mode(&self, is_directory: bool) -> u32 {
        (if is_directory { 0o777 } else { 0o666 }) & !self.umask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leads_out_of_the_directory() {
        let directory = Path::new("/safe");
        for name in ["", ".", "..", "a/b", "../x", "/etc/passwd", "a\0b"] {
            assert!(host_path(directory, &Name::from(name)).is_err(), "{name:?}");
        }
        assert_eq!(host_path(directory, &Name::from("..a")).unwrap(), Path::new("/safe/..a"));
    }
}
