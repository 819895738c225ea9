//! `platter report`: saved results, rendered again or compared.

use super::lab::{Reports, load};
use crate::command::failure::{Failure, Outcome, USAGE};
use crate::command::output::Output;
use clap::Args;
use platter_lab::report::terminal::{self, View};
use platter_lab::report::{Diff, Document, markdown};
use std::path::{Path, PathBuf};

/// Render a saved report again, compare two, or show published figures
///
/// One report.json is printed as a table, or written in every form with --out. Two are compared case by case. With
/// --published alone, the figures that others published are shown, with their sources.
#[derive(Args)]
pub struct Arguments {
    /// One saved report.json, or two to compare: before and after
    #[arg(num_args = 0..=2, required_unless_present = "published")]
    reports: Vec<PathBuf>,

    /// Write report.json, .html, .md and .csv there instead of printing
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Print Markdown instead of a table
    #[arg(long, conflicts_with = "out")]
    markdown: bool,

    /// The target that the others are compared with, instead of the report's own
    #[arg(long, value_name = "TARGET")]
    base: Option<String>,

    /// Print response times, processor time, what the storage saw and all conditions too
    #[arg(long)]
    details: bool,

    /// Show the figures that others published
    #[arg(long)]
    published: bool,
}

impl Arguments {
    pub fn run(self) -> Outcome {
        let mut output = Output::new();
        let colour = output.is_terminal();
        let view = View {
            width: output.width().unwrap_or(terminal::WIDTH),
            colour,
            details: self.details,
            published: self.published,
        };
        let document = |path: &Path| -> Result<Document, Failure> {
            let mut document = load(path)?;
            if let Some(base) = &self.base {
                let names: Vec<&str> = document.targets.iter().map(|target| target.name.as_str()).collect();
                if !names.contains(&base.as_str()) {
                    return Err(Failure::new(
                        "--base",
                        format!("{base:?} is not among {}", names.join(", ")),
                    ));
                }
                document.settings.base = base.clone();
                document.conclude();
            }
            Ok(document)
        };
        let text = match (&self.reports[..], &self.out) {
            ([one], Some(out)) => {
                let document = document(one)?;
                for path in Reports::prepare(out)?.save(&document, self.published)? {
                    output.line(format!("wrote {}", path.display()))?;
                }
                output.finish()?;
                return Ok(0);
            }
            (_, Some(_)) => return Err(Failure::new("--out", "needs exactly one report").with_code(USAGE)),
            ([], None) if self.markdown => markdown::published_section(),
            ([], None) => terminal::published_section(view.width, colour),
            ([one], None) if self.markdown => markdown::render(&document(one)?, self.published),
            ([one], None) => terminal::render(&document(one)?, view),
            ([before, after, ..], None) => {
                let diff = Diff::new(&load(before)?, &load(after)?);
                if self.markdown { diff.markdown() } else { diff.terminal(colour) }
            }
        };
        output.bytes(text.as_bytes())?;
        output.finish()?;
        Ok(0)
    }
}
