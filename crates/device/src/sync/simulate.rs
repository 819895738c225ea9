//! The interface to a simulation that runs many callers on one thread.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

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

    /// Lets others go on until one of them wakes the caller, which is on the list of this address, or until its time is
    /// over: `None` for a caller that waits for ever. May return earlier.
    fn pause(&self, address: usize, most: Option<Duration>);

    /// Makes all callers on the list of this address, or one of them, ready to go on.
    fn wake(&self, address: usize, all: bool);

    /// The threshold at which work starts that starts at `many` in use; from 1 to `few` where volumes are small.
    fn at_least(&self, many: u64, few: u64) -> u64;

    /// Adds a caller that does `work`. The returned function waits until that caller ends.
    fn spawn(&self, work: Box<dyn FnOnce() + Send>) -> Box<dyn FnOnce() + Send>;

    /// The time that has passed in the simulation; `None` if none passes in it.
    fn now(&self) -> Option<Duration> {
        None
    }

    /// Lets others go on for this long.
    fn sleep(&self, _time: Duration) {
        self.point();
    }

    /// Makes something happen at a time of the simulation, if time passes in it.
    fn at(&self, _time: Duration, _what: Arc<dyn Happening>) {}
}

/// Something that happens at a time of a simulation by itself, as a device that has carried out a command.
pub trait Happening: Send + Sync {
    /// Called at that time. It may make callers ready, but must not wait.
    fn happen(&self);
}

/// Whether any thread of this process was ever in a simulation. Until then a lock costs one look at this and no more.
static EVER: AtomicBool = AtomicBool::new(false);

thread_local! {
    static SCHEDULE: RefCell<Option<Rc<dyn Schedule>>> = const { RefCell::new(None) };
}

/// Makes `schedule` decide for everything that the present thread does, until the returned guard is dropped.
pub fn simulate(schedule: Rc<dyn Schedule>) -> Simulated {
    EVER.store(true, Relaxed);
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

/// Ends the simulation of the present thread while its callers still wait: a panic unwinds what they use.
pub(super) fn leave() {
    // Never dropped, so that none of its callers ever goes on.
    std::mem::forget(SCHEDULE.take());
}

#[cfg(feature = "model")]
/// Whether the present thread is in a simulation. Also true while a failed one unwinds.
pub(crate) fn is_simulated() -> bool {
    SCHEDULE.try_with(|schedule| schedule.borrow().is_some()).unwrap_or(false)
}

/// The schedule of the present thread. `None` without a simulation, and while a failed simulation unwinds.
#[inline]
pub(crate) fn schedule() -> Option<Rc<dyn Schedule>> {
    if EVER.load(Relaxed) { present() } else { None }
}

#[cold]
fn present() -> Option<Rc<dyn Schedule>> {
    SCHEDULE
        .try_with(|schedule| schedule.borrow().clone())
        .ok()
        .flatten()
        .filter(|_| !std::thread::panicking())
}

/// The time that has passed in the simulation of the present thread, if there is one in which time passes.
#[inline]
pub(super) fn since() -> Option<Duration> {
    schedule()?.now()
}

/// Makes something happen at a time of the present simulation, which is after `now` by this much. Does nothing without a
/// simulation in which time passes.
pub fn at(time: Duration, what: Arc<dyn Happening>) {
    if let Some(schedule) = schedule() {
        schedule.at(time, what);
    }
}

/// The moment that stands for the beginning of every simulation.
pub(super) fn origin() -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    *ORIGIN.get_or_init(Instant::now)
}
