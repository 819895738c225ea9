//! Errors of the library as Python exceptions.

use platter::Progress;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Returns the exception for an error: `platterfs._errors.make` chooses its class.
pub fn raised(error: &platter::Error) -> PyErr {
    Python::attach(|python| {
        let damage =
            error.damage().map(|one| (one.structure, one.offset, one.expected.clone(), one.found.clone()));
        let arguments =
            (format!("{:?}", error.kind()), error.errno().0, error.to_string(), error.about(), damage);
        let made =
            python.import("platterfs._errors").and_then(|module| module.call_method1("make", arguments));
        made.map_or_else(|failed| failed, PyErr::from_value)
    })
}

/// Calls the library while this thread does not hold the lock of the Python interpreter.
pub fn freely<T: Send>(python: Python<'_>, call: impl FnOnce() -> platter::Result<T> + Send) -> PyResult<T> {
    python.detach(call).map_err(|error| raised(&error))
}

/// Whether a signal handler of Python has raised an exception.
struct Asked(AtomicBool);

impl Progress for Asked {
    fn progress(&self, _what: &'static str, _done: u64, _total: u64) {}

    fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Like [`freely`], for what takes long: the library works in a thread of its own, while this one lets Python handle signals.
/// If a handler raises an exception, as that of Ctrl-C does, the library ends at its next safe point, and the
/// exception is returned.
pub fn interruptibly<T: Send>(
    python: Python<'_>,
    call: impl FnOnce(&dyn Progress) -> platter::Result<T> + Send,
) -> PyResult<T> {
    /// How long a signal may have to wait.
    const PATIENCE: Duration = Duration::from_millis(20);
    let asked = Asked(AtomicBool::new(false));
    let (end, mut ended) = channel::<()>();
    std::thread::scope(|scope| {
        let asked = &asked;
        let worker = scope.spawn(move || {
            // Dropped when the call has ended, also by a panic.
            let _end = end;
            call(asked)
        });
        let raised_meanwhile = loop {
            let waiting = &mut ended;
            let waited = python.detach(move || waiting.recv_timeout(PATIENCE));
            if let Err(RecvTimeoutError::Disconnected) = waited {
                break None;
            }
            if let Err(exception) = python.check_signals() {
                asked.0.store(true, Ordering::Relaxed);
                break Some(exception);
            }
        };
        let done = python.detach(|| worker.join());
        match (raised_meanwhile, done) {
            (Some(exception), _) => Err(exception),
            (None, Ok(done)) => done.map_err(|error| raised(&error)),
            (None, Err(panic)) => std::panic::resume_unwind(panic),
        }
    })
}

/// A value that is dropped while this thread does not hold the lock of the Python interpreter. Dropping a volume waits
/// for the threads that work on it, and these may wait for the interpreter, to call a device that is a Python file
/// object.
pub struct Apart<T: Send>(Option<T>);

impl<T: Send> Apart<T> {
    /// Wraps a value.
    pub fn new(inside: T) -> Apart<T> {
        Apart(Some(inside))
    }
}

impl<T: Send> std::ops::Deref for Apart<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl<T: Send> Drop for Apart<T> {
    fn drop(&mut self) {
        let inside = self.0.take();
        Python::attach(|python| python.detach(|| drop(inside)));
    }
}
