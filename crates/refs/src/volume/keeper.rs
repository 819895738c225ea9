//! The thread in the background. It commits before many old clusters wait for a commit, and has scattered files put
//! together while nobody uses the volume.
//!
//! Data that is never overwritten in place leaves its old clusters behind, and they can be used again only after a
//! commit. Without one a volume would use up all its free space first, and storage that is thinly provisioned would
//! have to provide all of it.

use super::Volume;
use crate::space::Space;
use platter_device::sync::{self, Condvar, Mutex, MutexGuard, Thread};
use std::sync::{Arc, Weak};
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

/// How often the thread looks whether a volume with scattered files is in use.
const LOOK: Duration = Duration::from_millis(20);
/// How many looks in a row must find the volume unused before files are put together.
const QUIET: u64 = 10;

/// Gives orders to the thread, which is started with the first of them.
pub(super) struct Keeper {
    /// How many clusters may wait for a commit.
    patience: u64,
    /// How many clusters may wait for a commit where fewer than those that wait are left to be handed out.
    patience_when_full: u64,
    volume: Weak<Volume>,
    orders: Arc<Orders>,
    thread: Mutex<Option<Thread>>,
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

impl Wanted {
    fn is_any(self) -> bool {
        self.commit || self.stop
    }
}

impl Orders {
    fn lock(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock()
    }

    fn give(&self, change: impl FnOnce(&mut Wanted)) {
        change(&mut self.lock());
        self.news.notify_one();
    }

    /// Waits for an order, no longer than `most`, and returns it. An order to commit is cleared, one to stop remains.
    fn take(&self, most: Option<Duration>) -> Wanted {
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
    /// Returns a keeper for a volume that has `free` free clusters of `cluster` bytes. The more are free, the more
    /// clusters may wait before it commits.
    pub fn new(volume: Weak<Volume>, free: u64, cluster: u32) -> Keeper {
        let cluster = u64::from(cluster);
        let patience = sync::at_least((free / SHARE).clamp(LEAST / cluster, MOST / cluster), SIMULATED);
        let patience_when_full = sync::at_least(FULL / cluster, SIMULATED);
        Keeper { patience, patience_when_full, volume, orders: Arc::default(), thread: Mutex::default() }
    }

    /// Asks for a commit, without waiting for it. The caller holds no lock, since this may start the thread.
    pub fn ask(&self) {
        if !self.orders.lock().commit {
            self.start();
            self.orders.give(|wanted| wanted.commit = true);
        }
    }

    /// Whether so many clusters wait for a commit that one should be made.
    pub fn is_much(&self, space: &Space) -> bool {
        let (parked, left) = (space.parked(), space.free() - space.parked());
        parked >= self.patience || parked >= self.patience_when_full.max(left)
    }

    fn start(&self) {
        let mut thread = self.thread.lock();
        if thread.is_none() {
            let (orders, volume) = (self.orders.clone(), self.volume.clone());
            // Without a thread, a commit comes when somebody asks for one or space runs out.
            *thread = sync::spawn("refs-keeper", move || work(&orders, &volume)).ok();
        }
    }

    /// Ends the thread and waits for it.
    pub fn stop(&self) {
        self.orders.give(|wanted| wanted.stop = true);
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            thread.join();
        }
    }
}

/// Counts the looks in a row that found the volume unused.
struct Rest {
    looks: u64,
    enough: u64,
    syncs: u64,
}

impl Rest {
    fn new(enough: u64) -> Rest {
        Rest { looks: 0, enough, syncs: 0 }
    }

    /// Counts a look at the volume, and returns whether enough in a row found it unused. `is_quiet` is whether no plan
    /// is under way, `syncs` is how often a commit was asked for so far: a caller that syncs after every write has no
    /// plan under way while each commit lasts, but is at work all the same.
    fn look(&mut self, is_quiet: bool, syncs: u64) -> bool {
        self.looks = if is_quiet && syncs == self.syncs { self.looks + 1 } else { 0 };
        self.syncs = syncs;
        self.looks >= self.enough
    }
}

fn work(orders: &Orders, volume: &Weak<Volume>) {
    let (mut is_scattered, mut rest) = (false, Rest::new(sync::at_least(QUIET, QUIET)));
    loop {
        let wanted = orders.take(is_scattered.then_some(LOOK));
        let Some(volume) = volume.upgrade().filter(|_| !wanted.stop) else { return };
        let mut done = Ok(());
        if wanted.commit {
            done = volume.commit();
        }
        let syncs = || volume.group.asked();
        if rest.look(volume.is_quiet(), syncs()) && is_scattered {
            let is_disturbed = || orders.lock().is_any() || !volume.is_quiet() || syncs() != rest.syncs;
            done = done.and(volume.clean(&is_disturbed).map(drop));
            rest.looks = 0;
        }
        is_scattered = !volume.scattered().is_empty();
        if done.is_err_and(|error| !error.is_full()) {
            // The volume accepts no more changes, and the next caller that writes gets the reason as its error.
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_syncs_again_and_again_is_not_at_rest() {
        let mut rest = Rest::new(QUIET);
        assert!((1..1000).all(|syncs| !rest.look(true, syncs)));
        let looks: Vec<bool> = (0..QUIET).map(|_| rest.look(true, 999)).collect();
        assert_eq!(looks.iter().position(|&rests| rests), Some(QUIET as usize - 1));
        assert!(rest.look(true, 999) && !rest.look(false, 999) && !rest.look(true, 999));
    }
}
