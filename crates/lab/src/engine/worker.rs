//! One worker: a thread that keeps its number of I/Os in flight.

use super::cells::{self, CELL, Ledger};
use super::measure::{Interval, Outcome};
use super::pace::{Go, Pacer};
use super::script::{Cue, Played};
use super::walk::{Layout, Step, Walk};
use super::{Durability, Job, Stop};
use crate::{Error, Result, Subject};
use platter_device::{Buffer, Completion, Kind, Queue, Request, Segment, Segments, sync};
use platter_vfs::{Error as FsError, Plan, Preread, SyncNeed};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The greatest number of corruptions that a worker describes; further ones are only counted.
const DESCRIBED: usize = 16;

/// The times that all workers share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// When the ramp-up begins.
    start: Instant,
    /// When measuring begins.
    measuring: Instant,
    /// After this time no further I/O is issued; `None` if only a count of I/Os ends the job.
    end: Option<Instant>,
}

impl Clock {
    pub(super) fn new(start: Instant, job: &Job) -> Clock {
        let measuring = start + job.ramp_up;
        Clock { start, measuring, end: job.stop.time().map(|time| measuring + time) }
    }
}

/// One of the worker's I/Os in flight, or room for one.
struct Slot {
    plan: Plan,
    /// The buffer, while the slot is free; during an I/O the queue owns it.
    buffer: Option<Buffer>,
    /// The buffer, while the queue has another one for this I/O: that of a preread, or the content of the plan.
    aside: Option<Buffer>,
    /// Whether a preread of the plan is in flight.
    is_preread: bool,
    read: bool,
    offset: u64,
    length: usize,
    issued: Instant,
    /// Whether the write becomes durable with the sync that is planned beside it.
    is_beside: bool,
}

impl Slot {
    /// Returns which sync this I/O needs to become durable; none if it is a read or need not be durable.
    fn sync_need(&self, job: &Job) -> SyncNeed {
        match (self.read, job.durability) {
            (false, Durability::WriteThrough) => self.plan.sync,
            _ => SyncNeed::None,
        }
    }
}

impl Slot {
    /// Takes back what the queue had of this I/O: returns its buffer and its result. `None` if it was a
    /// preread, which the plan has now.
    fn take_back(&mut self, completion: Completion) -> Option<(Buffer, platter_device::Result<()>)> {
        let Completion { segments, buffer, result, .. } = completion;
        if std::mem::take(&mut self.is_preread) {
            self.plan.preread = Some(Preread { segments, buffer, is_read: result.is_ok() });
            return None;
        }
        self.plan.segments = segments;
        let Some(own) = self.aside.take() else { return Some((buffer, result)) };
        self.plan.content = Some(buffer);
        Some((own, result))
    }
}

/// The state of a sync that goes to the device beside the writes that it makes durable.
enum Beside {
    None,
    Coming {
        since: Instant,
    },
    /// The sync has completed on the device; it is finished when its writes are.
    Done {
        since: Instant,
        result: platter_device::Result<()>,
    },
}

struct Worker<'a> {
    subject: &'a Subject,
    job: &'a Job,
    ledger: Option<&'a Ledger>,
    layout: &'a Layout,
    carried: &'a mut Carried,
    /// When the next I/O may be issued, if it has to wait for a time.
    due: Option<Instant>,
    queue: Box<dyn Queue + 'a>,
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// The slots of I/Os whose prereads have arrived, and that are to be planned once more.
    again: Vec<usize>,
    clock: Clock,
    /// Whether the time is that of a model.
    is_virtual: bool,
    halt: &'a AtomicBool,
    /// The number of I/Os left to issue, if the job ends by count.
    left: u64,
    written: u64,
    unsynced: u32,
    /// The slots of writes that have completed on the device and become durable with the next sync of the volume.
    waiting: Vec<usize>,
    /// The number of writes in flight that need a sync and are not covered by a sync beside them.
    coming: usize,
    /// The sync that goes beside its writes: its state, its plan, its buffer, and how many of its writes are in flight.
    beside: Beside,
    sync: Plan,
    sync_buffer: Buffer,
    beside_coming: usize,
    outcome: Outcome,
}

/// What a worker takes with it from one piece of a job to the next.
pub(crate) struct Carried {
    walk: Walk,
    pacer: Pacer,
    /// The next read and the next write, if one was drawn that could not be issued yet. In a verified job its cells are
    /// claimed.
    held: [Option<Step>; 2],
    /// How far the worker has come in a recorded load.
    played: Played,
}

impl Carried {
    /// For the worker of this number, before the first piece of the job.
    pub(super) fn new(job: &Job, layout: &Layout, index: u32) -> Carried {
        Carried {
            walk: Walk::new(job, layout, index as usize),
            pacer: Pacer::new(job.pattern.shape.pace, job.seed ^ u64::from(index)),
            held: [None; 2],
            played: Played::new(),
        }
    }

    /// Keeps an I/O that cannot be issued yet.
    fn hold(&mut self, step: Step) {
        self.held[usize::from(!step.read)] = Some(step);
    }
}

/// The arguments of one worker.
pub(crate) struct Task<'a> {
    pub subject: &'a Subject,
    pub job: &'a Job,
    pub layout: &'a Layout,
    pub ledger: Option<&'a Ledger>,
    /// The worker's number.
    pub index: usize,
    pub carried: &'a mut Carried,
    /// The number of the piece of the job.
    pub piece: u64,
    /// Set by the coordinator when the worker is to end.
    pub halt: &'a AtomicBool,
}

/// Runs one worker; `wait` returns when all workers are ready, or `None` if the run was given up.
pub(crate) fn run(task: Task<'_>, wait: impl FnOnce() -> Option<Clock>) -> Result<Outcome> {
    let Task { subject, job, layout, ledger, index, carried, piece, halt } = task;
    let prepared = set_up(subject, job, index);
    // Every worker waits here, also one that failed to set up: the others wait for it.
    let Some(clock) = wait() else { return Err(Error::Interrupted) };
    let (queue, slots) = prepared?;
    carried.walk.begin_piece(piece);
    carried.pacer.begin(clock.start);
    carried.played.begin(clock.start);
    let workers = u64::from(job.pattern.workers);
    let left = match job.stop {
        Stop::After(_) | Stop::Slice(_) => u64::MAX,
        Stop::Count(count) | Stop::Within { count, .. } => {
            count / workers + u64::from((index as u64) < count % workers)
        }
    };
    let free = (0..slots.len()).rev().collect();
    let worker = Worker {
        subject,
        job,
        ledger,
        layout,
        carried,
        due: None,
        queue,
        slots,
        free,
        again: Vec::new(),
        clock,
        is_virtual: sync::is_virtual(),
        halt,
        left,
        written: 0,
        unsynced: 0,
        waiting: Vec::new(),
        coming: 0,
        beside: Beside::None,
        sync: Plan::default(),
        sync_buffer: Buffer::new(0),
        beside_coming: 0,
        outcome: Outcome::default(),
    };
    worker.run()
}

fn set_up<'a>(subject: &'a Subject, job: &Job, index: usize) -> Result<(Box<dyn Queue + 'a>, Vec<Slot>)> {
    let depth = job.pattern.queue_depth as usize;
    let syncs = matches!((subject, job.durability), (Subject::File { .. }, Durability::WriteThrough));
    let queue = subject.queue(depth + usize::from(syncs))?;
    let mut rng = fastrand::Rng::with_seed(job.seed ^ !(index as u64));
    let has_content = !sync::is_virtual();
    let slots = Buffer::several(depth, job.pattern.block as usize)
        .into_iter()
        .map(|mut buffer| {
            if has_content {
                rng.fill(&mut buffer);
            }
            Slot {
                plan: Plan::with_prereads(),
                buffer: Some(buffer),
                aside: None,
                is_preread: false,
                read: true,
                offset: 0,
                length: 0,
                issued: sync::now(),
                is_beside: false,
            }
        })
        .collect();
    Ok((queue, slots))
}

/// The longest that a worker sleeps before it checks again whether it is to end: with nothing in flight (`LOOK`), and
/// with I/Os in flight (`POLL`).
const LOOK: Duration = Duration::from_millis(50);
const POLL: Duration = Duration::from_micros(20);

/// The smallest block, in bytes, that a deduplicating device could find to be a copy of another.
const SECTOR: usize = 512;

/// The bytes of one cache line.
const CACHE_LINE: usize = 64;

/// Changes some bytes in every `step` bytes, so that no two sectors of a run are alike and a device cannot deduplicate
/// them.
fn make_unique(buffer: &mut [u8], mark: u64, step: usize) {
    for (piece, number) in buffer.chunks_mut(step).zip(0..) {
        let mark = mark.wrapping_add(number << 48).to_le_bytes();
        let room = piece.len().min(mark.len());
        piece[..room].copy_from_slice(&mark[..room]);
    }
}

/// Reads one word of every cache line and returns the exclusive or of the words.
fn touch(buffer: &[u8]) -> u64 {
    let words = buffer.chunks(CACHE_LINE).filter_map(|line| line.first_chunk());
    words.fold(0, |all, &word| all ^ u64::from_le_bytes(word))
}

impl Worker<'_> {
    fn run(mut self) -> Result<Outcome> {
        let outcome = self.drive();
        // No I/O is issued after the end, so that no time after it passes for the pace either.
        let now = sync::now();
        let ended = self.clock.end.map_or(now, |end| end.min(now));
        self.carried.pacer.end(ended);
        self.carried.played.end(ended);
        // Also after an error, every plan must be finished, so that the file system can release its range.
        let drained = self.drain();
        outcome.and(drained)?;
        Ok(self.outcome)
    }

    fn drive(&mut self) -> Result<()> {
        let mut done = Vec::with_capacity(self.slots.len());
        loop {
            self.plan_again()?;
            while self.issue_next()? {}
            if self.queue.in_flight() == 0 {
                if self.left == 0 && self.again.is_empty() {
                    return Ok(());
                }
                match self.due {
                    Some(due) => self.sleep(due, LOOK),
                    // No I/O is in flight and no time is due: other workers have claimed every block that was drawn.
                    None => sync::yield_now(),
                }
            }
            self.sync_beside()?;
            // If the wait fails, some I/Os may have completed all the same.
            let mut outcome = self.wait(&mut done);
            // One by one, as fio and the applications do whose loads are imitated: each completion is answered with a
            // new I/O before the next completion is looked at.
            for completion in done.drain(..) {
                // Requests that are queued go to the device before this completion is processed, which takes a while
                // where data is verified.
                outcome = outcome.and_then(|()| Ok(self.queue.kick()?));
                // Also after a failure every plan is finished, so that the file system can release its range.
                outcome = outcome.and(self.complete(completion));
                outcome = outcome.and_then(|()| self.plan_again());
                // Also before the next completion, so that no sync stands for more writes than it was asked for.
                outcome = outcome.and_then(|()| self.sync_after_writes());
                if outcome.is_ok() {
                    outcome = self.issue_next().map(drop);
                }
            }
            outcome?;
            self.end_beside()?;
            self.sync_waiting()?;
        }
    }

    /// Waits until at least one I/O completes; parts of reads that arrive early are passed to the file system to verify
    /// meanwhile. If the next I/O is due at a known time, this only collects completions and does not wait for one.
    fn wait(&mut self, done: &mut Vec<Completion>) -> Result<()> {
        let Worker { subject, queue, slots, due, .. } = self;
        debug_assert!(
            queue.in_flight() <= slots.len() + 1,
            "no more is in flight than the depth, and a sync"
        );
        let least = usize::from(due.is_none());
        match subject {
            Subject::Device { .. } => queue.wait(least, done)?,
            Subject::File { system, .. } => queue.wait_beside(least, done, &mut |tag, at, part| {
                let slot = &mut slots[tag as usize];
                let part = &part[..part.len().min(slot.length.saturating_sub(at))];
                system.work_beside(&mut slot.plan, at, part);
            })?,
        }
        if let (Some(due), true) = (*due, done.is_empty() && queue.in_flight() > 0) {
            self.sleep(due, POLL);
        }
        Ok(())
    }

    /// Sleeps until `until` or the end of the job, at most for `most`.
    fn sleep(&self, until: Instant, most: Duration) {
        let until = self.clock.end.map_or(until, |end| end.min(until));
        sync::sleep(until.saturating_duration_since(sync::now()).min(most));
    }

    /// Issues an I/O if the job is not over, a slot is free and an I/O may be issued now; returns whether one was
    /// issued.
    fn issue_next(&mut self) -> Result<bool> {
        let Some(&slot) = self.free.last() else { return Ok(false) };
        // Each I/O is submitted to the kernel on its own, as the imitated applications do, and not batched with the
        // next one. Only the last I/O before a wait is submitted together with that wait, in one system call.
        self.queue.kick()?;
        let issued = sync::now();
        if self.clock.end.is_some_and(|end| issued >= end) || self.halt.load(Relaxed) {
            self.left = 0;
        }
        self.due = None;
        if self.left == 0 {
            return Ok(false);
        }
        let step = match self.layout.script {
            None => self.next_step(issued),
            Some(_) => self.next_recorded(issued)?,
        };
        let Some(step) = step else { return Ok(false) };
        if !self.issue(slot, step, issued)? {
            return Ok(false);
        }
        self.free.pop();
        self.carried.pacer.issued(step.read, step.length, issued);
        let all = &mut self.outcome.issued;
        let (ios, bytes) = match step.read {
            true => (&mut all.reads, &mut all.read_bytes),
            false => (&mut all.writes, &mut all.write_bytes),
        };
        *ios += 1;
        *bytes += u64::from(step.length);
        if issued >= self.clock.measuring {
            self.left -= 1;
        }
        Ok(true)
    }

    /// Returns the next I/O if it may be issued now; otherwise keeps it for later.
    fn next_step(&mut self, now: Instant) -> Option<Step> {
        let held = self.carried.held.iter_mut().find_map(Option::take);
        let step = match held {
            Some(step) => step,
            None => self.draw(None, now)?,
        };
        let is_mix = self.layout.is_mix;
        match self.carried.pacer.ask(step.read, is_mix, now, self.queue.in_flight()) {
            Go::Now { read } if read == step.read => return Some(step),
            Go::Now { read } => {
                self.carried.hold(step);
                let other = self.carried.held[usize::from(!read)].take();
                return other.or_else(|| self.draw(Some(read), now));
            }
            Go::At(due) => self.due = Some(due),
            Go::WhenIdle => {}
        }
        self.carried.hold(step);
        None
    }

    /// Returns the next I/O of a recorded load if it may be issued now; syncs before it are done first.
    fn next_recorded(&mut self, now: Instant) -> Result<Option<Step>> {
        if let Some(step) = self.carried.held.iter_mut().find_map(Option::take) {
            return Ok(Some(step));
        }
        let Some((script, sector)) = &self.layout.script else { return Ok(None) };
        loop {
            match self.carried.played.cue(script, now) {
                Cue::Io(event) => {
                    self.carried.played.done();
                    return Ok(Some(self.layout.recorded(&event, *sector)));
                }
                Cue::At(due) => {
                    self.due = Some(due);
                    return Ok(None);
                }
                // What was written before it has to be on its way to be made durable.
                Cue::Sync if self.queue.in_flight() > 0 => return Ok(None),
                Cue::Sync => {
                    self.carried.played.done();
                    self.sync()?;
                }
            }
        }
    }

    /// Draws the next I/O, in the direction that is wanted if one is. With verification, draws until the block has no
    /// I/O in flight; `None` if no such block was found.
    fn draw(&mut self, wanted: Option<bool>, now: Instant) -> Option<Step> {
        let Carried { walk, pacer, .. } = &mut *self.carried;
        let mut steps = std::iter::repeat_with(|| walk.step(self.layout, wanted));
        let step = match self.ledger {
            None => steps.next(),
            // With more I/Os in flight than blocks, no block can be claimed until an I/O completes.
            Some(ledger) => steps.take(64).find(|step| ledger.claim(step.offset, step.length as usize)),
        }?;
        if !step.delay.is_zero() {
            pacer.delay(step.delay, now);
        }
        Some(step)
    }

    /// Plans the I/Os whose prereads have arrived once more, and issues them.
    fn plan_again(&mut self) -> Result<()> {
        while let Some(index) = self.again.pop() {
            let buffer = self.slots[index].aside.take().expect("it was put aside");
            if !self.submit(index, buffer)? {
                self.slots[index].aside = self.slots[index].buffer.take();
                self.again.push(index);
                break;
            }
        }
        Ok(())
    }

    /// Issues one I/O; returns `false` if it has to wait until an I/O in flight completes, because another caller has
    /// claimed its range.
    fn issue(&mut self, index: usize, step: Step, issued: Instant) -> Result<bool> {
        let Step { read, offset, length, .. } = step;
        let size = length as usize;
        let slot = &mut self.slots[index];
        assert!(length > 0 && size <= self.job.pattern.block as usize, "an I/O fits the buffers of its job");
        let mut buffer = slot.buffer.take().expect("a free slot has its buffer");
        if !read {
            self.written += 1;
            match self.ledger {
                Some(ledger) => cells::stamp(&mut buffer[..size], offset, |at| ledger.next(at)),
                // Nothing in virtual time depends on the content, and zeroes take no memory.
                None if self.is_virtual => {}
                None => {
                    let step = if self.job.touch { CACHE_LINE } else { SECTOR };
                    make_unique(&mut buffer[..size], self.written ^ offset << 20, step);
                }
            }
        }
        slot.read = read;
        slot.offset = offset;
        slot.length = size;
        slot.issued = issued;
        let is_issued = self.submit(index, buffer)?;
        if !is_issued {
            self.carried.hold(step);
        }
        Ok(is_issued)
    }

    /// Plans the I/O of a slot and gives it to the queue, or the preread that it needs first. Returns `false`, with the
    /// buffer back in the slot, if it has to wait because another caller has claimed its range.
    fn submit(&mut self, index: usize, buffer: Buffer) -> Result<bool> {
        let slot = &mut self.slots[index];
        let Slot { read, offset, length: size, .. } = *slot;
        let segments = match self.subject {
            Subject::Device { .. } => Segments::from_slice(&[Segment { offset, at: 0, length: size as u32 }]),
            Subject::File { system, node } => {
                let planned = loop {
                    let planned = match read {
                        true => system.plan_read(*node, offset, size, &mut slot.plan),
                        false => system.plan_write(*node, offset, &buffer[..size], &mut slot.plan),
                    };
                    match planned {
                        Err(FsError::Busy) if self.queue.in_flight() == 0 => system.wait_until_free(*node),
                        planned => break planned,
                    }
                };
                if let Err(FsError::Busy) = planned {
                    // The caller that has claimed the range may be waiting for this worker's I/Os in flight, so they
                    // are not held up.
                    slot.buffer = Some(buffer);
                    return Ok(false);
                }
                planned?;
                if let Some(Preread { segments, buffer: into, .. }) = slot.plan.preread.take() {
                    (slot.aside, slot.is_preread) = (Some(buffer), true);
                    let (tag, kind) = (index as u64, Kind::Read);
                    self.queue.submit(Request { tag, kind, durable: false, segments, buffer: into });
                    return Ok(true);
                }
                std::mem::take(&mut slot.plan.segments)
            }
        };
        let kind = if read { Kind::Read } else { Kind::Write };
        let need = slot.sync_need(self.job);
        let durable = !read && self.job.durability == Durability::WriteThrough && need != SyncNeed::After;
        self.coming += usize::from(need != SyncNeed::None);
        let buffer = match slot.plan.content.take() {
            None => buffer,
            Some(content) => {
                slot.aside = Some(buffer);
                content
            }
        };
        let request = Request { tag: index as u64, kind, durable, segments, buffer };
        match self.subject {
            Subject::File { .. } if read && slot.plan.work_beside => self.queue.submit_in_parts(request)?,
            Subject::File { system, .. } if slot.plan.work_beside => {
                let work = &mut |data: &[u8]| system.work_beside(&mut slot.plan, 0, &data[..size]);
                self.queue.submit_beside(request, work)?;
            }
            _ => self.queue.submit(request),
        }
        Ok(true)
    }

    fn complete(&mut self, completion: Completion) -> Result<()> {
        let index = completion.tag as usize;
        let Some(slot) = self.slots.get_mut(index) else {
            let Beside::Coming { since } = self.beside else { unreachable!("it was submitted") };
            self.sync_buffer = completion.buffer;
            self.beside = Beside::Done { since, result: completion.result };
            return Ok(());
        };
        debug_assert!(slot.buffer.is_none() && !self.free.contains(&index), "an I/O ends once");
        let Some((mut buffer, result)) = slot.take_back(completion) else {
            self.again.push(index);
            return Ok(());
        };
        let mut needs_sync = false;
        let size = slot.length;
        let done = match self.subject {
            Subject::Device { .. } => result.map_err(Error::from),
            Subject::File { system, .. } => {
                if slot.read {
                    match system.finish_read(&mut slot.plan, &mut buffer[..size], result) {
                        Ok(read) if read == size => Ok(()),
                        Ok(read) => {
                            Job::refuse(format!("the file ends inside a block: {read} bytes were read"))
                        }
                        Err(error) => Err(error.into()),
                    }
                } else {
                    match slot.is_beside {
                        true => self.beside_coming -= 1,
                        false => self.coming -= usize::from(slot.sync_need(self.job) != SyncNeed::None),
                    }
                    let finished = system.finish_write(&mut slot.plan, &buffer[..size], result);
                    finished.map(|sync| needs_sync = sync).map_err(Error::from)
                }
            }
        };
        let now = sync::now();
        let (read, offset) = (slot.read, slot.offset);
        if let Some(ledger) = self.ledger {
            if read && done.is_ok() {
                let mut found = Vec::new();
                ledger.verify(&buffer[..size], offset, &mut found);
                self.outcome.verified += (size / CELL) as u64;
                self.outcome.corrupted += found.len() as u64;
                let room = DESCRIBED.saturating_sub(self.outcome.corruptions.len());
                self.outcome.corruptions.extend(found.into_iter().take(room));
            }
            ledger.release(offset, size, !read && done.is_ok());
        }
        if self.job.touch && read && done.is_ok() {
            self.outcome.touched ^= touch(&buffer[..size]);
        }
        slot.buffer = Some(buffer);
        done?;
        if !read {
            self.unsynced += 1;
        }
        match needs_sync && self.job.durability == Durability::WriteThrough {
            true if self.slots[index].is_beside => {}
            true => self.waiting.push(index),
            false => self.record(index, now),
        }
        Ok(())
    }

    /// If no sync is planned, plans one for the writes in flight that can be made durable beside it, and submits it to
    /// the device beside them. The slots are all in use by now, so hardly any write that it could cover comes later.
    fn sync_beside(&mut self) -> Result<()> {
        let (Subject::File { system, .. }, Beside::None) = (self.subject, &self.beside) else {
            return Ok(());
        };
        let job = self.job;
        let suits = |slot: &&mut Slot| slot.buffer.is_none() && slot.sync_need(job) == SyncNeed::Beside;
        if self.coming == 0 || !self.slots.iter_mut().any(|slot| suits(&slot)) {
            return Ok(());
        }
        let mut writes = self.slots.iter_mut().filter(suits).map(|slot| &mut slot.plan);
        if !system.plan_sync(&mut writes, &mut self.sync, &mut self.sync_buffer)? {
            return Ok(());
        }
        for slot in self.slots.iter_mut().filter(suits) {
            slot.is_beside = true;
            self.beside_coming += 1;
        }
        self.coming -= self.beside_coming;
        self.beside = Beside::Coming { since: sync::now() };
        let tag = self.slots.len() as u64;
        let segments = std::mem::take(&mut self.sync.segments);
        let buffer = std::mem::replace(&mut self.sync_buffer, Buffer::new(0));
        self.queue.submit(Request { tag, kind: Kind::Write, durable: true, segments, buffer });
        Ok(())
    }

    /// Finishes the planned sync once it and all its writes have completed.
    fn end_beside(&mut self) -> Result<()> {
        let Subject::File { system, .. } = self.subject else { return Ok(()) };
        if self.beside_coming > 0 || !matches!(self.beside, Beside::Done { .. }) {
            return Ok(());
        }
        let Beside::Done { since, result } = std::mem::replace(&mut self.beside, Beside::None) else {
            unreachable!("just seen")
        };
        let ended = system.finish_sync(&mut self.sync, result);
        let now = sync::now();
        if self.counts(since, now) {
            self.outcome.syncs.record(now - since);
        }
        for index in 0..self.slots.len() {
            if std::mem::take(&mut self.slots[index].is_beside) {
                self.record(index, now);
            }
        }
        Ok(ended?)
    }

    /// Syncs if as many writes have completed since the last sync as the durability asks for.
    fn sync_after_writes(&mut self) -> Result<()> {
        match self.job.durability {
            Durability::FsyncEvery(writes) if self.unsynced >= writes.max(1) => self.sync(),
            _ => Ok(()),
        }
    }

    /// Syncs if completed writes wait for a sync. Writes in flight that will need a sync are awaited first: one sync for
    /// all costs little more than one for the first, and a second sync is saved. A waiting write keeps its slot, so the
    /// worker soon has no further writes in flight.
    fn sync_waiting(&mut self) -> Result<()> {
        let is_too_early = self.coming > 0 || !matches!(self.beside, Beside::None);
        match self.waiting.is_empty() || is_too_early {
            true => Ok(()),
            false => self.sync(),
        }
    }

    fn sync(&mut self) -> Result<()> {
        self.queue.kick()?;
        let before = sync::now();
        self.subject.sync()?;
        let now = sync::now();
        self.unsynced = 0;
        if self.counts(before, now) {
            self.outcome.syncs.record(now - before);
        }
        while let Some(index) = self.waiting.pop() {
            self.record(index, now);
        }
        Ok(())
    }

    /// Whether an I/O with these times of issue and completion counts.
    fn counts(&self, issued: Instant, completed: Instant) -> bool {
        let in_time = self.clock.end.is_none_or(|end| completed < end);
        match self.job.stop {
            Stop::After(_) => completed >= self.clock.measuring && in_time,
            Stop::Slice(_) => completed >= self.clock.measuring,
            Stop::Within { .. } => issued >= self.clock.measuring && in_time,
            Stop::Count(_) => issued >= self.clock.measuring,
        }
    }

    /// Frees the slot of a completed I/O and adds the I/O to the outcome if it counts.
    fn record(&mut self, index: usize, now: Instant) {
        self.free.push(index);
        let slot = &self.slots[index];
        if !self.counts(slot.issued, now) {
            return;
        }
        let latency = now - slot.issued;
        let bytes = slot.length as u64;
        let elapsed = now - self.clock.measuring;
        let outcome = &mut self.outcome;
        if slot.read { &mut outcome.reads } else { &mut outcome.writes }.record(bytes, latency);
        outcome.last = elapsed;
        let interval = (elapsed.as_nanos() / self.job.interval.as_nanos().max(1)) as usize;
        if outcome.timeline.len() <= interval {
            outcome.timeline.resize(interval + 1, Interval::default());
        }
        let interval = &mut outcome.timeline[interval];
        interval.ios += 1;
        interval.reads += u64::from(slot.read);
        interval.bytes += bytes;
        interval.latency_sum += latency.as_nanos() as u64;
    }

    /// After an error: waits for the I/Os in flight and finishes their plans.
    fn drain(&mut self) -> Result<()> {
        let mut done = Vec::new();
        let mut first = Ok(());
        while self.queue.in_flight() > 0 {
            let waited = self.queue.wait(1, &mut done);
            // A wait that fails without a completion would fail again: the I/Os still in flight are given up.
            let is_stuck = waited.is_err() && done.is_empty();
            for completion in done.drain(..) {
                first = first.and(self.complete(completion));
            }
            first = first.and(waited.map_err(Error::from));
            if is_stuck {
                break;
            }
        }
        first.and(self.end_beside())
    }
}

/// Bytes of one write of [`prepare`].
const PIECE: u64 = 1 << 20;

/// Writes the whole range in order, one write at a time: see [`super::prepare`]. A growing file allows only one write
/// at a time; and the storage below may allocate space in the order of the writes, so that several in flight would lay
/// out a device's range differently from a file's.
pub(crate) fn prepare(
    subject: &Subject,
    range: &Range<u64>,
    content: Option<u64>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<()> {
    if content.is_none() && matches!(subject, Subject::Device { .. }) {
        // It is zero already, and no file has to be made longer.
        return Ok(());
    }
    let mut queue = subject.queue(1)?;
    let total = range.end - range.start;
    let mut buffer = Buffer::new(PIECE.min(total) as usize);
    if let Some(seed) = content {
        fastrand::Rng::with_seed(seed).fill(&mut buffer);
    }
    let mut plan = Plan::default();
    let mut done = Vec::with_capacity(1);
    for offset in range.clone().step_by(PIECE as usize) {
        let length = PIECE.min(range.end - offset) as usize;
        if length < buffer.len() {
            buffer = Buffer::from(&buffer[..length]);
        }
        if content.is_some() {
            cells::stamp(&mut buffer, offset, |_| 0);
        }
        let segments = match subject {
            Subject::Device { .. } => {
                Segments::from_slice(&[Segment { offset, at: 0, length: length as u32 }])
            }
            Subject::File { system, node } => {
                system.plan_write(*node, offset, &buffer, &mut plan)?;
                std::mem::take(&mut plan.segments)
            }
        };
        queue.submit(Request { tag: 0, kind: Kind::Write, durable: false, segments, buffer });
        queue.wait(1, &mut done)?;
        let completion = done.pop().expect("it was waited for");
        match subject {
            Subject::Device { .. } => completion.result?,
            Subject::File { system, .. } => {
                plan.segments = completion.segments;
                system.finish_write(&mut plan, &completion.buffer, completion.result)?;
            }
        }
        buffer = completion.buffer;
        progress(offset + length as u64 - range.start, total);
    }
    Ok(())
}
