//! Errors of the library as Python exceptions.

use platter::{Keys, Progress};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
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

thread_local! {
    /// The exception by which this thread is to end what it does, if a file object has raised one.
    static ENDING: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Keeps an exception that a file object raised, if it is none of its own but one that ends the program or the call: Python
/// handles Ctrl-C in whatever it carries out at that moment, with a `KeyboardInterrupt`, which is no `Exception`.
pub fn keep_ending(python: Python<'_>, exception: &PyErr) {
    if !exception.is_instance_of::<PyException>(python) {
        ENDING.set(Some(exception.clone_ref(python)));
    }
}

/// Calls the library while this thread does not hold the lock of the Python interpreter.
pub fn freely<T: Send>(python: Python<'_>, call: impl FnOnce() -> platter::Result<T> + Send) -> PyResult<T> {
    ENDING.take();
    let done = python.detach(call);
    // Also where the library went on, with another copy of what it could not read.
    match ENDING.take() {
        Some(exception) => Err(exception),
        None => done.map_err(|error| raised(&error)),
    }
}

/// What a long call has told last, and whether it is to end.
#[derive(Default)]
pub struct Working {
    is_asked: Arc<AtomicBool>,
    last: Mutex<Option<Standing>>,
}

/// The step, the units of it that are done, and all of them.
type Standing = (&'static str, u64, u64);

impl Working {
    /// The same keys, of which the search for the right one ends when the call is to end.
    pub fn with(&self, keys: Keys) -> Keys {
        let is_asked = self.is_asked.clone();
        keys.stopped_by(move || is_asked.load(Ordering::Relaxed))
    }

    /// Takes what was told last; `None` if nothing was since the last call.
    fn news(&self) -> Option<Standing> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Tells a program's function what is new.
    fn tell(&self, listener: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        match (listener, self.news()) {
            (Some(listener), Some((step, done, total))) => listener.call1((done, total, step)).map(drop),
            _ => Ok(()),
        }
    }
}

impl Progress for Working {
    fn progress(&self, what: &'static str, done: u64, total: u64) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((what, done, total));
    }

    fn is_stopped(&self) -> bool {
        self.is_asked.load(Ordering::Relaxed)
    }
}

/// Like [`freely`], for what takes long: the library works in a thread of its own, while this one lets Python handle signals
/// and calls `listener`, the program's function, with what is new. If either raises an exception, as the handler of Ctrl-C
/// does, the library ends at its next safe point, and the exception is returned.
pub fn interruptibly<T: Send>(
    listener: &Listening<'_>,
    call: impl FnOnce(&Working) -> platter::Result<T> + Send,
) -> PyResult<T> {
    /// How long a signal may have to wait, and between two calls of the listener.
    const PATIENCE: Duration = Duration::from_millis(20);
    let Listening { python, listener } = *listener;
    let working = Working::default();
    let (end, mut ended) = channel::<()>();
    std::thread::scope(|scope| {
        let working = &working;
        let worker = scope.spawn(move || {
            // Dropped when the call has ended, also by a panic.
            let _end = end;
            call(working)
        });
        let raised_meanwhile = loop {
            let waiting = &mut ended;
            let waited = python.detach(move || waiting.recv_timeout(PATIENCE));
            if let Err(RecvTimeoutError::Disconnected) = waited {
                break None;
            }
            if let Err(exception) = python.check_signals().and_then(|()| working.tell(listener)) {
                working.is_asked.store(true, Ordering::Relaxed);
                break Some(exception);
            }
        };
        let done = python.detach(|| worker.join());
        match (raised_meanwhile, done) {
            (_, Err(panic)) => std::panic::resume_unwind(panic),
            (Some(exception), Ok(_)) => Err(exception),
            (None, Ok(Err(error))) => Err(raised(&error)),
            (None, Ok(Ok(done))) => working.tell(listener).map(|()| done),
        }
    })
}

/// The thread that calls, and the function of the program that is told how far the call has come, if there is one.
pub struct Listening<'py> {
    python: Python<'py>,
    listener: Option<&'py Bound<'py, PyAny>>,
}

impl<'py> Listening<'py> {
    /// A listener, if the program has given one.
    pub fn new(python: Python<'py>, listener: Option<&'py Bound<'py, PyAny>>) -> Listening<'py> {
        Listening { python, listener }
    }
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
