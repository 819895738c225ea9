//! A command that runs, with all that it starts.

use super::{SHELL, UserAndSystem, cpu_of_children, own_group};
use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command};
use std::time::Instant;

/// The shell with a command.
pub(crate) fn shell(command: &str) -> Command {
    let mut shell = Command::new(SHELL);
    shell.arg("-c").arg(command);
    shell
}

/// A command that runs, in a process group of its own, so that it can be ended with all that it started.
pub(crate) struct Running {
    child: Child,
    began: Instant,
    /// The CPU time of what had ended before.
    before: UserAndSystem,
}

impl Running {
    /// Starts it.
    pub(crate) fn start(command: &mut Command) -> io::Result<Running> {
        own_group(command);
        let (before, began) = (cpu_of_children(), Instant::now());
        Ok(Running { child: command.spawn()?, began, before })
    }

    /// When it began to run.
    pub(crate) fn began(&self) -> Instant {
        self.began
    }

    /// Waits until the command has ended, but leaves it to be reaped.
    pub(crate) fn wait(&self) -> io::Result<()> {
        loop {
            let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
            match waitid(Id::Pid(Pid::from_raw(self.child.id() as i32)), flags) {
                Err(Errno::EINTR) => {}
                waited => return Ok(waited.map(drop)?),
            }
        }
    }

    /// Ends the process group, whose first process is not reaped yet: in order, or at once.
    pub(crate) fn end(&self, at_once: bool) {
        let signal = if at_once { Signal::SIGKILL } else { Signal::SIGTERM };
        // A group that has ended by itself meanwhile is as good.
        let _ = killpg(Pid::from_raw(self.child.id() as i32), signal);
    }

    /// The exit code of the command, which has ended, or 128 and the number of the signal that ended it, as shells say; and the
    /// CPU time of the command and of all processes that it waited for.
    pub(crate) fn finish(mut self) -> io::Result<(i32, UserAndSystem)> {
        let status = self.child.wait()?;
        let (after, before) = (cpu_of_children(), self.before);
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        Ok((code, (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1))))
    }
}
