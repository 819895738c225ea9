//! Checks in debug builds that locks are taken in the order of their ranks. Release builds do not check.

#[cfg(debug_assertions)]
mod checked {
    use super::super::{FILE, LEAF};
    use std::cell::RefCell;

    thread_local! {
        /// The ranks of the locks held by this thread, each with the number of the simulated caller that holds it,
        /// since all callers of a simulation are on one thread. Without a simulation the number is 0.
        static HELD: RefCell<Vec<(usize, u8)>> = const { RefCell::new(Vec::new()) };
    }

    fn caller() -> usize {
        #[cfg(feature = "simulate")]
        if let Some(schedule) = super::super::simulate::schedule() {
            return schedule.caller();
        }
        0
    }

    pub(crate) fn check(rank: u8) {
        let caller = caller();
        let highest =
            HELD.with_borrow(|held| held.iter().filter(|held| held.0 == caller).map(|held| held.1).max());
        let fits = highest.is_none_or(|held| held < rank || (held == rank && (rank == FILE || rank == LEAF)));
        assert!(fits, "a lock of rank {rank} is taken while one of rank {highest:?} is held");
    }

    pub(crate) fn check_start() {
        let caller = caller();
        let is_held = |rank: u8| HELD.with_borrow(|held| held.contains(&(caller, rank)));
        let held = (0..LEAF).find(|rank| is_held(*rank));
        assert!(held.is_none(), "a thread is started while a lock of rank {held:?} is held");
    }

    pub(crate) fn taken(rank: u8) {
        let caller = caller();
        HELD.with_borrow_mut(|held| held.push((caller, rank)));
    }

    pub(crate) fn freed(rank: u8) {
        let caller = caller();
        HELD.with_borrow_mut(|held| {
            if let Some(at) = held.iter().rposition(|held| *held == (caller, rank)) {
                held.swap_remove(at);
            }
        });
    }
}

#[cfg(debug_assertions)]
pub(super) use checked::{check, check_start, freed, taken};

#[cfg(not(debug_assertions))]
mod unchecked {
    #[inline(always)]
    pub(crate) fn check(_rank: u8) {}
    #[inline(always)]
    pub(crate) fn check_start() {}
    #[inline(always)]
    pub(crate) fn taken(_rank: u8) {}
    #[inline(always)]
    pub(crate) fn freed(_rank: u8) {}
}

#[cfg(not(debug_assertions))]
pub(super) use unchecked::{check, check_start, freed, taken};
