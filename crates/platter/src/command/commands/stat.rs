//! `platter stat`

use crate::command::facts::FileFacts;
use crate::command::failure::Outcome;
use crate::command::output::Output;
use crate::command::volume::{ReadOptions, VolumePath, Volumes};
use clap::Args;
use platter::Access;
use std::ffi::OsString;

/// Show all that is known of files and directories besides their content
#[derive(Args)]
pub(crate) struct Arguments {
    /// The files
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    paths: Vec<OsString>,
    /// As JSON
    #[arg(long)]
    json: bool,
    /// Read shadow copy N of the volume, 1 is the oldest (NTFS)
    #[arg(long, value_name = "N")]
    shadow: Option<u32>,
    #[command(flatten)]
    volume: ReadOptions,
}

impl Arguments {
    pub(crate) fn run(self) -> Outcome {
        let mut volumes = Volumes::new(&self.volume).in_shadow(self.shadow);
        let mut output = Output::new();
        let mut all = Vec::new();
        let mut failed = false;
        for argument in &self.paths {
            let told = VolumePath::parse_or_root(argument).and_then(|path| {
                let system = volumes.volume(&path.image, Access::Read)?;
                FileFacts::of(&path, &path.find(&system)?)
            });
            match told {
                Ok(told) if self.json => all.push(told),
                Ok(told) => {
                    output.line(&told.path)?;
                    let facts = told.shown();
                    output.facts("  ", facts.iter().map(|(name, value)| (*name, value.as_str())))?;
                }
                Err(failure) => {
                    failure.print();
                    failed = true;
                }
            }
        }
        if self.json {
            output.json(&all)?;
        }
        output.finish()?;
        Ok(u8::from(failed))
    }
}
