//! The locks of the file systems and of the devices that wrap others.
//!
//! They differ from those of the standard library in three ways. Each has a place in one order, its *rank*, and debug
//! builds check that no thread takes a lock while it holds one of a later rank. There is no poisoning: after a panic of
//! a thread that held a lock, others can take the lock as before; code that must not go on after a failure keeps that
//! in the protected data. And with the feature `simulate` a `Schedule` decides at each lock which caller goes on, so
//! that a test can run many callers in an order that depends on a seed alone.
//!
//! # The order
//! 1. [`COMMIT`]: the leadership of a volume's commit. It is the only lock held while a commit writes to the device.
//! 2. [`METADATA`]: all metadata of a volume but the run lists and sizes of files.
//! 3. [`FILE`]: the run list and the sizes of one file. Of two files, the one with the lower node number first.
//! 4. [`LEAF`]: everything else. While one is held, only further leaves are taken.

mod order;
mod scope;
#[cfg(feature = "simulate")]
mod simulate;

pub use scope::{Scope, scope};

#[cfg(feature = "simulate")]
pub use simulate::{Happening, Schedule, Simulated, at, simulate};
#[cfg(feature = "model")]
pub(crate) use simulate::{is_simulated, schedule};

use std::ops::{Deref, DerefMut};
use std::sync::{PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// The rank of the leadership of a commit.
pub const COMMIT: u8 = 1;
/// The rank of a volume's metadata.
pub const METADATA: u8 = 2;
/// The rank of one file's run list and sizes. A thread may hold several.
pub const FILE: u8 = 3;
/// The rank of locks under which only further leaves are taken. A thread may hold several.
pub const LEAF: u8 = 4;

// Locks are taken in this order: see ARCHITECTURE.md.
const _: () = assert!(COMMIT < METADATA && METADATA < FILE && FILE < LEAF);

/// `std::sync::Mutex` with a rank: see the module.
#[derive(Debug, Default)]
pub struct Mutex<T: ?Sized, const RANK: u8 = LEAF>(std::sync::Mutex<T>);

/// Exclusive access to the protected data, until this is dropped.
pub struct MutexGuard<'l, T: ?Sized, const RANK: u8 = LEAF> {
    guard: std::sync::MutexGuard<'l, T>,
    #[cfg(feature = "simulate")]
    lock: &'l Mutex<T, RANK>,
    // Dropped last: it wakes the callers of a simulation that wait for the lock, which must be free by then.
    _held: Held<RANK>,
}

impl<T, const RANK: u8> Mutex<T, RANK> {
    /// A lock that nobody holds.
    pub const fn new(value: T) -> Self {
        Mutex(std::sync::Mutex::new(value))
    }
}

impl<T: ?Sized, const RANK: u8> Mutex<T, RANK> {
    /// Waits until nobody else holds the lock, and takes it.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T, RANK> {
        let take = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let guard = acquire::<_, RANK>(address(self), take, || taken(self.0.try_lock()));
        MutexGuard {
            guard,
            #[cfg(feature = "simulate")]
            lock: self,
            _held: Held::new(address(self)),
        }
    }

    /// The protected data. No locking is needed, since the exclusive reference excludes other holders.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized, const RANK: u8> Deref for MutexGuard<'_, T, RANK> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T: ?Sized, const RANK: u8> DerefMut for MutexGuard<'_, T, RANK> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// `std::sync::RwLock` with a rank: see the module.
#[derive(Debug, Default)]
pub struct RwLock<T: ?Sized, const RANK: u8 = LEAF>(std::sync::RwLock<T>);

/// Shared access to the protected data, until this is dropped.
pub struct RwLockReadGuard<'l, T: ?Sized, const RANK: u8 = LEAF> {
    guard: std::sync::RwLockReadGuard<'l, T>,
    _held: Held<RANK>,
}

/// Exclusive access to the protected data, until this is dropped.
pub struct RwLockWriteGuard<'l, T: ?Sized, const RANK: u8 = LEAF> {
    guard: std::sync::RwLockWriteGuard<'l, T>,
    _held: Held<RANK>,
}

impl<T, const RANK: u8> RwLock<T, RANK> {
    /// A lock that nobody holds.
    pub const fn new(value: T) -> Self {
        RwLock(std::sync::RwLock::new(value))
    }
}

impl<T: ?Sized, const RANK: u8> RwLock<T, RANK> {
    /// Waits until nobody holds the lock exclusively, and takes it shared.
    pub fn read(&self) -> RwLockReadGuard<'_, T, RANK> {
        let take = || self.0.read().unwrap_or_else(PoisonError::into_inner);
        let guard = acquire::<_, RANK>(address(self), take, || taken(self.0.try_read()));
        RwLockReadGuard { guard, _held: Held::new(address(self)) }
    }

    /// Waits until nobody else holds the lock, and takes it exclusively.
    pub fn write(&self) -> RwLockWriteGuard<'_, T, RANK> {
        let take = || self.0.write().unwrap_or_else(PoisonError::into_inner);
        let guard = acquire::<_, RANK>(address(self), take, || taken(self.0.try_write()));
        RwLockWriteGuard { guard, _held: Held::new(address(self)) }
    }
}

impl<T: ?Sized, const RANK: u8> Deref for RwLockReadGuard<'_, T, RANK> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T: ?Sized, const RANK: u8> Deref for RwLockWriteGuard<'_, T, RANK> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T: ?Sized, const RANK: u8> DerefMut for RwLockWriteGuard<'_, T, RANK> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// `std::sync::Condvar` for [`Mutex`].
#[derive(Debug, Default)]
pub struct Condvar(std::sync::Condvar);

impl Condvar {
    /// A condition variable that no thread waits for.
    pub const fn new() -> Self {
        Condvar(std::sync::Condvar::new())
    }

    /// Releases the lock, waits for a notification, and takes the lock again. May return without a notification.
    pub fn wait<'l, T, const RANK: u8>(&self, locked: MutexGuard<'l, T, RANK>) -> MutexGuard<'l, T, RANK> {
        self.wait_at_most(locked, None)
    }

    /// Calls [`Condvar::wait`] for as long as the condition holds.
    pub fn wait_while<'l, T, const RANK: u8>(
        &self,
        mut locked: MutexGuard<'l, T, RANK>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'l, T, RANK> {
        while condition(&mut locked) {
            locked = self.wait(locked);
        }
        locked
    }

    /// [`Condvar::wait_while`] for at most this time. In a simulation in which no time passes, it waits once.
    pub fn wait_while_at_most<'l, T, const RANK: u8>(
        &self,
        mut locked: MutexGuard<'l, T, RANK>,
        most: Duration,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'l, T, RANK> {
        let due = now() + most;
        while condition(&mut locked) {
            let left = due.saturating_duration_since(now());
            if left.is_zero() {
                break;
            }
            locked = self.wait_timeout(locked, left);
            #[cfg(feature = "simulate")]
            if simulate::schedule().is_some_and(|schedule| schedule.now().is_none()) {
                break;
            }
        }
        locked
    }

    /// [`Condvar::wait`] for at most this time.
    pub fn wait_timeout<'l, T, const RANK: u8>(
        &self,
        locked: MutexGuard<'l, T, RANK>,
        most: Duration,
    ) -> MutexGuard<'l, T, RANK> {
        self.wait_at_most(locked, Some(most))
    }

    fn wait_at_most<'l, T, const RANK: u8>(
        &self,
        locked: MutexGuard<'l, T, RANK>,
        most: Option<Duration>,
    ) -> MutexGuard<'l, T, RANK> {
        #[cfg(feature = "simulate")]
        if let Some(schedule) = simulate::schedule() {
            let lock = locked.lock;
            schedule.enlist(address(self));
            drop(locked);
            schedule.pause(address(self), most);
            return lock.lock();
        }
        let MutexGuard { guard, .. } = locked;
        let guard = match most {
            None => self.0.wait(guard).unwrap_or_else(PoisonError::into_inner),
            Some(most) => self.0.wait_timeout(guard, most).unwrap_or_else(PoisonError::into_inner).0,
        };
        MutexGuard { guard, ..locked }
    }

    /// Wakes one waiting thread.
    pub fn notify_one(&self) {
        #[cfg(feature = "simulate")]
        if let Some(schedule) = simulate::schedule() {
            return schedule.wake(address(self), false);
        }
        self.0.notify_one();
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        #[cfg(feature = "simulate")]
        if let Some(schedule) = simulate::schedule() {
            return schedule.wake(address(self), true);
        }
        self.0.notify_all();
    }
}

/// A thread that [`spawn`] started.
pub struct Thread(Started);

enum Started {
    Real(std::thread::JoinHandle<()>),
    #[cfg(feature = "simulate")]
    Simulated(Box<dyn FnOnce() + Send>),
}

impl Thread {
    /// Waits until the thread ends. If it panicked, the message has been printed by then, and the panic is not passed
    /// on.
    pub fn join(self) {
        match self.0 {
            Started::Real(thread) => drop(thread.join()),
            #[cfg(feature = "simulate")]
            Started::Simulated(join) => join(),
        }
    }
}

/// Starts a thread. This takes long, so the caller must hold no locks but leaves, which debug builds check.
///
/// # Errors
/// The error of the system if it cannot start another thread.
pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<Thread> {
    order::check_start();
    #[cfg(feature = "simulate")]
    if let Some(schedule) = simulate::schedule() {
        return Ok(Thread(Started::Simulated(schedule.spawn(Box::new(work)))));
    }
    Ok(Thread(Started::Real(std::thread::Builder::new().name(name.into()).spawn(work)?)))
}

/// A point at which a simulation may let another caller go on; called before each operation of a device. Without a
/// simulation it does nothing.
#[inline]
pub fn point() {
    #[cfg(feature = "simulate")]
    if let Some(schedule) = simulate::schedule() {
        schedule.point();
    }
}

/// A threshold for the amount of something: `many`, or what a simulation takes instead, from 1 to `few`. The volumes and
/// files of most simulations are small, so work that starts at a large threshold would never start there.
#[inline]
pub fn at_least(many: u64, _few: u64) -> u64 {
    #[cfg(feature = "simulate")]
    if let Some(schedule) = simulate::schedule() {
        return schedule.at_least(many, _few);
    }
    many
}

/// The present time: that of the simulation, if time passes in it.
#[inline]
pub fn now() -> Instant {
    #[cfg(feature = "simulate")]
    if let Some(since) = simulate::since() {
        return simulate::origin() + since;
    }
    Instant::now()
}

/// The present time, for decisions that depend on how long something took; `None` in a simulation in which no time
/// passes, where the processor's clock would make them differ from run to run.
#[inline]
pub(crate) fn timed() -> Option<Instant> {
    #[cfg(feature = "simulate")]
    if simulate::schedule().is_some() && simulate::since().is_none() {
        return None;
    }
    Some(now())
}

/// Whether the present thread is in a simulation in which time passes: its times are the same on every machine, and the
/// processor takes none.
#[inline]
pub fn is_virtual() -> bool {
    #[cfg(feature = "simulate")]
    if simulate::since().is_some() {
        return true;
    }
    false
}

/// Lets this much time pass: `std::thread::sleep`, or the time of the simulation.
pub fn sleep(time: Duration) {
    #[cfg(feature = "simulate")]
    if let Some(schedule) = simulate::schedule() {
        return schedule.sleep(time);
    }
    std::thread::sleep(time);
}

/// Lets others go on while the caller waits for something that only they can do: `std::thread::yield_now`. In a
/// simulation in which time passes, a microsecond does.
pub fn yield_now() {
    #[cfg(feature = "simulate")]
    if let Some(schedule) = simulate::schedule() {
        return schedule.sleep(Duration::from_micros(1));
    }
    std::thread::yield_now();
}

/// The address of a lock or condition variable, which identifies it.
fn address<T: ?Sized>(lock: &T) -> usize {
    std::ptr::from_ref(lock).cast::<()>().addr()
}

/// Takes a lock: with `take`, which blocks, or in a simulation with as many non-blocking attempts as it needs.
#[inline]
fn acquire<G, const RANK: u8>(
    address: usize,
    take: impl FnOnce() -> G,
    attempt: impl Fn() -> Option<G>,
) -> G {
    order::check(RANK);
    #[cfg(feature = "simulate")]
    if let Some(schedule) = simulate::schedule() {
        schedule.point();
        loop {
            if let Some(guard) = attempt() {
                return guard;
            }
            schedule.enlist(address);
            schedule.pause(address, None);
        }
    }
    let _ = (address, attempt);
    take()
}

fn taken<G>(attempt: Result<G, TryLockError<G>>) -> Option<G> {
    match attempt {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Records that the present thread holds a lock of this rank; does nothing in release builds.
struct Held<const RANK: u8> {
    #[cfg(feature = "simulate")]
    address: usize,
}

impl<const RANK: u8> Held<RANK> {
    #[inline]
    fn new(_address: usize) -> Self {
        order::taken(RANK);
        Held {
            #[cfg(feature = "simulate")]
            address: _address,
        }
    }
}

impl<const RANK: u8> Drop for Held<RANK> {
    #[inline]
    fn drop(&mut self) {
        order::freed(RANK);
        #[cfg(feature = "simulate")]
        if let Some(schedule) = simulate::schedule() {
            schedule.wake(self.address, true);
        }
    }
}
