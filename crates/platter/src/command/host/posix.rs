//! What all systems of POSIX have in common.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use std::fs;
use std::sync::Arc;

/// Prepares the process.
pub(crate) fn begin() {
    // Without a handler, a write beyond the limit of a file's size (ulimit -f) ends the process; with one, it fails as
    // on a full disk. Where the system allows no handler, nothing else changes.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

/// Makes no file of the memory of this process if it fails: there are keys in it from now on.
pub(crate) fn keep_memory() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    // Where the system does not allow it, nothing else changes.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
}

/// Calls `told` for each Ctrl-C, SIGTERM and end of the terminal.
pub(crate) fn on_signals(mut told: impl FnMut() + Send + 'static) {
    // Where handlers cannot be installed, the signals keep their default action.
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    // nohup(1) starts a program so that it outlasts its terminal.
    let others = [SIGHUP].into_iter().filter(|signal| !is_ignored(&status, *signal));
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM].into_iter().chain(others)) else { return };
    std::thread::spawn(move || signals.forever().for_each(|_| told()));
}

/// Whether the process ignores a signal, by the content of `/proc/self/status` (proc_pid_status(5)).
fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Whether the terminal at standard input has been closed. It cannot be read to find out: an end of input is no end of the
/// terminal, and keys would be lost.
pub(crate) fn terminal_has_gone() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let input = std::io::stdin();
    let mut asked = [PollFd::new(&input, PollFlags::IN)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    // An error is an interruption, after which it is asked again.
    poll(&mut asked, Some(&at_once)).is_ok() && asked[0].revents().contains(PollFlags::HUP)
}

/// Ends the process at once.
pub(crate) fn exit(code: u8) -> ! {
    signal_hook::low_level::exit(code.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_in_the_mask() {
        let status = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000004002\n";
        assert!(is_ignored(status, SIGHUP) && is_ignored(status, 13));
        assert!(!is_ignored(status, SIGINT) && !is_ignored("", SIGHUP) && !is_ignored("SigIgn: x", SIGHUP));
    }
}
