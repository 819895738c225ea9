//! The state that the callers of a run share: the volume, and the record of what they did.

use super::history::{Call, History};
use super::moment::Moment;
use platter_device::Faults;
use platter_vfs::{FileSystem, Node};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// The state that the callers of a run share.
pub(super) struct Stage {
    pub system: Arc<dyn FileSystem>,
    /// The recording device.
    pub kept: Arc<Faults>,
    pub history: Mutex<History>,
    /// Whether transfers may fail with errors that reach callers.
    pub fails: bool,
    /// The number of shared files.
    pub files: usize,
    /// The number of files of the crowd.
    pub crowd: usize,
    /// The nodes of the shared files whose name some caller removes, held from the beginning to the end; the callers
    /// look up the others themselves.
    pub removed: Vec<Option<Node>>,
    /// The byte value of the next write.
    pub next_id: AtomicU8,
}

impl Stage {
    pub(super) fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().expect("nothing panics with it")
    }

    /// Returns the present moment, which no other event has.
    pub(super) fn moment(&self) -> Moment {
        let writes = self.kept.log().writes();
        let mut history = self.history();
        history.ticks += 1;
        Moment { tick: history.ticks, writes }
    }

    /// Records a call. Returns its index.
    pub(super) fn note(&self, call: Call) -> usize {
        let calls = &mut self.history().calls;
        calls.push(call);
        calls.len() - 1
    }

    pub(super) fn fault(&self, text: String) {
        self.history().faults.push(text);
    }

    /// Returns a byte value that no other write uses.
    pub(super) fn id(&self) -> u8 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether a shared file loses its name in this run.
    pub(super) fn removes(&self) -> bool {
        self.removed.iter().any(Option::is_some)
    }
}
