//! Errors of the library as exceptions.

use pyo3::prelude::*;

/// The exception for an error: `platter._errors.make` chooses its class.
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

/// Calls the library without holding the interpreter.
pub fn freely<T: Send>(python: Python<'_>, call: impl FnOnce() -> platter::Result<T> + Send) -> PyResult<T> {
    python.detach(call).map_err(|error| raised(&error))
}

/// What is dropped without holding the interpreter: a thread that works on the volume, and has what dropping waits for, may
/// wait for the interpreter, to ask a device that is a file object.
pub struct Apart<T: Send>(Option<T>);

impl<T: Send> Apart<T> {
    /// Keeps this apart.
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
