//! A device whose first sector cannot be read.

use crate::{Device, Error, Queue, Result, Sectors};
use std::borrow::Cow;
use std::sync::Arc;

/// The size of the physical sectors of most disks, in bytes.
const PHYSICAL: usize = 4096;

// The sector of a disk with 4096 bytes is blanked as a whole.
const _: () = assert!(PHYSICAL >= 4096);

/// A device of which the first sector reads as zeroes while it cannot be read.
///
/// File systems keep a copy of their first sector, or of what it holds. A sector that cannot be read is then no more
/// than one that was overwritten, and is put back from the copy in the same way: a disk replaces a bad sector when it
/// is written to. Everything else is passed on to the device below, so an error of any other sector stays an error.
///
/// Disks that name sectors of 512 bytes often have physical sectors of 4 KiB, lose all of one at once, and replace it
/// only when it is written to as a whole. So if nothing else of the first 4 KiB can be read either, a write to the
/// first sector writes zeroes to the rest of them.
pub struct BlankFirstSector {
    below: Arc<dyn Device>,
}

impl BlankFirstSector {
    /// Returns the error of reading the first sector, if that is what keeps it from being read; `None` also for a
    /// device without sectors.
    pub fn fault(device: &dyn Device) -> Option<Error> {
        let sector = u64::from(device.sectors().logical);
        if device.end() < sector {
            return None;
        }
        let read = device.read_at(0, &mut vec![0; sector as usize]);
        read.err().filter(|error| matches!(error, Error::Io { .. }))
    }

    /// Returns `data`, which is to be written from the start of the device on, followed by zeroes up to [`PHYSICAL`] if
    /// nothing from the end of `data` up to there can be read.
    fn with_lost_sectors<'d>(&self, data: &'d [u8]) -> Cow<'d, [u8]> {
        let sector = self.sectors().logical as usize;
        let is_lost =
            |at: usize| matches!(self.below.read_at(at as u64, &mut vec![0; sector]), Err(Error::Io { .. }));
        if data.len() >= PHYSICAL
            || self.end() < PHYSICAL as u64
            || !(0..PHYSICAL).step_by(sector).filter(|at| *at == 0 || *at >= data.len()).all(is_lost)
        {
            return Cow::Borrowed(data);
        }
        let mut all = vec![0; PHYSICAL];
        all[..data.len()].copy_from_slice(data);
        Cow::Owned(all)
    }

    /// The device `below`, with zeroes in place of a first sector that cannot be read.
    pub fn new(below: Arc<dyn Device>) -> BlankFirstSector {
        BlankFirstSector { below }
    }

    /// Fills `buffer` by `read`; if that fails, again without the first sector, which is zeroed if it fails by itself.
    fn read_around(
        &self,
        offset: u64,
        buffer: &mut [u8],
        read: impl Fn(u64, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        match read(offset, buffer) {
            Err(Error::Io { .. }) if offset == 0 => {
                let (first, rest) = buffer.split_at_mut(self.sectors().logical as usize);
                match read(0, first) {
                    Err(Error::Io { .. }) => first.fill(0),
                    done => done?,
                }
                if rest.is_empty() { Ok(()) } else { read(first.len() as u64, rest) }
            }
            done => done,
        }
    }
}

impl Device for BlankFirstSector {
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
        self.read_around(offset, buffer, |offset, buffer| self.below.read_at(offset, buffer))
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        match offset {
            0 => self.below.write_at(0, &self.with_lost_sectors(data)),
            _ => self.below.write_at(offset, data),
        }
    }

    fn read_batch(&self, reads: &mut [(u64, &mut [u8])]) -> Result<()> {
        match reads.iter().all(|(offset, _)| *offset != 0) {
            true => self.below.read_batch(reads),
            false => reads.iter_mut().try_for_each(|(offset, buffer)| self.read_at(*offset, buffer)),
        }
    }

    fn write_batch(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        match writes.iter().all(|(offset, _)| *offset != 0) {
            true => self.below.write_batch(writes),
            false => writes.iter().try_for_each(|(offset, data)| self.write_at(*offset, data)),
        }
    }

    fn read_copy(&self, copy: usize, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.read_around(offset, buffer, |offset, buffer| self.below.read_copy(copy, offset, buffer))
    }

    fn flush(&self) -> Result<()> {
        self.below.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        self.below.discard(offset, length)
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue + '_>> {
        self.below.queue(depth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fault, Faults, MemoryDevice, Operation, When};

    #[test]
    fn only_the_first_sector_reads_as_zeroes() {
        let memory = Arc::new(MemoryDevice::new(8192, Sectors::SMALL));
        memory.write_at(0, &[7; 8192]).unwrap();
        assert!(BlankFirstSector::fault(&*memory).is_none());
        let bad = |range| {
            let faults = Faults::new(memory.clone(), 1);
            faults.inject(When::within(Operation::Read, range), Fault::Fail);
            Arc::new(faults)
        };
        let first = bad(0..512);
        assert!(BlankFirstSector::fault(&*first).is_some());
        let device = BlankFirstSector::new(first);
        let mut read = [1; 2048];
        device.read_at(0, &mut read).unwrap();
        assert!(read[..512] == [0; 512] && read[512..] == [7; 1536]);
        let (mut one, mut two) = ([1; 1024], [1; 512]);
        device.read_batch(&mut [(4096, &mut two), (0, &mut one)]).unwrap();
        assert!(one[..512] == [0; 512] && one[512..] == [7; 512] && two == [7; 512]);
        device.read_copy(0, 0, &mut one).unwrap();
        assert_eq!(one[..512], [0; 512]);

        let more = bad(0..1024);
        assert!(BlankFirstSector::fault(&*more).is_some());
        let device = BlankFirstSector::new(more);
        device.read_at(0, &mut two).unwrap();
        assert!(matches!(device.read_at(0, &mut one), Err(Error::Io { .. })));
        assert!(matches!(device.read_at(512, &mut two), Err(Error::Io { .. })));
        assert!(BlankFirstSector::fault(&*bad(512..1024)).is_none());
    }
}
