//! Ctrl-C, the end of the terminal and SIGTERM end a comparison with what was measured until then, and a copy with the
//! file under way; a second one ends the program.

use crate::command::failure::INTERRUPTED;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

static ASKED: AtomicBool = AtomicBool::new(false);

/// Programs such as timeout(1) send the same signal twice, to the process and to its group: a signal that comes so
/// soon after the first is not a second request.
const ONE_WISH: Duration = Duration::from_secs(1);

/// From now on the first signal asks the command to end, and the second one ends the program at once.
pub fn listen() {
    static LISTENING: OnceLock<()> = OnceLock::new();
    LISTENING.get_or_init(|| {
        // Where handlers cannot be installed, the signals keep their default action.
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        // nohup(1) starts a program so that it outlasts its terminal.
        let others = [SIGHUP].into_iter().filter(|signal| !is_ignored(&status, *signal));
        let Ok(mut signals) = Signals::new([SIGINT, SIGTERM].into_iter().chain(others)) else { return };
        std::thread::spawn(move || {
            let mut first = None;
            for _ in signals.forever() {
                let asked = *first.get_or_insert_with(Instant::now);
                if ASKED.swap(true, Ordering::Relaxed) && asked.elapsed() > ONE_WISH {
                    signal_hook::low_level::exit(INTERRUPTED.into());
                }
            }
        });
    });
}

/// Whether the process ignores a signal, by the content of `/proc/self/status` (proc_pid_status(5)).
fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Whether a signal asked the command to end.
pub fn is_asked() -> bool {
    ASKED.load(Ordering::Relaxed)
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
