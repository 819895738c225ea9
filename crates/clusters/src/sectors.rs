//! Reading a volume in smaller sectors than those of the device that it is on.
//!
//! A disk with sectors of 4,096 bytes that show as sectors of 512 bytes behind one USB bridge may show as they are behind
//! another. A volume that was made in the small sectors then has tables, directories and clusters that begin inside a
//! sector of the device.

use platter_device::{Device, Error, Immediate, Operation, Queue, Result, Sectors, check_transfer, read_any};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

/// A device that is read in sectors of `sector` bytes, although its own are larger. It is read-only: a write of such a
/// sector would write those beside it too, and a power cut could destroy them.
pub struct SmallSectors<D> {
    device: D,
    sector: u32,
}

/// Returns a device whose sectors have at most `sector` bytes: this one, or this one for reading only.
pub fn in_sectors_of(device: Arc<dyn Device>, sector: u32) -> Arc<dyn Device> {
    if device.sectors().logical <= sector { device } else { Arc::new(SmallSectors { device, sector }) }
}

impl<D> SmallSectors<D> {
    /// The device, to be read in sectors of `sector` bytes, a power of two that is not larger than its own.
    pub fn new(device: D, sector: u32) -> SmallSectors<D> {
        SmallSectors { device, sector }
    }
}

impl<D: Deref<Target: Device> + Send + Sync> Device for SmallSectors<D> {
    fn name(&self) -> &str {
        self.device.name()
    }

    fn len(&self) -> u64 {
        self.device.len()
    }

    fn sectors(&self) -> Sectors {
        Sectors { logical: self.sector, physical: self.device.sectors().physical }
    }

    fn end(&self) -> u64 {
        self.device.end()
    }

    fn read_only(&self) -> bool {
        true
    }

    fn why_read_only(&self) -> Option<String> {
        let (ours, theirs) = (self.sector, self.device.sectors().logical);
        let why = || {
            format!(
                "the volume has sectors of {ours} bytes, and the device it is on larger ones, of {theirs}"
            )
        };
        Some(self.device.why_read_only().unwrap_or_else(why))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        check_transfer(self, Operation::Read, offset, buffer.len() as u64)?;
        read_any(&*self.device, offset, buffer)
    }

    fn write_at(&self, _offset: u64, _data: &[u8]) -> Result<()> {
        Err(Error::ReadOnly { device: self.name().into() })
    }

    fn start(&self) -> u64 {
        self.device.start()
    }

    fn next_data(&self, offset: u64) -> u64 {
        self.device.next_data(offset)
    }

    fn flush(&self) -> Result<()> {
        self.device.flush()
    }

    fn discard(&self, _offset: u64, _length: u64) -> Result<()> {
        Err(Error::ReadOnly { device: self.name().into() })
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue + '_>> {
        Ok(Box::new(Immediate::new(self, depth)))
    }

    fn now(&self) -> Duration {
        self.device.now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_device::MemoryDevice;

    #[test]
    fn reads_parts_of_sectors_and_writes_nothing() {
        let image: Vec<u8> = (0..4 * 4096_u32).map(|at| (at / 512) as u8).collect();
        let large: Arc<dyn Device> = Arc::new(MemoryDevice::from_image(&image, Sectors::LARGE));
        let small = in_sectors_of(large.clone(), 512);
        assert_eq!(small.sectors(), Sectors { logical: 512, physical: 4096 });
        for (offset, length) in [(0, 4096), (512, 512), (3584, 1024), (4096, 8192), (1536, 12_288)] {
            let mut found = vec![0; length];
            small.read_at(offset, &mut found).unwrap();
            assert_eq!(found, image[offset as usize..][..length], "{offset} {length}");
        }
        assert!(matches!(small.read_at(100, &mut [0; 512]), Err(Error::Misaligned { .. })));
        assert!(matches!(small.read_at(4 * 4096, &mut [0; 512]), Err(Error::OutOfRange { .. })));
        assert!(matches!(small.write_at(0, &[0; 4096]), Err(Error::ReadOnly { .. })));
        assert!(matches!(small.discard(0, 4096), Err(Error::ReadOnly { .. })));
        let why = small.why_read_only().unwrap();
        assert!(why.contains("512") && why.contains("4096"), "{why}");
        // A device with sectors as small as these is left as it is.
        assert!(Arc::ptr_eq(&in_sectors_of(large.clone(), 4096), &large));
    }
}
