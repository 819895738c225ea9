//! CSV (RFC 4180, UTF-8, line feeds), one line for each run, for a spreadsheet or a data frame.

use super::Document;
use super::document::{CaseResult, Run, Side, Traffic};

/// The columns: name, and the value for a run. Values that were not measured are empty.
type Field = (&'static str, fn(&CaseResult, &Run) -> String);

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
    ("repeat", |_, run| run.repeat.to_string()),
    ("started_at_seconds", |_, run| run.started_at_seconds.to_string()),
    ("seconds", |_, run| run.seconds.to_string()),
    ("iops", |_, run| run.iops.to_string()),
    ("mb_per_s", |_, run| run.mb_per_s.to_string()),
    ("latency_mean_us", |_, run| run.latency_us.mean.to_string()),
    ("latency_p50_us", |_, run| run.latency_us.p50.to_string()),
    ("latency_p90_us", |_, run| run.latency_us.p90.to_string()),
    ("latency_p95_us", |_, run| run.latency_us.p95.to_string()),
    ("latency_p99_us", |_, run| run.latency_us.p99.to_string()),
    ("latency_p99_9_us", |_, run| run.latency_us.p99_9.to_string()),
    ("latency_p99_99_us", |_, run| run.latency_us.p99_99.to_string()),
    ("latency_max_us", |_, run| run.latency_us.max.to_string()),
    ("read_iops", |_, run| side(&run.reads, |side| side.iops)),
    ("read_mb_per_s", |_, run| side(&run.reads, |side| side.mb_per_s)),
    ("read_latency_mean_us", |_, run| side(&run.reads, |side| side.latency_us.mean)),
    ("write_iops", |_, run| side(&run.writes, |side| side.iops)),
    ("write_mb_per_s", |_, run| side(&run.writes, |side| side.mb_per_s)),
    ("write_latency_mean_us", |_, run| side(&run.writes, |side| side.latency_us.mean)),
    ("stalled_seconds", |_, run| run.stalled_seconds.to_string()),
    ("cpu_user_s", |_, run| run.cpu.user_s.to_string()),
    ("cpu_system_s", |_, run| run.cpu.system_s.to_string()),
    ("cpu_us_per_io", |_, run| run.cpu.us_per_io.to_string()),
    ("cpu_percent", |_, run| run.cpu.percent.to_string()),
    ("requested_reads", |_, run| run.requested.reads.to_string()),
    ("requested_read_bytes", |_, run| run.requested.read_bytes.to_string()),
    ("requested_writes", |_, run| run.requested.writes.to_string()),
    ("requested_write_bytes", |_, run| run.requested.write_bytes.to_string()),
    ("device_reads", |_, run| device(run, |device| device.reads)),
    ("device_read_bytes", |_, run| device(run, |device| device.read_bytes)),
    ("device_writes", |_, run| device(run, |device| device.writes)),
    ("device_write_bytes", |_, run| device(run, |device| device.write_bytes)),
    ("device_flushes", |_, run| device(run, |device| device.flushes)),
    ("device_discards", |_, run| device(run, |device| device.discards)),
    ("errors", |_, run| run.errors.to_string()),
    ("verified_blocks", |_, run| run.verified_blocks.to_string()),
    ("corrupted_blocks", |_, run| run.corrupted_blocks.to_string()),
];

/// Every run of the report.
pub fn render(document: &Document) -> String {
    let names: Vec<&str> = FIELDS.iter().map(|(name, _)| *name).collect();
    let mut text = names.join(",") + "\n";
    for result in &document.results {
        for run in &result.runs {
            let values: Vec<String> = FIELDS.iter().map(|(_, value)| quoted(value(result, run))).collect();
            text.push_str(&values.join(","));
            text.push('\n');
        }
    }
    text
}

fn side(side: &Option<Side>, figure: fn(&Side) -> f64) -> String {
    side.as_ref().map_or_else(String::new, |side| figure(side).to_string())
}

fn device(run: &Run, figure: fn(&Traffic) -> u64) -> String {
    run.device.as_ref().map_or_else(String::new, |device| figure(device).to_string())
}

fn quoted(value: String) -> String {
    if value.contains([',', '"', '\n', '\r']) { format!("\"{}\"", value.replace('"', "\"\"")) } else { value }
}
