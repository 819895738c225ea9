//! A queue that joins adjacent small writes into one, and starts requests in groups while the device is busy.

use crate::queue::{Completion, Kind, Queue, Request, Segment, Segments, Work};
use crate::response::Response;
use crate::{Buffer, Result, sync};
use std::time::Instant;

/// The largest write, in bytes, that is joined with others: larger ones gain nothing.
const SMALL: u32 = 64 << 10;
/// The most bytes of a joined write.
const LARGEST: u32 = 256 << 10;
/// Divides the queue's depth to give the most joined writes in flight; writes that arrive meanwhile are gathered for
/// the next ones. On a device that is slow and has room for more they would only wait: there the limit is the depth.
const AHEAD: usize = 4;
/// Divides the queue's depth to give the most requests in one joined write. If one joined write held them all, the
/// device would idle while the caller answers them, and then the caller while the device works: at a depth of 32 on a
/// loop device over memory, this limit of half the depth gives half as much throughput again.
const ROW: usize = 2;
/// The lower bound of both limits, however small the depth is.
const LEAST: usize = 2;
/// Divides the queue's depth twice: if this share of the depth is in flight, the device counts as busy, and up to the
/// same share of new requests is held back to be started together. Each call to the kernel costs an application that
/// issues requests one by one, and a virtual disk gets a notification for each: started in groups of eight, 4 KiB reads
/// at a depth of 32 take less processor time than one by one. For more than [`SMALL`] bytes a call costs little, and
/// the device should not wait for the caller.
const TOGETHER: usize = 4;

// Requests are not held back for longer than the device is busy.
const _: () = assert!(LEAST <= TOGETHER && ROW <= TOGETHER);

/// The length in bytes of the parts of a [divided read](Queue::submit_in_parts). The work on the last part is done
/// while nothing is in flight, so parts should be small; but each costs a call to the kernel.
const PART: u32 = 128 << 10;

// A write that is joined with another still fits the buffer of a row.
const _: () = assert!(2 * SMALL <= LARGEST);

/// A queue that joins small adjacent writes, and starts requests in groups while the device is busy.
///
/// It suits file systems that place new data behind the last written data: scattered writes of an application then
/// reach the device as few large ones. A write that begins where the one before it ended is held back until the caller
/// waits; then it is held back only while joined writes for a quarter of the queue's depth are in flight, and not even
/// then on a device that is slow and has room for more. All other requests are passed on at once, and so is the first
/// write of a row. A write waits only for writes in flight, never for future ones, so nothing is delayed on an idle
/// device.
///
/// A request that is passed on starts with the caller's next [`Queue::kick`], unless a quarter of the queue's depth is
/// already in flight: then up to a quarter of the depth is started together, unless it is large, and at the latest when
/// the caller waits.
///
/// A read [in parts](Queue::submit_in_parts) is divided only if the device is idle; otherwise other requests are in
/// flight while the caller works on the content of a finished one.
///
/// If a joined write fails, its requests are repeated one by one, so that each gets its own result.
pub struct Gather<'d> {
    below: Box<dyn Queue + 'd>,
    /// Writes held back, each beginning where the one before it ends.
    row: Vec<Request>,
    /// Bytes in `row`.
    bytes: u32,
    /// Complete rows of adjacent writes, to which no further write is added.
    ready: Vec<Vec<Request>>,
    /// The device offset at which the last write ended.
    end: u64,
    /// The requests in flight below; the index is the tag below.
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// When each of them was submitted, if it is a small write.
    began: Vec<Option<Instant>>,
    response: Response,
    /// The number of joined writes in flight.
    ahead: usize,
    /// The most joined writes in flight, and the most requests in one joined write.
    most_ahead: usize,
    most_in_row: usize,
    /// Requests submitted below but not yet started, and their bytes.
    unstarted: usize,
    unstarted_bytes: u64,
    /// The most requests that stay unstarted, and the least number in flight for which they do.
    together: usize,
    /// The number of the caller's requests in flight.
    in_flight: usize,
    /// Buffers for joined writes, for reuse.
    spare: Vec<Buffer>,
    /// A segment list for divided reads, for reuse.
    spare_parts: Segments,
    reaped: Vec<Completion>,
}

/// A request in flight below.
enum Slot {
    Free,
    /// A single request of the caller: its tag, and whether it had been held back.
    Single(u64, bool),
    /// A joined write, with the caller's requests.
    Joined(Vec<Request>),
    /// A divided read of the caller: its tag and its own segments.
    InParts(u64, Segments),
}

impl<'d> Gather<'d> {
    /// A gathering queue over `below`, which has this depth.
    pub fn new(below: Box<dyn Queue + 'd>, depth: usize) -> Gather<'d> {
        Gather {
            below,
            row: Vec::new(),
            bytes: 0,
            ready: Vec::new(),
            end: u64::MAX,
            slots: Vec::new(),
            free: Vec::new(),
            began: Vec::new(),
            response: Response::default(),
            ahead: 0,
            most_ahead: (depth / AHEAD).max(LEAST),
            most_in_row: (depth / ROW).max(LEAST),
            unstarted: 0,
            unstarted_bytes: 0,
            together: depth / TOGETHER,
            in_flight: 0,
            spare: Vec::new(),
            spare_parts: Segments::new(),
            reaped: Vec::new(),
        }
    }

    /// Submits a request to the queue below.
    fn send(&mut self, request: Request, slot: Slot) {
        let request = self.numbered(request, slot);
        self.unstarted += 1;
        self.unstarted_bytes += request.segments.iter().map(|segment| u64::from(segment.length)).sum::<u64>();
        self.below.submit(request);
    }

    /// Gives the request the number of a free slot as its tag.
    fn numbered(&mut self, request: Request, slot: Slot) -> Request {
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::Free);
            self.began.push(None);
            self.slots.len() - 1
        });
        debug_assert!(matches!(self.slots[number], Slot::Free), "a slot has one request");
        self.slots[number] = slot;
        let is_small = matches!(request.segments[..], [segment] if segment.length <= SMALL);
        self.began[number] = (request.kind == Kind::Write && is_small).then(sync::timed).flatten();
        Request { tag: number as u64, ..request }
    }

    /// Notes that every request below is being started.
    fn all_start(&mut self) {
        (self.unstarted, self.unstarted_bytes) = (0, 0);
    }

    /// Holds a write back if it can be joined with others; returns any other request, which is to be passed on.
    fn pass(&mut self, request: Request) -> Option<Request> {
        self.in_flight += 1;
        let write = match (request.kind, &request.segments[..]) {
            (Kind::Write, &[segment]) => Some(segment),
            _ => None,
        };
        let Some(segment) = write else { return Some(request) };
        let follows = segment.offset == self.end;
        self.end = segment.offset.saturating_add(u64::from(segment.length));
        let inside = segment.at as usize + segment.length as usize <= request.buffer.len();
        if !follows || segment.length > SMALL || !inside {
            self.close();
            return Some(request);
        }
        let alike = self.row.last().is_none_or(|last| last.durable == request.durable);
        if !alike || self.row.len() >= self.most_in_row || self.bytes + segment.length > LARGEST {
            self.close();
        }
        self.bytes += segment.length;
        self.row.push(request);
        None
    }

    /// Completes the present row: no further write is added to it.
    fn close(&mut self) {
        if !self.row.is_empty() {
            self.ready.push(std::mem::take(&mut self.row));
            self.bytes = 0;
        }
    }

    /// Submits the rows held back, as far as the limit on joined writes in flight allows.
    fn release(&mut self) {
        let most = if self.response.has_room() { usize::MAX } else { self.most_ahead };
        if self.ahead >= most {
            return;
        }
        self.close();
        let count = self.ready.len().min(most - self.ahead);
        self.ahead += count;
        for row in self.ready.drain(..count).collect::<Vec<_>>() {
            match <[Request; 1]>::try_from(row) {
                Ok([only]) => {
                    let tag = only.tag;
                    self.send(only, Slot::Single(tag, true));
                }
                Err(row) => {
                    let joined = self.join(&row);
                    self.send(joined, Slot::Joined(row));
                }
            }
        }
    }

    fn join(&mut self, row: &[Request]) -> Request {
        let mut buffer = self.spare.pop().unwrap_or_else(|| Buffer::new(LARGEST as usize));
        let mut length = 0;
        for request in row {
            let bytes = bytes(request);
            debug_assert!(length + bytes.len() <= LARGEST as usize, "a row fits its buffer");
            debug_assert_eq!(
                request.durable, row[0].durable,
                "a joined write is durable as a whole or not at all"
            );
            buffer[length..length + bytes.len()].copy_from_slice(bytes);
            length += bytes.len();
        }
        let whole = Segment { offset: row[0].segments[0].offset, at: 0, length: length as u32 };
        Request {
            tag: 0,
            kind: Kind::Write,
            durable: row[0].durable,
            segments: Segments::from_slice(&[whole]),
            buffer,
        }
    }

    /// Processes the completions from below; returns how many of the caller's requests ended.
    fn reap(&mut self, done: &mut Vec<Completion>) -> usize {
        let before = done.len();
        for completion in std::mem::take(&mut self.reaped) {
            let number = completion.tag as usize;
            debug_assert!(!self.free.contains(&number), "a request ends once");
            self.free.push(number);
            if let (Some(began), Some(now)) = (self.began[number].take(), sync::timed()) {
                self.response.note(now.saturating_duration_since(began));
            }
            match std::mem::replace(&mut self.slots[number], Slot::Free) {
                Slot::Free => unreachable!("a completion of nothing"),
                Slot::Single(tag, kept) => {
                    self.ahead -= usize::from(kept);
                    done.push(Completion { tag, ..completion });
                }
                Slot::InParts(tag, segments) => {
                    self.spare_parts = completion.segments;
                    done.push(Completion { tag, segments, ..completion });
                }
                Slot::Joined(row) => {
                    self.ahead -= 1;
                    self.spare.push(completion.buffer);
                    if completion.result.is_ok() {
                        done.extend(row.into_iter().map(|request| Completion {
                            tag: request.tag,
                            result: Ok(()),
                            segments: request.segments,
                            buffer: request.buffer,
                        }));
                        continue;
                    }
                    for request in row {
                        let tag = request.tag;
                        self.send(request, Slot::Single(tag, false));
                    }
                }
            }
        }
        self.in_flight -= done.len() - before;
        done.len() - before
    }
}

/// Replaces the content of `parts` by the segments, dividing those that are longer than [`PART`].
fn divide(segments: &Segments, parts: &mut Segments) {
    parts.clear();
    for segment in segments {
        parts.extend((0..segment.length).step_by(PART as usize).map(|start| Segment {
            offset: segment.offset.saturating_add(u64::from(start)),
            at: segment.at.saturating_add(start),
            length: PART.min(segment.length - start),
        }));
    }
}

/// The data of a write with one segment.
fn bytes(request: &Request) -> &[u8] {
    let segment = &request.segments[0];
    &request.buffer[segment.at as usize..][..segment.length as usize]
}

impl Queue for Gather<'_> {
    fn submit(&mut self, request: Request) {
        let tag = request.tag;
        if let Some(request) = self.pass(request) {
            self.send(request, Slot::Single(tag, false));
        }
    }

    fn submit_beside(&mut self, request: Request, work: &mut dyn FnMut(&[u8])) -> Result<()> {
        let tag = request.tag;
        match self.pass(request) {
            Some(request) => {
                let request = self.numbered(request, Slot::Single(tag, false));
                self.all_start();
                self.below.submit_beside(request, work)
            }
            None => {
                work(&self.row.last().expect("it was kept back").buffer);
                self.kick()
            }
        }
    }

    fn submit_in_parts(&mut self, mut request: Request) -> Result<()> {
        if self.in_flight > 0 {
            self.submit(request);
            return self.kick();
        }
        self.in_flight += 1;
        let mut parts = std::mem::take(&mut self.spare_parts);
        divide(&request.segments, &mut parts);
        let segments = std::mem::replace(&mut request.segments, parts);
        let slot = Slot::InParts(request.tag, segments);
        let request = self.numbered(request, slot);
        self.below.submit_in_parts(request)
    }

    /// Starts the submitted requests, unless they are few and the device is busy. Everything starts when the caller
    /// waits.
    fn kick(&mut self) -> Result<()> {
        let under_way = self.below.in_flight() - self.unstarted;
        let is_little = self.unstarted < self.together && self.unstarted_bytes <= u64::from(SMALL);
        if is_little && under_way >= self.together {
            return Ok(());
        }
        self.all_start();
        self.below.kick()
    }

    fn wait_beside(&mut self, least: usize, done: &mut Vec<Completion>, work: &mut Work<'_>) -> Result<()> {
        let mut got = 0;
        loop {
            self.release();
            let more = usize::from(got < least && self.below.in_flight() > 0);
            self.all_start();
            let slots = &self.slots;
            let mut with_own_tag = |number: u64, at: usize, part: &[u8]| {
                if let Slot::InParts(tag, _) = slots[number as usize] {
                    work(tag, at, part);
                }
            };
            self.below.wait_beside(more, &mut self.reaped, &mut with_own_tag)?;
            got += self.reap(done);
            if got >= least || self.in_flight == 0 {
                break;
            }
        }
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }
}

impl Drop for Gather<'_> {
    /// Writes held back are carried out, like everything in flight, before the queue is gone.
    fn drop(&mut self) {
        let mut done = Vec::new();
        while self.in_flight > 0 && self.wait(self.in_flight, &mut done).is_ok() {}
    }
}
