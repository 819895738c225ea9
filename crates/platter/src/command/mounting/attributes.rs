//! What a file on a mount has besides its content, through the extended attributes by which the mount shows it.

use crate::command::failure::{About, Failure, shown};
use platter_mount::{Status, attribute};
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use serde::de::DeserializeOwned;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The most bytes of a value that the kernel passes on.
const LONGEST: usize = 64 << 10;

/// The attribute that stands for a snapshot.
pub(crate) fn snapshot(name: &str) -> String {
    format!("{}{name}", attribute::SNAPSHOT)
}

/// Returns the value of an attribute; `None` if the file or the format has none. Symbolic links are not followed.
pub(crate) fn get(path: &Path, name: &str) -> Result<Option<Vec<u8>>, Failure> {
    let mut value = vec![0; LONGEST];
    match rustix::fs::lgetxattr(path, name, &mut value[..]) {
        Ok(length) => {
            value.truncate(length);
            Ok(Some(value))
        }
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(error) => Err(failure(path, error)),
    }
}

/// Sets an attribute.
pub(crate) fn set(path: &Path, name: &str, value: &[u8]) -> Result<(), Failure> {
    rustix::fs::lsetxattr(path, name, value, XattrFlags::empty()).map_err(|error| failure(path, error))
}

/// Removes an attribute. Returns whether there was one.
pub(crate) fn remove(path: &Path, name: &str) -> Result<bool, Failure> {
    match rustix::fs::lremovexattr(path, name) {
        Ok(()) => Ok(true),
        Err(Errno::NODATA) => Ok(false),
        Err(error) => Err(failure(path, error)),
    }
}

fn failure(path: &Path, error: Errno) -> Failure {
    match error {
        Errno::OPNOTSUPP => Failure::new(shown(path), "the format of the mounted volume does not have this"),
        error => Failure::from_io(shown(path), &error.into()),
    }
}

/// The names of the extended attributes of a file.
pub(crate) fn extended(path: &Path) -> Result<Vec<String>, Failure> {
    let mut names = vec![0; LONGEST];
    let length = rustix::fs::llistxattr(path, &mut names[..]).map_err(|error| failure(path, error))?;
    Ok(split(&names[..length]))
}

/// The names of the named streams of a file.
pub(crate) fn streams(path: &Path) -> Result<Vec<String>, Failure> {
    Ok(get(path, attribute::STREAMS)?.map_or_else(Vec::new, |names| split(&names)))
}

/// The names of the snapshots of a file.
pub(crate) fn snapshots(path: &Path) -> Result<Vec<String>, Failure> {
    Ok(get(path, attribute::SNAPSHOTS)?.map_or_else(Vec::new, |names| split(&names)))
}

fn split(names: &[u8]) -> Vec<String> {
    let each = names.split(|&byte| byte == 0).filter(|name| !name.is_empty());
    each.map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

/// The path of a stream or snapshot of a file, for a mount that shows these as files.
pub(crate) fn stream_path(path: &Path, stream: &str) -> PathBuf {
    let mut bytes = path.as_os_str().as_bytes().to_vec();
    bytes.push(b':');
    bytes.extend(OsStr::new(stream).as_bytes());
    PathBuf::from(OsString::from_vec(bytes))
}

/// The state of the mount at a directory.
pub(crate) fn status(at: &Path) -> Result<Status, Failure> {
    document(at, attribute::STATUS)
}

/// The value of an attribute that is JSON.
pub(crate) fn document<T: DeserializeOwned>(at: &Path, name: &str) -> Result<T, Failure> {
    let other = || Failure::new(shown(at), "what serves the mount is of another version");
    let value = get(at, name)?.ok_or_else(other)?;
    serde_json::from_slice(&value).map_err(|_| other())
}

/// Calls `each` for a file on a mount and, if `recursive`, for everything below it on the same mount. Symbolic links are
/// skipped.
pub(crate) fn walk(
    path: &Path,
    recursive: bool,
    each: &mut dyn FnMut(&Path, bool) -> Result<(), Failure>,
) -> Result<(), Failure> {
    use std::os::unix::fs::MetadataExt;
    let data = fs::symlink_metadata(path).about(shown(path))?;
    if data.is_symlink() {
        return Ok(());
    }
    each(path, data.is_dir())?;
    if !recursive || !data.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(path).about(shown(path))? {
        let below = entry.about(shown(path))?.path();
        if fs::symlink_metadata(&below).about(shown(&below))?.dev() == data.dev() {
            walk(&below, true, each)?;
        }
    }
    Ok(())
}
