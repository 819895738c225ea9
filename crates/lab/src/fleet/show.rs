//! Renders the summary of a fleet as tables and as a page.

use super::outliers::LEAST;
use super::{Outlier, Summary, spread};
use crate::estimate;
use crate::format;
use crate::report::html;
use crate::report::table::{plain_markdown, printable};
use crate::report::uncertain;
use crate::report::{Cell, Column, Table, Tone};
use crate::statistics::{median, plural, quantile};
use std::fmt::Write;

impl Summary {
    /// The title of the summary: `500 reports of 500 machines in 2 groups by device.model`.
    fn title(&self) -> String {
        let many = |count: usize, noun: &str| {
            format!("{} {}", format::count(count as f64), plural(count as u64, noun))
        };
        format!(
            "{} of {} in {}",
            many(self.reports as usize, "report"),
            many(self.machines.len(), "machine"),
            many(self.groups.len(), "group")
        )
    }

    /// Sentences about the machines that stand out.
    fn findings(&self, outliers: &[Outlier]) -> Vec<String> {
        let mut all = Vec::new();
        for outlier in outliers {
            let way = if outlier.ratio < 1.0 { "slower" } else { "faster" };
            let percent = format::percent_up((outlier.ratio - 1.0).abs() * 100.0);
            let place = match &outlier.cell {
                None => "over all cases".to_string(),
                Some(cell) => format!("in {} {} on {}", cell.workload, cell.case, cell.target),
            };
            all.push(format!(
                "{} is {percent} % {way} than the median of its group ({}) {place}, {:.1} times the group's spread.",
                outlier.machine,
                outlier.group,
                outlier.distance.abs()
            ));
        }
        if outliers.is_empty() {
            all.push("No machine falls out of its group.".into());
        }
        let small = self.groups.iter().filter(|group| group.machines < LEAST);
        let small: Vec<&str> = small.map(|group| group.name.as_str()).collect();
        if !small.is_empty() {
            all.push(format!(
                "Fewer than {LEAST} machines tell nothing of one of them: {}.",
                small.join("; ")
            ));
        }
        all
    }

    /// For each workload a table: for each case and target the distribution in every group, and with two groups the
    /// second compared with the first.
    fn tables(&self) -> Vec<Table> {
        self.workloads().into_iter().map(|workload| self.table(workload)).collect()
    }

    fn workloads(&self) -> Vec<&str> {
        let mut workloads: Vec<&str> = self.cells.iter().map(|cell| cell.workload.as_str()).collect();
        workloads.sort_unstable();
        workloads.dedup();
        workloads
    }

    fn table(&self, workload: &str) -> Table {
        let mut columns: Vec<Column> = ["Case", "Target", "Group"].map(Column::words).into();
        columns.extend(["Machines", "5 %", "Median IOPS", "95 %"].map(Column::figures));
        let is_pair = self.groups.len() == 2;
        if is_pair {
            columns.push(Column::figures("Second against first"));
        }
        let mut rows = Vec::new();
        for (number, cell) in self.cells.iter().enumerate().filter(|(_, cell)| cell.workload == workload) {
            let mut before: Vec<f64> = Vec::new();
            for group in &self.groups {
                let mut rates: Vec<f64> = group.of(number as u32).iter().map(|figure| figure.rate).collect();
                rates.sort_by(f64::total_cmp);
                if rates.is_empty() {
                    continue;
                }
                let mut row =
                    vec![Cell::plain(&cell.case), Cell::plain(&cell.target), Cell::plain(&group.name)];
                row.push(Cell::plain(format::count(rates.len() as f64)));
                row.extend(
                    [quantile(&rates, 0.05), median(&rates), quantile(&rates, 0.95)]
                        .map(|rate| Cell::plain(format::figure(rate))),
                );
                if is_pair {
                    row.push(self.against(&rates, &before));
                }
                rows.push(row);
                before = rates;
            }
        }
        Table { caption: format!("{workload}: rates by group"), columns, rows }
    }

    /// A cell with the change from one group to the next: `−12 % ±3`, faint if it could be chance; empty for the first
    /// group.
    fn against(&self, rates: &[f64], before: &[f64]) -> Cell {
        if before.is_empty() {
            return Cell::default();
        }
        let difference = estimate::apart(rates, before);
        let half = difference.half_width(estimate::ERRORS / self.cells.len().max(1) as f64);
        let ratio = difference.logarithm.exp();
        if half > 100.0 {
            return Cell::toned(format!("{} ?", format::change(ratio)), Tone::Faint);
        }
        let text = uncertain::change(ratio, half);
        match difference.logarithm.abs() > half {
            true if ratio < 1.0 => Cell::toned(text, Tone::Worse(2)),
            true => Cell::toned(text, Tone::Better(2)),
            false => Cell::toned(text, Tone::Faint),
        }
    }

    /// Renders the summary for a terminal.
    pub fn terminal(&self, colour: bool) -> String {
        let mut text = format!("{}\n\n", self.title());
        for sentence in self.findings(&self.outliers()) {
            let _ = writeln!(text, "{}", printable(&sentence));
        }
        for table in self.tables() {
            let _ = write!(text, "\n{}", table.terminal(colour));
        }
        text
    }

    /// Renders the summary as Markdown.
    pub fn markdown(&self) -> String {
        let mut text = format!("# {}\n\n", self.title());
        for sentence in self.findings(&self.outliers()) {
            let _ = writeln!(text, "- {}", plain_markdown(&sentence));
        }
        for table in self.tables() {
            let _ = write!(text, "\n{}", table.markdown());
        }
        text
    }

    /// Renders the summary as a self-contained page.
    pub fn html(&self) -> String {
        let findings = self.findings(&self.outliers());
        let mut page = html::opening(&self.title(), &html::sentences(&findings));
        for (workload, table) in self.workloads().into_iter().zip(self.tables()) {
            page.push_str(&spread::chart(self, workload));
            let _ = write!(page, "<section>{}</section>", table.html());
        }
        let from = plural(self.reports, "saved report");
        page + &html::closing(&format!("Made by Platter {} from {from}.", env!("CARGO_PKG_VERSION")))
    }
}
