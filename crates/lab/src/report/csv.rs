//! CSV (RFC 4180, UTF-8, line feeds) for spreadsheets and data frames: one line for each ratio, and one for each result
//! that has no ratio.

use crate::document::{CaseResult, Document, Estimate, Round};
use crate::statistics::total;

/// A column: its name, and the function that gives its value. A value that was not measured is empty.
type Field = (&'static str, fn(&CaseResult, Option<&Estimate>) -> String);

const FIELDS: &[Field] = &[
    ("target", |result, _| result.target.clone()),
    ("workload", |result, _| result.case.workload.clone()),
    ("case", |result, _| result.case.name.clone()),
    ("direction", |result, _| result.case.direction.name().into()),
    ("block_bytes", |result, _| result.case.block_bytes.to_string()),
    ("queue_depth", |result, _| result.case.queue_depth.to_string()),
    ("workers", |result, _| result.case.workers.to_string()),
    ("random_percent", |result, _| result.case.random_percent.to_string()),
    ("read_percent", |result, _| result.case.read_percent.to_string()),
    ("durability", |result, _| result.case.durability.clone()),
    ("base", |_, estimate| estimate.map_or_else(String::new, |estimate| estimate.base.clone())),
    ("ratio", |_, estimate| figure(estimate.map(|estimate| estimate.ratio))),
    ("low", |_, estimate| figure(estimate.and_then(|estimate| estimate.low))),
    ("high", |_, estimate| figure(estimate.and_then(|estimate| estimate.high))),
    ("verdict", |_, estimate| estimate.map_or_else(String::new, |estimate| estimate.verdict.name().into())),
    ("resolution_percent", |_, estimate| figure(estimate.and_then(|estimate| estimate.resolution_percent))),
    ("passes", |_, estimate| estimate.map_or_else(String::new, |estimate| estimate.passes.to_string())),
    ("iops", |result, _| result.iops.to_string()),
    ("mb_per_s", |result, _| result.mb_per_s.to_string()),
    ("latency_mean_us", |result, _| result.latency_us.mean.to_string()),
    ("latency_p50_us", |result, _| result.latency_us.p50.to_string()),
    ("latency_p90_us", |result, _| figure(result.latency_us.p90)),
    ("latency_p95_us", |result, _| figure(result.latency_us.p95)),
    ("latency_p99_us", |result, _| figure(result.latency_us.p99)),
    ("latency_p99_9_us", |result, _| figure(result.latency_us.p99_9)),
    ("latency_p99_99_us", |result, _| figure(result.latency_us.p99_99)),
    ("latency_max_us", |result, _| result.latency_us.max.to_string()),
    ("sync_latency_p50_us", |result, _| figure(result.sync_latency_us.map(|latency| latency.p50))),
    ("sync_latency_p99_us", |result, _| figure(result.sync_latency_us.and_then(|latency| latency.p99))),
    ("amplification", |result, _| figure(result.amplification)),
    ("cpu_us_per_io", |result, _| result.cpu.us_per_io.to_string()),
    ("cpu_percent", |result, _| result.cpu.percent.to_string()),
    ("seconds", |result, _| seconds(result, |run| run.seconds)),
    ("stalled_seconds", |result, _| seconds(result, |run| run.stalled_seconds)),
    ("background_seconds", |result, _| seconds(result, |run| run.background_seconds)),
    ("requested_reads", |result, _| sum(result, |run| run.requested.reads)),
    ("requested_writes", |result, _| sum(result, |run| run.requested.writes)),
    ("device_reads", |result, _| device(result, |run| run.device.as_ref().map(|device| device.reads))),
    ("device_writes", |result, _| device(result, |run| run.device.as_ref().map(|device| device.writes))),
    ("device_flushes", |result, _| device(result, |run| run.device.as_ref().map(|device| device.flushes))),
    ("errors", |result, _| sum(result, |run| run.errors)),
    ("verified_blocks", |result, _| sum(result, |run| run.verified_blocks)),
    ("corrupted_blocks", |result, _| sum(result, |run| run.corrupted_blocks)),
];

/// The name of the last column: why the report holds less than was asked for, the same in every line; empty if it is
/// complete.
const PARTIAL: &str = "partial";

/// Returns every ratio of the report, and the results that have none, as CSV.
pub fn render(document: &Document) -> String {
    let names: Vec<&str> = FIELDS.iter().map(|(name, _)| *name).chain([PARTIAL]).collect();
    let mut text = names.join(",") + "\n";
    let partial = quoted(document.partial.clone().unwrap_or_default());
    for result in &document.results {
        let ratios: Vec<Option<&Estimate>> = match result.estimates.is_empty() {
            true => vec![None],
            false => result.estimates.iter().map(Some).collect(),
        };
        for estimate in ratios {
            let values: Vec<String> = FIELDS
                .iter()
                .map(|(_, value)| quoted(value(result, estimate)))
                .chain([partial.clone()])
                .collect();
            text.push_str(&values.join(","));
            text.push('\n');
        }
    }
    text
}

fn figure(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn seconds(result: &CaseResult, figure: fn(&Round) -> f64) -> String {
    result.runs.iter().map(figure).sum::<f64>().to_string()
}

fn sum(result: &CaseResult, count: fn(&Round) -> u64) -> String {
    total(result.runs.iter().map(count)).to_string()
}

/// Sums a count of the device over all runs; empty where the device was not observed.
fn device(result: &CaseResult, count: fn(&Round) -> Option<u64>) -> String {
    let counts: Option<Vec<u64>> = result.runs.iter().map(count).collect();
    counts
        .filter(|counts| !counts.is_empty())
        .map_or_else(String::new, |counts| total(counts.into_iter()).to_string())
}

/// Quotes a value where the format needs it. A text that a spreadsheet would take for a formula gets an apostrophe
/// before it, as names of cases and targets come from files of others; numbers stay as they are.
fn quoted(value: String) -> String {
    let is_formula = value.starts_with(['=', '+', '-', '@', '\t', '\r']) && value.parse::<f64>().is_err();
    let value = if is_formula { format!("'{value}") } else { value };
    if value.contains([',', '"', '\n', '\r']) { format!("\"{}\"", value.replace('"', "\"\"")) } else { value }
}
