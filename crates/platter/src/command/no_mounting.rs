//! Mounts where this system has none: every file is one of the host.

use crate::command::failure::Failure;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// No image is mounted.
pub(super) fn image_mounted_at(_path: &Path) -> Result<Option<PathBuf>, Failure> {
    Ok(None)
}

/// No file is one on a mount.
pub(super) fn on_mount(_argument: &OsStr) -> Result<Option<&Path>, Failure> {
    Ok(None)
}

/// The attributes by which a mount shows what a file has.
pub(super) mod attribute {
    pub(crate) const INTEGRITY: &str = "";
    pub(crate) const REPARSE: &str = "";
    pub(crate) const SECURITY: &str = "";
}

/// What a file on a mount has: asked for only where [`on_mount`] finds one.
pub(super) mod attributes {
    use crate::command::failure::{Failure, shown};
    use std::path::{Path, PathBuf};

    fn none<T>(path: &Path) -> Result<T, Failure> {
        Err(Failure::new(shown(path), "this system has no mounts by platter"))
    }

    pub(crate) fn snapshot(name: &str) -> String {
        name.into()
    }

    pub(crate) fn get(path: &Path, _name: &str) -> Result<Option<Vec<u8>>, Failure> {
        none(path)
    }

    pub(crate) fn set(path: &Path, _name: &str, _value: &[u8]) -> Result<(), Failure> {
        none(path)
    }

    pub(crate) fn remove(path: &Path, _name: &str) -> Result<bool, Failure> {
        none(path)
    }

    pub(crate) fn extended(path: &Path) -> Result<Vec<String>, Failure> {
        none(path)
    }

    pub(crate) fn streams(path: &Path) -> Result<Vec<String>, Failure> {
        none(path)
    }

    pub(crate) fn snapshots(path: &Path) -> Result<Vec<String>, Failure> {
        none(path)
    }

    pub(crate) fn stream_path(path: &Path, _stream: &str) -> PathBuf {
        path.to_path_buf()
    }

    pub(crate) fn walk(
        path: &Path,
        _recursive: bool,
        _each: &mut dyn FnMut(&Path, bool) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        none(path)
    }
}
