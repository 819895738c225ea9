//! A device in memory.

use crate::sync::RwLock;
use crate::{Device, Error, Immediate, Operation, Queue, Result, Sectors, check_transfer};

/// Bytes per lock: large enough that one lock covers nearly every transfer, small enough that threads rarely contend.
const CHUNK: usize = 1 << 20;

// Transfers are whole sectors, of which none is larger than 4096 bytes.
const _: () = assert!(CHUNK.is_multiple_of(4096));

/// A device whose sectors are in memory. Memory is allocated chunk by chunk as it is written, unless the device is
/// [`MemoryDevice::provided`]; what was never written, or was discarded, reads as zeroes.
pub struct MemoryDevice {
    name: String,
    length: u64,
    sectors: Sectors,
    /// Whether chunks are freed when they are discarded.
    is_thin: bool,
    chunks: Vec<RwLock<Option<Box<[u8]>>>>,
}

impl MemoryDevice {
    /// A device of `length` bytes, all zero, rounded up to whole sectors.
    pub fn new(length: u64, sectors: Sectors) -> MemoryDevice {
        let length = length.next_multiple_of(u64::from(sectors.logical));
        let count =
            usize::try_from(length.div_ceil(CHUNK as u64)).expect("a memory device fits the address space");
        let chunks = std::iter::repeat_with(RwLock::default).take(count).collect();
        MemoryDevice { name: format!("mem:{length}"), length, sectors, is_thin: true, chunks }
    }

    /// A device that allocates all its memory at once and keeps it, for measurements: the first write to a place then
    /// costs no more than later ones.
    pub fn provided(length: u64, sectors: Sectors) -> MemoryDevice {
        let device = MemoryDevice { is_thin: false, ..MemoryDevice::new(length, sectors) };
        for chunk in &device.chunks {
            let mut slot = chunk.write();
            // The system allocates a zeroed page only at the first write to it, so one byte of each 512 is written
            // here.
            chunk_of(&mut slot).chunks_mut(512).for_each(|sector| sector[0] = std::hint::black_box(0));
        }
        device
    }

    /// A device that holds `image`, padded with zeroes to whole sectors.
    pub fn from_image(image: &[u8], sectors: Sectors) -> MemoryDevice {
        let device = MemoryDevice::new(image.len() as u64, sectors);
        device.pieces(0, image.len(), |chunk, range, at| {
            chunk_of(&mut chunk.write())[range.clone()].copy_from_slice(&image[at..at + range.len()]);
        });
        device
    }

    /// A copy of everything on the device.
    pub fn to_image(&self) -> Vec<u8> {
        let mut image =
            vec![0; usize::try_from(self.length).expect("a memory device fits the address space")];
        self.copy_out(0, &mut image);
        image
    }

    /// Calls `each(chunk, range inside it, position in the transfer)` for every chunk a transfer touches.
    fn pieces(
        &self,
        offset: u64,
        length: usize,
        mut each: impl FnMut(&RwLock<Option<Box<[u8]>>>, std::ops::Range<usize>, usize),
    ) {
        let mut at = 0;
        while at < length {
            let position = offset as usize + at;
            let start = position % CHUNK;
            let size = (CHUNK - start).min(length - at);
            each(&self.chunks[position / CHUNK], start..start + size, at);
            at += size;
        }
    }

    fn copy_out(&self, offset: u64, buffer: &mut [u8]) {
        self.pieces(offset, buffer.len(), |chunk, range, at| {
            let target = &mut buffer[at..at + range.len()];
            match &*chunk.read() {
                Some(bytes) => target.copy_from_slice(&bytes[range]),
                None => target.fill(0),
            }
        });
    }
}

fn chunk_of(slot: &mut Option<Box<[u8]>>) -> &mut [u8] {
    slot.get_or_insert_with(|| vec![0; CHUNK].into_boxed_slice())
}

impl Device for MemoryDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> u64 {
        self.length
    }

    fn sectors(&self) -> Sectors {
        self.sectors
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        check_transfer(self, Operation::Read, offset, buffer.len() as u64)?;
        self.copy_out(offset, buffer);
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        check_transfer(self, Operation::Write, offset, data.len() as u64)?;
        self.pieces(offset, data.len(), |chunk, range, at| {
            let data = &data[at..at + range.len()];
            let mut chunk = chunk.write();
            // Writing zeroes to a chunk that has no memory allocates none.
            if chunk.is_some() || data.iter().any(|&byte| byte != 0) {
                chunk_of(&mut chunk)[range].copy_from_slice(data);
            }
        });
        Ok(())
    }

    fn next_data(&self, offset: u64) -> u64 {
        let first = (offset / CHUNK as u64) as usize;
        let is_there = |chunk: &RwLock<Option<_>>| chunk.read().is_some();
        match self.chunks.iter().skip(first).position(is_there) {
            Some(0) => offset.min(self.length),
            Some(further) => (first + further) as u64 * CHUNK as u64,
            None => self.length,
        }
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        check_transfer(self, Operation::Discard, offset, length)?;
        let length = usize::try_from(length).map_err(|_| Error::Unusable {
            device: self.name.as_str().into(),
            reason: format!("discard of {length} bytes does not fit the address space"),
        })?;
        self.pieces(offset, length, |chunk, range, _| {
            let mut slot = chunk.write();
            if range.len() == CHUNK && self.is_thin {
                *slot = None;
            } else if let Some(bytes) = slot.as_mut() {
                bytes[range].fill(0);
            }
        });
        Ok(())
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue + '_>> {
        Ok(Box::new(Immediate::new(self, depth)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Buffer, Kind, Request, Segment};
    use smallvec::smallvec;

    #[test]
    fn a_provided_device_forgets_what_is_discarded_too() {
        let device = MemoryDevice::provided(2 << 20, Sectors::SMALL);
        device.write_at(4096, &[7; 512]).unwrap();
        device.discard(0, 2 << 20).unwrap();
        assert!(device.to_image().iter().all(|&byte| byte == 0));
    }

    #[test]
    fn reads_back_what_was_written_across_chunks() {
        let device = MemoryDevice::new(4 << 20, Sectors::SMALL);
        let data: Vec<u8> = (0..CHUNK + 1024).map(|i| (i % 251) as u8).collect();
        device.write_at(CHUNK as u64 - 512, &data).unwrap();
        let mut back = vec![0; data.len()];
        device.read_at(CHUNK as u64 - 512, &mut back).unwrap();
        assert!(back == data);
        device.discard(0, 4 << 20).unwrap();
        device.read_at(CHUNK as u64 - 512, &mut back).unwrap();
        assert!(back.iter().all(|&byte| byte == 0));
    }

    #[test]
    fn tells_where_something_was_written() {
        let device = MemoryDevice::new(4 << 20, Sectors::SMALL);
        assert_eq!(device.next_data(512), 4 << 20);
        device.write_at(2 << 20, &[1; 512]).unwrap();
        assert_eq!([0, 512, 2 << 20].map(|from| device.next_data(from)), [2 << 20; 3]);
        assert_eq!(
            [(2 << 20) + 512, 3 << 20, 9 << 20].map(|from| device.next_data(from)),
            [(2 << 20) + 512, 4 << 20, 4 << 20]
        );
    }

    #[test]
    fn refuses_what_the_contract_refuses() {
        let device = MemoryDevice::new(1 << 20, Sectors::LARGE);
        assert!(matches!(device.read_at(512, &mut [0; 4096]), Err(Error::Misaligned { .. })));
        assert!(matches!(device.write_at(0, &[0; 100]), Err(Error::Misaligned { .. })));
        assert!(matches!(device.write_at(1 << 20, &[0; 4096]), Err(Error::OutOfRange { .. })));
        assert!(matches!(device.discard(u64::MAX - 4095, 4096), Err(Error::OutOfRange { .. })));
    }

    #[test]
    fn a_queue_gives_back_tag_and_buffer() {
        let device = MemoryDevice::new(1 << 20, Sectors::SMALL);
        let mut queue = device.queue(2).unwrap();
        let segments = smallvec![
            Segment { offset: 4096, at: 0, length: 512 },
            Segment { offset: 0, at: 512, length: 512 }
        ];
        let mut buffer = Buffer::new(1024);
        buffer[..512].fill(1);
        buffer[512..].fill(2);
        queue.submit(Request { tag: 7, kind: Kind::Write, durable: false, segments, buffer });
        let mut done = Vec::new();
        queue.wait(1, &mut done).unwrap();
        assert_eq!((done.len(), done[0].tag, queue.in_flight()), (1, 7, 0));
        let image = device.to_image();
        assert_eq!((image[0], image[4096], image[512]), (2, 1, 0));
    }
}
