//! The attributes that the host keeps of a file besides its content, and the extended attributes of the host in which
//! attributes that only volumes have are kept. Windows has streams and flags itself.
//!
//! | on a volume | on the host |
//! |---|---|
//! | an extended attribute in `user.`, `trusted.` or `security.` | the same |
//! | the named stream NAME | `user.DosStream.NAME:$DATA`, with a zero byte behind the content |
//! | flags that differ from a new file's | `user.DOSATTRIB`, in text such as `0x22` |
//!
//! The names and forms are those of other programs: of Samba's `vfs_streams_xattr` (manual page,
//! `streams_xattr:prefix` and `store_stream_type`), and of Wine and Samba.

use super::extras::{Extras, Stream, StreamContent};
use super::host;
use crate::error::{Error, ErrorKind, Result, shown};
use platter_device::host::{HostBytes, host_string};
use platter_vfs::{Name, linux, why_host_refuses};
use std::io;
use std::path::{Path, PathBuf};

const STREAM_PREFIX: &str = "user.DosStream.";
const STREAM_SUFFIX: &str = ":$DATA";
const FLAGS: &str = "user.DOSATTRIB";

/// The reason for which a file cannot be copied without a new name.
pub const NAMELESS: &str = "has no name of its own; say under which one to copy it";

/// Returns the last component of a host path, as a name for a volume.
pub fn host_name(path: &Path) -> Result<Name> {
    match path.file_name() {
        Some(name) => Ok(Name::from_bytes(name.as_bytes())),
        None => Err(Error::refused(ErrorKind::InvalidArgument, shown(path), NAMELESS)),
    }
}

/// Returns the host path for a name from a volume. Refuses names that would lead out of `directory`.
pub(super) fn host_path(directory: &Path, name: &Name) -> Result<PathBuf> {
    if let Some(why) = why_host_refuses(name) {
        let why = format!("the name {name:?} on the volume cannot be used on the host: it {why}");
        return Err(Error::refused(ErrorKind::InvalidName, shown(directory), why));
    }
    Ok(directory.join(host_string(&name.to_bytes())))
}

/// Reads the named streams and extended attributes of a host file, and counts the attributes that a copy cannot keep.
pub(super) fn extras(path: &Path) -> io::Result<Extras> {
    let mut extras = Extras::default();
    for name in host::streams(path)? {
        let content = host::read_stream(path, &name)?;
        extras.streams.push(Stream { name, content: StreamContent::Bytes(content) });
    }
    for name in host::extended_names(path)? {
        let Ok(text) = std::str::from_utf8(&name) else {
            extras.rights += 1;
            continue;
        };
        let stream =
            text.strip_prefix(STREAM_PREFIX).map(|rest| rest.strip_suffix(STREAM_SUFFIX).unwrap_or(rest));
        match stream {
            _ if text == FLAGS || text == "security.selinux" => {}
            Some(stream) if !stream.is_empty() => {
                let mut content = host::extended_value(path, &name)?;
                // Only a final zero byte is removed, so that a stream written without one loses nothing.
                content.pop_if(|last| *last == 0);
                let name = Name::from_bytes(stream.as_bytes());
                extras.streams.push(Stream { name, content: StreamContent::Bytes(content) });
            }
            _ if linux::is_kept(text) => {
                extras.extended.push((text.to_owned(), host::extended_value(path, &name)?));
            }
            _ => extras.rights += 1,
        }
    }
    Ok(extras)
}

/// Keeps a named stream: as one where the host has streams, otherwise as an extended attribute.
pub(super) fn set_stream(path: &Path, name: &Name, mut content: Vec<u8>) -> io::Result<()> {
    if host::has_real_streams() {
        return host::set_stream(path, name, &content);
    }
    content.push(0);
    let name = [STREAM_PREFIX.as_bytes(), &name.to_bytes(), STREAM_SUFFIX.as_bytes()].concat();
    host::set_extended(path, &name, &content)
}

/// The largest value in bytes of an extended attribute of Linux; on Windows the largest stream that is copied to the host.
pub(super) const LARGEST_VALUE: u64 = if cfg!(windows) { 1 << 30 } else { 64 << 10 };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leads_out_of_the_directory() {
        let directory = Path::new("safe");
        for name in ["", ".", "..", "a/b", "../x", "/etc/passwd", "a\0b"] {
            assert!(host_path(directory, &Name::from(name)).is_err(), "{name:?}");
        }
        for name in [r"..\x", r"C:\x", "C:x", "a:b", "CON", "x.", "x "] {
            let path = host_path(directory, &Name::from(name));
            assert_eq!(path.is_err(), cfg!(windows), "{name:?}");
            assert!(path.is_err() || path.unwrap().parent() == Some(directory), "{name:?}");
        }
        assert_eq!(host_path(directory, &Name::from("..a")).unwrap(), directory.join("..a"));
    }
}
