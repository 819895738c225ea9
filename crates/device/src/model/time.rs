//! Virtual time: tasks that run one at a time, in an order that is given by times and numbers alone.
//!
//! The thread that begins it is the first task. Everything that starts threads and waits through [`crate::sync`] is a
//! task of the same clock: the background threads of volumes, the workers of a load. One runs until it waits; then
//! whoever has been ready for longest goes on; and when nobody is ready, the clock moves to the next time that somebody
//! or something waits for. Of several at the same time the one that was asked for first comes first. Processors take no
//! time, unless a model says so. So the same program has the same times on every machine, however busy it is.

use crate::sync::{Happening, Schedule, Simulated, is_simulated, simulate};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// The stack of a task in bytes, as threads of the standard library have; the system gives what is used of it.
const STACK: usize = 2 << 20;

/// The task of the thread that began virtual time.
const FIRST: usize = 0;

/// Virtual time for the present thread, until this is dropped.
pub struct VirtualTime {
    world: Rc<World>,
    simulated: Option<Simulated>,
}

impl VirtualTime {
    /// Begins at time 0. The thread must not be in virtual time already.
    pub fn begin() -> VirtualTime {
        assert!(!is_simulated(), "a thread has one virtual time");
        let world = Rc::new_cyclic(|me| World {
            me: me.clone(),
            now: Cell::new(0),
            current: Cell::new(FIRST),
            tasks: RefCell::new(vec![Task::default()]),
            ready: RefCell::default(),
            due: RefCell::default(),
            asked: Cell::new(0),
            waiting: RefCell::default(),
            switches: Cell::new(0),
        });
        let simulated = Some(simulate(world.clone()));
        VirtualTime { world, simulated }
    }

    /// The time since the beginning.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.world.now.get())
    }

    /// How often a task went on after another one so far: a measure of the work of the order itself.
    pub fn switches(&self) -> u64 {
        self.world.switches.get()
    }
}

impl Drop for VirtualTime {
    fn drop(&mut self) {
        let is_unwound = std::thread::panicking() || !is_simulated();
        drop(self.simulated.take());
        for task in self.world.tasks.borrow_mut().iter_mut() {
            // What a task that still waits has on its stack may use what is gone already.
            if let Some(coroutine) = task.coroutine.take() {
                if is_unwound {
                    std::mem::forget(coroutine);
                } else {
                    drop(coroutine);
                }
            }
        }
    }
}

/// One task.
#[derive(Default)]
struct Task {
    /// `None` for the first task, for one that runs at present, and for one that has ended.
    coroutine: Option<Coroutine<(), (), ()>>,
    /// With what the task gives way; it is on the task's own stack.
    yielder: Option<std::ptr::NonNull<Yielder<(), ()>>>,
    /// Counts the waits of the task, so that a time which was asked for in an earlier one does not end a later one.
    wait: u64,
    is_ready: bool,
}

/// What comes at a time.
enum Next {
    /// The wait of this number of a task is over.
    GoOn {
        task: usize,
        wait: u64,
    },
    Happening(Arc<dyn Happening>),
}

/// Something that comes at a time: ordered by time in nanoseconds, then by the number with which it was asked for.
struct Due(u64, u64, Next);

impl PartialEq for Due {
    fn eq(&self, other: &Due) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Due) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

/// All tasks, and what comes.
struct World {
    me: Weak<World>,
    /// Nanoseconds since the beginning.
    now: Cell<u64>,
    current: Cell<usize>,
    tasks: RefCell<Vec<Task>>,
    ready: RefCell<VecDeque<usize>>,
    due: RefCell<BinaryHeap<Reverse<Due>>>,
    asked: Cell<u64>,
    /// The addresses at which tasks wait, in the order in which they came.
    waiting: RefCell<Vec<(usize, usize)>>,
    switches: Cell<u64>,
}

impl World {
    fn come(&self, time: u64, next: Next) {
        self.asked.set(self.asked.get() + 1);
        self.due.borrow_mut().push(Reverse(Due(time, self.asked.get(), next)));
    }

    fn make_ready(&self, task: usize) {
        let mut tasks = self.tasks.borrow_mut();
        if !std::mem::replace(&mut tasks[task].is_ready, true) {
            self.ready.borrow_mut().push_back(task);
        }
    }

    /// The nanoseconds of a time, which end in 584 years.
    fn nanoseconds(time: Duration) -> u64 {
        u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Makes the task ready at this time, if it is still in its present wait then.
    fn wake_at(&self, task: usize, time: u64) {
        let wait = self.tasks.borrow()[task].wait;
        self.come(time, Next::GoOn { task, wait });
    }

    /// Moves the clock to whatever comes next, and lets it come.
    fn step(&self) {
        let next = self.due.borrow_mut().pop();
        let Some(Reverse(Due(time, _, next))) = next else {
            panic!("every task of virtual time waits for another one");
        };
        self.now.set(self.now.get().max(time));
        match next {
            Next::GoOn { task, wait } if self.tasks.borrow()[task].wait == wait => self.make_ready(task),
            Next::GoOn { .. } => {}
            Next::Happening(what) => what.happen(),
        }
    }

    /// Lets others go on until the present task is ready, and has its turn.
    fn wait(&self) {
        let me = self.current.get();
        loop {
            let first = self.ready.borrow().front().copied();
            match first {
                None => self.step(),
                Some(task) if task == me => {
                    self.ready.borrow_mut().pop_front();
                    break;
                }
                Some(_) if me != FIRST => {
                    let yielder = self.tasks.borrow()[me].yielder.expect("a task has it while it runs");
                    // SAFETY: the yielder is on the stack of this very task, which runs.
                    unsafe { yielder.as_ref() }.suspend(());
                    break;
                }
                Some(task) => {
                    self.ready.borrow_mut().pop_front();
                    self.go_on(task);
                }
            }
        }
        let task = &mut self.tasks.borrow_mut()[me];
        task.is_ready = false;
        task.wait += 1;
    }

    /// Lets a task go on until it waits or ends. Only the first task calls this, so that no task is on another's stack.
    fn go_on(&self, task: usize) {
        let taken = {
            let task = &mut self.tasks.borrow_mut()[task];
            task.is_ready = false;
            task.coroutine.take()
        };
        let Some(mut coroutine) = taken else { return };
        self.switches.set(self.switches.get() + 1);
        self.current.set(task);
        let result = coroutine.resume(());
        self.current.set(FIRST);
        if let CoroutineResult::Yield(()) = result {
            self.tasks.borrow_mut()[task].coroutine = Some(coroutine);
        }
    }
}

impl Schedule for World {
    fn caller(&self) -> usize {
        self.current.get()
    }

    fn point(&self) {}

    fn enlist(&self, address: usize) {
        self.waiting.borrow_mut().push((address, self.current.get()));
    }

    fn pause(&self, address: usize, most: Option<Duration>) {
        let waiter = (address, self.current.get());
        let is_listed = || self.waiting.borrow().contains(&waiter);
        if let (Some(most), true) = (most, is_listed()) {
            self.wake_at(waiter.1, self.now.get().saturating_add(World::nanoseconds(most)));
        }
        // Whoever was woken already is ready, and only has to wait for its turn.
        self.wait();
        self.waiting.borrow_mut().retain(|other| *other != waiter);
    }

    fn wake(&self, address: usize, all: bool) {
        let mut waiting = self.waiting.borrow_mut();
        let mut from = 0;
        while let Some(at) = waiting[from..].iter().position(|waiter| waiter.0 == address) {
            from += at;
            let (_, task) = waiting.remove(from);
            self.make_ready(task);
            if !all {
                return;
            }
        }
    }

    fn at_least(&self, many: u64, _few: u64) -> u64 {
        many
    }

    fn spawn(&self, work: Box<dyn FnOnce() + Send>) -> Box<dyn FnOnce() + Send> {
        let is_over = Arc::new(AtomicBool::new(false));
        let (world, over) = (self.me.clone(), is_over.clone());
        let number = self.tasks.borrow().len();
        let stack = DefaultStack::new(STACK).expect("the system gives a stack");
        let body = move |yielder: &Yielder<(), ()>, ()| {
            if let Some(world) = world.upgrade() {
                world.tasks.borrow_mut()[number].yielder = Some(yielder.into());
            }
            work();
            over.store(true, Relaxed);
            if let Some(world) = world.upgrade() {
                world.tasks.borrow_mut()[number].yielder = None;
                world.wake(Arc::as_ptr(&over).addr(), true);
            }
        };
        let coroutine = Some(Coroutine::with_stack(stack, body));
        self.tasks.borrow_mut().push(Task { coroutine, ..Task::default() });
        self.make_ready(number);
        Box::new(move || {
            while let Some(schedule) = crate::sync::schedule().filter(|_| !is_over.load(Relaxed)) {
                let address = Arc::as_ptr(&is_over).addr();
                schedule.enlist(address);
                schedule.pause(address, None);
            }
        })
    }

    fn now(&self) -> Option<Duration> {
        Some(Duration::from_nanos(self.now.get()))
    }

    fn sleep(&self, time: Duration) {
        self.wake_at(self.current.get(), self.now.get().saturating_add(World::nanoseconds(time)));
        self.wait();
    }

    fn at(&self, time: Duration, what: Arc<dyn Happening>) {
        self.come(World::nanoseconds(time).max(self.now.get()), Next::Happening(what));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::{self, Condvar, Mutex};

    fn seconds(time: u64) -> Duration {
        Duration::from_secs(time)
    }

    /// An hour of three threads that sleep, wait and wake each other, and the order in which they did.
    fn hour() -> (Vec<(u64, &'static str)>, u64) {
        let time = VirtualTime::begin();
        let began = sync::now();
        let shared = Arc::new((Mutex::<Vec<(u64, &'static str)>>::default(), Condvar::new()));
        let note = move |shared: &(Mutex<Vec<(u64, &'static str)>>, Condvar), what| {
            shared.0.lock().push(((sync::now() - began).as_secs(), what));
            shared.1.notify_all();
        };
        let start = |what: &'static str, every: u64| {
            let shared = shared.clone();
            let work = move || {
                for _ in 0..3600 / every {
                    sync::sleep(seconds(every));
                    note(&shared, what);
                }
            };
            sync::spawn(what, work).unwrap()
        };
        let threads = [start("slow", 1800), start("quick", 600)];
        // Woken by whoever notes something, and by its own time.
        let most = seconds(700);
        let locked = shared.1.wait_while_at_most(shared.0.lock(), most, |notes| notes.is_empty());
        assert_eq!((locked.len(), sync::now() - began), (1, seconds(600)));
        drop(locked);
        let locked = shared.1.wait_while_at_most(shared.0.lock(), seconds(500), |notes| notes.len() < 2);
        assert_eq!((locked.len(), sync::now() - began), (1, seconds(1100)));
        drop(locked);
        threads.into_iter().for_each(sync::Thread::join);
        assert!(sync::is_virtual());
        let notes = shared.0.lock().clone();
        (notes, time.switches())
    }

    #[test]
    fn an_hour_of_threads_takes_no_time_and_is_always_the_same() {
        let (notes, switches) = hour();
        let expected = [
            (600, "quick"),
            (1200, "quick"),
            (1800, "slow"),
            (1800, "quick"),
            (2400, "quick"),
            (3000, "quick"),
            (3600, "slow"),
            (3600, "quick"),
        ];
        assert_eq!(notes, expected);
        assert_eq!((notes, switches), hour());
        assert!(!sync::is_virtual());
    }

    #[test]
    fn threads_of_a_scope_share_what_is_around_it() {
        let _time = VirtualTime::begin();
        let sum = Mutex::<u64>::new(0);
        let began = sync::now();
        sync::scope(|scope| {
            for number in 1..=4 {
                let sum = &sum;
                let work = move || {
                    sync::sleep(seconds(number));
                    *sum.lock() += number;
                };
                scope.spawn("one", work).unwrap();
            }
        });
        assert_eq!((*sum.lock(), sync::now() - began), (10, seconds(4)));
    }

    #[test]
    fn a_panic_of_one_ends_all() {
        let outcome = std::panic::catch_unwind(|| {
            let _time = VirtualTime::begin();
            let lock = Mutex::<u64>::new(0);
            sync::scope(|scope| {
                scope.spawn("waits", || sync::sleep(seconds(9))).unwrap();
                scope.spawn("fails", || assert_eq!(*lock.lock(), 1)).unwrap();
            });
        });
        assert!(outcome.is_err() && !sync::is_virtual());
        hour();
    }

    #[test]
    #[should_panic(expected = "every task of virtual time waits")]
    fn whoever_waits_for_nobody_is_told() {
        let _time = VirtualTime::begin();
        let lock = Mutex::<u64>::new(0);
        drop(Condvar::new().wait(lock.lock()));
    }
}
