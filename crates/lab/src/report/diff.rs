//! Two saved reports compared: which cases became faster or slower, and which conditions differ.

use super::table::{plain_markdown, styled};
use super::tables::conditions;
use super::terminal::wrapped;
use super::uncertain;
use super::{Cell, Column, Table, Tone};
use crate::document::{CaseResult, Document};
use crate::estimate::{self, Difference, Scatter};
use crate::format;
use std::fmt::Write;

/// The differences between two reports.
#[derive(Clone, Debug, PartialEq)]
pub struct Diff {
    /// For each report that holds less than was asked for, a sentence with the reason.
    pub partial: Vec<String>,
    /// On what the intervals rest, in a sentence: on rounds, or on what two runs of the same thing show here.
    pub basis: String,
    /// The conditions that differ: name, value before, value after.
    pub conditions: Vec<(String, String, String)>,
    /// Every case that both reports measured on a target of the same name.
    pub cases: Vec<CaseDiff>,
    /// The cases that only the first report measured, as `CASE on TARGET`.
    pub only_before: Vec<String>,
    /// The cases that only the second report measured, as `CASE on TARGET`.
    pub only_after: Vec<String>,
}

/// The workload of programs, whose rate is not one of bytes.
const PROGRAMS: &str = "programs";

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
    /// Throughput before, MB/s; of a program its runs in a second.
    pub before: f64,
    /// Throughput after, MB/s; of a program its runs in a second.
    pub after: f64,
    /// The throughput after divided by that before; `None` if that is not a positive number.
    pub ratio: Option<f64>,
    /// Half the width of the ratio's confidence interval, as a share of the ratio, from the scatter between rounds, or
    /// between runs and between slices; `None` where that is not known.
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

/// On what the intervals of two reports rest.
enum Basis {
    /// On the rounds of each report: the scatter between them contains what the machine does from minute to minute.
    Rounds,
    /// Each report is one run: on the scatter between the runs, over all cases, and on that of slices.
    Runs(Option<Scatter>),
}

impl Basis {
    fn of(before: &Document, after: &Document) -> Basis {
        let is_repeated = |document: &Document| {
            document.results.iter().all(|result| rounds(result).len() >= estimate::LEAST_PASSES)
        };
        if is_repeated(before) && is_repeated(after) {
            return Basis::Rounds;
        }
        let pairs = before.results.iter().filter_map(|old| Some((old, after.find(&old.target, &old.case)?)));
        let ratios: Vec<f64> = pairs.filter_map(|(old, new)| ratio(old, new)).collect();
        Basis::Runs(estimate::between_runs(&ratios))
    }

    /// Returns half the width of the interval of the logarithm of a ratio. The error rate is divided by the number of
    /// `cases`, so that it holds for all cases together (Bonferroni).
    fn half(&self, before: &CaseResult, after: &CaseResult, cases: usize) -> f64 {
        let level = estimate::ERRORS / cases.max(1) as f64;
        let slices = |result: &CaseResult| result.slices().map(|(_, slice)| slice.iops).collect::<Vec<f64>>();
        match self {
            Basis::Rounds => estimate::apart(&rounds(after), &rounds(before)).half_width(level),
            Basis::Runs(None) => f64::INFINITY,
            Basis::Runs(Some(scatter)) => {
                estimate::apart(&slices(after), &slices(before)).with(*scatter).half_width(level)
            }
        }
    }

    fn sentence(&self, cases: usize) -> String {
        match self {
            Basis::Rounds => {
                "Intervals rest on the scatter between the rounds of each report; what the machine did differently in all \
                 rounds of one of them is in the differences."
                    .into()
            }
            Basis::Runs(None) => {
                "One run each, with too few cases to know what two runs of the same thing show here: no difference is told. \
                 Four rounds each (--repeat 4) tell."
                    .into()
            }
            Basis::Runs(Some(scatter)) => {
                let alone = Difference { logarithm: 0.0, error: 0.0, freedom: 1.0 }.with(*scatter);
                let half = alone.half_width(estimate::ERRORS / cases.max(1) as f64);
                let limit = match half.exp_m1() * 100.0 {
                    percent if percent < 1000.0 => format!("{}\u{a0}%", format::percent_up(percent)),
                    _ => "the tenfold".into(),
                };
                format!(
                    "One run each: differences below {limit} are what two runs of the same thing show here, if most cases did \
                     not change. Where all changed alike, only rounds (--repeat 4 in both) tell."
                )
            }
        }
    }
}

/// The rates of the rounds of a result.
fn rounds(result: &CaseResult) -> Vec<f64> {
    result.runs.iter().map(|run| run.iops).filter(|iops| *iops > 0.0).collect()
}

/// The rate of a result: MB/s, or the runs of a program in a second.
fn figure(result: &CaseResult) -> f64 {
    if result.case.program.is_some() { result.iops } else { result.mb_per_s }
}

/// The ratio of the rates, if it is a positive number.
fn ratio(before: &CaseResult, after: &CaseResult) -> Option<f64> {
    let ratio = figure(after) / figure(before);
    ratio.is_finite().then_some(ratio).filter(|ratio| *ratio > 0.0)
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
            basis: String::new(),
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
        let basis = Basis::of(before, after);
        diff.basis = basis.sentence(before.results.len());
        for old in &before.results {
            let label = old.case.label();
            let Some(new) = after.find(&old.target, &old.case) else {
                diff.only_before.push(format!("{}: {label} on {}", old.case.workload, old.target));
                continue;
            };
            let half = basis.half(old, new, before.results.len());
            diff.cases.push(CaseDiff {
                workload: old.case.workload.clone(),
                case: label,
                target: old.target.clone(),
                another_load: old.case != new.case,
                before: figure(old),
                after: figure(new),
                ratio: ratio(old, new),
                uncertainty: (half < 100.0).then(|| half.exp_m1()),
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
        text.push_str(&wrapped(&self.basis, ""));
        let list = |(title, lines): (&str, Vec<String>)| {
            let lines: String = lines.iter().map(|line| wrapped(line, "  ")).collect();
            format!("\n{}\n{lines}", styled(title, "1", colour))
        };
        // What differed beside the load stands above the figures that it may explain.
        text.extend(self.differing().map(list));
        for table in self.tables() {
            text.push('\n');
            text.push_str(&table.terminal(colour));
        }
        text.extend(self.lists().map(list));
        text
    }

    /// Renders the differences as Markdown.
    pub fn markdown(&self) -> String {
        let mut text = String::from("# Two reports compared\n");
        for sentence in &self.partial {
            let _ = writeln!(text, "\n**{}**", plain_markdown(sentence));
        }
        let _ = writeln!(text, "\n{} {}", plain_markdown(&self.summary()), plain_markdown(&self.basis));
        let list = |(title, lines): (&str, Vec<String>)| {
            let lines: String = lines.iter().map(|line| format!("- {}\n", plain_markdown(line))).collect();
            format!("\n## {title}\n\n{lines}")
        };
        text.extend(self.differing().map(list));
        for table in self.tables() {
            text.push('\n');
            text.push_str(&table.markdown());
        }
        text.extend(self.lists().map(list));
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
            caption: match workload {
                PROGRAMS => format!("{workload}: runs in a second before and after"),
                _ => format!("{workload}: MB/s before and after"),
            },
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

    /// The conditions that differ, if there are any, with their title.
    fn differing(&self) -> Option<(&'static str, Vec<String>)> {
        let lines = self.conditions.iter().map(|(name, old, new)| format!("{name}: {old} → {new}"));
        let lines: Vec<String> = lines.collect();
        (!lines.is_empty()).then_some(("Conditions that differ", lines))
    }

    fn lists(&self) -> impl Iterator<Item = (&'static str, Vec<String>)> {
        let all = [("Only in the first", &self.only_before), ("Only in the second", &self.only_after)];
        let some = all.into_iter().filter(|(_, lines)| !lines.is_empty());
        some.map(|(title, lines)| (title, lines.clone()))
    }
}
