//! The JSON that fio prints with `--output-format=json`, for tools that read it.
//!
//! Each round of a case on a target becomes a job. Facts: fio's `HOWTO`, section "JSON output", and the output of fio
//! 3.33, with which the tests compare this one.

use crate::document::{CaseResult, Direction, Document, Latency, RESPONSE_TIME_BINS_US, Round, Side};
use crate::statistics::total;
use serde_json::{Map, Value, json};

/// Renders the document as fio's JSON.
pub fn render(document: &Document) -> String {
    let rounds = document
        .results
        .iter()
        .enumerate()
        .flat_map(|(group, result)| result.runs.iter().map(move |run| job(document, group, result, run)));
    let jobs: Vec<Value> = rounds.collect();
    let mut whole = json!({
        "fio version": format!("platter-{}", document.environment.platter_version),
        "time": document.created,
        "jobs": jobs,
        "disk_util": [],
    });
    // fio has no such key; tools that read the others pass over it.
    if let Some(why) = &document.partial {
        whole["partial"] = json!(why);
    }
    serde_json::to_string_pretty(&whole).expect("a document is plain values") + "\n"
}

fn job(document: &Document, group: usize, result: &CaseResult, run: &Round) -> Value {
    let case = &result.case;
    let empty = Side::default();
    let whole = Side { iops: run.iops, mb_per_s: run.mb_per_s, latency_us: run.latency_us };
    let (reads, writes) = match case.direction {
        Direction::Read => (whole, empty),
        Direction::Write => (empty, whole),
        Direction::Mix => (run.reads.unwrap_or(empty), run.writes.unwrap_or(empty)),
    };
    let name = format!("{} {} {}", result.target, case.workload, case.label());
    let percent = |seconds: f64| if run.seconds > 0.0 { seconds / run.seconds * 100.0 } else { 0.0 };
    let syncs = run.sync_latency_us.unwrap_or_default();
    json!({
        "jobname": name,
        "groupid": group,
        "error": i32::from(run.errors > 0) * EIO,
        "eta": 0,
        "elapsed": run.seconds.ceil() as u64,
        "job options": {
            "name": name,
            "rw": pattern(case.direction, case.random_percent),
            "bs": case.block_bytes.to_string(),
            "iodepth": case.queue_depth.to_string(),
            "numjobs": case.workers.to_string(),
            "rwmixread": case.read_percent.to_string(),
            "percentage_random": case.random_percent.to_string(),
            "direct": u8::from(document.settings.direct).to_string(),
            "runtime": run.seconds.to_string(),
        },
        "read": side(&reads, run),
        "write": side(&writes, run),
        "trim": side(&empty, run),
        "sync": { "total_ios": syncs.count, "lat_ns": times(&syncs, true) },
        "job_runtime": (run.seconds * 1e3).round() as u64,
        "usr_cpu": percent(run.cpu.user_s),
        "sys_cpu": percent(run.cpu.system_s),
        "latency_ns": shares(run, &NANOSECONDS),
        "latency_us": shares(run, &MICROSECONDS),
        "latency_ms": shares(run, &MILLISECONDS),
    })
}

/// The error number for failed I/Os; the report does not keep the reason of a failure.
const EIO: i32 = 5;

fn pattern(direction: Direction, random_percent: u8) -> &'static str {
    match (direction, random_percent > 0) {
        (Direction::Read, false) => "read",
        (Direction::Read, true) => "randread",
        (Direction::Write, false) => "write",
        (Direction::Write, true) => "randwrite",
        (Direction::Mix, false) => "rw",
        (Direction::Mix, true) => "randrw",
    }
}

/// Returns the object for the reads, writes or trims of a job. Figures that were not measured are 0, as fio prints them
/// for a direction without I/O.
fn side(side: &Side, run: &Round) -> Value {
    let bytes_a_second = side.mb_per_s * 1e6;
    let bytes = (bytes_a_second * run.seconds).round();
    let latency = &side.latency_us;
    // The rates of slices are of both directions together; each direction has a constant share of them.
    let share = if run.iops > 0.0 { side.iops / run.iops } else { 0.0 };
    let rates: Vec<f64> = run.slices.iter().map(|slice| slice.iops * share).collect();
    let rates = Spread::of(if latency.count == 0 { &[] } else { &rates });
    let size = if side.iops > 0.0 { bytes_a_second / side.iops } else { 0.0 };
    let kib = |rate: f64| rate * size / 1024.0;
    let mut of: Map<String, Value> = Map::new();
    let mut set = |name: &str, value: Value| {
        of.insert(name.into(), value);
    };
    set("io_bytes", json!(bytes as u64));
    set("io_kbytes", json!((bytes / 1024.0) as u64));
    set("bw_bytes", json!(bytes_a_second.round() as u64));
    set("bw", json!((bytes_a_second / 1024.0) as u64));
    set("iops", json!(side.iops));
    set("runtime", json!((run.seconds * 1e3).round() as u64));
    set("total_ios", json!(latency.count));
    set("short_ios", json!(0));
    set("drop_ios", json!(0));
    set("slat_ns", times(&Latency::default(), false));
    set("clat_ns", times(latency, true));
    set("lat_ns", times(latency, false));
    set("bw_min", json!(kib(rates.min).round() as u64));
    set("bw_max", json!(kib(rates.max).round() as u64));
    set("bw_agg", json!(if latency.count == 0 { 0.0 } else { 100.0 }));
    set("bw_mean", json!(kib(rates.mean)));
    set("bw_dev", json!(kib(rates.deviation)));
    set("bw_samples", json!(rates.count));
    set("iops_min", json!(rates.min.round() as u64));
    set("iops_max", json!(rates.max.round() as u64));
    set("iops_mean", json!(rates.mean));
    set("iops_stddev", json!(rates.deviation));
    set("iops_samples", json!(rates.count));
    Value::Object(of)
}

/// Returns response times in nanoseconds. The engine measures from just before an I/O is submitted until it is
/// finished: that is fio's `lat`, and also its `clat` if submission takes no time.
fn times(latency: &Latency, with_percentiles: bool) -> Value {
    let ns = |us: f64| (us * 1e3).round() as u64;
    let mut of = json!({
        "min": ns(latency.min.unwrap_or(0.0)),
        "max": ns(latency.max),
        "mean": latency.mean * 1e3,
        "stddev": latency.stddev.unwrap_or(0.0) * 1e3,
        "N": latency.count,
    });
    if with_percentiles && latency.count > 0 {
        let known = [
            (50.0, Some(latency.p50)),
            (90.0, latency.p90),
            (95.0, latency.p95),
            (99.0, latency.p99),
            (99.9, latency.p99_9),
            (99.99, latency.p99_99),
        ];
        let named = known.into_iter().filter_map(|(part, us)| Some((format!("{part:.6}"), json!(ns(us?)))));
        of["percentile"] = Value::Object(named.collect());
    }
    of
}

/// fio's bins of response times, each with its name and its upper edge in nanoseconds; each bin begins at the edge of
/// the one before.
type Bins<const COUNT: usize> = [(&'static str, u64); COUNT];

const fn bins<const COUNT: usize>(edges: [(&'static str, u64); COUNT], unit: u64) -> Bins<COUNT> {
    let mut bins = edges;
    let mut at = 0;
    while at < COUNT {
        bins[at].1 = edges[at].1.saturating_mul(unit);
        at += 1;
    }
    bins
}

const BELOW_1000: [(&str, u64); 10] = [
    ("2", 2),
    ("4", 4),
    ("10", 10),
    ("20", 20),
    ("50", 50),
    ("100", 100),
    ("250", 250),
    ("500", 500),
    ("750", 750),
    ("1000", 1000),
];
const NANOSECONDS: Bins<10> = bins(BELOW_1000, 1);
const MICROSECONDS: Bins<10> = bins(BELOW_1000, 1_000);
const MILLISECONDS: Bins<12> = {
    let [a, b, c, d, e, f, g, h, i, j] = BELOW_1000;
    bins([a, b, c, d, e, f, g, h, i, j, ("2000", 2000), (">=2000", u64::MAX)], 1_000_000)
};

/// Returns the percentage of I/Os in each of fio's bins. The bins of the report are wider than fio's: the I/Os of one
/// are counted in the first of fio's bins that ends no earlier.
fn shares<const COUNT: usize>(run: &Round, bins: &Bins<COUNT>) -> Value {
    let all: u64 = total(run.response_times.iter().copied());
    let ends = RESPONSE_TIME_BINS_US.iter().skip(1).map(|us| us * 1000).chain([u64::MAX]);
    let of: Vec<(u64, u64)> = ends.zip(run.response_times.iter().copied()).collect();
    // I/Os of bins that end at or before this time belong to the next smaller unit.
    let begin = bins[0].1 / 2;
    let mut before = begin;
    let mut shares = Map::new();
    for &(name, end) in bins {
        let own = of.iter().filter(|(own_end, _)| *own_end > before && *own_end <= end);
        let count = total(own.map(|(_, count)| *count));
        shares.insert(name.into(), json!(count as f64 / all.max(1) as f64 * 100.0));
        before = end;
    }
    Value::Object(shares)
}

/// The distribution of the rates of slices.
#[derive(Default)]
struct Spread {
    count: usize,
    min: f64,
    max: f64,
    mean: f64,
    deviation: f64,
}

impl Spread {
    fn of(values: &[f64]) -> Spread {
        if values.is_empty() {
            return Spread::default();
        }
        let count = values.len();
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Spread {
            count,
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(0.0, f64::max),
            mean,
            deviation: (squares / (count - 1).max(1) as f64).sqrt(),
        }
    }
}
