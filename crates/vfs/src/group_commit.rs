//! Group commit: one commit serves all callers that wait for one.

use crate::{Health, Result};
use platter_device::sync::{COMMIT, Condvar, Mutex, MutexGuard};
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, SeqCst},
};

/// The kind of durability that a caller waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// A flush: everything that the device accepted before the call survives a power cut.
    Flush,
    /// A commit: all changes made before the call survive a power cut.
    Commit,
}

/// The leadership of a volume's commits, with `L`, the state that only the leader uses, such as buffers or the end of a
/// log.
///
/// A caller that wants its changes durable waits for the leadership. The leader commits for all callers that had asked
/// when it began. When its commit ends, those callers see that they were served and return without waiting for the next
/// leader, which may already be at work. A leader that fails serves only itself: the next leader tries again, and finds
/// the failure in [`Health`] if it was final.
#[derive(Debug, Default)]
pub struct GroupCommit<L> {
    leader: Mutex<L, COMMIT>,
    /// Whether there is a leader.
    is_led: Mutex<bool>,
    /// Notified when a leader has ended.
    news: Condvar,
    /// `asked` counts the calls of [`GroupCommit::serve`]; all calls up to number `served` are served. The `commits_`
    /// pair counts only the calls that need a commit. The two `served` counters change under the `leader` lock alone.
    asked: AtomicU64,
    served: AtomicU64,
    commits_asked: AtomicU64,
    commits_served: AtomicU64,
}

impl<L> GroupCommit<L> {
    /// A group commit with no call yet.
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

    /// Returns when the caller's need is met, by `work` or by the work of another leader meanwhile. `work` gets the
    /// strongest need of all callers that it serves. Called without any lock.
    ///
    /// # Errors
    /// The errors of `work`; if another caller led, those of [`Health::promise`], since its commit is worthless if a
    /// write or flush failed on which everything depends.
    pub fn serve(
        &self,
        health: &Health,
        need: Need,
        work: impl FnOnce(&mut L, Need) -> Result<()>,
    ) -> Result<()> {
        if need == Need::Commit {
            // Counted before the call itself, so that a leader that counts the call also sees that it needs a commit.
            self.commits_asked.fetch_add(1, SeqCst);
        }
        let call = self.asked.fetch_add(1, SeqCst) + 1;
        match self.become_leader(|| self.served.load(SeqCst) >= call) {
            Some(mut lead) => self.lead(&mut lead.leader, work),
            None => health.promise(),
        }
    }

    /// Waits for the leadership, even if other callers' commits would serve, and keeps it until `work` returns.
    ///
    /// # Errors
    /// The errors of `work`.
    pub fn alone(&self, work: impl FnOnce(&mut L) -> Result<()>) -> Result<()> {
        match self.become_leader(|| false) {
            Some(mut lead) => self.lead(&mut lead.leader, |leader, _| work(leader)),
            None => Ok(()),
        }
    }

    /// Takes the leadership until the returned `Lead` is dropped, without serving any caller. `None` if there is a
    /// leader.
    pub fn try_lead(&self) -> Option<Lead<'_, L>> {
        let is_led = self.is_led.lock();
        (!*is_led).then(|| self.begin(is_led))
    }

    /// The number of calls of [`GroupCommit::serve`] so far.
    pub fn asked(&self) -> u64 {
        self.asked.load(SeqCst)
    }

    /// Waits for the leadership; returns `None` as soon as `is_needless` says that it is no longer needed.
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
        assert!(!*is_led, "a volume has one leader at a time");
        *is_led = true;
        drop(is_led);
        Lead { leader: self.leader.lock(), _ends: Ends(self) }
    }

    fn lead(&self, leader: &mut L, work: impl FnOnce(&mut L, Need) -> Result<()>) -> Result<()> {
        let asked = self.asked.load(SeqCst);
        let commits = self.commits_asked.load(SeqCst);
        let need = if commits == self.commits_served.load(SeqCst) { Need::Flush } else { Need::Commit };
        work(leader, need)?;
        let before = self.served.load(SeqCst);
        assert!(before <= asked, "a leader serves those who came after the ones before it");
        assert!(
            self.commits_served.load(SeqCst) <= commits && commits <= self.commits_asked.load(SeqCst),
            "commits are served in the order in which they were asked for"
        );
        self.served.store(asked, SeqCst);
        self.commits_served.store(commits, SeqCst);
        Ok(())
    }
}

/// The leadership of a [`GroupCommit`], which ends when this is dropped.
pub struct Lead<'l, L> {
    leader: MutexGuard<'l, L, COMMIT>,
    // Dropped last, so that the next leader finds the lock free.
    _ends: Ends<'l, L>,
}

struct Ends<'l, L>(&'l GroupCommit<L>);

impl<L> Drop for Ends<'_, L> {
    fn drop(&mut self) {
        let was_led = std::mem::replace(&mut *self.0.is_led.lock(), false);
        debug_assert!(was_led, "a leadership ends once");
        self.0.news.notify_all();
    }
}

/// Which changes are durable: each change is noted with the number of the earliest commit that can cover it.
///
/// A change is made and noted, in either order, under a lock that the commit takes to read it. So a change noted before
/// a commit [began](Commits::begin) is covered by that commit; one noted later counts as covered by the next, even if
/// the commit already wrote it.
#[derive(Debug)]
pub struct Commits {
    next: AtomicU64,
    durable: AtomicU64,
    /// The commit number of the most recent change of any file.
    latest: AtomicU64,
}

/// The commit number of a file's last change, as long as the file's state is in memory. For a file whose state is newly
/// loaded the number is unknown, and the most recent change of any file counts as its own.
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
    /// Notes a change of `file`.
    pub fn note(&self, file: &Noted) {
        let next = self.next.load(SeqCst);
        assert!(next < UNKNOWN, "commits are counted from 1 on");
        self.latest.fetch_max(next, SeqCst);
        file.0.store(next, SeqCst);
    }

    /// Begins a commit and returns its number. The leader calls this before it reads anything that may have changed.
    pub fn begin(&self) -> u64 {
        self.next.fetch_add(1, SeqCst)
    }

    /// Notes that a commit is durable, with all changes made before it began.
    pub fn end(&self, commit: u64) {
        assert!(commit < self.next.load(SeqCst), "a commit ends that began");
        debug_assert!(commit > 0, "nothing is durable by commit 0");
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
        // A commit that fails covers nothing; the one after it covers its changes too.
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
