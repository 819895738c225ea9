//! `platter cat`

use crate::command::failure::{About, Outcome};
use crate::command::output::Output;
use crate::command::volume::{ReadOptions, VolumePath, Volumes};
use clap::Args;
use platter::Access;
use platter_device::Buffer;
use std::ffi::OsString;

/// Print files
#[derive(Args)]
pub struct Arguments {
    /// The files
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    paths: Vec<OsString>,
    #[command(flatten)]
    volume: ReadOptions,
}

impl Arguments {
    pub fn run(self) -> Outcome {
        let mut volumes = Volumes::new(self.volume.partition);
        let mut output = Output::new();
        let mut buffer = Buffer::new(1 << 20);
        for argument in &self.paths {
            let path = VolumePath::parse(argument)?;
            let system = volumes.volume(&path.image, Access::Read)?;
            let held = path.find(&system)?;
            let mut offset = 0;
            loop {
                let read = system.read(held.node, offset, &mut buffer).about(&path)?;
                output.bytes(&buffer[..read])?;
                offset += read as u64;
                if read < buffer.len() {
                    break;
                }
            }
        }
        output.finish()?;
        Ok(0)
    }
}
