//! Access times: when files were last read.
//!
//! The kernel leaves access times to the file system behind FUSE. They wait in memory, where they cost a read next to
//! nothing, and go to the volume with the periodic sync, when the kernel forgets a file, and at unmount. So no read
//! makes anything durable, and a power cut may lose the latest access times. Reads that the kernel answers from its own
//! cache are not seen.
//!
//! On formats that do not recover by themselves after a crash, access times are not kept: a crash could otherwise leave
//! a volume in doubt that was only read. Source: mount(8), `relatime`.

use crate::options::{AccessTimes, Options};
use platter_vfs::{Attributes, FileSystem, Node, Result, Timestamp};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// How long an access time is new enough for `relatime`, in seconds, if the file does not change.
const DAY: i64 = 24 * 60 * 60;
/// The number of parts of [`Accesses`], each with a lock of its own, so that threads that read different files seldom
/// wait for each other.
const PARTS: usize = 16;

/// The access times of a file that the kernel has in its cache.
#[derive(Clone, Copy, Default)]
struct Access {
    /// An access time that the volume does not have yet.
    waiting: Option<Timestamp>,
    /// The time until which further reads do not change the access time.
    settled: Option<Timestamp>,
}

/// Access times that are not on the volume yet.
pub(crate) struct Accesses {
    rule: AccessTimes,
    /// The precision of access times on the volume, in nanoseconds, at most a second. Times are rounded down to it in
    /// memory, so that programs see the same time before and after it is written.
    precision: u32,
    parts: [Mutex<HashMap<u64, Access>>; PARTS],
    /// Whether access times are lost for now, because nothing may be written to the volume.
    is_paused: AtomicBool,
}

impl Accesses {
    pub(crate) fn new(system: &dyn FileSystem, options: &Options) -> Accesses {
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

    /// Sets whether access times are lost, with those that wait in memory, because nothing may be written to the
    /// volume.
    pub(crate) fn pause(&self, is_paused: bool) {
        self.is_paused.store(is_paused, Ordering::Relaxed);
    }

    fn is_paused(&self) -> bool {
        self.is_paused.load(Ordering::Relaxed)
    }

    fn part(&self, node: Node) -> MutexGuard<'_, HashMap<u64, Access>> {
        self.parts[node.0 as usize % PARTS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns `attributes` with the access time that waits in memory for the node, if there is one.
    pub(crate) fn seen(&self, node: Node, attributes: Attributes) -> Attributes {
        if self.rule == AccessTimes::Never {
            return attributes;
        }
        let waiting = self.part(node).get(&node.0).and_then(|access| access.waiting);
        Attributes { accessed: waiting.or(attributes.accessed), ..attributes }
    }

    /// Notes that a node was changed: the next read changes its access time.
    pub(crate) fn changed(&self, node: Node) {
        if self.rule == AccessTimes::Never {
            return;
        }
        if let Some(access) = self.part(node).get_mut(&node.0) {
            access.settled = None;
        }
    }

    /// Drops the access time of a node that waits in memory, since a program has set another.
    pub(crate) fn set(&self, node: Node) {
        if self.rule != AccessTimes::Never {
            self.part(node).remove(&node.0);
        }
    }

    /// Notes a read of the content of a file.
    ///
    /// # Errors
    /// The errors of reading the attributes of the file. The read itself has succeeded.
    pub(crate) fn read(&self, system: &dyn FileSystem, node: Node) -> Result<()> {
        if self.rule == AccessTimes::Never || self.is_paused() {
            return Ok(());
        }
        let mut now = Timestamp::from(SystemTime::now());
        now.nanoseconds -= now.nanoseconds % self.precision;
        // The part stays locked while the attributes are read, so that the next read sees a change after that.
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

    /// Calls `write` with each access time that waits in memory. Returns whether there were any.
    pub(crate) fn write(&self, write: impl Fn(Node, Timestamp)) -> bool {
        let mut wrote = false;
        for part in &self.parts {
            let all = part.lock().unwrap_or_else(PoisonError::into_inner);
            let waiting = all.iter().filter(|(_, access)| access.waiting.is_some());
            let waiting: Vec<Node> = waiting.map(|(node, _)| Node(*node)).collect();
            drop(all);
            for node in waiting {
                // The part stays locked, so that a time that a program sets meanwhile is not overwritten.
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

    /// Removes a node that the kernel has forgotten. Returns the access time that is still to be written, if there is
    /// one.
    pub(crate) fn forget(&self, node: Node) -> Option<Timestamp> {
        match self.rule {
            AccessTimes::Never => None,
            _ => self.part(node).remove(&node.0)?.waiting.filter(|_| !self.is_paused()),
        }
    }
}
