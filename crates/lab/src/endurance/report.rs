//! The report of an endurance run: findings in sentences, a comparison of its first and last tenth, and curves.

use super::{EndurancePlan, Record, Sample};
use crate::format;
use crate::report::html;
use crate::report::html::detail::{POINTS, figure, short_count, strokes, time_ticks};
use crate::report::html::plot::{Band, Plot, Point, Series, Tick, linear_ticks, log_ticks};
use crate::report::table::escape;
use crate::report::{Cell, Column, Table};
use crate::statistics;
use std::fmt::Write;

/// The number of equal parts in which a run is compared with itself.
const TENTHS: usize = 10;

/// The title: the settings, and how far the run came: `refs+integrity on /dev/sdb, 90 % full: 2 h of random writes of 4
/// KiB`.
fn title(record: &Record) -> String {
    let EndurancePlan { target, device, full_percent, block, read_percent, random_percent, .. } =
        &record.plan;
    let kind = match read_percent {
        0 => "writes",
        100 => "reads",
        _ => "reads and writes",
    };
    let order = match random_percent {
        0 => "sequential ",
        100 => "random ",
        _ => "",
    };
    format!(
        "{target} on {}, {full_percent} % full: {} of {order}{kind} of {}",
        device.display(),
        format::duration(record.seconds().round()),
        format::size(u64::from(*block)),
    )
}

/// The seconds without progress in all samples, and the longest in one sample with the time of that sample.
struct Stalls {
    seconds: f64,
    longest: f64,
    at: f64,
}

fn stalls(samples: &[Sample]) -> Stalls {
    let mut all = Stalls { seconds: 0.0, longest: 0.0, at: 0.0 };
    for sample in samples.iter().filter(|sample| sample.stalled > 0.0) {
        all.seconds += sample.stalled;
        if sample.stalled > all.longest {
            (all.longest, all.at) = (sample.stalled, sample.at);
        }
    }
    all
}

fn quantile(samples: &[Sample], part: f64, of: impl Fn(&Sample) -> f64) -> f64 {
    let mut values: Vec<f64> = samples.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    statistics::quantile(&values, part)
}

/// The samples of the first and of the last tenth, if there are enough.
fn tenths(samples: &[Sample]) -> Option<(&[Sample], &[Sample])> {
    let length = samples.len() / TENTHS;
    (length > 0).then(|| (&samples[..length], &samples[samples.len() - length..]))
}

/// The findings, as sentences.
fn sentences(record: &Record) -> Vec<String> {
    let Record { plan, samples, .. } = record;
    let mut all = Vec::new();
    if let Some((first, last)) = tenths(samples) {
        let iops = |part: &[Sample]| quantile(part, 0.5, Sample::iops);
        let ratio = iops(last) / iops(first).max(1e-9);
        let spread = |part: &[Sample]| {
            format!(
                "{} (quartiles {} to {})",
                format::count(iops(part)),
                format::count(quantile(part, 0.25, Sample::iops)),
                format::count(quantile(part, 0.75, Sample::iops))
            )
        };
        let p99 = |part: &[Sample]| format::micros(quantile(part, 0.5, |sample| sample.p99_us));
        all.push(format!(
            "The last tenth has {:.0} % of the first's IOPS: {} against {}; 99 % of its I/Os took at most {}, against {}.",
            ratio * 100.0,
            spread(last),
            spread(first),
            p99(last),
            p99(first)
        ));
    }
    let stalls = stalls(samples);
    all.push(match stalls.seconds > 0.0 {
        false => "No second went by without progress.".into(),
        true => format!(
            "{} without progress; the worst sample, {} after the start, has {}.",
            format::duration(stalls.seconds),
            format::duration(stalls.at.round()),
            format::duration(stalls.longest)
        ),
    });
    let written = record.written();
    all.push(format!(
        "{} were written, {:.1} times the volume, and the longest response took {}.",
        format::volume(written as f64),
        record.volumes(),
        format::micros(samples.iter().map(|sample| sample.max_us).fold(0.0, f64::max))
    ));
    let device: u64 = samples.iter().map(|sample| sample.device_written).sum();
    if written > 0 {
        all.push(format!(
            "The device was asked to write {:.2} bytes for each byte, and for {} flushes.",
            device as f64 / written as f64,
            format::count(samples.iter().map(|sample| sample.flushes).sum::<u64>() as f64)
        ));
    }
    let free: Vec<u64> = samples.iter().filter_map(|sample| sample.free).collect();
    if let (Some(least), Some(most)) = (free.iter().min(), free.iter().max()) {
        let (least, most) = (format::size(*least), format::size(*most));
        all.push(match least == most {
            true => format!("Free space stayed at {most}."),
            false => format!("Free space lay between {least} and {most}."),
        });
    }
    let pieces: Vec<u64> = samples.iter().filter_map(|sample| sample.pieces).collect();
    if let (Some(first), Some(last)) = (pieces.first(), pieces.last()) {
        let noun = crate::statistics::plural(*first, "piece");
        let (first, last) = (format::count(*first as f64), format::count(*last as f64));
        all.push(format!(
            "The file lay in {first} {noun} when they were first counted, and in {last} at last."
        ));
    }
    let memory: Vec<u64> = samples.iter().filter_map(|sample| sample.resident).collect();
    if let (Some(first), Some(most), Some(last)) = (memory.first(), memory.iter().max(), memory.last()) {
        all.push(format!(
            "The process took {} of memory at first, {} at most, {} at last.",
            format::size(*first),
            format::size(*most),
            format::size(*last)
        ));
    }
    let parts = samples.last().map_or(0, |last| last.part);
    if parts > 0 {
        let times = if parts == 1 { "once".into() } else { format!("{parts} times") };
        all.push(format!("It was stopped and resumed {times}."));
    }
    all.push(match &plan.ended {
        Some(why) => format!("It ended because {why}."),
        None => "It has not ended, or was killed.".into(),
    });
    all
}

/// A table with a row for each tenth of the run.
fn table(samples: &[Sample]) -> Table {
    let titles = ["From", "IOPS", "p50", "p99", "Longest", "Stalled", "Free"];
    let mut columns = vec![Column::words(titles[0])];
    columns.extend(titles[1..].iter().map(|title| Column::figures(*title)));
    let length = samples.len().div_ceil(TENTHS).max(1);
    let row = |part: &[Sample]| {
        let sum = |of: fn(&Sample) -> f64| part.iter().map(of).sum::<f64>();
        let ios = sum(|sample| (sample.reads + sample.writes) as f64);
        let time = |us: f64| Cell::plain(format::micros(us));
        vec![
            Cell::plain(format::duration(part[0].at.round())),
            Cell::plain(format::count(ios / sum(|sample| sample.seconds).max(1e-9))),
            time(quantile(part, 0.5, |sample| sample.p50_us)),
            time(quantile(part, 0.5, |sample| sample.p99_us)),
            time(quantile(part, 1.0, |sample| sample.max_us)),
            Cell::plain(format::duration(sum(|sample| sample.stalled))),
            Cell::plain(
                part.iter().rev().find_map(|sample| sample.free).map_or_else(String::new, format::size),
            ),
        ]
    };
    Table {
        caption: "Tenths of the run; percentiles are the median of those of its samples".into(),
        columns,
        rows: samples.chunks(length).map(row).collect(),
    }
}

/// The report for a terminal: the findings, and a table of the tenths.
pub fn summary(record: &Record, colour: bool) -> String {
    let mut text = format!("{}\n\n", title(record));
    for sentence in sentences(record) {
        let _ = writeln!(text, "{sentence}");
    }
    if !record.samples.is_empty() {
        let _ = write!(text, "\n{}", table(&record.samples).terminal(colour));
    }
    text
}

/// A curve in which samples are joined so that at most [`POINTS`] points remain, each at the beginning of its samples.
fn line(
    class: &str,
    name: &str,
    record: &Record,
    of: impl Fn(&[Sample]) -> Option<f64>,
    place: impl Fn(f64) -> f64,
) -> Series {
    let end = record.seconds().max(1e-9);
    let step = record.samples.len().div_ceil(POINTS).max(1);
    let points = record.samples.chunks(step).filter_map(|part| {
        let y = place(of(part)?).clamp(0.0, 1.0);
        Some(Point { x: part[0].at / end, y, title: String::new() })
    });
    Series { class: class.into(), name: name.into(), points: points.collect() }
}

fn key(lines: &[(&str, &str)]) -> String {
    strokes(lines.iter().map(|(class, name)| (class.to_string(), *name)))
}

/// The highlighted ranges of a chart: stalls, and where the run was resumed.
fn bands(record: &Record) -> Vec<Band> {
    let end = record.seconds().max(1e-9);
    let stalled = record.samples.iter().filter(|sample| sample.stalled > 0.0).map(|sample| Band {
        class: "c7".into(),
        from: sample.at / end,
        to: (sample.at + sample.seconds) / end,
        title: format!("{} without progress", format::duration(sample.stalled)),
    });
    let resumed = record.samples.windows(2).filter(|pair| pair[0].part != pair[1].part).map(|pair| Band {
        class: "c0".into(),
        from: pair[1].at / end,
        to: pair[1].at / end,
        title: "stopped and resumed".into(),
    });
    stalled.chain(resumed).collect()
}

fn rates(record: &Record) -> String {
    let most = record.samples.iter().map(Sample::iops).fold(0.0, f64::max);
    let (top, y) = linear_ticks(most, short_count);
    let mean = |part: &[Sample]| Some(part.iter().map(Sample::iops).sum::<f64>() / part.len() as f64);
    let least = |part: &[Sample]| Some(part.iter().map(Sample::iops).fold(f64::INFINITY, f64::min));
    let mut plot = Plot::new("IOPS over time".into(), time_ticks(record.seconds()), y);
    plot.bands(&bands(record));
    plot.lines(
        &[
            line("c1", "mean", record, mean, |iops| iops / top),
            line("c2", "slowest sample", record, least, |iops| iops / top),
        ],
        false,
    );
    let note = "Over time under load. Marked: samples with a second in which nothing completed, and where the run was resumed.";
    figure("IOPS", note, &key(&[("c1", "mean"), ("c2", "slowest sample")]), &plot.html(), None, true)
}

/// A curve of response times: its name in the key, its CSS class, and its value in a sample.
type Percentile = (&'static str, &'static str, fn(&Sample) -> f64);

fn response_times(record: &Record) -> String {
    let shown: [Percentile; 4] = [
        ("median", "c1", |sample| sample.p50_us),
        ("99 %", "c2", |sample| sample.p99_us),
        ("99.9 %", "c3", |sample| sample.p99_9_us),
        ("longest", "c7", |sample| sample.max_us),
    ];
    let low = record
        .samples
        .iter()
        .map(|sample| sample.p50_us)
        .filter(|us| *us > 0.0)
        .fold(f64::INFINITY, f64::min);
    let high = record.samples.iter().map(|sample| sample.max_us).fold(0.0, f64::max);
    if high <= 0.0 {
        return String::new();
    }
    let (from, to, y) = log_ticks(low, high, format::micros);
    let place = |us: f64| (us.max(1e-3).log10() - from) / (to - from);
    let mut plot = Plot::new("Response times over time".into(), time_ticks(record.seconds()), y);
    let series = shown.map(|(name, class, of)| {
        line(class, name, record, |part| Some(part.iter().map(of).fold(0.0, f64::max)), place)
    });
    plot.lines(&series, false);
    let key = key(&shown.map(|(name, class, _)| (class, name)));
    let note = "Logarithmic; of joined samples the worst.";
    figure("Response times", note, &key, &plot.html(), None, true)
}

/// A low chart of a value that not every sample has, from zero upwards.
fn low(record: &Record, name: &str, show: fn(f64) -> String, of: fn(&Sample) -> Option<f64>) -> String {
    let most = record.samples.iter().filter_map(of).fold(0.0, f64::max);
    if most <= 0.0 {
        return String::new();
    }
    let y = vec![Tick { at: 0.0, label: "0".into() }, Tick { at: 1.0, label: show(most) }];
    let mut plot = Plot::new(format!("{name} over time"), time_ticks(record.seconds()), y);
    plot.low = true;
    let last = |part: &[Sample]| part.iter().rev().find_map(of);
    plot.lines(&[line("c3", name, record, last, |value| value / most)], false);
    figure(name, "", "", &plot.html(), None, true)
}

/// The report as a self-contained page: the findings, curves over time, and the tenths as a table.
pub fn html(record: &Record) -> String {
    let size = |bytes: f64| format::size(bytes as u64);
    let mut page = html::opening(&title(record), &html::sentences(&sentences(record)));
    if !record.samples.is_empty() {
        let _ = write!(
            page,
            "<section><div class=figures>{}{}{}{}{}{}</div>{}</section>",
            rates(record),
            response_times(record),
            low(record, "Free space", size, |sample| sample.free.map(|bytes| bytes as f64)),
            low(record, "Pieces of the file", format::count, |sample| sample
                .pieces
                .map(|count| count as f64)),
            low(record, "Bytes that the device was asked to write for each byte", format::figure, |sample| {
                (sample.written > 0).then(|| sample.device_written as f64 / sample.written as f64)
            }),
            low(record, "Memory of the process", size, |sample| sample.resident.map(|bytes| bytes as f64)),
            table(&record.samples).html()
        );
    }
    page + &html::closing(&format!(
        "Made by Platter {} from <code>{}</code> data of {}: {}",
        escape(&record.plan.platter_version),
        super::SCHEMA,
        escape(&record.plan.created),
        escape(&record.plan.command)
    ))
}
