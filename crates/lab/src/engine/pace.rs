//! When the next I/O may be issued.

use super::pattern::{Pace, Rate};
use super::walk::Step;
use fastrand::Rng;
use std::time::{Duration, Instant};

/// Keeps one worker to its pace in one piece of a job.
pub(crate) struct Pacer {
    pace: Pace,
    start: Instant,
    /// Seconds since the start that the I/Os issued so far take at the limited rates, for each of the limits: reads,
    /// writes, both.
    taken: [f64; 3],
    rng: Rng,
    /// The number of I/Os since the last pause.
    counted: u32,
    /// Whether no I/O is issued until all I/Os in flight have completed.
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
    pub fn new(pace: Pace, start: Instant, seed: u64) -> Pacer {
        let rng = Rng::with_seed(seed);
        Pacer { pace, start, taken: [0.0; 3], rng, counted: 0, draining: false, until: None }
    }

    /// Returns whether, when and in which direction the I/O may be issued.
    pub fn ask(&mut self, step: &Step, now: Instant, in_flight: usize) -> Go {
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
        let due = self.due(step.read);
        if due <= now {
            return Go::Now { read: step.read };
        }
        // Where both directions have a rate, an I/O of either direction takes the direction that is further behind its
        // rate.
        let both = self.pace.limits[0].is_some() && self.pace.limits[1].is_some();
        let other = if step.mixed && both { self.due(!step.read) } else { due };
        match other <= now {
            true => Go::Now { read: !step.read },
            false => Go::At(due.min(other)),
        }
    }

    /// Counts an I/O that was issued, towards its rate and towards the next pause.
    pub fn issued(&mut self, read: bool, bytes: u32, now: Instant) {
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
        self.count(true, now);
    }

    /// Counts an I/O that completed, towards the next pause.
    pub fn completed(&mut self, now: Instant) {
        self.count(false, now);
    }

    /// No I/O is issued for this long from `now`.
    pub fn delay(&mut self, time: Duration, now: Instant) {
        self.until = Some(now + time);
    }

    /// Returns when an I/O in this direction is due: when the I/Os issued before it have used up their time at the
    /// limited rates.
    fn due(&self, read: bool) -> Instant {
        let seconds = self.taken[usize::from(!read)].max(self.taken[2]);
        self.start + Duration::try_from_secs_f64(seconds).unwrap_or(FOREVER).min(FOREVER)
    }

    fn count(&mut self, at_issue: bool, now: Instant) {
        let Some(pause) = self.pace.pause.filter(|pause| pause.at_issue == at_issue) else { return };
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
        let busy = now + pause.busy.min(pause.time);
        while Instant::now() < busy {
            std::hint::spin_loop();
        }
    }
}

/// Longer than any run.
const FOREVER: Duration = Duration::from_secs(1_000_000_000);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::pattern::Pause;

    fn step(read: bool) -> Step {
        Step { read, offset: 0, length: 4096, mixed: true, delay: Duration::ZERO }
    }

    /// Returns the directions of the I/Os that are issued within so many milliseconds; `next` gives the direction asked
    /// for.
    fn run(pace: Pace, milliseconds: u64, mut next: impl FnMut() -> bool) -> Vec<bool> {
        let start = Instant::now();
        let mut pacer = Pacer::new(pace, start, 1);
        let mut went = Vec::new();
        for at in 0..milliseconds {
            let now = start + Duration::from_millis(at);
            while let Go::Now { read } = pacer.ask(&step(next()), now, 0) {
                pacer.issued(read, 4096, now);
                pacer.completed(now);
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

    #[test]
    fn pauses_come_after_so_many() {
        let pause = Pause {
            after: 4,
            time: Duration::from_millis(100),
            busy: Duration::ZERO,
            at_issue: false,
            drained: false,
        };
        assert_eq!(run(Pace { pause: Some(pause), ..Pace::default() }, 1000, || true).len(), 40);
        let pause = Some(Pause { drained: true, ..pause });
        let mut pacer = Pacer::new(Pace { pause, ..Pace::default() }, Instant::now(), 1);
        let now = Instant::now();
        (0..4).for_each(|_| pacer.completed(now));
        assert_eq!(pacer.ask(&step(true), now, 1), Go::WhenIdle);
        assert_eq!(pacer.ask(&step(true), now, 0), Go::At(now + Duration::from_millis(100)));
    }
}
