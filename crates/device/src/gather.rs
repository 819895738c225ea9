//! Writes that follow each other on the device go to it as one, and requests that find it busy go to it together.

use crate::queue::{Completion, Kind, Queue, Request, Segment, Segments, Work};
use crate::{Buffer, Result};

/// Writes larger than this gain nothing from company, in bytes.
const SMALL: u32 = 64 << 10;
/// The most bytes that go as one.
const LARGEST: u32 = 256 << 10;
/// Gathered writes in flight at once, as a share of the queue's depth; what comes meanwhile is gathered for the next.
const AHEAD: usize = 4;
/// The most requests in one, as a share too. If one held all, the device would wait for the caller while it answers them,
/// and then the caller for the device: at a depth of 32 on a loop device over memory, halves carry half as much again.
const ROW: usize = 2;
/// The least of both.
const LEAST: usize = 2;
/// As many requests under way as this share of the depth keep the device busy, and so new ones may wait for company, up
/// to the same share. Each call to the kernel costs an application that asks for one thing after the other, and a
/// virtual disk is rung for each: by eights, 4 KiB reads at a depth of 32 cost less processor time than one by one.
/// For more than [`SMALL`] bytes a call is little, and the device should not wait for the caller.
const TOGETHER: usize = 4;

/// Bytes of a part of a read that goes in parts: what is done with the last one is done while nothing is on its way, and
/// each costs a call to the kernel.
const PART: u32 = 128 << 10;

/// A queue that joins small writes which follow each other on the device, and starts requests together while it is busy.
///
/// For file systems that put new data behind the last: what an application scattered reaches the device as few large
/// writes. A write that begins where the one before it ended is kept back until the caller waits, and then for as long
/// as a quarter of the queue's depth of such writes is on its way; everything else goes on at once, and so does the first
/// of a row. The wait is never for more writes to come, only for ones under way, so nothing is delayed on an idle device.
///
/// What goes on at once starts with the caller's next [`Queue::kick`], unless a quarter of the queue's depth is in flight
/// before it: then up to a quarter starts together, unless it is large, and at the latest when the caller waits.
///
/// A read that goes [in parts](Queue::submit_in_parts) does so if it finds the device idle; else others are on their way
/// while its content is looked at.
///
/// If a joined write fails, its parts are tried one by one: each learns its own outcome.
pub struct Gather<'d> {
    below: Box<dyn Queue + 'd>,
    /// Writes kept back, each beginning where the one before it ends.
    row: Vec<Request>,
    /// Bytes in `row`.
    bytes: u32,
    /// Rows that nothing more joins.
    ready: Vec<Vec<Request>>,
    /// Where the last write ended.
    end: u64,
    /// What is in flight below, by tag.
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// Gathered writes in flight.
    ahead: usize,
    /// The most of them, and the most requests in one.
    most_ahead: usize,
    most_in_row: usize,
    /// Requests below that it was not told to start yet, and their bytes.
    unstarted: usize,
    unstarted_bytes: u64,
    /// The most of them, and the least under way beside them.
    together: usize,
    /// Requests of the caller in flight.
    in_flight: usize,
    /// Memory for joined writes, used again.
    spare: Vec<Buffer>,
    /// Memory for the parts of reads, used again.
    spare_parts: Segments,
    reaped: Vec<Completion>,
}

/// A request in flight below.
enum Slot {
    Free,
    /// The caller's own, with its tag, and whether it was kept back.
    Single(u64, bool),
    /// Several.
    Joined(Vec<Request>),
    /// The caller's own in parts, with its tag and segments.
    InParts(u64, Segments),
}

impl<'d> Gather<'d> {
    /// Gathers what goes to `below`, a queue of this depth.
    pub fn new(below: Box<dyn Queue + 'd>, depth: usize) -> Gather<'d> {
        Gather {
            below,
            row: Vec::new(),
            bytes: 0,
            ready: Vec::new(),
            end: u64::MAX,
            slots: Vec::new(),
            free: Vec::new(),
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

    /// Hands a request on.
    fn send(&mut self, request: Request, slot: Slot) {
        let request = self.numbered(request, slot);
        self.unstarted += 1;
        self.unstarted_bytes += request.segments.iter().map(|segment| u64::from(segment.length)).sum::<u64>();
        self.below.submit(request);
    }

    /// The request under a tag of our own.
    fn numbered(&mut self, request: Request, slot: Slot) -> Request {
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::Free);
            self.slots.len() - 1
        });
        self.slots[number] = slot;
        Request { tag: number as u64, ..request }
    }

    /// Notes that everything below starts.
    fn all_start(&mut self) {
        (self.unstarted, self.unstarted_bytes) = (0, 0);
    }

    /// Keeps a request back if it may have company; else it is to go on.
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

    /// Nothing more joins the row.
    fn close(&mut self) {
        if !self.row.is_empty() {
            self.ready.push(std::mem::take(&mut self.row));
            self.bytes = 0;
        }
    }

    /// Hands on what was kept back, as far as there is room ahead.
    fn release(&mut self) {
        if self.ahead >= self.most_ahead {
            return;
        }
        self.close();
        let count = self.ready.len().min(self.most_ahead - self.ahead);
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

    /// Sorts out what ended below; returns how many of the caller's requests did.
    fn reap(&mut self, done: &mut Vec<Completion>) -> usize {
        let before = done.len();
        for completion in std::mem::take(&mut self.reaped) {
            let number = completion.tag as usize;
            self.free.push(number);
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

/// Puts segments into the place of `parts`, those that are longer than one in several.
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

/// The bytes of a request of one segment.
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

    /// Starts what is not to wait for company; everything starts when the caller waits.
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
    /// What was kept back is carried out like everything else that is in flight.
    fn drop(&mut self) {
        let mut done = Vec::new();
        while self.in_flight > 0 && self.wait(self.in_flight, &mut done).is_ok() {}
    }
}
