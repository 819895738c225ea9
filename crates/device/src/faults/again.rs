//! A queue on which some requests are carried out twice.

use super::{Fault, Faults};
use crate::{Completion, Kind, Operation, Queue, Request, Result, Work};

/// A request of the caller that is in flight.
struct Waiting {
    tag: u64,
    kind: Kind,
    durable: bool,
    /// Whether the request is to be carried out a second time.
    again: bool,
}

pub(super) struct AgainQueue<'d> {
    faults: &'d Faults,
    below: Box<dyn Queue + 'd>,
    /// The requests in flight; the index in this list is the tag of the request below.
    slots: Vec<Option<Waiting>>,
}

impl<'d> AgainQueue<'d> {
    pub(super) fn new(faults: &'d Faults, below: Box<dyn Queue + 'd>, depth: usize) -> Self {
        AgainQueue { faults, below, slots: (0..depth).map(|_| None).collect() }
    }

    /// Counts the request, decides whether it is repeated, and returns it with the slot as its tag, for the queue
    /// below.
    fn placed(&mut self, mut request: Request) -> Result<Request> {
        let operation = match request.kind {
            Kind::Read => Operation::Read,
            Kind::Write => Operation::Write,
            Kind::Flush => Operation::Flush,
        };
        let (offset, length) =
            request.segments.first().map_or((0, 0), |segment| (segment.offset, u64::from(segment.length)));
        let (_, met) = self.faults.meet(operation, offset, length)?;
        let again = request.kind != Kind::Flush && met.contains(&Fault::Again);
        let free = self.slots.iter().position(Option::is_none);
        let slot = free.expect("more requests in flight than the queue's depth");
        let Request { tag, kind, durable, .. } = request;
        self.slots[slot] = Some(Waiting { tag, kind, durable, again });
        request.tag = slot as u64;
        Ok(request)
    }
}

impl Queue for AgainQueue<'_> {
    fn submit(&mut self, request: Request) {
        let request = self.placed(request).expect("no fault here makes a request fail");
        self.below.submit(request);
    }

    fn submit_beside(&mut self, request: Request, work: &mut dyn FnMut(&[u8])) -> Result<()> {
        let request = self.placed(request)?;
        self.below.submit_beside(request, work)
    }

    fn kick(&mut self) -> Result<()> {
        self.below.kick()
    }

    fn wait_beside(&mut self, least: usize, done: &mut Vec<Completion>, _work: &mut Work<'_>) -> Result<()> {
        let first = done.len();
        let mut arrived = Vec::new();
        loop {
            let missing = least.saturating_sub(done.len() - first);
            self.below.wait(missing, &mut arrived)?;
            for mut completion in arrived.drain(..) {
                let place = &mut self.slots[completion.tag as usize];
                let waiting = place.as_mut().expect("it was on its way");
                if std::mem::take(&mut waiting.again) && completion.result.is_ok() {
                    let Waiting { kind, durable, .. } = *waiting;
                    let Completion { tag, segments, buffer, .. } = completion;
                    self.below.submit(Request { tag, kind, durable, segments, buffer });
                } else {
                    completion.tag = waiting.tag;
                    *place = None;
                    done.push(completion);
                }
            }
            if done.len() - first >= least || self.below.in_flight() == 0 {
                return self.below.kick();
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.below.in_flight()
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        Buffer, Device, Fault, Faults, Kind, MemoryDevice, Operation, Recorder, Request, Sectors, Segment,
        When,
    };
    use smallvec::smallvec;
    use std::sync::Arc;

    #[test]
    fn one_in_nine_is_carried_out_twice() {
        let memory = Arc::new(MemoryDevice::new(1 << 20, Sectors::SMALL));
        let recorder = Arc::new(Recorder::new(memory));
        let faults = Faults::new(recorder.clone(), 7);
        faults.inject(When::one_in(Operation::Read, 9), Fault::Again);
        let mut queue = faults.queue(8).unwrap();
        let mut done = Vec::new();
        for round in 0..1000_u64 {
            for tag in 0..8 {
                let segments =
                    smallvec![Segment { offset: (round * 8 + tag) % 100 * 512, at: 0, length: 512 }];
                queue.submit(Request {
                    tag,
                    kind: Kind::Read,
                    durable: false,
                    segments,
                    buffer: Buffer::new(512),
                });
            }
            queue.wait(8, &mut done).unwrap();
            let mut tags: Vec<u64> = done.drain(..).map(|completion| completion.tag).collect();
            tags.sort_unstable();
            assert_eq!(tags, [0, 1, 2, 3, 4, 5, 6, 7]);
        }
        drop(queue);
        let reads = recorder.traffic().read.count;
        assert!((8_790..8_990).contains(&reads), "{reads} of about 8,889");
    }
}
