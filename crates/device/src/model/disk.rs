//! A hard disk: an arm, a spindle, zones, a buffer that reads ahead, and a cache of writes.
//!
//! Of the commands that wait, the disk takes the one that the head reaches first, seek and rotation together (shortest
//! access time first). With the write cache on a write is complete when there is room for it in the cache, and the
//! writes that are in it are carried out in the same order, as long as no flush waits.

use super::drive::{Action, Answers, Command, Drive};
use super::parameters::Parameters;
use std::collections::VecDeque;

/// The seek curve is looked up in a table of this many steps.
const STEPS: usize = 4096;
/// Angles are fractions of a turn; differences below this are none.
const NO_ANGLE: f64 = 1e-6;
/// Writes that follow one another are joined in the cache up to this many bytes.
const JOINED: u64 = 2 << 20;

/// What does not change.
struct Shape {
    /// The time of a turn in nanoseconds.
    turn: f64,
    /// Seek times in nanoseconds by distance: [`STEPS`] steps over the stroke.
    seek: Vec<f64>,
    settle: f64,
    write_settle: f64,
    /// The distance, as a part of the stroke, below which there is no seek.
    same_track: f64,
    overhead: f64,
    hit: f64,
    /// The zones from the outside: the first byte of each, and its bytes per nanosecond.
    zones: Vec<(u64, f64)>,
    capacity: u64,
    /// How many waiting operations the disk chooses from.
    choice: usize,
    write_cache: bool,
    cache_entries: u64,
    cache_bytes: u64,
    read_ahead: u64,
    segments: usize,
}

/// A place on the medium.
#[derive(Clone, Copy)]
struct Spot {
    /// The part of the stroke, from the outside.
    across: f64,
    /// The part of a turn.
    angle: f64,
    /// Bytes per nanosecond.
    rate: f64,
}

impl Shape {
    fn new(parameters: &Parameters, capacity: u64) -> Result<Shape, String> {
        let turn = 60e9 / parameters.number("rpm", None, 60.0, 60_000.0)?;
        let scale = parameters.number("seek_scale", Some(1.0), 0.01, 100.0)?;
        let curve = parameters.curve("seek_ms")?;
        let seek = (0..=STEPS).map(|step| at(&curve, step as f64 / STEPS as f64) * scale * 1e6).collect();
        let count = parameters.count("zones", Some(16.0), 1.0, 1000.0)?;
        let outer = parameters.rate("outer_mb_s", None)?;
        let inner = parameters.rate("inner_mb_s", None)?;
        let rate = |zone: u64| {
            let part = (zone as f64 + 0.5) / count as f64;
            outer + (inner - outer) * part
        };
        // Each zone has as many tracks as the others, so its share of the bytes is that of its rate.
        let all: f64 = (0..count).map(rate).sum();
        let mut before = 0.0;
        let mut zones = Vec::new();
        for zone in 0..count {
            zones.push(((before / all * capacity as f64) as u64, rate(zone)));
            before += rate(zone);
        }
        let surfaces = parameters.number("surfaces", Some(2.0), 1.0, 64.0)?;
        let tracks = capacity as f64 / (all / count as f64 * turn) / surfaces;
        Ok(Shape {
            turn,
            seek,
            settle: parameters.time("settle_ms", 1e6, Some(0.0))?,
            write_settle: parameters.time("write_settle_ms", 1e6, Some(0.0))?,
            same_track: 0.5 / tracks,
            overhead: parameters.time("overhead_ms", 1e6, Some(0.03))?,
            hit: parameters.time("hit_ms", 1e6, Some(0.05))?,
            zones,
            capacity,
            choice: parameters.count("choice", Some(32.0), 1.0, 65_536.0)? as usize,
            write_cache: parameters.is_on("write_cache", true)?,
            cache_entries: parameters.count("cache_entries", Some(32.0), 1.0, 1e6)?,
            cache_bytes: (parameters.number("cache_mb", Some(32.0), 0.0, 1e6)? * 1e6) as u64,
            read_ahead: (parameters.number("read_ahead_kb", Some(512.0), 0.0, 1e6)? * 1e3) as u64,
            segments: parameters.count("segments", Some(16.0), 0.0, 4096.0)? as usize,
        })
    }

    fn spot(&self, offset: u64) -> Spot {
        let zone = self.zones.partition_point(|zone| zone.0 <= offset).max(1) - 1;
        let (start, rate) = self.zones[zone];
        let end = self.zones.get(zone + 1).map_or(self.capacity, |next| next.0);
        let inside = offset - start;
        let across = (zone as f64 + inside as f64 / (end - start) as f64) / self.zones.len() as f64;
        let turns = inside as f64 / (rate * self.turn);
        Spot { across, angle: turns - turns.floor(), rate }
    }

    fn seek(&self, distance: f64, is_write: bool) -> f64 {
        if distance < self.same_track {
            return 0.0;
        }
        let step = (distance * STEPS as f64).min(STEPS as f64 - 1e-9);
        let (low, part) = (step as usize, step - step.floor());
        let seek = self.seek[low] + (self.seek[low + 1] - self.seek[low]) * part;
        seek + self.settle + if is_write { self.write_settle } else { 0.0 }
    }
}

/// The value of a curve at a place between 0 and 1: straight lines between its points.
fn at(curve: &[[f64; 2]], x: f64) -> f64 {
    let next = curve.partition_point(|point| point[0] < x);
    match (next, curve.get(next)) {
        (0, _) => curve[0][1],
        (_, None) => curve[next - 1][1],
        (_, Some(&[right, above])) => {
            let [left, below] = curve[next - 1];
            below + (above - below) * (x - left) / (right - left)
        }
    }
}

/// An operation on the medium.
struct Operation {
    /// `None` for a write that is complete already, from the cache.
    tag: Option<u32>,
    is_write: bool,
    offset: u64,
    length: u64,
    spot: Spot,
    number: u64,
}

/// Bytes that were read and are in the buffer.
#[derive(Clone, Copy)]
struct Held {
    start: u64,
    end: u64,
}

/// What is read ahead at present.
#[derive(Clone, Copy)]
struct Ahead {
    /// The first byte that is held.
    start: u64,
    /// The byte and the time from which the head goes on.
    from: u64,
    since: u64,
    /// The byte at which the head stops.
    limit: u64,
}

/// A hard disk.
pub(super) struct Disk {
    shape: Shape,
    across: f64,
    waiting: Vec<Operation>,
    present: Option<Operation>,
    /// When the last operation ended, and at which byte.
    ended: (u64, u64),
    ahead: Option<Ahead>,
    held: VecDeque<Held>,
    /// Writes of the cache that are not on the medium.
    dirty: u64,
    dirty_bytes: u64,
    /// Writes that wait for room in the cache.
    outside: VecDeque<Command>,
    /// Flushes, each with the number of the last operation that it waits for.
    flushes: VecDeque<(u32, u64)>,
    numbers: u64,
    /// Nanoseconds of seeks, of rotation and of transfers, and the number of operations and of hits.
    seeking: f64,
    turning: f64,
    moving: f64,
    operations: u64,
    hits: u64,
}

impl Disk {
    pub(super) fn new(parameters: &Parameters, capacity: u64) -> Result<Disk, String> {
        Ok(Disk {
            shape: Shape::new(parameters, capacity)?,
            across: 0.0,
            waiting: Vec::new(),
            present: None,
            ended: (0, u64::MAX),
            ahead: None,
            held: VecDeque::new(),
            dirty: 0,
            dirty_bytes: 0,
            outside: VecDeque::new(),
            flushes: VecDeque::new(),
            numbers: 0,
            seeking: 0.0,
            turning: 0.0,
            moving: 0.0,
            operations: 0,
            hits: 0,
        })
    }

    fn wait_for(&mut self, tag: Option<u32>, is_write: bool, offset: u64, length: u64) {
        self.numbers += 1;
        let spot = self.shape.spot(offset);
        self.waiting.push(Operation { tag, is_write, offset, length, spot, number: self.numbers });
    }

    /// Takes a write into the cache, if there is room.
    fn cache(&mut self, now: u64, command: Command, answers: &mut Answers) -> bool {
        let Command { tag, offset, length, .. } = command;
        let has_room = self.dirty_bytes == 0 || self.dirty_bytes + length <= self.shape.cache_bytes;
        let joined = self.waiting.last_mut().filter(|last| {
            last.tag.is_none() && last.offset + last.length == offset && last.length + length <= JOINED
        });
        match joined {
            _ if !has_room => return false,
            Some(last) => last.length += length,
            None if self.dirty >= self.shape.cache_entries => return false,
            None => {
                self.dirty += 1;
                self.wait_for(None, true, offset, length);
            }
        }
        self.dirty_bytes += length;
        answers.done.push((now + self.shape.hit as u64, tag));
        true
    }

    /// When all bytes of a read are in the buffer; `None` if the head has to go there.
    fn hit(&mut self, now: u64, command: &Command) -> Option<u64> {
        let end = command.offset + command.length;
        let covers = |held: &Held| held.start <= command.offset && end <= held.end;
        let of_cache = |write: &Operation| {
            write.tag.is_none() && write.offset <= command.offset && end <= write.offset + write.length
        };
        if self.held.iter().any(covers) || self.waiting.iter().chain(&self.present).any(of_cache) {
            return Some(now);
        }
        // What the head is just reading, it goes on with, and as far ahead of this read as of those before.
        let covered = self.covered(now);
        let shape = &self.shape;
        let ahead =
            self.ahead.as_mut().filter(|ahead| ahead.start <= command.offset && command.offset <= covered)?;
        if end > ahead.limit {
            return None;
        }
        if covered >= ahead.limit {
            (ahead.from, ahead.since) = (ahead.limit, now);
        }
        ahead.limit = ahead.limit.max((end + shape.read_ahead).min(shape.capacity));
        let rate = shape.spot(ahead.from.min(shape.capacity - 1)).rate;
        Some(now.max(ahead.since + (end.saturating_sub(ahead.from) as f64 / rate) as u64))
    }

    /// The byte up to which the head has read ahead.
    fn covered(&self, now: u64) -> u64 {
        let Some(ahead) = self.ahead else { return 0 };
        let rate = self.shape.spot(ahead.from.min(self.shape.capacity - 1)).rate;
        (ahead.from + ((now - ahead.since) as f64 * rate) as u64).min(ahead.limit)
    }

    /// The head leaves: what it has read ahead stays in the buffer.
    fn stop_reading_ahead(&mut self, now: u64) {
        let end = self.covered(now);
        if let Some(ahead) = self.ahead.take()
            && self.shape.segments > 0
        {
            if self.held.len() == self.shape.segments {
                self.held.pop_front();
            }
            self.held.push_back(Held { start: ahead.start, end });
        }
    }

    /// The time until an operation's first byte is under the head, in seek and in rotation.
    fn reach(&self, operation: &Operation, start: f64) -> (f64, f64) {
        let Operation { spot, is_write, .. } = operation;
        let seek = self.shape.seek((spot.across - self.across).abs(), *is_write);
        let turns = (start + seek) / self.shape.turn;
        let mut angle = spot.angle - (turns - turns.floor());
        if angle < -NO_ANGLE {
            angle += 1.0;
        }
        (seek, angle.max(0.0) * self.shape.turn)
    }

    /// Begins the operation that the head reaches first, if it does nothing.
    fn begin(&mut self, now: u64, answers: &mut Answers) {
        if self.present.is_some() || self.waiting.is_empty() {
            return;
        }
        let upto = self.flushes.front().map_or(u64::MAX, |flush| flush.1);
        // What follows the last operation without a gap is a single stream of it.
        let streams = |operation: &Operation| self.ended == (now, operation.offset);
        let stream = self.waiting.iter().position(|operation| streams(operation) && operation.number <= upto);
        let start = now as f64 + self.shape.overhead;
        let (chosen, seek, turn) = match stream {
            Some(place) => (place, 0.0, -self.shape.overhead),
            None => {
                let mut best = (0, f64::INFINITY, 0.0);
                let of_choice = self.waiting.iter().take(self.shape.choice).enumerate();
                for (place, operation) in of_choice.filter(|(_, operation)| operation.number <= upto) {
                    let (seek, turn) = self.reach(operation, start);
                    if seek + turn < best.1 + best.2 {
                        best = (place, seek, turn);
                    }
                }
                // A flush waits for operations that have come before it, which are the first that wait.
                if best.1.is_infinite() {
                    let (seek, turn) = self.reach(&self.waiting[0], start);
                    best = (0, seek, turn);
                }
                best
            }
        };
        self.stop_reading_ahead(now);
        let operation = self.waiting.remove(chosen);
        let transfer = operation.length as f64 / operation.spot.rate;
        let end = start + seek + turn + transfer;
        self.seeking += seek;
        self.turning += turn.max(0.0);
        self.moving += transfer;
        self.operations += 1;
        answers.next = Some((end as u64).max(now));
        self.present = Some(operation);
    }

    fn end_flushes(&mut self, now: u64, answers: &mut Answers) {
        while let Some(&(tag, upto)) = self.flushes.front() {
            let is_open = |operation: &Operation| operation.is_write && operation.number <= upto;
            if self.waiting.iter().chain(&self.present).any(is_open) {
                break;
            }
            self.flushes.pop_front();
            answers.done.push((now + self.shape.hit as u64, tag));
        }
    }
}

impl Drive for Disk {
    fn accept(&mut self, now: u64, command: Command, answers: &mut Answers) {
        let Command { tag, action, offset, length } = command;
        match action {
            Action::Read => match self.hit(now, &command) {
                Some(time) => {
                    self.hits += 1;
                    answers.done.push((time + self.shape.hit as u64, tag));
                }
                None => self.wait_for(Some(tag), false, offset, length),
            },
            Action::Write if self.shape.write_cache => {
                if !self.outside.is_empty() || !self.cache(now, command, answers) {
                    self.outside.push_back(command);
                }
            }
            Action::Write | Action::DurableWrite => self.wait_for(Some(tag), true, offset, length),
            Action::Flush => {
                self.flushes.push_back((tag, self.numbers));
                self.end_flushes(now, answers);
            }
        }
        if action != Action::Read && action != Action::Flush {
            let (from, to) = (offset, offset + length);
            self.held.retain(|held| held.end <= from || to <= held.start);
            if self.ahead.is_some_and(|ahead| ahead.start < to && from < ahead.limit) {
                self.ahead = None;
            }
        }
        self.begin(now, answers);
    }

    fn go_on(&mut self, now: u64, answers: &mut Answers) {
        let Some(done) = self.present.take() else { return };
        let end = done.offset + done.length;
        self.across = self.shape.spot(end.min(self.shape.capacity - 1)).across;
        self.ended = (now, end);
        if !done.is_write {
            let limit = (end + self.shape.read_ahead).min(self.shape.capacity);
            self.ahead = Some(Ahead { start: done.offset, from: end, since: now, limit });
        }
        match done.tag {
            Some(tag) => answers.done.push((now, tag)),
            None => {
                self.dirty -= 1;
                self.dirty_bytes -= done.length;
                while let Some(&command) = self.outside.front()
                    && self.cache(now, command, answers)
                {
                    self.outside.pop_front();
                }
            }
        }
        self.end_flushes(now, answers);
        self.begin(now, answers);
    }

    fn work(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("seeks, s", self.seeking / 1e9),
            ("rotation, s", self.turning / 1e9),
            ("transfers, s", self.moving / 1e9),
            ("operations of the medium", self.operations as f64),
            ("reads from the buffer", self.hits as f64),
        ]
    }
}
