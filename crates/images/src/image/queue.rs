//! The queue of a container: requests for places that the file has go on to the queue of the file.

use super::{BlockImage, Lies};
use platter_device::{
    Completion, Device, Error, Kind, Operation, Queue, Request, Result, Segment, Segments, Work,
    check_transfer,
};

/// Requests in flight on a container.
///
/// A read of what the file does not have is answered at once, a write that needs new blocks has them made first, and
/// then both go on like any other. Only what has to be durable while the table of blocks is not waits for a flush of the
/// container.
pub(crate) struct ImageQueue<'d> {
    image: &'d BlockImage,
    below: Box<dyn Queue + 'd>,
    /// The requests in flight below; the index is their tag there.
    slots: Vec<Option<(u64, Segments)>>,
    free: Vec<usize>,
    /// Requests that are complete and were not passed on.
    ended: Vec<Completion>,
}

impl<'d> ImageQueue<'d> {
    pub(super) fn new(image: &'d BlockImage, below: Box<dyn Queue + 'd>, depth: usize) -> ImageQueue<'d> {
        let slots = (0..depth).map(|_| None).collect();
        ImageQueue { image, below, slots, free: (0..depth).rev().collect(), ended: Vec::new() }
    }

    /// Fails if a request breaks the contract.
    fn check(&self, request: &Request) -> Result<()> {
        let operation = match request.kind {
            Kind::Read => Operation::Read,
            Kind::Write => Operation::Write,
            Kind::Flush => return Ok(()),
        };
        for segment in &request.segments {
            check_transfer(self.image, operation, segment.offset, u64::from(segment.length))?;
            let end = u64::from(segment.at) + u64::from(segment.length);
            if end > request.buffer.len() as u64 {
                let reason = format!("a segment ends at {end} in a buffer of {} bytes", request.buffer.len());
                return Err(Error::Unusable { device: self.image.name().into(), reason });
            }
        }
        Ok(())
    }

    /// Returns the segments on the file of a request; none if it is complete.
    fn placed(&self, request: &mut Request) -> Result<Option<Segments>> {
        self.check(request)?;
        if request.kind == Kind::Flush {
            if self.image.is_unsettled() {
                self.image.settle()?;
                return Ok(None);
            }
            return Ok(Some(Segments::new()));
        }
        let mut placed = Segments::new();
        for Segment { offset, at, length } in &request.segments {
            let mut at = *at;
            let pieces = match request.kind {
                Kind::Write => self.image.writable_pieces(*offset, u64::from(*length))?,
                _ => self.image.pieces(*offset, u64::from(*length))?,
            };
            for piece in pieces {
                let length = piece.length as u32;
                let part = at as usize..(at + length) as usize;
                match piece.lies {
                    Lies::Here(offset) => placed.push(Segment { offset, at, length }),
                    Lies::Nowhere => request.buffer[part].fill(0),
                    Lies::Above => self.image.read_parent(piece.offset, &mut request.buffer[part])?,
                    Lies::Packed(packed) => {
                        self.image.read_packed(packed, piece.offset, &mut request.buffer[part])?;
                    }
                }
                at += length;
            }
        }
        if request.kind == Kind::Write && request.durable && self.image.is_unsettled() {
            for Segment { offset, at, length } in &placed {
                let part = *at as usize..(*at + *length) as usize;
                self.image.file.write_at(*offset, &request.buffer[part])?;
            }
            self.image.settle()?;
            return Ok(None);
        }
        Ok(if placed.is_empty() { None } else { Some(placed) })
    }

    /// Translates a request to one for the file; `None` if it is complete.
    fn passed_on(&mut self, mut request: Request) -> Option<Request> {
        let depth = self.slots.len();
        assert!(self.in_flight() < depth, "more requests in flight than the queue's depth of {depth}");
        match self.placed(&mut request) {
            Ok(Some(placed)) => {
                let slot = self.free.pop().expect("fewer are in flight than there are slots");
                let segments = std::mem::replace(&mut request.segments, placed);
                self.slots[slot] = Some((request.tag, segments));
                request.tag = slot as u64;
                Some(request)
            }
            done => {
                let Request { tag, segments, buffer, .. } = request;
                self.ended.push(Completion { tag, result: done.map(|_| ()), segments, buffer });
                None
            }
        }
    }
}

impl Queue for ImageQueue<'_> {
    fn submit(&mut self, request: Request) {
        if let Some(request) = self.passed_on(request) {
            self.below.submit(request);
        }
    }

    fn submit_beside(&mut self, request: Request, work: &mut dyn FnMut(&[u8])) -> Result<()> {
        // A request that is complete at once has given its buffer back, so its work is done before.
        let will_wait = !(request.durable && self.image.is_unsettled()) && self.check(&request).is_ok();
        if !will_wait {
            work(&request.buffer);
            self.submit(request);
            return self.kick();
        }
        match self.passed_on(request) {
            Some(request) => self.below.submit_beside(request, work),
            None => {
                let last = self.ended.last().expect("it has just ended");
                work(&last.buffer);
                self.kick()
            }
        }
    }

    fn submit_in_parts(&mut self, request: Request) -> Result<()> {
        match self.passed_on(request) {
            // Parts are of the whole buffer only where the file has all of it, in order.
            Some(request) if request.segments.len() == 1 => self.below.submit_in_parts(request),
            Some(request) => {
                self.below.submit(request);
                self.below.kick()
            }
            None => self.kick(),
        }
    }

    fn kick(&mut self) -> Result<()> {
        self.below.kick()
    }

    fn wait_beside(&mut self, least: usize, done: &mut Vec<Completion>, work: &mut Work<'_>) -> Result<()> {
        let least = least.saturating_sub(self.ended.len());
        done.append(&mut self.ended);
        let first = done.len();
        let ImageQueue { below, slots, free, .. } = self;
        let waited = below.wait_beside(least, done, &mut |slot, at, part| {
            let (tag, _) = slots[slot as usize].as_ref().expect("it is on its way");
            work(*tag, at, part);
        });
        for completion in &mut done[first..] {
            let slot = completion.tag as usize;
            let (tag, segments) = slots[slot].take().expect("it was on its way");
            free.push(slot);
            completion.tag = tag;
            completion.segments = segments;
        }
        waited
    }

    fn in_flight(&self) -> usize {
        self.below.in_flight() + self.ended.len()
    }
}
