//! The planned transfers of a caller, which are kept in flight together and finished as they complete.

use super::caller::{Caller, rest};
use super::history::{Action, Call};
use super::moment::Moment;
use platter_device::{Buffer, Completion, Kind as RequestKind, Queue, Request};
use platter_vfs::{Error, Node, Plan, SyncNeed, SyncScope};
use std::ops::Range;

/// The tag of a planned sync; the tags of transfers count from 0.
const SYNC: u64 = u64::MAX;

/// A planned transfer in flight.
struct Flight {
    write: bool,
    range: Range<u64>,
    id: u8,
    began: Moment,
    plan: Plan,
    /// The data of a write, while the queue has the content of its plan.
    aside: Option<Buffer>,
    /// Whether it is a durable write (force unit access).
    durable: bool,
    /// Whether a planned sync in flight records this write.
    is_beside: bool,
}

/// The transfers of one step.
struct Together<'c, 's> {
    caller: &'c Caller<'s>,
    file: usize,
    node: Node,
    queue: Box<dyn Queue + 'c>,
    flights: Vec<Option<Flight>>,
    /// Whether writes are submitted as durable ones, with a planned sync beside them where the volume plans one.
    durable: bool,
    /// Whether a sync is needed when all transfers are finished.
    needs_sync: bool,
    /// The result of the planned sync, when it has completed.
    synced: Option<platter_device::Result<()>>,
    /// The indices of the calls that the planned sync makes durable.
    beside: Vec<usize>,
}

impl Caller<'_> {
    /// Keeps transfers in flight together and finishes them as they complete, after letting others go on `late` times.
    pub(super) fn planned(&mut self, file: usize, parts: &[(bool, Range<u64>)], durable: bool, late: u64) {
        // Drawn beforehand, so that the numbers do not depend on what others do.
        let works: Vec<bool> = parts.iter().map(|_| self.random.chance(50)).collect();
        let caller = &*self;
        let queue = match caller.stage.system.queue(parts.len() + 1) {
            Ok(queue) => queue,
            Err(error) => return caller.expect(&error, "queue"),
        };
        let mut together = Together {
            caller,
            file,
            node: caller.node(file),
            queue,
            flights: Vec::new(),
            durable,
            needs_sync: false,
            synced: None,
            beside: Vec::new(),
        };
        for ((write, range), works) in parts.iter().zip(works) {
            together.start(*write, range, works);
        }
        let sync = if durable { together.sync_beside() } else { None };
        rest(late);
        while together.queue.in_flight() > 0 {
            together.collect();
        }
        together.end(sync);
    }
}

impl Together<'_, '_> {
    /// Plans a transfer and submits it.
    fn start(&mut self, write: bool, range: &Range<u64>, works: bool) {
        let stage = self.caller.stage;
        let system = &*stage.system;
        let length = (range.end - range.start) as usize;
        let id = if write { stage.id() } else { 0 };
        let mut buffer = Buffer::new(length);
        buffer.fill(if write { id } else { 0xEE });
        let began = stage.moment();
        let mut plan = Plan::default();
        let planned = loop {
            let make = |plan: &mut Plan| match write {
                true => system.plan_write(self.node, range.start, &buffer, plan),
                false => system.plan_read(self.node, range.start, length, plan),
            };
            match plan.make_whole(&**system.device(), make) {
                Err(Error::Busy) if self.queue.in_flight() > 0 => self.collect(),
                Err(Error::Busy) => system.wait_until_free(self.node),
                planned => break planned,
            }
        };
        if let Err(error) = planned {
            return self.caller.expect(&error, "plan");
        }
        if write && plan.work_beside && works {
            system.work_beside(&mut plan, 0, &buffer);
        }
        let kind = if write { RequestKind::Write } else { RequestKind::Read };
        let durable = write && self.durable && plan.sync != SyncNeed::After;
        let segments = std::mem::take(&mut plan.segments);
        let (buffer, aside) = match plan.content.take() {
            Some(content) => (content, Some(buffer)),
            None => (buffer, None),
        };
        let flight =
            Flight { write, range: range.clone(), id, began, plan, aside, durable, is_beside: false };
        let tag = self.flights.len() as u64;
        self.flights.push(Some(flight));
        self.queue.submit(Request { tag, kind, durable, segments, buffer });
    }

    /// Plans a sync of the writes in flight and submits it beside them, if the volume can.
    fn sync_beside(&mut self) -> Option<Plan> {
        let suits = |flight: &&mut Flight| flight.write && flight.plan.sync == SyncNeed::Beside;
        if !self.flights.iter_mut().flatten().any(|flight| suits(&flight)) {
            return None;
        }
        let (mut sync, mut buffer) = (Plan::default(), Buffer::new(0));
        let mut writes = self.flights.iter_mut().flatten().filter(suits).map(|flight| &mut flight.plan);
        match self.caller.stage.system.plan_sync(&mut writes, &mut sync, &mut buffer) {
            Ok(true) => {}
            Ok(false) => return None,
            Err(error) => {
                self.caller.expect(&error, "plan a sync");
                return None;
            }
        }
        self.flights.iter_mut().flatten().filter(suits).for_each(|flight| flight.is_beside = true);
        let segments = std::mem::take(&mut sync.segments);
        self.queue.submit(Request { tag: SYNC, kind: RequestKind::Write, durable: true, segments, buffer });
        Some(sync)
    }

    fn collect(&mut self) {
        let mut done = Vec::new();
        if let Err(error) = self.queue.wait(1, &mut done) {
            self.caller.stage.fault(format!("the queue: {error}"));
        }
        for completion in done {
            match completion.tag {
                SYNC => self.synced = Some(completion.result),
                tag => {
                    let flight = self.flights[tag as usize].take().expect("each completes once");
                    self.finish(flight, completion);
                }
            }
        }
    }

    fn finish(&mut self, flight: Flight, completion: Completion) {
        let stage = self.caller.stage;
        let system = &*stage.system;
        let Flight { write, range, id, began, mut plan, aside, durable, is_beside } = flight;
        let Completion { result, segments, mut buffer, .. } = completion;
        plan.segments = segments;
        if let Some(data) = aside {
            plan.content = Some(std::mem::replace(&mut buffer, data));
        }
        let mut survives = false;
        let (action, outcome) = if write {
            let finished = system.finish_write(&mut plan, &buffer, result);
            // A durable write that needs no sync survives by itself.
            survives = durable && matches!(finished, Ok(false));
            self.needs_sync |= self.durable && !is_beside && matches!(finished, Ok(true));
            (Action::Write(range, id), finished.map(drop))
        } else {
            let asked = range.end - range.start;
            let read = system.finish_read(&mut plan, &mut buffer, result);
            let seen = buffer[..*read.as_ref().unwrap_or(&0)].to_vec();
            (Action::Read(range.start, asked, seen), read.map(drop))
        };
        let returned = stage.moment();
        if let Err(error) = &outcome {
            self.caller.expect(error, "finish");
        }
        let failed = outcome.is_err();
        if failed && !write {
            return;
        }
        let (caller, file) = (self.caller.number, self.file);
        let durable = (survives && !is_beside).then_some(returned.writes);
        let call = Call { caller, file, action, began, returned, failed, planned: write, durable };
        let number = stage.note(call);
        if is_beside && !failed {
            self.beside.push(number);
        }
    }

    /// Finishes the planned sync, and syncs what it does not cover.
    fn end(self, sync: Option<Plan>) {
        let (caller, stage) = (self.caller, self.caller.stage);
        let system = &*stage.system;
        if let (Some(mut sync), Some(done)) = (sync, self.synced) {
            match system.finish_sync(&mut sync, done) {
                Ok(()) => {
                    let now = stage.moment();
                    let mut history = stage.history();
                    self.beside.iter().for_each(|&call| history.calls[call].durable = Some(now.writes));
                }
                Err(error) => caller.expect(&error, "finish a sync"),
            }
        }
        if self.needs_sync {
            let began = stage.moment();
            let outcome = system.sync(self.node, SyncScope::Data);
            caller.synced(Some(self.file), began, outcome);
        }
    }
}
