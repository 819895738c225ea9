//! Ctrl-C ends a comparison with what was measured until then; a second one ends the program.

use crate::failure::INTERRUPTED;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

static ASKED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on a signal is a wish, and the second one an order.
pub fn listen() {
    ASKED.get_or_init(|| {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first acts only if the second has set the flag before. Where signals cannot be had, they
            // do what they do everywhere.
            let _ =
                signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED.into(), asked.clone());
            let _ = signal_hook::flag::register(signal, asked.clone());
        }
        asked
    });
}

/// Whether somebody wants to have an end.
pub fn is_asked() -> bool {
    ASKED.get().is_some_and(|asked| asked.load(Ordering::Relaxed))
}
