//! Disk images in containers as devices: what is counted is what reaches their files.

use crate::{Error, Result};
use platter_device::{
    Device, FileDevice, FileOptions, Growing, Queue, Recorder, Result as Transferred, Sectors,
};
use platter_images::{Container, MakeOptions};
use std::cell::{Cell, RefCell};
use std::path::Path;
use std::sync::Arc;

/// The disk in a container.
pub(crate) struct Contained {
    pub device: Arc<dyn Device>,
    /// What the file is, for example "VHDX, dynamic".
    pub kind: String,
    /// Counts the transfers of its file, and of its parents: data and the container's own structures.
    pub recorder: Arc<Recorder>,
    /// Whether transfers of all files bypass the page cache.
    pub is_direct: bool,
}

/// The size and the sectors of the disk in a container; `None` for a file or block device whose bytes are those of the
/// disk.
pub(crate) fn look(path: &Path) -> Result<Option<(u64, Sectors)>> {
    let image = platter_images::open(path, FileOptions { read_only: true, ..FileOptions::default() })?;
    Ok(image.kind.map(|_| (image.device.len(), image.device.sectors())))
}

/// Whether a file that is to be made becomes a container by its name.
pub(crate) fn is_made_for(path: &Path) -> bool {
    Container::of_name(path).is_some()
}

/// Makes the container of the file's name, with a disk of `length` bytes; it grows as it is written.
pub(crate) fn make(path: &Path, length: u64) -> Result<()> {
    let Some(container) = Container::of_name(path) else {
        return Err(Error::Input {
            name: path.display().to_string(),
            reason: "is no name of a container".into(),
        });
    };
    Ok(platter_images::make(path, &MakeOptions::new(container, length))?)
}

/// Opens the disk in a container for writing.
///
/// # Errors
/// [`Error::Input`] for a kind that is only read, and the errors of [`platter_images::open`].
pub(crate) fn open(path: &Path, options: FileOptions) -> Result<Contained> {
    let first: RefCell<Option<Arc<Recorder>>> = RefCell::new(None);
    let is_direct = Cell::new(true);
    let between = |file: FileDevice| -> Arc<dyn Growing> {
        is_direct.set(is_direct.get() && file.is_direct());
        let file = Arc::new(file);
        let mut first = first.borrow_mut();
        let recorder = match &*first {
            Some(first) => Arc::new(first.beside(file.clone())),
            None => Arc::new(Recorder::new(file.clone())),
        };
        first.get_or_insert_with(|| recorder.clone());
        Arc::new(Counted { file, recorder })
    };
    let image = platter_images::open_over(path, options, &between)?;
    let name = path.display().to_string();
    if let Some(why) = image.device.why_read_only() {
        return Err(Error::Input { name, reason: format!("cannot be written: {why}") });
    }
    let recorder = first.take();
    let (Some(kind), Some(recorder)) = (image.kind, recorder) else {
        return Err(Error::Input { name, reason: "was a disk image in a container a moment ago".into() });
    };
    Ok(Contained { device: image.device, kind, recorder, is_direct: is_direct.get() })
}

/// A file of a container whose transfers are counted.
struct Counted {
    file: Arc<FileDevice>,
    recorder: Arc<Recorder>,
}

impl Device for Counted {
    fn name(&self) -> &str {
        self.file.name()
    }

    fn len(&self) -> u64 {
        self.file.len()
    }

    fn sectors(&self) -> Sectors {
        self.file.sectors()
    }

    fn below(&self) -> Option<&dyn Device> {
        Some(&*self.recorder)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Transferred<()> {
        self.recorder.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Transferred<()> {
        self.recorder.write_at(offset, data)
    }

    fn read_batch(&self, reads: &mut [(u64, &mut [u8])]) -> Transferred<()> {
        self.recorder.read_batch(reads)
    }

    fn write_batch(&self, writes: &[(u64, &[u8])]) -> Transferred<()> {
        self.recorder.write_batch(writes)
    }

    fn flush(&self) -> Transferred<()> {
        self.recorder.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Transferred<()> {
        self.recorder.discard(offset, length)
    }

    fn queue(&self, depth: usize) -> Transferred<Box<dyn Queue + '_>> {
        self.recorder.queue(depth)
    }
}

impl Growing for Counted {
    fn grow(&self, length: u64) -> Transferred<()> {
        self.file.grow(length)
    }
}
