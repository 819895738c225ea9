//! The start of a run: no worker issues an I/O before all of them are ready.

use platter_device::sync::{self, Condvar, Mutex, MutexGuard};
use std::time::Instant;

/// Holds back the workers of a run until all are ready, or until the run is given up because one could not be started.
#[derive(Default)]
pub(crate) struct Gate {
    state: Mutex<GateState>,
    /// Signalled when a worker has become ready.
    arrived: Condvar,
    /// Signalled when the gate opens or is given up.
    decided: Condvar,
}

#[derive(Default)]
struct GateState {
    /// The number of workers that are ready.
    ready: usize,
    decision: Option<Decision>,
}

#[derive(Clone, Copy)]
enum Decision {
    /// The run began at this time.
    Open(Instant),
    GivenUp,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state.lock()
    }

    /// A worker that has been started and is not ready yet.
    pub(super) fn arrival(&self) -> Arrival<'_> {
        Arrival(self)
    }

    /// Waits until so many workers are ready, lets them begin, and returns the time at which they do.
    pub(super) fn open(&self, workers: usize) -> Instant {
        let mut waited = self.arrived.wait_while(self.lock(), |state| state.ready < workers);
        let begin = sync::now();
        waited.decision = Some(Decision::Open(begin));
        drop(waited);
        self.decided.notify_all();
        begin
    }

    /// Sends all workers home, those that wait already and those that come later.
    pub(super) fn give_up(&self) {
        self.lock().decision = Some(Decision::GivenUp);
        self.decided.notify_all();
    }
}

/// A worker on its way to the gate. It counts as ready when this is dropped, so that a worker which panics before it is
/// ready does not keep the others waiting.
pub(crate) struct Arrival<'a>(&'a Gate);

impl Arrival<'_> {
    /// The worker is ready. Waits for the others, and returns when the run began; `None` if it was given up.
    pub(super) fn wait(self) -> Option<Instant> {
        let gate = self.0;
        drop(self);
        let state = gate.decided.wait_while(gate.lock(), |state| state.decision.is_none());
        match state.decision {
            Some(Decision::Open(begin)) => Some(begin),
            _ => None,
        }
    }
}

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        self.0.lock().ready += 1;
        self.0.arrived.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_begin_at_the_same_time_or_none() {
        let through = |decide: fn(&Gate) -> Option<Instant>| {
            let gate = Gate::default();
            std::thread::scope(|scope| {
                let workers = [0; 3].map(|_| scope.spawn(|| gate.arrival().wait()));
                // One that ends before it is ready is not waited for.
                drop(gate.arrival());
                let expected = decide(&gate);
                workers.into_iter().all(|worker| worker.join().unwrap() == expected)
            })
        };
        assert!(through(|gate| Some(gate.open(4))));
        assert!(through(|gate| {
            gate.give_up();
            None
        }));
    }
}
