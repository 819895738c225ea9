//! What was published of a post, beside what was measured here.

use super::{Cell, Column, Table, Tone};
use crate::document::{Beside, BesideFigure, Document};
use crate::format;

/// A model within this share of the published figure is not coloured.
const NEAR: f64 = 0.15;

/// The tables of the published figures and statements beside those of the document.
pub(super) fn tables(document: &Document) -> Vec<Table> {
    let Some(beside) = &document.published_beside else { return Vec::new() };
    [figures(document, beside), statements(beside)].into_iter().flatten().collect()
}

/// What to know about them, in sentences.
pub(super) fn notes(document: &Document) -> Vec<String> {
    let Some(beside) = &document.published_beside else { return Vec::new() };
    let figures = beside.figures.iter().filter_map(|figure| {
        let note = figure.note.as_ref()?;
        Some(format!("{}, {} of {}: {note}", figure.case, figure.unit, figure.target))
    });
    figures.chain(beside.notes.iter().cloned()).collect()
}

fn figures(document: &Document, beside: &Beside) -> Option<Table> {
    let columns = vec![
        Column::words("Case"),
        Column::words("Target"),
        Column::words("Unit"),
        Column::figures("Published"),
        Column::figures("Model"),
        Column::figures("Apart, %"),
    ];
    let row = |figure: &BesideFigure| {
        vec![
            Cell::plain(&figure.case),
            Cell::plain(document.short(&figure.target)),
            Cell::plain(&figure.unit),
            Cell::plain(format::figure(figure.published)),
            Cell::plain(format::figure(figure.measured)),
            apart(figure),
        ]
    };
    let rows: Vec<Vec<Cell>> = beside.figures.iter().map(row).collect();
    let caption = format!("Published and modelled, post {}: {}", beside.post, beside.title);
    (!rows.is_empty()).then_some(Table { caption, columns, rows })
}

/// How far the model is from what was published, in percent.
fn apart(figure: &BesideFigure) -> Cell {
    let share = figure.measured / figure.published - 1.0;
    let text = format!("{:+.0}", share * 100.0);
    match share.abs() <= NEAR {
        true => Cell::plain(text),
        false => Cell::toned(text, if figure.note.is_some() { Tone::Faint } else { Tone::Worse(2) }),
    }
}

fn statements(beside: &Beside) -> Option<Table> {
    let columns = vec![Column::words("Stated"), Column::words("Model")];
    let row = |statement: &crate::document::BesideStatement| {
        let holds = match statement.holds {
            true => Cell::plain("holds"),
            false => Cell::toned("does not hold", Tone::Worse(2)),
        };
        vec![Cell::plain(&statement.text), holds]
    };
    let rows: Vec<Vec<Cell>> = beside.statements.iter().map(row).collect();
    let caption = format!("Stated, post {}: {}", beside.post, beside.title);
    (!rows.is_empty()).then_some(Table { caption, columns, rows })
}
