//! `platter man`

use crate::command::failure::{About, Outcome, shown};
use crate::command::manual;
use clap::{Args, Command};
use std::path::PathBuf;

/// Write the manual pages, one for each command
#[derive(Args)]
pub(crate) struct Arguments {
    /// Directory for platter.1 and the pages of the commands; made if it is missing
    directory: PathBuf,
}

impl Arguments {
    pub(crate) fn run(self, program: Command) -> Outcome {
        std::fs::create_dir_all(&self.directory).about(shown(&self.directory))?;
        for (name, page) in manual::pages(program) {
            let path = self.directory.join(name);
            std::fs::write(&path, page).about(shown(&path))?;
        }
        Ok(0)
    }
}
