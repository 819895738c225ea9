//! Markdown, for an issue or a wiki.

use super::published;
use super::table::plain_markdown;
use super::tables::{at_the_device, conditions, every_figure, in_a_line};
use super::{answer, beside, grid};
use crate::document::Document;
use std::fmt::Write;

/// Renders the report as Markdown. `published` adds the tables of the published comparisons.
pub fn render(document: &Document, published: bool) -> String {
    let mut text = format!("# {}\n\n", plain_markdown(&answer::question(document)));
    if let Some(why) = &document.partial {
        let _ = writeln!(text, "**Partial: {}.**\n", plain_markdown(why));
    }
    for sentence in &document.answer {
        let _ = writeln!(text, "- {}", plain_markdown(sentence));
    }
    let _ = writeln!(text, "\n{}", plain_markdown(&in_a_line(document)));
    for table in beside::tables(document) {
        let _ = write!(text, "\n{}", table.markdown());
    }
    for workload in document.workloads() {
        let _ = writeln!(text, "\n## {}\n", plain_markdown(grid::title(document, workload)));
        let tables = std::iter::once(grid::shares(document, workload)).chain(grid::pairs(document, workload));
        for table in tables {
            text.push_str(&table.markdown());
            text.push('\n');
        }
    }
    let notes = [beside::notes(document), grid::notes(document), grid::published_sources(document)];
    let notes = notes.into_iter().flatten();
    let machine = document.machine.iter().map(|sentence| format!("The machine: {sentence}."));
    for note in notes.chain(machine) {
        let _ = writeln!(text, "- {}", plain_markdown(&note));
    }
    let mut warnings = document.warnings.iter().map(|warning| plain_markdown(warning)).collect::<Vec<_>>();
    for result in &document.results {
        for warning in &result.warnings {
            let what = format!("{} on {}: {warning}", result.case.label(), result.target);
            warnings.push(plain_markdown(&what));
        }
    }
    if !warnings.is_empty() {
        let _ = writeln!(text, "\n## Warnings\n\n- {}", warnings.join("\n- "));
    }
    text.push_str("\n## Every figure\n\n| Target | | |\n| --- | --- | --- |\n");
    for target in &document.targets {
        let cells = [&target.name, &target.title, &target.details].map(|cell| plain_markdown(cell));
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text.push('\n');
    for workload in document.workloads() {
        let metrics = grid::METRICS.iter().filter_map(|metric| grid::metric(document, workload, metric));
        for table in
            metrics.chain([every_figure(document, workload)]).chain(at_the_device(document, workload))
        {
            text.push_str(&table.markdown());
            text.push('\n');
        }
    }
    text.push_str("## Conditions\n\n| | |\n| --- | --- |\n");
    for (name, value) in conditions(document) {
        let _ = writeln!(text, "| {name} | {} |", plain_markdown(&value));
    }
    if published {
        text.push('\n');
        text.push_str(&published_section());
    }
    text
}

/// The figures that others published.
pub fn published_section() -> String {
    let mut text = String::from("## Published figures\n\n");
    for source in published::sources() {
        let _ = writeln!(text, "### {} ({})\n", plain_markdown(&source.title), source.id);
        for line in source.about() {
            let _ = writeln!(text, "- {}", plain_markdown(&line));
        }
        text.push('\n');
        for table in source.tables() {
            text.push_str(&table.markdown());
            text.push('\n');
        }
        for note in &source.notes {
            let _ = writeln!(text, "> {}\n", plain_markdown(note));
        }
    }
    text
}
