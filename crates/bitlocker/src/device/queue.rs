//! The queue of an encrypted volume: what is read is decrypted when it arrives, and of what is written an encrypted copy
//! goes on to the device.

use super::EncryptedVolume;
use crate::regions::Lies;
use platter_device::{
    Buffer, Completion, Device, Error, Kind, Operation, Queue, Request, Result, Segment, Segments, Work,
    check_transfer,
};
use smallvec::SmallVec;

/// A request in flight: what is given back with its completion.
struct Sent {
    tag: u64,
    segments: Segments,
    /// The caller's content of a write.
    original: Option<Buffer>,
    /// What of the buffer is to be decrypted: position, length, and where it is.
    parts: SmallVec<[(usize, usize, Lies); 2]>,
}

pub(crate) struct VolumeQueue<'d> {
    volume: &'d EncryptedVolume,
    below: Box<dyn Queue + 'd>,
    /// The requests in flight below; the index is their tag there.
    slots: Vec<Option<Sent>>,
    free: Vec<usize>,
    /// Buffers for encrypted copies, for reuse: at most one for each slot.
    spare: Vec<Buffer>,
    /// Requests that are complete and were not passed on.
    ended: Vec<Completion>,
}

impl<'d> VolumeQueue<'d> {
    pub(super) fn new(
        volume: &'d EncryptedVolume,
        below: Box<dyn Queue + 'd>,
        depth: usize,
    ) -> VolumeQueue<'d> {
        let slots = (0..depth).map(|_| None).collect();
        let free = (0..depth).rev().collect();
        VolumeQueue { volume, below, slots, free, spare: Vec::new(), ended: Vec::new() }
    }

    /// Fails if a request breaks the contract, or writes where nothing can be written.
    fn check(&self, request: &Request) -> Result<()> {
        for Segment { offset, at, length } in &request.segments {
            let end = *at as usize + *length as usize;
            let Some(part) = request.buffer.get(*at as usize..end) else {
                let reason = format!("a segment ends at {end} in a buffer of {} bytes", request.buffer.len());
                return Err(Error::Unusable { device: self.volume.name().into(), reason });
            };
            match request.kind {
                Kind::Read => check_transfer(self.volume, Operation::Read, *offset, u64::from(*length))?,
                Kind::Write => self.volume.check_write(*offset, part)?,
                Kind::Flush => {}
            }
        }
        Ok(())
    }

    /// Translates a request to one for the device below; `None` if it is complete.
    fn passed_on(&mut self, mut request: Request) -> Option<Request> {
        let depth = self.slots.len();
        assert!(self.in_flight() < depth, "more requests in flight than the queue's depth of {depth}");
        let checked = self.check(&request);
        let mut placed = Segments::new();
        let mut parts = SmallVec::new();
        if checked.is_ok() {
            for Segment { offset, at, length } in &request.segments {
                for (from, length, lies) in self.volume.pieces(*offset, u64::from(*length)) {
                    let from = *at as usize + from;
                    match EncryptedVolume::place(lies) {
                        Some(offset) => {
                            placed.push(Segment { offset, at: from as u32, length: length as u32 });
                            parts.push((from, length, lies));
                        }
                        None if request.kind == Kind::Read => request.buffer[from..from + length].fill(0),
                        None => {}
                    }
                }
            }
        }
        if checked.is_err() || placed.is_empty() && request.kind != Kind::Flush {
            let Request { tag, segments, buffer, .. } = request;
            self.ended.push(Completion { tag, result: checked, segments, buffer });
            return None;
        }
        let original = (request.kind == Kind::Write).then(|| {
            let copy = self.encrypted(&request.buffer, &parts);
            parts.clear();
            std::mem::replace(&mut request.buffer, copy)
        });
        let slot = self.free.pop().expect("fewer are in flight than there are slots");
        let segments = std::mem::replace(&mut request.segments, placed);
        self.slots[slot] = Some(Sent { tag: request.tag, segments, original, parts });
        request.tag = slot as u64;
        Some(request)
    }

    /// A copy of a buffer in which these parts are encrypted.
    fn encrypted(&mut self, buffer: &Buffer, parts: &[(usize, usize, Lies)]) -> Buffer {
        let spare = self.spare.iter().position(|spare| spare.len() == buffer.len());
        let mut copy = match spare {
            Some(at) => self.spare.swap_remove(at),
            None => Buffer::new(buffer.len()),
        };
        for &(at, length, lies) in parts {
            let part = at..at + length;
            copy[part.clone()].copy_from_slice(&buffer[part.clone()]);
            self.volume.encode(lies, &mut copy[part]);
        }
        copy
    }
}

impl Queue for VolumeQueue<'_> {
    fn submit(&mut self, request: Request) {
        if let Some(request) = self.passed_on(request) {
            self.below.submit(request);
        }
    }

    fn kick(&mut self) -> Result<()> {
        self.below.kick()
    }

    fn wait_beside(&mut self, least: usize, done: &mut Vec<Completion>, _work: &mut Work<'_>) -> Result<()> {
        let least = least.saturating_sub(self.ended.len());
        done.append(&mut self.ended);
        let first = done.len();
        let waited = self.below.wait(least, done);
        for completion in &mut done[first..] {
            let slot = completion.tag as usize;
            let sent = self.slots[slot].take().expect("it was on its way");
            self.free.push(slot);
            if completion.result.is_ok() {
                for (at, length, lies) in sent.parts {
                    self.volume.decode(lies, &mut completion.buffer[at..at + length]);
                }
            }
            if let Some(original) = sent.original {
                let copy = std::mem::replace(&mut completion.buffer, original);
                if self.spare.len() == self.slots.len() {
                    self.spare.remove(0);
                }
                self.spare.push(copy);
            }
            completion.tag = sent.tag;
            completion.segments = sent.segments;
        }
        waited
    }

    fn in_flight(&self) -> usize {
        self.below.in_flight() + self.ended.len()
    }
}
