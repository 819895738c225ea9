//! A file object of Python as a device.

use crate::errors::keep_ending;
use platter::device::{Device, Error, Immediate, Operation, Queue, Result, Sectors, check_transfer};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::PyBytes;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// A device that reads, and writes if `writable` is set, with the methods `seek`, `read` and `write` of a Python
/// object. The object has one file position, so only one call at a time uses it.
pub struct ObjectDevice {
    object: Mutex<Py<PyAny>>,
    name: String,
    length: u64,
    writable: bool,
}

/// The size of a sector of a file object, in bytes. Bytes after its last whole sector are not part of the device.
const SECTOR: u64 = 512;

impl ObjectDevice {
    /// Returns a device on an object. The length of the device stays that of the object now.
    ///
    /// # Errors
    /// The exceptions that the object raises.
    pub fn new(object: &Bound<'_, PyAny>, writable: bool) -> PyResult<ObjectDevice> {
        let length: u64 = object
            .call_method1("seek", (0, 2))?
            .extract::<Option<u64>>()?
            .map_or_else(|| object.call_method0("tell")?.extract(), Ok)?;
        let name = object.getattr("name").ok().and_then(|name| name.extract().ok());
        Ok(ObjectDevice {
            name: name.unwrap_or_else(|| "a file object".to_string()),
            length: length - length % SECTOR,
            writable,
            object: Mutex::new(object.clone().unbind()),
        })
    }

    /// Calls the object. An exception becomes a failure of the device.
    fn call<T>(
        &self,
        operation: Operation,
        offset: u64,
        length: usize,
        call: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Result<T> {
        // The lock of the interpreter is taken before that of the object: a thread that has locked the object needs the
        // interpreter to go on.
        Python::attach(|python| {
            let object = self.object.lock_py_attached(python).unwrap_or_else(PoisonError::into_inner);
            call(object.bind(python)).map_err(|error| {
                keep_ending(python, &error);
                Error::io(&self.name, operation, offset, length as u64, failure(python, &error))
            })
        })
    }
}

/// An exception of the object as an error of the system: with its `errno`, if it is an `OSError` that has one.
fn failure(python: Python<'_>, error: &PyErr) -> io::Error {
    let number = || error.value(python).getattr("errno").ok()?.extract::<i32>().ok();
    match error.is_instance_of::<pyo3::exceptions::PyOSError>(python).then(number).flatten() {
        Some(number) => io::Error::from_raw_os_error(number),
        None => io::Error::other(error.to_string()),
    }
}

/// What a program names as a source.
pub enum Origin {
    /// A file object.
    Object(Arc<ObjectDevice>),
    /// Everything else: a path, `IMAGE@N` or `mirror:IMAGE,IMAGE`.
    Path(PathBuf),
}

impl Origin {
    /// What a Python object means; `writes` says whether a file object is written to.
    ///
    /// # Errors
    /// The exceptions that the object raises, and a `TypeError` if it is neither a path nor a file object.
    pub fn new(source: &Bound<'_, PyAny>, writes: bool) -> PyResult<Origin> {
        if source.hasattr("read")? && source.hasattr("seek")? {
            return Ok(Origin::Object(Arc::new(ObjectDevice::new(source, writes)?)));
        }
        Ok(Origin::Path(source.extract()?))
    }
}

impl Device for ObjectDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> u64 {
        self.length
    }

    fn sectors(&self) -> Sectors {
        Sectors::SMALL
    }

    fn read_only(&self) -> bool {
        !self.writable
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        check_transfer(self, Operation::Read, offset, buffer.len() as u64)?;
        let length = buffer.len();
        self.call(Operation::Read, offset, length, |object| {
            object.call_method1("seek", (offset,))?;
            let mut at = 0;
            while at < buffer.len() {
                let data = object.call_method1("read", (buffer.len() - at,))?;
                let data: &Bound<'_, PyBytes> = data.cast()?;
                let data = data.as_bytes();
                if data.is_empty() || data.len() > buffer.len() - at {
                    let why = format!("read {} bytes where {} are", data.len(), buffer.len() - at);
                    return Err(pyo3::exceptions::PyEOFError::new_err(why));
                }
                buffer[at..at + data.len()].copy_from_slice(data);
                at += data.len();
            }
            Ok(())
        })
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        check_transfer(self, Operation::Write, offset, data.len() as u64)?;
        self.call(Operation::Write, offset, data.len(), |object| {
            object.call_method1("seek", (offset,))?;
            let mut at = 0;
            while at < data.len() {
                let written = object.call_method1("write", (PyBytes::new(object.py(), &data[at..]),))?;
                let written = written.extract::<Option<usize>>()?.unwrap_or(data.len() - at);
                if written == 0 || written > data.len() - at {
                    let why = format!("wrote {written} of {} bytes", data.len() - at);
                    return Err(pyo3::exceptions::PyOSError::new_err(why));
                }
                at += written;
            }
            Ok(())
        })
    }

    /// Calls the object's `flush`, and `fsync` for its file descriptor if it has one: Python has no other means to make
    /// data durable.
    fn flush(&self) -> Result<()> {
        check_transfer(self, Operation::Flush, 0, 0)?;
        if !self.writable {
            return Ok(());
        }
        self.call(Operation::Flush, 0, 0, |object| {
            if object.hasattr("flush")? {
                object.call_method0("flush")?;
            }
            match object.call_method0("fileno") {
                Ok(number) => object.py().import("os")?.call_method1("fsync", (number,)).map(drop),
                Err(_) => Ok(()),
            }
        })
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        check_transfer(self, Operation::Discard, offset, length)
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue + '_>> {
        Ok(Box::new(Immediate::new(self, depth)))
    }
}
