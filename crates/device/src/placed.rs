//! The queue of a device whose content lies at other offsets of a device below.

use crate::{
    Completion, Device, Kind, Operation, Queue, Request, Result, Segment, Segments, Work, check_transfer,
};

/// A device whose content lies at other offsets of a device below.
pub(crate) trait Placed: Device {
    /// The pieces of a transfer that passed the checks: offset on the device below, position in the buffer, and length
    /// of each.
    fn pieces(&self, offset: u64, length: u64) -> impl Iterator<Item = (u64, u64, u64)>;
}

/// The parts of a request in flight that are given back to the caller with the completion.
struct Waiting {
    tag: u64,
    segments: Segments,
}

pub(crate) struct PlacedQueue<'d, D> {
    device: &'d D,
    below: Box<dyn Queue + 'd>,
    /// The requests in flight; the index is the tag of the request below.
    slots: Vec<Option<Waiting>>,
    /// The indices of the slots without a request.
    free: Vec<usize>,
    /// Requests that reach outside this device, which must not be passed to the device below.
    refused: Vec<Completion>,
}

impl<'d, D: Placed> PlacedQueue<'d, D> {
    /// A queue of this depth over a queue of the device below with the same depth.
    pub(crate) fn new(device: &'d D, below: Box<dyn Queue + 'd>, depth: usize) -> PlacedQueue<'d, D> {
        let slots = (0..depth).map(|_| None).collect();
        PlacedQueue { device, below, slots, free: (0..depth).rev().collect(), refused: Vec::new() }
    }

    fn check(&self, request: &Request) -> Result<()> {
        let operation = match request.kind {
            Kind::Read => Operation::Read,
            Kind::Write => Operation::Write,
            Kind::Flush => return Ok(()),
        };
        request.segments.iter().try_for_each(|segment| {
            check_transfer(self.device, operation, segment.offset, u64::from(segment.length))
        })
    }

    /// Translates a request to one for the device below; `None` if it is refused.
    fn placed(&mut self, mut request: Request) -> Option<Request> {
        let depth = self.slots.len();
        assert!(self.in_flight() < depth, "more requests in flight than the queue's depth of {depth}");
        if let Err(error) = self.check(&request) {
            let Request { tag, segments, buffer, .. } = request;
            self.refused.push(Completion { tag, result: Err(error), segments, buffer });
            return None;
        }
        let slot = self.free.pop().expect("fewer are in flight than there are slots");
        let mut placed = Segments::new();
        for segment in &request.segments {
            let pieces = self.device.pieces(segment.offset, u64::from(segment.length));
            placed.extend(pieces.map(|(offset, at, length)| Segment {
                offset,
                at: segment.at + at as u32,
                length: length as u32,
            }));
        }
        let segments = std::mem::replace(&mut request.segments, placed);
        self.slots[slot] = Some(Waiting { tag: request.tag, segments });
        request.tag = slot as u64;
        Some(request)
    }
}

impl<D: Placed> Queue for PlacedQueue<'_, D> {
    fn submit(&mut self, request: Request) {
        if let Some(request) = self.placed(request) {
            self.below.submit(request);
        }
    }

    fn submit_beside(&mut self, request: Request, work: &mut dyn FnMut(&[u8])) -> Result<()> {
        match self.placed(request) {
            Some(request) => self.below.submit_beside(request, work),
            None => self.kick(),
        }
    }

    fn submit_in_parts(&mut self, request: Request) -> Result<()> {
        match self.placed(request) {
            Some(request) => self.below.submit_in_parts(request),
            None => self.kick(),
        }
    }

    fn kick(&mut self) -> Result<()> {
        self.below.kick()
    }

    fn wait_beside(&mut self, least: usize, done: &mut Vec<Completion>, work: &mut Work<'_>) -> Result<()> {
        let least = least.saturating_sub(self.refused.len());
        done.append(&mut self.refused);
        let first = done.len();
        let PlacedQueue { below, slots, free, .. } = self;
        let waited = below.wait_beside(least, done, &mut |slot, at, part| {
            let waiting = slots[slot as usize].as_ref().expect("it is on its way");
            work(waiting.tag, at, part);
        });
        for completion in &mut done[first..] {
            let slot = completion.tag as usize;
            let waiting = slots[slot].take().expect("it was on its way");
            free.push(slot);
            completion.tag = waiting.tag;
            completion.segments = waiting.segments;
        }
        waited
    }

    fn in_flight(&self) -> usize {
        self.below.in_flight() + self.refused.len()
    }
}
