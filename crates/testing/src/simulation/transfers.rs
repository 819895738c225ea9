//! Planned transfers of a caller, kept in flight together and finished as they complete.

use super::caller::Caller;
use super::history::{Action, Call, Moment};
use platter_device::{Buffer, Completion, Kind as RequestKind, Queue, Request};
use platter_vfs::{Error, Plan};
use std::ops::Range;

/// A planned transfer on its way.
struct Flight {
    file: usize,
    write: bool,
    range: Range<u64>,
    id: u8,
    began: Moment,
    plan: Plan,
}

impl Caller<'_> {
    /// Keeps transfers in flight together and finishes them as they complete.
    pub(super) fn planned(&mut self, file: usize, parts: &[(bool, Range<u64>)]) {
        let (stage, node) = (self.stage, self.nodes[file]);
        let system = &*stage.system;
        let mut queue = match system.queue(parts.len()) {
            Ok(queue) => queue,
            Err(error) => return self.expect(&error, "queue"),
        };
        let mut flights: Vec<Option<Flight>> = Vec::new();
        for (write, range) in parts {
            let length = (range.end - range.start) as usize;
            let id = if *write { stage.id() } else { 0 };
            let mut buffer = Buffer::new(length);
            buffer.fill(if *write { id } else { 0xEE });
            let began = stage.moment();
            let mut plan = Plan::default();
            let planned = loop {
                let planned = match write {
                    true => system.plan_write(node, range.start, &buffer, &mut plan),
                    false => system.plan_read(node, range.start, length, &mut plan),
                };
                match planned {
                    Err(Error::Busy) if queue.in_flight() > 0 => self.collect(&mut *queue, &mut flights, 1),
                    Err(Error::Busy) => system.wait_until_free(node),
                    planned => break planned,
                }
            };
            if let Err(error) = planned {
                self.expect(&error, "plan");
                continue;
            }
            if *write && plan.work_beside && self.random.chance(50) {
                system.work_beside(&mut plan, 0, &buffer);
            }
            let kind = if *write { RequestKind::Write } else { RequestKind::Read };
            let segments = std::mem::take(&mut plan.segments);
            let flight = Flight { file, write: *write, range: range.clone(), id, began, plan };
            let tag = flights.len() as u64;
            flights.push(Some(flight));
            queue.submit(Request { tag, kind, durable: false, segments, buffer });
        }
        while queue.in_flight() > 0 {
            self.collect(&mut *queue, &mut flights, 1);
        }
    }

    fn collect(&self, queue: &mut dyn Queue, flights: &mut [Option<Flight>], least: usize) {
        let mut done = Vec::new();
        if let Err(error) = queue.wait(least, &mut done) {
            self.stage.fault(format!("the queue: {error}"));
        }
        for completion in done {
            let flight = flights[completion.tag as usize].take().expect("each completes once");
            self.finish(flight, completion);
        }
    }

    fn finish(&self, flight: Flight, completion: Completion) {
        let system = &*self.stage.system;
        let Flight { file, write, range, id, began, mut plan } = flight;
        let Completion { result, segments, mut buffer, .. } = completion;
        plan.segments = segments;
        let (action, outcome) = if write {
            (Action::Write(range, id), system.finish_write(&mut plan, &buffer, result).map(drop))
        } else {
            let asked = range.end - range.start;
            let read = system.finish_read(&mut plan, &mut buffer, result);
            let seen = buffer[..*read.as_ref().unwrap_or(&0)].to_vec();
            (Action::Read(range.start, asked, seen), read.map(drop))
        };
        let returned = self.stage.moment();
        if let Err(error) = &outcome {
            self.expect(error, "finish");
        }
        let failed = outcome.is_err();
        if failed && !write {
            return;
        }
        self.stage.note(Call { caller: self.number, file, action, began, returned, failed, planned: write });
    }
}
