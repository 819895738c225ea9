//! How many threads wait for requests of the kernel.
//!
//! The kernel gives a request to the thread that has waited longest. Were all waiting, each would have slept so long that
//! its processor has forgotten it, and a request that takes microseconds would wait longer for its thread than for the
//! device. So no more threads wait than there are processors; the others are parked here. Before the last that waits
//! does something that may take long, one of them takes its place.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

/// The threads that answer the requests of one mount.
pub struct Crew {
    /// Threads that have answered a request and wait for the next.
    waiting: AtomicUsize,
    /// How many may wait.
    most: usize,
    parked: Mutex<Parked>,
    called: Condvar,
}

#[derive(Default)]
struct Parked {
    /// Threads that are parked and were not called.
    idle: usize,
    /// Threads that were called and have not gone yet.
    called: usize,
    /// There will be no more requests.
    is_over: bool,
}

/// What a request may have its thread wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Memory, mostly.
    Little,
    /// One small transfer: as long as those took that this thread had before.
    OneTransfer,
    /// Commits, many transfers, other callers.
    Long,
}

/// A small transfer takes long, on average in nanoseconds, if several are worth a thread each.
const LONG: u64 = 40_000;

/// A thread of a crew, known from its first request on.
struct Member(Arc<Crew>);

impl Drop for Member {
    /// A thread ends when the mount has: those that are parked would not hear of it.
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.called.notify_all();
    }
}

thread_local! {
    static MEMBER: RefCell<Option<Member>> = const { RefCell::new(None) };
    /// How long small transfers of this thread take, in nanoseconds: the mean, of which the last is an eighth.
    static TRANSFER: Cell<u64> = const { Cell::new(0) };
}

impl Crew {
    /// A crew of which so many may wait at once.
    pub fn new(most: usize) -> Arc<Crew> {
        let waiting = AtomicUsize::new(0);
        Arc::new(Crew { waiting, most, parked: Mutex::default(), called: Condvar::new() })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Parked> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The calling thread has a request, until the turn is dropped, which is when it is answered.
    pub fn turn(self: &Arc<Crew>, takes: Takes) -> Turn<'_> {
        let is_known = MEMBER.with_borrow_mut(|member| {
            let is_known = member.is_some();
            member.get_or_insert_with(|| Member(self.clone()));
            is_known
        });
        // One that was not known was not counted as waiting.
        let others = match is_known {
            true => self.waiting.fetch_sub(1, Ordering::SeqCst) - 1,
            false => self.waiting.load(Ordering::SeqCst),
        };
        let takes_long = match takes {
            Takes::Little => false,
            Takes::OneTransfer => TRANSFER.get() > LONG,
            Takes::Long => true,
        };
        if takes_long && others == 0 {
            let mut parked = self.lock();
            if parked.idle > 0 {
                parked.idle -= 1;
                parked.called += 1;
                self.called.notify_one();
            }
        }
        Turn { crew: self, began: (takes == Takes::OneTransfer).then(Instant::now) }
    }

    /// Parks the calling thread while enough others wait, and counts it as waiting.
    fn wait(&self) {
        let others = self.waiting.fetch_add(1, Ordering::SeqCst);
        if others < self.most {
            return;
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        let mut parked = self.lock();
        // Looked at once more: who began a long request meanwhile has found nobody here to call.
        if self.waiting.load(Ordering::SeqCst) >= self.most && !parked.is_over {
            parked.idle += 1;
            while parked.called == 0 && !parked.is_over {
                parked = self.called.wait(parked).unwrap_or_else(PoisonError::into_inner);
            }
            parked.called = parked.called.saturating_sub(1);
        }
        self.waiting.fetch_add(1, Ordering::SeqCst);
    }
}

/// A thread's work on one request.
pub struct Turn<'c> {
    crew: &'c Crew,
    began: Option<Instant>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(began) = self.began {
            let took = began.elapsed().as_nanos().min(u128::from(u32::MAX)) as u64;
            TRANSFER.set((TRANSFER.get() * 7 + took) / 8);
        }
        self.crew.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    /// Threads that ask for requests from a channel, as those of a mount ask the kernel.
    #[test]
    fn few_wait_and_one_more_goes_where_the_last_may_take_long() {
        let crew = Crew::new(2);
        let (give, requests) = channel::<Takes>();
        let requests = Arc::new(Mutex::new(requests));
        let (hold, held) = channel::<()>();
        let held = Arc::new(Mutex::new(held));
        let (tell, answers) = channel::<Takes>();
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let (crew, requests, held, tell) =
                    (crew.clone(), requests.clone(), held.clone(), tell.clone());
                std::thread::spawn(move || {
                    loop {
                        let request = requests.lock().unwrap().recv();
                        let Ok(takes) = request else { return };
                        let _turn = crew.turn(takes);
                        if takes == Takes::Long {
                            held.lock().unwrap().recv().unwrap();
                        }
                        tell.send(takes).unwrap();
                    }
                })
            })
            .collect();
        let patience = Duration::from_secs(30);
        for _ in 0..1000 {
            give.send(Takes::Little).unwrap();
            answers.recv_timeout(patience).unwrap();
        }
        let settled = Instant::now();
        while crew.waiting.load(Ordering::SeqCst) > 2 && settled.elapsed() < patience {
            std::thread::yield_now();
        }
        assert_eq!((crew.waiting.load(Ordering::SeqCst), crew.lock().idle), (2, 6));
        // Seven are held; what comes then is answered by the eighth.
        for _ in 0..7 {
            give.send(Takes::Long).unwrap();
        }
        for _ in 0..100 {
            give.send(Takes::Little).unwrap();
            assert_eq!(answers.recv_timeout(patience).unwrap(), Takes::Little);
        }
        (0..7).for_each(|_| hold.send(()).unwrap());
        (0..7).for_each(|_| assert_eq!(answers.recv_timeout(patience).unwrap(), Takes::Long));
        // Those that are parked end too.
        drop(give);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}
