//! The report for a terminal: the answer, the grids, warnings, and on demand the details.

use super::published;
use super::table::{printable, styled};
use super::tables::{at_the_device, conditions, every_figure, in_a_line};
use super::{Table, answer, beside, grid};
use crate::document::Document;
use std::fmt::Write;

/// The width of a report in columns where the terminal's width is unknown; a single long name may be wider.
pub const WIDTH: usize = 100;

/// What to show of a report, and how.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// The width of the terminal in columns.
    pub width: usize,
    /// Whether to use colours; for a terminal only, not for a file or a pipe.
    pub colour: bool,
    /// Whether to show every figure, and the traffic of the device.
    pub details: bool,
    /// Whether to show the tables of the published comparisons.
    pub published: bool,
}

impl Default for View {
    fn default() -> View {
        View { width: WIDTH, colour: false, details: false, published: false }
    }
}

/// Renders the report.
pub fn render(document: &Document, view: View) -> String {
    let View { width, colour, .. } = view;
    let wrapped = |text: &str, indent: &str| wrapped_to(text, indent, width);
    let mut text = format!("{}\n\n", styled(&answer::question(document), "1", colour));
    if let Some(why) = &document.partial {
        text.push_str(&wrapped(&format!("Partial: {why}."), "  "));
        text.push('\n');
    }
    for sentence in &document.answer {
        text.push_str(&wrapped(sentence, "  "));
    }
    text.push('\n');
    text.push_str(&wrapped(&in_a_line(document), "  "));
    text.push('\n');
    let mut show = |table: Table, keep: usize| {
        for part in table.split(width, keep) {
            text.push_str(&part.terminal(colour));
            text.push('\n');
        }
    };
    beside::tables(document).into_iter().for_each(|table| show(table, 2));
    for workload in document.workloads() {
        show(grid::shares(document, workload), 1);
        if let Some(pairs) = grid::pairs(document, workload) {
            show(pairs, 1);
        }
        // How long programs take is the first question about them.
        if !view.details
            && grid::is_of_programs(&document.cases(workload))
            && let Some(times) = grid::metric(document, workload, &grid::METRICS[0])
        {
            show(times, 1);
        }
    }
    if view.details {
        for workload in document.workloads() {
            for metric in &grid::METRICS {
                if let Some(table) = grid::metric(document, workload, metric) {
                    show(table, 1);
                }
            }
            show(every_figure(document, workload), 2);
            if let Some(table) = at_the_device(document, workload) {
                show(table, 2);
            }
        }
    }
    text.push_str(&below_the_tables(document, view));
    if view.published {
        text.push('\n');
        text.push_str(&published_section(width, colour));
    }
    text
}

/// What the names in the tables stand for, what was noticed and, among the details, the conditions.
fn below_the_tables(document: &Document, view: View) -> String {
    let View { width, colour, .. } = view;
    let wrapped = |text: &str, indent: &str| wrapped_to(text, indent, width);
    let mut text = String::new();
    for target in document.targets.iter().filter(|target| target.short != target.name) {
        text.push_str(&wrapped(&format!("{} is {}: {}", target.short, target.name, target.details), "  "));
    }
    let notes = [beside::notes(document), grid::notes(document), grid::published_sources(document)];
    for note in notes.iter().flatten() {
        text.push_str(&wrapped(note, "  "));
    }
    for sentence in &document.machine {
        text.push_str(&wrapped(&format!("The machine: {sentence}."), "  "));
    }
    if !document.warnings.is_empty() {
        let _ = writeln!(text, "\n{}", styled("Warnings", "1;33", colour));
        for warning in &document.warnings {
            text.push_str(&wrapped(warning, "  "));
        }
    }
    for result in document.results.iter().filter(|result| !result.warnings.is_empty()) {
        let what = format!("{} on {}: {}", result.case.label(), result.target, result.warnings.join("; "));
        text.push_str(&wrapped(&what, "    "));
    }
    if view.details {
        let _ = writeln!(text, "\n{}", styled("Conditions", "1", colour));
        for (name, value) in conditions(document) {
            text.push_str(&wrapped(&format!("{name:<14} {value}"), "  "));
        }
    }
    text
}

/// The figures that others published.
pub fn published_section(width: usize, colour: bool) -> String {
    let mut text = String::new();
    for source in published::sources() {
        let _ = writeln!(text, "{}", styled(&format!("{} ({})", source.title, source.id), "1", colour));
        for line in source.about() {
            text.push_str(&wrapped_to(&line, "  ", width));
        }
        text.push('\n');
        for part in source.tables().into_iter().flat_map(|table| table.split(width, 1)) {
            text.push_str(&part.terminal(colour));
            text.push('\n');
        }
        for note in &source.notes {
            text.push_str(&wrapped_to(note, "  ", width));
        }
        text.push('\n');
    }
    text
}

/// Breaks lines between words at [`WIDTH`] columns; lines after the first are indented by two more columns.
pub(super) fn wrapped(text: &str, indent: &str) -> String {
    wrapped_to(text, indent, WIDTH)
}

fn wrapped_to(text: &str, indent: &str, width: usize) -> String {
    let mut lines = String::new();
    let mut line = String::from(indent);
    let mut empty = true;
    for word in printable(text).split(' ') {
        if !empty && line.chars().count() + 1 + word.chars().count() > width {
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
