//! When the next I/O may be issued.

use super::pattern::{Pace, Rate};
use fastrand::Rng;
use platter_device::sync;
use std::time::{Duration, Instant};

/// Keeps one worker to its pace, over all pieces of its job together: the time between two pieces does not pass for it.
pub(crate) struct Pacer {
    pace: Pace,
    /// When the first piece began, moved on by the time between the pieces since.
    start: Instant,
    /// When the last piece ended.
    ended: Instant,
    /// Seconds since the start that the I/Os issued so far take at the limited rates, for each of the limits: reads,
    /// writes, both.
    taken: [f64; 3],
    rng: Rng,
    /// The number of I/Os that were issued since the last pause.
    counted: u32,
    /// Whether no I/O is issued until all I/Os in flight have completed, because a pause comes then.
    draining: bool,
    /// No I/O is issued before this time.
    until: Option<Instant>,
}

/// Whether and when an I/O may be issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Go {
    /// Now, in the direction that is given.
    Now {
        /// Whether as a read; otherwise as a write.
        read: bool,
    },
    /// Not before this time.
    At(Instant),
    /// When no I/O is in flight any more.
    WhenIdle,
}

impl Pacer {
    pub(super) fn new(pace: Pace, seed: u64) -> Pacer {
        let rng = Rng::with_seed(seed);
        let now = sync::now();
        Pacer { pace, start: now, ended: now, taken: [0.0; 3], rng, counted: 0, draining: false, until: None }
    }

    /// Begins a piece of the job. A rate and a pause go on where the piece before it ended, so that many short pieces
    /// have together as many I/Os as a long one.
    pub(super) fn begin(&mut self, now: Instant) {
        let between = now.saturating_duration_since(self.ended);
        self.start += between;
        self.until = self.until.map(|until| until + between);
    }

    /// Ends a piece of the job.
    pub(super) fn end(&mut self, now: Instant) {
        self.ended = now;
    }

    /// Returns whether and when an I/O that was drawn as a read or write may be issued. In a load of reads and writes
    /// (`is_mix`) the answer may be that it is the other direction's turn: if only that one is not ahead of its rate.
    pub(super) fn ask(&mut self, read: bool, is_mix: bool, now: Instant, in_flight: usize) -> Go {
        if self.draining {
            if in_flight > 0 {
                return Go::WhenIdle;
            }
            self.draining = false;
            self.pause(now);
        }
        let wait = self.until.filter(|until| *until > now);
        if let Some(until) = wait {
            return Go::At(until);
        }
        self.until = None;
        let due = self.due(read);
        if due <= now {
            return Go::Now { read };
        }
        let other = if is_mix { self.due(!read) } else { due };
        match other <= now {
            true => Go::Now { read: !read },
            false => Go::At(due.min(other)),
        }
    }

    /// Counts an I/O that was issued, towards its rate and towards the next pause.
    pub(super) fn issued(&mut self, read: bool, bytes: u32, now: Instant) {
        for index in [usize::from(!read), 2] {
            let Some(limit) = self.pace.limits[index] else { continue };
            let seconds = match limit {
                Rate::Ios(rate) => 1.0 / rate,
                Rate::Bytes(rate) => f64::from(bytes) / rate,
            };
            // Times between the events of a Poisson process are exponential.
            let times = if self.pace.poisson { -(1.0 - self.rng.f64()).ln() } else { 1.0 };
            self.taken[index] += seconds * times;
        }
        self.count(now);
    }

    /// No I/O is issued for this long from `now`.
    pub(super) fn delay(&mut self, time: Duration, now: Instant) {
        self.until = Some(now + time);
    }

    /// Returns when an I/O in this direction is due: when the I/Os issued before it have used up their time at the
    /// limited rates.
    fn due(&self, read: bool) -> Instant {
        let seconds = self.taken[usize::from(!read)].max(self.taken[2]);
        self.start + Duration::try_from_secs_f64(seconds).unwrap_or(FOREVER).min(FOREVER)
    }

    fn count(&mut self, now: Instant) {
        let Some(pause) = self.pace.pause else { return };
        self.counted += 1;
        if self.counted >= pause.after.max(1) {
            self.counted = 0;
            match pause.drained {
                true => self.draining = true,
                false => self.pause(now),
            }
        }
    }

    fn pause(&mut self, now: Instant) {
        let Some(pause) = self.pace.pause else { return };
        self.until = Some(now + pause.time);
        if !pause.busy.is_zero() {
            let busy = now + pause.busy.min(pause.time);
            if sync::is_virtual() {
                sync::sleep(busy - now);
            }
            while sync::now() < busy {
                std::hint::spin_loop();
            }
        }
    }
}

/// Longer than any run.
const FOREVER: Duration = Duration::from_secs(1_000_000_000);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::pattern::Pause;

    /// Returns the directions of the I/Os that are issued within so many milliseconds; `next` gives the direction asked
    /// for.
    fn run(pace: Pace, milliseconds: u64, mut next: impl FnMut() -> bool) -> Vec<bool> {
        let mut pacer = Pacer::new(pace, 1);
        let start = Instant::now();
        pacer.begin(start);
        piece(&mut pacer, start, milliseconds, &mut next)
    }

    /// Asks a pacer every millisecond, from `start` on, and returns the directions of the I/Os.
    fn piece(
        pacer: &mut Pacer,
        start: Instant,
        milliseconds: u64,
        next: &mut dyn FnMut() -> bool,
    ) -> Vec<bool> {
        let is_mix = pacer.pace.limits[..2].iter().all(Option::is_some);
        let mut went = Vec::new();
        for at in 0..milliseconds {
            let now = start + Duration::from_millis(at);
            while let Go::Now { read } = pacer.ask(next(), is_mix, now, 0) {
                pacer.issued(read, 4096, now);
                went.push(read);
            }
        }
        went
    }

    #[test]
    fn a_rate_is_kept_over_time() {
        let limits = [Some(Rate::Ios(500.0)), None, None];
        assert_eq!(run(Pace { limits, ..Pace::default() }, 1000, || true).len(), 500);
        let limits = [None, None, Some(Rate::Bytes(4096.0 * 200.0))];
        assert_eq!(run(Pace { limits, ..Pace::default() }, 1000, || true).len(), 200);
        // Exponentially distributed intervals give the same rate on average: the count is within four standard
        // deviations of it.
        let limits = [Some(Rate::Ios(500.0)), None, None];
        let by_chance = run(Pace { limits, poisson: true, ..Pace::default() }, 1000, || true).len();
        assert!(by_chance != 500 && by_chance.abs_diff(500) < 90, "{by_chance}");
    }

    #[test]
    fn of_a_mix_whatever_is_behind_its_rate_goes() {
        let limits = [Some(Rate::Ios(300.0)), Some(Rate::Ios(100.0)), None];
        let mut toss = false;
        let went = run(Pace { limits, ..Pace::default() }, 1000, || {
            toss = !toss;
            toss
        });
        let reads = went.iter().filter(|&&read| read).count();
        assert_eq!((reads, went.len() - reads), (300, 100));
    }

    /// A direction without a limit is not held up by one that has to wait.
    #[test]
    fn a_limit_of_reads_does_not_hold_up_writes() {
        let mut pacer = Pacer::new(Pace { limits: [Some(Rate::Ios(1.0)), None, None], ..Pace::default() }, 1);
        let now = Instant::now();
        pacer.begin(now);
        pacer.issued(true, 4096, now);
        assert_eq!(pacer.ask(true, true, now, 0), Go::Now { read: false });
        assert_eq!(pacer.ask(true, false, now, 0), Go::At(now + Duration::from_secs(1)));
    }

    /// The pieces of a job are far apart, and each is shorter than the time between two I/Os.
    #[test]
    fn a_pace_goes_on_from_piece_to_piece() {
        let pause =
            Pause { after: 1, time: Duration::from_millis(150), busy: Duration::ZERO, drained: false };
        for (pace, expected) in [
            (Pace { limits: [None, None, Some(Rate::Ios(4.0))], ..Pace::default() }, 8),
            (Pace { pause: Some(pause), ..Pace::default() }, 14),
        ] {
            let mut pacer = Pacer::new(pace, 1);
            let mut went = 0;
            for number in 0..20 {
                let start = Instant::now() + Duration::from_secs(7 * number);
                pacer.begin(start);
                went += piece(&mut pacer, start, 100, &mut || true).len();
                pacer.end(start + Duration::from_millis(100));
            }
            assert_eq!(went, expected);
        }
    }

    #[test]
    fn pauses_come_after_so_many() {
        let pause =
            Pause { after: 4, time: Duration::from_millis(100), busy: Duration::ZERO, drained: false };
        assert_eq!(run(Pace { pause: Some(pause), ..Pace::default() }, 1000, || true).len(), 40);
        // However many I/Os may be in flight, no more are issued than come before the pause.
        let pause = Some(Pause { drained: true, ..pause });
        let mut pacer = Pacer::new(Pace { pause, ..Pace::default() }, 1);
        let now = Instant::now();
        pacer.begin(now);
        for in_flight in 0..4 {
            assert_eq!(pacer.ask(true, false, now, in_flight), Go::Now { read: true });
            pacer.issued(true, 4096, now);
        }
        assert_eq!(pacer.ask(true, false, now, 1), Go::WhenIdle);
        assert_eq!(pacer.ask(true, false, now, 0), Go::At(now + Duration::from_millis(100)));
    }
}
