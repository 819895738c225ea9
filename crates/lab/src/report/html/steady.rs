//! The chart of the rounds in which a device was brought into a steady state.

use super::detail::figure;
use super::plot::{Band, Plot, Point, Series, Tick, linear_ticks};
use crate::document::Preconditioning;
use crate::format;
use crate::report::{Cell, Column, Table};
use crate::steady::{Last, WINDOW};

/// The chart of the rounds, with the range and the slope of the last five; empty where there were none.
pub(super) fn chart(done: &Preconditioning) -> String {
    let rates = &done.rounds_mb_per_s;
    if rates.is_empty() {
        return String::new();
    }
    let last = Last::of(rates);
    let highest = rates.iter().copied().fold(0.0, f64::max);
    let (top, y) = linear_ticks(highest, format::figure);
    let count = rates.len() as f64;
    let across = |round: usize| (round as f64 + 0.5) / count;
    let tick = |round: usize| Tick { at: across(round), label: (round + 1).to_string() };
    let mut plot = Plot::new(
        "Throughput of the rounds of preconditioning".into(),
        (0..rates.len()).map(tick).collect(),
        y,
    );
    if last.is_some() {
        let from = across(rates.len() - WINDOW) - 0.5 / count;
        plot.bands(&[Band { class: "c0".into(), from, to: 1.0, title: "the last five rounds".into() }]);
    }
    let point = |(round, rate): (usize, &f64)| Point {
        x: across(round),
        y: (rate / top).clamp(0.0, 1.0),
        title: format!("round {}: {} MB/s", round + 1, format::figure(*rate)),
    };
    let points = rates.iter().enumerate().map(point).collect();
    let mut lines = vec![Series { class: "c1".into(), name: "MB/s of a round".into(), points }];
    if let Some(last) = last {
        // The straight line through the last five.
        let ends = [(rates.len() - WINDOW, -0.5), (rates.len() - 1, 0.5)].map(|(round, half)| Point {
            x: across(round),
            y: ((last.average * (1.0 + half * last.rise)) / top).clamp(0.0, 1.0),
            title: String::new(),
        });
        lines.push(Series {
            class: "c2".into(),
            name: "the line through the last five".into(),
            points: ends.into(),
        });
    }
    plot.lines(&lines, true);
    let note = match last {
        None => {
            format!("{} rounds of {}; five are needed.", rates.len(), format::duration(done.round_seconds))
        }
        Some(last) => format!(
            "Random writes of 4 KiB, MB/s of each round of {}. Of the last five, the range is {:.0} % of the average (at most 20), \
             and the line through them changes by {} % of it (at most 10): {}.",
            format::duration(done.round_seconds),
            last.range * 100.0,
            format::percent(last.rise * 100.0),
            if last.is_steady() { "a steady state" } else { "no steady state" }
        ),
    };
    let row = |(round, rate): (usize, &f64)| {
        vec![Cell::plain((round + 1).to_string()), Cell::plain(format::figure(*rate))]
    };
    let table = Table {
        caption: "Preconditioning: MB/s of each round".into(),
        columns: vec![Column::figures("Round"), Column::figures("MB/s")],
        rows: rates.iter().enumerate().map(row).collect(),
    };
    format!(
        "<section><h2>Preconditioning</h2><div class=figures>{}</div></section>",
        figure("Steady state", &note, "", &plot.html(), Some(table), true)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chart_says_range_and_slope() {
        let done = |rates: &[f64]| Preconditioning {
            round_seconds: 60.0,
            rounds_mb_per_s: rates.into(),
            ..Preconditioning::default()
        };
        let page = chart(&done(&[400.0, 104.0, 102.0, 100.0, 98.0, 96.0]));
        assert!(
            page.contains("the range is 8 % of the average") && page.contains("changes by −8.0 % of it"),
            "{page}"
        );
        assert!(page.contains(": a steady state.") && page.contains("round 6: 96.00 MB/s"));
        assert!(chart(&done(&[400.0])).contains("1 rounds of 60 s; five are needed"));
        assert_eq!(chart(&done(&[])), "");
    }
}
