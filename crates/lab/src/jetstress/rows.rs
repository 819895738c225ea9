//! The results as rows of a report, databases and logs apart, and whether the latencies were within Jetstress' limits.

use super::load::Done;
use super::log::SEGMENT;
use super::page::PAGE;
use super::store::Tally;
use crate::compare::gather as compare;
use crate::document::{self as report, CaseResult, Direction, Round, Slice};
use platter_device::Traffic;
use std::time::Duration;

/// The limits of Jetstress 2010 and 2013 in milliseconds (from memory, not verified): average of reads of databases,
/// average of writes of logs, maximum of both, and maximum of both in a run of more than six hours.
const READ_AVERAGE: f64 = 20.0;
const LOG_AVERAGE: f64 = 10.0;
const MOST: f64 = 100.0;
const MOST_STRESS: f64 = 200.0;
const STRESS_HOURS: f64 = 6.0;

fn mean_ms(tally: &Tally) -> f64 {
    tally.latencies.mean() / 1e6
}

fn most_ms(tally: &Tally) -> f64 {
    tally.latencies.max() as f64 / 1e6
}

fn most_allowed(hours: f64) -> f64 {
    if hours > STRESS_HOURS { MOST_STRESS } else { MOST }
}

/// Whether all latencies are within the limits.
pub(super) fn is_passed(done: &Done, hours: f64) -> bool {
    let (reads, logs, most) = (&done.database.reads, &done.log.writes, most_allowed(hours));
    let is_idle = |tally: &Tally| tally.count == 0;
    (is_idle(reads) || (mean_ms(reads) <= READ_AVERAGE && most_ms(reads) <= most))
        && (is_idle(logs) || (mean_ms(logs) <= LOG_AVERAGE && most_ms(logs) <= most))
}

/// A sentence with the latencies and their limits.
pub(super) fn verdict(done: &Done, threads: u32, hours: f64) -> String {
    let (reads, logs, most) = (&done.database.reads, &done.log.writes, most_allowed(hours));
    format!(
        "{} with {threads} threads: {:.0} transactional I/Os a second; reads of databases {:.2} ms on average (at most \
         {READ_AVERAGE:.0}) and {:.1} at most ({most:.0}), writes of logs {:.2} ms on average ({LOG_AVERAGE:.0}) and {:.1} at \
         most ({most:.0}); {} operations, of which {} inserted, {} deleted, {} replaced and {} sought; {} commits lazy, \
         {} reads of maintenance",
        if is_passed(done, hours) { "passed" } else { "failed" },
        done.iops(),
        mean_ms(reads),
        most_ms(reads),
        mean_ms(logs),
        most_ms(logs),
        done.operations.count(),
        done.inserts,
        done.deletes,
        done.replaces,
        done.seeks,
        done.lazy,
        done.database.maintenance.count,
    )
}

/// Identifies a run.
pub(super) struct When {
    pub repeat: u32,
    pub started: Duration,
    /// The number of threads, where the case states it.
    pub workers: u32,
}

/// The mix of operations, as the report describes it; R means "from memory" (see `docs/jetstress.md`).
const ABOUT: &str = "R: 40 % inserted, 20 % deleted, 5 % replaced, 35 % sought, 70 % of commits lazy";

/// Adds the measurements of a run to the rows of its case.
pub(super) fn add(
    results: &mut Vec<CaseResult>,
    target: &str,
    case: &str,
    when: &When,
    done: &Done,
    [on_databases, on_logs]: [Vec<Option<Traffic>>; 2],
) {
    let seconds = done.seconds;
    let mut both = done.database.reads.clone();
    both.merge(&done.database.writes);
    let rows = [
        ("", Direction::Mix, &both, on_databases, PAGE),
        (": database reads", Direction::Read, &done.database.reads, Vec::new(), PAGE),
        (": database writes", Direction::Write, &done.database.writes, Vec::new(), PAGE),
        (": log writes", Direction::Write, &done.log.writes, on_logs, SEGMENT),
    ];
    for (name, direction, tally, traffic, block) in rows {
        let case = report::Case {
            workload: "jetstress".into(),
            name: format!("{case}{name}"),
            direction,
            block_bytes: block as u64,
            program: None,
            shape: Some(ABOUT.into()),
            queue_depth: 1,
            workers: when.workers,
            random_percent: if block == PAGE { 100 } else { 0 },
            read_percent: match direction {
                Direction::Read => 100,
                Direction::Write => 0,
                Direction::Mix => 50,
            },
            durability: "write-through".into(),
            scoring: None,
            beside: Vec::new(),
        };
        let latency = compare::latency(&tally.latencies);
        let iops = tally.count as f64 / seconds;
        let (reads, writes) = match direction {
            Direction::Read => (Some(tally), None),
            Direction::Write => (None, Some(tally)),
            Direction::Mix => (Some(&done.database.reads), Some(&done.database.writes)),
        };
        let of = |tally: Option<&Tally>| tally.map_or((0, 0), |tally| (tally.count, tally.bytes));
        let (cpu, operations) = (done.cpu, tally.count.max(1) as f64);
        let run = Round {
            repeat: when.repeat,
            started_at_seconds: when.started.as_secs_f64(),
            seconds,
            iops,
            mb_per_s: tally.bytes as f64 / 1e6 / seconds,
            latency_us: latency,
            response_times: compare::response_times(&tally.latencies),
            slices: vec![Slice {
                pass: when.repeat,
                started_at_seconds: when.started.as_secs_f64(),
                seconds,
                iops,
                latency_us: latency.mean,
                exit_code: None,
            }],
            cpu: report::Cpu {
                user_s: cpu.user.as_secs_f64(),
                system_s: cpu.system.as_secs_f64(),
                us_per_io: cpu.total().as_secs_f64() * 1e6 / operations,
                percent: cpu.total().as_secs_f64() / seconds * 100.0,
            },
            requested: report::Requested {
                reads: of(reads).0,
                writes: of(writes).0,
                read_bytes: of(reads).1,
                write_bytes: of(writes).1,
            },
            device: compare::traffic(traffic),
            ..Round::default()
        };
        let is_same = |known: &&mut CaseResult| known.target == target && known.case.is_same(&case);
        match results.iter_mut().find(is_same) {
            Some(known) => known.runs.push(run),
            None => results.push(CaseResult {
                target: target.into(),
                latency_us: run.latency_us,
                cpu: run.cpu,
                runs: vec![run],
                case,
                ..CaseResult::default()
            }),
        }
    }
}
