//! The chart of how far the machines of each group are apart.

use super::Summary;
use crate::report::html::detail::{figure, strokes};
use crate::report::html::plot::{Plot, Point, Series, Tick, linear_ticks};
use crate::statistics::{median, quantile};

/// The most groups that the page has colours for.
const COLOURS: usize = 7;

/// A case on a target in a group: the quantiles of its machines' rates, in percent of the median over all groups.
struct Whisker {
    place: usize,
    group: usize,
    name: String,
    low: f64,
    middle: f64,
    high: f64,
}

/// The chart of a workload: for each case and target, from the slowest twentieth of the machines to the fastest; empty where
/// nothing was measured.
pub(super) fn chart(summary: &Summary, workload: &str) -> String {
    let mut cells: Vec<(u32, &super::Cell)> =
        (0..).zip(&summary.cells).filter(|(_, cell)| cell.workload == workload).collect();
    let mut cases: Vec<&str> = Vec::new();
    for (_, cell) in &cells {
        if !cases.contains(&cell.case.as_str()) {
            cases.push(&cell.case);
        }
    }
    // The targets of a case stand side by side.
    let number = |cell: &super::Cell| cases.iter().position(|case| *case == cell.case).unwrap_or(0);
    cells.sort_by_key(|(_, cell)| number(cell));
    let mut whiskers = Vec::new();
    for (place, (number, cell)) in cells.iter().enumerate() {
        let of = |group: &super::Group| -> Vec<f64> {
            let mut rates: Vec<f64> = group.of(*number).iter().map(|figure| figure.rate).collect();
            rates.retain(|rate| rate.is_finite() && *rate > 0.0);
            rates.sort_by(f64::total_cmp);
            rates
        };
        let all: Vec<f64> = summary.groups.iter().flat_map(of).collect();
        let whole = median(&all);
        for (group, rates) in summary.groups.iter().map(of).enumerate().filter(|(_, rates)| !rates.is_empty())
        {
            let share = |rate: f64| rate / whole * 100.0;
            whiskers.push(Whisker {
                place,
                group,
                name: format!("{} on {}, {}", cell.case, cell.target, summary.groups[group].name),
                low: share(quantile(&rates, 0.05)),
                middle: share(median(&rates)),
                high: share(quantile(&rates, 0.95)),
            });
        }
    }
    if whiskers.is_empty() {
        return String::new();
    }
    let (top, y) = linear_ticks(whiskers.iter().map(|whisker| whisker.high).fold(0.0, f64::max), |percent| {
        format!("{percent} %")
    });
    let (places, groups) = (cells.len() as f64, summary.groups.len().max(1) as f64);
    // The number of each case stands in the middle of its targets; names would lie over each other.
    let mut ticks: Vec<Tick> = Vec::new();
    for case in 0..cases.len() {
        let of: Vec<usize> = (0..cells.len()).filter(|place| number(cells[*place].1) == case).collect();
        if let (Some(first), Some(last)) = (of.first(), of.last()) {
            let at = (*first as f64 + *last as f64 + 1.0) / 2.0 / places;
            ticks.push(Tick { at, label: (case + 1).to_string() });
        }
    }
    let mut plot = Plot::new(format!("Spread of the machines, {workload}"), ticks, y);
    let class = |group: usize| format!("c{}", 1 + group % COLOURS);
    let series = |whisker: &Whisker| {
        let x = (whisker.place as f64 + (whisker.group as f64 + 0.5) / groups) / places;
        let point = |percent: f64, what: &str| Point {
            x,
            y: (percent / top).clamp(0.0, 1.0),
            title: format!("{}: {what} {percent:.0} %", whisker.name),
        };
        Series {
            class: class(whisker.group),
            name: whisker.name.clone(),
            points: vec![
                point(whisker.low, "one machine in twenty is below"),
                point(whisker.middle, "median"),
                point(whisker.high, "one machine in twenty is above"),
            ],
        }
    };
    plot.lines(&whiskers.iter().map(series).collect::<Vec<_>>(), true);
    let key =
        strokes(summary.groups.iter().enumerate().map(|(group, one)| (class(group), one.name.as_str())));
    let names: Vec<String> = (1..).zip(&cases).map(|(number, case)| format!("{number} {case}")).collect();
    let note = format!(
        "For each case and target, from the rate that one machine in twenty is below to the one that one in twenty is above, \
         with the median between them; in percent of the median of all machines. Cases: {}. The figures are in the table below.",
        names.join(", ")
    );
    format!(
        "<section><div class=figures>{}</div></section>",
        figure(&format!("{workload}: spread of the machines"), &note, &key, &plot.html(), None, true)
    )
}
