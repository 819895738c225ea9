//! The requests that a queue has in flight, whatever carries out their transfers.

use crate::queue::check_request;
use crate::{Buffer, Completion, Device, Error, Kind, Operation, Request, Result, Segment, Segments, Work};
use std::io;

/// A request in flight.
struct Slot {
    tag: u64,
    kind: Kind,
    durable: bool,
    segments: Segments,
    buffer: Buffer,
    /// Whether its parts are passed to the caller as they arrive.
    in_parts: bool,
    /// For each segment, the bytes transferred so far: the system may transfer fewer than it was asked for.
    progress: smallvec::SmallVec<[u32; 2]>,
    /// The number of its transfers that are not yet reaped.
    pending: u32,
    result: Result<()>,
}

/// What is left to do of a segment.
pub(super) struct Transfer {
    pub kind: Kind,
    pub durable: bool,
    /// In the buffer of the request, which neither moves nor is freed while the request has its slot.
    pub memory: *mut u8,
    pub length: usize,
    pub offset: u64,
}

/// Requests in flight, by slot number.
pub(super) struct Slots {
    all: Vec<Option<Slot>>,
    free: Vec<usize>,
    /// Requests that ended without I/O: refused, or without segments.
    refused: Vec<Completion>,
    /// Whether some parts of a read have arrived while others are in flight.
    pub partly: bool,
}

impl Slots {
    pub(super) fn new(depth: usize) -> Slots {
        let all = std::iter::repeat_with(|| None).take(depth).collect();
        Slots { all, free: (0..depth).rev().collect(), refused: Vec::new(), partly: false }
    }

    /// Gives a request a slot; returns the slot number and the number of transfers, which the caller is to start. `None`
    /// if it ended without I/O.
    ///
    /// # Panics
    /// If every slot is taken: the caller has more requests in flight than the queue's depth.
    pub(super) fn admit(
        &mut self,
        device: &dyn Device,
        request: Request,
        in_parts: bool,
    ) -> Option<(usize, usize)> {
        let checked = check_request(device, &request);
        let transfers = if request.kind == Kind::Flush { 1 } else { request.segments.len() };
        let Request { tag, kind, durable, segments, buffer } = request;
        if checked.is_err() || transfers == 0 {
            self.refused.push(Completion { tag, result: checked, segments, buffer });
            return None;
        }
        let Some(number) = self.free.pop() else {
            panic!("more requests in flight than the queue's depth of {}", self.all.len())
        };
        // A part that is passed on must not be written to by another transfer, so the segments must not overlap in the
        // buffer.
        let end = |segment: &Segment| u64::from(segment.at) + u64::from(segment.length);
        let in_parts = in_parts && segments.is_sorted_by(|one, next| end(one) <= u64::from(next.at));
        let progress = smallvec::smallvec![0; transfers];
        let pending = transfers as u32;
        self.all[number] =
            Some(Slot { tag, kind, durable, segments, buffer, in_parts, progress, pending, result: Ok(()) });
        Some((number, transfers))
    }

    fn slot(&mut self, number: usize) -> &mut Slot {
        self.all[number].as_mut().expect("a slot in flight")
    }

    /// What is left to do of a segment of a request; of a flush a transfer without memory.
    pub(super) fn left(&mut self, number: usize, segment: usize) -> Transfer {
        let Slot { kind, durable, segments, buffer, progress, .. } = self.slot(number);
        let (kind, durable) = (*kind, *durable);
        if kind == Kind::Flush {
            return Transfer { kind, durable, memory: std::ptr::null_mut(), length: 0, offset: 0 };
        }
        let piece = segments[segment];
        let done = progress[segment] as usize;
        let start = piece.at as usize + done;
        let length = piece.length as usize - done;
        let memory = buffer.place(start..start + length);
        Transfer { kind, durable, memory, length, offset: piece.offset + done as u64 }
    }

    /// Records the result of a transfer, the number of bytes, and returns whether the rest of it must be requested again.
    pub(super) fn transferred(
        &mut self,
        device: &dyn Device,
        number: usize,
        segment: usize,
        result: io::Result<usize>,
    ) -> bool {
        let slot = self.slot(number);
        let (operation, offset, length) = match slot.kind {
            Kind::Flush => (Operation::Flush, 0, 0),
            kind => {
                let piece = slot.segments[segment];
                let operation = if kind == Kind::Read { Operation::Read } else { Operation::Write };
                (operation, piece.offset, piece.length)
            }
        };
        let source = match result {
            Ok(_) if slot.kind == Kind::Flush => return false,
            Ok(0) if length > 0 => io::ErrorKind::UnexpectedEof.into(),
            Ok(bytes) => {
                slot.progress[segment] += bytes as u32;
                return slot.progress[segment] < length;
            }
            Err(source) => source,
        };
        if slot.result.is_ok() {
            slot.result = Err(Error::io(device.name(), operation, offset, u64::from(length), source));
        }
        false
    }

    /// Ends a transfer: a request without further ones goes to `done`, a part of others to `work`. Returns whether the
    /// request ended.
    pub(super) fn end(
        &mut self,
        number: usize,
        segment: usize,
        done: &mut Vec<Completion>,
        work: &mut Work<'_>,
    ) -> bool {
        let slot = self.all[number].as_mut().expect("a slot in flight");
        slot.pending -= 1;
        if slot.in_parts {
            self.partly = slot.pending > 0;
        }
        if slot.pending == 0 {
            let Slot { tag, result, segments, buffer, .. } =
                self.all[number].take().expect("a slot in flight");
            self.free.push(number);
            done.push(Completion { tag, result, segments, buffer });
            return true;
        }
        if slot.in_parts && slot.result.is_ok() {
            let Segment { at, length, .. } = slot.segments[segment];
            let part = at as usize..at as usize + length as usize;
            work(slot.tag, part.start, slot.buffer.part(part));
        }
        false
    }

    /// Whether only a flush is missing to a durable write: its last transfer has arrived, and none has failed.
    #[cfg(windows)]
    pub(super) fn wants_flush(&self, number: usize) -> bool {
        let slot = self.all[number].as_ref().expect("a slot in flight");
        slot.kind == Kind::Write && slot.durable && slot.pending == 1 && slot.result.is_ok()
    }

    /// Records an error of a request, if it is the first.
    #[cfg(windows)]
    pub(super) fn fail(&mut self, number: usize, error: Error) {
        let slot = self.slot(number);
        if slot.result.is_ok() {
            slot.result = Err(error);
        }
    }

    /// Moves the requests that ended without I/O to `done`, and returns their number.
    pub(super) fn end_refused(&mut self, done: &mut Vec<Completion>) -> usize {
        let count = self.refused.len();
        done.append(&mut self.refused);
        count
    }

    /// The content of a request in flight.
    pub(super) fn content(&self, number: usize) -> &[u8] {
        &self.all[number].as_ref().expect("a slot in flight").buffer
    }

    /// The bytes of a segment of a request in flight.
    #[cfg(target_os = "linux")]
    pub(super) fn bytes(&self, number: usize, segment: usize) -> u32 {
        self.all[number].as_ref().expect("a slot in flight").segments[segment].length
    }

    pub(super) fn in_flight(&self) -> usize {
        self.all.len() - self.free.len() + self.refused.len()
    }

    /// Gives up the memory of all requests in flight, to which the system may still write. Leaking it is safe.
    pub(super) fn leak(&mut self) {
        for slot in self.all.drain(..).flatten() {
            std::mem::forget(slot.buffer);
        }
    }
}
