//! `platter mv`

use crate::command::failure::{About, Failure, Outcome};
use crate::command::volume::{VolumePath, Volumes, WriteOptions};
use clap::Args;
use platter::{Access, Held, Source};
use platter_vfs::{Error, FileSystem, Kind, RenameFlags};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Move or rename files and directories within a volume
///
/// A file of the new name is replaced. To move between volumes, use cp and rm.
#[derive(Args)]
pub struct Arguments {
    /// What to move, and at the end the new name or the directory to move into
    #[arg(required = true, num_args = 2.., value_name = "IMAGE:/PATH")]
    paths: Vec<OsString>,
    #[command(flatten)]
    volume: WriteOptions,
}

impl Arguments {
    pub fn run(self) -> Outcome {
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
        let mut volumes = Volumes::new(self.volume.partition);
        let system = volumes.volume(&target.image, Access::Write { force: self.volume.force })?;
        let outcome = (|| {
            let into = match target.lookup(&system) {
                Ok(held) => system.attributes(held.node).about(target)?.kind == Kind::Directory,
                Err(Error::NotFound) => false,
                Err(error) => return Err(error).about(target),
            };
            if sources.len() > 1 && !into {
                return Err(Failure::new(target, "is not a directory to move several files into"));
            }
            let is_directory = !into && self.paths.last().is_some_and(|path| path.as_bytes().ends_with(b"/"));
            let mut moving = Moving { system: &system, target, into, is_directory, moved: Vec::new() };
            let mut failed = false;
            for source in sources {
                if let Err(failure) = moving.one(source) {
                    failure.print();
                    failed = true;
                }
            }
            Ok(u8::from(failed))
        })();
        let closed = volumes.close();
        outcome.and_then(|code| closed.map(|()| code))
    }
}

/// The moves of one command.
struct Moving<'a> {
    system: &'a Arc<dyn FileSystem>,
    target: &'a VolumePath,
    /// Whether the target is a directory to move into.
    into: bool,
    /// Whether the new name is written as one of a directory, with a slash at its end.
    is_directory: bool,
    /// What was moved, held so that no other file gets its number.
    moved: Vec<Held>,
}

impl Moving<'_> {
    fn one(&mut self, source: &VolumePath) -> Result<(), Failure> {
        let system = self.system;
        let Some((from, name)) = source.split() else {
            return Err(Failure::new(source, "the root directory cannot be moved"));
        };
        // If the target is a directory, the source is moved into it, except where the target is the source's own name in
        // another case.
        let (to, new_name) = match self.target.split() {
            Some((to, new_name)) if !self.into || is_itself(source, self.target, system) => (to, new_name),
            _ => (self.target.clone(), name.clone()),
        };
        let (from, to) = (from.find(system)?, to.find(system)?);
        let held = from.child(&name).about(source)?;
        if self.is_directory && system.attributes(held.node).about(source)?.kind != Kind::Directory {
            return Err(Error::NotADirectory).about(self.target);
        }
        if to.child(&new_name).is_ok_and(|there| self.moved.iter().any(|moved| moved.node == there.node)) {
            let why = "would replace what this command moved there before";
            return Err(Failure::new(source, why));
        }
        system.rename(from.node, &name, to.node, &new_name, RenameFlags::Replace).about(source)?;
        self.moved.push(held);
        Ok(())
    }
}

fn is_itself(source: &VolumePath, target: &VolumePath, system: &Arc<dyn FileSystem>) -> bool {
    source.names != target.names
        && matches!((source.lookup(system), target.lookup(system)), (Ok(one), Ok(two)) if one.node == two.node)
}
