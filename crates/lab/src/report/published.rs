//! Figures that people published of their own comparisons, kept exactly as they stand there.
//!
//! They are data (`published/*.toml`): tables as published, and *comparisons* that say which two cells of a table are
//! the same load on two targets. A measured case corresponds by its load, not by its name, so that a published ratio
//! can stand beside a measured one.

use super::document::Case;
use super::{Cell, Column, Table};
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
    /// A short name for it, unique; reports cite it.
    pub id: String,
    /// Its title, in its language.
    pub title: String,
    /// Who published it, where it says so.
    pub author: Option<String>,
    /// When, where it says so.
    pub date: Option<String>,
    /// Where, where it says so.
    pub url: Option<String>,
    /// The tools that measured.
    pub tool: String,
    /// Machine and storage.
    pub hardware: String,
    /// Load and conditions.
    pub method: String,
    /// Where it contradicts itself or leaves something open.
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
    /// The built-in workload that repeats it.
    pub workload: String,
    /// What the source calls the load.
    pub case: String,
    /// The load: `None` where the source does not say.
    pub block_bytes: u64,
    /// Requests that each worker keeps outstanding.
    pub queue_depth: Option<u32>,
    /// Workers.
    pub workers: Option<u32>,
    /// Share of random offsets.
    pub random_percent: Option<u8>,
    /// Share of reads.
    pub read_percent: u8,
    /// The target that stands for 1.
    pub baseline: String,
    /// The target that is compared with it.
    pub target: String,
    table: usize,
    row: usize,
    /// Where the baseline stands in another row.
    base_row: Option<usize>,
    base_column: usize,
    column: usize,
    /// Where the source gives the difference itself.
    relative_column: Option<usize>,
}

impl Source {
    /// Who, when, with what and how: lines for people.
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

    /// Its tables.
    pub fn tables(&self) -> Vec<Table> {
        let table = |published: &PublishedTable| {
            // A column is one of figures when every cell begins like one.
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

    /// Its comparisons.
    pub fn comparisons(&self) -> &[Comparison] {
        &self.comparison
    }

    /// The ratio of the two cells of a comparison, and the difference in percent where the source gives it itself.
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
    /// Whether a measured case is the same load.
    pub fn corresponds(&self, case: &Case) -> bool {
        // The NVMe profile of CrystalDiskMark is a workload of its own with the same name in front.
        case.workload.starts_with(&self.workload)
            && case.block_bytes == self.block_bytes
            && case.read_percent == self.read_percent
            && self.queue_depth.is_none_or(|depth| depth == case.queue_depth)
            && self.workers.is_none_or(|workers| workers == case.workers)
            && self.random_percent.is_none_or(|random| random == case.random_percent)
    }
}

/// The letter that stands for a source beside its figures.
pub fn letter(source: &Source) -> char {
    let place = sources().iter().position(|other| other.id == source.id).unwrap_or(0);
    char::from(b'a' + place as u8)
}

/// Published ratios of two targets under the same load, each with its source. Targets correspond by their format, whatever
/// clusters they have.
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
