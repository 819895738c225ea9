//! Writes Iometer's `results.csv`.

use super::config::{Config, Spec, Worker};
use super::load::{Load, Step};
use crate::document::Document;
use crate::environment::host;
use crate::kept::{Runs, SliceCounts, shares};
use crate::{Latencies, ProcessorTime, Tally, WorkerTally};
use std::fmt::{Display, Write};
use std::time::Duration;

/// The columns, as `ManagerList.cpp` writes them.
const COLUMNS: &str = "Target Type,Target Name,Access Specification Name,# Managers,# Workers,# Disks,IOps,Read IOps,\
    Write IOps,MiBps (Binary),Read MiBps (Binary),Write MiBps (Binary),MBps (Decimal),Read MBps (Decimal),\
    Write MBps (Decimal),Transactions per Second,Connections per Second,Average Response Time,\
    Average Read Response Time,Average Write Response Time,Average Transaction Time,Average Connection Time,\
    Maximum Response Time,Maximum Read Response Time,Maximum Write Response Time,Maximum Transaction Time,\
    Maximum Connection Time,Errors,Read Errors,Write Errors,Bytes Read,Bytes Written,Read I/Os,Write I/Os,Connections,\
    Transactions per Connection,Total Raw Read Response Time,Total Raw Write Response Time,Total Raw Transaction Time,\
    Total Raw Connection Time,Maximum Raw Read Response Time,Maximum Raw Write Response Time,\
    Maximum Raw Transaction Time,Maximum Raw Connection Time,Total Raw SliceCounts Time,Starting Sector,Maximum Size,\
    Queue Depth,% CPU Utilization,% User Time,% Privileged Time,% DPC Time,% Interrupt Time,Processor Speed,\
    Interrupts per Second,CPU Effectiveness,Packets/Second,Packet Errors,Segments Retransmitted/Second,0 to 50 uS,\
    50 to 100 uS,100 to 200 uS,200 to 500 uS,0.5 to 1 mS,1 to 2 mS,2 to 5 mS,5 to 10 mS,10 to 15 mS,15 to 20 mS,\
    20 to 30 mS,30 to 50 mS,50 to 100 mS,100 to 200 mS,200 to 500 mS,0.5 to 1 S,1 to 2 s,2 to 4.7 s,4.7 to 5 s,\
    5 to 10 s, >= 10 s";

/// Ticks per second of the clock that raw times are given in: nanoseconds.
const TICKS: u64 = 1_000_000_000;

/// Upper edges of the response-time bins in ticks, as `IOGrunt.cpp` computes them: the edge that the headers call 4.7 s
/// is at 4 s, and times beyond the last edge are in no bin.
const BINS: [u64; 20] = [
    TICKS / 20_000,
    TICKS / 10_000,
    TICKS / 5_000,
    TICKS / 2_000,
    TICKS / 1_000,
    TICKS / 500,
    TICKS / 200,
    TICKS / 100,
    TICKS / 67,
    TICKS / 50,
    TICKS / 33,
    TICKS / 20,
    TICKS / 10,
    TICKS / 5,
    TICKS / 2,
    TICKS,
    TICKS * 2,
    TICKS * 4,
    TICKS * 5,
    TICKS * 10,
];

/// One row of the file, with a text for each column.
struct ResultRow(Vec<String>);

impl ResultRow {
    fn new(kind: &str, name: &str) -> ResultRow {
        let mut row = ResultRow(vec![String::new(); COLUMNS.split(',').count()]);
        row.set("Target Type", kind);
        // A comma in the name would begin another column.
        row.set("Target Name", name.replace(',', " "));
        row
    }

    fn set(&mut self, column: &str, value: impl Display) {
        let index = COLUMNS.split(',').position(|name| name == column).expect("it is a column");
        self.0[index] = value.to_string();
    }

    fn real(&mut self, column: &str, value: f64) {
        self.set(column, format_args!("{value:.6}"));
    }
}

/// The I/Os of several workers together.
#[derive(Default)]
struct Sum {
    reads: Tally,
    writes: Tally,
    elapsed: Duration,
}

impl Sum {
    fn of<'a>(workers: impl Iterator<Item = (&'a SliceCounts, &'a WorkerTally)>) -> Sum {
        let mut sum = Sum::default();
        for (run, worker) in workers {
            sum.reads.add(&worker.reads);
            sum.writes.add(&worker.writes);
            sum.elapsed = sum.elapsed.max(run.elapsed);
        }
        sum
    }

    fn write(&self, row: &mut ResultRow) {
        let seconds = self.elapsed.as_secs_f64().max(1e-9);
        let mut latencies = self.reads.latencies.clone();
        latencies.add(&self.writes.latencies);
        let all = self.reads.ios + self.writes.ios;
        let bytes = self.reads.bytes + self.writes.bytes;
        for (column, ios) in [("IOps", all), ("Read IOps", self.reads.ios), ("Write IOps", self.writes.ios)] {
            row.real(column, ios as f64 / seconds);
        }
        for (direction, bytes) in [("", bytes), ("Read ", self.reads.bytes), ("Write ", self.writes.bytes)] {
            row.real(&format!("{direction}MiBps (Binary)"), bytes as f64 / 1_048_576.0 / seconds);
            row.real(&format!("{direction}MBps (Decimal)"), bytes as f64 / 1e6 / seconds);
        }
        row.real("Transactions per Second", all as f64 / seconds);
        row.real("Connections per Second", 0.0);
        let of = [("", &latencies), ("Read ", &self.reads.latencies), ("Write ", &self.writes.latencies)];
        for (direction, latencies) in of {
            row.real(&format!("Average {direction}Response Time"), mean(latencies) / 1e6);
            row.real(&format!("Maximum {direction}Response Time"), longest(latencies) as f64 / 1e6);
        }
        // Without replies, each I/O is a transaction.
        row.real("Average Transaction Time", mean(&latencies) / 1e6);
        row.real("Maximum Transaction Time", longest(&latencies) as f64 / 1e6);
        row.real("Average Connection Time", 0.0);
        row.real("Maximum Connection Time", 0.0);
        ["Errors", "Read Errors", "Write Errors", "Connections"].iter().for_each(|column| row.set(column, 0));
        row.set("Bytes Read", self.reads.bytes);
        row.set("Bytes Written", self.writes.bytes);
        row.set("Read I/Os", self.reads.ios);
        row.set("Write I/Os", self.writes.ios);
        row.set("Transactions per Connection", 1);
        let raw = [("Read Response", &self.reads.latencies), ("Write Response", &self.writes.latencies)];
        for (what, latencies) in raw.into_iter().chain([("Transaction", &latencies)]) {
            row.set(&format!("Total Raw {what} Time"), (mean(latencies) * latencies.count() as f64).round());
            row.set(&format!("Maximum Raw {what} Time"), longest(latencies));
        }
        row.set("Total Raw Connection Time", 0);
        row.set("Maximum Raw Connection Time", 0);
        row.set("Total Raw SliceCounts Time", self.elapsed.as_nanos());
        row.set("Processor Speed", TICKS);
        let first = row.0.len() - BINS.len() - 1;
        let mut before = 0;
        for (bin, end) in BINS.iter().enumerate() {
            let below = latencies.count_between(0, end - 1).min(all);
            row.0[first + bin] = below.saturating_sub(before).to_string();
            before = below;
        }
        row.0[first + BINS.len()] = "0".into();
    }
}

fn mean(latencies: &Latencies) -> f64 {
    if latencies.count() == 0 { 0.0 } else { latencies.mean() }
}

fn longest(latencies: &Latencies) -> u64 {
    if latencies.count() == 0 { 0 } else { latencies.max() }
}

/// Returns the value that all items share, or -1, which is how Iometer marks values that differ.
fn common<T: Display + PartialEq>(mut values: impl Iterator<Item = T>) -> String {
    let Some(first) = values.next() else { return String::new() };
    if values.all(|value| value == first) { first.to_string() } else { "-1".into() }
}

impl Config {
    /// Returns the measurements as Iometer's `results.csv`. The time is taken from `document`.
    ///
    /// # Errors
    /// As [`Config::workload`].
    pub fn results(&self, runs: &Runs, document: &Document) -> Result<String, String> {
        let time = time_stamp(&document.created);
        let mut out = format!(
            "'Test Type,Test Description\n{},{}\n'Version\n1.1.0 (platter {})\n'Time Stamp\n{time}\n",
            self.test as u32,
            self.description,
            env!("CARGO_PKG_VERSION")
        );
        let steps = self.steps()?;
        let mut rest = &runs.0[..];
        for step in &steps {
            // Results of further rounds are ignored; after an interruption, the remaining steps are missing.
            let Some((own, others)) = rest.split_at_checked(step.loads.len()) else { break };
            rest = others;
            let done: Vec<(&Load<'_>, &SliceCounts)> = step.loads.iter().zip(own).collect();
            write_specs(step, &mut out);
            let _ = writeln!(out, "'Results\n'{COLUMNS}");
            rows(&done).iter().for_each(|row| {
                let _ = writeln!(out, "{}", row.0.join(","));
            });
            let _ = writeln!(out, "'Time Stamp\n{time}");
        }
        out.push_str("'End Test\n");
        Ok(out)
    }
}

/// Formats a time as Iometer does: `2024-06-03 10:11:12:000`.
fn time_stamp(created: &str) -> String {
    format!("{}:000", created.get(..19).unwrap_or(created).replace('T', " "))
}

fn write_specs(step: &Step<'_>, out: &mut String) {
    let _ = writeln!(out, "'Access specifications");
    let mut seen: Vec<&str> = Vec::new();
    for load in &step.loads {
        let Spec { name, default, lines } = load.spec;
        if seen.contains(&name.as_str()) {
            continue;
        }
        seen.push(name);
        let number = ["NONE", "ALL", "DISK", "NET"].iter().position(|word| word == default).unwrap_or(0);
        let _ = writeln!(out, "'Access specification name,default assignment\n{name},{number}");
        let _ = writeln!(out, "'size,% of size,% reads,% random,delay,burst,align,reply");
        for line in lines {
            let _ = writeln!(
                out,
                "{},{},{},{},{},{},{},{},",
                line.size,
                line.percent,
                line.reads,
                line.random,
                line.delay,
                line.burst,
                line.align,
                line.reply
            );
        }
    }
    let _ = writeln!(out, "'End access specifications");
}

fn rows(done: &[(&Load<'_>, &SliceCounts)]) -> Vec<ResultRow> {
    let each =
        || done.iter().flat_map(|(load, run)| run.workers.iter().map(move |worker| (*run, worker, *load)));
    let workers = || done.iter().flat_map(|(load, _)| load.workers.iter().copied());
    let spec = common(done.iter().map(|(load, _)| load.spec.name.as_str()));
    let spec = if spec == "-1" { "Mixed".to_string() } else { spec };
    let processors = done.first().map_or(&[][..], |(_, run)| &run.processors);
    let mut managers: Vec<&str> = workers().map(|worker| worker.manager.as_str()).collect();
    managers.dedup();
    let mut disks: Vec<&str> = done.iter().map(|(load, _)| load.target).collect();
    disks.sort_unstable();
    disks.dedup();
    let mut rows = Vec::new();
    let mut all = ResultRow::new("ALL", "All");
    all.set("# Managers", managers.len());
    let mut manager = ResultRow::new(
        "MANAGER",
        managers.first().copied().filter(|name| !name.is_empty()).unwrap_or(&host()),
    );
    for row in [&mut all, &mut manager] {
        row.set("Access Specification Name", &spec);
        row.set("# Workers", distinct(workers()));
        row.set("# Disks", disks.len());
        Sum::of(each().map(|(run, worker, _)| (run, worker))).write(row);
        settings(row, workers(), done.iter().map(|(load, _)| load.depth));
        utilization(row, processors);
    }
    rows.push(all);
    rows.push(manager);
    for (number, processor) in processors.iter().enumerate() {
        let mut row = ResultRow::new("PROCESSOR", &format!("CPU {number}"));
        utilization(&mut row, std::slice::from_ref(processor));
        row.set("Processor Speed", TICKS);
        rows.push(row);
    }
    let mut seen: Vec<*const Worker> = Vec::new();
    for worker in workers() {
        if seen.contains(&std::ptr::from_ref(worker)) {
            continue;
        }
        seen.push(worker);
        // The worker's share of each load, one for each of its targets.
        let own = || {
            done.iter().flat_map(move |(load, run)| {
                let of = load.workers.iter().zip(&run.workers);
                of.filter(move |(other, _)| std::ptr::eq(**other, worker))
                    .map(move |(_, tally)| (*load, *run, tally))
            })
        };
        let mut row = ResultRow::new("WORKER", &worker.name);
        row.set("Access Specification Name", common(own().map(|(load, ..)| load.spec.name.as_str())));
        row.set("# Disks", own().count());
        Sum::of(own().map(|(_, run, tally)| (run, tally))).write(&mut row);
        settings(&mut row, std::iter::once(worker), own().map(|(load, ..)| load.depth));
        rows.push(row);
        for (load, run, tally) in own() {
            let mut row = ResultRow::new("DISK", load.target);
            Sum::of(std::iter::once((run, tally))).write(&mut row);
            settings(&mut row, std::iter::once(worker), std::iter::once(load.depth));
            rows.push(row);
        }
    }
    rows
}

fn distinct<'c>(workers: impl Iterator<Item = &'c Worker>) -> usize {
    let mut all: Vec<*const Worker> = workers.map(std::ptr::from_ref).collect();
    all.sort_unstable();
    all.dedup();
    all.len()
}

fn settings<'c>(
    row: &mut ResultRow,
    workers: impl Iterator<Item = &'c Worker> + Clone,
    depths: impl Iterator<Item = u32>,
) {
    row.set("Starting Sector", common(workers.clone().map(|worker| worker.start)));
    row.set("Maximum Size", common(workers.map(|worker| worker.sectors)));
    row.set("Queue Depth", common(depths));
}

fn utilization(row: &mut ResultRow, processors: &[ProcessorTime]) {
    let number = processors.len().max(1) as f64;
    let mean = |index: usize| processors.iter().map(|time| shares(time)[index]).sum::<f64>() / number;
    row.real("% CPU Utilization", 100.0 - mean(2));
    row.real("% User Time", mean(0));
    row.real("% Privileged Time", mean(1));
    row.real("% DPC Time", 0.0);
    row.real("% Interrupt Time", 0.0);
}
