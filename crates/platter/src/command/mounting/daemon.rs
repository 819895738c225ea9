//! The process that serves a mount in the background.
//!
//! The process is this program, started again. Until the volume is mounted it shares the standard error of the
//! process that the user called, which waits for it and ends with its exit code.

use crate::command::failure::{About, Failure, Outcome, tell_to};
use crate::command::mounting::log::Logger;
use crate::command::mounting::users;
use platter_mount::{MountPoint, Mounts, Served};
use rustix::process::{Resource, getrlimit, setrlimit};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::process::{Command, Stdio};
use std::sync::Weak;

/// The line that the serving process prints when the volume is mounted.
const READY: &[u8] = b"mounted\n";

/// Starts the serving process and returns when the volume is mounted, or when the process has failed.
/// What is in `input` it reads from its standard input.
pub(crate) fn start(arguments: Vec<OsString>, input: &[u8]) -> Outcome {
    let program = std::env::current_exe().about("platter")?;
    platter_device::inherit_standard_files_only();
    let mut command = Command::new(program);
    let stdin = if input.is_empty() { Stdio::null() } else { Stdio::piped() };
    command.args(arguments).stdin(stdin).stdout(Stdio::piped());
    let mut child = command.spawn().about("platter")?;
    if let Some(mut pipe) = child.stdin.take() {
        // A process that has ended says why below.
        let _ = pipe.write_all(input);
    }
    let mut said = Vec::new();
    if let Some(mut output) = child.stdout.take() {
        output.read_to_end(&mut said).about("platter")?;
    }
    if said == READY {
        return Ok(0);
    }
    // The serving process has printed the reason on standard error.
    let status = child.wait().about("platter")?;
    match status.code() {
        Some(code) if code != 0 => Err(Failure::silent().with_code(code as u8)),
        _ => Err(Failure::new("platter", format!("the process that serves the mount ended: {status}"))),
    }
}

/// Raises the limit of the sizes of files (`ulimit -f`) as far as this user may. The limit of the shell in which the
/// volume was mounted is meant for that shell's own files, not for the image that other programs write to.
pub(crate) fn allow_large_files() {
    let mut limit = getrlimit(Resource::Fsize);
    limit.current = limit.maximum;
    // Where this fails the limit stays, and a write beyond it is an error.
    let _ = setrlimit(Resource::Fsize, limit);
}

/// Detaches this process from the terminal of the process that started it.
pub(crate) fn detach() {
    // Fails only for a process group leader, which has no terminal to leave.
    let _ = rustix::process::setsid();
}

/// Reports that the volume is mounted. From now on messages go only to the log: the system's log, or the file that
/// was named.
pub(crate) fn ready(log: &Logger, to_system: bool) -> Result<(), Failure> {
    std::env::set_current_dir("/").about("/")?;
    if to_system {
        log.use_system();
    }
    // Messages about the copies of a mirror, for example.
    let lines = log.clone();
    tell_to(move |line| lines.line(line.trim_start_matches("platter: ")));
    let nothing = File::options().read(true).write(true).open("/dev/null").about("/dev/null")?;
    let failed = |error: rustix::io::Errno| Failure::from_io("platter", &error.into());
    std::io::stdout().write_all(READY).about("platter")?;
    std::io::stdout().flush().about("platter")?;
    dup2_stdin(&nothing).map_err(failed)?;
    dup2_stdout(&nothing).map_err(failed)?;
    dup2_stderr(&nothing).map_err(failed)
}

/// Makes a signal unmount the volume, wherever it is mounted by then. While programs use a mount, it is hidden from new
/// programs and ends when the last has closed its files; the log names the programs that are waited for. A second
/// signal closes the volume and ends the process. The volume is not kept open for this: when the mount has ended, the
/// devices are closed.
pub(crate) fn end_on_signals(mounts: Mounts, served: Weak<Served>, log: Logger) {
    // Where handlers cannot be installed, the signals keep their default action.
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM, SIGHUP]) else { return };
    std::thread::spawn(move || {
        let mut asked = false;
        for _ in signals.forever() {
            let Some(served) = served.upgrade() else { continue };
            if asked {
                match served.close() {
                    Ok(()) => log.line("ended while it was in use; all that programs wrote is on the device"),
                    Err(error) => {
                        log.line(&format!("ended while it was in use; not all could be written: {error}"))
                    }
                }
                signal_hook::low_level::exit(1);
            }
            asked = true;
            if let Err(error) = served.sync_all() {
                log.line(&format!("not all could be written: {error:?}"));
            }
            drop(served);
            match mounts.find() {
                // In the opposite order, so that a mount goes before one that it may lie on.
                Ok(found) => found.iter().rev().for_each(|mount| end(&mounts, mount, &log)),
                Err(error) => log.line(&format!("the mounts could not be found: {error}")),
            }
        }
    });
}

/// Unmounts one mount of the volume, unless another file system is mounted over it.
fn end(mounts: &Mounts, mount: &MountPoint, log: &Logger) {
    let at = &mount.at;
    if !mounts.is_on_top(mount) {
        log.line(&format!(
            "{} is not unmounted, because another file system is mounted over it",
            at.display()
        ));
        return;
    }
    let done = match platter_mount::unmount(at, false) {
        Err(error) if error.kind() == ErrorKind::ResourceBusy => {
            log.line(&format!(
                "waiting for programs that use {}: {}",
                at.display(),
                users::of(at).join(", ")
            ));
            platter_mount::unmount(at, true)
        }
        done => done,
    };
    if let Err(error) = done {
        log.line(&format!("{} could not be unmounted: {error}", at.display()));
    }
}
