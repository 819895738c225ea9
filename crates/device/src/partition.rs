//! A contiguous part of a device as a device of its own.

use crate::placed::{Placed, PlacedQueue};
use crate::{Device, Error, Operation, Queue, Result, Sectors, check_transfer};
use std::sync::Arc;

/// A window on a device: offset `start` there is offset 0 here, and nothing outside the window can be reached.
pub struct Partition {
    device: Arc<dyn Device>,
    name: String,
    start: u64,
    length: u64,
    sectors: Sectors,
}

impl Partition {
    /// The `length` bytes from `start` of a device, called `name`.
    ///
    /// # Errors
    /// [`Error::Unusable`] if the range is not whole sectors inside the device.
    pub fn new(device: Arc<dyn Device>, start: u64, length: u64, name: String) -> Result<Partition> {
        let unusable = |reason| Error::Unusable { device: name.as_str().into(), reason };
        let sector = u64::from(device.sectors().logical);
        if !start.is_multiple_of(sector) || !length.is_multiple_of(sector) {
            let reason = format!("{length} bytes from {start} on are not whole {sector}-byte sectors");
            return Err(unusable(reason));
        }
        if start.checked_add(length).is_none_or(|end| end > device.len()) {
            let size = device.len();
            return Err(unusable(format!(
                "{length} bytes from {start} on reach past the end of the device at {size} bytes"
            )));
        }
        Ok(Partition { sectors: device.sectors(), device, name, start, length })
    }

    /// The same for a device that may have been truncated, so that the range may reach past its end: then the partition
    /// is read-only, and nothing behind [`Device::end`] can be read.
    ///
    /// # Errors
    /// [`Error::Unusable`] if the range is not whole sectors, or begins behind the end of the device.
    pub fn reaching(device: Arc<dyn Device>, start: u64, length: u64, name: String) -> Result<Partition> {
        let there = length.min(device.len().saturating_sub(start));
        let is_possible = there > 0 && start.checked_add(length).is_some();
        let sector = u64::from(device.sectors().logical);
        if there == length || !is_possible || !length.is_multiple_of(sector) {
            return Partition::new(device, start, length, name);
        }
        Ok(Partition { length, ..Partition::new(device, start, there, name)? })
    }

    /// The same partition as a device with logical sectors of at least this size in bytes, a power of two: those of the
    /// disk of which the device is an image. The partition must lie in whole ones of them.
    pub fn with_sectors(self, logical: u32) -> Partition {
        let Sectors { logical: below, physical } = self.sectors;
        let logical = logical.max(below);
        Partition { sectors: Sectors { logical, physical: physical.max(logical) }, ..self }
    }

    fn writable(&self) -> Result<()> {
        match self.end() < self.length {
            true => Err(Error::ReadOnly { device: self.name.as_str().into() }),
            false => Ok(()),
        }
    }

    fn shifted(&self, offset: u64, operation: Operation, length: u64) -> Result<u64> {
        check_transfer(self, operation, offset, length)?;
        Ok(self.start + offset)
    }
}

impl Placed for Partition {
    fn pieces(&self, offset: u64, length: u64) -> impl Iterator<Item = (u64, u64, u64)> {
        std::iter::once((self.start + offset, 0, length))
    }
}

impl Device for Partition {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> u64 {
        self.length
    }

    fn sectors(&self) -> Sectors {
        self.sectors
    }

    fn below(&self) -> Option<&dyn Device> {
        Some(&*self.device)
    }

    fn end(&self) -> u64 {
        self.device.end().saturating_sub(self.start).min(self.length)
    }

    fn read_only(&self) -> bool {
        self.device.read_only() || self.end() < self.length
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.device.read_at(self.shifted(offset, Operation::Read, buffer.len() as u64)?, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.writable()?;
        self.device.write_at(self.shifted(offset, Operation::Write, data.len() as u64)?, data)
    }

    fn start(&self) -> u64 {
        self.device.start().saturating_add(self.start)
    }

    fn next_data(&self, offset: u64) -> u64 {
        if offset >= self.end() {
            // What was behind the end of a truncated device is unknown.
            return offset.min(self.length);
        }
        (self.device.next_data(self.start + offset) - self.start).min(self.length)
    }

    fn read_batch(&self, reads: &mut [(u64, &mut [u8])]) -> Result<()> {
        let mut moved = Vec::with_capacity(reads.len());
        for (offset, buffer) in reads {
            moved.push((self.shifted(*offset, Operation::Read, buffer.len() as u64)?, &mut **buffer));
        }
        self.device.read_batch(&mut moved)
    }

    fn write_batch(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        self.writable()?;
        let mut moved = Vec::with_capacity(writes.len());
        for &(offset, data) in writes {
            moved.push((self.shifted(offset, Operation::Write, data.len() as u64)?, data));
        }
        self.device.write_batch(&moved)
    }

    fn read_copy(&self, copy: usize, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let offset = self.shifted(offset, Operation::Read, buffer.len() as u64)?;
        self.device.read_copy(copy, offset, buffer)
    }

    fn repair_copy(&self, copy: usize, offset: u64, data: &[u8]) -> Result<()> {
        self.writable()?;
        let offset = self.shifted(offset, Operation::Write, data.len() as u64)?;
        self.device.repair_copy(copy, offset, data)
    }

    fn flush(&self) -> Result<()> {
        self.device.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        self.writable()?;
        self.device.discard(self.shifted(offset, Operation::Discard, length)?, length)
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue + '_>> {
        let below = self.device.queue(depth)?;
        Ok(Box::new(PlacedQueue::new(self, below, depth)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Buffer, Kind, MemoryDevice, Request, Segment};
    use smallvec::smallvec;

    fn window() -> (Arc<MemoryDevice>, Partition) {
        let device = Arc::new(MemoryDevice::new(64 << 10, Sectors::SMALL));
        let partition = Partition::new(device.clone(), 8192, 4096, "part".into()).unwrap();
        (device, partition)
    }

    #[test]
    fn a_window_on_a_device_that_was_cut_off_is_read_as_far_as_it_goes() {
        let device = Arc::new(MemoryDevice::new(16 << 10, Sectors::SMALL));
        device.write_at(8192, &[7; 512]).unwrap();
        let reach = |start, length| Partition::reaching(device.clone(), start, length, "part".into());
        let whole = reach(8192, 8192).unwrap();
        assert_eq!((whole.len(), whole.end(), whole.read_only()), (8192, 8192, false));
        let cut = reach(8192, 1 << 20).unwrap();
        assert_eq!((cut.len(), cut.end(), cut.read_only()), (1 << 20, 8192, true));
        let mut sector = [0; 512];
        cut.read_at(0, &mut sector).unwrap();
        assert_eq!(sector, [7; 512]);
        assert!(matches!(cut.read_at(8192, &mut sector), Err(Error::OutOfRange { size: 16384, .. })));
        assert!(matches!(cut.write_at(0, &sector), Err(Error::ReadOnly { .. })));
        assert_eq!([0, 8192, 65536, 2 << 20].map(|at| cut.next_data(at)), [0, 8192, 65536, 1 << 20]);
        assert!(reach(16 << 10, 512).is_err() && reach(8192, 1 << 20 | 1).is_err());
        assert!(reach(8192, u64::MAX - 511).is_err());
    }

    #[test]
    fn shifts_every_way_in() {
        let (device, partition) = window();
        partition.write_at(512, &[1; 512]).unwrap();
        partition.write_batch(&[(1024, &[2; 512]), (2048, &[3; 512])]).unwrap();
        let mut queue = partition.queue(2).unwrap();
        let segments = smallvec![Segment { offset: 3072, at: 0, length: 512 }];
        let buffer = Buffer::from(&[4; 512][..]);
        queue.submit(Request { tag: 5, kind: Kind::Write, durable: false, segments, buffer });
        let mut done = Vec::new();
        queue.wait(1, &mut done).unwrap();
        assert_eq!((done[0].tag, done[0].segments[0].offset), (5, 3072));
        let image = device.to_image();
        assert_eq!([8704, 9216, 10240, 11264].map(|at| image[at]), [1, 2, 3, 4]);
        assert_eq!(image.iter().filter(|&&byte| byte != 0).count(), 4 * 512);

        let (mut one, mut two) = ([0; 512], [0; 512]);
        partition.read_batch(&mut [(3072, &mut one), (512, &mut two)]).unwrap();
        assert_eq!((one[0], two[0]), (4, 1));
        partition.discard(0, 4096).unwrap();
        assert!(device.to_image().iter().all(|&byte| byte == 0));
    }

    #[test]
    fn the_start_counts_from_the_disk() {
        let (device, partition) = window();
        assert_eq!((device.start(), partition.start()), (0, 8192));
        let inner = Partition::new(Arc::new(partition), 512, 512, "part of a part".into()).unwrap();
        assert_eq!(inner.start(), 8704);
    }

    #[test]
    fn sectors_can_be_those_of_the_disk_of_which_the_device_is_an_image() {
        let [larger, same] = [4096, 512].map(|logical| window().1.with_sectors(logical).sectors());
        assert_eq!((larger, same), (Sectors::LARGE, Sectors::SMALL));
    }

    #[test]
    fn nothing_outside_can_be_reached() {
        let (device, partition) = window();
        assert!(partition.read_at(4096, &mut [0; 512]).is_err());
        assert!(partition.write_at(3584, &[9; 1024]).is_err());
        assert!(partition.write_batch(&[(0, &[9; 512]), (u64::MAX - 511, &[9; 512])]).is_err());
        assert!(partition.discard(u64::MAX - 511, 512).is_err());
        let mut queue = partition.queue(2).unwrap();
        for (tag, offset) in [(0, 4096), (1, 0)] {
            let segments = smallvec![Segment { offset, at: 0, length: 512 }];
            let buffer = Buffer::from(&[9; 512][..]);
            queue.submit(Request { tag, kind: Kind::Write, durable: false, segments, buffer });
        }
        assert_eq!(queue.in_flight(), 2);
        let mut done = Vec::new();
        queue.wait(2, &mut done).unwrap();
        let mut outcome: Vec<_> = done.iter().map(|each| (each.tag, each.result.is_ok())).collect();
        outcome.sort();
        assert_eq!(outcome, [(0, false), (1, true)]);
        assert_eq!(queue.in_flight(), 0);
        assert_eq!(device.to_image().iter().filter(|&&byte| byte == 9).count(), 512);
    }

    #[test]
    fn a_window_must_lie_inside_in_whole_sectors() {
        let device: Arc<dyn Device> = Arc::new(MemoryDevice::new(64 << 10, Sectors::LARGE));
        for (start, length) in [(512, 4096), (4096, 512), (0, 128 << 10), (u64::MAX - 4095, 8192)] {
            assert!(
                Partition::new(device.clone(), start, length, "part".into()).is_err(),
                "{start}+{length}"
            );
        }
    }
}
