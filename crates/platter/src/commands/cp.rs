//! `platter cp`

use crate::copy::{Copy, Source, Target, host_name};
use crate::failure::{About, Failure, Outcome, shown};
use crate::progress::{Bar, Unit};
use crate::volume::{Access, Held, Place, VolumePath, Volumes, WriteOptions};
use clap::Args;
use platter_vfs::{Error, Kind, Name};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Copy files between the host and volumes, or between volumes
///
/// Times are kept as far as the target can hold them, and flags between volumes. What cannot be copied is reported and
/// the rest copied. When the command ends, everything on volumes is durable.
#[derive(Args)]
pub struct Arguments {
    /// What to copy, and at the end the new name or the directory to copy into
    #[arg(required = true, num_args = 2.., value_name = "PATH|IMAGE:/PATH")]
    paths: Vec<OsString>,
    /// Directories with everything in them
    #[arg(short, long)]
    recursive: bool,
    /// Within a volume, share the clusters instead of copying their content (ReFS)
    #[arg(long)]
    clone: bool,
    #[command(flatten)]
    volume: WriteOptions,
}

impl Arguments {
    pub fn run(self) -> Outcome {
        let mut places = self.paths.iter().map(|path| Place::parse(path)).collect::<Result<Vec<_>, _>>()?;
        let target = places.pop().expect("clap asks for two");
        if places.iter().chain([&target]).all(|place| matches!(place, Place::Host(_))) {
            return Err(Failure::new(
                "cp",
                "no argument is a path on a volume, which is written IMAGE:/PATH",
            ));
        }
        let mut volumes = Volumes::new(self.volume.partition);
        let outcome = self.copy(&places, &target, &mut volumes);
        outcome.and_then(|failed| volumes.close().map(|()| u8::from(failed)))
    }

    /// Whether anything failed that was printed already.
    fn copy(&self, places: &[Place], target: &Place, volumes: &mut Volumes) -> Result<bool, Failure> {
        // The target's volume first, because a source on the same volume then shares it, writable.
        let (directory, new_name) = self.target(target, places, volumes)?;
        let mut sources = Vec::new();
        let mut failed = false;
        for place in places {
            match source(place, volumes) {
                Ok(source) => sources.push(source),
                Err(failure) => {
                    failure.print();
                    failed = true;
                }
            }
        }
        let bar = Bar::new(Unit::Bytes);
        let is_image = |path: &Path| volumes.contains(path);
        let mut copy = Copy::new(self.recursive, &is_image, &bar);
        copy.clone = self.clone;
        copy.total = sources.iter().map(|(source, _)| source.total(self.recursive)).sum();
        for (source, name) in &sources {
            let Some(name) = new_name.as_ref().or(name.as_ref()) else {
                bar.say(&format!("platter: {source}: the root has no name; copy it to a new name"));
                failed = true;
                continue;
            };
            if let (Source::Volume(from, from_held), Target::Volume(to, to_held)) = (source, &directory)
                && from_held.system.attributes(from_held.node).about(from)?.kind == Kind::Directory
                && leads_through(to, to_held, from_held).about(to)?
            {
                bar.say(&format!("platter: {source}: a directory cannot be copied into itself"));
                failed = true;
                continue;
            }
            copy.run(source, &directory, name);
        }
        Ok(failed | copy.failed())
    }

    /// The directory to copy into, and the name there if it is not the source's own.
    fn target(
        &self,
        target: &Place,
        sources: &[Place],
        volumes: &mut Volumes,
    ) -> Result<(Target, Option<Name>), Failure> {
        let several = |what: &dyn std::fmt::Display| -> Result<(), Failure> {
            if sources.len() > 1 {
                return Err(Failure::new(what, "is not a directory to copy several files into"));
            }
            Ok(())
        };
        match target {
            Place::Host(path) if path.is_dir() => Ok((Target::Host(path.clone()), None)),
            Place::Host(path) => {
                several(&shown(path))?;
                let parent = match path.parent() {
                    Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
                    _ => PathBuf::from("."),
                };
                Ok((Target::Host(parent), Some(host_name(path)?)))
            }
            Place::Volume(path) => {
                let system = volumes.volume(&path.image, Access::Write { force: self.volume.force })?;
                match path.lookup(&system) {
                    Ok(held) if system.attributes(held.node).about(path)?.kind == Kind::Directory => {
                        return Ok((Target::Volume(path.clone(), held), None));
                    }
                    Ok(_) | Err(Error::NotFound) => {}
                    Err(error) => return Err(error).about(path),
                }
                several(path)?;
                let (parent, name) = path.split().expect("the root is a directory");
                let held = parent.find(&system)?;
                Ok((Target::Volume(parent, held), Some(name)))
            }
        }
    }
}

/// A source, and its own name; the root of a volume has none.
fn source(place: &Place, volumes: &mut Volumes) -> Result<(Source, Option<Name>), Failure> {
    match place {
        Place::Host(path) => {
            std::fs::metadata(path).about(shown(path))?;
            // "." and the like have a name too, only elsewhere.
            let named = if path.file_name().is_some() {
                path.clone()
            } else {
                path.canonicalize().about(shown(path))?
            };
            let name = host_name(&named).ok();
            Ok((Source::Host(path.clone()), name))
        }
        Place::Volume(path) => {
            let system = volumes.volume(&path.image, Access::Read)?;
            let held: Held = path.find(&system)?;
            let path: VolumePath = path.clone();
            let name = path.names.last().cloned();
            Ok((Source::Volume(path, held), name))
        }
    }
}

/// Whether the directory at `path` is `outer` or stands somewhere below it, on the same volume.
fn leads_through(path: &VolumePath, inner: &Held, outer: &Held) -> platter_vfs::Result<bool> {
    if !inner.same_volume(outer) {
        return Ok(false);
    }
    let mut held = Held::root(&inner.system);
    for name in &path.names {
        if held.node == outer.node {
            return Ok(true);
        }
        held = held.child(name)?;
    }
    Ok(held.node == outer.node)
}
