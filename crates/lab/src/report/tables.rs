//! The tables that every report shows.

use super::document::{CaseResult, Direction, Document, RAW, Relative};
use super::{Cell, Column, Table, Tone, format};
use crate::statistics::total;

/// Mark of a difference that the runs do not prove.
pub const NOISE_MARK: &str = "≈";

/// `−27.3 %`, or `≈ −1.2 %` where the difference is within the noise.
pub fn relative_cell(relative: Option<Relative>) -> Cell {
    let Some(relative) = relative else { return Cell::default() };
    let text = format::change(relative.ratio);
    if relative.within_noise {
        Cell::toned(format!("{NOISE_MARK} {text}"), Tone::Faint)
    } else if relative.ratio < 1.0 {
        Cell::toned(text, Tone::Worse)
    } else {
        Cell::toned(text, Tone::Better)
    }
}

/// Whether people judge a workload by IOPS: all its requests are small.
pub fn counts_iops(document: &Document, workload: &str) -> bool {
    document.cases(workload).iter().all(|case| case.block_bytes <= 64 << 10)
}

/// Throughput of each target, and each but the baseline relative to it. As many tables as it takes
/// to stay below `width` columns (`usize::MAX` for one).
pub fn throughput(document: &Document, workload: &str, width: usize) -> Vec<Table> {
    let by_iops = counts_iops(document, workload);
    let unit = if by_iops { "IOPS" } else { "MB/s" };
    let value = |result: &CaseResult| {
        if by_iops { format::count(result.iops) } else { format::figure(result.mb_per_s) }
    };
    let caption = format!(
        "{workload}: {unit}, median of the runs; relative to {}, median of the rounds",
        baseline_name(document)
    );
    chunks(document, width, |targets| {
        let baseline = targets.first().copied().unwrap_or_default();
        let mut columns = vec![Column::words("Case")];
        for (index, target) in targets.iter().enumerate() {
            columns.push(Column::figures(*target));
            if index > 0 {
                columns.push(Column::figures("Rel. %"));
            }
        }
        let rows = document.cases(workload).into_iter().map(|case| {
            let mut row = vec![Cell::plain(case.label())];
            for (index, target) in targets.iter().enumerate() {
                let result = document.find(target, case);
                row.push(Cell::plain(result.map_or_else(String::new, value)));
                if index > 0 {
                    let relative = result.and_then(|result| document.relative_to(result, baseline));
                    row.push(relative_cell(relative));
                }
            }
            row
        });
        Table { caption: caption.clone(), columns, rows: rows.collect() }
    })
}

/// Median and 99th percentile of the response time of each target.
pub fn latency(document: &Document, workload: &str, width: usize) -> Vec<Table> {
    chunks(document, width, |targets| {
        let mut columns = vec![Column::words("Case")];
        for target in targets {
            columns.push(Column::figures(format!("{target} p50")));
            columns.push(Column::figures("p99"));
        }
        let rows = document.cases(workload).into_iter().map(|case| {
            let mut row = vec![Cell::plain(case.label())];
            for target in targets {
                let result = document.find(target, case);
                let cell = |us: fn(&CaseResult) -> f64| {
                    Cell::plain(result.map_or_else(String::new, |r| format::micros(us(r))))
                };
                row.push(cell(|result| result.latency_us.p50));
                row.push(cell(|result| result.latency_us.p99));
            }
            row
        });
        Table { caption: format!("{workload}: response time"), columns, rows: rows.collect() }
    })
}

/// Processor time for each I/O, and what each target adds to the baseline's: what a file system itself costs.
pub fn cpu(document: &Document, workload: &str, width: usize) -> Vec<Table> {
    chunks(document, width, |targets| {
        let mut columns = vec![Column::words("Case")];
        for (index, target) in targets.iter().enumerate() {
            columns.push(Column::figures(*target));
            if index > 0 {
                columns.push(Column::figures("added"));
            }
        }
        let rows = document.cases(workload).into_iter().map(|case| {
            let mut row = vec![Cell::plain(case.label())];
            let of = |target: &str| document.find(target, case).map(|result| result.cpu.us_per_io);
            let baseline = targets.first().and_then(|target| of(target));
            for (index, target) in targets.iter().enumerate() {
                let spent = of(target);
                row.push(Cell::plain(spent.map_or_else(String::new, |us| format!("{us:.2}"))));
                if index > 0 {
                    let added = spent.zip(baseline).map(|(us, baseline)| us - baseline);
                    row.push(Cell::plain(added.map_or_else(String::new, |us| format!("{us:+.2}"))));
                }
            }
            row
        });
        Table { caption: format!("{workload}: CPU time for each I/O, µs"), columns, rows: rows.collect() }
    })
}

/// Every figure of every result of a workload.
pub fn every_figure(document: &Document, workload: &str) -> Table {
    let scored =
        document.results.iter().any(|result| result.case.workload == workload && result.score.is_some());
    let mut columns = vec![Column::words("Case"), Column::words("Target")];
    let titles = [
        "Rel. %",
        "MB/s",
        "min",
        "max",
        "MAD",
        "IOPS",
        "mean",
        "p50",
        "p90",
        "p95",
        "p99",
        "p99.9",
        "p99.99",
        "max",
        "CPU µs/I/O",
        "CPU %",
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
            let baseline = document.baseline().unwrap_or(RAW);
            let relative =
                if target.name == baseline { None } else { document.relative_to(result, baseline) };
            let spread = &result.spread.mb_per_s;
            let mut row = vec![Cell::plain(case.label()), Cell::plain(&target.name), relative_cell(relative)];
            row.extend(
                [result.mb_per_s, spread.min, spread.max, spread.mad]
                    .map(|value| Cell::plain(format::figure(value))),
            );
            row.push(Cell::plain(format::count(result.iops)));
            row.extend(result.latency_us.figures().map(|(_, us)| Cell::plain(format::micros(us))));
            row.push(Cell::plain(format!("{:.2}", result.cpu.us_per_io)));
            row.push(Cell::plain(format!("{:.0}", result.cpu.percent)));
            let stalled: f64 = result.runs.iter().map(|run| run.stalled_seconds).sum();
            let errors = total(result.runs.iter().flat_map(|run| [run.errors, run.corrupted_blocks]));
            let alarm =
                |bad: bool, text: String| Cell::toned(text, if bad { Tone::Worse } else { Tone::Faint });
            row.push(alarm(stalled > 0.0, format::duration(stalled)));
            row.push(alarm(errors > 0, errors.to_string()));
            if scored {
                let score = result.score.map_or_else(String::new, |score| format::figure(score.mb_per_s));
                row.push(Cell::plain(score));
            }
            rows.push(row);
        }
    }
    Table { caption: format!("{workload}: every figure"), columns, rows }
}

/// What the application asked for and what the storage saw, over all runs.
pub fn at_the_device(document: &Document, workload: &str) -> Option<Table> {
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
                    Cell::plain(&target.name),
                    Cell::plain(format!(
                        "{} × {}",
                        format::count(traffic.requests as f64),
                        format::size(case.block_bytes)
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
    (!rows.is_empty()).then(|| Table { caption: format!("{workload}: what the storage saw"), columns, rows })
}

/// One direction of the traffic of all runs of a result.
pub struct Sides {
    /// `read` or `write`.
    pub direction: &'static str,
    /// What the application asked for.
    pub requests: u64,
    /// Its bytes.
    pub requested_bytes: u64,
    /// What the device saw.
    pub transfers: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Transfers by size, ascending.
    pub sizes: Vec<(u64, u64)>,
    /// Share of sequential transfers, the mean over the runs.
    pub sequential_percent: f64,
}

impl Sides {
    /// The directions in which there was traffic; none where the device was not watched.
    pub fn of(result: &CaseResult) -> Vec<Sides> {
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
                    let requested = &run.requested;
                    let asked = (requested.reads, requested.read_bytes);
                    (
                        asked.0,
                        asked.1,
                        device.reads,
                        device.read_bytes,
                        &device.read_sizes,
                        device.sequential_read_percent,
                    )
                } else {
                    let requested = &run.requested;
                    let asked = (requested.writes, requested.write_bytes);
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

    /// Bytes at the device for each byte that was asked for.
    pub fn amplification(&self) -> f64 {
        if self.requested_bytes == 0 { 0.0 } else { self.bytes as f64 / self.requested_bytes as f64 }
    }

    /// Each size with its share of the transfers: `4 KiB 8 %, 16 KiB 77 %`.
    pub fn describe_sizes(&self) -> String {
        let total: f64 = self.sizes.iter().map(|&(_, count)| count as f64).sum();
        let each = self.sizes.iter().filter(|&&(_, count)| count > 0).map(|&(bytes, count)| {
            let share = count as f64 / total * 100.0;
            let share = if share < 1.0 { "< 1".into() } else { format!("{share:.0}") };
            format!("{} {share} %", format::size(bytes))
        });
        each.collect::<Vec<_>>().join(", ")
    }
}

/// The conditions: name and value.
pub fn conditions(document: &Document) -> Vec<(&'static str, String)> {
    let Document { environment, settings, .. } = document;
    let device = &environment.device;
    let mut what = vec![device.name.clone(), device.kind.clone(), format::size(device.size_bytes)];
    what.push(format!("{}/{} B sectors", device.logical_sector, device.physical_sector));
    what.extend(device.model.clone());
    what.extend(
        device.rotational.map(|rotational| if rotational { "rotating" } else { "not rotating" }.into()),
    );
    what.extend(device.host_file_system.as_ref().map(|name| format!("image on {name}")));
    let caches =
        if settings.direct { "caches of the host bypassed" } else { "through the caches of the host" };
    vec![
        ("Device", what.join(", ")),
        ("Processor", format!("{}, {} cores", environment.cpu, environment.cores)),
        ("Memory", format::size(environment.memory_bytes)),
        ("System", format!("{}, {}", environment.os, environment.kernel)),
        ("Version", format!("Platter {}", environment.platter_version)),
        ("Started", document.created.clone()),
        (
            "Runs",
            format!(
                "{} of each case, {} each after {} of ramp-up; preset {}",
                settings.repeats,
                format::duration(settings.seconds_per_run),
                format::duration(settings.ramp_up_seconds),
                settings.preset
            ),
        ),
        ("Durability", format!("{}; {caches}", settings.durability)),
        ("Span", format::size(settings.span_bytes)),
        ("Seed", settings.seed.to_string()),
        ("Command", document.command.clone()),
    ]
}

/// `raw`, or the target that stands in for it.
pub fn baseline_name(document: &Document) -> &str {
    document.baseline().unwrap_or(RAW)
}

/// Splits the targets so that each table, which the baseline opens, is at most `width` columns wide.
fn chunks(document: &Document, width: usize, build: impl Fn(&[&str]) -> Table) -> Vec<Table> {
    let baseline = baseline_name(document);
    let others: Vec<&str> =
        document.targets.iter().map(|target| target.name.as_str()).filter(|name| *name != baseline).collect();
    let with = |part: &[&str]| build(&[&[baseline], part].concat());
    let mut tables = Vec::new();
    let mut rest = others.as_slice();
    loop {
        // At least one other target per table, however wide it is.
        let fits = (1..=rest.len()).rev().find(|&count| with(&rest[..count]).width() <= width);
        let (part, after) = rest.split_at(fits.unwrap_or(1).min(rest.len()));
        tables.push(with(part));
        if after.is_empty() {
            return tables;
        }
        rest = after;
    }
}
