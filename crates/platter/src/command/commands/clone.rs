//! `platter clone`

use super::cp;
use crate::command::failure::{Failure, Outcome, USAGE};
use crate::command::volume::{Location, WriteOptions};
use clap::Args;
use std::ffi::OsString;

/// Copy files within a volume so that the copies share their clusters (ReFS)
///
/// A clone takes no space until one of both is changed, and is made at once however large the file is. The same as
/// `platter cp --clone` where all is on one volume.
#[derive(Args)]
pub(crate) struct Arguments {
    /// What to clone, and at the end the new name or the directory to clone into
    #[arg(required = true, num_args = 2.., value_name = "IMAGE:/PATH")]
    paths: Vec<OsString>,
    /// Directories with everything in them
    #[arg(short, long, visible_short_aliases = ['R', 'a'])]
    recursive: bool,
    #[command(flatten)]
    volume: WriteOptions,
}

impl Arguments {
    pub(crate) fn run(self) -> Outcome {
        let mut images = Vec::new();
        for argument in &self.paths {
            match Location::parse(argument)? {
                Location::Volume(path) => images.push(path.image),
                Location::Host(path) => {
                    let why = "is no path on a volume; clones share clusters, so all is on one volume";
                    return Err(Failure::new(path.display(), why).with_code(USAGE));
                }
            }
        }
        let target = images.last().expect("clap asks for two");
        if let Some(other) = images.iter().find(|image| *image != target) {
            let why =
                format!("is another volume than {}; `platter cp` copies between volumes", target.display());
            return Err(Failure::new(other.display(), why).with_code(USAGE));
        }
        cp::Arguments::cloning(self.paths, self.recursive, self.volume).run()
    }
}
