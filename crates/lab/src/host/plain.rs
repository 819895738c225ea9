//! Systems of POSIX that are not Linux, such as macOS and FreeBSD.

use super::UserAndSystem;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Whether caches can be told to forget.
pub(crate) const FORGETS: bool = false;
/// Whether volumes are mounted for programs.
pub(crate) const MOUNTS: bool = false;
/// What commands run through.
pub(crate) const SHELL: &str = "sh";

/// What lies beneath a path is not known.
pub(crate) struct Beneath;

impl Beneath {
    /// This machine.
    pub(crate) fn this() -> Beneath {
        Beneath
    }

    /// Not known.
    pub(crate) fn memory(&self, _path: &Path) -> Option<String> {
        None
    }

    /// Not known.
    pub(crate) fn ways_of_host(&self, _path: &Path) -> Option<String> {
        None
    }

    /// What the cache of the disk below a path does with writes, where the device tells it.
    pub(crate) fn write_cache(&self, path: &Path) -> Option<String> {
        platter_device::hardware(path)?.write_cache
    }

    /// Not known.
    pub(crate) fn governor(&self) -> Option<String> {
        None
    }

    /// There are none.
    pub(crate) fn power_plan(&self) -> Option<String> {
        None
    }

    /// There is none.
    pub(crate) fn real_time_protection(&self) -> Option<String> {
        None
    }

    /// Blocking calls, each on a thread.
    pub(crate) fn way_of_io(&self) -> String {
        "threads".into()
    }
}

/// What programs wrote is left to the system.
pub(crate) fn sync_file_system(_directory: &Path, _promised: bool) -> io::Result<()> {
    Ok(())
}

/// The path of a directory for programs to start in.
pub(crate) fn directory_for_programs(path: &Path) -> io::Result<PathBuf> {
    std::fs::canonicalize(path)
}

/// The shell with a command.
pub(crate) fn shell(command: &str) -> Command {
    let mut shell = Command::new(SHELL);
    shell.arg("-c").arg(command);
    shell
}

/// Programs are not measured here.
pub(crate) enum Running {}

impl Running {
    /// Fails.
    pub(crate) fn start(_command: &mut Command) -> io::Result<Running> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "programs are measured on Linux and Windows only"))
    }

    /// See [`Running::start`].
    pub(crate) fn began(&self) -> Instant {
        match *self {}
    }

    /// See [`Running::start`].
    pub(crate) fn wait(&self) -> io::Result<()> {
        match *self {}
    }

    /// See [`Running::start`].
    pub(crate) fn end(&self, _at_once: bool) {
        match *self {}
    }

    /// See [`Running::start`].
    pub(crate) fn finish(self) -> io::Result<(i32, UserAndSystem)> {
        match self {}
    }
}
