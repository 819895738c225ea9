//! A file with changes that are not in it: those of a log, for a reader that changes nothing.

use platter_device::{
    Device, Error, Growing, Immediate, Operation, Queue, Result, Sectors, check_transfer, read_any,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The bytes that a change of data has.
const SECTOR: u64 = 4096;

/// A change of a file.
#[derive(Debug)]
pub(crate) enum Update {
    /// New content of the sector at this offset, a multiple of its size.
    Data(u64, Box<[u8; SECTOR as usize]>),
    /// Zeroes: the offset and the length, whole sectors.
    Zero(u64, u64),
}

impl Update {
    /// Offset and length.
    pub(crate) fn range(&self) -> (u64, u64) {
        match self {
            Update::Data(offset, _) => (*offset, SECTOR),
            Update::Zero(offset, length) => (*offset, *length),
        }
    }
}

/// A file as it is with changes that only memory has.
pub(crate) struct Replayed {
    file: Arc<dyn Growing>,
    length: u64,
    /// Ranges of zeroes, in which content may be newer.
    zeroes: Vec<(u64, u64)>,
    sectors: BTreeMap<u64, Box<[u8; SECTOR as usize]>>,
}

impl Replayed {
    /// The file with these changes, in their order, and at least `length` bytes long; what it does not have reads as
    /// zeroes.
    pub(crate) fn new(file: Arc<dyn Growing>, updates: Vec<Update>, length: u64) -> Replayed {
        let mut zeroes = Vec::new();
        let mut sectors: BTreeMap<u64, Box<[u8; SECTOR as usize]>> = BTreeMap::new();
        for update in updates {
            match update {
                Update::Data(offset, content) => drop(sectors.insert(offset, content)),
                Update::Zero(offset, length) => {
                    let older: Vec<u64> = sectors.range(offset..offset + length).map(|(at, _)| *at).collect();
                    older.iter().for_each(|at| drop(sectors.remove(at)));
                    zeroes.push((offset, length));
                }
            }
        }
        let sector = u64::from(file.sectors().logical);
        Replayed { length: length.max(file.len()) / sector * sector, file, zeroes, sectors }
    }
}

impl Device for Replayed {
    fn name(&self) -> &str {
        self.file.name()
    }

    fn len(&self) -> u64 {
        self.length
    }

    fn sectors(&self) -> Sectors {
        self.file.sectors()
    }

    fn read_only(&self) -> bool {
        true
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        check_transfer(self, Operation::Read, offset, buffer.len() as u64)?;
        let end = offset + buffer.len() as u64;
        let there = self.file.len().clamp(offset, end) - offset;
        let (inside, behind) = buffer.split_at_mut(there as usize);
        behind.fill(0);
        if !inside.is_empty() {
            read_any(&*self.file, offset, inside)?;
        }
        for (start, length) in &self.zeroes {
            let (from, to) = (offset.max(*start), end.min(start + length));
            if from < to {
                buffer[(from - offset) as usize..(to - offset) as usize].fill(0);
            }
        }
        for (start, content) in self.sectors.range(offset.saturating_sub(SECTOR - 1)..end) {
            let (from, to) = (offset.max(*start), end.min(start + SECTOR));
            buffer[(from - offset) as usize..(to - offset) as usize]
                .copy_from_slice(&content[(from - start) as usize..(to - start) as usize]);
        }
        Ok(())
    }

    fn write_at(&self, _offset: u64, _data: &[u8]) -> Result<()> {
        Err(Error::ReadOnly { device: self.name().into() })
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn discard(&self, _offset: u64, _length: u64) -> Result<()> {
        Err(Error::ReadOnly { device: self.name().into() })
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue + '_>> {
        Ok(Box::new(Immediate::new(self, depth)))
    }

    fn now(&self) -> Duration {
        self.file.now()
    }
}

impl Growing for Replayed {
    fn grow(&self, _length: u64) -> Result<()> {
        Err(Error::ReadOnly { device: self.name().into() })
    }
}
