//! `platter mv`

use crate::command::failure::{About, Failure, Outcome};
use crate::command::volume::{VolumePath, Volumes, WriteOptions};
use clap::Args;
use platter::{Access, Source};
use platter_vfs::{Error, Kind, RenameFlags};
use std::ffi::OsString;
use std::path::Path;

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
            for source in sources {
                let Some((from, name)) = source.split() else {
                    return Err(Failure::new(source, "the root directory cannot be moved"));
                };
                // If the target is a directory, the source is moved into it, except where the target is the source's
                // own name in another case.
                let (to, new_name) = match target.split() {
                    Some((to, new_name)) if !into || is_itself(source, target, &system) => (to, new_name),
                    _ => (target.clone(), name.clone()),
                };
                let (from, to) = (from.find(&system)?, to.find(&system)?);
                system.rename(from.node, &name, to.node, &new_name, RenameFlags::Replace).about(source)?;
            }
            Ok(())
        })();
        outcome.and(volumes.close()).map(|()| 0)
    }
}

fn is_itself(
    source: &VolumePath,
    target: &VolumePath,
    system: &std::sync::Arc<dyn platter_vfs::FileSystem>,
) -> bool {
    source.names != target.names
        && matches!((source.lookup(system), target.lookup(system)), (Ok(one), Ok(two)) if one.node == two.node)
}
