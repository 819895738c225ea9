//! The queue of a mirror: many requests in flight on all copies.

use super::{Errors, Mirror, Writing, bit, bits};
use crate::queue::{buffer_range, check_request};
use crate::{Buffer, Completion, Kind, Queue, Request, Result, Segment, Segments, Work};

/// A queue over the queues of the copies. A read goes to one copy. A write or flush goes to all copies and is complete
/// when all have completed it, so each copy but one gets the data in a buffer of its own.
pub(super) struct MirrorQueue<'d> {
    mirror: &'d Mirror,
    /// The queues of the copies; `None` for a copy that was out of service when this queue was made.
    below: Vec<Option<Box<dyn Queue + 'd>>>,
    /// The requests in flight; the index is the tag of the requests below.
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
    /// Requests that ended without I/O: refused, or without segments.
    ended: Vec<Completion>,
    arrived: Vec<Completion>,
    /// Buffers of completed writes, for reuse.
    spare: Vec<Buffer>,
    submitted: u64,
}

struct Slot {
    tag: u64,
    kind: Kind,
    /// The number of the request in the order of submission.
    number: u64,
    /// The copies that have not completed the request, as bits.
    waiting: u8,
    /// The copies that completed it without an error, as bits.
    done: u8,
    errors: Errors,
    writing: Writing,
    /// The segments and buffer that came back from the first copy, to be returned to the caller.
    kept: Option<(Segments, Buffer)>,
}

impl<'d> MirrorQueue<'d> {
    pub(super) fn new(mirror: &'d Mirror, depth: usize) -> Result<MirrorQueue<'d>> {
        let below = |copy| -> Result<_> {
            mirror.is_in_service(copy).then(|| mirror.device(copy).queue(depth)).transpose()
        };
        Ok(MirrorQueue {
            mirror,
            below: (0..mirror.copies.len()).map(below).collect::<Result<_>>()?,
            slots: std::iter::repeat_with(|| None).take(depth).collect(),
            free: (0..depth).rev().collect(),
            ended: Vec::new(),
            arrived: Vec::new(),
            spare: Vec::new(),
            submitted: 0,
        })
    }

    /// Duplicates a write's data into a buffer for another copy.
    fn duplicate(&mut self, data: &Buffer) -> Buffer {
        match self.spare.pop().filter(|spare| spare.len() == data.len()) {
            Some(mut spare) => {
                spare.copy_from_slice(data);
                spare
            }
            None => Buffer::from(&data[..]),
        }
    }

    fn give(&mut self, copy: usize, request: Request) {
        // Copies leave service and never come back, so a copy in service now was in service when the queues were made.
        let queue = self.below[copy].as_mut().expect("a copy in service has a queue");
        queue.submit(request);
    }

    /// Takes the completions of a copy, after waiting for at least `least` of them.
    fn collect(&mut self, copy: usize, least: usize, done: &mut Vec<Completion>) -> Result<()> {
        let Some(queue) = &mut self.below[copy] else { return Ok(()) };
        let mut arrived = std::mem::take(&mut self.arrived);
        let waited = queue.wait(least, &mut arrived);
        for completion in arrived.drain(..) {
            self.arrive(copy, completion, done);
        }
        self.arrived = arrived;
        waited
    }

    /// Records the completion of one copy, and completes the caller's request if it was the last copy.
    fn arrive(&mut self, copy: usize, completion: Completion, done: &mut Vec<Completion>) {
        let place = completion.tag as usize;
        let slot = self.slots[place].as_mut().expect("a request in flight");
        slot.waiting &= !bit(copy);
        match completion.result {
            Ok(()) => slot.done |= bit(copy),
            Err(error) => slot.errors.push((copy, error)),
        }
        match slot.kept {
            None => slot.kept = Some((completion.segments, completion.buffer)),
            Some(_) => self.spare.push(completion.buffer),
        }
        if slot.waiting != 0 {
            return;
        }
        let slot = self.slots[place].take().expect("a request in flight");
        self.free.push(place);
        let (segments, mut buffer) = slot.kept.expect("a copy answered");
        let mirror = self.mirror;
        let result = match slot.kind {
            Kind::Read => read_elsewhere(mirror, slot.errors, &segments, &mut buffer),
            Kind::Write | Kind::Flush => {
                mirror.conclude(slot.done, slot.errors).and(mirror.end(slot.writing))
            }
        };
        done.push(Completion { tag: slot.tag, result, segments, buffer });
    }

    /// A copy that has not completed the oldest request in flight.
    fn slowest(&self) -> Option<usize> {
        let oldest = self.slots.iter().flatten().min_by_key(|slot| slot.number)?;
        bits(oldest.waiting).next()
    }
}

/// Concludes a read: if its copy failed, reads from the other copies.
fn read_elsewhere(mirror: &Mirror, errors: Errors, segments: &Segments, buffer: &mut Buffer) -> Result<()> {
    let Some((copy, error)) = errors.into_iter().next() else { return Ok(()) };
    if let [segment] = segments[..] {
        let range = buffer_range(&mirror.name, &segment, buffer.len())?;
        return mirror.read_elsewhere(copy, error, segment.offset, &mut buffer[range]);
    }
    mirror.count_failure(copy);
    // Repeated one by one to find the segments that fail.
    for segment in segments {
        let range = buffer_range(&mirror.name, segment, buffer.len())?;
        mirror.read_from(copy, segment.offset, &mut buffer[range])?;
    }
    Ok(())
}

/// Reads a range that is being written, at once with blocking calls.
fn read_by_stripe(mirror: &Mirror, segments: &Segments, buffer: &mut Buffer) -> Result<()> {
    for segment in segments {
        let range = buffer_range(&mirror.name, segment, buffer.len())?;
        mirror.read_by_stripe(segment.offset, &mut buffer[range])?;
    }
    Ok(())
}

impl Queue for MirrorQueue<'_> {
    fn submit(&mut self, request: Request) {
        assert!(
            self.in_flight() < self.slots.len(),
            "more requests in flight than the queue's depth of {}",
            self.slots.len()
        );
        let refused = check_request(self.mirror, &request);
        let Request { tag, kind, durable, segments, buffer } = request;
        if refused.is_err() || (segments.is_empty() && kind != Kind::Flush) {
            self.ended.push(Completion { tag, result: refused, segments, buffer });
            return;
        }
        let range = |segment: &Segment| segment.offset..segment.offset + u64::from(segment.length);
        let mut ranges = segments.iter().map(range);
        let (writing, copies) = match kind {
            Kind::Read => {
                let copy = self.mirror.reader(segments[0].offset);
                if ranges.any(|range| self.mirror.is_ahead(copy, &range)) {
                    let mut buffer = buffer;
                    let result = read_by_stripe(self.mirror, &segments, &mut buffer);
                    self.ended.push(Completion { tag, result, segments, buffer });
                    return;
                }
                (Writing::new(), bit(copy))
            }
            Kind::Write => match self.mirror.begin(ranges) {
                Ok(writing) => (writing, self.mirror.serving().0),
                Err(error) => {
                    self.ended.push(Completion { tag, result: Err(error), segments, buffer });
                    return;
                }
            },
            Kind::Flush => (Writing::new(), self.mirror.serving().0),
        };
        let place = self.free.pop().expect("fewer in flight than there are slots");
        let (number, errors) = (self.submitted, Errors::new());
        self.submitted += 1;
        self.slots[place] =
            Some(Slot { tag, kind, number, waiting: copies, done: 0, errors, writing, kept: None });
        let mut copies = bits(copies);
        let last = copies.next().expect("a copy is in service");
        for copy in copies {
            let (segments, buffer) = (segments.clone(), self.duplicate(&buffer));
            self.give(copy, Request { tag: place as u64, kind, durable, segments, buffer });
        }
        self.give(last, Request { tag: place as u64, kind, durable, segments, buffer });
    }

    fn kick(&mut self) -> Result<()> {
        self.below.iter_mut().flatten().try_for_each(|queue| queue.kick())
    }

    fn wait_beside(&mut self, least: usize, done: &mut Vec<Completion>, _work: &mut Work<'_>) -> Result<()> {
        let wanted = done.len() + least;
        loop {
            done.append(&mut self.ended);
            for copy in 0..self.below.len() {
                self.collect(copy, 0, done)?;
            }
            if done.len() >= wanted {
                return Ok(());
            }
            // One thread cannot wait for several queues at once, and the oldest request is the likeliest to complete
            // next.
            let Some(copy) = self.slowest() else { return Ok(()) };
            self.collect(copy, 1, done)?;
        }
    }

    fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len() + self.ended.len()
    }
}

impl Drop for MirrorQueue<'_> {
    fn drop(&mut self) {
        let mut done = Vec::new();
        while self.in_flight() > 0 {
            if self.wait(1, &mut done).is_err() {
                break;
            }
        }
        // It is unknown whether the requests that did not come back were carried out. Dropping the queues below waits
        // for them; their ranges must not stay in use for ever.
        self.below.clear();
        for slot in self.slots.drain(..).flatten() {
            let _ = self.mirror.end(slot.writing);
        }
    }
}
