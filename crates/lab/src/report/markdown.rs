//! Markdown, for an issue or a wiki.

use super::Document;
use super::table::plain_markdown;
use super::tables::{NOISE_MARK, at_the_device, conditions, every_figure, throughput};
use crate::published;
use std::fmt::Write;

/// The report. `published` adds the figures of the published comparisons.
pub fn render(document: &Document, published: bool) -> String {
    let mut text = String::from("# Storage comparison\n\n");
    for verdict in &document.verdicts {
        let _ = writeln!(
            text,
            "**{}**: {}\n",
            plain_markdown(&verdict.workload),
            plain_markdown(&verdict.sentence)
        );
    }
    text.push_str("| Target | | |\n| --- | --- | --- |\n");
    for target in &document.targets {
        let cells = [&target.name, &target.title, &target.details].map(|cell| plain_markdown(cell));
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    for workload in document.workloads() {
        let _ = writeln!(text, "\n## {}\n", plain_markdown(workload));
        let tables = throughput(document, workload, usize::MAX).into_iter();
        for table in tables.chain([every_figure(document, workload)]).chain(at_the_device(document, workload))
        {
            text.push_str(&table.markdown());
            text.push('\n');
        }
    }
    let _ = writeln!(text, "{NOISE_MARK}: within the noise, the runs do not tell which one is faster.");
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
    text.push_str("\n## Conditions\n\n| | |\n| --- | --- |\n");
    for (name, value) in conditions(document) {
        let _ = writeln!(text, "| {name} | {} |", plain_markdown(&value));
    }
    if published {
        text.push('\n');
        text.push_str(&published_section(Some(document)));
    }
    text
}

/// The published figures by themselves, and beside what `document` measured where the two correspond.
pub fn published_section(document: Option<&Document>) -> String {
    let mut text = String::from("## Published figures\n\n");
    for comparison in document.into_iter().flat_map(published::beside) {
        text.push_str(&comparison.markdown());
        text.push('\n');
    }
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
