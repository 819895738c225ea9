//! `platter run`: one workload on one target.

use super::lab::{Choices, exit_code, measure, targets_help, workloads_help};
use crate::failure::Outcome;
use crate::output::Output;
use clap::Args;
use platter_lab::report::terminal::{self, View};
use std::ffi::OsString;
use std::path::Path;

/// Run one workload on one target and print what it measured
///
/// The same as `compare` with one target and one workload, without reports on disk. With --json the whole document goes
/// to standard output, for a script.
#[derive(Args)]
pub struct Arguments {
    #[arg(help = workloads_help("The load"))]
    workload: OsString,

    #[arg(long, default_value = "raw", help = targets_help("What to run it on"))]
    target: OsString,

    #[command(flatten)]
    choices: Choices,

    /// Print the JSON document instead of the table
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub fn run(self) -> Outcome {
        let comparison = self.choices.comparison(&[self.target], &[self.workload], Path::new("."))?;
        let document = measure(&comparison)?;
        let mut output = Output::new();
        let text = if self.json {
            document.to_json()
        } else {
            terminal::render(
                &document,
                View {
                    width: output.width().unwrap_or(terminal::WIDTH),
                    colour: output.is_terminal(),
                    details: true,
                    ..View::default()
                },
            )
        };
        output.bytes(text.as_bytes())?;
        output.finish()?;
        Ok(exit_code(&document))
    }
}
