//! `platter run`: one workload on one target.

use super::lab::{Choices, exit_code, measure};
use crate::failure::Outcome;
use crate::output::Output;
use clap::Args;
use platter_lab::report::terminal::{self, View};
use std::path::PathBuf;

/// Run one workload on one target and print what it measured
///
/// The same as `compare` with one target and one workload, without reports on disk. With --json the whole document goes
/// to standard output, for a script.
#[derive(Args)]
pub struct Arguments {
    /// The load: iometer, crystaldiskmark (or one of its profiles, crystaldiskmark:default, crystaldiskmark:nvme),
    /// overhead, or the path of a .toml workload or a .fio job file
    workload: String,

    /// What to run it on: raw, fat32, exfat (with an optional cluster size, fat32:32k), dir:PATH
    #[arg(long, default_value = "raw")]
    target: String,

    #[command(flatten)]
    choices: Choices,

    /// Print the JSON document instead of the table
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub fn run(self) -> Outcome {
        let here = PathBuf::from(".");
        let comparison = self.choices.comparison(&[self.target], &[self.workload], &here)?;
        let document = measure(&comparison)?;
        let mut output = Output::new();
        let text = if self.json {
            document.to_json()
        } else {
            terminal::render(
                &document,
                View { colour: output.is_terminal(), details: true, ..View::default() },
            )
        };
        output.bytes(text.as_bytes())?;
        output.finish()?;
        Ok(exit_code(&document))
    }
}
