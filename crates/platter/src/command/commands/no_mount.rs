//! `platter mount` where this system has no mounts by Platter.

use crate::command::failure::{Failure, Outcome};
use crate::command::keys::KeyOptions;
use clap::Args;
use std::ffi::OsString;

/// Mount a volume at a directory: on Linux only
///
/// A mount by Platter needs FUSE, which this program uses on Linux. Here `platter ls`, `cat`, `cp`, `mv`, `rm`, `mkdir` and
/// `touch` work on volumes without a mount, and `platter cp -r` brings a tree to a directory and back.
#[derive(Args)]
pub(crate) struct Arguments {
    /// What a mount on Linux takes
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<OsString>,
}

impl Arguments {
    pub(crate) fn run(self, _keys: KeyOptions) -> Outcome {
        let what = format!("mount ({} arguments)", self.rest.len());
        let why = "volumes are mounted on Linux only; here platter ls, cat and cp read and write them without a mount";
        Err(Failure::new(what, why))
    }
}
