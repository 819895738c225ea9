//! `platter cat`

use crate::command::failure::{About, Failure, Outcome};
use crate::command::output::Output;
use crate::command::volume::{ReadOptions, VolumePath, Volumes};
use clap::Args;
use platter::Access;
use platter_device::Buffer;
use std::ffi::{OsStr, OsString};

/// The size in bytes of the reads that are made after a read of a larger piece failed.
const SMALLEST: usize = 4096;

/// Print files
///
/// What cannot be printed is reported, the rest is printed, and the exit code is 1.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The files
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    paths: Vec<OsString>,
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
        let mut buffer = Buffer::new(1 << 20);
        let mut failed = false;
        for argument in &self.paths {
            match print(argument, &mut volumes, &mut buffer, &mut output) {
                Err(failure) if failure.is_silent() => return Err(failure),
                Err(failure) => {
                    failure.print();
                    failed = true;
                }
                Ok(()) => {}
            }
        }
        output.finish()?;
        Ok(u8::from(failed))
    }
}

/// Prints a file's content, up to the first 4 KiB piece that cannot be read.
fn print(
    argument: &OsStr,
    volumes: &mut Volumes,
    buffer: &mut Buffer,
    output: &mut Output,
) -> Result<(), Failure> {
    let path = VolumePath::parse(argument)?;
    let system = volumes.volume(&path.image, Access::Read)?;
    let held = path.find(&system)?;
    let (mut offset, mut piece) = (0, buffer.len());
    loop {
        match system.read(held.node, offset, &mut buffer[..piece]) {
            // Only a part of a large piece may be unreadable.
            Err(_) if piece > SMALLEST => piece = SMALLEST,
            read => {
                let read = read.about(&path)?;
                output.bytes(&buffer[..read])?;
                offset += read as u64;
                if read < piece {
                    return Ok(());
                }
            }
        }
    }
}
