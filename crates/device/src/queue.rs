//! Queues: many requests in flight from one thread.

use crate::{Buffer, Device, Error, Operation, Result, check_transfer};
use smallvec::SmallVec;
use std::collections::VecDeque;

/// One piece of a request: `length` bytes between position `at` of the buffer and device offset `offset`. `offset` and
/// `length` are multiples of the logical sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Device offset in bytes.
    pub offset: u64,
    /// Position in the buffer in bytes.
    pub at: u32,
    /// Length in bytes.
    pub length: u32,
}

/// The pieces of a request. Most requests have one or two, which need no allocation.
pub type Segments = SmallVec<[Segment; 2]>;

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Transfers from the device to the buffer.
    Read,
    /// Transfers from the buffer to the device.
    Write,
    /// Makes durable every write that had completed when the request was submitted. Has no segments.
    Flush,
}

/// A request for a [`Queue`], which owns the buffer until the request is complete.
#[derive(Debug)]
pub struct Request {
    /// A number of the caller's choice, returned in the completion.
    pub tag: u64,
    /// What the request does.
    pub kind: Kind,
    /// For writes: complete the request only when the data survives a power cut (force unit access).
    pub durable: bool,
    /// Device offsets and buffer positions. Pieces that share sectors have no defined order.
    pub segments: Segments,
    /// The memory to transfer to or from.
    pub buffer: Buffer,
}

/// A request that is complete, with or without an error.
#[derive(Debug)]
pub struct Completion {
    /// The request's tag.
    pub tag: u64,
    /// Whether every segment was transferred in full.
    pub result: Result<()>,
    /// The request's segments, for reuse.
    pub segments: Segments,
    /// The request's buffer. After a failed read its content is unspecified.
    pub buffer: Buffer,
}

/// Requests in flight on one device, from one thread.
///
/// Dropping a queue waits for what is in flight, because the kernel may still be writing to the buffers.
pub trait Queue {
    /// Takes a request. It is started at the latest by the next call of [`Queue::kick`] or [`Queue::wait`]. The caller
    /// must not have more requests in flight than the queue's depth; one more panics.
    fn submit(&mut self, request: Request);

    /// Takes a write, starts it with everything submitted so far, and calls `work` with its content. On a queue whose
    /// transfers run in parallel to the caller, the work is done while the write is in flight; on others it is done
    /// before.
    fn submit_beside(&mut self, request: Request, work: &mut dyn FnMut(&[u8])) -> Result<()> {
        work(&request.buffer);
        self.submit(request);
        self.kick()
    }

    /// Takes a read on whose content the caller has work to do, and starts it with everything submitted so far. On a
    /// queue whose transfers run in parallel to the caller, and if the device is idle, the read is carried out in
    /// parts, and [`Queue::wait_beside`] passes on each part while the next ones are in flight.
    fn submit_in_parts(&mut self, request: Request) -> Result<()> {
        self.submit(request);
        self.kick()
    }

    /// Starts everything submitted so far.
    fn kick(&mut self) -> Result<()>;

    /// Starts everything submitted so far, waits until at least `least` requests are complete (or none is in flight),
    /// and appends all that are complete, in the order in which they ended.
    fn wait(&mut self, least: usize, done: &mut Vec<Completion>) -> Result<()> {
        self.wait_beside(least, done, &mut |_, _, _| {})
    }

    /// [`Queue::wait`], which also calls `work` with the parts of reads submitted [in parts](Queue::submit_in_parts)
    /// that arrive while other parts are in flight: with the tag of the request, the position of the part in its
    /// buffer, and its content. The last part of a read is not passed to `work`; it is in the completion.
    fn wait_beside(&mut self, least: usize, done: &mut Vec<Completion>, work: &mut Work<'_>) -> Result<()>;

    /// How many requests were submitted and not yet returned.
    fn in_flight(&self) -> usize;
}

/// A function that is called with a part of a read: the tag of the request, the position of the part in its buffer, and
/// its content.
pub type Work<'w> = dyn FnMut(u64, usize, &[u8]) + 'w;

/// A queue over blocking calls: each request is carried out when it is submitted.
///
/// It suits memory, where there is nothing to wait for, and devices that wrap others in tests.
pub struct Immediate<'d, D: ?Sized> {
    device: &'d D,
    depth: usize,
    carry_out: CarryOut<D>,
    done: VecDeque<Completion>,
}

/// The function by which an [`Immediate`] queue carries out a request.
pub(crate) type CarryOut<D> = fn(&D, &mut Request) -> Result<()>;

impl<'d, D: Device + ?Sized> Immediate<'d, D> {
    /// A queue for at most `depth` requests.
    pub fn new(device: &'d D, depth: usize) -> Self {
        Immediate::carried_out_by(device, depth, carry_out)
    }
}

impl<'d, D: ?Sized> Immediate<'d, D> {
    /// A queue whose requests are carried out by `carry_out`, for a device that treats durable requests in its own way.
    pub(crate) fn carried_out_by(device: &'d D, depth: usize, carry_out: CarryOut<D>) -> Self {
        Immediate { device, depth, carry_out, done: VecDeque::with_capacity(depth) }
    }
}

impl<D: ?Sized> Queue for Immediate<'_, D> {
    fn submit(&mut self, mut request: Request) {
        assert!(
            self.done.len() < self.depth,
            "more requests in flight than the queue's depth of {}",
            self.depth
        );
        let result = (self.carry_out)(self.device, &mut request);
        let Request { tag, segments, buffer, .. } = request;
        self.done.push_back(Completion { tag, result, segments, buffer });
    }

    fn kick(&mut self) -> Result<()> {
        Ok(())
    }

    fn wait_beside(&mut self, _least: usize, done: &mut Vec<Completion>, _work: &mut Work<'_>) -> Result<()> {
        done.extend(self.done.drain(..));
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }
}

/// Carries out a request with blocking calls.
pub(crate) fn carry_out<D: Device + ?Sized>(device: &D, request: &mut Request) -> Result<()> {
    for segment in &request.segments {
        let range = buffer_range(device.name(), segment, request.buffer.len())?;
        match request.kind {
            Kind::Read => device.read_at(segment.offset, &mut request.buffer[range])?,
            Kind::Write => device.write_at(segment.offset, &request.buffer[range])?,
            Kind::Flush => {}
        }
    }
    if request.kind == Kind::Flush || (request.kind == Kind::Write && request.durable) {
        device.flush()?;
    }
    Ok(())
}

/// Checks a request against the contract of [`Device`], before any part of it is carried out.
pub(crate) fn check_request(device: &dyn Device, request: &Request) -> Result<()> {
    let operation = match request.kind {
        Kind::Read => Operation::Read,
        Kind::Write => Operation::Write,
        Kind::Flush => return Ok(()),
    };
    for segment in &request.segments {
        check_transfer(device, operation, segment.offset, u64::from(segment.length))?;
        buffer_range(device.name(), segment, request.buffer.len())?;
    }
    Ok(())
}

/// The byte range of a segment in a buffer of `length` bytes.
pub(crate) fn buffer_range(device: &str, segment: &Segment, length: usize) -> Result<std::ops::Range<usize>> {
    let start = segment.at as usize;
    match start.checked_add(segment.length as usize) {
        Some(end) if end <= length => Ok(start..end),
        _ => Err(Error::Unusable {
            device: device.into(),
            reason: format!("segment {start}+{} lies outside its {length}-byte buffer", segment.length),
        }),
    }
}
