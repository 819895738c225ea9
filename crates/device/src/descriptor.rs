//! An open file or block device: what transfers need of it, on whatever thread they are.

use crate::{Buffer, Error, Operation, Result, Sectors};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// See the module.
pub(crate) struct Descriptor {
    pub name: String,
    pub file: File,
    pub length: u64,
    pub sectors: Sectors,
    /// Whether transfers go past the page cache.
    pub direct: bool,
    /// Whether it is a block device.
    pub block: bool,
    pub read_only: bool,
}

impl Descriptor {
    /// Whether the kernel can transfer to this memory as it is.
    pub fn suits(&self, memory: *const u8) -> bool {
        !self.direct || (memory as usize).is_multiple_of(self.sectors.logical as usize)
    }

    pub fn read_exact(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let length = buffer.len() as u64;
        let failed = |source| Error::io(&self.name, Operation::Read, offset, length, source);
        if self.suits(buffer.as_ptr()) {
            return self.file.read_exact_at(buffer, offset).map_err(failed);
        }
        let mut bounce = Buffer::new(buffer.len());
        self.file.read_exact_at(&mut bounce, offset).map_err(failed)?;
        buffer.copy_from_slice(&bounce);
        Ok(())
    }

    pub fn write_all(&self, offset: u64, data: &[u8]) -> Result<()> {
        let failed = |source| Error::io(&self.name, Operation::Write, offset, data.len() as u64, source);
        if self.suits(data.as_ptr()) {
            return self.file.write_all_at(data, offset).map_err(failed);
        }
        self.file.write_all_at(&Buffer::from(data), offset).map_err(failed)
    }

    pub fn flush(&self) -> Result<()> {
        self.file.sync_data().map_err(|source| Error::io(&self.name, Operation::Flush, 0, 0, source))
    }
}
