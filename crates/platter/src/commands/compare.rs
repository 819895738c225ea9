//! `platter compare`: which file system should I put here, and what does it cost?

use super::lab::{Choices, exit_code, measure, save};
use crate::failure::Outcome;
use crate::output::Output;
use clap::Args;
use platter_lab::report::terminal;
use std::path::PathBuf;

/// Compare the raw device, file systems of ours on it, and directories of mounted ones under the same load
///
/// Each target gets the same device region in turn, discarded and made anew; the turns are repeated (A B C A B C). The
/// outcome is written as report.json, report.html, report.md and report.csv.
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

    /// Show the figures that others published beside the measured ones
    #[arg(long)]
    published: bool,
}

impl Arguments {
    pub fn run(self) -> Outcome {
        let mut targets = self.targets;
        if targets.is_empty() {
            targets = vec!["raw".into(), "fat32".into(), format!("dir:{}", self.out.display())];
        }
        let comparison = self.choices.comparison(&targets, &self.workloads, &self.out)?;
        let document = measure(&comparison)?;
        // Saved first: what took long to measure is not lost to a reader who goes away.
        let paths = save(&document, &self.out, self.published)?;
        let mut output = Output::new();
        output.bytes(terminal::render(&document, output.is_terminal(), self.published).as_bytes())?;
        output.line("")?;
        for path in paths {
            output.line(format!("wrote {}", path.display()))?;
        }
        output.finish()?;
        Ok(exit_code(&document))
    }
}
