//! `platter undo`

use crate::command::failure::{Failure, Outcome, shown};
use crate::command::output::{Output, grouped};
use crate::command::volume::open_device;
use clap::Args;
use platter::{Access, Source, stamp};
use platter_device::UndoFile;
use std::path::PathBuf;

/// Take a repair back: give an image the bytes that it had before
///
/// FILE is the undo file that `platter check --repair` made. The command also takes back a repair that was
/// interrupted, and may be run again if it was interrupted itself. An image that was written to after the repair is
/// refused; with --force it gets its old bytes all the same, and what was written there since is lost.
#[derive(Args)]
pub struct Arguments {
    /// The undo file
    file: PathBuf,
    /// Image file, block device or mirror:IMAGE,IMAGE
    image: PathBuf,
    /// Take it back even if the image was written to since, or is in use
    #[arg(long)]
    force: bool,
}

impl Arguments {
    pub fn run(self) -> Outcome {
        let mut undo = UndoFile::open(&self.file)?;
        // The stamp is read first: opening the image for writing may be noted in the record of a mirror, which is no
        // write to the image.
        let stamp = stamp(&Source::whole(&self.image)?);
        let device = open_device(&self.image, Access::Write { force: self.force })?;
        let began = shown_time(undo.time());
        let was_cut_off = undo.stamp().is_none();
        let restored = undo.restore(&*device, &stamp, self.force)?;
        let mut output = Output::new();
        let image = shown(&self.image);
        match restored.blocks {
            0 => output
                .line(format_args!("{image}: holds what it did before the repair of {began} already"))?,
            blocks => output.line(format_args!(
                "{image}: as it was before the repair of {began}; {} blocks were given their old content",
                grouped(blocks)
            ))?,
        }
        output.finish()?;
        if undo.unused() > 0 && was_cut_off {
            crate::command::failure::tell(format_args!(
                "platter: {}: the last {} bytes are no whole record: the repair was cut off there, or the file is damaged",
                shown(&self.file),
                grouped(undo.unused())
            ));
        }
        if restored.unknown > 0 {
            let why = format!(
                "{} blocks could not be read before they were overwritten, and stay",
                restored.unknown
            );
            return Err(Failure::new(image, why));
        }
        Ok(0)
    }
}

/// Returns the time at which a repair began, in local time.
fn shown_time(time: std::time::SystemTime) -> String {
    chrono::DateTime::<chrono::Local>::from(time).format("%Y-%m-%d %H:%M:%S").to_string()
}
