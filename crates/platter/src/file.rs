//! An open file, which is read and written like a file of the host.

use crate::error::{About, Error, ErrorKind, Result};
use crate::node::Held;
use crate::shared::Shared;
use platter_vfs::{Attributes, Change, FileSystem, Node, SyncScope};
use std::io;
use std::sync::Arc;

/// A file or a named stream of a volume. It has a position, as [`std::fs::File`] has; [`File::read_at`] and
/// [`File::write_at`] do not use the position and may be called from many threads at once.
///
/// Written data survives a power cut when [`File::sync_all`], [`Volume::sync`](crate::Volume::sync) or
/// [`Volume::close`](crate::Volume::close) has returned. The volume stays open as long as one of its files.
pub struct File {
    held: Held,
    path: String,
    position: u64,
    /// Keeps the volume from being closed. Declared after the node, because fields are dropped in this order and the
    /// node must be given back first.
    volume: Arc<Shared>,
}

impl File {
    pub(crate) fn new(volume: &Arc<Shared>, held: Held, path: String) -> File {
        File { held, path, position: 0, volume: volume.clone() }
    }

    fn system(&self) -> &dyn FileSystem {
        &*self.held.system
    }

    /// The file's node, for calls of [`Volume::system`](crate::Volume::system). It is valid as long as this file is
    /// open.
    pub fn node(&self) -> Node {
        self.held.node
    }

    /// The file's size, times and flags.
    ///
    /// # Errors
    /// The errors of reading the metadata.
    pub fn metadata(&self) -> Result<Attributes> {
        self.volume.refuse_copies()?;
        self.system().attributes(self.node()).about(&self.path)
    }

    /// The file's size in bytes.
    ///
    /// # Errors
    /// The errors of reading the metadata.
    pub fn size(&self) -> Result<u64> {
        Ok(self.metadata()?.size)
    }

    /// Reads up to `buffer.len()` bytes from `offset`; fewer only at the end of the file.
    ///
    /// # Errors
    /// [`Damaged`](ErrorKind::Damaged) where a checksum or a structure is wrong,
    /// [`Unreadable`](ErrorKind::Unreadable) for content in a form that this library does not read, and the errors of
    /// the device.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.volume.refuse_copies()?;
        self.system().read(self.node(), offset, buffer).about(&self.path)
    }

    /// Writes all of `data` at `offset`, and makes the file longer if it has to be.
    ///
    /// # Errors
    /// [`NoSpace`](ErrorKind::NoSpace), [`ReadOnly`](ErrorKind::ReadOnly), and the errors of the device.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.volume.refuse_copies()?;
        self.system().write(self.node(), offset, data).about(&self.path)
    }

    /// Truncates the file, or extends it with zeroes.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub fn set_len(&self, size: u64) -> Result<()> {
        self.set_metadata(&Change { size: Some(size), ..Change::default() })
    }

    /// Changes size, times or flags.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub fn set_metadata(&self, change: &Change) -> Result<()> {
        self.volume.refuse_copies()?;
        self.system().set_attributes(self.node(), change).map(drop).about(&self.path)
    }

    /// Makes the file durable: once this returns, its present content and metadata survive a power cut.
    ///
    /// # Errors
    /// The errors of the device. A failure is final: nothing is written any more until the volume is opened anew.
    pub fn sync_all(&self) -> Result<()> {
        self.volume.refuse_copies()?;
        self.system().sync(self.node(), SyncScope::All).about(&self.path)
    }

    /// Makes the content, and the metadata needed to find it, durable.
    ///
    /// # Errors
    /// As [`File::sync_all`].
    pub fn sync_data(&self) -> Result<()> {
        self.volume.refuse_copies()?;
        self.system().sync(self.node(), SyncScope::Data).about(&self.path)
    }
}

impl io::Read for File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.read_at(self.position, buffer)?;
        self.position += got as u64;
        Ok(got)
    }
}

impl io::Write for File {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.write_at(self.position, data)?;
        self.position += data.len() as u64;
        Ok(data.len())
    }

    /// Does nothing: no data is buffered in [`File`]. [`File::sync_all`] makes data durable.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl io::Seek for File {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        let position = match to {
            io::SeekFrom::Start(position) => Some(position),
            io::SeekFrom::Current(by) => self.position.checked_add_signed(by),
            io::SeekFrom::End(by) => self.size()?.checked_add_signed(by),
        };
        self.position = position.ok_or_else(|| {
            Error::refused(ErrorKind::InvalidArgument, &self.path, "a position before the start of the file")
        })?;
        Ok(self.position)
    }
}
