//! `platter compare`: which file system should I put here, and what does it cost?

use super::lab::{Choices, exit_code, measure, save};
use crate::failure::Outcome;
use crate::output::Output;
use clap::Args;
use platter_lab::report::terminal::{self, View};
use std::path::PathBuf;

/// Compare the raw device, file systems of ours on it, and directories of mounted ones under the same load
///
/// Every target is made ready first, each in a region of the device of its own; then case by case all run in short slices
/// in turns, so that what else the machine does meets all alike. The outcome is written as report.json, report.html,
/// report.md and report.csv.
///
/// Without --device everything happens on a temporary image file in the output directory, and the host's own file
/// system is compared there too: no root, and nothing that is there is touched.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    choices: Choices,

    /// What to compare: raw, fat12, fat16, fat32, exfat (each with an optional cluster size, fat32:32k), dir:PATH
    /// for a directory of a mounted file system [default: raw,fat32,dir:OUT]
    #[arg(long, value_delimiter = ',', value_name = "TARGET,...")]
    targets: Vec<String>,

    /// Loads: iometer, crystaldiskmark (or one of its profiles, crystaldiskmark:default, crystaldiskmark:nvme),
    /// overhead, or the path of a .toml workload or a .fio job file
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "WORKLOAD,...",
        default_value = "iometer,crystaldiskmark"
    )]
    workloads: Vec<String>,

    /// Where the reports go; made if it is not there
    #[arg(long, value_name = "DIR", default_value = "platter-report")]
    out: PathBuf,

    /// Print response times, processor time, what the storage saw and all conditions too
    #[arg(long)]
    details: bool,

    /// Add the tables that others published
    #[arg(long)]
    published: bool,
}

impl Arguments {
    pub fn run(self) -> Outcome {
        let mut targets = self.targets;
        if targets.is_empty() {
            targets = ["raw", "ntfs", "refs", "refs+integrity", "exfat", "fat32"].map(String::from).into();
            targets.push(format!("dir:{}", self.out.display()));
        }
        let comparison = self.choices.comparison(&targets, &self.workloads, &self.out)?;
        let document = measure(&comparison)?;
        // Saved first: what took long to measure is not lost to a reader who goes away.
        let paths = save(&document, &self.out, self.published)?;
        let mut output = Output::new();
        let view = View {
            colour: output.is_terminal(),
            details: self.details,
            published: self.published,
            ..View::default()
        };
        output.bytes(terminal::render(&document, view).as_bytes())?;
        output.line("")?;
        for path in paths {
            output.line(format!("wrote {}", path.display()))?;
        }
        output.finish()?;
        Ok(exit_code(&document))
    }
}
