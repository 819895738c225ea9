//! For a terminal: verdicts, the tables people compare, warnings and conditions, in at most 100 columns.

use super::Document;
use super::table::{printable, styled};
use super::tables::{NOISE_MARK, conditions, cpu, latency, throughput};
use crate::published;
use std::fmt::Write;

/// Columns that a report takes at most, unless a single name is wider.
pub const WIDTH: usize = 100;

/// How many results with warnings are named: on a busy machine nearly all have some.
const NAMED: usize = 6;

/// The report. `colour` is for a terminal only; a file or a pipe wants plain text. `published` adds the figures of the
/// published comparisons.
pub fn render(document: &Document, colour: bool, published: bool) -> String {
    let mut text = String::new();
    for verdict in &document.verdicts {
        let _ = writeln!(text, "{}", styled(&verdict.workload, "1", colour));
        text.push_str(&wrapped(&verdict.sentence, "  "));
        text.push('\n');
    }
    for workload in document.workloads() {
        let tables = [throughput, latency, cpu].map(|tables| tables(document, workload, WIDTH));
        for table in tables.iter().flatten() {
            text.push_str(&table.terminal(colour));
            text.push('\n');
        }
    }
    if document
        .results
        .iter()
        .any(|result| result.relative_to_raw.is_some_and(|relative| relative.within_noise))
    {
        let _ = writeln!(text, "{NOISE_MARK}  within the noise: the runs do not tell which one is faster.\n");
    }
    if !document.warnings.is_empty() {
        let _ = writeln!(text, "{}", styled("Warnings", "1;33", colour));
        for warning in &document.warnings {
            text.push_str(&wrapped(warning, "  "));
        }
        let doubtful = || document.results.iter().filter(|result| !result.warnings.is_empty());
        for result in doubtful().take(NAMED) {
            let what =
                format!("{} on {}: {}", result.case.label(), result.target, result.warnings.join("; "));
            text.push_str(&wrapped(&what, "    "));
        }
        if let more @ 1.. = doubtful().count().saturating_sub(NAMED) {
            text.push_str(&wrapped(&format!("and {more} more results, named in the other reports"), "    "));
        }
        text.push('\n');
    }
    let _ = writeln!(text, "{}", styled("Conditions", "1", colour));
    for (name, value) in conditions(document) {
        text.push_str(&wrapped(&format!("{name:<11} {value}"), "  "));
    }
    if published {
        text.push('\n');
        text.push_str(&published_section(Some(document), colour));
    }
    text
}

/// The published figures by themselves, and beside what `document` measured where the two correspond.
pub fn published_section(document: Option<&Document>, colour: bool) -> String {
    let mut text = String::new();
    for comparison in document.into_iter().flat_map(published::beside) {
        text.push_str(&comparison.terminal(colour));
        text.push('\n');
    }
    for source in published::sources() {
        let _ = writeln!(text, "{}", styled(&format!("{} ({})", source.title, source.id), "1", colour));
        for line in source.about() {
            text.push_str(&wrapped(&line, "  "));
        }
        text.push('\n');
        for table in source.tables() {
            text.push_str(&table.terminal(colour));
            text.push('\n');
        }
        for note in &source.notes {
            text.push_str(&wrapped(note, "  "));
        }
        text.push('\n');
    }
    text
}

/// Breaks lines between words; lines after the first are indented by two more.
pub(super) fn wrapped(text: &str, indent: &str) -> String {
    let mut lines = String::new();
    let mut line = String::from(indent);
    let mut empty = true;
    for word in printable(text).split(' ') {
        if !empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push_str(line.trim_end());
            lines.push('\n');
            line = format!("{indent}  ");
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    lines.push_str(line.trim_end());
    lines.push('\n');
    lines
}
