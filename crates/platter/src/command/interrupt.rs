//! Ctrl-C, the end of the terminal and SIGTERM end a comparison with what was measured until then, and a copy with the
//! file under way; a second one ends the program.

use crate::command::failure::INTERRUPTED;
use crate::command::host;
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
        let mut first = None;
        host::on_signals(move || {
            let asked = *first.get_or_insert_with(Instant::now);
            if ASKED.swap(true, Ordering::Relaxed) && asked.elapsed() > ONE_WISH {
                host::exit(INTERRUPTED);
            }
        });
    });
}

/// Whether a signal asked the command to end.
pub fn is_asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
