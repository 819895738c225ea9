//! Pages that the next commit will take for changes in memory. Nothing else may take them until then.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of pages owed in all. Everything that owes a part of it has a handle to the same count.
#[derive(Clone, Debug, Default)]
pub(crate) struct Owed(Arc<AtomicU64>);

impl Owed {
    /// The number of pages.
    pub(crate) fn pages(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Changes a holder's part from `before` to `now` pages.
    pub(crate) fn change(&self, before: u64, now: u64) {
        if before != now {
            self.0.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
        }
    }
}
