//! One run of a command in a directory.

use crate::host::{self, Running};
use crate::{CpuTime, Error, Result};
use std::ffi::OsStr;
use std::io::{PipeReader, Read};
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// The bytes at the end of a command's output that are kept for a message.
const KEPT: usize = 4096;
/// The lines of them that a message shows.
const LINES: usize = 5;
/// How long the end of the output of a command that has ended is waited for: a process that it left behind may hold the
/// pipe open.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// The time between two questions whether the user wants to end.
const LOOK: Duration = Duration::from_millis(50);
/// How long a command may take to end when it is asked to, before it is killed.
const GRACE: Duration = Duration::from_secs(2);

/// A command that has ended.
pub(super) struct Ended {
    /// The time from its start until its end was seen.
    pub took: Duration,
    /// The processor time of the command and of all processes that it waited for.
    pub cpu: CpuTime,
    /// The exit code; 128 and the signal's number if a signal ended it, as shells say.
    pub code: i32,
    output: Output,
}

impl Ended {
    /// The last lines that the command wrote, to either of its outputs.
    pub(super) fn said(self) -> String {
        let text = self.output.end();
        let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
        lines[lines.len().saturating_sub(LINES)..].join(" / ")
    }
}

/// Runs a command through the shell in a directory, and waits for its end. `stop` is asked meanwhile; when it returns true,
/// the command and all processes of its group are ended.
///
/// The output is read and dropped, but for its end: programs know /dev/null, and some do less where they write to it.
///
/// # Errors
/// [`Error::Io`] if the shell cannot be started; [`Error::Interrupted`] if `stop` ended the command.
pub(super) fn run(
    command: &str,
    at: &Path,
    variables: &[(&str, &OsStr)],
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Ended> {
    let failed = |source| Error::Io { what: host::SHELL.into(), source };
    let (reader, writer) = std::io::pipe().map_err(failed)?;
    let mut shell = host::shell(command);
    shell.current_dir(at).envs(variables.iter().copied());
    shell.stdin(Stdio::null());
    shell.stdout(writer.try_clone().map_err(failed)?).stderr(writer);
    let running = Running::start(&mut shell).map_err(failed)?;
    // The pipe ends when the last process that writes to it does, so this one must not keep it.
    drop(shell);
    let output = Output::of(reader);
    let (took, is_ended) = wait(&running, stop).map_err(failed)?;
    let (code, cpu) = running.finish().map_err(failed)?;
    if is_ended {
        return Err(Error::Interrupted);
    }
    Ok(Ended { took, cpu: CpuTime::of(cpu), code, output })
}

/// Waits until the command has ended; returns the time since it began, and whether `stop` ended it.
fn wait(running: &Running, stop: &(dyn Fn() -> bool + Sync)) -> std::io::Result<(Duration, bool)> {
    let (is_over, changed) = (Mutex::new(false), Condvar::new());
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut asked: Option<Instant> = None;
            let mut over = is_over.lock().expect("no panic while locked");
            while !*over {
                // The command is not reaped before `is_over`, so its number is not that of another process.
                match asked {
                    None if stop() => {
                        asked = Some(Instant::now());
                        running.end(false);
                    }
                    Some(since) if since.elapsed() > GRACE => {
                        running.end(true);
                    }
                    _ => {}
                }
                over = changed.wait_timeout(over, LOOK).expect("no panic while locked").0;
            }
            asked.is_some()
        });
        let waited = running.wait();
        let took = running.began().elapsed();
        *is_over.lock().expect("no panic while locked") = true;
        changed.notify_all();
        let is_ended = watcher.join().expect("the watcher does not panic");
        waited.map(|()| (took, is_ended))
    })
}

/// The end of what a command writes, gathered by a thread.
struct Output {
    kept: Arc<Mutex<Vec<u8>>>,
    ended: Receiver<()>,
}

impl Output {
    fn of(mut reader: PipeReader) -> Output {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let (done, ended) = channel();
        let end = kept.clone();
        std::thread::spawn(move || {
            let mut piece = vec![0; 64 << 10];
            while let Ok(count @ 1..) = reader.read(&mut piece) {
                let mut end = end.lock().expect("no panic while locked");
                end.extend_from_slice(&piece[count.saturating_sub(KEPT)..count]);
                let surplus = end.len().saturating_sub(KEPT);
                end.drain(..surplus);
            }
            // Nobody waits if the command did not fail.
            let _ = done.send(());
        });
        Output { kept, ended }
    }

    fn end(&self) -> String {
        // What has come until then is shown, also if a process that the command left behind still writes.
        let _ = self.ended.recv_timeout(LAST_WORDS);
        String::from_utf8_lossy(&self.kept.lock().expect("no panic while locked")).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_here(command: &str) -> Ended {
        run(command, Path::new("/"), &[("PLATTER_WORD", "said".as_ref())], &|| false).unwrap()
    }

    #[test]
    fn a_command_has_its_exit_code_its_directory_and_its_last_lines() {
        let ended =
            run_here("pwd; echo \"$PLATTER_WORD\"; for n in 1 2 3 4 5 6 7; do echo line $n; done; exit 3");
        assert_eq!(ended.code, 3);
        assert_eq!(ended.said(), "line 3 / line 4 / line 5 / line 6 / line 7");
        assert_eq!(run_here("pwd; echo $PLATTER_WORD").said(), "/ / said");
        assert_eq!(run_here("kill -9 $$").code, 137);
        assert_eq!(run_here("no-such-program-anywhere").code, 127);
    }

    #[test]
    fn any_amount_of_output_is_taken_and_its_end_kept() {
        let ended = run_here("head -c 3000000 /dev/zero | tr '\\0' x; echo; echo the end; exit 1");
        let said = ended.said();
        assert!(said.ends_with(" / the end") && said.len() <= KEPT + 10, "{}", said.len());
    }

    #[test]
    fn processor_time_of_what_it_started_is_counted() {
        let ended = run_here("sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done'");
        assert!(ended.cpu.total() > Duration::ZERO && ended.took >= ended.cpu.total() / 64);
    }

    #[test]
    fn a_command_that_is_stopped_ends_with_all_that_it_started() {
        let began = Instant::now();
        let stopped = run("sleep 60 & sleep 60; true", Path::new("/"), &[], &|| true);
        assert!(matches!(stopped, Err(Error::Interrupted)));
        assert!(began.elapsed() < Duration::from_secs(30));
    }
}
