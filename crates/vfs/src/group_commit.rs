//! One commit for all callers that wait for one.

use crate::{Health, Result};
use platter_device::sync::{COMMIT, Condvar, Mutex, MutexGuard};
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, SeqCst},
};

/// What a caller waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// That what the device took before the call survives a power cut.
    Flush,
    /// That all changes made before the call do.
    Commit,
}

/// The leadership of a volume's commits, with `L`, what only a leader uses: memory, the end of a log.
///
/// Callers that want something durable wait for the leadership. The first commits for all who had come by then; the
/// others find, when it has ended, that this was done, and do not wait for the next leader, who may be at work already.
/// A leader that fails serves nobody but itself: the next one tries for itself, and meets the failure in [`Health`] if it
/// was final.
#[derive(Debug, Default)]
pub struct GroupCommit<L> {
    leader: Mutex<L, COMMIT>,
    /// Whether somebody leads.
    is_led: Mutex<bool>,
    /// Told when nobody leads any more.
    news: Condvar,
    /// Calls so far, and up to which of them all are served; of those that need a commit likewise. The served ones change
    /// under `leader` alone.
    asked: AtomicU64,
    served: AtomicU64,
    commits_asked: AtomicU64,
    commits_served: AtomicU64,
}

impl<L> GroupCommit<L> {
    /// With nothing to commit yet.
    pub fn new(leader: L) -> GroupCommit<L> {
        GroupCommit {
            leader: Mutex::new(leader),
            is_led: Mutex::new(false),
            news: Condvar::new(),
            asked: AtomicU64::new(0),
            served: AtomicU64::new(0),
            commits_asked: AtomicU64::new(0),
            commits_served: AtomicU64::new(0),
        }
    }

    /// Returns when what the caller needs is done: by `work`, or by that of another who led meanwhile. `work` is told the
    /// most that anybody needs whom it serves. Called without any lock.
    ///
    /// # Errors
    /// Those of `work`, and those of [`Health::promise`] if another led: what it did is worth nothing if something
    /// failed that all else depends on.
    pub fn serve(
        &self,
        health: &Health,
        need: Need,
        work: impl FnOnce(&mut L, Need) -> Result<()>,
    ) -> Result<()> {
        if need == Need::Commit {
            // Before the call itself is counted: whoever serves it sees what it needs.
            self.commits_asked.fetch_add(1, SeqCst);
        }
        let call = self.asked.fetch_add(1, SeqCst) + 1;
        match self.become_leader(|| self.served.load(SeqCst) >= call) {
            Some(mut lead) => self.lead(&mut lead.leader, work),
            None => health.promise(),
        }
    }

    /// Leads once nobody else does, whatever others need, and keeps the leadership to the end of `work`.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn alone(&self, work: impl FnOnce(&mut L) -> Result<()>) -> Result<()> {
        match self.become_leader(|| false) {
            Some(mut lead) => self.lead(&mut lead.leader, |leader, _| work(leader)),
            None => Ok(()),
        }
    }

    /// Keeps others from leading until what this returns is dropped, which serves nobody. None if somebody leads.
    pub fn try_lead(&self) -> Option<Lead<'_, L>> {
        let is_led = self.is_led.lock();
        (!*is_led).then(|| self.begin(is_led))
    }

    /// How often a caller asked for a commit or a flush so far.
    pub fn asked(&self) -> u64 {
        self.asked.load(SeqCst)
    }

    /// Waits until nobody leads, or until this is needless.
    fn become_leader(&self, is_needless: impl Fn() -> bool) -> Option<Lead<'_, L>> {
        let mut is_led = self.is_led.lock();
        while !is_needless() {
            if !*is_led {
                return Some(self.begin(is_led));
            }
            is_led = self.news.wait(is_led);
        }
        None
    }

    fn begin(&self, mut is_led: MutexGuard<'_, bool>) -> Lead<'_, L> {
        *is_led = true;
        drop(is_led);
        Lead { leader: self.leader.lock(), _ends: Ends(self) }
    }

    fn lead(&self, leader: &mut L, work: impl FnOnce(&mut L, Need) -> Result<()>) -> Result<()> {
        let asked = self.asked.load(SeqCst);
        let commits = self.commits_asked.load(SeqCst);
        let need = if commits == self.commits_served.load(SeqCst) { Need::Flush } else { Need::Commit };
        work(leader, need)?;
        self.served.store(asked, SeqCst);
        self.commits_served.store(commits, SeqCst);
        Ok(())
    }
}

/// The leadership, until this is dropped.
pub struct Lead<'l, L> {
    leader: MutexGuard<'l, L, COMMIT>,
    // Dropped last: the next leader finds the lock free.
    _ends: Ends<'l, L>,
}

struct Ends<'l, L>(&'l GroupCommit<L>);

impl<L> Drop for Ends<'_, L> {
    fn drop(&mut self) {
        *self.0.is_led.lock() = false;
        self.0.news.notify_all();
    }
}

/// Which changes are durable: each is noted with the number of the commit that will cover it, at the earliest.
///
/// A change is made and noted, in this order or the other, under a lock that the commit needs to see it. So one that was
/// noted before a commit [began](Commits::begin) is covered by it; one that was noted later is left to the next, also if
/// it was seen.
#[derive(Debug)]
pub struct Commits {
    next: AtomicU64,
    durable: AtomicU64,
    /// What the last change of all was noted with.
    latest: AtomicU64,
}

/// What a file's last change was noted with, as long as the file is known. Of one that is not known yet, or no more, it
/// is as if it had changed with the last that did.
#[derive(Debug)]
pub struct Noted(AtomicU64);

const UNKNOWN: u64 = u64::MAX;

impl Default for Noted {
    fn default() -> Noted {
        Noted(AtomicU64::new(UNKNOWN))
    }
}

impl Default for Commits {
    fn default() -> Commits {
        Commits { next: AtomicU64::new(1), durable: AtomicU64::new(0), latest: AtomicU64::new(0) }
    }
}

impl Commits {
    /// Notes a change.
    pub fn note(&self, file: &Noted) {
        let next = self.next.load(SeqCst);
        self.latest.fetch_max(next, SeqCst);
        file.0.store(next, SeqCst);
    }

    /// Begins a commit, before it looks at anything that may have changed. The caller leads.
    pub fn begin(&self) -> u64 {
        self.next.fetch_add(1, SeqCst)
    }

    /// A commit is durable, with all that had changed before it began.
    pub fn end(&self, commit: u64) {
        self.durable.fetch_max(commit, SeqCst);
    }

    /// Whether a file's last change is durable.
    #[inline]
    pub fn cover(&self, file: &Noted) -> bool {
        let commit = match file.0.load(Acquire) {
            UNKNOWN => self.latest.load(SeqCst),
            commit => commit,
        };
        commit <= self.durable.load(Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use std::sync::mpsc::channel;

    #[test]
    fn one_commit_serves_all_who_waited_for_it() {
        let (group, health) = (GroupCommit::new(Vec::new()), Health::default());
        let (entered, has_entered) = channel();
        let (proceed, may_proceed) = channel();
        std::thread::scope(|scope| {
            let (group, health) = (&group, &health);
            scope.spawn(move || {
                let work = |led: &mut Vec<Need>, need| {
                    entered.send(()).unwrap();
                    may_proceed.recv().unwrap();
                    led.push(need);
                    Ok(())
                };
                group.serve(health, Need::Flush, work).unwrap();
            });
            has_entered.recv().unwrap();
            for number in 0..32 {
                let need = if number == 7 { Need::Commit } else { Need::Flush };
                scope.spawn(move || {
                    let work = |led: &mut Vec<Need>, need| {
                        led.push(need);
                        Ok(())
                    };
                    group.serve(health, need, work).unwrap();
                });
            }
            while group.asked() < 33 {
                std::thread::yield_now();
            }
            proceed.send(()).unwrap();
        });
        group
            .alone(|led| {
                assert_eq!(*led, [Need::Flush, Need::Commit], "32 callers shared one");
                Ok(())
            })
            .unwrap();
    }

    #[test]
    fn what_changes_while_a_commit_is_made_is_left_to_the_next() {
        let (commits, [before, meanwhile, other]) = (Commits::default(), Default::default());
        assert!(commits.cover(&before));
        commits.note(&before);
        assert!(!commits.cover(&other), "it may have changed, been forgotten and looked up again");
        let commit = commits.begin();
        commits.note(&meanwhile);
        assert!(!commits.cover(&before));
        commits.end(commit);
        assert!(commits.cover(&before) && !commits.cover(&meanwhile) && !commits.cover(&other));
        // One that failed, and the one after it.
        commits.begin();
        assert!(!commits.cover(&meanwhile));
        commits.end(commits.begin());
        assert!(commits.cover(&meanwhile) && commits.cover(&other));
    }

    #[test]
    fn who_only_keeps_others_from_leading_serves_nobody() {
        let (group, health) = (GroupCommit::new(0), Health::default());
        std::thread::scope(|scope| {
            let (group, health) = (&group, &health);
            let lead = group.try_lead().unwrap();
            assert!(group.try_lead().is_none());
            let add = |sum: &mut i32, _| {
                *sum += 1;
                Ok(())
            };
            scope.spawn(move || group.serve(health, Need::Flush, add).unwrap());
            while group.asked() < 1 {
                std::thread::yield_now();
            }
            drop(lead);
        });
        assert_eq!(*group.try_lead().unwrap().leader, 1);
    }

    #[test]
    fn a_leader_that_fails_serves_nobody_else() {
        let (group, health) = (GroupCommit::new(0), Health::default());
        let failed = group.serve(&health, Need::Commit, |_, _| Err(Error::NoSpace));
        assert!(matches!(failed, Err(Error::NoSpace)));
        let need_then = |_: &mut i32, need| {
            assert_eq!(need, Need::Commit, "what failed is still to be done");
            Ok(())
        };
        group.serve(&health, Need::Flush, need_then).unwrap();
    }
}
