//! `platter touch`

use crate::command::failure::{About, Failure, Outcome};
use crate::command::output::parse_time;
use crate::command::volume::{VolumePath, Volumes, WriteOptions};
use clap::Args;
use platter::{Access, Held};
use platter_vfs::{Change, Error, FileSystem, Kind, Timestamp};
use std::ffi::OsString;
use std::sync::Arc;
use std::time::SystemTime;

/// Make empty files, or set the times of files and directories that are there
///
/// A time that the format does not store is not set, and one that it stores coarsely is rounded down.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The files
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    paths: Vec<OsString>,
    /// This time instead of now, as 2026-03-31 (its beginning), "2026-03-31 15:20:00" in local time, or
    /// 2026-03-31T15:20:00Z
    #[arg(short, long, value_name = "TIME", value_parser = parse_time)]
    date: Option<Timestamp>,
    /// Only the time of the last access
    #[arg(short = 'a')]
    accessed: bool,
    /// Only the time of the last change
    #[arg(short = 'm')]
    modified: bool,
    /// Make no files
    #[arg(short = 'c', long)]
    no_create: bool,
    #[command(flatten)]
    volume: WriteOptions,
}

impl Arguments {
    pub(crate) fn run(self) -> Outcome {
        let time = self.date.unwrap_or_else(|| Timestamp::from(SystemTime::now()));
        let mut volumes = Volumes::to_write(&self.volume);
        let mut failed = false;
        for argument in &self.paths {
            let outcome = VolumePath::parse(argument).and_then(|path| {
                let system = volumes.volume(&path.image, Access::Write { force: self.volume.force })?;
                self.touch(&path, &system, time)
            });
            if let Err(failure) = outcome {
                failure.print();
                failed = true;
            }
        }
        volumes.close()?;
        Ok(u8::from(failed))
    }

    fn touch(&self, path: &VolumePath, system: &Arc<dyn FileSystem>, time: Timestamp) -> Result<(), Failure> {
        let held = match path.lookup(system) {
            Err(Error::NotFound) if self.no_create => return Ok(()),
            Err(Error::NotFound) if !path.is_directory => {
                let (directory, name) = path.split().expect("the root is there");
                let directory = directory.find(system)?;
                Held::new(system, system.create(directory.node, &name, Kind::File).about(path)?)
            }
            found => found.about(path)?,
        };
        let change = Change {
            accessed: (self.accessed || !self.modified).then_some(time),
            modified: (self.modified || !self.accessed).then_some(time),
            ..Change::default()
        };
        system.set_attributes(held.node, &change).about(path).map(|_| ())
    }
}
