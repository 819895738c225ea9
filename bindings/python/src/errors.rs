//! Errors of the library as Python exceptions.

use pyo3::prelude::*;

/// Returns the exception for an error: `platter._errors.make` chooses its class.
pub fn raised(error: &platter::Error) -> PyErr {
    Python::attach(|python| {
        let damage =
            error.damage().map(|one| (one.structure, one.offset, one.expected.clone(), one.found.clone()));
        let arguments =
            (format!("{:?}", error.kind()), error.errno().0, error.to_string(), error.about(), damage);
        let made = python.import("platter._errors").and_then(|module| module.call_method1("make", arguments));
        made.map_or_else(|failed| failed, PyErr::from_value)
    })
}

/// Calls the library while this thread does not hold the lock of the Python interpreter.
pub fn freely<T: Send>(python: Python<'_>, call: impl FnOnce() -> platter::Result<T> + Send) -> PyResult<T> {
    python.detach(call).map_err(|error| raised(&error))
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
