//! A recorded load: which I/Os, in which order, and when.

use platter_device::sync;
use std::ops::Range;
use std::time::{Duration, Instant};

/// What an event of a recorded load does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Reads a range.
    Read,
    /// Writes a range.
    Write,
    /// Makes everything durable that was written before.
    Sync,
}

/// One event of a recorded load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When it was, from the beginning of the load.
    pub at: Duration,
    /// What it does.
    pub what: What,
    /// The first byte of its range; 0 for a sync.
    pub offset: u64,
    /// The bytes of its range; 0 for a sync.
    pub length: u32,
}

/// The largest sectors that devices have: ranges are widened to them where the device's are not smaller.
const LARGEST_SECTOR: u64 = 4096;
/// What sectors of devices are multiples of.
const SMALLEST_SECTOR: u64 = 512;

impl Event {
    /// Whether it begins and ends at multiples of 512 bytes, the smallest sectors.
    pub fn is_in_sectors(&self) -> bool {
        self.offset.is_multiple_of(SMALLEST_SECTOR) && u64::from(self.length).is_multiple_of(SMALLEST_SECTOR)
    }

    /// The range that is asked of a device with sectors of `sector` bytes and with `room` bytes for the load: widened to whole
    /// sectors, and moved down by whole rooms where the load's own device was larger. `room` is a multiple of the sector and
    /// holds the range.
    pub(crate) fn range(&self, sector: u64, room: u64) -> Range<u64> {
        let start = self.offset / sector * sector;
        let length = (self.offset + u64::from(self.length)).next_multiple_of(sector) - start;
        let start = match start.checked_add(length) {
            Some(end) if end <= room => start,
            // Every place at which the range fits is used.
            _ => start % (room - length + sector) / sector * sector,
        };
        start..start + length
    }
}

/// A recorded load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// The events in the order of their times. At least one reads or writes.
    pub events: Vec<Event>,
    /// Whether each is issued at its time, rather than as soon as there is room in the queue.
    pub is_paced: bool,
}

impl Script {
    /// The number of events that do this.
    pub fn count(&self, what: What) -> u64 {
        self.events.iter().filter(|event| event.what == what).count() as u64
    }

    /// The bytes of the largest range, widened to whole sectors of any size.
    pub fn largest(&self) -> u32 {
        let widened = |event: &Event| {
            let start = event.offset / LARGEST_SECTOR * LARGEST_SECTOR;
            (event.offset + u64::from(event.length)).next_multiple_of(LARGEST_SECTOR) - start
        };
        let largest = self.events.iter().filter(|event| event.length > 0).map(widened).max().unwrap_or(0);
        u32::try_from(largest).unwrap_or(u32::MAX / 4096 * 4096)
    }

    /// The bytes that the load needs room for, a multiple of 1 MiB.
    pub fn length(&self) -> u64 {
        let ends = self.events.iter().map(|event| event.offset + u64::from(event.length));
        ends.max().unwrap_or(0).next_multiple_of(1 << 20)
    }

    /// The share of I/Os that do not follow the one before them, in percent.
    pub fn random_percent(&self) -> u8 {
        let ios: Vec<&Event> = self.events.iter().filter(|event| event.length > 0).collect();
        let follows = |pair: &&[&Event]| pair[0].offset + u64::from(pair[0].length) == pair[1].offset;
        let in_order = ios.windows(2).filter(follows).count();
        ((ios.len() - in_order) * 100 / ios.len().max(1)) as u8
    }

    /// The time from the first event to the last.
    pub fn time(&self) -> Duration {
        self.events.last().map_or(Duration::ZERO, |event| event.at)
    }

    /// The longest time without an event.
    pub fn longest_gap(&self) -> Duration {
        self.events.windows(2).map(|pair| pair[1].at - pair[0].at).max().unwrap_or_default()
    }

    /// The load in words.
    pub(crate) fn words(&self) -> String {
        let ios = self.count(What::Read) + self.count(What::Write);
        match self.is_paced {
            true => format!("{ios} recorded I/Os at their own pace, {:.1} s", self.time().as_secs_f64()),
            false => format!("{ios} recorded I/Os as fast as they go"),
        }
    }
}

/// How far a worker has come in a recorded load, over all pieces of its job: the time between two pieces does not pass for it.
pub(crate) struct Played {
    next: usize,
    /// When the load began, moved on by the time between the pieces since.
    start: Instant,
    /// When the last piece ended.
    ended: Instant,
}

/// What a recorded load asks for next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cue {
    /// This I/O.
    Io(Event),
    /// A sync, when nothing is in flight.
    Sync,
    /// Nothing before this time.
    At(Instant),
}

impl Played {
    pub(super) fn new() -> Played {
        let now = sync::now();
        Played { next: 0, start: now, ended: now }
    }

    /// Begins a piece of the job.
    pub(super) fn begin(&mut self, now: Instant) {
        self.start += now.saturating_duration_since(self.ended);
    }

    /// Ends a piece of the job.
    pub(super) fn end(&mut self, now: Instant) {
        self.ended = now;
    }

    /// What comes next; it comes again until it [was done](Played::done). Behind the last event the load begins again.
    pub(super) fn cue(&mut self, script: &Script, now: Instant) -> Cue {
        if self.next >= script.events.len() {
            (self.next, self.start) = (0, now);
        }
        let event = script.events[self.next];
        let due = self.start + event.at;
        match event.what {
            _ if script.is_paced && due > now => Cue::At(due),
            What::Sync => Cue::Sync,
            _ => Cue::Io(event),
        }
    }

    pub(super) fn done(&mut self) {
        self.next += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(at: u64, what: What, offset: u64, length: u32) -> Event {
        Event { at: Duration::from_millis(at), what, offset, length }
    }

    fn script(is_paced: bool) -> Script {
        let events = vec![
            event(0, What::Write, 0, 4096),
            event(10, What::Read, 4096, 512),
            event(10, What::Sync, 0, 0),
            event(50, What::Read, 1_000_100, 100),
        ];
        Script { events, is_paced }
    }

    #[test]
    fn a_range_is_widened_and_fits_its_room() {
        let odd = event(0, What::Read, 1_000_100, 100);
        assert!(!odd.is_in_sectors());
        assert_eq!(odd.range(512, 1 << 20), 999_936..1_000_448);
        assert_eq!(odd.range(4096, 1 << 20), 999_424..1_003_520);
        let mut rng = fastrand::Rng::with_seed(5);
        for _ in 0..100_000 {
            let sector = [1, 512, 4096][rng.usize(..3)];
            let most = 1 << rng.u8(1..62);
            let one = event(0, What::Write, rng.u64(..most), rng.u32(1..1 << 20));
            let room = (2 << 20) + (rng.u64(..1 << 30) / 4096 * 4096);
            let range = one.range(sector, room);
            assert!(
                range.end <= room && range.end - range.start >= u64::from(one.length),
                "{one:?} {range:?}"
            );
            assert!(range.start.is_multiple_of(sector) && range.end.is_multiple_of(sector));
        }
    }

    #[test]
    fn figures_of_a_load() {
        let script = script(true);
        assert_eq!((script.count(What::Read), script.count(What::Write)), (2, 1));
        assert_eq!((script.largest(), script.length(), script.random_percent()), (4096, 1 << 20, 66));
        assert_eq!((script.time().as_millis(), script.longest_gap().as_millis()), (50, 40));
        assert_eq!(script.words(), "3 recorded I/Os at their own pace, 0.1 s");
    }

    #[test]
    fn events_come_at_their_times_over_all_pieces_or_at_once() {
        let start = Instant::now();
        let after = |milliseconds: u64| start + Duration::from_millis(milliseconds);
        let cues = |is_paced: bool, times: &[u64]| {
            let (script, mut played) = (script(is_paced), Played::new());
            played.ended = start;
            played.start = start;
            let cue = |time: &u64| {
                let cue = played.cue(&script, after(*time));
                if !matches!(cue, Cue::At(_)) {
                    played.done();
                }
                cue
            };
            times.iter().map(cue).collect::<Vec<Cue>>()
        };
        let all = script(true).events;
        assert_eq!(
            cues(true, &[0, 5, 10, 11, 12, 50, 60, 61]),
            [
                Cue::Io(all[0]),
                Cue::At(after(10)),
                Cue::Io(all[1]),
                Cue::Sync,
                Cue::At(after(50)),
                Cue::Io(all[3]),
                // From the beginning, whose time is now.
                Cue::Io(all[0]),
                Cue::At(after(70)),
            ]
        );
        assert_eq!(cues(false, &[0; 4]), [Cue::Io(all[0]), Cue::Io(all[1]), Cue::Sync, Cue::Io(all[3])]);
        // The time between two pieces does not pass.
        let (script, mut played) = (script(true), Played::new());
        (played.start, played.ended) = (start, start);
        played.done();
        played.end(after(5));
        played.begin(after(1005));
        assert_eq!(played.cue(&script, after(1006)), Cue::At(after(1010)));
    }
}
