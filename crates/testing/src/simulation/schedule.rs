//! Implements [`platter_device::sync::Schedule`] with the tasks of the crate `shuttle`.
//!
//! Each caller is a task, and all tasks are on one thread. At each lock and each device call the scheduler of `shuttle`
//! chooses the next task by the seed. It has a list of the waiting tasks, so a schedule in which none can go on fails
//! as a deadlock and does not hang.

use crate::model::Random;
use platter_device::sync::Schedule;
use shuttle::thread;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A task that waits at an address.
struct Waiter {
    caller: usize,
    address: usize,
    thread: thread::Thread,
}

/// The tasks of one execution.
pub struct Tasks {
    waiting: RefCell<Vec<Waiter>>,
    /// Set when a caller gives way without having to wait; read by the scheduler.
    is_point: Arc<AtomicBool>,
    random: RefCell<Random>,
}

impl Tasks {
    /// Makes the tasks of one execution, with a seed for the length of waits with a time limit. At each point
    /// `is_point` is set before the scheduler is asked.
    pub fn new(seed: u64, is_point: Arc<AtomicBool>) -> Tasks {
        Tasks { waiting: RefCell::default(), is_point, random: RefCell::new(Random::new(seed)) }
    }

    fn is_listed(&self, caller: usize, address: usize) -> bool {
        self.waiting.borrow().iter().any(|waiter| (waiter.caller, waiter.address) == (caller, address))
    }

    fn delist(&self, caller: usize, address: usize) {
        self.waiting.borrow_mut().retain(|waiter| (waiter.caller, waiter.address) != (caller, address));
    }
}

impl Schedule for Tasks {
    fn caller(&self) -> usize {
        thread::current().id().into()
    }

    fn point(&self) {
        self.is_point.store(true, Ordering::Relaxed);
        thread::yield_now();
    }

    fn enlist(&self, address: usize) {
        let thread = thread::current();
        self.waiting.borrow_mut().push(Waiter { caller: thread.id().into(), address, thread });
    }

    fn pause(&self, address: usize, most: Option<Duration>) {
        let caller = self.caller();
        let for_ever = most.is_none();
        let mut patience = if for_ever { u64::MAX } else { 1 + self.random.borrow_mut().below(6) };
        while self.is_listed(caller, address) && patience > 0 {
            patience -= 1;
            if for_ever { thread::park() } else { thread::yield_now() }
        }
        self.delist(caller, address);
    }

    fn wake(&self, address: usize, all: bool) {
        let mut woken = Vec::new();
        {
            let mut waiting = self.waiting.borrow_mut();
            while let Some(at) = waiting.iter().position(|waiter| waiter.address == address) {
                woken.push(waiting.remove(at).thread);
                if !all {
                    break;
                }
            }
        }
        // Done after the list is released, because other tasks may go on here.
        woken.iter().for_each(thread::Thread::unpark);
    }

    fn at_least(&self, _many: u64, few: u64) -> u64 {
        1 + self.random.borrow_mut().below(few)
    }

    fn spawn(&self, work: Box<dyn FnOnce() + Send>) -> Box<dyn FnOnce() + Send> {
        let thread = thread::spawn(work);
        Box::new(move || drop(thread.join()))
    }
}
