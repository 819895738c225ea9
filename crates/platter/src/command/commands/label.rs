//! `platter label`

use crate::command::failure::{About, Outcome};
use crate::command::output::Output;
use crate::command::volume::{VolumePath, Volumes, WriteOptions};
use clap::Args;
use platter::Access;
use std::ffi::OsString;

/// Show or change a volume's label
#[derive(Args)]
pub(crate) struct Arguments {
    /// Image file, block device or mirror:IMAGE,IMAGE
    image: OsString,
    /// The new label: up to 32 UTF-16 units for refs and ntfs, 11 letters for FAT, 11 UTF-16 units for exfat; an empty
    /// one removes the label. Without it the label is printed
    label: Option<String>,
    #[command(flatten)]
    volume: WriteOptions,
}

impl Arguments {
    pub(crate) fn run(self) -> Outcome {
        let path = VolumePath::parse_or_root(&self.image)?;
        let image = path.image.display();
        let Some(label) = &self.label else {
            let system = Volumes::to_write(&self.volume).volume(&path.image, Access::Read)?;
            let mut output = Output::new();
            output.line(system.info().about(image)?.label)?;
            output.finish()?;
            return Ok(0);
        };
        let mut volumes = Volumes::to_write(&self.volume);
        let system = volumes.volume(&path.image, Access::Write { force: self.volume.force })?;
        let outcome = system.set_label(label).about(image);
        volumes.close()?;
        outcome.map(|()| 0)
    }
}
