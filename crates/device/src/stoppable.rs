//! A device that refuses every transfer once somebody asks for the end.

use crate::{Device, Error, Immediate, Queue, Result, Sectors};
use std::sync::atomic::{AtomicBool, Ordering};

/// A device that can be taken away from a long operation: from the moment at which `is_asked` says so, every transfer,
/// flush and discard fails with [`Error::Stopped`], as if the device had been pulled out. So the device holds what it
/// would after a power cut, and the operation ends soon, wherever it is. What it returns must not be used then:
/// [`Stoppable::has_refused`].
pub struct Stoppable<'d> {
    below: &'d dyn Device,
    is_asked: &'d (dyn Fn() -> bool + Sync),
    has_refused: AtomicBool,
}

impl<'d> Stoppable<'d> {
    /// A device that passes everything on to `below` as long as `is_asked` returns false.
    pub fn new(below: &'d dyn Device, is_asked: &'d (dyn Fn() -> bool + Sync)) -> Stoppable<'d> {
        Stoppable { below, is_asked, has_refused: AtomicBool::new(false) }
    }

    /// Whether a transfer was refused.
    pub fn has_refused(&self) -> bool {
        self.has_refused.load(Ordering::SeqCst)
    }

    /// Fails once the end was asked for: one write that is refused must not be followed by one that is not.
    fn goes_on(&self) -> Result<()> {
        if self.has_refused() || (self.is_asked)() {
            self.has_refused.store(true, Ordering::SeqCst);
            return Err(Error::Stopped { device: self.name().into() });
        }
        Ok(())
    }
}

impl Device for Stoppable<'_> {
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
        Some(self.below)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.goes_on()?;
        self.below.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.goes_on()?;
        self.below.write_at(offset, data)
    }

    fn read_batch(&self, reads: &mut [(u64, &mut [u8])]) -> Result<()> {
        self.goes_on()?;
        self.below.read_batch(reads)
    }

    fn write_batch(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        self.goes_on()?;
        self.below.write_batch(writes)
    }

    fn read_copy(&self, copy: usize, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.goes_on()?;
        self.below.read_copy(copy, offset, buffer)
    }

    fn repair_copy(&self, copy: usize, offset: u64, data: &[u8]) -> Result<()> {
        self.goes_on()?;
        self.below.repair_copy(copy, offset, data)
    }

    fn flush(&self) -> Result<()> {
        self.goes_on()?;
        self.below.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        self.goes_on()?;
        self.below.discard(offset, length)
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue + '_>> {
        Ok(Box::new(Immediate::new(self, depth)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDevice;

    #[test]
    fn nothing_is_transferred_once_the_end_was_asked_for() {
        let memory = MemoryDevice::new(1 << 20, Sectors::SMALL);
        let asked = AtomicBool::new(false);
        let is_asked = || asked.load(Ordering::Relaxed);
        let device = Stoppable::new(&memory, &is_asked);
        let mut sector = [0; 512];
        device.write_at(0, &[1; 512]).unwrap();
        asked.store(true, Ordering::Relaxed);
        assert!(!device.has_refused());
        assert!(matches!(device.write_at(0, &[2; 512]), Err(Error::Stopped { .. })) && device.has_refused());
        // Not even if the wish is withdrawn.
        asked.store(false, Ordering::Relaxed);
        assert!(device.read_at(0, &mut sector).is_err() && device.flush().is_err());
        assert!(device.write_batch(&[(512, &[3; 512])]).is_err());
        memory.read_at(0, &mut sector).unwrap();
        assert_eq!(sector, [1; 512]);
    }
}
