//! Watches that all threads make progress.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A thread that completes no operation for this long counts as hanging.
const HANGS: Duration = Duration::from_secs(120);

/// The progress of a thread.
#[derive(Default)]
pub(super) struct Watched {
    done: AtomicU64,
    /// The operation in progress.
    at: Mutex<String>,
}

impl Watched {
    /// Notes that an operation has ended.
    pub(super) fn did_one(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of operations that have ended.
    pub(super) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Notes that the operation `what` begins.
    pub(super) fn begins(&self, what: String) {
        *self.at.lock().unwrap_or_else(|held| held.into_inner()) = what;
    }
}

/// Watches threads until all have ended, and calls `tick` ten times a second. If a thread hangs, prints what each is
/// doing and aborts the process: there is no other way to end a thread that waits for ever.
pub(super) fn until(threads: &[Watched], ended: &AtomicU64, mut tick: impl FnMut()) {
    let mut seen: Vec<(u64, Instant)> = threads.iter().map(|_| (0, Instant::now())).collect();
    let mut all_ended = 0;
    while all_ended < threads.len() as u64 {
        std::thread::sleep(Duration::from_millis(100));
        tick();
        let now_ended = ended.load(Ordering::Relaxed);
        let some_ended = now_ended > all_ended;
        all_ended = now_ended;
        for (thread, (done, since)) in threads.iter().zip(&mut seen) {
            if thread.done() != *done || some_ended {
                (*done, *since) = (thread.done(), Instant::now());
            }
        }
        if all_ended < threads.len() as u64 && seen.iter().any(|(_, since)| since.elapsed() > HANGS) {
            for (number, (thread, (done, since))) in threads.iter().zip(&seen).enumerate() {
                let at = thread.at.lock().unwrap_or_else(|held| held.into_inner());
                eprintln!(
                    "thread {number}: {done} operations, none for {} s: {at}",
                    since.elapsed().as_secs()
                );
            }
            eprintln!("a thread hangs");
            std::process::abort();
        }
    }
}
