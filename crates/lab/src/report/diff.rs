//! Two saved reports compared: which cases became faster or slower, and which conditions differ.

use super::document::{CaseResult, Document};
use super::table::{plain_markdown, styled};
use super::tables::conditions;
use super::terminal::wrapped;
use super::uncertain;
use super::{Cell, Column, Table, Tone, format};
use crate::estimate;
use std::fmt::Write;

/// The differences between two reports.
#[derive(Clone, Debug, PartialEq)]
pub struct Diff {
    /// For each report that holds less than was asked for, a sentence with the reason.
    pub partial: Vec<String>,
    /// The conditions that differ: name, value before, value after.
    pub conditions: Vec<(String, String, String)>,
    /// Every case that both reports measured on a target of the same name.
    pub cases: Vec<CaseDiff>,
    /// The cases that only the first report measured, as `CASE on TARGET`.
    pub only_before: Vec<String>,
    /// The cases that only the second report measured, as `CASE on TARGET`.
    pub only_after: Vec<String>,
}

/// One case on one target in both reports.
#[derive(Clone, Debug, PartialEq)]
pub struct CaseDiff {
    /// The name of the workload.
    pub workload: String,
    /// The name of the case with its direction.
    pub case: String,
    /// The name of the target.
    pub target: String,
    /// Whether the load differs although the name is the same: block size, depth, workers, shares or durability.
    pub another_load: bool,
    /// Throughput before, MB/s.
    pub before: f64,
    /// Throughput after, MB/s.
    pub after: f64,
    /// The throughput after divided by that before; `None` if that is not a positive number.
    pub ratio: Option<f64>,
    /// Half the width of the ratio's confidence interval, as a share of the ratio, from the scatter of slices within
    /// each report; `None` where there are too few slices.
    pub uncertainty: Option<f64>,
}

impl CaseDiff {
    /// Whether the slices are enough to say which report is faster, and the loads are the same.
    pub fn is_told(&self) -> bool {
        let far =
            self.ratio.zip(self.uncertainty).is_some_and(|(ratio, half)| ratio.ln().abs() > half.ln_1p());
        far && !self.another_load
    }
}

const NOTE: &str = "Two reports lie apart in time: what else the machine did is in every difference. Faint ones could be chance.";

/// Formats a change with its uncertainty: `−27 % ±3` or `+100 % (+9.8 to +264)`.
fn change(case: &CaseDiff) -> Cell {
    let Some(ratio) = case.ratio.filter(|_| !case.another_load) else { return Cell::default() };
    let text = match case.uncertainty {
        Some(half) => uncertain::change(ratio, half.ln_1p()),
        None => format!("{} ?", format::change(ratio)),
    };
    match case.is_told() {
        true if ratio < 1.0 => Cell::toned(text, Tone::Worse(2)),
        true => Cell::toned(text, Tone::Better(2)),
        false => Cell::toned(text, Tone::Faint),
    }
}

/// Returns the ratio of the two rates and its uncertainty. The error rate is divided by the number of `cases`, so that
/// it holds for all cases together (Bonferroni).
fn compared(before: &CaseResult, after: &CaseResult, cases: usize) -> (Option<f64>, Option<f64>) {
    let ratio = after.mb_per_s / before.mb_per_s;
    let rates = |result: &CaseResult| result.slices().map(|(_, slice)| slice.iops).collect::<Vec<f64>>();
    let difference = estimate::apart(&rates(after), &rates(before));
    let half = difference.half_width(estimate::ERRORS / cases.max(1) as f64);
    (ratio.is_finite().then_some(ratio).filter(|ratio| *ratio > 0.0), (half < 100.0).then(|| half.exp_m1()))
}

impl Diff {
    /// Compares two reports.
    pub fn new(before: &Document, after: &Document) -> Self {
        let partial = [("first", before), ("second", after)];
        let partial = partial.into_iter().filter_map(|(which, document)| {
            let why = document.partial.as_ref()?;
            Some(format!("The {which} report is partial: {why}."))
        });
        let mut diff = Diff {
            partial: partial.collect(),
            conditions: Vec::new(),
            cases: Vec::new(),
            only_before: Vec::new(),
            only_after: Vec::new(),
        };
        for ((name, old), (_, new)) in conditions(before).into_iter().zip(conditions(after)) {
            // The start always differs, and the level ("Told") follows from the figures: neither is worth a line.
            if old != new && !["Started", "Told"].contains(&name) {
                diff.conditions.push((name.into(), old, new));
            }
        }
        for old in &before.results {
            let label = old.case.label();
            let Some(new) = after.find(&old.target, &old.case) else {
                diff.only_before.push(format!("{}: {label} on {}", old.case.workload, old.target));
                continue;
            };
            let (ratio, uncertainty) = compared(old, new, before.results.len());
            diff.cases.push(CaseDiff {
                workload: old.case.workload.clone(),
                case: label,
                target: old.target.clone(),
                another_load: old.case != new.case,
                before: old.mb_per_s,
                after: new.mb_per_s,
                ratio,
                uncertainty,
            });
        }
        for new in after.results.iter().filter(|new| before.find(&new.target, &new.case).is_none()) {
            diff.only_after.push(format!("{}: {} on {}", new.case.workload, new.case.label(), new.target));
        }
        diff
    }

    /// Renders the differences for a terminal.
    pub fn terminal(&self, colour: bool) -> String {
        let mut text: String = self.partial.iter().map(|sentence| wrapped(sentence, "")).collect();
        text.push_str(&wrapped(&self.summary(), ""));
        for table in self.tables() {
            text.push('\n');
            text.push_str(&table.terminal(colour));
        }
        let _ = write!(text, "\n{}", wrapped(NOTE, ""));
        for (title, lines) in self.lists() {
            let _ = writeln!(text, "\n{}", styled(title, "1", colour));
            for line in lines {
                text.push_str(&wrapped(&line, "  "));
            }
        }
        text
    }

    /// Renders the differences as Markdown.
    pub fn markdown(&self) -> String {
        let mut text = String::from("# Two reports compared\n");
        for sentence in &self.partial {
            let _ = writeln!(text, "\n**{}**", plain_markdown(sentence));
        }
        let _ = writeln!(text, "\n{}", plain_markdown(&self.summary()));
        for table in self.tables() {
            text.push('\n');
            text.push_str(&table.markdown());
        }
        let _ = writeln!(text, "\n{NOTE}");
        for (title, lines) in self.lists() {
            let _ = writeln!(text, "\n## {title}\n");
            for line in lines {
                let _ = writeln!(text, "- {}", plain_markdown(&line));
            }
        }
        text
    }

    fn summary(&self) -> String {
        if self.cases.is_empty() {
            return "The reports have no case on the same target in common.".into();
        }
        let count = |is: fn(&CaseDiff) -> bool| self.cases.iter().filter(|case| is(case)).count();
        let faster = count(|case| case.is_told() && case.ratio.is_some_and(|ratio| ratio > 1.0));
        let slower = count(|case| case.is_told() && case.ratio.is_some_and(|ratio| ratio < 1.0));
        let others = count(|case| case.another_load);
        let mut text = format!(
            "{} cases in common: {faster} faster, {slower} slower, {} not told apart",
            self.cases.len(),
            self.cases.len() - faster - slower - others,
        );
        if others > 0 {
            let _ = write!(text, ", {others} under another load, which are not compared");
        }
        text + "."
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
                Column::figures("Change"),
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
                        change(case),
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
