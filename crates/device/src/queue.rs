//! Many requests in flight from one thread.

use crate::{Buffer, Device, Error, Operation, Result, check_transfer};
use smallvec::SmallVec;
use std::collections::VecDeque;

/// One piece of a request: `length` bytes of the buffer from `at`, to or from device offset `offset`.
/// `offset` and `length` are multiples of the logical sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Device offset in bytes.
    pub offset: u64,
    /// Position in the buffer in bytes.
    pub at: u32,
    /// Length in bytes.
    pub length: u32,
}

/// The pieces of a request. Most have one, so one stands inline.
pub type Segments = SmallVec<[Segment; 2]>;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Device to buffer.
    Read,
    /// Buffer to device.
    Write,
    /// Makes durable every write that had completed when it was submitted. Has no segments.
    Flush,
}

/// Work for a [`Queue`], which owns the buffer until the request is done.
#[derive(Debug)]
pub struct Request {
    /// Handed back in the completion; means nothing to the queue.
    pub tag: u64,
    /// What to do.
    pub kind: Kind,
    /// For writes: complete only when the data survives a power cut (force unit access).
    pub durable: bool,
    /// Where. Pieces that touch each other's sectors have no defined order.
    pub segments: Segments,
    /// The memory to transfer.
    pub buffer: Buffer,
}

/// A request that is done.
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
    /// Takes a request. It is started at the latest by the next call of [`Queue::kick`] or [`Queue::wait`].
    /// At most the queue's depth may be in flight: more is a mistake of the caller and panics.
    fn submit(&mut self, request: Request);

    /// Takes a write, starts it with everything submitted so far, and calls `work` with its content. Where transfers
    /// go on beside the caller, so does this one meanwhile; elsewhere the work comes first.
    fn submit_beside(&mut self, request: Request, work: &mut dyn FnMut(&[u8])) -> Result<()> {
        work(&request.buffer);
        self.submit(request);
        self.kick()
    }

    /// Takes a read whose content the caller has work with, and starts it with everything submitted so far. Where
    /// transfers go on beside the caller and the device has nothing else to do, it goes in parts, and
    /// [`Queue::wait_beside`] shows each while the next are on their way.
    fn submit_in_parts(&mut self, request: Request) -> Result<()> {
        self.submit(request);
        self.kick()
    }

    /// Starts everything submitted so far.
    fn kick(&mut self) -> Result<()>;

    /// Starts everything submitted so far, waits until at least `least` requests are done (or none is in flight), and
    /// appends all that are done, in the order they ended.
    fn wait(&mut self, least: usize, done: &mut Vec<Completion>) -> Result<()> {
        self.wait_beside(least, done, &mut |_, _, _| {})
    }

    /// [`Queue::wait`], and calls `work` with parts of reads that go [in parts](Queue::submit_in_parts), while others
    /// are on their way: the tag of the request, where in its buffer the part begins, and its content. What came last
    /// is seen in the completion only.
    fn wait_beside(&mut self, least: usize, done: &mut Vec<Completion>, work: &mut Work<'_>) -> Result<()>;

    /// How many requests were submitted and not yet handed back.
    fn in_flight(&self) -> usize;
}

/// What is done with a part of a read: the tag of the request, where in its buffer the part begins, and its content.
pub type Work<'w> = dyn FnMut(u64, usize, &[u8]) + 'w;

/// A queue over blocking calls: each request is carried out when it is submitted.
///
/// Right for memory, where waiting costs nothing, and for devices that wrap others in tests.
pub struct Immediate<'d, D: ?Sized> {
    device: &'d D,
    depth: usize,
    carry_out: CarryOut<D>,
    done: VecDeque<Completion>,
}

/// How an [`Immediate`] queue does what a request says.
pub(crate) type CarryOut<D> = fn(&D, &mut Request) -> Result<()>;

impl<'d, D: Device + ?Sized> Immediate<'d, D> {
    /// A queue for at most `depth` requests.
    pub fn new(device: &'d D, depth: usize) -> Self {
        Immediate::carried_out_by(device, depth, carry_out)
    }
}

impl<'d, D: ?Sized> Immediate<'d, D> {
    /// A queue for a device that knows better than blocking calls what a durable request is.
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

/// Does what a request says with blocking calls.
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

/// Whether a request keeps the contract of [`Device`], before any part of it is carried out.
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

/// The bytes of a `length`-byte buffer that a segment names.
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
