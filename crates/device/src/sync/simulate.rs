//! The interface to a simulation that runs many callers on one thread.

use std::cell::RefCell;
use std::rc::Rc;

/// Decides which of the callers of a simulation goes on. All of them are on one thread, and one runs until it calls a
/// method of this trait that lets others go on or makes it wait.
pub trait Schedule {
    /// The number of the caller that runs at present.
    fn caller(&self) -> usize;

    /// Lets other callers go on first, if the schedule decides so.
    fn point(&self);

    /// Puts the caller on the list of callers that wait at this address. Called before the caller releases the lock
    /// that keeps others from waking it.
    fn enlist(&self, address: usize);

    /// Lets others go on until one of them wakes the caller, which is on the list of this address; or, unless the
    /// caller waits `for_ever`, until the schedule decides that its time is over. May return earlier.
    fn pause(&self, address: usize, for_ever: bool);

    /// Makes all callers on the list of this address, or one of them, ready to go on.
    fn wake(&self, address: usize, all: bool);

    /// A number below `bound`, which the seed decides.
    fn below(&self, bound: u64) -> u64;

    /// Adds a caller that does `work`. The returned function waits until that caller ends.
    fn spawn(&self, work: Box<dyn FnOnce() + Send>) -> Box<dyn FnOnce() + Send>;
}

thread_local! {
    static SCHEDULE: RefCell<Option<Rc<dyn Schedule>>> = const { RefCell::new(None) };
}

/// Makes `schedule` decide for everything that the present thread does, until the returned guard is dropped.
pub fn simulate(schedule: Rc<dyn Schedule>) -> Simulated {
    SCHEDULE.set(Some(schedule));
    Simulated(())
}

/// Guard of [`simulate`]: the schedule decides until it is dropped.
pub struct Simulated(());

impl Drop for Simulated {
    fn drop(&mut self) {
        SCHEDULE.set(None);
    }
}

/// The schedule of the present thread. `None` without a simulation, and while a failed simulation unwinds.
pub(super) fn schedule() -> Option<Rc<dyn Schedule>> {
    SCHEDULE
        .try_with(|schedule| schedule.borrow().clone())
        .ok()
        .flatten()
        .filter(|_| !std::thread::panicking())
}
