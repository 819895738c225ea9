//! `platter completions`

use crate::cli::Cli;
use crate::failure::Outcome;
use clap::{Args, CommandFactory};
use std::io;

/// Print a shell's completion script
#[derive(Args)]
pub struct Arguments {
    /// The shell
    shell: clap_complete::Shell,
}

impl Arguments {
    pub fn run(self) -> Outcome {
        clap_complete::generate(self.shell, &mut Cli::command(), "platter", &mut io::stdout());
        Ok(0)
    }
}
