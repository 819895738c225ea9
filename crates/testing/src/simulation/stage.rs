//! What the callers of a run share: the volume, and the record of what they did.

use super::history::{Call, History};
use super::moment::Moment;
use platter_device::Faults;
use platter_vfs::{FileSystem, Node};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// What the callers of a run share.
pub(super) struct Stage {
    pub system: Arc<dyn FileSystem>,
    /// What the storage saw.
    pub kept: Arc<Faults>,
    pub history: Mutex<History>,
    /// Transfers may fail, and callers hear of it.
    pub fails: bool,
    /// How many files all share.
    pub files: usize,
    /// How many more there are that many writes go to at once.
    pub crowd: usize,
    /// Files that some caller takes the name of, each held from the beginning to the end; the callers hold the others.
    pub removed: Vec<Option<Node>>,
    /// What the next write consists of.
    pub next_id: AtomicU8,
}

impl Stage {
    pub fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().expect("nothing panics with it")
    }

    /// The present moment, which nothing else has.
    pub fn moment(&self) -> Moment {
        let writes = self.kept.log().writes();
        let mut history = self.history();
        history.ticks += 1;
        Moment { tick: history.ticks, writes }
    }

    /// Notes a call. Returns how many there were before.
    pub fn note(&self, call: Call) -> usize {
        let calls = &mut self.history().calls;
        calls.push(call);
        calls.len() - 1
    }

    pub fn fault(&self, text: String) {
        self.history().faults.push(text);
    }

    /// A byte that nobody else writes.
    pub fn id(&self) -> u8 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether some file loses its name.
    pub fn removes(&self) -> bool {
        self.removed.iter().any(Option::is_some)
    }
}
