//! The thread in the background, and when it is asked for a commit: before many old clusters or changed pages wait for one.
//!
//! Data that is never overwritten in place leaves its old clusters behind, and they can be used again only after a
//! commit. Without one a volume would use up all its free space first, and storage that is thinly provisioned would
//! have to provide all of it. The changed pages of its tables take memory.

use crate::pages::Pages;
use platter_device::sync::{self, Condvar, Mutex, MutexGuard, Thread};
use std::sync::Arc;
use std::time::Duration;

/// How much space may wait for a commit: one part in `SHARE` of what was free at first, but at least and at most so
/// many bytes.
const LEAST: u64 = 64 << 20;
const MOST: u64 = 256 << 20;
const SHARE: u64 = 16;
/// How many bytes may wait for a commit where less than what waits is left to be handed out.
const FULL: u64 = 16 << 20;
/// The most clusters that may wait for a commit in a simulation.
const SIMULATED: u64 = 6;

/// Gives orders to the thread, which is started with the first of them.
pub(super) struct Keeper {
    /// How many clusters may wait for a commit.
    patience: u64,
    /// How many clusters may wait for a commit where fewer than those that wait are left to be handed out.
    patience_when_full: u64,
    /// What the thread does.
    work: Arc<dyn Fn(&Orders) + Send + Sync>,
    orders: Arc<Orders>,
    thread: Mutex<Option<Thread>>,
}

/// The orders that wait for the thread.
#[derive(Default)]
pub(super) struct Orders {
    wanted: Mutex<Wanted>,
    news: Condvar,
}

/// What is wanted of the thread.
#[derive(Clone, Copy, Default)]
pub(super) struct Wanted {
    pub commit: bool,
    pub stop: bool,
}

impl Wanted {
    pub(super) fn is_any(self) -> bool {
        self.commit || self.stop
    }
}

impl Orders {
    pub(super) fn lock(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock()
    }

    fn give(&self, change: impl FnOnce(&mut Wanted)) {
        change(&mut self.lock());
        self.news.notify_one();
    }

    /// Waits for an order, no longer than `most`, and returns it. An order to commit is cleared, one to stop remains.
    pub(super) fn take(&self, most: Option<Duration>) -> Wanted {
        let mut wanted = self.lock();
        while !wanted.is_any() {
            wanted = match most {
                None => self.news.wait(wanted),
                Some(most) => {
                    wanted = self.news.wait_timeout(wanted, most);
                    break;
                }
            };
        }
        let taken = *wanted;
        wanted.commit = false;
        taken
    }
}

impl Keeper {
    /// Returns a keeper whose thread does this `work`, for a volume that has `free` free clusters of `cluster` bytes. The
    /// more are free, the more clusters may wait before it commits.
    pub(super) fn new(work: Arc<dyn Fn(&Orders) + Send + Sync>, free: u64, cluster: u32) -> Keeper {
        let cluster = u64::from(cluster);
        let patience = sync::at_least((free / SHARE).clamp(LEAST / cluster, MOST / cluster), SIMULATED);
        let patience_when_full = sync::at_least(FULL / cluster, SIMULATED);
        Keeper { patience, patience_when_full, work, orders: Arc::default(), thread: Mutex::default() }
    }

    /// Asks for a commit, without waiting for it. The caller holds no lock, since this may start the thread.
    pub(super) fn ask(&self) {
        if !self.orders.lock().commit {
            self.start();
            self.orders.give(|wanted| wanted.commit = true);
        }
    }

    /// Whether so much waits for a commit that one should be made. What the commit under way takes with it does not wait.
    pub(super) fn is_much(&self, pages: &Pages) -> bool {
        let space = &pages.space;
        let (waiting, left) = (space.waiting(), space.free() - space.parked());
        waiting >= self.patience || waiting >= self.patience_when_full.max(left) || pages.is_much_dirty()
    }

    fn start(&self) {
        let mut thread = self.thread.lock();
        if thread.is_none() {
            let (orders, task) = (self.orders.clone(), self.work.clone());
            // Without a thread, a commit comes when somebody asks for one or space runs out.
            *thread = sync::spawn("refs-keeper", move || task(&orders)).ok();
        }
    }

    /// Ends the thread and waits for it.
    pub(super) fn stop(&self) {
        self.orders.give(|wanted| wanted.stop = true);
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Refs, RefsVolume};
    use platter_device::{MemoryDevice, Sectors};
    use platter_vfs::{Format, FormatOptions, Kind, Names, Node, OpenOptions, Silent};
    use std::sync::Arc;

    /// Pages that changed take memory, however few clusters wait for a commit.
    #[test]
    fn a_commit_is_due_when_many_pages_changed() {
        let device = Arc::new(MemoryDevice::new(512 << 20, Sectors::SMALL));
        Refs::ANY.make(&*device, &FormatOptions::default(), &Silent).unwrap();
        let opened = RefsVolume::open(device, OpenOptions::default()).unwrap();
        for number in 0..20 {
            opened.create(Node::ROOT, &(&*format!("{number}")).into(), Kind::Directory).unwrap();
        }
        let volume = &opened.volume;
        let mut core = volume.core();
        let changed = core.pages.dirty_count();
        assert!(changed >= 20 && core.pages.space.waiting() == 0, "each directory has a page: {changed}");
        assert!(!volume.keeper.is_much(&core.pages), "there is room for {changed} pages");
        core.pages.limit_to(changed + 1);
        assert!(!volume.keeper.is_much(&core.pages));
        core.pages.limit_to(changed);
        assert!(volume.keeper.is_much(&core.pages));
    }
}
