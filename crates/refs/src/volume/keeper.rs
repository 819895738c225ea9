//! The thread in the background: commits before what waits for a commit becomes much.
//!
//! Data that is never overwritten in place leaves its old clusters behind, and they can be used again only after a
//! commit. Without one a volume would use up all its free space first, and storage that is provided as it is written
//! would have to provide all of it.

use super::Volume;
use crate::space::Space;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;

/// Clusters that may wait for a commit: at least, at most, and as a share of what was free at first.
const LEAST: u64 = 16 << 10;
const MOST: u64 = 64 << 10;
const SHARE: u64 = 16;

/// Tells the thread what to do. It is started when there is something for the first time.
pub(super) struct Keeper {
    /// Clusters that may wait for a commit.
    patience: u64,
    volume: Weak<Volume>,
    orders: Arc<Orders>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Orders {
    wanted: Mutex<Wanted>,
    news: Condvar,
}

#[derive(Clone, Copy, Default)]
struct Wanted {
    commit: bool,
    stop: bool,
}

impl Orders {
    fn lock(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give(&self, change: impl FnOnce(&mut Wanted)) {
        change(&mut self.lock());
        self.news.notify_one();
    }

    /// Waits for something to do, which is done with then.
    fn take(&self) -> Wanted {
        let mut wanted = self.lock();
        while !wanted.commit && !wanted.stop {
            wanted = self.news.wait(wanted).unwrap_or_else(PoisonError::into_inner);
        }
        let taken = *wanted;
        wanted.commit = false;
        taken
    }
}

impl Keeper {
    /// For a volume with so many free clusters.
    pub fn new(volume: Weak<Volume>, free: u64) -> Keeper {
        Keeper {
            patience: (free / SHARE).clamp(LEAST, MOST),
            volume,
            orders: Arc::default(),
            thread: Mutex::default(),
        }
    }

    /// Something was parked.
    pub fn parked(&self, space: &Space) {
        if space.parked() >= self.patience && !self.orders.lock().commit {
            self.start();
            self.orders.give(|wanted| wanted.commit = true);
        }
    }

    fn start(&self) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let (orders, volume) = (self.orders.clone(), self.volume.clone());
            let started =
                std::thread::Builder::new().name("refs-keeper".into()).spawn(move || work(&orders, &volume));
            // Without a thread, a commit comes when somebody asks for one or space runs out.
            *thread = started.ok();
        }
    }

    /// Ends the thread and waits for it.
    pub fn stop(&self) {
        self.orders.give(|wanted| wanted.stop = true);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A panic in it has been shown already.
            let _ = thread.join();
        }
    }
}

fn work(orders: &Orders, volume: &Weak<Volume>) {
    loop {
        let wanted = orders.take();
        let Some(volume) = volume.upgrade().filter(|_| !wanted.stop) else { return };
        // A failure freezes the volume, and whoever writes next hears of it.
        let _ = volume.commit_through(u64::MAX);
    }
}
