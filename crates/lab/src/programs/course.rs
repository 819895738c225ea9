//! The order of the runs, how many there are, and the results that are made of them.

use crate::compare::gather as compare;
use crate::compare::noise::Noise;
use crate::compare::order::Orders;
use crate::document::{self as report, CaseResult, Round, Slice, Traffic};
use crate::estimate::{self, LEAST_PASSES};
use crate::{CpuTime, Latencies, Result};
use std::time::Duration;

/// The passes of a comparison of programs whose number nobody chose, at least: as hyperfine's users know it.
const USUAL: u32 = 10;
/// The most passes that follow from a time: more of them tell little.
pub(super) const MOST: u32 = 1000;

/// A run of a program on a target.
#[derive(Clone, Debug, Default)]
pub(super) struct Execution {
    /// When it began, counted from the start of the comparison.
    pub started: Duration,
    /// The time that counts.
    pub took: Duration,
    /// How long making durable took, if that does not count.
    pub background: Duration,
    pub cpu: CpuTime,
    /// The exit code; of a run that counts, another one than 0 was to be ignored.
    pub code: i32,
    pub seen: Option<Traffic>,
}

/// Where programs run: the targets, or what stands for them in tests.
pub(super) trait Field {
    /// The number of targets.
    fn targets(&self) -> usize;
    /// Runs a program on a target, with what goes before and after it. `None` for a target that is left out, from now on too.
    fn turn(&mut self, program: usize, target: usize) -> Result<Option<Execution>>;
    /// Is told after each pass how many there will be.
    fn passed(&mut self, program: usize, pass: u32, passes: u32);
    /// The processors that other programs use, as far as it is known.
    fn other_load(&self) -> Option<f64>;
    /// Tells the user something while it runs.
    fn notice(&self, sentence: &str);
    /// Whether to end now.
    fn stop(&self) -> bool;
}

/// When a program has run often enough on each target.
#[derive(Clone, Copy, Debug)]
pub(super) struct Enough {
    /// This many passes, whatever else.
    pub passes: Option<u32>,
    /// Until the runs on each target have taken this long, but for a few passes at least.
    pub time: Option<Duration>,
    /// Until differences of this share would be told (0.05: of 5 %), but not longer than the time.
    pub until: Option<f64>,
}

/// The time on each target if none was chosen.
const TIME: Duration = Duration::from_secs(3);
/// The time on each target within which a precision is to be reached, if none was chosen.
const PATIENCE: Duration = Duration::from_secs(300);

impl Enough {
    /// How many passes there will be, after these: for each target the seconds of its runs. `level` is the significance level
    /// that the precision is judged by.
    fn passes(&self, seconds: &[Vec<f64>], level: f64) -> u32 {
        if let Some(passes) = self.passes {
            return passes;
        }
        let done = seconds.iter().map(Vec::len).max().unwrap_or(0) as u32;
        let spent = seconds.iter().map(|runs| runs.iter().sum::<f64>()).fold(0.0, f64::max);
        let each = (spent / f64::from(done.max(1))).max(1e-6);
        let fit = |time: Duration| (time.as_secs_f64() / each).ceil().min(f64::from(MOST)) as u32;
        match self.until {
            None => {
                let least = if self.time.is_some() { LEAST_PASSES as u32 } else { USUAL };
                fit(self.time.unwrap_or(TIME)).max(least)
            }
            Some(share) => {
                let limit = fit(self.time.unwrap_or(PATIENCE)).max(LEAST_PASSES as u32);
                let rates: Vec<Vec<f64>> =
                    seconds.iter().map(|runs| runs.iter().map(|seconds| 1.0 / seconds).collect()).collect();
                let least = USUAL.min(limit);
                let needed = estimate::passes_for(&rates, share, level).unwrap_or(done + 1);
                needed.clamp(least, limit)
            }
        }
    }
}

/// The results of one program: for each target its runs, in the order of the passes.
pub(super) type Executions = Vec<Vec<Execution>>;

/// Runs one program in turns on all targets until it is enough.
///
/// # Errors
/// The error of a turn that is not one of its target alone.
pub(super) fn measure(
    field: &mut dyn Field,
    program: usize,
    enough: Enough,
    noise: &mut Noise,
    seed: u64,
) -> Result<Executions> {
    let mut orders = Orders::new(field.targets(), seed ^ (program as u64) << 32);
    let mut runs: Executions = vec![Vec::new(); field.targets()];
    let mut pass = 0;
    loop {
        pass += 1;
        for target in orders.next() {
            match field.turn(program, target) {
                Ok(run) => runs[target].extend(run),
                // What was measured until then is kept.
                Err(crate::Error::Interrupted) if field.stop() => {
                    // Only whole passes can be compared.
                    runs.iter_mut().for_each(|runs| runs.truncate(pass as usize - 1));
                    return Ok(runs);
                }
                Err(error) => return Err(error),
            }
        }
        // Targets that were left out on the way do not say how long to go on.
        let seconds: Vec<Vec<f64>> = runs
            .iter()
            .filter(|runs| runs.len() == pass as usize)
            .map(|runs| runs.iter().map(|run| run.took.as_secs_f64().max(1e-9)).collect())
            .collect();
        let passes = enough.passes(&seconds, noise.level);
        let rates: Vec<Vec<f64>> =
            seconds.iter().map(|runs| runs.iter().map(|seconds| 1.0 / seconds).collect()).collect();
        if let Some(sentence) = noise.sentence(&[rates], pass, passes, field.other_load()) {
            field.notice(&sentence);
        }
        field.passed(program, pass, passes.max(pass));
        if pass >= passes || seconds.is_empty() || field.stop() {
            return Ok(runs);
        }
    }
}

/// Makes the result of a program on a target of its runs.
pub(super) fn result(target: &str, case: report::Case, runs: &[Execution]) -> CaseResult {
    let mut latencies = Latencies::default();
    let mut round = Round { repeat: 1, ..Round::default() };
    let (mut user, mut system) = (Duration::ZERO, Duration::ZERO);
    for (run, pass) in runs.iter().zip(1..) {
        let seconds = run.took.as_secs_f64().max(1e-9);
        latencies.record(run.took);
        round.timeline.push(report::Second {
            second: round.seconds,
            iops: 1.0 / seconds,
            latency_us: seconds * 1e6,
            ..report::Second::default()
        });
        round.slices.push(Slice {
            pass,
            started_at_seconds: run.started.as_secs_f64(),
            seconds,
            iops: 1.0 / seconds,
            latency_us: seconds * 1e6,
            exit_code: (run.code != 0).then_some(run.code),
        });
        round.seconds += seconds;
        round.background_seconds += run.background.as_secs_f64();
        user += run.cpu.user;
        system += run.cpu.system;
    }
    let (count, seconds) = (runs.len().max(1) as f64, round.seconds.max(1e-9));
    let total = (user + system).as_secs_f64();
    round.started_at_seconds = round.slices.first().map_or(0.0, |slice| slice.started_at_seconds);
    round.iops = runs.len() as f64 / seconds;
    round.latency_us = compare::latency(&latencies);
    round.response_times = compare::response_times(&latencies);
    round.cpu = report::Cpu {
        user_s: user.as_secs_f64(),
        system_s: system.as_secs_f64(),
        us_per_io: total * 1e6 / count,
        percent: total / seconds * 100.0,
    };
    let seen: Option<Vec<&Traffic>> = runs.iter().map(|run| run.seen.as_ref()).collect();
    round.device = seen.filter(|seen| !seen.is_empty()).map(|seen| sum(&seen));
    CaseResult {
        target: target.into(),
        case,
        latency_us: round.latency_us,
        cpu: round.cpu,
        runs: vec![round],
        ..CaseResult::default()
    }
}

fn sum(all: &[&Traffic]) -> Traffic {
    let of = |count: fn(&Traffic) -> u64| crate::statistics::total(all.iter().map(|traffic| count(traffic)));
    Traffic {
        reads: of(|traffic| traffic.reads),
        writes: of(|traffic| traffic.writes),
        read_bytes: of(|traffic| traffic.read_bytes),
        write_bytes: of(|traffic| traffic.write_bytes),
        flushes: of(|traffic| traffic.flushes),
        discards: of(|traffic| traffic.discards),
        ..Traffic::default()
    }
}
