//! A device that remembers what was read from it.

use platter_device::{Device, Error, Immediate, Queue, Result, Sectors};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// A device that can only be read, and keeps a checksum of every piece that was read.
pub(crate) struct Overheard {
    below: Arc<dyn Device>,
    /// The CRC-32 of each transfer, by its offset and length.
    read: Mutex<BTreeMap<(u64, usize), u32>>,
}

impl Overheard {
    /// The most transfers that are remembered, about 40 MB of memory: far more than it takes to open a volume.
    const MOST: usize = 1 << 20;

    /// A device of which nothing was read yet.
    pub(crate) fn new(below: Arc<dyn Device>) -> Overheard {
        Overheard { below, read: Mutex::default() }
    }

    /// A checksum of all that was read, whatever the order.
    pub(crate) fn sum(&self) -> u64 {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        // FNV-1a: the checksums of the pieces are good already, and only have to be brought together.
        const START: u64 = 0xCBF2_9CE4_8422_2325;
        const PRIME: u64 = 0x0100_0000_01B3;
        let words = read.iter().flat_map(|((at, length), crc)| [*at, *length as u64, u64::from(*crc)]);
        let bytes = words.flat_map(u64::to_le_bytes);
        bytes.fold(START, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(PRIME))
    }

    fn note(&self, offset: u64, data: &[u8]) {
        let crc = crc32fast::hash(data);
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if read.len() < Overheard::MOST {
            read.insert((offset, data.len()), crc);
        }
    }
}

impl Device for Overheard {
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
    fn read_only(&self) -> bool {
        true
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.below.read_at(offset, buffer)?;
        self.note(offset, buffer);
        Ok(())
    }
    fn read_copy(&self, copy: usize, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.below.read_copy(copy, offset, buffer)?;
        self.note(offset, buffer);
        Ok(())
    }

    fn write_at(&self, _offset: u64, _data: &[u8]) -> Result<()> {
        Err(Error::ReadOnly { device: self.name().into() })
    }
    fn flush(&self) -> Result<()> {
        Ok(())
    }
    fn discard(&self, _offset: u64, _length: u64) -> Result<()> {
        Ok(())
    }
    fn queue(&self, depth: usize) -> Result<Box<dyn Queue + '_>> {
        Ok(Box::new(Immediate::new(self, depth)))
    }
}
