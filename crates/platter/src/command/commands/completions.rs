//! `platter completions`

use crate::command::failure::Outcome;
use crate::command::output::Output;
use clap::{Args, Command};

/// Print a shell's completion script
#[derive(Args)]
pub struct Arguments {
    /// The shell
    shell: clap_complete::Shell,
}

impl Arguments {
    pub fn run(self, mut program: Command) -> Outcome {
        // Made in memory first, since making it panics where it cannot be written.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut program, "platter", &mut script);
        let mut output = Output::new();
        output.bytes(&script)?;
        output.finish()?;
        Ok(0)
    }
}
