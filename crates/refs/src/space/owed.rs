//! Pages that the next commit will take for what is in memory, which nothing else may take until then.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many pages are owed in all. Every holder of a part of it has a handle.
#[derive(Clone, Debug, Default)]
pub struct Owed(Arc<AtomicU64>);

impl Owed {
    /// How many.
    pub fn pages(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// A holder owes `now` instead of `before`.
    pub fn change(&self, before: u64, now: u64) {
        if before != now {
            self.0.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
        }
    }
}
