//! The detailed tables that accompany the grids, and the conditions of the comparison.

use super::{Cell, Column, Table, Tone, grid};
use crate::document::{
    CaseResult, DeviceInfo, Direction, Document, Environment, Preconditioning, ProgramSettings,
};
use crate::format;
use crate::stand::NO_DEVICE;
use crate::statistics::total;
use std::fmt::Write;

/// The table of all figures of all results of a workload.
pub(super) fn every_figure(document: &Document, workload: &str) -> Table {
    let scored =
        document.results.iter().any(|result| result.case.workload == workload && result.score.is_some());
    let mut columns = vec![Column::words("Case"), Column::words("Target")];
    let titles = [
        "% of base",
        "MB/s",
        "IOPS",
        "mean",
        "p50",
        "p90",
        "p95",
        "p99",
        "p99.9",
        "p99.99",
        "max",
        "Sync p50",
        "Sync p99",
        "CPU µs/I/O",
        "CPU %",
        "Bytes at the device",
        "Slices",
        "Stalled",
        "Errors",
    ];
    columns.extend(titles.map(Column::figures));
    if scored {
        columns.push(Column::figures("Best loop MB/s"));
    }
    let mut rows = Vec::new();
    for case in document.cases(workload) {
        for target in &document.targets {
            let Some(result) = document.find(&target.name, case) else { continue };
            let mut row = vec![
                Cell::plain(case.label()),
                Cell::plain(&target.short),
                result.against(document.base()).map_or_else(Cell::default, grid::share),
                Cell::plain(format::figure(result.mb_per_s)),
                Cell::plain(match case.program {
                    Some(_) => format::figure(result.iops),
                    None => format::count(result.iops),
                }),
            ];
            let micros = |us: Option<f64>| Cell::plain(us.map_or_else(String::new, format::micros));
            row.extend(result.latency_us.figures().map(|(_, us)| micros(us)));
            row.push(micros(result.sync_latency_us.map(|latency| latency.p50)));
            row.push(micros(result.sync_latency_us.and_then(|latency| latency.p99)));
            row.push(Cell::plain(format!("{:.2}", result.cpu.us_per_io)));
            row.push(Cell::plain(format!("{:.0}", result.cpu.percent)));
            let amplification =
                result.amplification.map_or_else(String::new, |factor| format!("×{factor:.2}"));
            row.push(Cell::plain(amplification));
            row.push(Cell::plain(result.slices().count().to_string()));
            let stalled: f64 = result.runs.iter().map(|run| run.stalled_seconds).sum();
            let errors = total(result.runs.iter().flat_map(|run| [run.errors, run.corrupted_blocks]));
            let alarm =
                |bad: bool, text: String| Cell::toned(text, if bad { Tone::Worse(3) } else { Tone::Faint });
            row.push(alarm(stalled > 0.0, format::duration(stalled)));
            row.push(alarm(errors > 0, errors.to_string()));
            if scored {
                let score = result.score.map_or_else(String::new, |score| format::figure(score.mb_per_s));
                row.push(Cell::plain(score));
            }
            rows.push(row);
        }
    }
    Table { caption: format!("{}: every figure", grid::title(document, workload)), columns, rows }
}

/// The table of the requests of the application and the transfers of the device, summed over all runs.
pub(super) fn at_the_device(document: &Document, workload: &str) -> Option<Table> {
    if grid::is_of_programs(&document.cases(workload)) {
        return below_programs(document, workload);
    }
    let mut rows = Vec::new();
    for case in document.cases(workload) {
        for target in &document.targets {
            let Some(result) = document.find(&target.name, case) else { continue };
            for traffic in Sides::of(result) {
                rows.push(vec![
                    Cell::plain(match case.direction {
                        Direction::Mix => format!("{}, {}s", case.label(), traffic.direction),
                        _ => case.label(),
                    }),
                    Cell::plain(&target.short),
                    Cell::plain(format!(
                        "{} × {}",
                        format::count(traffic.requests as f64),
                        case.block_words()
                    )),
                    Cell::plain(traffic.describe_sizes()),
                    Cell::plain(format!("{:.2}", traffic.amplification())),
                    Cell::plain(format!("{:.0} %", traffic.sequential_percent)),
                ]);
            }
        }
    }
    let columns = vec![
        Column::words("Case"),
        Column::words("Target"),
        Column::figures("Asked"),
        Column::words("At the device, by size"),
        Column::figures("Bytes × "),
        Column::figures("Sequential"),
    ];
    (!rows.is_empty()).then(|| Table {
        caption: format!("{}: what the storage saw", grid::title(document, workload)),
        columns,
        rows,
    })
}

/// The table of the transfers of the device for each run of a program.
fn below_programs(document: &Document, workload: &str) -> Option<Table> {
    let mut rows = Vec::new();
    for case in document.cases(workload) {
        for target in &document.targets {
            let Some(result) = document.find(&target.name, case) else { continue };
            let runs = result.slices().count().max(1) as f64;
            let Some(seen) = result.runs.iter().find_map(|run| run.device.as_ref()) else { continue };
            let each = |count: u64| Cell::plain(format::figure(count as f64 / runs));
            let bytes = |bytes: u64| Cell::plain(format::size((bytes as f64 / runs) as u64));
            rows.push(vec![
                Cell::plain(case.label()),
                Cell::plain(&target.short),
                each(seen.reads),
                bytes(seen.read_bytes),
                each(seen.writes),
                bytes(seen.write_bytes),
                each(seen.flushes),
            ]);
        }
    }
    let mut columns = vec![Column::words("Case"), Column::words("Target")];
    columns.extend(["Reads", "Bytes read", "Writes", "Bytes written", "Flushes"].map(Column::figures));
    let caption = format!(
        "{}: what the storage saw in each run, with what was written back after it",
        grid::title(document, workload)
    );
    (!rows.is_empty()).then_some(Table { caption, columns, rows })
}

/// The requests and transfers in one direction, summed over all runs of a result.
pub(super) struct Sides {
    /// `read` or `write`.
    pub direction: &'static str,
    /// The number of requests of the application.
    pub requests: u64,
    /// The bytes of these requests, and of those of all cases that ran at the same time.
    pub requested_bytes: u64,
    /// The number of transfers of the device, for all cases that ran at the same time.
    pub transfers: u64,
    /// The bytes of these transfers.
    pub bytes: u64,
    /// The number of transfers by size in bytes, ascending.
    pub sizes: Vec<(u64, u64)>,
    /// Share of sequential transfers in percent, averaged over the runs.
    pub sequential_percent: f64,
}

impl Sides {
    /// The directions in which there was traffic; none where the device's traffic was not observed.
    pub(super) fn of(result: &CaseResult) -> Vec<Sides> {
        let mut sides = Vec::new();
        for reads in [true, false] {
            let mut side = Sides {
                direction: if reads { "read" } else { "write" },
                requests: 0,
                requested_bytes: 0,
                transfers: 0,
                bytes: 0,
                sizes: Vec::new(),
                sequential_percent: 0.0,
            };
            let mut by_size = std::collections::BTreeMap::<u64, u64>::new();
            let mut watched = 0.0;
            for run in &result.runs {
                let Some(device) = &run.device else { continue };
                watched += 1.0;
                let (requests, requested, transfers, bytes, sizes, sequential) = if reads {
                    let asked = (run.requested.reads, run.requested_of_device().read_bytes);
                    (
                        asked.0,
                        asked.1,
                        device.reads,
                        device.read_bytes,
                        &device.read_sizes,
                        device.sequential_read_percent,
                    )
                } else {
                    let asked = (run.requested.writes, run.requested_of_device().write_bytes);
                    let sizes = &device.write_sizes;
                    (
                        asked.0,
                        asked.1,
                        device.writes,
                        device.write_bytes,
                        sizes,
                        device.sequential_write_percent,
                    )
                };
                side.requests = side.requests.saturating_add(requests);
                side.requested_bytes = side.requested_bytes.saturating_add(requested);
                side.transfers = side.transfers.saturating_add(transfers);
                side.bytes = side.bytes.saturating_add(bytes);
                side.sequential_percent += sequential;
                for size in sizes {
                    let count = by_size.entry(size.bytes).or_default();
                    *count = count.saturating_add(size.count);
                }
            }
            if side.requests > 0 || side.transfers > 0 {
                side.sequential_percent /= watched;
                side.sizes = by_size.into_iter().collect();
                sides.push(side);
            }
        }
        sides
    }

    /// Bytes transferred by the device for each byte that was requested.
    pub(super) fn amplification(&self) -> f64 {
        if self.requested_bytes == 0 { 0.0 } else { self.bytes as f64 / self.requested_bytes as f64 }
    }

    /// Lists the sizes with their shares of all transfers: `4 KiB 8 %, 16 KiB 77 %`.
    pub(super) fn describe_sizes(&self) -> String {
        let total: f64 = self.sizes.iter().map(|&(_, count)| count as f64).sum();
        let each = self.sizes.iter().filter(|&&(_, count)| count > 0).map(|&(bytes, count)| {
            let share = count as f64 / total * 100.0;
            let share = if share < 1.0 { "< 1".into() } else { format!("{share:.0}") };
            format!("{} {share} %", format::size(bytes))
        });
        each.collect::<Vec<_>>().join(", ")
    }
}

/// The most important conditions in one line: device, span, seconds, slices.
pub(super) fn in_a_line(document: &Document) -> String {
    let Document { environment, settings, .. } = document;
    let device = &environment.device;
    let mut what = device.model.clone().unwrap_or_else(|| device.name.clone());
    if let Some(system) = &device.host_file_system {
        what = format!("{what} on {system}");
    }
    if let Some(programs) = &settings.programs {
        let counts = document.results.iter().map(|result| result.slices().count() as u64);
        let (least, most) = (counts.clone().min().unwrap_or(0), counts.max().unwrap_or(0));
        let runs = if least == most { counted(least, "run") } else { format!("{least} to {most} runs") };
        let caches = if programs.cold { "cold caches" } else { "warm caches" };
        return format!("{what} · {runs} of each program on each target · {caches}");
    }
    let mut spans: Vec<String> =
        settings.workloads.iter().map(|workload| format::size(workload.span_bytes)).collect();
    spans.dedup();
    let mut seconds: Vec<String> = settings
        .workloads
        .iter()
        .filter(|workload| workload.seconds > 0.0)
        .map(|workload| format::duration(workload.seconds * f64::from(settings.rounds)))
        .collect();
    seconds.dedup();
    let seconds = if seconds.is_empty() { "by count".into() } else { seconds.join(" or ") };
    let slices: Vec<usize> =
        document.results.iter().map(|result| result.slices().count()).filter(|count| *count > 0).collect();
    let slices = match (slices.iter().min(), slices.iter().max()) {
        (Some(least), Some(most)) if least == most => format!(" in {}", counted(*most as u64, "slice")),
        (Some(least), Some(most)) => format!(" in {least} to {most} slices"),
        _ => String::new(),
    };
    format!("{what} · span {} · {seconds} a case and target{slices}", spans.join(" or "))
}

fn counted(count: u64, noun: &str) -> String {
    format!("{count} {}", crate::statistics::plural(count, noun))
}

/// How programs were run, in words.
fn of_programs(programs: &ProgramSettings, room: u64) -> String {
    let mut parts = vec![format!("programs through the shell, room for {} each", format::size(room))];
    parts.push(match programs.durable {
        true => "a run ends when what it wrote is durable".into(),
        false => "a run ends when the program does; what it wrote is written back after it".into(),
    });
    parts.extend(programs.setup.iter().map(|command| format!("once on each target: {command}")));
    parts.extend(programs.prepare.iter().map(|command| format!("before each run: {command}")));
    parts.extend(programs.conclude.iter().map(|command| format!("after each run: {command}")));
    parts.join(", ")
}

/// What is known of the device.
fn device(device: &DeviceInfo) -> String {
    let mut what = vec![device.name.clone()];
    if device.kind != NO_DEVICE {
        what.extend([device.kind.clone(), format::size(device.size_bytes)]);
        what.push(format!("{}/{} B sectors", device.logical_sector, device.physical_sector));
    }
    what.extend(device.model.clone());
    what.extend(
        device.rotational.map(|rotational| if rotational { "rotating" } else { "not rotating" }.into()),
    );
    what.extend(device.host_file_system.as_ref().map(|name| format!("image on {name}")));
    what.extend(device.host_ways.clone());
    what.extend(device.in_memory.as_ref().map(|memory| format!("in memory: {memory}")));
    what.extend(device.write_cache.as_ref().map(|cache| format!("write cache: {cache}")));
    what.join(", ")
}

/// The processors, and how much of them the program had.
fn processors(environment: &Environment) -> String {
    let mut text = format!("{}, {}", environment.cpu, counted(environment.cores.into(), "core"));
    if let Some(quota) = environment.cpu_quota {
        let _ = write!(text, ", a quota of {quota:.2} of them for this control group");
    }
    if let Some(periods) = environment.throttled_periods.filter(|periods| *periods > 0) {
        let _ = write!(text, ", which stopped the program in {}", counted(periods, "period"));
    }
    if let Some(governor) = &environment.governor {
        let _ = write!(text, ", governor {governor}");
    }
    if let Some(plan) = &environment.power_plan {
        let _ = write!(text, ", power plan: {plan}");
    }
    text
}

/// The system, and what of it looks at files.
fn system(environment: &Environment) -> String {
    let mut text = format!("{}, {}", environment.os, environment.kernel);
    if let Some(protection) = &environment.real_time_protection {
        let _ = write!(text, ", Defender's real-time protection: {protection}");
    }
    text
}

/// How the device was written before anything was measured.
fn preconditioned(done: &Preconditioning) -> String {
    let rates: Vec<String> = done.rounds_mb_per_s.iter().map(|rate| format::figure(*rate)).collect();
    format!(
        "{} filled, then random writes of 4 KiB in rounds of {}, {}: {} MB/s",
        format::size(done.filled_bytes),
        format::duration(done.round_seconds),
        if done.is_steady { "until steady" } else { "which did not become steady" },
        rates.join(", ")
    )
}

/// The conditions of the comparison: names and values.
pub(super) fn conditions(document: &Document) -> Vec<(&'static str, String)> {
    let Document { environment, settings, .. } = document;
    let memory = format::size(environment.memory_bytes);
    let memory = match environment.memory_limit_bytes {
        Some(limit) => format!("{memory}, limited to {} for this control group", format::size(limit)),
        None => memory,
    };
    let load = match environment.other_load {
        Some(processors) if processors >= 0.15 => format!("{processors:.1} processors"),
        Some(_) => "less than 0.15 processors".into(),
        None => "not recorded".into(),
    };
    let discarded = match settings.discarded {
        Some(true) => "each region, before its target was made",
        Some(false) => "nothing",
        None => "not recorded",
    };
    let caches = if let Some(programs) = &settings.programs {
        programs.caches.as_str()
    } else if settings.direct {
        "caches of the host bypassed"
    } else {
        "through the caches of the host"
    };
    let places = match settings.own_regions {
        true => "each target in a region of its own, slices in turns",
        false => "the same region made anew for each target in turn",
    };
    let loads = settings.workloads.iter().map(|workload| {
        if let Some(programs) = &settings.programs {
            return of_programs(programs, workload.span_bytes);
        }
        let seconds = match workload.seconds {
            seconds if seconds > 0.0 => format!("{} a case", format::duration(seconds)),
            _ => "cases end by count".into(),
        };
        format!(
            "{}: span {}, {seconds}, writes {}",
            workload.name,
            format::size(workload.span_bytes),
            workload.durability
        )
    });
    let until = settings
        .until_percent
        .map(|percent| format!("measured until differences of {percent} % would be told"));
    vec![
        ("Device", device(&environment.device)),
        ("Processor", processors(environment)),
        ("Memory", memory),
        ("Load beside", load),
        ("I/O", environment.io.clone().unwrap_or_else(|| "not recorded".into())),
        ("Discarded", discarded.into()),
        ("Preconditioned", settings.preconditioning.as_ref().map_or_else(|| "no".into(), preconditioned)),
        ("System", system(environment)),
        ("Version", format!("Platter {}", environment.platter_version)),
        ("Started", document.created.clone()),
        (
            "Turns",
            format!("{}; preset {}; {places}", counted(settings.rounds.into(), "round"), settings.preset),
        ),
        ("Loads", loads.chain(until).collect::<Vec<_>>().join("; ")),
        ("Caches", caches.into()),
        ("Told", "differences of which at most one in twenty is expected to be chance".into()),
        ("Seed", settings.seed.to_string()),
        ("Command", document.command.clone()),
    ]
}
