//! Operations on files that all threads write to at once, each in a range of its own that begins and ends inside
//! sectors.

use super::slots::{self, SLOT};
use super::watch::Watched;
use super::{Member, SHARED, SharedVolume, optional, told};
use platter_device::{Buffer, Completion, Kind as RequestKind, Queue, Request};
use platter_vfs::{Error, Integrity, Plan, SyncScope};
use std::ops::Range;

/// The number of slots of a thread in each shared file: odd, so that the ranges of two threads meet inside a sector.
const SLOTS: u64 = 1021;
/// The number of requests of a thread that are in flight together.
const TOGETHER: usize = 4;
/// The most slots of a request.
const LONGEST: u64 = 160;

/// The size of each shared file in bytes.
pub(super) fn size(threads: u32) -> u64 {
    (u64::from(threads) * SLOTS * SLOT).next_multiple_of(4096)
}

/// What one thread wrote to the shared files: the number of the write that each of its slots must hold, 0 for none.
pub(super) struct SharedFiles {
    first: u64,
    held: [Vec<u32>; SHARED],
}

impl SharedFiles {
    pub(super) fn new(thread: u32) -> SharedFiles {
        SharedFiles {
            first: u64::from(thread) * SLOTS,
            held: std::array::from_fn(|_| vec![0; SLOTS as usize]),
        }
    }

    fn mine(&self) -> Range<u64> {
        self.first..self.first + SLOTS
    }

    /// Fails unless the slots of a file in `data`, from slot `first` on, are right: this thread's slots hold exactly
    /// what it wrote, and other threads' slots hold something that their thread wrote there.
    fn verify(&self, file: usize, first: u64, data: &[u8]) -> Result<(), String> {
        for (slot, index) in data.chunks_exact(SLOT as usize).zip(first..) {
            let written = slots::read(file as u64, index, slot)?;
            let owner = index / SLOTS;
            if let Some((thread, sequence)) = written
                && u64::from(thread) != owner
            {
                return Err(format!(
                    "slot {index} of shared file {file}: write {sequence} of thread {thread}"
                ));
            }
            if self.mine().contains(&index) {
                let (held, sequence) =
                    (self.held[file][(index - self.first) as usize], written.map_or(0, |of| of.1));
                if held != sequence {
                    return Err(format!(
                        "slot {index} of shared file {file} holds write {sequence} of this thread, not {held}"
                    ));
                }
            }
        }
        Ok(())
    }

    fn put(&mut self, file: usize, slots: Range<u64>, sequence: u32) {
        let (from, to) = ((slots.start - self.first) as usize, (slots.end - self.first) as usize);
        self.held[file][from..to].fill(sequence);
    }

    /// Reads and verifies all slots of this thread.
    pub(super) fn read_all(&self, place: SharedVolume<'_>) -> Result<(), String> {
        for (file, node) in place.shared.into_iter().enumerate() {
            let mine = self.mine();
            let mut data = vec![0; (SLOTS * SLOT) as usize];
            let read = told("read a shared file", place.system.read(node, mine.start * SLOT, &mut data))?;
            if read != data.len() {
                return Err(format!("{read} of {} bytes of shared file {file}", data.len()));
            }
            self.verify(file, mine.start, &data)?;
        }
        Ok(())
    }
}

impl Member {
    /// A random part of this thread's range, in slots.
    fn some_of_mine(&mut self) -> Range<u64> {
        let length = 1 + self.random.below(LONGEST);
        let from = self.shared.first + self.random.below(SLOTS - length + 1);
        from..from + length
    }

    /// Does one random operation on a shared file.
    pub(super) fn on_shared(&mut self, place: SharedVolume<'_>, watched: &Watched) -> Result<(), String> {
        let file = self.random.below(SHARED as u64) as usize;
        let (system, node) = (place.system, place.shared[file]);
        let slots = self.some_of_mine();
        let bytes = slots.start * SLOT..slots.end * SLOT;
        match self.random.below(100) {
            0..30 => {
                watched.begins(format!("write {bytes:?} of shared file {file}"));
                let write = self.next_write();
                let mut data = vec![0; (bytes.end - bytes.start) as usize];
                slots::fill(file as u64, slots.start, write, &mut data);
                told("write", system.write(node, bytes.start, &data))?;
                self.shared.put(file, slots, write.1);
            }
            30..60 => {
                let from = self.random.below(size(1) / SLOT) + slots.start / 2;
                watched.begins(format!("read from slot {from} of shared file {file}"));
                let mut data = vec![0; ((1 + self.random.below(2 * LONGEST)) * SLOT) as usize];
                let read = told("read", system.read(node, from * SLOT, &mut data))?;
                self.shared.verify(file, from, &data[..read])?;
            }
            60..84 => {
                watched.begins(format!("planned requests of shared file {file}"));
                self.in_flight(place, file)?;
            }
            84..90 => {
                watched.begins(format!("punch {bytes:?} of shared file {file}"));
                if optional("punch", system.punch(node, bytes))? {
                    self.shared.put(file, slots, 0);
                }
            }
            90..93 => {
                watched.begins(format!("allocate {bytes:?} of shared file {file}"));
                optional("allocate", system.allocate(node, bytes, true))?;
            }
            93..95 if place.toggles => {
                let integrity = Integrity { enabled: self.random.chance(50), enforced: true };
                watched.begins(format!("{integrity:?} of shared file {file}"));
                optional("integrity", system.integrity().and_then(|part| part.set(node, integrity)))?;
            }
            _ => {
                let scope = if self.random.chance(50) { SyncScope::All } else { SyncScope::Data };
                watched.begins(format!("sync of {scope:?} of shared file {file}"));
                told("sync", system.sync(node, scope))?;
            }
        }
        Ok(())
    }

    /// Keeps a few planned requests in flight together, in parts of this thread's range that do not overlap.
    fn in_flight(&mut self, place: SharedVolume<'_>, file: usize) -> Result<(), String> {
        let system = place.system;
        let sector = u64::from(system.device().sectors().logical).max(512);
        let mut queue = told("queue", system.queue(TOGETHER))?;
        let mut flights: Vec<Option<Flight>> = Vec::new();
        let mut wrong = Ok(());
        let part = SLOTS * SLOT / TOGETHER as u64;
        for number in 0..TOGETHER as u64 {
            let base = self.shared.first * SLOT + number * part;
            let (start, end) = (base.next_multiple_of(sector), (base + part) / sector * sector);
            let from = start + self.random.below((end - start) / sector) * sector;
            let range = from..from + sector * (1 + self.random.below(((end - from) / sector).min(16)));
            let flight = Flight {
                range,
                write: self.random.chance(60).then(|| self.next_write()),
                plan: Plan::default(),
                aside: None,
            };
            wrong = wrong.and(self.begin(place, file, flight, &mut *queue, &mut flights));
        }
        // All requests are finished even after an error: other threads wait for planned ones.
        while queue.in_flight() > 0 {
            wrong = wrong.and(self.collect(place, file, &mut *queue, &mut flights));
        }
        wrong
    }

    fn begin(
        &mut self,
        place: SharedVolume<'_>,
        file: usize,
        mut flight: Flight,
        queue: &mut dyn Queue,
        flights: &mut Vec<Option<Flight>>,
    ) -> Result<(), String> {
        let (system, node) = (place.system, place.shared[file]);
        let length = (flight.range.end - flight.range.start) as usize;
        let mut buffer = Buffer::new(length);
        if let Some(write) = flight.write {
            slots::fill(file as u64, flight.range.start / SLOT, write, &mut buffer);
        }
        loop {
            let Flight { range, write, plan, .. } = &mut flight;
            let planned = plan.make_whole(&**system.device(), |plan| match write {
                Some(_) => system.plan_write(node, range.start, &buffer, plan),
                None => system.plan_read(node, range.start, length, plan),
            });
            match planned {
                Err(Error::Busy) if queue.in_flight() > 0 => self.collect(place, file, queue, flights)?,
                Err(Error::Busy) => system.wait_until_free(node),
                planned => break told("plan", planned)?,
            }
        }
        if flight.write.is_some() && flight.plan.work_beside {
            system.work_beside(&mut flight.plan, 0, &buffer);
        }
        let kind = if flight.write.is_some() { RequestKind::Write } else { RequestKind::Read };
        let segments = std::mem::take(&mut flight.plan.segments);
        if let Some(content) = flight.plan.content.take() {
            flight.aside = Some(std::mem::replace(&mut buffer, content));
        }
        let tag = flights.len() as u64;
        flights.push(Some(flight));
        queue.submit(Request { tag, kind, durable: false, segments, buffer });
        queue.kick().map_err(|error| format!("queue: {error}"))
    }

    fn collect(
        &mut self,
        place: SharedVolume<'_>,
        file: usize,
        queue: &mut dyn Queue,
        flights: &mut [Option<Flight>],
    ) -> Result<(), String> {
        let mut done = Vec::new();
        queue.wait(1, &mut done).map_err(|error| format!("queue: {error}"))?;
        let mut wrong = Ok(());
        for completion in done {
            let flight = flights[completion.tag as usize].take().ok_or("completed twice")?;
            wrong = wrong.and(self.finish(place, file, flight, completion));
        }
        wrong
    }

    fn finish(
        &mut self,
        place: SharedVolume<'_>,
        file: usize,
        flight: Flight,
        done: Completion,
    ) -> Result<(), String> {
        let Completion { result, segments, mut buffer, .. } = done;
        let Flight { range, write, mut plan, aside } = flight;
        plan.segments = segments;
        if let Some(data) = aside {
            plan.content = Some(std::mem::replace(&mut buffer, data));
        }
        let first = range.start / SLOT;
        match write {
            Some((_, sequence)) => {
                told("finish a write", place.system.finish_write(&mut plan, &buffer, result))?;
                self.shared.put(file, first..range.end / SLOT, sequence);
                Ok(())
            }
            None => {
                let read = told("finish a read", place.system.finish_read(&mut plan, &mut buffer, result))?;
                self.shared.verify(file, first, &buffer[..read])
            }
        }
    }
}

/// A planned request in flight; a write with its thread and number.
struct Flight {
    range: Range<u64>,
    write: Option<(u32, u32)>,
    plan: Plan,
    /// The data of a write, while the queue has the content of its plan.
    aside: Option<Buffer>,
}
