//! Windows.

use super::UserAndSystem;
use platter_device::host::{self, Job};
use std::ffi::OsString;
use std::io;
use std::os::windows::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Instant;

/// Whether caches can be told to forget.
pub(crate) const FORGETS: bool = false;
/// Whether volumes are mounted for programs.
pub(crate) const MOUNTS: bool = false;
/// What commands run through.
pub(crate) const SHELL: &str = "cmd";

/// What lies beneath a path.
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

    /// What the cache of the disk below a path does with writes.
    pub(crate) fn write_cache(&self, path: &Path) -> Option<String> {
        platter_device::hardware(path)?.write_cache
    }

    /// There are no such governors, but power plans.
    pub(crate) fn governor(&self) -> Option<String> {
        None
    }

    /// The active power plan.
    pub(crate) fn power_plan(&self) -> Option<String> {
        Some(host::power_plan())
    }

    /// Whether Defender looks at files.
    pub(crate) fn real_time_protection(&self) -> Option<String> {
        Some(host::real_time_protection().into())
    }

    /// How queues carry out requests.
    pub(crate) fn way_of_io(&self) -> String {
        "completion ports".into()
    }
}

/// Makes everything durable that was written to the volume that holds a directory.
///
/// # Errors
/// If durability is `promised`, those of the system, which lets administrators alone do that; otherwise none, and what cannot be
/// flushed is left to the system.
pub(crate) fn sync_file_system(directory: &Path, promised: bool) -> io::Result<()> {
    match host::flush_volume(directory) {
        Err(error) if promised => {
            let why = format!("the drive cannot be flushed, so leave --durable out: {error}");
            Err(io::Error::new(error.kind(), why))
        }
        _ => Ok(()),
    }
}

/// The path of a directory for programs to start in. `cmd` has none on a share, nor one with the prefix of long paths.
pub(crate) fn directory_for_programs(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    if path.as_os_str().as_encoded_bytes().starts_with(br"\\") {
        let why = "cmd starts programs on drives with a letter only: give the share or volume one, and name dir:X:\\";
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    Ok(path)
}

/// The command line interpreter with a command. The line reaches it as it was given, without the quotes around it (cmd /?).
pub(crate) fn shell(command: &str) -> Command {
    let windows = std::env::var_os("SystemRoot").unwrap_or_else(|| OsString::from(r"C:\Windows"));
    let mut shell = Command::new(PathBuf::from(windows).join("System32").join("cmd.exe"));
    shell.args(["/d", "/s", "/c"]).raw_arg(format!("\"{command}\""));
    shell
}

/// A command that runs, with all that it starts.
pub(crate) struct Running {
    job: Job,
    child: Child,
    began: Instant,
}

impl Running {
    /// Starts it.
    pub(crate) fn start(command: &mut Command) -> io::Result<Running> {
        let (job, child, began) = Job::start(command)?;
        Ok(Running { job, child, began })
    }

    /// When it began to run.
    pub(crate) fn began(&self) -> Instant {
        self.began
    }

    /// Waits until the command has ended.
    pub(crate) fn wait(&self) -> io::Result<()> {
        host::wait_for_end(&self.child)
    }

    /// Ends all of them, in either case at once.
    pub(crate) fn end(&self, _at_once: bool) {
        self.job.end();
    }

    /// The exit code of the command, which has ended, and the CPU time of all of them.
    pub(crate) fn finish(mut self) -> io::Result<(i32, UserAndSystem)> {
        let code = self.child.wait()?.code().unwrap_or(-1);
        Ok((code, self.job.cpu_times()?))
    }
}
