//! `platter df`

use crate::command::failure::{About, Outcome};
use crate::command::output::Output;
use crate::command::volume::{ReadOptions, VolumePath, Volumes};
use clap::Args;
use platter::Access;
use platter_device::show_size;
use serde::Serialize;
use std::ffi::OsString;

/// Show how much space volumes have, and how much of it is free
///
/// What is available is the space that files can get: a part of the free space of ReFS is kept for metadata, so that a
/// full volume can still be changed.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    /// Image files, block devices or mirrors
    #[arg(required = true, value_name = "IMAGE")]
    images: Vec<OsString>,
    /// Bytes, without units
    #[arg(short, long)]
    bytes: bool,
    /// Sizes with units, as always
    #[arg(short = 'h', long, hide = true)]
    human_readable: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    volume: ReadOptions,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// The space of one volume in bytes as JSON, for scripts.
#[derive(Serialize)]
struct VolumeSpace {
    image: String,
    format: String,
    label: String,
    size: u64,
    used: u64,
    available: u64,
}

impl Arguments {
    pub(crate) fn run(self) -> Outcome {
        let mut volumes = Volumes::new(&self.volume);
        let mut rows = Vec::new();
        let mut failed = false;
        for argument in &self.images {
            let row = VolumePath::parse_or_root(argument).and_then(|path| {
                let system = volumes.volume(&path.image, Access::Read)?;
                let (info, space) = (system.info().about(&path)?, system.space().about(&path)?);
                let bytes = |clusters: u64| clusters.saturating_mul(space.cluster);
                Ok(VolumeSpace {
                    image: path.image.display().to_string(),
                    format: info.format,
                    label: info.label,
                    size: bytes(space.total),
                    used: bytes(space.total.saturating_sub(space.free)),
                    available: bytes(space.free.saturating_sub(space.reserved)),
                })
            });
            match row {
                Ok(row) => rows.push(row),
                Err(failure) => {
                    failure.print();
                    failed = true;
                }
            }
        }
        let mut output = Output::new();
        if self.json {
            output.json(&rows)?;
        } else if !rows.is_empty() {
            self.print(&rows, &mut output)?;
        }
        output.finish()?;
        Ok(u8::from(failed))
    }

    fn print(
        &self,
        rows: &[VolumeSpace],
        output: &mut Output,
    ) -> Result<(), crate::command::failure::Failure> {
        let size = |bytes: u64| if self.bytes { bytes.to_string() } else { show_size(bytes) };
        let width = |each: &dyn Fn(&VolumeSpace) -> usize, least: usize| {
            rows.iter().map(each).max().unwrap_or(0).max(least)
        };
        let image = width(&|row| row.image.chars().count(), 5);
        let format = width(&|row| row.format.chars().count(), 6);
        let number = width(&|row| size(row.size).len(), 10);
        output.line(format_args!(
            "{:<image$}  {:<format$}  {:>number$}  {:>number$}  {:>number$}  used  label",
            "image", "format", "size", "used", "available"
        ))?;
        for row in rows {
            let part = (u128::from(row.used) * 100).div_ceil(u128::from(row.size.max(1)));
            output.line(format_args!(
                "{:<image$}  {:<format$}  {:>number$}  {:>number$}  {:>number$}  {part:>3}%  {}",
                row.image,
                row.format,
                size(row.size),
                size(row.used),
                size(row.available),
                row.label
            ))?;
        }
        Ok(())
    }
}
