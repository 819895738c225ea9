//! When files were last read.
//!
//! The kernel leaves this to who serves. Times wait in memory, where they cost a read next to nothing, and go to the volume
//! with the changes that nobody syncs, when the kernel forgets a file, and at the end: no read makes anything durable, and a
//! power cut may lose the last of them. Reads that the kernel answers from its own cache are not seen.
//!
//! On formats that a crash leaves in doubt, times of reading are not kept: whoever only reads such a volume must not leave it
//! so. Source: mount(8), `relatime`.

use crate::options::{AccessTimes, Options};
use platter_vfs::{Attributes, FileSystem, Node, Result, Timestamp};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// How long a time of reading is good enough, in seconds, if nothing changes.
const DAY: i64 = 24 * 60 * 60;
/// Threads that read different files should seldom wait for each other.
const PARTS: usize = 16;

/// What is known of a file that the kernel knows.
#[derive(Clone, Copy, Default)]
struct Access {
    /// A time of reading that the volume does not have yet.
    waiting: Option<Timestamp>,
    /// Until when another read changes nothing.
    settled: Option<Timestamp>,
}

/// Times of reading that are not on the volume yet.
pub struct Accesses {
    rule: AccessTimes,
    /// Nanoseconds to which the volume keeps them: what is seen is the same before and after it has them.
    precision: u32,
    parts: [Mutex<HashMap<u64, Access>>; PARTS],
    /// Whether none is kept for now.
    is_paused: AtomicBool,
}

impl Accesses {
    pub fn new(system: &dyn FileSystem, options: &Options) -> Accesses {
        let able = system.capabilities();
        let is_kept = !options.read_only && able.recovers && able.accessed_precision.is_some();
        let rule = if is_kept { options.access_times } else { AccessTimes::Never };
        let precision =
            able.accessed_precision.map_or(1, |precision| precision.as_nanos().clamp(1, 1_000_000_000));
        Accesses {
            rule,
            precision: precision as u32,
            parts: Default::default(),
            is_paused: AtomicBool::new(false),
        }
    }

    /// From now on times of reading are kept, or lost with those that wait: nothing may be written to the volume.
    pub fn pause(&self, is_paused: bool) {
        self.is_paused.store(is_paused, Ordering::Relaxed);
    }

    fn is_paused(&self) -> bool {
        self.is_paused.load(Ordering::Relaxed)
    }

    fn part(&self, node: Node) -> MutexGuard<'_, HashMap<u64, Access>> {
        self.parts[node.0 as usize % PARTS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The attributes of a node with the time of reading that the volume does not have yet.
    pub fn seen(&self, node: Node, attributes: Attributes) -> Attributes {
        if self.rule == AccessTimes::Never {
            return attributes;
        }
        let waiting = self.part(node).get(&node.0).and_then(|access| access.waiting);
        Attributes { accessed: waiting.or(attributes.accessed), ..attributes }
    }

    /// The node was changed: the next read is newer than that.
    pub fn changed(&self, node: Node) {
        if self.rule == AccessTimes::Never {
            return;
        }
        if let Some(access) = self.part(node).get_mut(&node.0) {
            access.settled = None;
        }
    }

    /// The node's time of reading was set.
    pub fn set(&self, node: Node) {
        if self.rule != AccessTimes::Never {
            self.part(node).remove(&node.0);
        }
    }

    /// A file's content was read.
    ///
    /// # Errors
    /// What looking at the file gives, of which the read itself knows nothing.
    pub fn read(&self, system: &dyn FileSystem, node: Node) -> Result<()> {
        if self.rule == AccessTimes::Never || self.is_paused() {
            return Ok(());
        }
        let mut now = Timestamp::from(SystemTime::now());
        now.nanoseconds -= now.nanoseconds % self.precision;
        // Held while the attributes are looked at, so that a change after that is seen by the next read.
        let mut part = self.part(node);
        let access = part.entry(node.0).or_default();
        if self.rule == AccessTimes::Relative {
            if access.settled.is_some_and(|until| now < until) {
                return Ok(());
            }
            let attributes = system.attributes(node)?;
            let accessed = access.waiting.or(attributes.accessed).unwrap_or_default();
            let changed = attributes.changed.unwrap_or(attributes.modified).max(attributes.modified);
            let good_until =
                |time: Timestamp| Timestamp { seconds: time.seconds.saturating_add(DAY), ..time };
            if accessed > changed && now < good_until(accessed) {
                access.settled = Some(good_until(accessed));
                return Ok(());
            }
            access.settled = Some(good_until(now));
        }
        access.waiting = Some(now);
        Ok(())
    }

    /// Has what waits of all files written. Returns whether that was anything.
    pub fn write(&self, write: impl Fn(Node, Timestamp)) -> bool {
        let mut wrote = false;
        for part in &self.parts {
            let all = part.lock().unwrap_or_else(PoisonError::into_inner);
            let waiting = all.iter().filter(|(_, access)| access.waiting.is_some());
            let waiting: Vec<Node> = waiting.map(|(node, _)| Node(*node)).collect();
            drop(all);
            for node in waiting {
                // Held, so that a time that a program sets meanwhile is not overwritten.
                let mut part = self.part(node);
                if let Some(at) = part.get_mut(&node.0).and_then(|access| access.waiting.take())
                    && !self.is_paused()
                {
                    write(node, at);
                    wrote = true;
                }
            }
        }
        wrote
    }

    /// The kernel does not know the node any more. Returns what is to be written of it.
    pub fn forget(&self, node: Node) -> Option<Timestamp> {
        match self.rule {
            AccessTimes::Never => None,
            _ => self.part(node).remove(&node.0)?.waiting.filter(|_| !self.is_paused()),
        }
    }
}
