//! Two saved reports side by side: what became faster or slower, and what else was different.

use super::document::{Document, Relative};
use super::table::{plain_markdown, styled};
use super::tables::{NOISE_MARK, conditions, relative_cell};
use super::terminal::wrapped;
use super::{Cell, Column, Table, format};
use crate::statistics::{geometric_mean, relative};
use std::fmt::Write;

/// What differs between two reports.
#[derive(Clone, Debug, PartialEq)]
pub struct Diff {
    /// Conditions that differ: name, before, after.
    pub conditions: Vec<(String, String, String)>,
    /// Every case that both measured on a target of the same name.
    pub cases: Vec<CaseDiff>,
    /// `CASE on TARGET` that only the first measured.
    pub only_before: Vec<String>,
    /// `CASE on TARGET` that only the second measured.
    pub only_after: Vec<String>,
}

/// One case on one target, before and after.
#[derive(Clone, Debug, PartialEq)]
pub struct CaseDiff {
    /// The workload.
    pub workload: String,
    /// The case with its direction.
    pub case: String,
    /// The target.
    pub target: String,
    /// Whether the load differs although the name is the same: block size, depth, workers, shares or durability.
    pub another_load: bool,
    /// Median throughput before, MB/s.
    pub before: f64,
    /// Median throughput after, MB/s.
    pub after: f64,
    /// After as a multiple of before; `None` where there are no runs.
    pub relative: Option<Relative>,
}

impl Diff {
    /// Compares two reports.
    pub fn new(before: &Document, after: &Document) -> Self {
        let mut diff = Diff {
            conditions: Vec::new(),
            cases: Vec::new(),
            only_before: Vec::new(),
            only_after: Vec::new(),
        };
        for ((name, old), (_, new)) in conditions(before).into_iter().zip(conditions(after)) {
            // Two runs never start at the same time: that is no difference worth a line.
            if old != new && name != "Started" {
                diff.conditions.push((name.into(), old, new));
            }
        }
        for old in &before.results {
            let label = old.case.label();
            let Some(new) = after.find(&old.target, &old.case) else {
                diff.only_before.push(format!("{}: {label} on {}", old.case.workload, old.target));
                continue;
            };
            diff.cases.push(CaseDiff {
                workload: old.case.workload.clone(),
                case: label,
                target: old.target.clone(),
                another_load: old.case != new.case,
                before: old.mb_per_s,
                after: new.mb_per_s,
                relative: relative(&new.throughputs(), &old.throughputs()),
            });
        }
        for new in after.results.iter().filter(|new| before.find(&new.target, &new.case).is_none()) {
            diff.only_after.push(format!("{}: {} on {}", new.case.workload, new.case.label(), new.target));
        }
        diff
    }

    /// For a terminal.
    pub fn terminal(&self, colour: bool) -> String {
        let mut text = wrapped(&self.summary(), "");
        for table in self.tables() {
            text.push('\n');
            text.push_str(&table.terminal(colour));
        }
        let _ = writeln!(text, "\n{NOISE_MARK}  within the noise: the runs do not tell which one is faster.");
        for (title, lines) in self.lists() {
            let _ = writeln!(text, "\n{}", styled(title, "1", colour));
            for line in lines {
                text.push_str(&wrapped(&line, "  "));
            }
        }
        text
    }

    /// As Markdown.
    pub fn markdown(&self) -> String {
        let mut text = format!("# Two reports compared\n\n{}\n", plain_markdown(&self.summary()));
        for table in self.tables() {
            text.push('\n');
            text.push_str(&table.markdown());
        }
        let _ = writeln!(text, "\n{NOISE_MARK}: within the noise, the runs do not tell which one is faster.");
        for (title, lines) in self.lists() {
            let _ = writeln!(text, "\n## {title}\n");
            for line in lines {
                let _ = writeln!(text, "- {}", plain_markdown(&line));
            }
        }
        text
    }

    fn summary(&self) -> String {
        let relatives: Vec<Relative> = self.cases.iter().filter_map(|case| case.relative).collect();
        if relatives.is_empty() {
            return "The reports have no case on the same target in common.".into();
        }
        let count = |is: fn(&Relative) -> bool| relatives.iter().filter(|relative| is(relative)).count();
        let ratios: Vec<f64> = relatives.iter().map(|relative| relative.ratio).collect();
        format!(
            "{} cases in common: {} faster, {} slower, {} within the noise; throughput {} on average (geometric mean).",
            relatives.len(),
            count(|relative| !relative.within_noise && relative.ratio > 1.0),
            count(|relative| !relative.within_noise && relative.ratio < 1.0),
            count(|relative| relative.within_noise),
            format::change(geometric_mean(&ratios)),
        )
    }

    fn tables(&self) -> Vec<Table> {
        let mut workloads: Vec<&str> = Vec::new();
        for case in &self.cases {
            if !workloads.contains(&case.workload.as_str()) {
                workloads.push(&case.workload);
            }
        }
        let of = |workload: &str| Table {
            caption: format!("{workload}: MB/s before and after"),
            columns: vec![
                Column::words("Case"),
                Column::words("Target"),
                Column::figures("Before"),
                Column::figures("After"),
                Column::figures("Rel. %"),
                Column::words(""),
            ],
            rows: self
                .cases
                .iter()
                .filter(|case| case.workload == workload)
                .map(|case| {
                    vec![
                        Cell::plain(&case.case),
                        Cell::plain(&case.target),
                        Cell::plain(format::figure(case.before)),
                        Cell::plain(format::figure(case.after)),
                        relative_cell(case.relative),
                        Cell::plain(if case.another_load { "another load" } else { "" }),
                    ]
                })
                .collect(),
        };
        workloads.into_iter().map(of).collect()
    }

    fn lists(&self) -> Vec<(&'static str, Vec<String>)> {
        let conditions = self
            .conditions
            .iter()
            .map(|(name, old, new)| format!("{name}: {old} → {new}"))
            .collect::<Vec<_>>();
        let all = [
            ("Conditions that differ", conditions),
            ("Only in the first", self.only_before.clone()),
            ("Only in the second", self.only_after.clone()),
        ];
        all.into_iter().filter(|(_, lines)| !lines.is_empty()).collect()
    }
}
