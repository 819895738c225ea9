//! The process that serves a mount in the background.
//!
//! The process is this program, started again. Until the volume is mounted it shares the standard error of the
//! process that the user called, which waits for it and ends with its exit code.

use crate::command::failure::{About, Failure, Outcome, tell_to};
use crate::command::mounting::log::Logger;
use crate::command::mounting::users;
use platter_mount::Served;
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// The line that the serving process prints when the volume is mounted.
const READY: &[u8] = b"mounted\n";

/// Starts the serving process and returns when the volume is mounted, or when the process has failed.
pub fn start(arguments: Vec<OsString>) -> Outcome {
    let program = std::env::current_exe().about("platter")?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().about("platter")?;
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

/// Detaches this process from the terminal of the process that started it.
pub fn detach() {
    // Fails only for a process group leader, which has no terminal to leave.
    let _ = rustix::process::setsid();
}

/// Reports that the volume is mounted. From now on messages go only to the log: the system's log, or the file that
/// was named.
pub fn ready(log: &Logger, to_system: bool) -> Result<(), Failure> {
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

/// Makes a signal unmount the volume. While programs use the mount, it is hidden from new programs and ends when the
/// last has closed its files; the log names the programs that are waited for, and a second signal ends the process
/// once everything is written.
pub fn end_on_signals(at: PathBuf, served: Arc<Served>, log: Logger) {
    // Where handlers cannot be installed, the signals keep their default action.
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM, SIGHUP]) else { return };
    std::thread::spawn(move || {
        let mut asked = false;
        for _ in signals.forever() {
            if let Err(error) = served.sync_all() {
                log.line(&format!("not all could be written: {error:?}"));
            }
            if asked {
                log.line("ended while programs had files open; all that they wrote is on the device");
                signal_hook::low_level::exit(1);
            }
            asked = true;
            match platter_mount::unmount(&at, false) {
                Err(error) if error.kind() == ErrorKind::ResourceBusy => {
                    let users = users::of(&at).join(", ");
                    log.line(&format!("waiting for programs that use {}: {users}", at.display()));
                    if let Err(error) = platter_mount::unmount(&at, true) {
                        log.line(&format!("{} could not be unmounted: {error}", at.display()));
                    }
                }
                Err(error) => log.line(&format!("{} could not be unmounted: {error}", at.display())),
                Ok(()) => {}
            }
        }
    });
}
