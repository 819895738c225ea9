//! `platter undo`

use crate::command::failure::{Failure, Outcome, shown, tell};
use crate::command::image::listener;
use crate::command::interrupt;
use crate::command::output::{Output, grouped, local_time};
use crate::command::progress::{Bar, Unit};
use crate::command::volume::refuse_any_mounted;
use clap::Args;
use platter::{Source, UndoOptions};
use platter_device::UndoFile;
use std::path::PathBuf;

/// Take a repair back: give an image the bytes that it had before
///
/// FILE is the undo file that `platter check --repair` made. The command also takes back a repair that was
/// interrupted, and may be run again if it was interrupted itself. An image that was written to after the repair is
/// refused; with --force it gets its old bytes all the same, and what was written there since is lost. The undo file
/// may be on media that cannot be written to.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The undo file
    file: PathBuf,
    /// Image file, block device or mirror:IMAGE,IMAGE
    image: PathBuf,
    /// Take it back even if the image was written to since; never if it is in use
    #[arg(long)]
    force: bool,
}

impl Arguments {
    pub(crate) fn run(mut self) -> Outcome {
        // The undo file is of the whole image.
        self.image = Source::split_partition(&self.image).0.to_path_buf();
        if UndoFile::is_unbegun(&self.file) {
            return self.tell_of_nothing();
        }
        refuse_any_mounted(&Source::whole(&self.image)?)?;
        if UndoFile::open(&self.file)?.is_read_only() {
            tell(format_args!(
                "platter: {}: cannot be written to; if this is interrupted, --force lets it go on",
                shown(&self.file)
            ));
        }
        let left = format!(
            "{}: a part of it is as it was before the repair; `platter undo {} {0}` takes back the rest",
            shown(&self.image),
            shown(&self.file)
        );
        interrupt::end_at_once(move || left.clone());
        let options = UndoOptions { force: self.force, listener: listener() };
        let undone = platter::undo(&self.file, &self.image, &options, &Bar::new(Unit::Steps))?;
        let began = undone.began.map(|time| local_time(time.into())).unwrap_or_default();
        let mut output = Output::new();
        let image = shown(&self.image);
        match undone.blocks {
            0 => output
                .line(format_args!("{image}: holds what it did before the repair of {began} already"))?,
            blocks => output.line(format_args!(
                "{image}: as it was before the repair of {began}; {} blocks were given their old content",
                grouped(blocks)
            ))?,
        }
        output.finish()?;
        if undone.unused > 0 && undone.was_cut_off {
            tell(format_args!(
                "platter: {}: the last {} bytes are no whole record: the repair was cut off there, or the file is damaged",
                shown(&self.file),
                grouped(undone.unused)
            ));
        }
        if undone.unknown > 0 {
            let why =
                format!("{} blocks could not be read before they were overwritten, and stay", undone.unknown);
            return Err(Failure::new(image, why));
        }
        Ok(0)
    }

    /// Says that there is nothing to take back: the undo file is made before the first change, and it is empty.
    fn tell_of_nothing(&self) -> Outcome {
        let mut output = Output::new();
        output.line(format_args!(
            "{}: holds what it did before; {} is empty, so the repair ended before it changed anything",
            shown(&self.image),
            shown(&self.file)
        ))?;
        output.finish()?;
        Ok(0)
    }
}
