//! Other load on the machine during the comparison, from `/proc`.

use crate::CpuTime;
use crate::groups::{CpuGroup, Throttled};
use std::time::{Duration, Instant};

/// The kernel counts processor time in hundredths of a second.
const TICKS_PER_SECOND: f64 = 100.0;

/// Another load of less than this many processors is taken for the system's own background work.
pub(super) const NEGLIGIBLE: f64 = 0.15;

/// The state of the machine's counters when the comparison began.
pub(crate) struct Machine {
    began: Instant,
    ticks: Option<Ticks>,
    own: CpuTime,
    /// The processor time of the load, which is not that of others; `None` where it cannot be known.
    time_of_load: Option<fn() -> CpuTime>,
    /// The control groups that limit this process, with what they did to it before.
    groups: Vec<(CpuGroup, Throttled)>,
}

/// Processor time of the machine so far, in ticks.
#[derive(Clone, Copy)]
struct Ticks {
    busy: f64,
    stolen: f64,
}

impl Machine {
    /// Begins to watch, for a load of this process.
    pub(crate) fn watch() -> Machine {
        Machine::watch_load(Some(CpuTime::now))
    }

    /// Begins to watch, for a load of programs that this process starts and waits for. What others use cannot be known where
    /// a file system is served by a program that `is_served_apart`.
    pub(crate) fn watch_programs(is_served_apart: bool) -> Machine {
        fn with_children() -> CpuTime {
            let (own, children) = (CpuTime::now(), CpuTime::of_children());
            CpuTime { user: own.user + children.user, system: own.system + children.system }
        }
        Machine::watch_load((!is_served_apart).then_some(with_children))
    }

    fn watch_load(time_of_load: Option<fn() -> CpuTime>) -> Machine {
        let groups = CpuGroup::all().into_iter().map(|group| {
            let before = group.throttled();
            (group, before)
        });
        let groups = groups.collect();
        let own = time_of_load.map_or_else(CpuTime::default, |time| time());
        Machine { began: Instant::now(), ticks: ticks(), own, time_of_load, groups }
    }

    /// How often and how long a control group stopped this process meanwhile, and its quota in processors: of the group
    /// that did so most; `None` where no group has a quota.
    pub(crate) fn throttled(&self) -> Option<(f64, Throttled)> {
        let since = |(group, before): &(CpuGroup, Throttled)| {
            let now = group.throttled();
            let periods = now.periods.saturating_sub(before.periods);
            (group.processors, Throttled { periods, seconds: (now.seconds - before.seconds).max(0.0) })
        };
        let least = |one: &(f64, Throttled), other: &(f64, Throttled)| {
            one.1.periods.cmp(&other.1.periods).then(other.0.total_cmp(&one.0))
        };
        self.groups.iter().map(since).max_by(least)
    }

    /// The processors that other programs used meanwhile, on average.
    pub(crate) fn other_load(&self) -> Option<f64> {
        let (before, now) = self.ticks.zip(ticks())?;
        let own = self.time_of_load?().since(self.own).total().as_secs_f64();
        let others = (now.busy - before.busy) / TICKS_PER_SECOND - own;
        Some((others / self.seconds()).max(0.0))
    }

    fn seconds(&self) -> f64 {
        self.began.elapsed().max(Duration::from_millis(1)).as_secs_f64()
    }

    /// Returns sentences about disturbances of the machine. In `asleep` of `cases` cases the processors mostly waited.
    pub(crate) fn sentences(&self, asleep: usize, cases: usize) -> Vec<String> {
        let mut sentences = Vec::new();
        let seconds = self.seconds();
        if let Some(others) = self.other_load().filter(|others| *others > NEGLIGIBLE) {
            sentences.push(format!(
                "another load used {others:.1} processors meanwhile: end it, or give the comparison more --time"
            ));
        }
        if let Some((before, now)) = self.ticks.zip(ticks()) {
            let stolen = (now.stolen - before.stolen) / TICKS_PER_SECOND / seconds;
            if stolen > NEGLIGIBLE {
                sentences.push(format!(
                    "the host of this virtual machine withheld {stolen:.1} processors meanwhile: another time is better"
                ));
            }
        }
        if let Some((processors, Throttled { periods, seconds })) = self.throttled()
            && periods > 0
        {
            sentences.push(format!(
                "a quota of {processors:.2} processors of its control group (a container's CPU limit) stopped this program in \
                 {periods} periods, for {seconds:.1} s: these stops are in the figures, and look like stalls of the storage"
            ));
        }
        if asleep > 0 {
            sentences.push(format!(
                "processors slept between I/Os in {asleep} of {cases} cases: waking them is part of each response time, which on \
                 fast storage may be most of it and differs from moment to moment and from program to program; holding \
                 /dev/cpu_dma_latency at 0 (as root) keeps them awake"
            ));
        }
        sentences
    }
}

/// Reads the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal (proc(5)).
fn ticks() -> Option<Ticks> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let figures: Vec<f64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let stolen = figures.get(7).copied().unwrap_or(0.0);
    Some(Ticks { busy: figures.get(..3)?.iter().sum::<f64>(), stolen })
}
