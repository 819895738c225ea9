//! Range locks of an open file: one caller has a range for itself while other callers' transfers go on elsewhere in the
//! file.
//!
//! A planned read or write *enters* the lock when it is planned and *leaves* it when it is finished. Plans may overlap
//! each other. A caller whose work must not overlap plans *claims* a range. Examples: a write of part of a sector reads
//! the sector and writes it back, and no other write of the sector may come in between; a truncation frees clusters.
//!
//! # Who waits for whom
//! A claim waits only for plans that entered before it, so a stream of new plans cannot delay it for ever. A plan that
//! overlaps a claim is refused. The plan does not wait, because its caller may have another plan in flight for which
//! the claim waits: the caller asks again when it has finished one of its plans, or waits when it has none
//! ([`RangeLock::wait_free`]).
//!
//! # Which lock protects what
//! [`RangeLock::enter`] is called with the file's run list locked, shared or exclusively; [`RangeLock::claim`] locks it
//! exclusively. So a plan either enters before the claim or is checked against it. No lock is held while a claim waits.
//! Plans are counted in two phases: a claim flips the phase, so the plans that it waits for are counted in the old
//! phase and plans that enter after it in the new one. Entering and leaving allocate nothing and, without a claim, take
//! no lock.

use crate::{Error, Result};
use platter_device::sync::{Condvar, FILE, Mutex, RwLock};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering::SeqCst};

/// What a plan does with its range; for a claim, which plans it waits for and keeps out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A plan that reads; a claim that excludes all plans, reads and writes.
    Read,
    /// A plan that writes; a claim that excludes only writes, while reads of its range go on.
    Write,
}

/// Proof that a plan has entered, to be given to [`RangeLock::leave`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Pass(u8);

impl Pass {
    fn new(access: Access, phase: u8) -> Pass {
        debug_assert!(phase <= 1, "plans are counted in two phases");
        Pass(access as u8 * 2 + phase)
    }
}

/// The range lock of one open file; see the module.
#[derive(Debug, Default)]
pub struct RangeLock {
    /// The number of plans inside, by [`Pass`].
    inside: [AtomicUsize; 4],
    /// The phase (0 or 1) in which the next plan is counted, by [`Access`].
    phase: [AtomicU8; 2],
    /// Whether there is a claim.
    is_claimed: AtomicBool,
    claimed: Mutex<Option<(Range<u64>, Access)>>,
    /// Notified when a plan leaves while there is a claim, and when a claim ends.
    news: Condvar,
}

impl RangeLock {
    /// Lets a plan enter. `within` is the caller's own claim if it has one that contains the plan. Called with the run
    /// list locked.
    ///
    /// # Errors
    /// [`Error::Busy`] if the plan overlaps another caller's claim.
    #[inline]
    pub fn enter(&self, range: Range<u64>, access: Access, within: Option<&Claim<'_>>) -> Result<Pass> {
        debug_assert!(range.start <= range.end, "a plan covers a range");
        assert!(
            within.is_none_or(|claim| std::ptr::eq(claim.lock, self)),
            "a claim is of the plan's own file"
        );
        if within.is_none() && self.is_claimed.load(SeqCst) && self.meets_claim(&range, access) {
            return Err(Error::Busy);
        }
        let pass = Pass::new(access, self.phase[access as usize].load(SeqCst));
        self.inside[usize::from(pass.0)].fetch_add(1, SeqCst);
        Ok(pass)
    }

    /// Counts a plan as finished. Called with any lock held or none.
    #[inline]
    pub fn leave(&self, pass: Pass) {
        let before = self.inside[usize::from(pass.0)].fetch_sub(1, SeqCst);
        assert!(before > 0, "a plan leaves a range that it has not entered");
        // A claim sets `is_claimed` before it counts the plans inside, so it either sees this plan gone or is notified
        // here.
        if before == 1 && self.is_claimed.load(SeqCst) {
            let _claimed = self.claimed.lock();
            self.news.notify_all();
        }
    }

    /// Whether no plan is in flight.
    pub fn is_quiet(&self) -> bool {
        self.inside.iter().all(|inside| inside.load(SeqCst) == 0)
    }

    /// Claims a range and waits until the caller has it for itself: all plans that `waits_for` selects and that entered
    /// before are finished. `range` computes the range from the locked run list `state`. Called without any lock, by a
    /// caller that has no plan in flight on the file.
    pub fn claim<S>(
        &self,
        state: &RwLock<S, FILE>,
        range: impl Fn(&S) -> Range<u64>,
        waits_for: Access,
    ) -> Claim<'_> {
        loop {
            let state = state.write();
            let claim = self.try_claim(range(&state), waits_for);
            drop(state);
            match claim {
                Some(claim) => {
                    claim.wait();
                    return claim;
                }
                None => self.wait_free(),
            }
        }
    }

    /// Registers a claim without waiting for older plans ([`Claim::wait`] does). `None` if there is another claim.
    /// Called with the run list locked exclusively.
    fn try_claim(&self, range: Range<u64>, waits_for: Access) -> Option<Claim<'_>> {
        let mut claimed = self.claimed.lock();
        if claimed.is_some() {
            return None;
        }
        *claimed = Some((range, waits_for));
        let was_claimed = self.is_claimed.swap(true, SeqCst);
        assert!(!was_claimed, "a file has one claim at a time");
        let mut older = 0;
        for access in [Access::Read, Access::Write] {
            if access == Access::Write || waits_for == Access::Read {
                let phase = self.phase[access as usize].load(SeqCst);
                let (now, next) = (Pass::new(access, phase), Pass::new(access, phase ^ 1));
                older |= 1 << now.0;
                // If an earlier claim ended without waiting, plans from before it may still be counted in the other
                // phase: then the phase cannot flip, and the claim waits for the plans of both.
                match self.inside[usize::from(next.0)].load(SeqCst) {
                    0 => self.phase[access as usize].store(phase ^ 1, SeqCst),
                    _ => older |= 1 << next.0,
                }
            }
        }
        Some(Claim { lock: self, older })
    }

    /// Waits until there is no claim. Called without any lock, by a caller that has no plan in flight on the file.
    pub fn wait_free(&self) {
        let mut claimed = self.claimed.lock();
        while claimed.is_some() {
            claimed = self.news.wait(claimed);
        }
        debug_assert!(!self.is_claimed.load(SeqCst), "the mark of a claim ends with it");
    }

    #[cold]
    fn meets_claim(&self, range: &Range<u64>, access: Access) -> bool {
        let claimed = self.claimed.lock();
        claimed.as_ref().is_some_and(|(claim, waits_for)| {
            (*waits_for == Access::Read || access == Access::Write)
                && claim.start < range.end
                && range.start < claim.end
        })
    }
}

/// The range that a write past the end of a file claims where the file may end inside a sector: whole sectors, from
/// `planned` (the offset up to which the file is written or planned) if that is before the write, because the gap
/// between is filled with zeroes together with the write.
pub fn range_of_write(planned: u64, offset: u64, length: usize, sector: u32) -> Range<u64> {
    debug_assert!(sector.is_power_of_two(), "the mask of a sector");
    let mask = u64::from(sector) - 1;
    let end = offset.saturating_add(length as u64);
    planned.min(offset) & !mask..end.checked_add(mask).map_or(end, |end| end & !mask)
}

/// A claimed range. Dropping it ends the claim.
#[derive(Debug)]
#[must_use]
pub struct Claim<'l> {
    lock: &'l RangeLock,
    /// A bit for each [`Pass`] in which plans from before the claim are counted.
    older: u8,
}

impl Claim<'_> {
    /// Waits until the plans that entered before the claim are finished.
    fn wait(&self) {
        let mut claimed = self.lock.claimed.lock();
        while (0..4).any(|pass| self.older & 1 << pass != 0 && self.lock.inside[pass].load(SeqCst) != 0) {
            claimed = self.lock.news.wait(claimed);
        }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut claimed = self.lock.claimed.lock();
        debug_assert!(claimed.is_some(), "a claim ends once");
        *claimed = None;
        self.lock.is_claimed.store(false, SeqCst);
        self.lock.news.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    /// Asserts that a claim waits until `leave` was called, and no longer.
    fn waits_until(claim: Claim<'_>, leave: impl FnOnce()) {
        std::thread::scope(|scope| {
            let (done, is_done) = channel();
            scope.spawn(move || {
                claim.wait();
                done.send(()).unwrap();
            });
            let early = is_done.recv_timeout(Duration::from_millis(20));
            assert!(early.is_err(), "an older write is in flight");
            leave();
            is_done.recv_timeout(Duration::from_secs(60)).expect("nothing newer is waited for");
        });
    }

    #[test]
    fn plans_overlap_and_only_a_claim_keeps_them_out() {
        let lock = RangeLock::default();
        let first = lock.enter(0..4096, Access::Write, None).unwrap();
        let second = lock.enter(0..4096, Access::Write, None).unwrap();
        lock.leave(first);
        lock.leave(second);
        assert!(lock.is_quiet());
        let claim = lock.try_claim(512..1024, Access::Write).unwrap();
        claim.wait();
        assert!(matches!(lock.enter(0..513, Access::Write, None), Err(Error::Busy)));
        let read = lock.enter(0..4096, Access::Read, None).expect("the claim lets reads go on");
        let beside = lock.enter(1024..4096, Access::Write, None).expect("only its range is claimed");
        assert!(lock.try_claim(9000..9001, Access::Read).is_none(), "one claim at a time");
        drop(claim);
        lock.leave(read);
        lock.leave(beside);
        let claim = lock.try_claim(0..u64::MAX, Access::Read).unwrap();
        claim.wait();
        assert!(lock.enter(7..8, Access::Read, None).is_err());
        drop(claim);
        assert!(lock.is_quiet());
    }

    #[test]
    fn a_claim_waits_for_older_plans_and_for_no_others() {
        let lock = RangeLock::default();
        for _ in 0..3 {
            let (old_read, old) = (
                lock.enter(0..512, Access::Read, None).unwrap(),
                lock.enter(8192..9000, Access::Write, None).unwrap(),
            );
            let claim = lock.try_claim(0..512, Access::Write).unwrap();
            let newer = lock.enter(8192..9000, Access::Write, None).unwrap();
            waits_until(claim, || lock.leave(old));
            lock.leave(newer);
            lock.leave(old_read);
        }
        assert!(lock.is_quiet());
    }

    #[test]
    fn a_claim_that_did_not_wait_leaves_nothing_for_the_next_to_miss() {
        let lock = RangeLock::default();
        let old = lock.enter(0..512, Access::Write, None).unwrap();
        drop(lock.try_claim(0..512, Access::Write).unwrap());
        let newer = lock.enter(0..512, Access::Write, None).unwrap();
        let claim = lock.try_claim(0..512, Access::Write).unwrap();
        lock.leave(newer);
        waits_until(claim, || lock.leave(old));
    }
}
