//! Ctrl-C, the end of the terminal and SIGTERM end every long command within a second, with the exit code 130 and a line that
//! says where it stands; a second one ends the program at once.
//!
//! A command [listens](listen) and asks [`is_asked`] at its safe points, mostly through its [`Bar`](super::progress::Bar);
//! then it puts its things in order and ends. One that can be cut off anywhere without a loss, as it can by a power
//! cut, [ends at once](end_at_once).

use crate::command::failure::{INTERRUPTED, tell};
use crate::command::host;
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

static LISTENING: OnceLock<()> = OnceLock::new();

/// From now on the first signal asks the command to end, and the second one ends the program at once.
pub(super) fn listen() {
    LISTENING.get_or_init(|| host::on_signals(signalled));
}

/// A signal has come.
fn signalled() {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    let first = FIRST.get_or_init(Instant::now);
    if let Some(say) = LAST_WORDS.get() {
        tell(format_args!("platter: interrupted; {}", say()));
        host::exit(INTERRUPTED);
    }
    if ASKED.swap(true, Ordering::Relaxed) && first.elapsed() > ONE_WISH {
        host::exit(INTERRUPTED);
    }
}

/// From now on the first signal ends the program, which says `last_words`.
pub(super) fn end_at_once(last_words: impl Fn() -> String + Send + Sync + 'static) {
    // Only the first of a process counts: a program carries out one command.
    let _ = LAST_WORDS.set(Box::new(last_words));
    listen();
}

/// In builds for tests: does what a signal does once the step that `PLATTER_INTERRUPT_AT` names (`STEP=DONE`) has come as far
/// as it says. A signal from outside would come at a time and not at a place.
pub(super) fn test_at(what: &str, done: u64) {
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
        assert!(LISTENING.get().is_some(), "a signal would end the command here without a word");
        signalled();
    }
}

/// Whether a signal asked the command to end.
pub(super) fn is_asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
