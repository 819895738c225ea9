//! `platter man`

use crate::command::failure::{About, Outcome, shown};
use clap::{Args, Command};
use std::path::PathBuf;

/// Write the manual pages, one for each command
#[derive(Args)]
pub struct Arguments {
    /// Directory for platter.1 and the pages of the commands; made if it is missing
    directory: PathBuf,
}

impl Arguments {
    pub fn run(self, program: Command) -> Outcome {
        std::fs::create_dir_all(&self.directory).about(shown(&self.directory))?;
        clap_mangen::generate_to(program, &self.directory).about(shown(&self.directory))?;
        Ok(0)
    }
}
