//! The results of a profile's runs, in DiskSpd's formats.

use super::profile::{Length, Profile, Target, Throughput, TimeSpan, WriteContent};
use super::xml::Writer;
use crate::document::Document;
use crate::environment::host;
use crate::kept::{Runs, SliceCounts, shares};
use crate::{Interval, Latencies, ProcessorTime, Tally, WorkerTally};
use std::fmt::Write;

impl Runs {
    /// The measurements of each run of the profile, with one part for each of its targets. If there were several
    /// rounds, those of the first.
    fn by_time_span<'a>(&'a self, profile: &'a Profile) -> Vec<(&'a TimeSpan, Vec<Part<'a>>)> {
        let mut names: Vec<&str> = self.0.iter().map(|run| run.workload.as_str()).collect();
        names.dedup();
        let spans = profile.time_spans.iter().zip(names);
        let parts = |(span, name): (&'a TimeSpan, &str)| {
            let of_span = self.0.iter().filter(|run| run.workload == name);
            let mut first = 0;
            let part = |(target, run): (&'a Target, &'a SliceCounts)| {
                let part = Part { target, run, first_thread: first };
                first += run.workers.len();
                part
            };
            (span, span.targets.iter().zip(of_span).map(part).collect())
        };
        spans.map(parts).collect()
    }
}

/// The measurements of one target's threads, with the number of the first of these threads.
struct Part<'a> {
    target: &'a Target,
    run: &'a SliceCounts,
    first_thread: usize,
}

impl Part<'_> {
    fn threads(&self, span: &TimeSpan) -> impl Iterator<Item = (usize, &WorkerTally)> {
        // Threads for all targets together (`-F`) have the same numbers at every target.
        let first = if span.threads > 0 { 0 } else { self.first_thread };
        (first..).zip(&self.run.workers)
    }

    fn size(&self, document: &Document) -> u64 {
        match (self.target.size, self.target.max) {
            (0, 0) => document.settings.span_bytes,
            (0, max) => max,
            (size, _) => size,
        }
    }
}

/// The I/Os that a table shows.
#[derive(Clone, Copy)]
enum Of {
    Total,
    Reads,
    Writes,
}

impl Of {
    fn tallies(self, worker: &WorkerTally) -> Vec<&Tally> {
        match self {
            Of::Total => vec![&worker.reads, &worker.writes],
            Of::Reads => vec![&worker.reads],
            Of::Writes => vec![&worker.writes],
        }
    }

    fn count(self, interval: &Interval) -> u64 {
        match self {
            Of::Total => interval.ios,
            Of::Reads => interval.reads,
            Of::Writes => interval.ios - interval.reads,
        }
    }
}

/// The I/Os, bytes and latencies of several threads together.
#[derive(Default)]
struct Sum {
    ios: u64,
    bytes: u64,
    latencies: Latencies,
    timeline: Vec<u64>,
}

impl Sum {
    fn of<'a>(workers: impl Iterator<Item = &'a WorkerTally>, of: Of) -> Sum {
        let mut sum = Sum::default();
        for worker in workers {
            for tally in of.tallies(worker) {
                sum.ios += tally.ios;
                sum.bytes += tally.bytes;
                sum.latencies.add(&tally.latencies);
            }
            if sum.timeline.len() < worker.timeline.len() {
                sum.timeline.resize(worker.timeline.len(), 0);
            }
            for (all, interval) in sum.timeline.iter_mut().zip(&worker.timeline) {
                *all += of.count(interval);
            }
        }
        sum
    }

    /// The standard deviation of the IOPS of all whole intervals; a last interval that was cut short is left out.
    fn iops_deviation(&self, span: &TimeSpan) -> f64 {
        let seconds = f64::from(span.bucket) / 1e3;
        let whole = (f64::from(span.duration) / seconds) as usize;
        let counts = || (0..whole.max(1)).map(|at| self.timeline.get(at).copied().unwrap_or(0) as f64);
        let number = whole.max(1) as f64;
        let mean = counts().sum::<f64>() / number;
        (counts().map(|count| (count - mean).powi(2)).sum::<f64>() / number).sqrt() / seconds
    }
}

/// The percentiles of the table, up to nine nines, with DiskSpd's names.
const PERCENTILES: [(&str, f64); 13] = [
    ("25th", 25.0),
    ("50th", 50.0),
    ("75th", 75.0),
    ("90th", 90.0),
    ("95th", 95.0),
    ("99th", 99.0),
    ("3-nines", 99.9),
    ("4-nines", 99.99),
    ("5-nines", 99.999),
    ("6-nines", 99.9999),
    ("7-nines", 99.99999),
    ("8-nines", 99.999999),
    ("9-nines", 99.9999999),
];

impl Profile {
    /// The results in the form that the profile asks for. Machine and time are taken from `document`.
    pub fn results(&self, runs: &Runs, document: &Document) -> String {
        match self.xml {
            true => self.xml_results(runs, document),
            false => self.text_results(runs, document),
        }
    }

    /// The profile itself, in the form that it asks for.
    pub fn shown(&self) -> String {
        if self.xml {
            return self.to_xml();
        }
        let mut out = String::new();
        self.write_text(&mut out);
        out
    }

    fn write_text(&self, out: &mut String) {
        let _ = write!(out, "\nCommand Line: {}\n\nInput parameters:\n\n", self.command);
        for (span, number) in self.time_spans.iter().zip(1..) {
            let _ = write!(out, "\ttimespan: {number:3}\n\t-------------\n");
            write_span(span, out);
            out.push('\n');
        }
    }

    fn text_results(&self, runs: &Runs, document: &Document) -> String {
        let mut out = String::new();
        self.write_text(&mut out);
        let cores = document.environment.cores;
        let _ = write!(
            out,
            "System information:\n\n\tcomputer name: {}\n\tstart time: {}\n\n\tcpu count:\t\t{cores}\n\tgroup count:\t\t1\n",
            host(),
            start(document)
        );
        let spans = runs.by_time_span(self);
        for ((span, parts), number) in spans.iter().zip(1..) {
            let _ = write!(out, "\nResults for timespan {number}:\n{}\n", "*".repeat(79));
            write_tables(span, parts, document, &mut out);
        }
        if spans.len() > 1 {
            write_totals(&spans, &mut out);
        }
        out
    }

    fn xml_results(&self, runs: &Runs, document: &Document) -> String {
        let mut out = Writer::default();
        out.open("Results");
        out.open("System");
        out.value("ComputerName", host());
        out.open("Tool");
        out.value("Version", format_args!("2.2.0 (platter {})", env!("CARGO_PKG_VERSION")));
        out.value("VersionDate", "");
        out.close("Tool");
        out.value("RunTime", start(document));
        let cores = document.environment.cores;
        out.line("<ProcessorTopology Heterogeneous=\"false\">");
        out.line(format_args!(
            "  <Group Group=\"0\" MaximumProcessors=\"{cores}\" ActiveProcessors=\"{cores}\" ActiveProcessorMask=\"0x{:x}\"/>",
            u64::MAX >> (64 - cores.clamp(1, 64))
        ));
        out.line("</ProcessorTopology>");
        out.close("System");
        self.write(&mut out);
        for (span, parts) in runs.by_time_span(self) {
            xml_time_span(span, &parts, document, &mut out);
        }
        out.close("Results");
        out.text
    }
}

/// The start of the comparison as DiskSpd writes it: `2024/06/03 10:11:12 UTC`.
fn start(document: &Document) -> String {
    let time = document.created.get(..19).unwrap_or(&document.created);
    format!("{} UTC", time.replace('-', "/").replace('T', " "))
}

/// Formats a size as DiskSpd does: `64KiB`, `1.95MiB`.
fn size(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.iter().find(|(shift, _)| bytes >> shift > 0) {
        None => format!("{bytes}B"),
        Some((shift, unit)) if bytes.trailing_zeros() >= *shift => format!("{}{unit}", bytes >> shift),
        Some((shift, unit)) => format!("{:.2}{unit}", bytes as f64 / (1_u64 << shift) as f64),
    }
}

fn write_span(span: &TimeSpan, out: &mut String) {
    let _ = write!(
        out,
        "\tduration: {}s\n\twarm up time: {}s\n\tcool down time: {}s\n",
        span.duration, span.warmup, span.cooldown
    );
    if !span.affinity {
        out.push_str("\taffinity disabled\n");
    }
    if span.latency {
        out.push_str("\tmeasuring latency\n");
    }
    if span.iops_deviation {
        let _ = writeln!(out, "\tgathering IOPS at intervals of {}ms", span.bucket);
    }
    let _ = writeln!(out, "\trandom seed: {}", span.seed);
    if span.threads > 0 {
        let _ = writeln!(out, "\tthread pool with {} threads", span.threads);
        if span.requests > 0 {
            let _ = writeln!(out, "\tnumber of outstanding I/O operations per thread: {}", span.requests);
        }
    }
    span.targets.iter().for_each(|target| write_target(span, target, out));
}

fn write_target(span: &TimeSpan, target: &Target, out: &mut String) {
    let mut line = |text: &str| {
        let _ = writeln!(out, "{text}");
    };
    line(&format!("\tpath: '{}'", target.path));
    line(&format!("\t\tthink time: {}ms", target.think));
    line(&format!("\t\tburst size: {}", target.burst));
    let caches = target.caches;
    line(if caches.no_buffering { "\t\tsoftware cache disabled" } else { "\t\tusing software cache" });
    line(match (caches.write_through, caches.no_buffering) {
        (true, true) => "\t\thardware write cache disabled, writethrough on",
        (true, false) => "\t\thardware and software write caches disabled, writethrough on",
        (false, _) => "\t\tusing hardware write cache, writethrough off",
    });
    if let WriteContent::Random(bytes @ 1..) = target.content {
        line(&format!("\t\twrite buffer size: {}\n\t\twrite buffer source: random fill", size(bytes)));
    }
    line(&match target.write_ratio {
        0 => "\t\tperforming read test".to_string(),
        100 => "\t\tperforming write test".to_string(),
        writes => format!("\t\tperforming mix test (read/write ratio: {}/{writes})", 100 - writes),
    });
    line(&format!("\t\tblock size: {}", size(target.block)));
    line(&match (target.random, target.random_ratio) {
        (Some(align), None) => format!("\t\tusing random I/O (alignment: {})", size(align)),
        (Some(align), Some(percent)) => format!(
            "\t\tusing mixed random/sequential I/O ({percent}% random) (alignment/stride: {})",
            size(align)
        ),
        (None, _) => format!(
            "\t\tusing{} sequential I/O (stride: {})",
            if target.interlocked { " interlocked" } else { "" },
            size(target.stride.unwrap_or(target.block))
        ),
    });
    if span.requests == 0 {
        line(&format!("\t\tnumber of outstanding I/O operations per thread: {}", target.requests));
    }
    if target.base > 0 {
        line(&format!("\t\tbase file offset: {}", size(target.base)));
    }
    if target.max > 0 {
        line(&format!("\t\tmax file size: {}", size(target.max)));
    }
    if target.thread_stride > 0 {
        line(&format!("\t\tthread stride size: {}", size(target.thread_stride)));
    }
    for (is_set, hint) in [
        (target.sequential_scan, "FILE_FLAG_SEQUENTIAL_SCAN"),
        (target.random_access, "FILE_FLAG_RANDOM_ACCESS"),
        (target.temporary, "FILE_ATTRIBUTE_TEMPORARY"),
    ] {
        if is_set {
            line(&format!("\t\tusing {hint} hint"));
        }
    }
    if span.threads == 0 {
        line(&format!("\t\tthreads per file: {}", target.threads));
        line(match span.completion_routines {
            true => "\t\tusing completion routines (ReadFileEx/WriteFileEx)",
            false => "\t\tusing I/O Completion Ports",
        });
    }
    line("\t\tIO priority: normal");
    match target.throughput {
        Some(Throughput::Iops(rate)) => line(&format!("\t\tthroughput rate-limited to {rate} IOPS")),
        Some(Throughput::BytesPerMs(rate)) => line(&format!("\t\tthroughput rate-limited to {rate} B/ms")),
        None => {}
    }
    if !target.distribution.is_empty() {
        line("\t\tIO Distribution:");
    }
    let mut start = 0.0;
    for (share, length) in &target.distribution {
        let (bytes, unit) = match length {
            Length::Percent(percent) => (*percent, "%"),
            Length::Bytes(bytes) => (*bytes as f64, ""),
        };
        line(&format!("\t\t   {share:3}% of IO => [{start:2}{unit} - {:3}{unit}) of target", start + bytes));
        start += bytes;
    }
}

fn write_tables(span: &TimeSpan, parts: &[Part<'_>], document: &Document, out: &mut String) {
    let seconds = parts.iter().map(|part| part.run.elapsed).max().unwrap_or_default().as_secs_f64();
    let threads = thread_count(span, parts);
    let _ = write!(out, "\nactual test time:\t{seconds:.2}s\nthread count:\t\t{threads}\n");
    write_processors(parts, out);
    for (title, of) in [("Total IO", Of::Total), ("Read IO", Of::Reads), ("Write IO", Of::Writes)] {
        let _ = write!(out, "\n{title}\n");
        write_table(span, parts, of, seconds, document, out);
    }
    if span.latency {
        write_percentiles(parts, out);
    }
}

fn thread_count(span: &TimeSpan, parts: &[Part<'_>]) -> usize {
    match span.threads {
        0 => parts.iter().map(|part| part.run.workers.len()).sum(),
        threads => threads as usize,
    }
}

/// Four percentages for each processor: busy, in programs, in the kernel, idle.
fn processors(parts: &[Part<'_>]) -> Vec<[f64; 4]> {
    let of = |time: &ProcessorTime| {
        let [user, kernel, idle] = shares(time);
        [100.0 - idle, user, kernel, idle]
    };
    // All targets ran at the same time, so the times of the first are those of all.
    parts.first().map_or_else(Vec::new, |part| part.run.processors.iter().map(of).collect())
}

fn mean(rows: &[[f64; 4]]) -> [f64; 4] {
    std::array::from_fn(|column| rows.iter().map(|row| row[column]).sum::<f64>() / rows.len().max(1) as f64)
}

fn write_processors(parts: &[Part<'_>], out: &mut String) {
    let rows = processors(parts);
    if rows.is_empty() {
        // Not every system tells what its processors did.
        return;
    }
    let line = "-".repeat(40);
    let _ = write!(out, "\nCPU |  Usage |  User  | Kernel |  Idle\n{line}\n");
    let show = |name: String, row: &[f64; 4]| {
        format!("{name}| {:6.2}%| {:6.2}%| {:6.2}%| {:6.2}%\n", row[0], row[1], row[2], row[3])
    };
    for (number, row) in rows.iter().enumerate() {
        out.push_str(&show(format!("{number:4}"), row));
    }
    let _ = writeln!(out, "{line}");
    out.push_str(&show("avg.".into(), &mean(&rows)));
}

fn write_table(
    span: &TimeSpan,
    parts: &[Part<'_>],
    of: Of,
    seconds: f64,
    document: &Document,
    out: &mut String,
) {
    let column = |is_there: bool, title: &'static str| if is_there { title } else { "" };
    let extra = [
        column(span.latency, "|  AvgLat  "),
        column(span.iops_deviation, "| IopsStdDev "),
        column(span.latency, "| LatStdDev "),
    ]
    .concat();
    let line = "-".repeat(66 + extra.len() + 12);
    let _ = writeln!(out, "thread |       bytes     |     I/Os     |    MiB/s   |  I/O per s {extra}|  file");
    let _ = writeln!(out, "{line}");
    let figures = |sum: &Sum| {
        let mut text = format!(
            "{:15} | {:12} | {:10.2} | {:10.2}",
            sum.bytes,
            sum.ios,
            sum.bytes as f64 / 1_048_576.0 / seconds.max(1e-9),
            sum.ios as f64 / seconds.max(1e-9)
        );
        if span.latency {
            let _ = write!(text, " | {:8.3}", sum.latencies.mean() / 1e6);
        }
        if span.iops_deviation {
            let _ = write!(text, " | {:10.2}", sum.iops_deviation(span));
        }
        match (span.latency, sum.ios) {
            (true, 0) => text.push_str(" |       N/A"),
            (true, _) => {
                let _ = write!(text, " |  {:8.3}", sum.latencies.deviation() / 1e6);
            }
            (false, _) => {}
        }
        text
    };
    for part in parts {
        let size = size(part.size(document));
        for (thread, worker) in part.threads(span) {
            let sum = Sum::of(std::iter::once(worker), of);
            let _ = writeln!(out, "{thread:6} | {} | {} ({size})", figures(&sum), part.target.path);
        }
    }
    let all = Sum::of(parts.iter().flat_map(|part| &part.run.workers), of);
    let _ = write!(out, "{line}\ntotal:   {}\n", figures(&all));
}

fn write_percentiles(parts: &[Part<'_>], out: &mut String) {
    let of = |of: Of| Sum::of(parts.iter().flat_map(|part| &part.run.workers), of).latencies;
    let all = [of(Of::Reads), of(Of::Writes), of(Of::Total)];
    let _ = write!(
        out,
        "\n\nTotal latency distribution:\n  %-ile |  Read (ms) | Write (ms) | Total (ms)\n{}\n",
        "-".repeat(46)
    );
    let mut row = |name: &str, of: &dyn Fn(&Latencies) -> u64| {
        let cell = |latencies: &Latencies| match latencies.count() {
            0 => "N/A".to_string(),
            _ => format!("{:.3}", of(latencies) as f64 / 1e6),
        };
        let _ = writeln!(
            out,
            "{name:>7} | {:>10} | {:>10} | {:>10}",
            cell(&all[0]),
            cell(&all[1]),
            cell(&all[2])
        );
    };
    row("min", &Latencies::min);
    for (name, percent) in PERCENTILES {
        row(name, &|latencies| latencies.percentile(percent));
    }
    row("max", &Latencies::max);
}

fn write_totals(spans: &[(&TimeSpan, Vec<Part<'_>>)], out: &mut String) {
    let seconds: f64 = spans
        .iter()
        .map(|(_, parts)| parts.iter().map(|part| part.run.elapsed).max().unwrap_or_default().as_secs_f64())
        .sum();
    let _ = write!(
        out,
        "\n\nTotals:\n{}\n\ntype   |       bytes     |     I/Os     |    MiB/s   |  I/O per s\n{}\n",
        "*".repeat(79),
        "-".repeat(71)
    );
    for (name, of) in [("read", Of::Reads), ("write", Of::Writes), ("total", Of::Total)] {
        let sum = Sum::of(spans.iter().flat_map(|(_, parts)| parts).flat_map(|part| &part.run.workers), of);
        let _ = writeln!(
            out,
            "{name:6} | {:15} | {:12} | {:10.2} | {:10.2}",
            sum.bytes,
            sum.ios,
            sum.bytes as f64 / 1_048_576.0 / seconds.max(1e-9),
            sum.ios as f64 / seconds.max(1e-9)
        );
    }
    let _ = writeln!(out, "\ntotal test time:\t{seconds:.2}s");
}

fn xml_time_span(span: &TimeSpan, parts: &[Part<'_>], document: &Document, out: &mut Writer) {
    let seconds = parts.iter().map(|part| part.run.elapsed).max().unwrap_or_default().as_secs_f64();
    out.open("TimeSpan");
    out.values(&[
        ("TestTimeSeconds", &format_args!("{seconds:.2}")),
        ("ThreadCount", &thread_count(span, parts)),
        ("RequestCount", &span.requests),
        ("ProcCount", &document.environment.cores),
    ]);
    xml_processors(parts, out);
    let all = |of: Of| Sum::of(parts.iter().flat_map(|part| &part.run.workers), of);
    if span.latency {
        xml_percentiles(&[all(Of::Reads), all(Of::Writes), all(Of::Total)], out);
    }
    if span.iops_deviation {
        xml_iops(span, &[all(Of::Reads), all(Of::Writes), all(Of::Total)], out);
    }
    for thread in 0..thread_count(span, parts) {
        out.open("Thread");
        out.value("Id", thread);
        for part in parts {
            for (_, worker) in part.threads(span).filter(|(number, _)| *number == thread) {
                xml_target(span, part, worker, document, out);
            }
        }
        out.close("Thread");
    }
    out.close("TimeSpan");
}

fn xml_processors(parts: &[Part<'_>], out: &mut Writer) {
    let rows = processors(parts);
    let show = |row: &[f64; 4], out: &mut Writer| {
        let names = ["UsagePercent", "UserPercent", "KernelPercent", "IdlePercent"];
        names.iter().zip(row).for_each(|(name, value)| out.value(name, format_args!("{value:.2}")));
    };
    out.open("CpuUtilization");
    for (number, row) in rows.iter().enumerate() {
        out.open("CPU");
        out.values(&[
            ("Socket", &0),
            ("Node", &0),
            ("Group", &(number / 64)),
            ("Core", &number),
            ("EfficiencyClass", &0),
            ("Id", &(number % 64)),
        ]);
        show(row, out);
        out.close("CPU");
    }
    out.open("Average");
    show(&mean(&rows), out);
    out.close("Average");
    out.close("CpuUtilization");
}

fn milliseconds(nanoseconds: f64) -> String {
    format!("{:.3}", nanoseconds / 1e6)
}

/// Writes mean and standard deviation of the latencies of reads, writes and both, leaving out those without I/Os.
fn xml_means(sums: &[Sum; 3], names: [(&str, &str); 3], out: &mut Writer) {
    for (sum, (mean, deviation)) in sums.iter().zip(names).filter(|(sum, _)| sum.ios > 0) {
        out.value(mean, milliseconds(sum.latencies.mean()));
        out.value(deviation, milliseconds(sum.latencies.deviation()));
    }
}

fn xml_percentiles(sums: &[Sum; 3], out: &mut Writer) {
    out.open("Latency ReadHistoBuckets=\"0\" WriteHistoBuckets=\"0\" TotalHistoBuckets=\"0\"");
    let means = [
        ("AverageReadMilliseconds", "ReadLatencyStdev"),
        ("AverageWriteMilliseconds", "WriteLatencyStdev"),
        ("AverageTotalMilliseconds", "LatencyStdev"),
    ];
    xml_means(sums, means, out);
    let mut bucket = |percentile: String, of: &dyn Fn(&Latencies) -> u64| {
        out.open("Bucket");
        out.value("Percentile", percentile);
        let names = ["ReadMilliseconds", "WriteMilliseconds", "TotalMilliseconds"];
        for (sum, name) in sums.iter().zip(names).filter(|(sum, _)| sum.ios > 0) {
            out.value(name, milliseconds(of(&sum.latencies) as f64));
        }
        out.close("Bucket");
    };
    bucket("0".into(), &Latencies::min);
    for percent in 1..=99 {
        bucket(percent.to_string(), &|latencies| latencies.percentile(percent.into()));
    }
    for (name, percent) in &PERCENTILES[6..] {
        let digits = usize::from(name.as_bytes()[0] - b'0') - 2;
        bucket(format!("{percent:.digits$}"), &|latencies| latencies.percentile(*percent));
    }
    bucket("100".into(), &Latencies::max);
    out.close("Latency");
}

fn xml_iops(span: &TimeSpan, sums: &[Sum; 3], out: &mut Writer) {
    out.open("Iops");
    for (sum, name) in sums.iter().zip(["ReadIopsStdDev", "WriteIopsStdDev", "IopsStdDev"]) {
        if sum.ios > 0 {
            out.value(name, format_args!("{:.3}", sum.iops_deviation(span)));
        }
    }
    let buckets = sums[2].timeline.len();
    for bucket in 0..buckets {
        let of = |sum: &Sum| sum.timeline.get(bucket).copied().unwrap_or(0);
        out.line(format_args!(
            "<Bucket SampleMillisecond=\"{}\" Read=\"{}\" Write=\"{}\" Total=\"{}\"/>",
            (bucket as u64 + 1) * u64::from(span.bucket),
            of(&sums[0]),
            of(&sums[1]),
            of(&sums[2])
        ));
    }
    out.close("Iops");
}

fn xml_target(span: &TimeSpan, part: &Part<'_>, worker: &WorkerTally, document: &Document, out: &mut Writer) {
    let one = |of: Of| Sum::of(std::iter::once(worker), of);
    let sums = [one(Of::Reads), one(Of::Writes), one(Of::Total)];
    let [reads, writes, total] = &sums;
    out.open("Target");
    out.values(&[
        ("Path", &part.target.path),
        ("BytesCount", &total.bytes),
        ("FileSize", &part.size(document)),
        ("IOCount", &total.ios),
        ("ReadBytes", &reads.bytes),
        ("ReadCount", &reads.ios),
        ("WriteBytes", &writes.bytes),
        ("WriteCount", &writes.ios),
    ]);
    if span.latency {
        let names = [
            ("AverageReadLatencyMilliseconds", "ReadLatencyStdev"),
            ("AverageWriteLatencyMilliseconds", "WriteLatencyStdev"),
            ("AverageLatencyMilliseconds", "LatencyStdev"),
        ];
        xml_means(&sums, names, out);
    }
    if span.iops_deviation {
        xml_iops(span, &sums, out);
    }
    out.close("Target");
}
