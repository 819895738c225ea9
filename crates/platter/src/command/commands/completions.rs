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
        // Generated in memory first, because clap's generator panics where it cannot write.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut program, "platter", &mut script);
        let mut output = Output::new();
        output.bytes(&script)?;
        output.finish()?;
        Ok(0)
    }
}
