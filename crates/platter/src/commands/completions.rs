//! `platter completions`

use crate::cli::Cli;
use crate::failure::Outcome;
use crate::output::Output;
use clap::{Args, CommandFactory};

/// Print a shell's completion script
#[derive(Args)]
pub struct Arguments {
    /// The shell
    shell: clap_complete::Shell,
}

impl Arguments {
    pub fn run(self) -> Outcome {
        // Made in memory first, since making it panics where it cannot be written.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "platter", &mut script);
        let mut output = Output::new();
        output.bytes(&script)?;
        output.finish()?;
        Ok(0)
    }
}
