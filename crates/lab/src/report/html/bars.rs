//! Bars: one card for each case, one bar for each target, four figures to switch between without a script.

use super::super::document::{Case, CaseResult, Document, Range};
use super::super::{format, tables};
use super::{colour, escape};
use std::fmt::Write;

/// A figure that the cards can show.
struct Metric {
    name: &'static str,
    hint: &'static str,
    value: fn(&CaseResult) -> f64,
    range: fn(&CaseResult) -> Range,
    show: fn(f64) -> String,
}

const METRICS: [Metric; 4] = [
    Metric {
        name: "MB/s",
        hint: "more is better",
        value: |result| result.mb_per_s,
        range: |result| result.spread.mb_per_s,
        show: format::figure,
    },
    Metric {
        name: "IOPS",
        hint: "more is better",
        value: |result| result.iops,
        range: |result| result.spread.iops,
        show: format::count,
    },
    Metric {
        name: "p99 latency",
        hint: "less is better",
        value: |result| result.latency_us.p99,
        range: |result| over_runs(result, |run| run.latency_us.p99),
        show: format::micros,
    },
    Metric {
        name: "CPU per I/O",
        hint: "less is better",
        value: |result| result.cpu.us_per_io,
        range: |result| over_runs(result, |run| run.cpu.us_per_io),
        show: |us| format!("{us:.2} µs"),
    },
];

fn over_runs(result: &CaseResult, figure: fn(&super::super::document::Run) -> f64) -> Range {
    crate::statistics::range(&result.runs.iter().map(figure).collect::<Vec<_>>())
}

/// All cases of a workload.
pub fn cards(document: &Document, workload: &str, index: usize) -> String {
    let first = usize::from(tables::counts_iops(document, workload));
    let mut html = String::from("<div class=metrics>");
    for (number, metric) in METRICS.iter().enumerate() {
        let checked = if number == first { " checked" } else { "" };
        let _ = write!(
            html,
            "<input type=radio name=m{index} id=m{index}-{number} class=m{number}{checked}>\
             <label for=m{index}-{number}>{} <span>{}</span></label>",
            metric.name, metric.hint
        );
    }
    html.push_str("<p class=note>Each card has its own scale. Percentages compare with ");
    html.push_str(&escape(tables::baseline_name(document)));
    html.push_str("; ≈ is within the noise.</p>");
    for (number, metric) in METRICS.iter().enumerate() {
        let _ = write!(html, "<div class=\"cards v{number}\">");
        for case in ordered(document.cases(workload)) {
            html.push_str(&card(document, case, metric));
        }
        html.push_str("</div>");
    }
    html + "</div>"
}

/// The cases so that those of one name stand together: read, write and mix in a row, as CrystalDiskMark shows them.
pub fn ordered(cases: Vec<&Case>) -> Vec<&Case> {
    let first = |case: &Case| cases.iter().position(|other| other.name == case.name);
    let mut sorted = cases.clone();
    sorted.sort_by_key(|case| (first(case), case.direction));
    sorted
}

/// The load in the field's words.
pub fn load(case: &Case) -> String {
    let order = match case.random_percent {
        0 => "sequential".into(),
        100 => "random".into(),
        percent => format!("{percent} % random"),
    };
    let outstanding =
        format!("{} outstanding × {} {}", case.queue_depth, case.workers, workers(case.workers));
    let reads = match case.read_percent {
        0 | 100 => String::new(),
        percent => format!(", {percent} % reads"),
    };
    format!("{} {order}{reads}, {outstanding}", format::size(case.block_bytes))
}

fn workers(count: u32) -> &'static str {
    if count == 1 { "worker" } else { "workers" }
}

fn card(document: &Document, case: &Case, metric: &Metric) -> String {
    let results: Vec<&CaseResult> =
        document.targets.iter().filter_map(|target| document.find(&target.name, case)).collect();
    let top = results
        .iter()
        .map(|result| (metric.range)(result).max.max((metric.value)(result)))
        .fold(0.0, f64::max);
    let baseline = tables::baseline_name(document);
    let base = document.find(baseline, case).map(|result| (metric.value)(result));
    let percent = |value: f64| if top > 0.0 { (value / top * 100.0).clamp(0.0, 100.0) } else { 0.0 };
    let mut html = format!(
        "<table class=card><caption><b>{}</b><span>{}</span></caption><tbody>",
        escape(&case.label()),
        escape(&load(case))
    );
    for result in results {
        let value = (metric.value)(result);
        let range = (metric.range)(result);
        let (from, to) = (percent(range.min), percent(range.max));
        let relative = match base {
            Some(base) if result.target != baseline && base > 0.0 => {
                let noise =
                    document.relative_to(result, baseline).is_some_and(|relative| relative.within_noise);
                let throughput = metric.hint.starts_with("more");
                let mark = if noise && throughput { "≈ " } else { "" };
                let class = if noise && throughput { " class=faint" } else { "" };
                format!("<span{class}>{mark}{}</span>", format::change(value / base))
            }
            _ => String::new(),
        };
        let title = format!(
            "{}: {}, runs from {} to {}",
            result.target,
            (metric.show)(value),
            (metric.show)(range.min),
            (metric.show)(range.max)
        );
        let _ = write!(
            html,
            "<tr class={} title=\"{}\"><th scope=row>{}</th><td class=track><div class=bar style=\"width:{:.1}%\"></div>\
             <div class=whisker style=\"left:{from:.1}%;width:{:.1}%\"></div></td><td class=n>{}</td><td class=\"n rel\">{relative}</td></tr>",
            colour(document, &result.target),
            escape(&title),
            escape(&result.target),
            percent(value),
            to - from,
            (metric.show)(value),
        );
    }
    html + "</tbody></table>"
}
