//! `platter rm`

use crate::command::failure::{About, Failure, INTERRUPTED, Outcome};
use crate::command::interrupt;
use crate::command::volume::{VolumePath, Volumes, WriteOptions};
use clap::Args;
use platter::{Access, DEEPEST, Held};
use platter_vfs::{Error, Kind, Name};
use std::ffi::OsString;

/// Remove files and directories
///
/// A directory that cannot be read to its end is not removed, nor what is in it. What cannot be removed is reported, the
/// rest is removed, and the exit code is 1.
#[derive(Args)]
pub(crate) struct Arguments {
    /// What to remove
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    paths: Vec<OsString>,
    /// Directories with everything in them
    #[arg(short, long, visible_short_alias = 'R')]
    recursive: bool,
    /// Say nothing of what is not there, and remove files with the read-only attribute
    #[arg(short = 'f')]
    anyway: bool,
    #[command(flatten)]
    volume: WriteOptions,
}

impl Arguments {
    pub(crate) fn run(self) -> Outcome {
        interrupt::listen();
        let mut volumes = Volumes::to_write(&self.volume);
        let mut failed = false;
        for argument in &self.paths {
            if interrupt::is_asked() {
                break;
            }
            let outcome = VolumePath::parse(argument).and_then(|path| {
                let system = volumes.volume(&path.image, Access::Write { force: self.volume.force })?;
                let Some((directory, name)) = path.split() else {
                    return Err(Failure::new(&path, "the root directory cannot be removed"));
                };
                if self.anyway && matches!(path.lookup(&system), Err(Error::NotFound)) {
                    return Ok(());
                }
                if path.is_directory {
                    path.find(&system)?;
                }
                let directory = directory.find(&system)?;
                remove(&path, &directory, &name, self.recursive, self.volume.force || self.anyway)
            });
            if let Err(failure) =
                outcome.or_else(|failure| if failure.code() == INTERRUPTED { Ok(()) } else { Err(failure) })
            {
                failure.print();
                failed = true;
            }
        }
        volumes.close()?;
        if interrupt::is_asked() {
            return Err(Failure::interrupted("what is not removed is whole"));
        }
        Ok(u8::from(failed))
    }
}

fn remove(
    path: &VolumePath,
    directory: &Held,
    name: &Name,
    recursive: bool,
    force: bool,
) -> Result<(), Failure> {
    if interrupt::is_asked() {
        return Err(Failure::interrupted(path));
    }
    let system = &directory.system;
    let held = directory.child(name).about(path)?;
    if force {
        held.make_removable().about(path)?;
    }
    let kind = system.attributes(held.node).about(path)?.kind;
    if kind != Kind::Directory {
        return system.unlink(directory.node, name).about(path);
    }
    if !recursive {
        return Err(Failure::new(path, "is a directory; use -r to remove it with everything in it"));
    }
    if path.names.len() > DEEPEST {
        return Err(Failure::new(path, "directories inside each other without end; run check"));
    }
    // A directory whose listing cannot be read to the end stays with all its entries, until a check has repaired it.
    let (entries, read) = held.entries();
    read.about(path)?;
    for entry in entries {
        remove(&path.join(&entry.name), &held, &entry.name, true, force)?;
    }
    system.rmdir(directory.node, name).about(path)
}
