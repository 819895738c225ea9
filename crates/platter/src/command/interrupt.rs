//! Ctrl-C, the end of the terminal and SIGTERM end every long command within a second, with the exit code 130 and a line that
//! says where it stands; a second one ends the program at once.
//!
//! A command [listens](listen) and asks [`is_asked`] at its safe points, mostly through its [`Bar`](super::progress::Bar);
//! then it puts its things in order and ends. One that can be cut off anywhere without a loss, as it can by a power
//! cut, [ends at once](end_at_once).

use crate::command::failure::{INTERRUPTED, tell};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

static ASKED: AtomicBool = AtomicBool::new(false);

/// What a command says that ends at once.
static LAST_WORDS: OnceLock<LastWords> = OnceLock::new();

type LastWords = Box<dyn Fn() -> String + Send + Sync>;

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
                if let Some(say) = LAST_WORDS.get() {
                    tell(format_args!("platter: interrupted; {}", say()));
                    signal_hook::low_level::exit(INTERRUPTED.into());
                }
                if ASKED.swap(true, Ordering::Relaxed) && asked.elapsed() > ONE_WISH {
                    signal_hook::low_level::exit(INTERRUPTED.into());
                }
            }
        });
    });
}

/// From now on the first signal ends the program, which says `last_words`.
pub fn end_at_once(last_words: impl Fn() -> String + Send + Sync + 'static) {
    // Only the first of a process counts: a program carries out one command.
    let _ = LAST_WORDS.set(Box::new(last_words));
    listen();
}

/// Whether the process ignores a signal, by the content of `/proc/self/status` (proc_pid_status(5)).
fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// In builds for tests: sends this process a SIGINT once the step that `PLATTER_INTERRUPT_AT` names (`STEP=DONE`) has come as
/// far as it says, and waits until it has arrived. A signal from outside would come at a time and not at a place.
pub fn test_at(what: &str, done: u64) {
    if !cfg!(debug_assertions) {
        return;
    }
    static AT: OnceLock<Option<(String, u64)>> = OnceLock::new();
    let at = AT.get_or_init(|| {
        let text = std::env::var("PLATTER_INTERRUPT_AT").ok()?;
        let (step, at) = text.split_once('=')?;
        Some((step.to_string(), at.parse().ok()?))
    });
    if at.as_ref().is_some_and(|(step, at)| step == what && done >= *at) && !is_asked() {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::INT);
        while !is_asked() {
            std::thread::yield_now();
        }
    }
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
