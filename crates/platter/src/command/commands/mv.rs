//! `platter mv`

use crate::command::failure::{About, Failure, Outcome};
use crate::command::volume::{VolumePath, Volumes, WriteOptions};
use clap::Args;
use platter::{Access, Held, Source};
use platter_vfs::{Error, FileSystem, Kind, Name, RenameFlags};
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

/// Move or rename files and directories within a volume
///
/// A file of the new name is replaced, unless the same command has just moved it there. What cannot be moved is
/// reported, the rest is moved, and the exit code is 1. To move between volumes, use cp and rm.
#[derive(Args)]
pub(crate) struct Arguments {
    /// What to move, and at the end the new name or the directory to move into
    #[arg(required = true, num_args = 2.., value_name = "IMAGE:/PATH")]
    paths: Vec<OsString>,
    #[command(flatten)]
    volume: WriteOptions,
}

impl Arguments {
    pub(crate) fn run(self) -> Outcome {
        let paths = self.paths.iter().map(|path| VolumePath::parse(path)).collect::<Result<Vec<_>, _>>()?;
        let (target, sources) = paths.split_last().expect("clap asks for two");
        let identity = |image: &Path| Source::whole(image).and_then(|source| source.identity());
        let same = |path: &VolumePath| {
            path.image == target.image
                || identity(&path.image)
                    .is_ok_and(|image| identity(&target.image).is_ok_and(|target| target == image))
        };
        if let Some(other) = sources.iter().find(|path| !same(path)) {
            return Err(Failure::new(other, "is on another volume; use cp and rm"));
        }
        let mut volumes = Volumes::to_write(&self.volume);
        let system = volumes.volume(&target.image, Access::Write { force: self.volume.force })?;
        let outcome = move_all(sources, target, &system);
        volumes.close()?;
        outcome.map(u8::from)
    }
}

/// Moves all sources, and returns whether some could not be moved; these are printed.
fn move_all(
    sources: &[VolumePath],
    target: &VolumePath,
    system: &Arc<dyn FileSystem>,
) -> Result<bool, Failure> {
    let into = match target.lookup(system) {
        Ok(held) => system.attributes(held.node).about(target)?.kind == Kind::Directory,
        Err(Error::NotFound) => false,
        Err(error) => return Err(error).about(target),
    };
    if sources.len() > 1 && !into {
        return Err(Failure::new(target, "is not a directory to move several files into"));
    }
    let mut moving = Moving { target, into, system, moved: Vec::new() };
    let mut failed = false;
    for source in sources {
        if let Err(failure) = moving.put(source) {
            failure.print();
            failed = true;
        }
    }
    Ok(failed)
}

/// One run of moving.
struct Moving<'m> {
    target: &'m VolumePath,
    /// Whether the target is a directory, into which the sources are moved.
    into: bool,
    system: &'m Arc<dyn FileSystem>,
    /// What was moved, with its new name. It is held, so that its number is not given to another file.
    moved: Vec<(Held, Name)>,
}

impl Moving<'_> {
    fn put(&mut self, source: &VolumePath) -> Result<(), Failure> {
        let Some((from, name)) = source.split() else {
            return Err(Failure::new(source, "the root directory cannot be moved"));
        };
        // If the target is a directory, the source is moved into it, except where the target is the source's own name
        // in another case.
        let (to, new_name) = match self.target.split() {
            Some((to, new_name)) if !self.into || self.is_itself(source) => (to, new_name),
            _ => (self.target.clone(), name.clone()),
        };
        let held = source.find(self.system)?;
        if self.target.is_directory && !self.into {
            let kind = self.system.attributes(held.node).about(source)?.kind;
            if kind != Kind::Directory {
                return Err(Failure::new(self.target, "is no directory to move a file into"));
            }
        }
        let (from, directory) = (from.find(self.system)?, to.find(self.system)?);
        if self.is_moved(&directory, &new_name) {
            let why = format!("was moved there just now; {source} is not moved over it");
            return Err(Failure::new(to.join(&new_name), why));
        }
        let renamed = self.system.rename(from.node, &name, directory.node, &new_name, RenameFlags::Replace);
        renamed.about(source)?;
        self.moved.push((held, new_name));
        Ok(())
    }

    /// Whether the entry of this name was moved there before. A file with several names may be there under one that it
    /// had anyway.
    fn is_moved(&self, directory: &Held, name: &Name) -> bool {
        let Ok(there) = directory.child(name) else { return false };
        let has_one_name = || self.system.attributes(there.node).is_ok_and(|found| found.links < 2);
        self.moved
            .iter()
            .any(|(moved, new_name)| moved.node == there.node && (new_name == name || has_one_name()))
    }

    fn is_itself(&self, source: &VolumePath) -> bool {
        let (one, other) = (source.lookup(self.system), self.target.lookup(self.system));
        source.names != self.target.names
            && matches!((one, other), (Ok(one), Ok(other)) if one.node == other.node)
    }
}
