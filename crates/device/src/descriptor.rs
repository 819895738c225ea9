//! An open file or block device, with everything that a transfer on any thread needs to know of it.

use crate::host;
use crate::{Buffer, Error, Operation, Result, Sectors};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// The open file with its geometry; shared by the threads of a queue.
pub(crate) struct Descriptor {
    pub name: String,
    pub file: File,
    /// The length in bytes, whole sectors. It changes when the file is made longer.
    pub length: AtomicU64,
    pub sectors: Sectors,
    /// Whether transfers bypass the page cache (`O_DIRECT`).
    pub direct: bool,
    /// Whether the file is a block device.
    pub block: bool,
    /// Whether it is a block device that nobody else uses: the system was asked for that when it was opened for writing.
    pub claimed: bool,
    pub read_only: bool,
    /// Whether it is read-only because it takes no writes, though it was to be opened for writing.
    pub is_protected: bool,
}

impl Descriptor {
    /// The length in bytes.
    pub(crate) fn length(&self) -> u64 {
        self.length.load(Ordering::Acquire)
    }

    /// Whether the kernel can transfer directly to or from this memory address, without a bounce buffer.
    pub(crate) fn suits(&self, memory: *const u8) -> bool {
        !self.direct || (memory as usize).is_multiple_of(self.sectors.logical as usize)
    }

    pub(crate) fn read_exact(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let length = buffer.len() as u64;
        let failed = |source| Error::io(&self.name, Operation::Read, offset, length, source);
        if self.suits(buffer.as_ptr()) {
            return host::read_exact_at(&self.file, buffer, offset).map_err(failed);
        }
        let mut bounce = Buffer::new(buffer.len());
        host::read_exact_at(&self.file, &mut bounce, offset).map_err(failed)?;
        buffer.copy_from_slice(&bounce);
        Ok(())
    }

    pub(crate) fn write_all(&self, offset: u64, data: &[u8]) -> Result<()> {
        let failed = |source| Error::io(&self.name, Operation::Write, offset, data.len() as u64, source);
        if self.suits(data.as_ptr()) {
            return host::write_all_at(&self.file, data, offset).map_err(failed);
        }
        host::write_all_at(&self.file, &Buffer::from(data), offset).map_err(failed)
    }

    pub(crate) fn flush(&self) -> Result<()> {
        self.sync().map_err(|source| Error::io(&self.name, Operation::Flush, 0, 0, source))
    }

    /// Makes what was written durable. Windows flushes no file that is open for reading only, where nothing was written.
    pub(crate) fn sync(&self) -> io::Result<()> {
        match self.file.sync_data() {
            Err(error) if self.read_only && error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            synced => synced,
        }
    }
}
