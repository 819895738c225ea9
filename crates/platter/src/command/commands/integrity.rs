//! `platter integrity`

use super::mkfs::parse_switch;
use crate::command::failure::{About, Failure, Outcome, shown};
use crate::command::mounting::{attribute, attributes, on_mount};
use crate::command::output::Output;
use crate::command::progress::{Bar, Unit};
use crate::command::volume::{ReadOptions, VolumePath, Volumes, WriteOptions};
use clap::{Args, Subcommand};
use platter::{Access, DEEPEST, Held};
use platter_vfs::{Integrity, Kind};
use serde::Serialize;
use std::ffi::OsString;

/// Show or change whether files' data is checksummed (ReFS)
///
/// A file with integrity has a checksum for each cluster, which every read verifies, and is never overwritten in place.
/// New files and directories take the setting of the directory that they are made in. A file on a volume that is mounted
/// is named by its path on the mount.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    Get(Get),
    Set(Set),
}

/// Show the setting of files and directories
#[derive(Args)]
struct Get {
    /// Files and directories
    #[arg(required = true, value_name = "IMAGE:/PATH|FILE")]
    paths: Vec<OsString>,
    /// Directories with everything in them
    #[arg(short, long)]
    recursive: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    volume: ReadOptions,
}

/// Turn integrity on or off, also for files that have data
///
/// Checksums of existing data are computed or removed; the data is not moved. For a directory, this is the setting of
/// new entries; with -r, also of everything in it.
#[derive(Args)]
struct Set {
    /// Files and directories, and then: on or off
    #[arg(required = true, value_name = "IMAGE:/PATH|FILE")]
    paths: Vec<OsString>,
    #[arg(value_name = "on|off", value_parser = parse_switch, action = clap::ArgAction::Set)]
    setting: bool,
    /// Directories with everything in them
    #[arg(short, long)]
    recursive: bool,
    #[command(flatten)]
    volume: WriteOptions,
}

/// The setting of one file or directory as JSON, for scripts.
#[derive(Serialize)]
struct IntegrityRow {
    path: String,
    kind: &'static str,
    /// Whether the file's data is checksummed; for a directory, whether the data of its new entries will be.
    enabled: bool,
    /// Whether a read that meets damage fails; null for a file on a mount, which does not say.
    enforced: Option<bool>,
}

const NO_INTEGRITY: &str = "the format of the mounted volume has no integrity streams";

impl Arguments {
    pub(crate) fn run(self) -> Outcome {
        match self.action {
            Action::Get(get) => get.run(),
            Action::Set(set) => set.run(),
        }
    }
}

impl Get {
    fn run(self) -> Outcome {
        let mut volumes = Volumes::new(&self.volume);
        let mut output = Output::new();
        let mut rows = Vec::new();
        let mut failed = false;
        let mut tell = |row: IntegrityRow| match self.json {
            true => {
                rows.push(row);
                Ok(())
            }
            false => output.line(format_args!("{}  {}", if row.enabled { "on " } else { "off" }, row.path)),
        };
        let word = |is_directory| if is_directory { "directory" } else { "file" };
        for argument in &self.paths {
            let outcome = on_mount(argument).and_then(|mounted| match mounted {
                Some(path) => attributes::walk(path, self.recursive, &mut |path, is_directory| {
                    let enabled = attributes::get(path, attribute::INTEGRITY)?
                        .ok_or_else(|| Failure::new(shown(path), NO_INTEGRITY))?;
                    let (path, enabled) = (path.display().to_string(), enabled == b"on");
                    tell(IntegrityRow { path, kind: word(is_directory), enabled, enforced: None })
                }),
                None => {
                    let path = VolumePath::parse(argument)?;
                    let system = volumes.volume(&path.image, Access::Read)?;
                    walk(&path, &path.find(&system)?, self.recursive, &mut |path, held, kind| {
                        let Integrity { enabled, enforced } =
                            held.system.integrity().and_then(|part| part.get(held.node)).about(path)?;
                        let (path, kind) = (path.to_string(), word(kind == Kind::Directory));
                        tell(IntegrityRow { path, kind, enabled, enforced: Some(enforced) })
                    })
                }
            });
            if let Err(failure) = outcome {
                if failure.is_silent() {
                    return Err(failure);
                }
                failure.print();
                failed = true;
            }
        }
        if self.json {
            output.json(&rows)?;
        }
        output.finish()?;
        Ok(u8::from(failed))
    }
}

impl Set {
    fn run(self) -> Outcome {
        let mut volumes = Volumes::to_write(&self.volume);
        let integrity = Integrity { enabled: self.setting, enforced: true };
        let bar = Bar::new(Unit::Bytes);
        let mut failed = false;
        for argument in &self.paths {
            let outcome = on_mount(argument).and_then(|mounted| match mounted {
                Some(path) => attributes::walk(path, self.recursive, &mut |path, _| {
                    attributes::set(path, attribute::INTEGRITY, if self.setting { b"on" } else { b"off" })
                }),
                None => {
                    let path = VolumePath::parse(argument)?;
                    let system = volumes.volume(&path.image, Access::Write { force: self.volume.force })?;
                    walk(&path, &path.find(&system)?, self.recursive, &mut |path, held, _| {
                        held.system
                            .integrity()
                            .and_then(|part| part.set_watched(held.node, integrity, &bar))
                            .about(path)
                    })
                }
            });
            if let Err(failure) = outcome {
                bar.say(&format!("platter: {failure}"));
                failed = true;
            }
        }
        volumes.close()?;
        Ok(u8::from(failed))
    }
}

/// Calls `each` on a node, and on everything below it if `recursive`. Symbolic links have no data and are skipped.
fn walk(
    path: &VolumePath,
    held: &Held,
    recursive: bool,
    each: &mut dyn FnMut(&VolumePath, &Held, Kind) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let kind = held.system.attributes(held.node).about(path)?.kind;
    if kind == Kind::SymbolicLink {
        return Ok(());
    }
    each(path, held, kind)?;
    if !recursive || kind != Kind::Directory {
        return Ok(());
    }
    if path.names.len() > DEEPEST {
        return Err(Failure::new(path, "directories inside each other without end; run check"));
    }
    let (entries, read) = held.entries();
    for entry in entries {
        let path = path.join(&entry.name);
        walk(&path, &held.child(&entry.name).about(&path)?, true, each)?;
    }
    read.about(path)
}
