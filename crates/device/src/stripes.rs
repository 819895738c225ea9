//! A device whose content is made of stripes of another.

use crate::placed::{Placed, PlacedQueue};
use crate::{Device, Error, Operation, Queue, Result, Sectors, check_copy, check_transfer};
use std::sync::Arc;

/// Stripes of a device in a given order, as one device.
///
/// Places on a disk differ in speed: the tracks of a disk with platters, and the extents of a virtual disk. Several
/// devices of interleaved stripes get the same share of fast and slow places.
pub struct Stripes {
    device: Arc<dyn Device>,
    name: String,
    /// The length of a stripe in bytes.
    stripe: u64,
    /// The offset of each stripe on the device below.
    starts: Vec<u64>,
}

impl Stripes {
    /// A device called `name`, made of the stripes of `stripe` bytes that begin at `starts` on `device`.
    ///
    /// # Errors
    /// [`Error::Unusable`] if the stripes are not whole sectors inside the device.
    pub fn new(device: Arc<dyn Device>, stripe: u64, starts: Vec<u64>, name: String) -> Result<Stripes> {
        let sector = u64::from(device.sectors().logical);
        let is_outside = |start: &u64| {
            !start.is_multiple_of(sector) || start.checked_add(stripe).is_none_or(|end| end > device.len())
        };
        let wrong = starts.iter().find(|start| is_outside(start));
        if stripe == 0 || !stripe.is_multiple_of(sector) || wrong.is_some() {
            let reason = format!(
                "stripes of {stripe} bytes are not whole {sector}-byte sectors inside its {} bytes (one begins at {})",
                device.len(),
                wrong.copied().unwrap_or_default()
            );
            return Err(Error::Unusable { device: name.as_str().into(), reason });
        }
        Ok(Stripes { device, name, stripe, starts })
    }

    /// Calls `transfer` for each piece of a transfer, with its offset on the device below and its range in the buffer.
    fn each(
        &self,
        operation: Operation,
        offset: u64,
        length: usize,
        mut transfer: impl FnMut(u64, std::ops::Range<usize>) -> Result<()>,
    ) -> Result<()> {
        check_transfer(self, operation, offset, length as u64)?;
        self.pieces(offset, length as u64)
            .try_for_each(|(place, at, length)| transfer(place, at as usize..(at + length) as usize))
    }
}

impl Placed for Stripes {
    fn pieces(&self, offset: u64, length: u64) -> impl Iterator<Item = (u64, u64, u64)> {
        let mut done = 0;
        std::iter::from_fn(move || {
            if done >= length {
                return None;
            }
            let at = offset + done;
            let inside = at % self.stripe;
            let piece = (self.stripe - inside).min(length - done);
            let place = self.starts[(at / self.stripe) as usize] + inside;
            done += piece;
            Some((place, done - piece, piece))
        })
    }
}

impl Device for Stripes {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> u64 {
        self.stripe * self.starts.len() as u64
    }

    fn sectors(&self) -> Sectors {
        self.device.sectors()
    }

    fn below(&self) -> Option<&dyn Device> {
        Some(&*self.device)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.each(Operation::Read, offset, buffer.len(), |place, range| {
            self.device.read_at(place, &mut buffer[range])
        })
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.each(Operation::Write, offset, data.len(), |place, range| {
            self.device.write_at(place, &data[range])
        })
    }

    fn read_copy(&self, copy: usize, offset: u64, buffer: &mut [u8]) -> Result<()> {
        check_copy(&self.name, copy, self.copies())?;
        self.each(Operation::Read, offset, buffer.len(), |place, range| {
            self.device.read_copy(copy, place, &mut buffer[range])
        })
    }

    fn repair_copy(&self, copy: usize, offset: u64, data: &[u8]) -> Result<()> {
        check_copy(&self.name, copy, self.copies())?;
        self.each(Operation::Write, offset, data.len(), |place, range| {
            self.device.repair_copy(copy, place, &data[range])
        })
    }

    /// Where a stripe lies differs, and what is not written is not looked for.
    fn start(&self) -> u64 {
        0
    }

    fn next_data(&self, offset: u64) -> u64 {
        offset.min(self.len())
    }

    fn end(&self) -> u64 {
        self.len()
    }

    fn flush(&self) -> Result<()> {
        self.device.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        check_transfer(self, Operation::Discard, offset, length)?;
        self.pieces(offset, length).try_for_each(|(place, _, length)| self.device.discard(place, length))
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue + '_>> {
        let below = self.device.queue(depth)?;
        Ok(Box::new(PlacedQueue::new(self, below, depth)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Buffer, Kind, MemoryDevice, Request, Segment, Segments};
    use smallvec::smallvec;

    /// Stripes of 4 KiB: the second half of a device in reverse order.
    fn reversed() -> (Arc<MemoryDevice>, Stripes) {
        let device = Arc::new(MemoryDevice::new(32 << 10, Sectors::SMALL));
        let starts = (4..8).rev().map(|stripe| stripe << 12).collect();
        let stripes = Stripes::new(device.clone(), 4096, starts, "stripes".into()).unwrap();
        (device, stripes)
    }

    #[test]
    fn every_way_in_finds_the_same_bytes() {
        let (device, stripes) = reversed();
        assert_eq!(stripes.len(), 16 << 10);
        let data: Vec<u8> = (0..8192_u32).map(|index| (index / 512) as u8 + 1).collect();
        stripes.write_at(2048, &data).unwrap();
        let image = device.to_image();
        assert_eq!(image[(7 << 12) + 2048..8 << 12], data[..2048]);
        assert_eq!(image[6 << 12..7 << 12], data[2048..6144]);
        assert_eq!(image[5 << 12..(5 << 12) + 2048], data[6144..]);
        let mut back = vec![0; 8192];
        stripes.read_at(2048, &mut back).unwrap();
        assert_eq!(back, data);

        let mut queue = stripes.queue(2).unwrap();
        let segments: Segments = smallvec![
            Segment { offset: 2048, at: 0, length: 4096 },
            Segment { offset: 8192, at: 4096, length: 2048 }
        ];
        for _ in 0..3 {
            for tag in [7, 7] {
                let (segments, buffer) = (segments.clone(), Buffer::new(6144));
                queue.submit(Request { tag, kind: Kind::Read, durable: false, segments, buffer });
            }
            let mut done = Vec::new();
            queue.wait(2, &mut done).unwrap();
            for completion in &done {
                assert_eq!((completion.tag, &completion.segments), (7, &segments));
                completion.result.as_ref().unwrap();
                assert_eq!(completion.buffer[..4096], data[..4096]);
                assert_eq!(completion.buffer[4096..6144], data[6144..]);
            }
            assert_eq!((done.len(), queue.in_flight()), (2, 0));
        }
        stripes.discard(0, 16 << 10).unwrap();
        assert!(device.to_image().iter().all(|byte| *byte == 0));
    }

    #[test]
    fn nothing_outside_is_reached() {
        let (device, stripes) = reversed();
        assert!(
            stripes.write_at(12 << 10, &[1; 8192]).is_err() && stripes.read_at(100, &mut [0; 512]).is_err()
        );
        let mut queue = stripes.queue(1).unwrap();
        let segments = smallvec![Segment { offset: 16 << 10, at: 0, length: 512 }];
        queue.submit(Request {
            tag: 3,
            kind: Kind::Write,
            durable: false,
            segments,
            buffer: Buffer::from(&[1; 512][..]),
        });
        let mut done = Vec::new();
        queue.wait(1, &mut done).unwrap();
        assert!(done[0].tag == 3 && done[0].result.is_err());
        assert!(device.to_image().iter().all(|byte| *byte == 0));
        let wrong =
            |stripe, starts: Vec<u64>| Stripes::new(device.clone(), stripe, starts, "x".into()).is_err();
        assert!(
            wrong(0, vec![])
                && wrong(100, vec![0])
                && wrong(4096, vec![30 << 10])
                && wrong(4096, vec![u64::MAX])
        );
    }
}
