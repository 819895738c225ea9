//! `platter cp`

use crate::command::copying::{Told, entry_path, source};
use crate::command::failure::{About, Failure, INTERRUPTED, Outcome, USAGE, shown, tell};
use crate::command::interrupt;
use crate::command::volume::{Location, Volumes, WriteOptions, means_directory, no_path_on_a_volume};
use clap::Args;
use platter::Access;
use platter::copy::{
    Copy, NAMELESS, Options, Origin, Outcome as Copied, Target, What, host_name, leads_into,
};
use platter_vfs::{Error, Kind, Name};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Copy files between the host and volumes, or between volumes
///
/// Everything that both sides can hold is kept, as `cp -a` does: names, times, flags, owners and permissions, holes,
/// hard and symbolic links, extended attributes, named streams, reparse points and security descriptors. Attributes
/// that the target cannot hold are counted and reported at the end; that is a failure only with --strict. Linux lets
/// no program set when a file was created.
///
/// On the host, the stream NAME is the extended attribute user.DosStream.NAME:$DATA and flags are user.DOSATTRIB, as
/// Samba and Wine have them. On volumes, owners and permissions other than this user's usual ones are kept as the
/// Windows Subsystem for Linux keeps them. A byte of a host's name that is not UTF-8 becomes the character U+DC00
/// plus the byte on a volume, and the byte again when it is copied back.
///
/// A file that is there already is replaced when its copy is whole, so that a copy that fails costs nothing; if it has
/// further names, streams or attributes, it keeps these, and its content is overwritten. A device or FIFO on the host
/// is written to. What the same command has just made is not replaced. On the host, a set-user-id or set-group-id bit is
/// kept only with the owner and group that are recorded.
///
/// The source - is standard input, which becomes a file: echo text | platter cp - IMAGE:/text.txt
///
/// A file that cannot be copied is reported, the others are copied, and the exit code is 1. After every thousand
/// files or 256 MiB, the copies on a volume are made durable. Ctrl-C ends the copy after the current file; the files
/// copied until then stay, and the exit code is 130. When the command ends, everything on volumes is durable. If a
/// volume takes nothing more, as after an error of its device, the copy ends and reports how much was durable before.
#[derive(Args)]
pub(crate) struct Arguments {
    /// What to copy, and at the end the new name or the directory to copy into; DIRECTORY/. stands for the content of
    /// DIRECTORY
    #[arg(required = true, num_args = 2.., value_name = "PATH|IMAGE:/PATH")]
    paths: Vec<OsString>,
    /// Directories with everything in them
    #[arg(short, long, visible_short_aliases = ['R', 'a'])]
    recursive: bool,
    /// Keep times, flags, owners and permissions, as always
    #[arg(short = 'p')]
    preserve: bool,
    /// Leave files that are there already
    #[arg(short, long)]
    no_clobber: bool,
    /// Replace files with the read-only attribute
    #[arg(short = 'f', conflicts_with = "no_clobber")]
    replace: bool,
    /// Print the name of each file once its copy is durable
    #[arg(short, long)]
    verbose: bool,
    /// Within a volume, share the clusters instead of copying their content (ReFS)
    #[arg(long)]
    clone: bool,
    /// End with exit code 1 if anything is not kept
    #[arg(long)]
    strict: bool,
    /// Read shadow copy N of the volumes that are copied from, 1 is the oldest (NTFS)
    #[arg(long, value_name = "N")]
    shadow: Option<u32>,
    #[command(flatten)]
    volume: WriteOptions,
}

impl Arguments {
    /// The arguments of `cp --clone`.
    pub(crate) fn cloning(paths: Vec<OsString>, recursive: bool, volume: WriteOptions) -> Arguments {
        Arguments {
            paths,
            recursive,
            preserve: true,
            no_clobber: false,
            replace: false,
            verbose: false,
            clone: true,
            strict: false,
            shadow: None,
            volume,
        }
    }

    pub(crate) fn run(self) -> Outcome {
        let mut places =
            self.paths.iter().map(|path| Location::parse(path)).collect::<Result<Vec<_>, _>>()?;
        let target = places.pop().expect("clap asks for two");
        if places.len() > 1 && self.paths[..places.len()].iter().filter(|path| *path == "-").count() > 1 {
            return Err(Failure::new("-", "standard input can be copied once").with_code(USAGE));
        }
        if places.iter().chain([&target]).all(|place| matches!(place, Location::Host(_))) {
            let why = match &target {
                Location::Host(path) => no_path_on_a_volume(path),
                Location::Volume(path) => Failure::new(path, ""),
            };
            return Err(Failure::new("cp", format!("no argument is a path on a volume: {why}")));
        }
        interrupt::listen();
        let mut volumes = Volumes::to_write(&self.volume).in_shadow(self.shadow);
        let told = Told::new(self.verbose);
        let outcome = self.copy(&places, &target, &mut volumes, &told);
        let closed = volumes.close();
        let outcome = outcome?;
        if outcome.volume_failed || closed.is_err() {
            if let Err(failure) = closed {
                failure.print();
            }
            let saved = outcome.saved;
            return Err(Failure::new("cp", format!("{saved} are copied and stay, of the rest nobody knows")));
        }
        told.say_names(&outcome.unsaved);
        if outcome.interrupted {
            let copied = outcome.copied;
            tell(format_args!("platter: interrupted; {copied} are copied and stay, the rest is not"));
            return Ok(INTERRUPTED);
        }
        Ok(u8::from(outcome.failures > 0 || self.strict && outcome.losses > 0))
    }

    fn copy(
        &self,
        places: &[Location],
        target: &Location,
        volumes: &mut Volumes,
        told: &Told,
    ) -> Result<Copied, Failure> {
        // The target's volume is opened first, for writing, because a source on the same volume then uses it too.
        let (directory, new_name) = self.target(target, places, volumes)?;
        if let Some(why) = directory.why_read_only() {
            let target = shown(Path::new(&self.paths[places.len()]));
            return Err(Failure::new(target, format!("the volume is read-only: {why}")));
        }
        // A new name that ends with a slash is one for a directory.
        let is_for_directory =
            new_name.is_some() && self.paths.last().is_some_and(|path| means_directory(path));
        let mut failures = 0;
        let mut fail = |failure: &Failure| {
            told.fail(failure);
            failures += 1;
        };
        let mut sources = Vec::new();
        for (place, argument) in places.iter().zip(&self.paths) {
            match source(place, argument, volumes) {
                Ok(source) => sources.push(source),
                Err(failure) => fail(&failure),
            }
        }
        let is_image = |path: &Path| volumes.contains(path);
        let total = sources.iter().map(|(source, _)| source.total(self.recursive, told)).sum();
        let options = Options {
            recursive: self.recursive,
            clone: self.clone,
            force: self.volume.force || self.replace,
            keeps_what_is_there: self.no_clobber,
        };
        let mut copy = Copy::new(options, total, &is_image, told);
        for (source, name) in sources {
            if matches!(source, Origin::Input { .. }) && new_name.is_none() {
                fail(&Failure::new(&source, NAMELESS));
                continue;
            }
            let name = new_name.as_ref().or(name.as_ref());
            if name.is_none() && !self.recursive {
                fail(&Failure::new(&source, "is a directory; use -r to copy it with everything in it"));
                continue;
            }
            if is_for_directory && source.facts(0).is_ok_and(|facts| facts.what != What::Directory) {
                fail(&Failure::new(shown(Path::new(&self.paths[places.len()])), NO_DIRECTORY));
                continue;
            }
            match leads_into(&directory, &source).about(&source) {
                Ok(false) => copy.run(source, &directory, name),
                Ok(true) => fail(&Failure::new(&source, "a directory cannot be copied into itself")),
                Err(failure) => fail(&failure),
            }
        }
        let mut outcome = copy.finish();
        outcome.failures += failures;
        told.say_losses();
        Ok(outcome)
    }

    /// Returns the directory to copy into, and the name of the copy there; no name if the copy keeps the source's.
    fn target(
        &self,
        target: &Location,
        sources: &[Location],
        volumes: &mut Volumes,
    ) -> Result<(Target, Option<Name>), Failure> {
        let several = |what: &dyn std::fmt::Display| -> Result<(), Failure> {
            if sources.len() > 1 {
                return Err(Failure::new(what, "is not a directory to copy several files into"));
            }
            Ok(())
        };
        match target {
            Location::Host(path) if path.is_dir() => Ok((Target::Host(path.clone()), None)),
            Location::Host(path) => {
                several(&shown(path))?;
                let parent = match path.parent() {
                    Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
                    _ => PathBuf::from("."),
                };
                Ok((Target::Host(parent), Some(host_name(path)?)))
            }
            Location::Volume(path) => {
                let system = volumes.volume(&path.image, Access::Write { force: self.volume.force })?;
                match path.lookup(&system) {
                    Ok(held) if system.attributes(held.node).about(path)?.kind == Kind::Directory => {
                        return Ok((Target::Volume(entry_path(path), held), None));
                    }
                    Ok(_) | Err(Error::NotFound) => {}
                    Err(error) => return Err(error).about(path),
                }
                several(path)?;
                let (parent, name) = path.split().expect("the root is a directory");
                let held = parent.find(&system)?;
                Ok((Target::Volume(entry_path(&parent), held), Some(name)))
            }
        }
    }
}

const NO_DIRECTORY: &str = "is no directory to copy a file into";
