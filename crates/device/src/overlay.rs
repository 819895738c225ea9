//! Overlays: writable copies of a device that share all unchanged sectors with it.

use crate::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use crate::{Device, Immediate, Operation, Queue, Result, Sectors, check_copy, check_transfer};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A device that keeps written sectors in memory and reads all others from the device below.
///
/// Making an overlay costs nothing, so a test can start thousands of runs from one formatted image. The device below
/// must not change meanwhile. A discard zeroes the kept sectors in its range and leaves all others as they are. The
/// copies of the device below stay distinct only where nothing was written; a repair is a write like any other, and
/// reads the same from every copy.
pub struct OverlayDevice {
    below: Arc<dyn Device>,
    /// The written sectors, by the number of the logical sector.
    written: RwLock<BTreeMap<u64, Box<[u8]>>>,
}

impl OverlayDevice {
    /// An overlay over `below` with nothing written yet.
    pub fn new(below: Arc<dyn Device>) -> OverlayDevice {
        OverlayDevice::with_written(below, BTreeMap::new())
    }

    /// An overlay over `below` in which these logical sectors, by their numbers, are already written.
    pub(crate) fn with_written(below: Arc<dyn Device>, written: BTreeMap<u64, Box<[u8]>>) -> OverlayDevice {
        OverlayDevice { below, written: RwLock::new(written) }
    }

    /// A copy of everything on the device.
    ///
    /// # Errors
    /// The errors of reading the device below.
    pub fn to_image(&self) -> Result<Vec<u8>> {
        let mut image = vec![0; usize::try_from(self.len()).expect("an image fits the address space")];
        self.read_at(0, &mut image)?;
        Ok(image)
    }

    /// The number of bytes that this overlay keeps in memory.
    pub fn kept(&self) -> u64 {
        self.read_lock().len() as u64 * u64::from(self.sectors().logical)
    }

    fn read_lock(&self) -> RwLockReadGuard<'_, BTreeMap<u64, Box<[u8]>>> {
        self.written.read()
    }

    fn write_lock(&self) -> RwLockWriteGuard<'_, BTreeMap<u64, Box<[u8]>>> {
        self.written.write()
    }

    /// Fills `buffer` by calling `below`, and replaces the sectors that were written here.
    fn read_over(
        &self,
        offset: u64,
        buffer: &mut [u8],
        below: impl Fn(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        check_transfer(self, Operation::Read, offset, buffer.len() as u64)?;
        let written = self.read_lock();
        below(buffer)?;
        let sector = self.sectors().logical as usize;
        let first = offset / sector as u64;
        for (number, data) in written.range(first..first + (buffer.len() / sector) as u64) {
            let at = (number - first) as usize * sector;
            buffer[at..at + sector].copy_from_slice(data);
        }
        Ok(())
    }
}

impl Device for OverlayDevice {
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

    /// What is written stays here, so the device below need not be writable.
    fn read_only(&self) -> bool {
        false
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.read_over(offset, buffer, |buffer| self.below.read_at(offset, buffer))
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        check_transfer(self, Operation::Write, offset, data.len() as u64)?;
        let sector = self.sectors().logical as usize;
        let mut written = self.write_lock();
        for (number, source) in (offset / sector as u64..).zip(data.chunks_exact(sector)) {
            written.insert(number, source.into());
        }
        Ok(())
    }

    fn read_copy(&self, copy: usize, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.read_over(offset, buffer, |buffer| self.below.read_copy(copy, offset, buffer))
    }

    /// Writes here: the device below is shared with others.
    fn repair_copy(&self, copy: usize, offset: u64, data: &[u8]) -> Result<()> {
        check_copy(self.name(), copy, self.copies())?;
        self.write_at(offset, data)
    }

    fn next_data(&self, offset: u64) -> u64 {
        let sector = u64::from(self.sectors().logical);
        let first = offset.div_ceil(sector);
        let written = self.read_lock().range(first..).next().map(|(number, _)| number * sector);
        let below = self.below.next_data(offset);
        written.map_or(below, |written| written.min(below))
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        check_transfer(self, Operation::Discard, offset, length)?;
        // Only sectors of this overlay can be discarded: the device below is shared with others.
        let sector = u64::from(self.sectors().logical);
        let range = offset / sector..(offset + length) / sector;
        let mut written = self.write_lock();
        written.range_mut(range).for_each(|(_, data)| data.fill(0));
        Ok(())
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
    fn keeps_its_writes_to_itself() {
        let below = Arc::new(MemoryDevice::new(64 << 10, Sectors::SMALL));
        below.write_at(512, &[1; 1024]).unwrap();
        let (one, two) = (OverlayDevice::new(below.clone()), OverlayDevice::new(below.clone()));
        one.write_at(1024, &[2; 1024]).unwrap();
        let image = one.to_image().unwrap();
        assert_eq!((image[511], image[512], image[1024], image[2047], image[2048]), (0, 1, 2, 2, 0));
        assert_eq!(one.kept(), 1024);
        assert!(two.to_image().unwrap() == below.to_image());
        assert_eq!(below.to_image()[1024], 1);
    }

    #[test]
    fn refuses_what_the_contract_refuses() {
        let overlay = OverlayDevice::new(Arc::new(MemoryDevice::new(8192, Sectors::LARGE)));
        assert!(overlay.write_at(512, &[0; 4096]).is_err());
        assert!(overlay.write_at(8192, &[0; 4096]).is_err());
        assert!(overlay.read_at(0, &mut [0; 512]).is_err());
        assert!(overlay.discard(4096, 8192).is_err());
    }
}
