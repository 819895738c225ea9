//! The charts of a case: response times, their distribution, the timeline, the traffic of the device.

use super::super::tables::Sides;
use super::super::{Cell, Column, Table, grid};
use super::plot::{Band, Plot, Point, Series, Tick, linear_ticks, log_ticks};
use super::{colour, ordered};
use crate::document::{Case, CaseResult, Document, Latency, Round, Second};
use crate::format;
use crate::report::table::escape;
use std::fmt::Write;

/// The greatest number of points of a line; of a longer timeline, several intervals are joined into one point.
pub(crate) const POINTS: usize = 240;

/// The number of shades for transfer sizes.
const SHADES: usize = 6;

// A shade is of several points.
const _: () = assert!(POINTS > SHADES);

/// The cases of a workload, each folded except those with stalls.
pub(crate) fn cases(document: &Document, workload: &str) -> String {
    let mut html = String::new();
    for case in ordered(document.cases(workload)) {
        let results: Vec<&CaseResult> =
            document.targets.iter().filter_map(|target| document.find(&target.name, case)).collect();
        let stalled = results.iter().any(|result| result.runs.iter().any(|run| run.stalled_seconds > 0.0));
        let open = if stalled { " open" } else { "" };
        let _ = write!(
            html,
            "<details class=case{open}><summary><b>{}</b> <span>{}</span></summary><div class=figures>{}{}{}{}</div></details>",
            escape(&case.label()),
            escape(&summary(document, &results)),
            latency(document, case, &results),
            distribution(document, case, &results),
            timeline(document, case, &results),
            at_the_device(document, case, &results),
        );
    }
    html
}

/// The shares of all targets in a line: `fat32 94 ±2 · dir:ext4 99 ±3`.
fn summary(document: &Document, results: &[&CaseResult]) -> String {
    let each = results.iter().filter_map(|result| {
        let estimate = result.against(document.base())?;
        Some(format!("{} {}", document.short(&result.target), grid::share(estimate).text))
    });
    each.collect::<Vec<_>>().join(" · ")
}

/// A chart with its title, its key and a table of its figures.
pub(crate) fn figure(
    title: &str,
    note: &str,
    key: &str,
    chart: &str,
    table: Option<Table>,
    wide: bool,
) -> String {
    let wide = if wide { " class=wide" } else { "" };
    let note = if note.is_empty() { String::new() } else { format!("<p class=note>{}</p>", escape(note)) };
    let table = table.map_or_else(String::new, |table| {
        format!("<details class=data><summary>Figures</summary>{}</details>", table.html())
    });
    format!("<figure{wide}><figcaption>{}</figcaption>{note}{key}{chart}{table}</figure>", escape(title))
}

/// The key of a chart: the colour and stroke of each target.
fn key<'a>(document: &Document, targets: impl Iterator<Item = &'a str>) -> String {
    strokes(targets.map(|target| (colour(document, target), target)))
}

/// The key of a chart from the class and the name of each line.
pub(crate) fn strokes<'a>(lines: impl Iterator<Item = (String, &'a str)>) -> String {
    let mut html = String::from("<ul class=key>");
    for (class, name) in lines {
        let _ = write!(
            html,
            "<li><svg viewBox=\"0 0 24 8\" width=24 height=8 aria-hidden=true><path class=\"line {class}\" d=\"M1 4H23\"/></svg>{}</li>",
            escape(name)
        );
    }
    html + "</ul>"
}

fn latency(document: &Document, case: &Case, results: &[&CaseResult]) -> String {
    // The mean is not a percentile and would bend the curve; it is only in the table.
    let percentiles = |latency: &Latency| latency.figures().into_iter().skip(1).collect::<Vec<_>>();
    let all: Vec<f64> =
        results.iter().flat_map(|result| percentiles(&result.latency_us)).filter_map(|(_, us)| us).collect();
    let low = all.iter().copied().filter(|us| *us > 0.0).fold(f64::INFINITY, f64::min);
    let high = all.iter().copied().fold(0.0, f64::max);
    if high <= 0.0 {
        return String::new();
    }
    let (from, to, y) = log_ticks(low, high, power_of_ten);
    let names = percentiles(&Latency::default());
    let last = (names.len() - 1) as f64;
    let across = |index: usize| 0.03 + 0.94 * index as f64 / last;
    let x =
        names.iter().enumerate().map(|(index, (name, _))| Tick { at: across(index), label: (*name).into() });
    let series: Vec<Series> = results
        .iter()
        .map(|result| Series {
            class: colour(document, &result.target),
            name: result.target.clone(),
            points: percentiles(&result.latency_us)
                .into_iter()
                .enumerate()
                .filter_map(|(index, (name, us))| Some((index, name, us?)))
                .map(|(index, name, us)| Point {
                    x: across(index),
                    y: ((us.max(1e-3).log10() - from) / (to - from)).clamp(0.0, 1.0),
                    title: format!("{} {name}: {}", result.target, format::micros(us)),
                })
                .collect(),
        })
        .collect();
    let mut plot = Plot::new(format!("Response time by percentile, {}", case.label()), x.collect(), y);
    plot.lines(&series, true);
    let mut columns = vec![Column::words("Target")];
    columns.extend(Latency::default().figures().map(|(name, _)| Column::figures(name)));
    let row = |result: &&CaseResult| {
        let mut row = vec![Cell::plain(&result.target)];
        row.extend(
            result
                .latency_us
                .figures()
                .map(|(_, us)| Cell::plain(us.map_or_else(String::new, format::micros))),
        );
        row
    };
    let table = Table {
        caption: format!("Response time of {}, all slices", whole_name(case)),
        columns,
        rows: results.iter().map(row).collect(),
    };
    let key = key(document, results.iter().map(|result| result.target.as_str()));
    figure(
        "Response time by percentile",
        "Logarithmic; less is better.",
        &key,
        &plot.html(),
        Some(table),
        false,
    )
}

/// A case by a name that no other case of the page has.
fn whole_name(case: &Case) -> String {
    format!("{}, {}", case.workload, case.label())
}

fn distribution(document: &Document, case: &Case, results: &[&CaseResult]) -> String {
    let edges = &document.response_time_bins_us;
    // For each bin, its share of all requests of a target's runs.
    let shares = |result: &CaseResult| -> Option<Vec<f64>> {
        let mut sums = vec![0.0; edges.len()];
        for run in &result.runs {
            for (sum, count) in sums.iter_mut().zip(&run.response_times) {
                *sum += *count as f64;
            }
        }
        let total: f64 = sums.iter().sum();
        (total > 0.0).then(|| sums.iter().map(|sum| sum / total).collect())
    };
    let all: Vec<(&str, Vec<f64>)> =
        results.iter().filter_map(|result| Some((result.target.as_str(), shares(result)?))).collect();
    // Empty bins at both ends are left out, to make the others wider.
    let seen: Vec<usize> =
        (0..edges.len()).filter(|&bin| all.iter().any(|(_, shares)| shares[bin] >= 0.0005)).collect();
    let (Some(&first), Some(&last)) = (seen.first(), seen.last()) else { return String::new() };
    let bins = (last - first + 1) as f64;
    let highest = all.iter().flat_map(|(_, shares)| shares).copied().fold(0.0, f64::max);
    let (top, y) = linear_ticks(highest * 100.0, |percent| format!("{percent} %"));
    let x = (first..=last)
        .map(|bin| Tick { at: ((bin - first) as f64 + 0.5) / bins, label: bin_name(edges, bin, true) });
    let mut plot = Plot::new(format!("Distribution of response times, {}", case.label()), x.collect(), y);
    let width = 0.84 / bins / all.len() as f64;
    for bin in first..=last {
        for (index, (target, shares)) in all.iter().enumerate() {
            if shares[bin] > 0.0 {
                let left = ((bin - first) as f64 + 0.08) / bins + width * index as f64;
                let percent = shares[bin] * 100.0;
                let title = format!("{target}, {}: {percent:.2} %", bin_name(edges, bin, false));
                plot.column(&colour(document, target), left, width * 0.92, percent / top, &title);
            }
        }
    }
    let mut columns = vec![Column::words("Response time")];
    columns.extend(all.iter().map(|(target, _)| Column::figures(*target)));
    let row = |bin: usize| {
        let mut row = vec![Cell::plain(bin_name(edges, bin, false))];
        row.extend(all.iter().map(|(_, shares)| Cell::plain(format!("{:.2} %", shares[bin] * 100.0))));
        row
    };
    let table = Table {
        caption: format!("Share of requests of {}, all runs", whole_name(case)),
        columns,
        rows: (first..=last).map(row).collect(),
    };
    let key = key(document, all.iter().map(|(target, _)| *target));
    figure(
        "Distribution of response times",
        "Share of requests in Iometer's bins.",
        &key,
        &plot.html(),
        Some(table),
        false,
    )
}

/// The name of a bin: `50–100 µs`; if `short`, only its upper edge: `≤ 100 µs`.
fn bin_name(edges: &[u64], bin: usize, short: bool) -> String {
    let edge = |us: u64| match us {
        us if us < 500 => (us as f64, "µs"),
        us if us < 500_000 => (us as f64 / 1e3, "ms"),
        us => (us as f64 / 1e6, "s"),
    };
    let (from, from_unit) = edge(edges[bin]);
    match edges.get(bin + 1) {
        None => format!("> {from} {from_unit}"),
        Some(&to) => {
            let (to, unit) = edge(to);
            match short {
                true => format!("≤ {to} {unit}"),
                false if unit == from_unit || from == 0.0 => format!("{from}–{to} {unit}"),
                false => format!("{from} {from_unit} – {to} {unit}"),
            }
        }
    }
}

/// The run that is shown as typical: the one whose throughput is nearest to the result's.
fn typical(result: &CaseResult) -> Option<&Round> {
    let distance = |run: &&Round| (run.mb_per_s - result.mb_per_s).abs();
    result.runs.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)))
}

fn timeline(document: &Document, case: &Case, results: &[&CaseResult]) -> String {
    let runs: Vec<(&str, &Round)> = results
        .iter()
        .filter_map(|result| Some((result.target.as_str(), typical(result)?)))
        .filter(|(_, run)| run.timeline.len() > 1)
        .collect();
    let end = runs.iter().map(|(_, run)| length(&run.timeline)).fold(0.0, f64::max);
    if runs.is_empty() || end <= 0.0 {
        return String::new();
    }
    let highest =
        runs.iter().flat_map(|(_, run)| &run.timeline).map(|second| second.iops).fold(0.0, f64::max);
    let (top, y) = linear_ticks(highest, short_count);
    let series: Vec<Series> = runs
        .iter()
        .map(|(target, run)| {
            let points = thinned(&run.timeline).into_iter().map(|(second, iops)| Point {
                x: second / end,
                y: iops / top,
                title: String::new(),
            });
            Series { class: colour(document, target), name: (*target).into(), points: points.collect() }
        })
        .collect();
    let bands: Vec<Band> = runs.iter().flat_map(|(target, run)| stalls(document, target, run, end)).collect();
    let time = || time_ticks(end);
    let mut plot = Plot::new(format!("IOPS over time, {}", case.label()), time(), y);
    plot.bands(&bands);
    plot.lines(&series, false);
    let mut chart = plot.html();
    let stalled: Vec<String> = runs
        .iter()
        .filter(|(_, run)| run.stalled_seconds > 0.0)
        .map(|(target, run)| format!("{target} stalled for {}", format::duration(run.stalled_seconds)))
        .collect();
    if !stalled.is_empty() {
        let _ = write!(
            chart,
            "<p class=stall>{} (marked: no request completed).</p>",
            escape(&stalled.join("; "))
        );
    }
    chart.push_str(&free_space(document, &runs, end, time()));
    let table = timeline_table(case, &runs, end);
    let key = key(document, runs.iter().map(|(target, _)| *target));
    let note = "IOPS over measured seconds, of the round nearest to the estimate; what other targets did between slices is left out.";
    figure("Timeline", note, &key, &chart, Some(table), true)
}

/// The change of free space since the start, for targets where it changed.
fn free_space(document: &Document, runs: &[(&str, &Round)], end: f64, x: Vec<Tick>) -> String {
    let changes: Vec<(&str, Vec<(f64, f64)>)> = runs
        .iter()
        .filter_map(|(target, run)| {
            let known: Vec<(f64, f64)> = run
                .timeline
                .iter()
                .filter_map(|second| Some((second.second, second.free_bytes? as f64)))
                .collect();
            let start = known.first()?.1;
            Some((*target, known.into_iter().map(|(second, free)| (second, free - start)).collect()))
        })
        .collect();
    let all = || changes.iter().flat_map(|(_, points)| points).map(|(_, change)| *change);
    let (low, high) = (all().fold(0.0, f64::min), all().fold(0.0, f64::max));
    if changes.is_empty() {
        return String::new();
    }
    if low == high {
        return "<p class=note>Free space did not change.</p>".into();
    }
    let series: Vec<Series> = changes
        .into_iter()
        .map(|(target, points)| {
            let step = points.len().div_ceil(POINTS);
            let points = points.into_iter().step_by(step).map(|(second, change)| Point {
                x: second / end,
                y: (change - low) / (high - low),
                title: String::new(),
            });
            Series { class: colour(document, target), name: target.into(), points: points.collect() }
        })
        .collect();
    let tick = |change: f64| {
        let sign = if change < 0.0 { "−" } else { "" };
        Tick { at: (change - low) / (high - low), label: format!("{sign}{}", format::volume(change.abs())) }
    };
    let mut y = vec![tick(low), tick(high)];
    if low < 0.0 && high > 0.0 {
        y.push(tick(0.0));
    }
    let mut plot = Plot::new("Change of free space over time".into(), x, y);
    plot.low = true;
    plot.lines(&series, false);
    format!("<p class=note>Free space, change since the start</p>{}", plot.html())
}

/// The length of a timeline in seconds; the last interval is taken to be as long as the one before it.
fn length(timeline: &[Second]) -> f64 {
    match timeline {
        [.., before, last] => last.second + (last.second - before.second),
        _ => 0.0,
    }
}

/// Joins intervals so that at most [`POINTS`] remain: for each, its beginning in seconds, and the mean of the IOPS.
fn thinned(timeline: &[Second]) -> Vec<(f64, f64)> {
    let step = timeline.len().div_ceil(POINTS).max(1);
    let point = |part: &[Second]| {
        let mean = part.iter().map(|second| second.iops).sum::<f64>() / part.len() as f64;
        (part.first().map_or(0.0, |second| second.second), mean)
    };
    timeline.chunks(step).map(point).collect()
}

/// The stretches of the timeline in which no request completed.
fn stalls(document: &Document, target: &str, run: &Round, end: f64) -> Vec<Band> {
    let interval = length(&run.timeline) / run.timeline.len() as f64;
    let mut bands: Vec<Band> = Vec::new();
    for second in run.timeline.iter().filter(|second| second.iops <= 0.0) {
        let (from, to) = (second.second / end, (second.second + interval) / end);
        match bands.last_mut() {
            Some(band) if from - band.to < 1e-6 => band.to = to,
            _ => bands.push(Band {
                class: colour(document, target),
                from,
                to,
                title: format!("{target}: stalled"),
            }),
        }
    }
    bands
}

pub(crate) fn time_ticks(end: f64) -> Vec<Tick> {
    let (unit, length) = match end {
        end if end <= 300.0 => ("s", 1.0),
        end if end <= 18_000.0 => ("min", 60.0),
        _ => ("h", 3600.0),
    };
    let (top, ticks) =
        linear_ticks(end / length, |value| format!("{} {unit}", (value * 100.0).round() / 100.0));
    let scale = top * length / end;
    ticks
        .into_iter()
        .map(|tick| Tick { at: tick.at * scale, ..tick })
        .filter(|tick| tick.at <= 1.001)
        .collect()
}

/// A table of the timeline with at most thirty rows; the JSON document has all intervals.
fn timeline_table(case: &Case, runs: &[(&str, &Round)], end: f64) -> Table {
    let rows =
        30.0_f64.min(runs.iter().map(|(_, run)| run.timeline.len()).max().unwrap_or(0) as f64).max(1.0);
    let step = end / rows;
    let mut columns = vec![Column::words("From second")];
    columns.extend(runs.iter().map(|(target, _)| Column::figures(*target)));
    let row = |index: u32| {
        let (from, to) = (f64::from(index) * step, f64::from(index + 1) * step);
        let mut row = vec![Cell::plain(format!("{}", (from * 100.0).round() / 100.0))];
        for (_, run) in runs {
            let within = |second: &&Second| second.second >= from - 1e-9 && second.second < to - 1e-9;
            let rates: Vec<f64> = run.timeline.iter().filter(within).map(|second| second.iops).collect();
            let mean = rates.iter().sum::<f64>() / rates.len() as f64;
            row.push(Cell::plain(if rates.is_empty() { String::new() } else { format::count(mean) }));
        }
        row
    };
    Table {
        caption: format!("Mean IOPS of {}", whole_name(case)),
        columns,
        rows: (0..rows as u32).map(row).collect(),
    }
}

/// Labels of a logarithmic axis, without decimals: 10 µs, 1 ms.
fn power_of_ten(us: f64) -> String {
    match us {
        us if us < 999.0 => format!("{us} µs"),
        us if us < 999_000.0 => format!("{} ms", us / 1e3),
        us => format!("{} s", us / 1e6),
    }
}

pub(crate) fn short_count(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{} M", (value / 1e4).round() / 100.0),
        value if value >= 1e3 => format!("{} k", (value / 10.0).round() / 100.0),
        value => format!("{}", (value * 100.0).round() / 100.0),
    }
}

fn at_the_device(document: &Document, case: &Case, results: &[&CaseResult]) -> String {
    let mut rows = String::new();
    let sides: Vec<(&str, Sides)> = results
        .iter()
        .flat_map(|result| Sides::of(result).into_iter().map(|side| (result.target.as_str(), side)))
        .collect();
    let mut sizes: Vec<u64> =
        sides.iter().flat_map(|(_, side)| side.sizes.iter().map(|size| size.0)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    // Of a program nobody knows what it asked for.
    if sides.is_empty() || case.program.is_some() {
        return String::new();
    }
    let shade = |bytes: u64| {
        let place = sizes.iter().position(|size| *size == bytes).unwrap_or(0);
        if sizes.len() <= SHADES { place } else { place * SHADES / sizes.len() }
    };
    for (target, side) in &sides {
        let total: f64 = side.sizes.iter().map(|&(_, count)| count as f64).sum();
        let mut stack = String::new();
        for &(bytes, count) in side.sizes.iter().filter(|size| size.1 > 0) {
            let percent = count as f64 / total * 100.0;
            let label = if percent >= 14.0 { format::size(bytes) } else { String::new() };
            let _ = write!(
                stack,
                "<i class=s{} style=\"width:{percent:.2}%\" title=\"{}: {percent:.1} %\">{label}</i>",
                shade(bytes),
                format::size(bytes)
            );
        }
        let _ = write!(
            rows,
            "<tr class={}><th scope=row><i></i>{}</th><td>{}</td><td class=n>{}</td><td class=stack><div>{stack}</div></td>\
             <td class=n>{}</td><td class=n>× {:.2}</td><td class=n>{:.0} %</td></tr>",
            colour(document, target),
            escape(target),
            side.direction,
            format::count(side.requests as f64),
            format::count(side.transfers as f64),
            side.amplification(),
            side.sequential_percent,
        );
    }
    let unseen: Vec<&str> = results
        .iter()
        .filter(|result| result.runs.iter().all(|run| run.device.is_none()))
        .map(|result| result.target.as_str())
        .collect();
    let mut note = format!("The application asks for {} at a time. All runs.", case.block_words());
    if !unseen.is_empty() {
        let _ = write!(note, " Not watched: {}.", unseen.join(", "));
    }
    let table = format!(
        "<div class=scroll tabindex=0 role=region aria-label=\"What the storage saw of {}\"><table class=seen><thead><tr><th scope=col>Target</th>\
         <th scope=col></th><th scope=col class=n>Asked</th><th scope=col>Sizes at the device</th><th scope=col class=n>Transfers</th>\
         <th scope=col class=n>Bytes</th><th scope=col class=n>Sequential</th></tr></thead><tbody>{rows}</tbody></table></div>",
        escape(&whole_name(case))
    );
    figure("What the storage saw", &note, "", &table, None, true)
}
