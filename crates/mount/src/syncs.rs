//! Syncs that programs wait for. One commit serves all who wait for one, but only those whose requests were taken from
//! the kernel: so syncs must not be bound to the threads that answer requests, of which there are few.

use platter_device::sync::{self, Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// The most threads of its own that carry out syncs. Those that come while all are busy wait for a free one.
const MOST: usize = 64;

/// How long a thread of its own waits for another sync before it ends.
const IDLE: Duration = Duration::from_secs(10);

/// A sync with its reply.
type Asked = Box<dyn FnOnce() + Send>;

/// Carries out syncs: a few on the threads that answer requests, which saves waking another one, and all further ones on
/// threads of its own. So threads that answer requests are left, and the next commit serves all who wait.
pub(crate) struct Syncs {
    /// The most syncs at a time on threads that answer requests.
    most_here: usize,
    lines: Mutex<Lines>,
    /// Notified when a sync waits, when the mount ends, and when a thread has ended.
    news: Condvar,
}

#[derive(Default)]
struct Lines {
    /// The syncs on threads that answer requests.
    here: usize,
    /// Syncs that wait for a thread of its own.
    waiting: VecDeque<Asked>,
    /// The threads of its own, and those of them that wait for a sync.
    threads: usize,
    idle: usize,
    /// Whether no more syncs will come.
    is_over: bool,
}

impl Syncs {
    /// Returns a value that carries out so many syncs at a time on the threads that ask for them.
    pub(crate) fn new(most_here: usize) -> Arc<Syncs> {
        Arc::new(Syncs { most_here, lines: Mutex::default(), news: Condvar::new() })
    }

    /// Carries out a sync, now or soon on another thread.
    pub(crate) fn carry_out(self: &Arc<Self>, sync: impl FnOnce() + Send + 'static) {
        let mut lines = self.lines.lock();
        if lines.here < self.most_here {
            lines.here += 1;
            drop(lines);
            let _ends = Ends(|| self.lines.lock().here -= 1);
            return sync();
        }
        lines.waiting.push_back(Box::new(sync));
        if lines.idle >= lines.waiting.len() || lines.threads == MOST {
            drop(lines);
            return self.news.notify_all();
        }
        lines.threads += 1;
        drop(lines);
        let own = Arc::clone(self);
        if sync::spawn("sync", move || own.serve()).is_err() {
            let mut lines = self.lines.lock();
            lines.threads -= 1;
            let oldest = lines.waiting.pop_front();
            drop(lines);
            // Another thread may have taken all of them meanwhile.
            if let Some(sync) = oldest {
                sync();
            }
        }
    }

    /// Carries out syncs on a thread of its own, until none has come for a while.
    fn serve(&self) {
        let _ends = Ends(|| {
            self.lines.lock().threads -= 1;
            self.news.notify_all();
        });
        loop {
            let mut lines = self.lines.lock();
            if lines.waiting.is_empty() && !lines.is_over {
                lines.idle += 1;
                lines = self
                    .news
                    .wait_while_at_most(lines, IDLE, |lines| lines.waiting.is_empty() && !lines.is_over);
                lines.idle -= 1;
            }
            let Some(sync) = lines.waiting.pop_front() else { return };
            drop(lines);
            sync();
        }
    }

    /// Returns when all syncs are carried out and the threads of its own have ended. Nothing may be asked for any more.
    pub(crate) fn end(&self) {
        let mut lines = self.lines.lock();
        lines.is_over = true;
        self.news.notify_all();
        drop(self.news.wait_while(lines, |lines| lines.threads > 0));
    }
}

/// Calls a function when it is dropped, also by a panic.
struct Ends<F: FnMut()>(F);

impl<F: FnMut()> Drop for Ends<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::sync::mpsc::{Receiver, channel};

    /// Starts a sync that ends when the returned sender is dropped, on a thread that answers requests.
    fn blocked(syncs: &Arc<Syncs>, begun: std::sync::mpsc::Sender<()>) -> std::sync::mpsc::Sender<()> {
        let (end, ended): (_, Receiver<()>) = channel();
        let syncs = Arc::clone(syncs);
        std::thread::spawn(move || {
            syncs.carry_out(move || {
                let _ = begun.send(());
                let _ = ended.recv();
            });
        });
        end
    }

    #[test]
    fn syncs_block_only_some_of_the_threads_that_ask_and_all_come_to_wait_together() {
        let syncs = Syncs::new(2);
        let (begun, begins) = channel();
        let mut held: Vec<_> = (0..2).map(|_| blocked(&syncs, begun.clone())).collect();
        (0..2).for_each(|_| begins.recv().unwrap());
        // The others return at once, though none of the syncs ends, and all of them begin.
        for _ in 0..MOST {
            let (end, ended): (_, Receiver<()>) = channel();
            let begun = begun.clone();
            syncs.carry_out(move || {
                let _ = begun.send(());
                let _ = ended.recv();
            });
            held.push(end);
        }
        (0..MOST).for_each(|_| begins.recv().unwrap());
        assert_eq!(syncs.lines.lock().threads, MOST);
        // More than that wait for one of them, and are carried out all the same.
        let late = Arc::new(AtomicUsize::new(0));
        for _ in 0..10 {
            let late = Arc::clone(&late);
            syncs.carry_out(move || {
                late.fetch_add(1, SeqCst);
            });
        }
        assert_eq!((late.load(SeqCst), syncs.lines.lock().waiting.len()), (0, 10));
        drop(held);
        syncs.end();
        assert_eq!((late.load(SeqCst), syncs.lines.lock().threads), (10, 0));
    }

    #[test]
    fn a_thread_that_waits_for_a_sync_takes_the_next_one() {
        let syncs = Syncs::new(0);
        let (done, ends) = channel();
        for _ in 0..100 {
            let done = done.clone();
            syncs.carry_out(move || done.send(()).unwrap());
            ends.recv().unwrap();
            // Until it waits again.
            while syncs.lines.lock().idle == 0 {
                std::thread::yield_now();
            }
        }
        assert_eq!(syncs.lines.lock().threads, 1);
        syncs.end();
    }
}
