//! `platter report`: saved results, rendered again or compared.

use super::lab::{Reports, load};
use crate::failure::{Failure, Outcome, USAGE};
use crate::output::Output;
use clap::Args;
use platter_lab::report::{Diff, markdown, terminal};
use std::path::PathBuf;

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

    /// Show the figures that others published
    #[arg(long)]
    published: bool,
}

impl Arguments {
    pub fn run(self) -> Outcome {
        let mut output = Output::new();
        let colour = output.is_terminal();
        let text = match (&self.reports[..], &self.out) {
            ([one], Some(out)) => {
                let document = load(one)?;
                for path in Reports::prepare(out)?.save(&document, self.published)? {
                    output.line(format!("wrote {}", path.display()))?;
                }
                output.finish()?;
                return Ok(0);
            }
            (_, Some(_)) => return Err(Failure::new("--out", "needs exactly one report").with_code(USAGE)),
            ([], None) if self.markdown => markdown::published_section(None),
            ([], None) => terminal::published_section(None, colour),
            ([one], None) if self.markdown => markdown::render(&load(one)?, self.published),
            ([one], None) => terminal::render(&load(one)?, colour, self.published),
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
