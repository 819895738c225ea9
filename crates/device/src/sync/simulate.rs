//! The seam for simulations of many callers.

use std::cell::RefCell;
use std::rc::Rc;

/// Decides which of the callers of a simulation goes on. All of them are on one thread, and one goes on until it says
/// here that others may, or that it has to wait.
pub trait Schedule {
    /// Which of them goes on at present.
    fn caller(&self) -> usize;

    /// Others may go on first.
    fn point(&self);

    /// Puts the caller on the list of those who wait at this address, before it gives away what keeps others from
    /// waking it.
    fn enlist(&self, address: usize);

    /// Others go on until someone wakes the caller, who is on the list of this address; or, unless it waits
    /// `for_ever`, until the schedule says that enough time is over. May return earlier.
    fn pause(&self, address: usize, for_ever: bool);

    /// Lets those who are on the list of this address go on, or one of them, when their turn comes.
    fn wake(&self, address: usize, all: bool);

    /// A number below this, as the seed decides.
    fn below(&self, bound: u64) -> u64;

    /// Adds a caller. What is returned waits until it ends.
    fn spawn(&self, work: Box<dyn FnOnce() + Send>) -> Box<dyn FnOnce() + Send>;
}

thread_local! {
    static SCHEDULE: RefCell<Option<Rc<dyn Schedule>>> = const { RefCell::new(None) };
}

/// Has `schedule` decide for everything that the present thread does from now on, until what is returned is dropped.
pub fn simulate(schedule: Rc<dyn Schedule>) -> Simulated {
    SCHEDULE.set(Some(schedule));
    Simulated(())
}

/// While this is there, a schedule decides.
pub struct Simulated(());

impl Drop for Simulated {
    fn drop(&mut self) {
        SCHEDULE.set(None);
    }
}

/// The schedule of the present thread. None while a failed simulation is taken down.
pub(super) fn schedule() -> Option<Rc<dyn Schedule>> {
    SCHEDULE
        .try_with(|schedule| schedule.borrow().clone())
        .ok()
        .flatten()
        .filter(|_| !std::thread::panicking())
}
