//! `platter mkdir`

use crate::command::failure::{About, Failure, Outcome};
use crate::command::volume::{VolumePath, Volumes, WriteOptions};
use clap::Args;
use platter::{Access, Held};
use platter_vfs::{Error, FileSystem, Kind};
use std::ffi::OsString;
use std::sync::Arc;

/// Make directories
///
/// A directory that cannot be made is reported, the others are made, and the exit code is 1.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The directories
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    paths: Vec<OsString>,
    /// Make missing parent directories as well, and accept directories that exist
    #[arg(short, long)]
    parents: bool,
    #[command(flatten)]
    volume: WriteOptions,
}

impl Arguments {
    pub(crate) fn run(self) -> Outcome {
        let mut volumes = Volumes::to_write(&self.volume);
        let mut failed = false;
        for argument in &self.paths {
            let outcome = VolumePath::parse(argument).and_then(|path| {
                let system = volumes.volume(&path.image, Access::Write { force: self.volume.force })?;
                if self.parents { make_all(&path, &system) } else { make(&path, &system) }
            });
            if let Err(failure) = outcome {
                failure.print();
                failed = true;
            }
        }
        volumes.close()?;
        Ok(u8::from(failed))
    }
}

fn make(path: &VolumePath, system: &Arc<dyn FileSystem>) -> Result<(), Failure> {
    let Some((directory, name)) = path.split() else { return Err(Error::Exists).about(path) };
    let parent = directory.lookup(system).map_err(|error| match error {
        Error::NotFound => Failure::new(&directory, "no such file or directory; -p makes it too"),
        error => Failure::new(&directory, error),
    })?;
    let node = system.create(parent.node, &name, Kind::Directory).about(path)?;
    drop(Held::new(system, node));
    Ok(())
}

fn make_all(path: &VolumePath, system: &Arc<dyn FileSystem>) -> Result<(), Failure> {
    let mut held = Held::root(system);
    for name in &path.names {
        held = match held.child(name) {
            Err(Error::NotFound) => {
                Held::new(system, system.create(held.node, name, Kind::Directory).about(path)?)
            }
            found => found.about(path)?,
        };
        if system.attributes(held.node).about(path)?.kind != Kind::Directory {
            return Err(Error::NotADirectory).about(path);
        }
    }
    Ok(())
}
