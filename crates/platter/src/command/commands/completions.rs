//! `platter completions`

use crate::command::complete::scripts::Script;
use crate::command::failure::Outcome;
use crate::command::output::Output;
use clap::Args;

/// Print a shell's completion script
///
/// It completes commands, options and their values, targets and workloads, the partitions behind `disk.img@`, and paths
/// inside of images, as in `disk.img:/pho`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The shell
    shell: Script,
}

impl Arguments {
    pub(crate) fn run(self) -> Outcome {
        let mut output = Output::new();
        output.bytes(self.shell.text().as_bytes())?;
        output.finish()?;
        Ok(0)
    }
}
