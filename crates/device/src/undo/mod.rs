//! Undo: the old content of each block is saved before the block is overwritten, so that changes can be reverted.
//!
//! * [`UndoDevice`] keeps writes in memory and passes them to the device below in groups. Before a group is written
//!   there, the *undo file* durably holds the old content of every block of the group, and checksums of the new
//!   content.
//! * [`UndoFile`] reads an undo file and restores the old content, even after a power cut in the middle of the changes
//!   or of the restoring. It refuses a device on which a block holds neither the old nor the new content, because
//!   somebody else has written there since.

mod file;
mod format;
mod log;

pub use file::{Restored, UndoFile};

use crate::sync::Mutex;
use crate::{Device, Immediate, Operation, Queue, Result, Sectors, check_transfer};
use log::UndoLog;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A device whose changes can be reverted.
///
/// Writes reach the device below when it is flushed or [`UndoDevice::KEPT`] bytes have been collected, like those of a
/// device with a volatile cache. The undo file is made at the first write. A discard does nothing.
///
/// One lock, `changes`, covers the blocks in memory and the undo file; it is held while a group is written.
pub struct UndoDevice {
    below: Arc<dyn Device>,
    /// The block size in bytes.
    block: u64,
    changes: Mutex<Changes>,
}

struct Changes {
    log: UndoLog,
    /// Blocks, by number, that were written and are not yet on the device below.
    kept: BTreeMap<u64, Vec<u8>>,
}

impl UndoDevice {
    /// The most bytes that are kept in memory before they are written to the device below.
    pub const KEPT: u64 = 32 << 20;

    /// Wraps `below` and saves its old content to a file at `path`, which must not exist. `name` is the name of the
    /// device that is shown when the file is examined. Only the user who makes the file can read it, unless it
    /// is [shared](UndoDevice::shared).
    pub fn new(below: Arc<dyn Device>, path: &Path, name: &str) -> UndoDevice {
        let log = UndoLog::new(path.to_path_buf(), name.to_string(), &*below);
        let block = log.header().block;
        UndoDevice { below, block, changes: Mutex::new(Changes { log, kept: BTreeMap::new() }) }
    }

    /// The same, but the undo file gets these permissions and this group. If the host refuses the group, it gets no
    /// permissions for any.
    pub fn shared(self, mode: u32, group: u32) -> UndoDevice {
        self.changes.lock().log.share(mode, group);
        self
    }

    /// Makes all changes durable and completes the undo file. `stamp` is called when all is written and returns a text
    /// that changes when somebody else writes to the device. Returns the path of the file and the bytes of old content
    /// in it; `None` if nothing was changed.
    ///
    /// # Errors
    /// The errors of writing to the device below or to the undo file.
    pub fn finish(&self, stamp: &dyn Fn() -> String) -> Result<Option<(PathBuf, u64)>> {
        self.flush()?;
        self.changes.lock().log.finish(&stamp())
    }

    /// Why the undo file could not be written, if so. From then on the device below is not changed any more.
    pub fn why_failed(&self) -> Option<String> {
        self.changes.lock().log.why_failed().map(str::to_string)
    }

    /// The numbers of the blocks that a range touches.
    fn blocks(&self, offset: u64, length: u64) -> Range<u64> {
        offset / self.block..(offset + length).div_ceil(self.block)
    }

    /// The part of block `number` that a transfer covers: its range in the block, and its range in the transfer.
    fn overlap(&self, number: u64, offset: u64, length: usize) -> (Range<usize>, Range<usize>) {
        let block = number * self.block;
        let start = block.max(offset);
        let end = (block + self.block).min(offset + length as u64);
        ((start - block) as usize..(end - block) as usize, (start - offset) as usize..(end - offset) as usize)
    }

    /// Reads a block sector by sector. Sectors in the range `inside` that cannot be read are zeroes; any other such
    /// sector is an error.
    fn read_beside(&self, number: u64, block: &mut [u8], inside: &Range<usize>) -> Result<()> {
        let sector = self.sectors().logical as usize;
        for (at, bytes) in (0..).step_by(sector).zip(block.chunks_exact_mut(sector)) {
            let read = self.below.read_at(number * self.block + at as u64, bytes);
            if !inside.contains(&at) {
                read?;
            } else if read.is_err() {
                bytes.fill(0);
            }
        }
        Ok(())
    }

    /// Writes the blocks in memory to the device below. Their old content is durable before the first byte is
    /// overwritten.
    fn write_out(&self, changes: &mut Changes) -> Result<()> {
        if changes.kept.is_empty() {
            return Ok(());
        }
        for (&number, new) in &changes.kept {
            changes.log.add_new(number, new)?;
        }
        changes.log.sync()?;
        for (&number, new) in &changes.kept {
            self.below.write_at(number * self.block, new)?;
        }
        changes.kept.clear();
        Ok(())
    }
}

impl Device for UndoDevice {
    fn name(&self) -> &str {
        self.below.name()
    }

    fn len(&self) -> u64 {
        self.below.len()
    }

    fn sectors(&self) -> Sectors {
        self.below.sectors()
    }

    fn below(&self) -> Option<&dyn Device> {
        Some(&*self.below)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        check_transfer(self, Operation::Read, offset, buffer.len() as u64)?;
        // The device below is read under the lock, because blocks in memory could be written to it meanwhile.
        let changes = self.changes.lock();
        let blocks = self.blocks(offset, buffer.len() as u64);
        let read = self.below.read_at(offset, buffer);
        if changes.kept.range(blocks.clone()).count() as u64 != blocks.end - blocks.start {
            read?;
        }
        for (&number, new) in changes.kept.range(blocks) {
            let (inside, at) = self.overlap(number, offset, buffer.len());
            buffer[at].copy_from_slice(&new[inside]);
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        check_transfer(self, Operation::Write, offset, data.len() as u64)?;
        let mut changes = self.changes.lock();
        let Changes { log, kept } = &mut *changes;
        for number in self.blocks(offset, data.len() as u64) {
            let (inside, at) = self.overlap(number, offset, data.len());
            let new = match kept.entry(number) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => {
                    let mut old = vec![0; log.header().size_of(number)];
                    let read = self.below.read_at(number * self.block, &mut old);
                    // A block that cannot be read may still be overwritten as a whole; then there is no old content to
                    // restore. If it is overwritten in part, that part may be what cannot be read: zeroes stand for it.
                    if inside.len() < old.len() {
                        read.or_else(|_| self.read_beside(number, &mut old, &inside))?;
                        log.add_old(number, Some(&old))?;
                    } else {
                        log.add_old(number, read.is_ok().then_some(&old[..]))?;
                    }
                    entry.insert(old)
                }
            };
            new[inside].copy_from_slice(&data[at]);
        }
        if kept.len() as u64 * self.block >= UndoDevice::KEPT {
            self.write_out(&mut changes)?;
        }
        Ok(())
    }

    fn read_copy(&self, copy: usize, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.write_out(&mut self.changes.lock())?;
        self.below.read_copy(copy, offset, buffer)
    }

    /// Repairs a damaged copy. This does not change what the device reads as, so no old content is saved.
    fn repair_copy(&self, copy: usize, offset: u64, data: &[u8]) -> Result<()> {
        self.write_out(&mut self.changes.lock())?;
        self.below.repair_copy(copy, offset, data)
    }

    fn next_data(&self, offset: u64) -> u64 {
        let kept = self
            .changes
            .lock()
            .kept
            .range(offset / self.block..)
            .next()
            .map(|(&number, _)| number * self.block);
        let below = self.below.next_data(offset);
        kept.map_or(below, |kept| kept.max(offset).min(below))
    }

    fn flush(&self) -> Result<()> {
        self.write_out(&mut self.changes.lock())?;
        self.below.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        check_transfer(self, Operation::Discard, offset, length)
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue + '_>> {
        Ok(Box::new(Immediate::new(self, depth)))
    }
}
