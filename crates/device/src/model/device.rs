//! A modelled device: its content at once, its times from the model.

use super::array::Array;
use super::card::Card;
use super::content::Contents;
use super::disk::Disk;
use super::drive::{Action, Answers, Command, Drive};
use super::flash::Flash;
use super::link::Link;
use super::parameters::Parameters;
use crate::queue::{buffer_range, check_request};
use crate::sync::{self, Happening};
use crate::{Completion, Device, Kind, Operation, Queue, Request, Result, Sectors, Work, check_transfer};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// A device that takes the time of a model, if [virtual time](super::VirtualTime) passes; without, it is memory.
///
/// What is written is there at once, for whoever reads it, and its completion comes when the model says so.
pub struct ModelDevice {
    name: String,
    length: u64,
    sectors: Sectors,
    /// Nanoseconds that the host's processor takes for each request and each byte, before the request is on its way.
    host: (f64, f64),
    /// Nanoseconds that a driver of FAT takes for each page of 4 KiB of the table that it walks.
    fat_page: f64,
    /// Whether the host's drivers send flushes.
    flushes: bool,
    contents: Mutex<Contents>,
    traffic: Arc<Traffic>,
}

/// 2026-01-01, the day on which virtual time begins.
const BEGIN: Duration = Duration::from_secs(1_767_225_600);

impl ModelDevice {
    /// A device with these parameters, of which nothing is written yet.
    ///
    /// # Errors
    /// Why the parameters are none of a device, in a sentence.
    pub fn new(name: &str, parameters: &Parameters) -> std::result::Result<ModelDevice, String> {
        let logical = parameters.count("sector_bytes", Some(512.0), 512.0, 65_536.0)?;
        let physical = parameters.count("physical_sector_bytes", Some(4096.0), 512.0, 65_536.0)?;
        if !logical.is_power_of_two() || !physical.is_power_of_two() || physical < logical {
            return Err("sectors are powers of two, and physical ones no smaller than logical ones".into());
        }
        let length = parameters.count("capacity_bytes", None, 1e6, 1e15)? / logical * logical;
        let drive: Box<dyn Drive> =
            match parameters.word("kind", None, &["disk", "flash", "card", "array"])? {
                "disk" => Box::new(Disk::new(parameters, length)?),
                "flash" => Box::new(Flash::new(parameters)?),
                "card" => Box::new(Card::new(parameters)?),
                _ => Box::new(Array::new(parameters)?),
            };
        let link = Link::new(parameters)?;
        let host = (
            parameters.time("host_request_us", 1e3, Some(0.0))?,
            parameters.time("host_kib_us", 1e3, Some(0.0))? / 1024.0,
        );
        let fat_page = parameters.time("host_fat_page_us", 1e3, Some(0.0))?;
        let flushes = parameters.is_on("host_flushes", true)?;
        parameters.refuse_unknown()?;
        Ok(ModelDevice {
            name: name.into(),
            length,
            sectors: Sectors { logical: logical as u32, physical: physical as u32 },
            host,
            fat_page,
            flushes,
            contents: Mutex::default(),
            traffic: Arc::new_cyclic(|me| Traffic {
                me: me.clone(),
                state: Mutex::new(TrafficState {
                    link,
                    drive,
                    answers: Answers::default(),
                    coming: BinaryHeap::new(),
                    numbers: 0,
                    expected: u64::MAX,
                    ready: VecDeque::new(),
                    inside: 0,
                    commands: Vec::new(),
                    free: Vec::new(),
                }),
            }),
        })
    }

    /// What the drive did so far, as names and numbers.
    pub fn work(&self) -> Vec<(&'static str, f64)> {
        self.traffic.lock().drive.work()
    }

    /// The time that the host's driver of FAT takes for each page of 4 KiB of the table that it walks.
    pub fn fat_page(&self) -> Duration {
        Duration::from_nanos(self.fat_page as u64)
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time of the host's processor for a request.
    fn spend(&self, bytes: u64) {
        let time = self.host.0 + self.host.1 * bytes as f64;
        if time > 0.0 {
            sync::sleep(Duration::from_nanos(time as u64));
        }
    }

    /// Sends commands and waits until all are complete.
    fn carry_out(&self, commands: &[(Action, u64, u64)]) {
        if !sync::is_virtual() {
            return;
        }
        self.spend(commands.iter().map(|command| command.2).sum());
        let asker = Arc::new(Asker::default());
        let pieces = commands.iter().map(|&(action, offset, length)| (action, offset, length));
        self.traffic.send(&asker, 0, pieces);
        asker.wait(1);
        asker.lock().done.clear();
    }
}

/// Whoever waits for completions: a queue, or a blocking call.
#[derive(Default)]
struct Asker(Mutex<Answered>);

#[derive(Default)]
struct Answered {
    /// The places of requests that are complete, in that order.
    done: VecDeque<usize>,
    /// How many the asker waits for; 0 if it does not wait.
    least: usize,
    /// For each place, the commands of its request that are not complete.
    left: Vec<usize>,
}

impl Asker {
    fn lock(&self) -> MutexGuard<'_, Answered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn address(self: &Arc<Asker>) -> usize {
        Arc::as_ptr(self).addr()
    }

    /// Waits until so many requests are complete.
    fn wait(self: &Arc<Asker>, least: usize) {
        loop {
            let Some(schedule) = sync::schedule() else { return };
            {
                let mut answered = self.lock();
                if answered.done.len() >= least {
                    answered.least = 0;
                    return;
                }
                answered.least = least;
            }
            schedule.enlist(self.address());
            schedule.pause(self.address(), None);
        }
    }
}

/// The commands of all requests, on their way to the drive and back.
struct Traffic {
    me: Weak<Traffic>,
    state: Mutex<TrafficState>,
}

struct TrafficState {
    link: Link,
    drive: Box<dyn Drive>,
    answers: Answers,
    /// What comes: time, number, event.
    coming: BinaryHeap<Reverse<(u64, u64, Event)>>,
    numbers: u64,
    /// The earliest time for which virtual time was asked to call.
    expected: u64,
    /// Commands that wait until the drive takes another one.
    ready: VecDeque<Command>,
    /// Commands between the host and the drive, both ways.
    inside: usize,
    /// Whose each command is: the asker and the place of its request; and the bytes of the answer.
    commands: Vec<Option<(Arc<Asker>, usize, u64)>>,
    free: Vec<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The command is at the drive.
    Arrive(u32, Order),
    /// The drive has carried it out.
    Done(u32),
    /// The host has the answer.
    Deliver(u32),
    /// The drive wants to be called.
    GoOn,
}

/// A command's action and range, in an order for the heap that means nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Order(u8, u64, u64);

impl Order {
    fn of(command: &Command) -> Order {
        Order(command.action as u8, command.offset, command.length)
    }

    fn command(self, tag: u32) -> Command {
        let action = [Action::Read, Action::Write, Action::DurableWrite, Action::Flush][self.0 as usize];
        Command { tag, action, offset: self.1, length: self.2 }
    }
}

impl Traffic {
    fn lock(&self) -> MutexGuard<'_, TrafficState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the commands of a request, whose place with its asker this is.
    fn send(&self, asker: &Arc<Asker>, place: usize, pieces: impl Iterator<Item = (Action, u64, u64)>) {
        let Some(now) = time() else { return };
        let state = &mut *self.lock();
        let mut count = 0;
        for (action, offset, length) in pieces {
            let mut at = 0;
            loop {
                let part = (length - at).min(state.link.most);
                let answer = if action == Action::Read { part } else { 0 };
                let owner = Some((asker.clone(), place, answer));
                let tag = state.free.pop().unwrap_or(state.commands.len() as u32);
                match state.commands.get_mut(tag as usize) {
                    Some(slot) => *slot = owner,
                    None => state.commands.push(owner),
                }
                state.ready.push_back(Command { tag, action, offset: offset + at, length: part });
                count += 1;
                at += part;
                if at >= length {
                    break;
                }
            }
        }
        {
            let mut answered = asker.lock();
            if answered.left.len() <= place {
                answered.left.resize(place + 1, 0);
            }
            answered.left[place] = count;
            if count == 0 {
                answered.done.push_back(place);
            }
        }
        state.pass_on(now);
        self.expect(state);
    }

    /// Asks virtual time to call when the next event comes.
    fn expect(&self, state: &mut TrafficState) {
        let Some(&Reverse((time, ..))) = state.coming.peek() else { return };
        if time < state.expected
            && let Some(me) = self.me.upgrade()
        {
            state.expected = time;
            sync::at(Duration::from_nanos(time), me);
        }
    }
}

impl Happening for Traffic {
    fn happen(&self) {
        let Some(now) = time() else { return };
        let state = &mut *self.lock();
        if state.expected <= now {
            state.expected = u64::MAX;
        }
        while state.coming.peek().is_some_and(|Reverse((time, ..))| *time <= now) {
            let Some(Reverse((_, _, event))) = state.coming.pop() else { break };
            state.happen(now, event);
        }
        self.expect(state);
    }
}

impl TrafficState {
    fn come(&mut self, time: u64, event: Event) {
        self.numbers += 1;
        self.coming.push(Reverse((time, self.numbers, event)));
    }

    /// Puts commands on the link, as many as it carries.
    fn pass_on(&mut self, now: u64) {
        while self.inside < self.link.depth
            && let Some(command) = self.ready.pop_front()
        {
            self.inside += 1;
            let bytes = match command.action {
                Action::Write | Action::DurableWrite => command.length,
                Action::Read | Action::Flush => 0,
            };
            let time = self.link.send(now, bytes);
            self.come(time, Event::Arrive(command.tag, Order::of(&command)));
        }
    }

    fn happen(&mut self, now: u64, event: Event) {
        match event {
            Event::Arrive(tag, order) => {
                self.drive.accept(now, order.command(tag), &mut self.answers);
                self.hear(now);
            }
            Event::GoOn => {
                self.drive.go_on(now, &mut self.answers);
                self.hear(now);
            }
            Event::Done(tag) => {
                let bytes = self.commands[tag as usize].as_ref().map_or(0, |owner| owner.2);
                match self.link.answer(now, bytes) {
                    time if time <= now => self.deliver(now, tag),
                    time => self.come(time, Event::Deliver(tag)),
                }
            }
            Event::Deliver(tag) => self.deliver(now, tag),
        }
    }

    /// Takes what the drive answers.
    fn hear(&mut self, now: u64) {
        let Answers { mut done, next } = std::mem::take(&mut self.answers);
        if let Some(time) = next {
            self.come(time, Event::GoOn);
        }
        for (time, tag) in done.drain(..) {
            match time <= now {
                true => self.happen(now, Event::Done(tag)),
                false => self.come(time, Event::Done(tag)),
            }
        }
        self.answers.done = done;
    }

    fn deliver(&mut self, now: u64, tag: u32) {
        let Some((asker, place, _)) = self.commands[tag as usize].take() else { return };
        self.free.push(tag);
        self.inside -= 1;
        let wakes = {
            let answered = &mut *asker.lock();
            answered.left[place] -= 1;
            if answered.left[place] == 0 {
                answered.done.push_back(place);
            }
            answered.least > 0 && answered.done.len() >= answered.least
        };
        if wakes && let Some(schedule) = sync::schedule() {
            schedule.wake(asker.address(), true);
        }
        self.pass_on(now);
    }
}

/// The nanoseconds since the beginning of virtual time.
fn time() -> Option<u64> {
    let now = sync::schedule()?.now()?;
    Some(now.as_nanos() as u64)
}

impl Device for ModelDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> u64 {
        self.length
    }

    fn sectors(&self) -> Sectors {
        self.sectors
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        check_transfer(self, Operation::Read, offset, buffer.len() as u64)?;
        self.carry_out(&[(Action::Read, offset, buffer.len() as u64)]);
        self.contents().read(offset, buffer);
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.write_batch(&[(offset, data)])
    }

    fn read_batch(&self, reads: &mut [(u64, &mut [u8])]) -> Result<()> {
        for (offset, buffer) in &*reads {
            check_transfer(self, Operation::Read, *offset, buffer.len() as u64)?;
        }
        let commands: Vec<_> =
            reads.iter().map(|(offset, buffer)| (Action::Read, *offset, buffer.len() as u64)).collect();
        self.carry_out(&commands);
        let contents = self.contents();
        reads.iter_mut().for_each(|(offset, buffer)| contents.read(*offset, buffer));
        Ok(())
    }

    fn write_batch(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        for (offset, data) in writes {
            check_transfer(self, Operation::Write, *offset, data.len() as u64)?;
        }
        {
            let mut contents = self.contents();
            writes.iter().for_each(|(offset, data)| contents.write(*offset, data));
        }
        let commands: Vec<_> =
            writes.iter().map(|(offset, data)| (Action::Write, *offset, data.len() as u64)).collect();
        self.carry_out(&commands);
        Ok(())
    }

    fn next_data(&self, offset: u64) -> u64 {
        self.contents().next(offset).unwrap_or(self.length).min(self.length)
    }

    fn flush(&self) -> Result<()> {
        if self.flushes {
            self.carry_out(&[(Action::Flush, 0, 0)]);
        }
        Ok(())
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        check_transfer(self, Operation::Discard, offset, length)?;
        self.contents().clear(offset, length);
        Ok(())
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue + '_>> {
        let slots = std::iter::repeat_with(|| None).take(depth).collect();
        let asker = Arc::new(Asker::default());
        Ok(Box::new(ModelQueue {
            device: self,
            asker,
            slots,
            free: (0..depth).rev().collect(),
            in_flight: 0,
        }))
    }

    fn now(&self) -> Duration {
        BEGIN + sync::schedule().and_then(|schedule| schedule.now()).unwrap_or_default()
    }
}

/// The requests of one caller in flight.
struct ModelQueue<'d> {
    device: &'d ModelDevice,
    asker: Arc<Asker>,
    slots: Vec<Option<(Request, Result<()>)>>,
    free: Vec<usize>,
    in_flight: usize,
}

impl Queue for ModelQueue<'_> {
    fn submit(&mut self, request: Request) {
        let place = self.free.pop().expect("no more requests in flight than the queue's depth");
        self.in_flight += 1;
        let checked = check_request(self.device, &request);
        let is_dropped = request.kind == Kind::Flush && !self.device.flushes;
        let is_sent = checked.is_ok() && !is_dropped && sync::is_virtual();
        if checked.is_ok() && request.kind == Kind::Write {
            let mut contents = self.device.contents();
            for segment in &request.segments {
                let range = buffer_range(&self.device.name, segment, request.buffer.len());
                if let Ok(range) = range {
                    contents.write(segment.offset, &request.buffer[range]);
                }
            }
        }
        if is_sent {
            let bytes = request.segments.iter().map(|segment| u64::from(segment.length)).sum();
            self.device.spend(bytes);
            let action = match (request.kind, request.durable && self.device.flushes) {
                (Kind::Read, _) => Action::Read,
                (Kind::Write, false) => Action::Write,
                (Kind::Write, true) => Action::DurableWrite,
                (Kind::Flush, _) => Action::Flush,
            };
            let of_segments =
                request.segments.iter().map(|segment| (action, segment.offset, u64::from(segment.length)));
            let flush = (request.kind == Kind::Flush).then_some((action, 0, 0));
            self.device.traffic.send(&self.asker, place, of_segments.chain(flush));
        } else {
            self.asker.lock().done.push_back(place);
        }
        self.slots[place] = Some((request, checked));
    }

    fn kick(&mut self) -> Result<()> {
        Ok(())
    }

    fn wait_beside(&mut self, least: usize, done: &mut Vec<Completion>, _work: &mut Work<'_>) -> Result<()> {
        self.asker.wait(least.min(self.in_flight));
        loop {
            let Some(place) = self.asker.lock().done.pop_front() else { return Ok(()) };
            let Some((request, result)) = self.slots[place].take() else { continue };
            self.free.push(place);
            self.in_flight -= 1;
            let Request { tag, kind, segments, mut buffer, .. } = request;
            if result.is_ok() && kind == Kind::Read {
                let contents = self.device.contents();
                for segment in &segments {
                    let range = buffer_range(&self.device.name, segment, buffer.len())?;
                    contents.read(segment.offset, &mut buffer[range]);
                }
            }
            done.push(Completion { tag, result, segments, buffer });
        }
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }
}

impl Drop for ModelQueue<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.asker.wait(self.in_flight);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Value, VirtualTime};
    use super::*;
    use crate::{Buffer, Segment};
    use smallvec::smallvec;

    fn parameters(more: &[(&str, f64)]) -> Parameters {
        let mut parameters = Parameters::default();
        let words = [("kind", "disk"), ("link", "sata")];
        words.iter().for_each(|(name, word)| parameters.set(name, Value::Word((*word).into())));
        let numbers = [
            ("capacity_bytes", 1e12),
            ("rpm", 7200.0),
            ("outer_mb_s", 180.0),
            ("inner_mb_s", 90.0),
            ("settle_ms", 0.5),
        ];
        numbers.iter().chain(more).for_each(|(name, number)| parameters.set(name, Value::Number(*number)));
        parameters.set("seek_ms", Value::Curve(vec![[0.0, 0.5], [0.01, 2.0], [0.5, 11.0], [1.0, 17.0]]));
        parameters
    }

    fn device(more: &[(&str, f64)]) -> ModelDevice {
        ModelDevice::new("model", &parameters(more)).unwrap()
    }

    /// Milliseconds that some work takes.
    fn milliseconds(work: impl FnOnce()) -> f64 {
        let began = sync::now();
        work();
        (sync::now() - began).as_nanos() as f64 / 1e6
    }

    /// Random reads of 4 KiB on all of the disk, so many at a time; reads per second.
    fn random_reads(device: &ModelDevice, depth: usize, count: u64) -> f64 {
        let mut queue = device.queue(depth).unwrap();
        let (mut state, mut done) = (1_u64, Vec::new());
        let mut request = |tag, buffer| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let offset = (state >> 20) % (device.len() / 4096) * 4096;
            let segments = smallvec![Segment { offset, at: 0, length: 4096 }];
            Request { tag, kind: Kind::Read, durable: false, segments, buffer }
        };
        (0..depth as u64).for_each(|tag| queue.submit(request(tag, Buffer::new(4096))));
        let time = milliseconds(|| {
            for _ in 0..count {
                queue.wait(1, &mut done).unwrap();
                for completion in done.drain(..) {
                    queue.submit(request(completion.tag, completion.buffer));
                }
            }
        });
        count as f64 / time * 1e3
    }

    /// What anybody knows of a disk of 7,200 turns a minute: a random read takes a third of the stroke and half a turn, a
    /// queue of them much less, and neighbours are read as fast as the medium goes.
    #[test]
    fn a_disk_seeks_and_turns() {
        let _time = VirtualTime::begin();
        let (one, many) = (random_reads(&device(&[]), 1, 2000), random_reads(&device(&[]), 32, 4000));
        assert!((70.0..90.0).contains(&one) && (160.0..230.0).contains(&many), "{one} {many}");
        let device = device(&[]);
        let mut buffer = vec![0; 64 << 10];
        let time = milliseconds(|| {
            for number in 0..1600 {
                device.read_at(number * (64 << 10), &mut buffer).unwrap();
            }
        });
        let rate = 1600.0 * 65.536 / time;
        assert!((140.0..180.0).contains(&rate), "{rate} MB/s");
    }

    #[test]
    fn a_write_is_done_in_the_cache_and_durable_after_a_flush() {
        let _time = VirtualTime::begin();
        let device = device(&[]);
        let scatter = || (0..16).for_each(|at| device.write_at(at * 7 * (1 << 32), &[1; 4096]).unwrap());
        let cached = milliseconds(scatter);
        let flushed = milliseconds(|| device.flush().unwrap());
        assert!(cached < 2.0 && (60.0..250.0).contains(&flushed), "{cached} {flushed}");
        assert!(milliseconds(|| device.flush().unwrap()) < 0.2);
        let mut off = parameters(&[]);
        off.set("write_cache", Value::Word("off".into()));
        let off = ModelDevice::new("off", &off).unwrap();
        let one_by_one = milliseconds(|| {
            (0..16).for_each(|at| off.write_at(at * 7 * (1 << 32), &[1; 4096]).unwrap());
        });
        assert!(one_by_one > 100.0 && milliseconds(|| off.flush().unwrap()) < 0.2, "{one_by_one}");
    }

    /// USB 2.0 carries commands of 64 KiB one by one, so that a disk of 180 MB/s gives some 30.
    #[test]
    fn a_link_limits() {
        let _time = VirtualTime::begin();
        let mut slow = parameters(&[]);
        slow.set("link", Value::Word("usb2".into()));
        let device = ModelDevice::new("usb2", &slow).unwrap();
        let mut buffer = vec![0; 1 << 20];
        let time = milliseconds(|| (0..32).for_each(|at| device.read_at(at << 20, &mut buffer).unwrap()));
        let rate = 32.0 * 1.048_576 * 1e3 / time;
        assert!((25.0..40.0).contains(&rate), "{rate} MB/s");
    }

    #[test]
    fn flash_serves_reads_side_by_side_and_writes_from_its_buffer() {
        let _time = VirtualTime::begin();
        let mut ssd = Parameters::default();
        ssd.set("kind", Value::Word("flash".into()));
        ssd.set("link", Value::Word("nvme".into()));
        let numbers = [("capacity_bytes", 1e12), ("dies", 64.0), ("read_us", 60.0), ("program_us", 600.0)];
        numbers.iter().for_each(|(name, number)| ssd.set(name, Value::Number(*number)));
        let device = ModelDevice::new("ssd", &ssd).unwrap();
        let (one, many) = (random_reads(&device, 1, 500), random_reads(&device, 64, 20_000));
        assert!((14_000.0..16_500.0).contains(&one) && many > 25.0 * one, "{one} {many}");
        let buffered = milliseconds(|| device.write_at(0, &[1; 4096]).unwrap());
        let flushed = milliseconds(|| device.flush().unwrap());
        assert!(buffered < 0.02 && flushed > 0.5, "{buffered} {flushed}");
        ssd.set("power_loss_protection", Value::Word("on".into()));
        let device = ModelDevice::new("ssd", &ssd).unwrap();
        device.write_at(0, &[1; 4096]).unwrap();
        assert!(milliseconds(|| device.flush().unwrap()) < 0.02);
    }

    #[test]
    fn the_same_requests_take_the_same_time() {
        let run = || {
            let time = VirtualTime::begin();
            random_reads(&device(&[]), 16, 500);
            time.now()
        };
        assert_eq!(run(), run());
    }

    #[test]
    fn wrong_parameters_are_named() {
        let mut wrong = parameters(&[("platters", 3.0)]);
        let why = |parameters: &Parameters| ModelDevice::new("x", parameters).err().unwrap_or_default();
        assert!(why(&wrong).starts_with("platters is no parameter of this model"), "{}", why(&wrong));
        wrong = parameters(&[("rpm", 0.0)]);
        assert_eq!(why(&wrong), "rpm is 0, and from 60 to 60000 are possible");
        wrong.set("rpm", Value::Number(5400.0));
        wrong.set("write_cache", Value::Word("maybe".into()));
        assert_eq!(why(&wrong), "write_cache is \"maybe\", and must be one of on, off");
    }

    /// Without virtual time it is memory.
    #[test]
    fn it_is_memory_where_no_time_passes() {
        let device = device(&[]);
        device.write_at(1 << 39, &[7; 4096]).unwrap();
        let mut back = [0; 4096];
        device.read_at(1 << 39, &mut back).unwrap();
        assert!(back == [7; 4096] && device.flush().is_ok());
    }
}
