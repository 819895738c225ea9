//! An open volume and its open files.

use crate::copy::{Copied, told};
use crate::device::Origin;
use crate::errors::{Apart, Listening, freely, interruptibly, raised};
use crate::keys::keys;
use crate::values::{Entry, Info, Stat, Stream};
use platter::copy::Options;
use platter::{Access, Change, DeviceOptions, OpenOptions, Timestamp};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError, RwLock};

/// A volume; the option is `None` once the volume was closed.
#[pyclass(subclass, frozen, module = "platterfs._platter")]
pub struct Volume(Apart<RwLock<Option<platter::Volume>>>);

impl Volume {
    fn open(&self) -> PyResult<platter::Volume> {
        let volume = self.0.read().unwrap_or_else(PoisonError::into_inner);
        volume.clone().ok_or_else(|| PyValueError::new_err("I/O operation on closed volume"))
    }

    /// Calls the library while this thread does not hold the lock of the Python interpreter.
    fn call<T: Send>(
        &self,
        python: Python<'_>,
        call: impl FnOnce(&platter::Volume) -> platter::Result<T> + Send,
    ) -> PyResult<T> {
        let volume = self.open()?;
        freely(python, move || call(&volume))
    }
}

#[pymethods]
impl Volume {
    #[new]
    #[pyo3(signature = (source, writes, local_offset_minutes, *, password = None, recovery_key = None, key_file = None))]
    fn new(
        source: &Bound<'_, PyAny>,
        writes: bool,
        local_offset_minutes: i32,
        password: Option<&str>,
        recovery_key: Option<&str>,
        key_file: Option<PathBuf>,
    ) -> PyResult<Volume> {
        let python = source.py();
        let keys = keys(password, recovery_key, key_file)?;
        let access = if writes { Access::Write { force: false } } else { Access::Read };
        let reading = DeviceOptions { keys: keys.clone(), ..DeviceOptions::default() };
        let options = OpenOptions::new().access(access).local_offset_minutes(local_offset_minutes).keys(keys);
        let volume = match Origin::new(source, writes)? {
            Origin::Object(device) => {
                let device = freely(python, || platter::part_of(device, None, &reading))?;
                freely(python, || options.open_on(device.clone(), device.name()))?
            }
            Origin::Path(path) => freely(python, || options.open(path))?,
        };
        Ok(Volume(Apart::new(RwLock::new(Some(volume)))))
    }

    /// Returns the properties of the volume.
    fn info(&self, python: Python<'_>) -> PyResult<Info> {
        self.call(python, |volume| {
            let (info, space) = (volume.info()?, volume.space()?);
            let shown = info.shown();
            Ok(Info {
                format: info.format,
                label: info.label,
                identifier: info.identifier,
                cluster: space.cluster,
                clusters: space.total,
                free_clusters: space.free,
                dirty: info.dirty,
                details: shown.into_iter().collect(),
            })
        })
    }

    /// Changes the label. An empty label removes it.
    fn set_label(&self, python: Python<'_>, label: &str) -> PyResult<()> {
        self.call(python, |volume| volume.set_label(label))
    }

    /// Returns the entries of a directory. If some of them are damaged, none is returned, and the damage is raised.
    #[pyo3(signature = (path = PathBuf::new()))]
    fn scandir(&self, python: Python<'_>, path: PathBuf) -> PyResult<Vec<Py<Entry>>> {
        let all = self.call(python, |volume| volume.read_dir(&path)?.collect::<platter::Result<Vec<_>>>())?;
        all.iter().map(|entry| Entry::new(python, entry)).collect()
    }

    /// Returns the names in a directory.
    #[pyo3(signature = (path = PathBuf::new()))]
    fn listdir(&self, python: Python<'_>, path: PathBuf) -> PyResult<Vec<String>> {
        let all = self.call(python, |volume| volume.read_dir(&path)?.collect::<platter::Result<Vec<_>>>())?;
        Ok(all.iter().map(|entry| String::from_utf8_lossy(&entry.name().to_bytes()).into_owned()).collect())
    }

    /// Returns an iterator over all entries below a directory, each directory before its own entries. A directory that
    /// cannot be read raises its error, and the iteration can then go on after it.
    #[pyo3(signature = (path = PathBuf::new()))]
    fn walk(&self, python: Python<'_>, path: PathBuf) -> PyResult<Walk> {
        Ok(Walk(Apart::new(Mutex::new(self.call(python, |volume| volume.walk(&path))?))))
    }

    /// Returns kind, size and times of the entry that a path leads to.
    fn stat(&self, python: Python<'_>, path: PathBuf) -> PyResult<Stat> {
        self.call(python, |volume| Ok(Stat::from(&volume.metadata(&path)?)))
    }

    /// Whether a path leads to an entry.
    fn exists(&self, python: Python<'_>, path: PathBuf) -> PyResult<bool> {
        self.call(python, |volume| volume.exists(&path))
    }

    /// Changes times, in nanoseconds since 1970; `None` leaves a time as it is.
    #[pyo3(signature = (path, *, modified_ns = None, accessed_ns = None, created_ns = None))]
    fn utime(
        &self,
        python: Python<'_>,
        path: PathBuf,
        modified_ns: Option<i128>,
        accessed_ns: Option<i128>,
        created_ns: Option<i128>,
    ) -> PyResult<()> {
        let time = |nanoseconds: i128| Timestamp {
            seconds: nanoseconds.div_euclid(1_000_000_000) as i64,
            nanoseconds: nanoseconds.rem_euclid(1_000_000_000) as u32,
        };
        let change = Change {
            modified: modified_ns.map(time),
            accessed: accessed_ns.map(time),
            created: created_ns.map(time),
            ..Change::default()
        };
        self.call(python, |volume| volume.set_metadata(&path, &change).map(drop))
    }

    /// Returns the whole content of a file.
    fn read<'py>(&self, python: Python<'py>, path: PathBuf) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(python, &self.call(python, |volume| volume.read(&path))?))
    }

    /// Replaces the content of a file, which is created if it does not exist.
    fn write(&self, python: Python<'_>, path: PathBuf, data: Vec<u8>) -> PyResult<()> {
        self.call(python, |volume| volume.write(&path, &data))
    }

    /// Copies a file or a directory of the host, with all that is in it, to a path on the volume, with everything that the
    /// volume can hold. Into a directory that is there the copy is made under its own name.
    #[allow(clippy::too_many_arguments, reason = "they have names in Python")]
    #[pyo3(signature = (source, path, *, replace_read_only = false, keep_what_is_there = false, progress = None))]
    fn copy_in(
        &self,
        python: Python<'_>,
        source: PathBuf,
        path: PathBuf,
        replace_read_only: bool,
        keep_what_is_there: bool,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Copied> {
        let volume = self.open()?;
        let options = options(replace_read_only, keep_what_is_there);
        interruptibly(&Listening::new(python, progress), |working| {
            told(working, |how, listener| volume.copy_in(&source, &path, how, listener), options)
        })
    }

    /// Copies a file or a directory of the volume, with all that is in it, to a path of the host, with everything that the
    /// host can hold. Into a directory that is there the copy is made under its own name.
    #[pyo3(signature = (path, target, *, keep_what_is_there = false, progress = None))]
    fn copy_out(
        &self,
        python: Python<'_>,
        path: PathBuf,
        target: PathBuf,
        keep_what_is_there: bool,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Copied> {
        let volume = self.open()?;
        let options = options(false, keep_what_is_there);
        interruptibly(&Listening::new(python, progress), |working| {
            told(working, |how, listener| volume.copy_out(&path, &target, how, listener), options)
        })
    }

    /// Opens a file, or a named stream if `stream` is given. `how` is the first letter of a mode of Python's `open`.
    fn _handle(
        &self,
        python: Python<'_>,
        path: PathBuf,
        how: char,
        stream: Option<String>,
    ) -> PyResult<Handle> {
        let file = self.call(python, |volume| match (&stream, how) {
            (None, 'r') => volume.open_file(&path),
            (None, 'w') => volume.create_file(&path),
            (None, 'x') => volume.create_new_file(&path),
            (None, _) => match volume.create_new_file(&path) {
                Err(error) if error.kind() == platter::ErrorKind::Exists => volume.open_file(&path),
                made => made,
            },
            (Some(stream), 'r') => volume.open_stream(&path, stream),
            (Some(stream), 'w') => volume.create_stream(&path, stream),
            (Some(stream), _) => match volume.open_stream(&path, stream) {
                Err(error) if error.kind() == platter::ErrorKind::NotFound => {
                    volume.create_stream(&path, stream)
                }
                Ok(_) if how == 'x' => Err(platter::Error::new(
                    format!("{}:{stream}", path.display()),
                    platter::vfs::Error::Exists,
                )),
                opened => opened,
            },
        })?;
        Ok(Handle(Apart::new(file)))
    }

    /// Makes a directory.
    fn mkdir(&self, python: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.call(python, |volume| volume.create_dir(&path))
    }

    /// Makes a directory and all missing directories above it.
    fn makedirs(&self, python: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.call(python, |volume| volume.create_dir_all(&path))
    }

    /// Removes a name of a file.
    fn remove(&self, python: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.call(python, |volume| volume.remove_file(&path))
    }

    /// Removes an empty directory.
    fn rmdir(&self, python: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.call(python, |volume| volume.remove_dir(&path))
    }

    /// Removes a directory with all that is in it.
    fn rmtree(&self, python: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.call(python, |volume| volume.remove_dir_all(&path))
    }

    /// Moves an entry. An existing entry with the new name is replaced.
    fn rename(&self, python: Python<'_>, source: PathBuf, target: PathBuf) -> PyResult<()> {
        self.call(python, |volume| volume.rename(&source, &target))
    }

    /// Gives a file a further name.
    fn link(&self, python: Python<'_>, source: PathBuf, target: PathBuf) -> PyResult<()> {
        self.call(python, |volume| volume.hard_link(&source, &target))
    }

    /// Makes a symbolic link. The target need not exist.
    fn symlink(&self, python: Python<'_>, target: &str, path: PathBuf) -> PyResult<()> {
        self.call(python, |volume| volume.symlink(target, &path))
    }

    /// Returns the target of a symbolic link.
    fn readlink(&self, python: Python<'_>, path: PathBuf) -> PyResult<String> {
        self.call(python, |volume| volume.read_link(&path))
    }

    /// Returns the named streams of a file or directory.
    fn streams(&self, python: Python<'_>, path: PathBuf) -> PyResult<Vec<Stream>> {
        let all = self.call(python, |volume| volume.streams(&path))?;
        Ok(all.into_iter().map(|one| Stream { name: one.name.to_string(), size: one.size }).collect())
    }

    /// Removes a named stream.
    fn remove_stream(&self, python: Python<'_>, path: PathBuf, stream: &str) -> PyResult<()> {
        self.call(python, |volume| volume.remove_stream(&path, stream))
    }

    /// Returns the extended attributes of a file or directory, with their values.
    fn extended_attributes<'py>(
        &self,
        python: Python<'py>,
        path: PathBuf,
    ) -> PyResult<BTreeMap<String, Bound<'py, PyBytes>>> {
        let all = self.call(python, |volume| {
            let names = volume.extended_attributes(&path)?;
            let value = |name: String| Ok((volume.extended_attribute(&path, &name)?, name));
            names.into_iter().map(value).collect::<platter::Result<Vec<_>>>()
        })?;
        Ok(all.into_iter().map(|(value, name)| (name, PyBytes::new(python, &value))).collect())
    }

    /// Sets an extended attribute; `None` removes it.
    fn set_extended_attribute(
        &self,
        python: Python<'_>,
        path: PathBuf,
        name: &str,
        value: Option<Vec<u8>>,
    ) -> PyResult<()> {
        self.call(python, |volume| volume.set_extended_attribute(&path, name, value.as_deref()))
    }

    /// Makes all changes of the volume durable: after this returns, they survive a power cut.
    fn sync(&self, python: Python<'_>) -> PyResult<()> {
        self.call(python, platter::Volume::sync)
    }

    /// Makes all changes durable and marks the volume as clean. Closing a volume again does nothing.
    fn close(&self, python: Python<'_>) -> PyResult<()> {
        let volume = self.0.write().unwrap_or_else(PoisonError::into_inner).take();
        match volume {
            Some(volume) => freely(python, || volume.close()),
            None => Ok(()),
        }
    }
}

/// The options of a copy, as Python has them.
fn options(force: bool, keeps_what_is_there: bool) -> Options {
    Options { recursive: true, force, keeps_what_is_there, ..Options::default() }
}

/// An open file, on which the Python class `platterfs.File` is built.
#[pyclass(frozen, module = "platterfs._platter")]
pub struct Handle(Apart<platter::File>);

#[pymethods]
impl Handle {
    /// Returns the bytes from `offset` on: `length` of them, or fewer at the end of the file and if `length` is more
    /// than 16 MiB.
    fn read_at<'py>(&self, python: Python<'py>, offset: u64, length: usize) -> PyResult<Bound<'py, PyBytes>> {
        if offset.checked_add(length as u64).is_none() {
            return Err(PyValueError::new_err("offset and length together are beyond 2^64"));
        }
        let data = freely(python, || {
            // The buffer is no larger than the part of the file from `offset` on, however large `length` is.
            let there = self.0.size()?.saturating_sub(offset);
            let mut data = vec![0; usize::try_from(there).unwrap_or(usize::MAX).min(length).min(MOST)];
            let got = self.0.read_at(offset, &mut data)?;
            data.truncate(got);
            Ok(data)
        })?;
        Ok(PyBytes::new(python, &data))
    }

    /// Writes all of `data` at `offset`.
    fn write_at(&self, python: Python<'_>, offset: u64, data: &[u8]) -> PyResult<()> {
        freely(python, || self.0.write_at(offset, data))
    }

    /// Returns the size in bytes.
    fn size(&self, python: Python<'_>) -> PyResult<u64> {
        freely(python, || self.0.size())
    }

    /// Sets the size; bytes that are added are zeroes.
    fn set_len(&self, python: Python<'_>, size: u64) -> PyResult<()> {
        freely(python, || self.0.set_len(size))
    }

    /// Makes the file durable: after this returns, the file survives a power cut in its present state.
    fn sync(&self, python: Python<'_>) -> PyResult<()> {
        freely(python, || self.0.sync_all())
    }
}

/// The most bytes that one read returns. The size of a file on a damaged volume may be any number, so it must not
/// decide alone how much memory is allocated.
const MOST: usize = 16 << 20;

/// An iterator over all entries below a directory.
#[pyclass(frozen, module = "platterfs._platter")]
pub struct Walk(Apart<Mutex<platter::Walk>>);

#[pymethods]
impl Walk {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, python: Python<'_>) -> PyResult<Option<Py<Entry>>> {
        let next = python.detach(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).next());
        match next {
            None => Ok(None),
            Some(Ok(entry)) => Entry::new(python, &entry).map(Some),
            Some(Err(error)) => Err(raised(&error)),
        }
    }
}
