//! Ctrl-C ends a comparison with what was measured until then, and a copy with the file under way; a second one ends
//! the program.

use crate::command::failure::INTERRUPTED;
use signal_hook::consts::{SIGINT, SIGTERM};
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
        let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) else { return };
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

/// Whether a signal asked the command to end.
pub fn is_asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
