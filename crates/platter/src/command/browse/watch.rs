//! Where a long task stands, and whether it is to end.

use crate::command::interrupt;
use platter_vfs::Progress;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Shared by the thread that works and the screen that shows how far it has come.
#[derive(Debug, Default)]
pub(super) struct Watch {
    stop: AtomicBool,
    last: Mutex<(&'static str, u64, u64)>,
}

impl Watch {
    /// Asks for the end.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// What is being done, and how much of it is done.
    pub(super) fn standing(&self) -> String {
        let (what, done, total) = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let done = match total {
            0 => String::new(),
            _ => format!(", {} %", u128::from(done.min(total)) * 100 / u128::from(total)),
        };
        let ends = if self.is_stopped() { ", ending" } else { "" };
        format!("{what}{done}{ends}")
    }
}

impl Progress for Watch {
    fn progress(&self, what: &'static str, done: u64, total: u64) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = (what, done, total);
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || interrupt::is_asked()
    }
}
