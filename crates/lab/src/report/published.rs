//! Figures that others published of their own comparisons, exactly as published.
//!
//! They are data files (`published/*.toml`): tables as published, and *comparisons* that name two cells of a table
//! which are the same load on two targets. A measured case is matched to a comparison by its load, not by its name, so
//! that the report can show the published ratio beside the measured one.

use super::{Cell, Column, Table};
use crate::document::Case;
use serde::Deserialize;
use std::sync::LazyLock;

const FILES: [&str; 4] = [
    include_str!("../../published/ntfs-refs-nvme-2023.toml"),
    include_str!("../../published/server-2016-array.toml"),
    include_str!("../../published/jetstress-2012r2.toml"),
    include_str!("../../published/refs-hard-disk-2016.toml"),
];

static SOURCES: LazyLock<Vec<Source>> = LazyLock::new(|| {
    let parse = |text: &&str| toml::from_str(text).expect("the files are part of the program and tested");
    FILES.iter().map(parse).collect()
});

/// Every published comparison.
pub fn sources() -> &'static [Source] {
    &SOURCES
}

/// One published comparison.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// A short, unique identifier, by which reports cite the source.
    pub id: String,
    /// The title, in its original language.
    pub title: String,
    /// The author, if stated.
    pub author: Option<String>,
    /// The date of publication, if stated.
    pub date: Option<String>,
    /// The address of the publication, if known.
    pub url: Option<String>,
    /// The tools with which the author measured.
    pub tool: String,
    /// The machine and the storage.
    pub hardware: String,
    /// The load and the conditions.
    pub method: String,
    /// Remarks on contradictions and gaps of the publication.
    pub notes: Vec<String>,
    table: Vec<PublishedTable>,
    #[serde(default)]
    comparison: Vec<Comparison>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PublishedTable {
    caption: String,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// Two cells of a table that are the same load on two targets.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    /// The built-in workload that repeats the load.
    pub workload: String,
    /// The name of the load in the publication.
    pub case: String,
    /// Bytes of a request.
    pub block_bytes: u64,
    /// The number of requests that each worker keeps in flight; `None` if the publication does not state it.
    pub queue_depth: Option<u32>,
    /// The number of workers; `None` if the publication does not state it.
    pub workers: Option<u32>,
    /// Share of requests at random offsets, in percent; `None` if the publication does not state it.
    pub random_percent: Option<u8>,
    /// Share of reads, in percent.
    pub read_percent: u8,
    /// The name of the target that the ratio is relative to.
    pub baseline: String,
    /// The name of the target that is compared with it.
    pub target: String,
    table: usize,
    row: usize,
    /// The row of the baseline's cell, if that is another row.
    base_row: Option<usize>,
    base_column: usize,
    column: usize,
    /// The column in which the publication gives the difference itself, if it does.
    relative_column: Option<usize>,
}

impl Source {
    /// Describes the publication in lines: author, date, address, tools, hardware, method.
    pub fn about(&self) -> Vec<String> {
        let who = [&self.author, &self.date, &self.url].into_iter().flatten().cloned().collect::<Vec<_>>();
        let mut lines = Vec::new();
        if !who.is_empty() {
            lines.push(format!("Published: {}", who.join(", ")));
        }
        lines.push(format!("Tool: {}", self.tool));
        lines.push(format!("Hardware: {}", self.hardware));
        lines.push(format!("Method: {}", self.method));
        lines
    }

    /// The tables of the publication.
    pub fn tables(&self) -> Vec<Table> {
        let table = |published: &PublishedTable| {
            // A column holds figures if every cell is empty or begins with a digit or a sign.
            let is_figure = |text: &String| {
                text.is_empty()
                    || text.trim_start_matches(['+', '-']).starts_with(|c: char| c.is_ascii_digit())
            };
            let column = |(index, title): (usize, &String)| match index > 0
                && published.rows.iter().all(|row| is_figure(&row[index]))
            {
                true => Column::figures(title),
                false => Column::words(title),
            };
            Table {
                caption: published.caption.clone(),
                columns: published.columns.iter().enumerate().map(column).collect(),
                rows: published.rows.iter().map(|row| row.iter().map(Cell::plain).collect()).collect(),
            }
        };
        self.table.iter().map(table).collect()
    }

    /// The comparisons of the publication.
    pub fn comparisons(&self) -> &[Comparison] {
        &self.comparison
    }

    /// The figure in a cell of a table, without a percent sign; `None` if there is no such cell or it is no figure.
    pub fn figure(&self, table: usize, row: usize, column: usize) -> Option<f64> {
        self.table.get(table)?.rows.get(row)?.get(column)?.trim_end_matches('%').parse().ok()
    }

    /// Returns the ratio of the two cells of a comparison, and the difference in percent if the publication states it.
    pub fn ratio(&self, comparison: &Comparison) -> (f64, Option<f64>) {
        let rows = &self.table[comparison.table].rows;
        let figure = |row: usize, column: usize| -> f64 {
            rows[row][column]
                .trim_end_matches('%')
                .parse()
                .expect("the files are part of the program and tested")
        };
        let base = figure(comparison.base_row.unwrap_or(comparison.row), comparison.base_column);
        let ratio = figure(comparison.row, comparison.column) / base;
        (ratio, comparison.relative_column.map(|column| figure(comparison.row, column)))
    }
}

impl Comparison {
    /// Whether a measured case has the same load as this comparison.
    pub fn corresponds(&self, case: &Case) -> bool {
        // A profile of a built-in workload has the workload's name in front of its own, such as the NVMe profile of
        // CrystalDiskMark.
        case.workload.starts_with(&self.workload)
            && case.block_bytes == self.block_bytes
            && case.read_percent == self.read_percent
            && self.queue_depth.is_none_or(|depth| depth == case.queue_depth)
            && self.workers.is_none_or(|workers| workers == case.workers)
            && self.random_percent.is_none_or(|random| random == case.random_percent)
    }
}

/// The letter by which tables refer to a source.
pub fn letter(source: &Source) -> char {
    let place = sources().iter().position(|other| other.id == source.id).unwrap_or(0);
    char::from(b'a' + place as u8)
}

/// Returns the published ratios of two targets for the load of a case, each with its source. Targets are matched by
/// their format, whatever their cluster size.
pub fn ratios(case: &Case, target: &str, base: &str) -> Vec<(f64, &'static Source)> {
    let format = |name: &str| name.split(':').next().unwrap_or_default().to_owned();
    let (target, base) = (format(target), format(base));
    let of = |source: &'static Source| {
        source
            .comparisons()
            .iter()
            .filter(|comparison| comparison.target == target && comparison.baseline == base)
            .filter(|comparison| comparison.corresponds(case))
            .map(|comparison| (source.ratio(comparison).0, source))
            .collect::<Vec<_>>()
    };
    sources().iter().flat_map(of).collect()
}
