//! One self-contained HTML page that needs no script, no font and no network. It can be read offline, in light and dark
//! mode, on wide and narrow screens.
//!
//! The page begins with the answer and the grids; details are folded. Curves are SVG that stretches to the width of the
//! page, with labels in HTML around it. Every chart has a table of its figures below it.

pub(crate) mod detail;
pub(crate) mod plot;
mod steady;

use super::published;
use super::table::escape;
use super::tables::{at_the_device, conditions, every_figure, in_a_line};
use super::{Table, answer, beside, grid};
use crate::document::{Case, Document, RAW};
use std::fmt::Write;

const STYLE: &str = include_str!("page.css");

/// The number of different colours, which is as many as a reader can tell apart; further targets reuse them.
const COLOURS: usize = 8;

/// The page. `published` adds the tables of the published comparisons.
pub fn render(document: &Document, published: bool) -> String {
    let mut page = opening(
        &answer::question(document),
        &format!("{}<p class=sub>{}</p>", answer_section(document), escape(&in_a_line(document))),
    );
    for table in beside::tables(document) {
        let _ = write!(page, "<section>{}</section>", table.html());
    }
    for (index, workload) in document.workloads().into_iter().enumerate() {
        page.push_str(&grids(document, workload, index));
    }
    page.push_str(&notes(document));
    page.push_str(&warnings(document));
    for workload in document.workloads() {
        let _ = write!(page, "<section><h2>Inside {}</h2>", escape(grid::title(document, workload)));
        page.push_str(&detail::cases(document, workload));
        page.push_str(&folded("Every figure as a table", &every_figure(document, workload).html()));
        if let Some(table) = at_the_device(document, workload) {
            page.push_str(&folded("What the storage saw, as a table", &table.html()));
        }
        page.push_str("</section>");
    }
    if published {
        page.push_str(&published_section());
    }
    if let Some(done) = &document.settings.preconditioning {
        page.push_str(&steady::chart(done));
    }
    page.push_str(&environment(document));
    page + &closing(&format!(
        "Made by Platter {} from <code>{}</code> data.",
        escape(&document.environment.platter_version),
        escape(&document.schema)
    ))
}

/// The beginning of a page up to its main part: the title, and the answer below it.
pub(crate) fn opening(title: &str, answer: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>\
         <meta name=viewport content=\"width=device-width,initial-scale=1\">\
         <meta name=color-scheme content=\"light dark\"><title>{0}</title>\
         <style>{STYLE}</style></head><body><header><h1>{0}</h1>{answer}</header><main>",
        escape(title),
    )
}

/// Formats the sentences of an answer as HTML.
pub(crate) fn sentences(all: &[String]) -> String {
    let paragraphs: String = all.iter().map(|sentence| format!("<p>{}</p>", escape(sentence))).collect();
    format!("<div class=answer>{paragraphs}</div>")
}

/// The end of a page, with a footer that states its origin.
pub(crate) fn closing(from: &str) -> String {
    format!("</main><footer>{from}</footer></body></html>\n")
}

fn answer_section(document: &Document) -> String {
    let mut section = String::from("<div class=answer>");
    if let Some(why) = &document.partial {
        let _ = write!(section, "<p class=partial><b>Partial:</b> {}.</p>", escape(why));
    }
    for sentence in &document.answer {
        let _ = write!(section, "<p>{}</p>", escape(sentence));
    }
    section + "</div>"
}

/// The grids of a workload: the shares, and other figures that can be selected without a script.
fn grids(document: &Document, workload: &str, index: usize) -> String {
    let mut views = vec![("% of base", grid::shares(document, workload))];
    for metric in &grid::METRICS {
        views.extend(grid::metric(document, workload, metric).map(|table| (metric.name, table)));
    }
    let mut html = format!(
        "<section class=grids id=w{index}><h2>{}</h2><div class=metrics>",
        escape(grid::title(document, workload))
    );
    for (number, (name, _)) in views.iter().enumerate() {
        let checked = if number == 0 { " checked" } else { "" };
        let _ = write!(
            html,
            "<input type=radio name=m{index} id=m{index}-{number} class=m{number}{checked}>\
             <label for=m{index}-{number}>{}</label>",
            escape(name)
        );
    }
    for (number, (_, table)) in views.iter().enumerate() {
        let _ = write!(html, "<div class=\"view v{number}\">{}</div>", grid_html(table));
    }
    html.push_str("</div>");
    if let Some(pairs) = grid::pairs(document, workload) {
        html.push_str(&grid_html(&pairs));
    }
    html + "</section>"
}

/// A grid as an HTML table: the interval is in small type, and hidden where there is no room.
fn grid_html(table: &Table) -> String {
    let html = table.html().replacen("<div class=scroll", "<div class=\"scroll cells\"", 1);
    let mut parts = html.split(" ±");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(['<', ' ']).unwrap_or(part.len());
        let _ = write!(text, "<small> ±{}</small>{}", &part[..end], &part[end..]);
    }
    // A range, `183 (102–325)`: nothing but figures is between its brackets.
    let mut parts = text.split(" (");
    let mut all = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let range = part.find(')').map(|end| (&part[..end], &part[end + 1..]));
        match range
            .filter(|(range, _)| range.contains('–') && range.chars().all(|c| "0123456789.,–".contains(c)))
        {
            Some((range, rest)) => {
                let _ = write!(all, "<small> ({range})</small>{rest}");
            }
            None => {
                let _ = write!(all, " ({part}");
            }
        }
    }
    all
}

fn notes(document: &Document) -> String {
    let mut list = String::new();
    for target in document.targets.iter().filter(|target| target.title != target.name) {
        let details = if target.details.is_empty() { String::new() } else { format!(", {}", target.details) };
        let text = format!("{}: {}{details}", target.short, target.title);
        let _ = write!(list, "<li>{}</li>", escape(&text));
    }
    let notes = [beside::notes(document), grid::notes(document), grid::published_sources(document)];
    for note in notes.iter().flatten() {
        let _ = write!(list, "<li>{}</li>", escape(note));
    }
    for sentence in &document.machine {
        let _ = write!(list, "<li>The machine: {}.</li>", escape(sentence));
    }
    if list.is_empty() { list } else { format!("<section><ul class=how>{list}</ul></section>") }
}

/// Sorts the cases so that those of one name follow each other: read, write and mix in a row, as CrystalDiskMark shows
/// them.
fn ordered(cases: Vec<&Case>) -> Vec<&Case> {
    let first = |case: &Case| cases.iter().position(|other| other.name == case.name);
    let mut sorted = cases.clone();
    sorted.sort_by_key(|case| (first(case), case.direction));
    sorted
}

/// The CSS class that gives a target its colour, the same everywhere on the page.
fn colour(document: &Document, target: &str) -> String {
    let position = document.targets.iter().position(|other| other.name == target).unwrap_or(0);
    // The raw device is grey, so that the other targets stand out.
    if target == RAW { "c0".into() } else { format!("c{}", 1 + (position.max(1) - 1) % (COLOURS - 1)) }
}

fn warnings(document: &Document) -> String {
    let mut list = String::new();
    for warning in &document.warnings {
        let _ = write!(list, "<li>{}</li>", escape(warning));
    }
    for result in document.results.iter().filter(|result| !result.warnings.is_empty()) {
        let _ = write!(
            list,
            "<li><b>{}</b> on {}: {}</li>",
            escape(&result.case.label()),
            escape(&result.target),
            escape(&result.warnings.join("; "))
        );
    }
    if list.is_empty() {
        return list;
    }
    format!(
        "<section class=warn aria-label=\"Warnings\"><h2>Before you trust the figures</h2><ul>{list}</ul></section>"
    )
}

fn environment(document: &Document) -> String {
    let mut section = String::from("<section><h2>Conditions</h2><dl class=env>");
    for (name, value) in conditions(document) {
        let value = escape(&value);
        let value = if name == "Command" { format!("<code>{value}</code>") } else { value };
        let _ = write!(section, "<dt>{name}</dt><dd>{value}</dd>");
    }
    section.push_str("</dl>");
    let how = "<ul class=how><li>A case runs in short slices on one target after the other, in an order that favours none; \
         slices that lie a second or two apart are compared with each other.</li>\
         <li>Figures are percent of the base. Beside each is its interval, which leaves out what chance does, for all figures of the \
         page together: ± where both sides are alike, otherwise from where to where; coloured ones differ from the base by more than chance, and the darker the larger the difference.</li>\
         <li>1 MB is 1,000,000 bytes. Response times run from submission to completion; the bins are Iometer's.</li></ul>";
    section.push_str(&folded("How to read this page", how));
    section + "</section>"
}

fn published_section() -> String {
    let mut section = String::from("<section><h2>Published figures</h2>");
    for source in published::sources() {
        let mut inner = String::from("<ul>");
        for line in source.about() {
            let _ = write!(inner, "<li>{}</li>", escape(&line));
        }
        inner.push_str("</ul>");
        inner.extend(source.tables().iter().map(Table::html));
        inner.push_str("<ul class=notes>");
        for note in &source.notes {
            let _ = write!(inner, "<li>{}</li>", escape(note));
        }
        inner.push_str("</ul>");
        section.push_str(&folded(&format!("{} ({})", source.title, source.id), &inner));
    }
    section + "</section>"
}

/// Folds content so that the reader can open it.
fn folded(title: &str, inner: &str) -> String {
    format!("<details class=fold><summary>{}</summary>{inner}</details>", escape(title))
}
