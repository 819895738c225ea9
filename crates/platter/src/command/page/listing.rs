//! Directories, files and the volume, as pages.

use super::Page;
use super::download::kind_of;
use super::escape::{html, path as link, percent};
use crate::command::failure::Failure;
use crate::command::output::{flag_words, grouped, local_time, utc_time};
use crate::command::view::{Details, Part, Shown};
use platter_device::show_size;
use platter_vfs::{Entry, Kind, Name, Timestamp};

/// The entries of a directory on one page.
const ROWS: usize = 1000;

/// The largest image that is shown on the page of its file.
const LARGEST_SHOWN: u64 = 32 << 20;

/// How all pages look, by day and by night.
pub(super) const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1b1b1b;--quiet:#4d4d4d;--paper:#fff;--line:#c8c8c8;--link:#0645ad;--bar:#f1f1f1}\n\
@media(prefers-color-scheme:dark){:root{--ink:#e8e8e8;--quiet:#b4b4b4;--paper:#171717;--line:#4a4a4a;--link:#8ab4f8;--bar:#252525}}\n\
body{margin:0 auto;max-width:72rem;padding:1rem;font:1rem/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper)}\n\
a{color:var(--link)}\n\
h1{font-size:1.3rem;overflow-wrap:anywhere}\nh2{font-size:1.1rem}\n\
nav ul{display:flex;flex-wrap:wrap;gap:1rem;list-style:none;margin:0;padding:.3rem .6rem;background:var(--bar)}\n\
table{border-collapse:collapse;width:100%}\n\
th,td{text-align:left;padding:.2rem .6rem;border-bottom:1px solid var(--line);vertical-align:top}\n\
td.name{overflow-wrap:anywhere}\n.number{text-align:right;white-space:nowrap}\n\
.quiet{color:var(--quiet)}\n\
pre{overflow:auto;max-height:30rem;padding:.6rem;background:var(--bar)}\n\
img{max-width:100%;height:auto}\n";

/// The picture of the page in the browser's list of pages.
pub(super) const ICON: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 16 16\">\
<circle cx=\"8\" cy=\"8\" r=\"7\" fill=\"#0645ad\"/><circle cx=\"8\" cy=\"8\" r=\"2\" fill=\"#fff\"/></svg>\n";

/// A time, to be read by people and by programs.
pub(super) fn time(time: Timestamp) -> String {
    format!("<time datetime=\"{}\">{}</time>", html(&utc_time(time)), html(&local_time(time)))
}

impl Page {
    /// The beginning of a page, up to its heading.
    pub(super) fn begin(&self, title: &str) -> String {
        let (title, image) = (html(title), html(&self.image));
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title} — {image}</title>\
             <meta name=\"viewport\" content=\"width=device-width\"><link rel=\"stylesheet\" href=\"/style.css\">\
             <link rel=\"icon\" href=\"/icon.svg\"></head><body><header><nav aria-label=\"Pages\"><ul>\
             <li><a href=\"/\">Files</a></li><li><a href=\"/volume\">Volume</a></li><li><a href=\"/check\">Check</a></li>\
             <li><a href=\"/deleted\">Deleted files</a></li></ul></nav></header><main><h1>{title}</h1>\n"
        )
    }

    /// A whole page.
    pub(super) fn frame(&self, title: &str, body: &str) -> String {
        format!("{}{body}{END}", self.begin(title))
    }

    /// The page of a directory or a file.
    pub(super) fn entry(&self, path: &[Name], from: usize) -> Result<String, Failure> {
        let details = self.view.details(path)?;
        let body = match details.attributes.kind {
            Kind::Directory => self.directory(path, &details, from)?,
            _ => self.file(path, &details),
        };
        let title = format!("{}: {}", self.image, Shown(path));
        Ok(self.frame(&title, &format!("{}{body}", steps(path))))
    }

    fn directory(&self, path: &[Name], details: &Details, from: usize) -> Result<String, Failure> {
        let listing = self.view.list(path)?;
        let count = listing.entries.len();
        let from = from.min(count);
        let mut body = format!("<p>{} entries</p>\n", grouped(count as u64));
        if let Some(failure) = &listing.failure {
            body += &format!(
                "<p><strong>There may be others that cannot be read: {}</strong></p>\n",
                html(failure)
            );
        }
        body += "<table><thead><tr><th scope=\"col\">Name</th><th scope=\"col\" class=\"number\">Size</th>\
                 <th scope=\"col\">Modified</th><th scope=\"col\">Attributes</th></tr></thead><tbody>\n";
        for entry in listing.entries.iter().skip(from).take(ROWS) {
            body += &row(path, entry);
        }
        body += "</tbody></table>\n";
        let page =
            |from: usize, words: &str| format!(" <a href=\"/browse{}?from={from}\">{words}</a>", link(path));
        if from > 0 || from + ROWS < count {
            let before = if from > 0 { page(from.saturating_sub(ROWS), "before") } else { String::new() };
            let after = if from + ROWS < count { page(from + ROWS, "after") } else { String::new() };
            body += &format!("<p>Entries {} to {}.{before}{after}</p>\n", from + 1, (from + ROWS).min(count));
        }
        Ok(body + &facts(&details.facts) + &parts(path, details))
    }

    fn file(&self, path: &[Name], details: &Details) -> String {
        let (size, kind) = (details.attributes.size, details.attributes.kind);
        let mut body = String::new();
        if kind == Kind::File {
            body += &format!("<p><a href=\"/file{}\">Download</a> ({})</p>\n", link(path), show_size(size));
        }
        body += &facts(&details.facts);
        body += &parts(path, details);
        if kind != Kind::File {
            return body;
        }
        let name = path.last().cloned().unwrap_or_else(|| Name::from("/"));
        if kind_of(&name).starts_with("image/") && size <= LARGEST_SHOWN {
            let text = html(&name.to_string());
            return body
                + &format!("<h2>Content</h2>\n<p><img src=\"/file{}\" alt=\"{text}\"></p>\n", link(path));
        }
        match self.view.preview(path, &Part::Main, 0) {
            Err(failure) => body += &format!("<p>{}</p>\n", html(&failure.to_string())),
            Ok(preview) if preview.size == 0 => {}
            Ok(preview) => {
                let lines: Vec<String> = preview.lines(false).iter().map(|line| html(line)).collect();
                let rest = match preview.end < preview.size {
                    true => format!("<p class=\"quiet\">The first {}.</p>\n", show_size(preview.end)),
                    false => String::new(),
                };
                body += &format!(
                    "<h2>Content</h2>\n{rest}<pre tabindex=\"0\" aria-label=\"Content\">{}</pre>\n",
                    lines.join("\n")
                );
            }
        }
        body
    }

    /// The page of the volume.
    pub(super) fn volume(&self) -> Result<String, Failure> {
        Ok(self.frame("Volume", &facts(&self.view.volume()?)))
    }
}

/// The end of every page.
pub(super) const END: &str = "</main></body></html>\n";

/// The way from the root to here.
fn steps(path: &[Name]) -> String {
    let mut steps = "<p><a href=\"/\">root</a>".to_string();
    for (number, name) in path.iter().enumerate() {
        let text = html(&name.to_string());
        steps += &match number + 1 == path.len() {
            true => format!(" / {text}"),
            false => format!(" / <a href=\"/browse{}\">{text}</a>", link(&path[..=number])),
        };
    }
    steps + "</p>\n"
}

fn row(path: &[Name], entry: &Entry) -> String {
    let attributes = &entry.attributes;
    let address = format!("{}/{}", link(path), percent(&entry.name.to_bytes()));
    let name = html(&entry.name.to_string());
    let (mark, size) = match attributes.kind {
        Kind::Directory => ("/", String::new()),
        Kind::SymbolicLink => ("@", show_size(attributes.size)),
        Kind::File => {
            // The address of the content is the shorter way for whoever wants only that.
            (
                "",
                format!(
                    "<a href=\"/file{address}\" aria-label=\"Download {name}\">{}</a>",
                    show_size(attributes.size)
                ),
            )
        }
    };
    format!(
        "<tr><td class=\"name\"><a href=\"/browse{address}\">{name}{mark}</a></td><td class=\"number\">{size}</td>\
         <td>{}</td><td>{}</td></tr>\n",
        time(attributes.modified),
        flag_words(attributes.flags).join(", ")
    )
}

fn facts(facts: &[(&str, String)]) -> String {
    let row = |(name, value): &(&str, String)| {
        format!("<tr><th scope=\"row\">{}</th><td class=\"name\">{}</td></tr>\n", html(name), html(value))
    };
    let rows: String = facts.iter().map(row).collect();
    format!("<h2>Attributes</h2>\n<table><tbody>\n{rows}</tbody></table>\n")
}

/// The streams and snapshots, to be downloaded.
fn parts(path: &[Name], details: &Details) -> String {
    if details.parts.is_empty() {
        return String::new();
    }
    let mut rows = String::new();
    for (part, size) in &details.parts {
        let query = match part {
            Part::Main => String::new(),
            Part::Stream(name) => format!("?stream={}", percent(&name.to_bytes())),
            Part::Snapshot(name) => format!("?snapshot={}", percent(&name.to_bytes())),
        };
        let text = html(&part.to_string());
        rows += &format!(
            "<tr><td class=\"name\"><a href=\"/file{}{query}\">{text}</a></td><td class=\"number\">{}</td></tr>\n",
            link(path),
            show_size(*size)
        );
    }
    format!(
        "<h2>Streams and snapshots</h2>\n<table><thead><tr><th scope=\"col\">Name</th>\
         <th scope=\"col\" class=\"number\">Size</th></tr></thead><tbody>\n{rows}</tbody></table>\n"
    )
}
