//! The grids of the report: rows are cases, columns are targets. All views show these tables.

use super::published;
use super::uncertain::{self, percents};
use super::{Cell, Column, Table, Tone};
use crate::document::{Case, CaseResult, Document, Estimate, Traffic, Verdict};
use crate::format;
use crate::statistics::total;

/// The marks of a ratio above that of the raw device: one that the device's traffic explains, and one that nothing
/// explains.
const EXPLAINED: &str = "*";
const IMPLAUSIBLE: &str = "!";

/// The unit by which a workload is judged.
#[derive(Clone, Copy, PartialEq)]
enum Unit {
    /// Requests per second, where all blocks are small.
    Iops,
    /// 1,000,000 bytes per second.
    Megabytes,
    /// The time of a run of a program.
    Time,
}

impl Unit {
    fn of(document: &Document, workload: &str) -> Unit {
        let cases = document.cases(workload);
        match () {
            () if is_of_programs(&cases) => Unit::Time,
            () if cases.iter().all(|case| case.block_bytes <= 64 << 10) => Unit::Iops,
            () => Unit::Megabytes,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Unit::Iops => "IOPS",
            Unit::Megabytes => "MB/s",
            Unit::Time => "time",
        }
    }

    /// The figure of a result in this unit.
    fn figure(self, result: &CaseResult) -> String {
        match self {
            Unit::Iops => format::count(result.iops),
            Unit::Megabytes => format::figure(result.mb_per_s),
            Unit::Time => time(result).map_or_else(|| "–".into(), format::micros),
        }
    }
}

/// Whether the cases are programs.
pub(super) fn is_of_programs(cases: &[&Case]) -> bool {
    cases.iter().any(|case| case.program.is_some())
}

/// The time of a run of a program in microseconds, as the estimate has it; `None` for another load, or without a run.
fn time(result: &CaseResult) -> Option<f64> {
    (result.case.program.is_some() && result.iops > 0.0).then(|| 1e6 / result.iops)
}

/// The title of a workload.
pub(super) fn title<'a>(document: &'a Document, workload: &'a str) -> &'a str {
    document.workload(workload).map_or(workload, |settings| &settings.title)
}

/// The names of the targets, the base first.
fn base_first(document: &Document) -> Vec<&str> {
    let mut names: Vec<&str> = document.targets.iter().map(|target| target.name.as_str()).collect();
    names.sort_by_key(|name| *name != document.base());
    names
}

/// The grid of shares: every target in percent of the base, and the base itself in MB/s or IOPS.
pub(super) fn shares(document: &Document, workload: &str) -> Table {
    let unit = Unit::of(document, workload);
    let base = document.short(document.base());
    let names = base_first(document);
    let mut columns = vec![Column::words("Case")];
    for (index, name) in names.iter().enumerate() {
        let short = document.short(name);
        let title = if index == 0 { format!("{short} {}", unit.name()) } else { short.to_owned() };
        columns.push(Column::figures(title));
    }
    let row = |case: &&Case| {
        let mut row = vec![Cell::plain(case.label())];
        for name in &names {
            let cell = match document.find(name, case) {
                None => Cell::toned("–", Tone::Faint),
                Some(result) if *name == document.base() => Cell::plain(unit.figure(result)),
                Some(result) => match result.against(document.base()) {
                    Some(estimate) => share(estimate),
                    // Without a result of the base there is no ratio, so the rate itself is shown.
                    None => Cell::plain(format!("{} {}", unit.figure(result), unit.name())),
                },
            };
            row.push(cell);
        }
        row
    };
    let caption = match names.len() {
        1 => title(document, workload).to_owned(),
        _ if unit == Unit::Time => format!(
            "{}: speed in % of {base} (50 takes twice as long), with what chance may make of it",
            title(document, workload)
        ),
        _ => format!("{}: % of {base}, with what chance may make of it", title(document, workload)),
    };
    Table { caption, columns, rows: document.cases(workload).iter().map(row).collect() }
}

/// The cell of a ratio: `71 ±4` or `183 (102–325)`, percent of the base with its interval; a `?` before it where the
/// difference may be more than a tenth.
pub(super) fn share(estimate: &Estimate) -> Cell {
    let (Some(low), Some(high)) = (estimate.low, estimate.high) else {
        return Cell::toned(format!("? {}", percents(estimate.ratio)), Tone::Faint);
    };
    let mark = match &estimate.remark {
        Some(remark) if remark.ends_with("implausible") => IMPLAUSIBLE,
        Some(_) => EXPLAINED,
        None => "",
    };
    let text = uncertain::share(estimate.ratio, low, high) + mark;
    match estimate.verdict {
        Verdict::Slower => Cell::toned(text, Tone::Worse(strength(estimate.ratio))),
        Verdict::Faster => Cell::toned(text, Tone::Better(strength(1.0 / estimate.ratio))),
        Verdict::NoDifference => Cell::plain(text),
        Verdict::Unclear => Cell::toned(format!("? {text}"), Tone::Faint),
    }
}

/// The strength of a colour for a ratio below 1: 1 for a difference of less than a tenth, 2 for less than a third, 3
/// for more.
fn strength(ratio: f64) -> u8 {
    match ratio {
        ratio if ratio > 0.9 => 1,
        ratio if ratio > 2.0 / 3.0 => 2,
        _ => 3,
    }
}

/// The table of the report's pairs, with the ratios that others published for the same load.
pub(super) fn pairs(document: &Document, workload: &str) -> Option<Table> {
    let known = |pair: &&crate::document::Pair| {
        let mut results = document.results.iter().filter(|result| result.case.workload == workload);
        results.any(|result| result.target == pair.target && result.against(&pair.base).is_some())
    };
    let pairs: Vec<_> = document.pairs.iter().filter(known).collect();
    let cases = document.cases(workload);
    let mut columns = vec![Column::words("Case")];
    let mut rows: Vec<Vec<Cell>> = cases.iter().map(|case| vec![Cell::plain(case.label())]).collect();
    for pair in &pairs {
        let (target, base) = (document.short(&pair.target), document.short(&pair.base));
        columns.push(Column::figures(format!("{target} / {base}")));
        let published: Vec<String> =
            cases.iter().map(|case| published_cell(case, &pair.target, &pair.base)).collect();
        let is_published = published.iter().any(|text| !text.is_empty());
        if is_published {
            columns.push(Column::figures("published"));
        }
        for ((row, case), published) in rows.iter_mut().zip(&cases).zip(published) {
            let estimate = document.find(&pair.target, case).and_then(|result| result.against(&pair.base));
            row.push(estimate.map_or_else(Cell::default, share));
            if is_published {
                row.push(Cell::plain(published));
            }
        }
    }
    let caption = format!("{}: pairs, %, with what chance may make of it", title(document, workload));
    (!pairs.is_empty()).then_some(Table { caption, columns, rows })
}

/// A cell of published ratios in percent, each with the letter of its source: `73 a`.
fn published_cell(case: &Case, target: &str, base: &str) -> String {
    let ratios = published::ratios(case, target, base).into_iter();
    ratios
        .map(|(ratio, source)| format!("{} {}", percents(ratio), published::letter(source)))
        .collect::<Vec<_>>()
        .join(", ")
}

/// The sources of the published ratios in [`pairs`]: `a  NTFS 3.1 vs ReFS 3.9 (…), 2023-09-09`.
pub(super) fn published_sources(document: &Document) -> Vec<String> {
    let of = |source: &published::Source| {
        document.workloads().into_iter().flat_map(|workload| document.cases(workload)).any(|case| {
            document.pairs.iter().any(|pair| {
                let ratios = published::ratios(case, &pair.target, &pair.base);
                ratios.iter().any(|(_, other)| other.id == source.id)
            })
        })
    };
    let line = |source: &published::Source| {
        let date = source.date.as_ref().map(|date| format!(", {date}")).unwrap_or_default();
        format!("{}: {}{date}; {}", published::letter(source), source.title, source.hardware)
    };
    published::sources().iter().filter(|source| of(source)).map(line).collect()
}

/// Explains the marks that occur in this report, with the cases that they apply to.
pub(super) fn notes(document: &Document) -> Vec<String> {
    let mut notes = Vec::new();
    let all = || {
        document
            .results
            .iter()
            .flat_map(|result| result.estimates.iter().map(move |estimate| (result, estimate)))
    };
    let any = |verdict| all().any(|(_, estimate)| estimate.verdict == verdict);
    if any(Verdict::NoDifference) {
        notes.push("Plain figures could be chance: their intervals include 100.".into());
    }
    if any(Verdict::Unclear) {
        notes.push(
            "? is not measured well enough to tell: the difference may be anywhere in the interval.".into(),
        );
    }
    for (mark, implausible) in [(EXPLAINED, false), (IMPLAUSIBLE, true)] {
        let mut why: Vec<(String, Vec<String>)> = Vec::new();
        for (result, estimate) in all() {
            let Some(remark) = &estimate.remark else { continue };
            if remark.ends_with("implausible") == implausible {
                let what = format!("{} in {}", document.short(&result.target), result.case.label());
                match why.iter_mut().find(|(known, _)| known == remark) {
                    Some((_, cells)) => cells.push(what),
                    None => why.push((remark.clone(), vec![what])),
                }
            }
        }
        for (remark, cells) in why {
            notes.push(format!("{mark} {}: {remark}.", cells.join("; ")));
        }
    }
    notes
}

/// A figure for which the report has a grid of its own.
pub(super) struct Metric {
    /// The name of the figure.
    pub name: &'static str,
    /// Whether more or less is better.
    pub hint: &'static str,
    show: fn(&CaseResult) -> Option<String>,
}

/// The figures with a grid of their own, besides the shares.
pub(super) const METRICS: [Metric; 10] = [
    Metric {
        name: "Time",
        hint: "of a run, and of the shortest and the longest",
        show: |result| {
            let (us, latency) = (time(result)?, result.latency_us);
            let (least, most) = (latency.min.unwrap_or(us), latency.max);
            Some(format!("{} ({}–{})", format::micros(us), format::micros(least), format::micros(most)))
        },
    },
    Metric {
        name: "MB/s",
        hint: "more is better",
        show: |result| {
            (result.case.program.is_none() && result.mb_per_s > 0.0).then(|| format::figure(result.mb_per_s))
        },
    },
    Metric {
        name: "IOPS",
        hint: "more is better",
        show: |result| {
            (result.case.program.is_none() && result.iops > 0.0).then(|| format::count(result.iops))
        },
    },
    Metric {
        name: "Read from the device",
        hint: "for each run",
        show: |result| per_run(result, |device| device.read_bytes),
    },
    Metric {
        name: "Written to the device",
        hint: "for each run",
        show: |result| per_run(result, |device| device.write_bytes),
    },
    Metric {
        name: "CPU per run",
        hint: "of the program and what it started, without what serves the file system; less is better",
        show: |result| {
            (result.case.program.is_some() && result.cpu.us_per_io > 0.0)
                .then(|| format::micros(result.cpu.us_per_io))
        },
    },
    Metric {
        name: "p99 latency",
        hint: "with its 95 % interval, from the scatter between parts of the run; less is better",
        show: |result| {
            let latency = result.latency_us;
            latency.p99.map(|us| match latency.p99_interval {
                Some([low, high]) => {
                    format!("{} ({}–{})", format::micros(us), format::micros(low), format::micros(high))
                }
                None => format!("{} (?)", format::micros(us)),
            })
        },
    },
    Metric {
        name: "Sync p99",
        hint: "less is better",
        show: |result| result.sync_latency_us.and_then(|latency| latency.p99).map(format::micros),
    },
    Metric {
        name: "Bytes at the device",
        hint: "for each byte asked for",
        show: |result| result.amplification.map(|factor| format!("×{factor:.2}")),
    },
    Metric {
        name: "CPU per I/O",
        hint: "less is better",
        show: |result| {
            (result.case.program.is_none() && result.cpu.us_per_io > 0.0)
                .then(|| format!("{:.2} µs", result.cpu.us_per_io))
        },
    },
];

/// Bytes at the device for each run of a program.
fn per_run(result: &CaseResult, bytes: fn(&Traffic) -> u64) -> Option<String> {
    let runs = result.slices().count();
    if result.case.program.is_none() || runs == 0 {
        return None;
    }
    let all: Option<Vec<u64>> = result.runs.iter().map(|run| run.device.as_ref().map(bytes)).collect();
    Some(format::size(total(all?.into_iter()) / runs as u64))
}

/// The grid of one figure; `None` where no result has it.
pub(super) fn metric(document: &Document, workload: &str, metric: &Metric) -> Option<Table> {
    let names = base_first(document);
    let mut columns = vec![Column::words("Case")];
    columns.extend(names.iter().map(|name| Column::figures(document.short(name))));
    let mut any = false;
    let mut row = |case: &&Case| {
        let mut row = vec![Cell::plain(case.label())];
        for name in &names {
            let text = document.find(name, case).and_then(metric.show);
            any |= text.is_some();
            row.push(text.map_or_else(|| Cell::toned("–", Tone::Faint), Cell::plain));
        }
        row
    };
    let rows = document.cases(workload).iter().map(&mut row).collect();
    let caption = format!("{}: {}, {}", title(document, workload), metric.name, metric.hint);
    any.then_some(Table { caption, columns, rows })
}
