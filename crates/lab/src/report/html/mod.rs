//! One self-contained HTML page: no script it needs, no font, no request. It opens offline, in light and dark, on a
//! desk and on a phone.
//!
//! Bars are HTML, so that their text stays readable at every width; curves are SVG that stretches, with its labels in
//! HTML around it. Every chart has its figures in a table below it.

mod bars;
mod detail;
mod plot;

use super::document::{CaseResult, Document, RAW};
use super::tables::{at_the_device, baseline_name, conditions, every_figure};
use super::{Table, format};
use crate::published;
use std::fmt::Write;

const STYLE: &str = include_str!("page.css");

/// Targets beyond this many share colours again; nobody tells more apart.
const COLOURS: usize = 8;

/// The page. `published` adds the figures of the published comparisons.
pub fn render(document: &Document, published: bool) -> String {
    let mut page = String::new();
    let subject = subject(document);
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>\
         <meta name=viewport content=\"width=device-width,initial-scale=1\">\
         <meta name=color-scheme content=\"light dark\"><title>{0}: storage comparison</title>\
         <style>{STYLE}</style></head><body><header><p class=brand>Platter report</p>\
         <h1>{0}</h1><p class=sub>{1}</p>{2}</header><main>",
        escape(&subject),
        escape(&subtitle(document)),
        legend(document),
    );
    page.push_str(&verdicts(document));
    page.push_str(&warnings(document));
    for (index, workload) in document.workloads().into_iter().enumerate() {
        let _ = write!(page, "<section id=w{index}><h2>{}</h2>", escape(workload));
        page.push_str(&bars::cards(document, workload, index));
        page.push_str(&detail::cases(document, workload));
        page.push_str(&folded("Every figure as a table", &every_figure(document, workload).html()));
        if let Some(table) = at_the_device(document, workload) {
            page.push_str(&folded("What the storage saw, as a table", &table.html()));
        }
        page.push_str("</section>");
    }
    if published {
        page.push_str(&published_section(document));
    }
    page.push_str(&environment(document));
    let _ = writeln!(
        page,
        "</main><footer>Made by Platter {} from <code>{}</code> data.</footer></body></html>",
        escape(&document.environment.platter_version),
        escape(&document.schema)
    );
    page
}

/// What was measured: the drive where it is known; the path of an image says little, its file system more.
fn subject(document: &Document) -> String {
    let device = &document.environment.device;
    match (&device.model, &device.host_file_system) {
        (Some(model), _) => model.clone(),
        (None, Some(system)) => format!("{} on {system}", capitalised(&device.kind)),
        (None, None) => format!("{} {}", capitalised(&device.kind), device.name).trim().into(),
    }
}

fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    characters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().collect::<String>() + characters.as_str())
}

/// Text as HTML shows it, inside an element or a quoted attribute.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c if c.is_control() && c != '\n' => escaped.push('\u{FFFD}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// The class that gives a target its colour, the same everywhere on the page.
fn colour(document: &Document, target: &str) -> String {
    let position = document.targets.iter().position(|other| other.name == target).unwrap_or(0);
    // The raw device is the grey that others stand out from.
    if target == RAW { "c0".into() } else { format!("c{}", 1 + (position.max(1) - 1) % (COLOURS - 1)) }
}

fn subtitle(document: &Document) -> String {
    let date = document.created.replace('T', " ").replace('Z', " UTC");
    let runs = document.settings.repeats;
    let runs = if runs == 1 { "one run of each case".into() } else { format!("{runs} runs of each case") };
    format!("{date} · {} · {runs}, preset {}", document.environment.cpu, document.settings.preset)
}

fn legend(document: &Document) -> String {
    let mut list = String::from("<ul class=legend aria-label=\"Targets\">");
    for target in &document.targets {
        let _ = write!(
            list,
            "<li class={}><i></i><b>{}</b> <span>{}</span></li>",
            colour(document, &target.name),
            escape(&target.title),
            escape(&describe(&target.name, &target.details, &target.title))
        );
    }
    list + "</ul>"
}

/// Name and details, without what the title already says.
fn describe(name: &str, details: &str, title: &str) -> String {
    let parts = [name, details].into_iter().filter(|part| !part.is_empty() && *part != title);
    parts.collect::<Vec<_>>().join(", ")
}

fn verdicts(document: &Document) -> String {
    let mut section = String::from("<section class=verdicts aria-label=\"Verdicts\">");
    for verdict in &document.verdicts {
        let _ = write!(
            section,
            "<article class=verdict><h2>{}</h2><p>{}</p><div class=tiles>",
            escape(&verdict.workload),
            escape(&verdict.sentence)
        );
        for target in &verdict.targets {
            let title = document.targets.iter().find(|other| other.name == target.target);
            let baseline = if target.baseline == RAW { "the raw device" } else { &target.baseline };
            let about = if target.within_noise == target.cases { "≈ " } else { "" };
            let noise = match target.within_noise {
                0 => String::new(),
                some if some == target.cases => "every case within the noise".into(),
                some => format!("{some} of {} cases within the noise", target.cases),
            };
            let _ = write!(
                section,
                "<div class=\"tile {}\"><p class=name><i></i>{}</p><p class=big>{about}{}</p><p class=of>of the throughput of {}</p>\
                 <div class=track><div class=bar style=\"width:{:.1}%\"></div></div><p class=faint>{}</p></div>",
                colour(document, &target.target),
                escape(title.map_or(&target.target, |target| &target.title)),
                format::share(target.ratio),
                escape(baseline),
                (target.ratio * 100.0).clamp(0.0, 100.0),
                escape(&noise),
            );
        }
        section.push_str("</div></article>");
    }
    section + "</section>"
}

fn warnings(document: &Document) -> String {
    let of_results: Vec<&CaseResult> =
        document.results.iter().filter(|result| !result.warnings.is_empty()).collect();
    if document.warnings.is_empty() && of_results.is_empty() {
        return "<section class=calm><p>No drift, outliers, stalls or errors were found in the runs.</p></section>".into();
    }
    let mut section =
        String::from("<section class=warn aria-label=\"Warnings\"><h2>Before you trust the figures</h2><ul>");
    for warning in &document.warnings {
        let _ = write!(section, "<li>{}</li>", escape(warning));
    }
    section.push_str("</ul>");
    if !of_results.is_empty() {
        let mut list = String::from("<ul>");
        for result in of_results {
            let _ = write!(
                list,
                "<li><b>{}</b>, {} on {}: {}</li>",
                escape(&result.case.workload),
                escape(&result.case.label()),
                escape(&result.target),
                escape(&result.warnings.join("; "))
            );
        }
        section.push_str(&folded("Which runs", &(list + "</ul>")));
    }
    section + "</section>"
}

fn environment(document: &Document) -> String {
    let mut section = String::from("<section><h2>Conditions</h2><dl class=env>");
    for (name, value) in conditions(document) {
        let value = escape(&value);
        let value = if name == "Command" { format!("<code>{value}</code>") } else { value };
        let _ = write!(section, "<dt>{name}</dt><dd>{value}</dd>");
    }
    let mut durability: Vec<&str> = Vec::new();
    for result in &document.results {
        if !result.case.durability.is_empty() && !durability.contains(&result.case.durability.as_str()) {
            durability.push(&result.case.durability);
        }
    }
    let _ = write!(section, "<dt>Writes count as done</dt><dd>{}</dd></dl>", escape(&durability.join("; ")));
    if !document.settings.order.is_empty() {
        let turns: String =
            document.settings.order.iter().map(|turn| format!("<li>{}</li>", escape(turn))).collect();
        section.push_str(&folded("The order in which they ran", &format!("<ol class=order>{turns}</ol>")));
    }
    let how = format!(
        "<ul class=how><li>Bars show medians of the runs; whiskers reach from the smallest to the largest run.</li>\
         <li>1 MB is 1,000,000 bytes. Relative figures compare with {}, round \
         by round: they are medians of the rounds' ratios.</li>\
         <li>≈ marks a difference within the noise: the ranges of the runs overlap (of five or more runs without the \
         extreme one at each end; a single run counts as ± 5 %).</li>\
         <li>Averages over cases are geometric means of the ratios.</li>\
         <li>Response times run from submission to completion; the bins are Iometer's.</li></ul>",
        escape(if baseline_name(document) == RAW { "the raw device" } else { baseline_name(document) })
    );
    section.push_str(&folded("How to read this page", &how));
    section + "</section>"
}

fn published_section(document: &Document) -> String {
    let mut section = String::from("<section><h2>Published figures</h2>");
    let html = |table: &Table| table.html();
    let beside: String = published::beside(document).iter().map(html).collect();
    section.push_str(&beside);
    for source in published::sources() {
        let mut inner = String::from("<ul>");
        for line in source.about() {
            let _ = write!(inner, "<li>{}</li>", escape(&line));
        }
        inner.push_str("</ul>");
        inner.extend(source.tables().iter().map(html));
        inner.push_str("<ul class=notes>");
        for note in &source.notes {
            let _ = write!(inner, "<li>{}</li>", escape(note));
        }
        inner.push_str("</ul>");
        section.push_str(&folded(&format!("{} ({})", source.title, source.id), &inner));
    }
    section + "</section>"
}

/// Content that opens on demand.
fn folded(title: &str, inner: &str) -> String {
    format!("<details class=fold><summary>{}</summary>{inner}</details>", escape(title))
}
