//! `platter ls`

use crate::command::failure::{About, Failure, Outcome};
use crate::command::output::{Output, flag_letters, flag_words, kind_word, local_time, utc_time};
use crate::command::volume::{ReadOptions, VolumePath, Volumes};
use clap::Args;
use platter::{Access, DEEPEST, Held};
use platter_device::show_size;
use platter_vfs::{Attributes, DosFlags, Kind, Name};
use serde::Serialize;
use std::cmp::Reverse;
use std::ffi::OsString;

/// List directories
#[derive(Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    /// IMAGE:/PATH, or IMAGE for its root directory
    #[arg(required = true, value_name = "IMAGE[:/PATH]")]
    paths: Vec<OsString>,
    /// With flags (directory, read-only, hidden, system, archive), size in bytes and time of the last change
    #[arg(short)]
    long: bool,
    /// Sizes with units, such as 1.5 MiB
    #[arg(short = 'h', long)]
    human_readable: bool,
    /// With everything below
    #[arg(short = 'R', long)]
    recursive: bool,
    /// With hidden files
    #[arg(short, long, visible_short_alias = 'A')]
    all: bool,
    /// Directories themselves, not what is in them
    #[arg(short, long)]
    directory: bool,
    /// The last changed first
    #[arg(short = 't', conflicts_with = "by_size")]
    by_time: bool,
    /// The largest first
    #[arg(short = 'S')]
    by_size: bool,
    /// In reverse order
    #[arg(short, long)]
    reverse: bool,
    /// A name a line, as always
    #[arg(short = '1', hide = true)]
    one: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
    /// Read shadow copy N of the volume, 1 is the oldest (NTFS)
    #[arg(long, value_name = "N")]
    shadow: Option<u32>,
    #[command(flatten)]
    volume: ReadOptions,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// One entry as JSON, for scripts.
#[derive(Serialize)]
struct Listed {
    path: String,
    name: String,
    kind: &'static str,
    size: u64,
    allocated: u64,
    flags: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<String>,
    modified: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    accessed: Option<String>,
}

impl Listed {
    fn new(path: &VolumePath, name: &Name, attributes: &Attributes) -> Listed {
        Listed {
            path: path.to_string(),
            name: name.to_string(),
            kind: kind_word(attributes.kind),
            size: attributes.size,
            allocated: attributes.allocated,
            flags: flag_words(attributes.flags),
            created: attributes.created.map(utc_time),
            modified: utc_time(attributes.modified),
            accessed: attributes.accessed.map(utc_time),
        }
    }
}

impl Arguments {
    pub(crate) fn run(self) -> Outcome {
        let mut volumes = Volumes::new(&self.volume).in_shadow(self.shadow);
        let mut listing =
            Listing { options: &self, output: Output::new(), listed: Vec::new(), first: true, failed: false };
        for argument in &self.paths {
            let outcome = VolumePath::parse_or_root(argument).and_then(|path| {
                let system = volumes.volume(&path.image, Access::Read)?;
                let held = path.find(&system)?;
                listing.argument(&path, &held)
            });
            listing.keep_going(outcome)?;
        }
        let Listing { mut output, listed, failed, .. } = listing;
        if self.json {
            output.json(&listed)?;
        }
        output.finish()?;
        Ok(u8::from(failed))
    }
}

struct Listing<'a> {
    options: &'a Arguments,
    output: Output,
    listed: Vec<Listed>,
    first: bool,
    failed: bool,
}

impl Listing<'_> {
    /// Prints and counts a failure that concerns one path; returns an error only if the output has no reader any
    /// more.
    fn keep_going(&mut self, outcome: Result<(), Failure>) -> Result<(), Failure> {
        match outcome {
            Err(failure) if failure.is_silent() => return Err(failure),
            Err(failure) => {
                failure.print();
                self.failed = true;
            }
            Ok(()) => {}
        }
        Ok(())
    }

    fn argument(&mut self, path: &VolumePath, held: &Held) -> Result<(), Failure> {
        let attributes = held.system.attributes(held.node).about(path)?;
        match (attributes.kind, path.names.last()) {
            (Kind::Directory, _) if self.options.directory => {
                let name = path.names.last().cloned().unwrap_or_else(|| Name::from("/"));
                self.entry(path, &name, &attributes)
            }
            (Kind::Directory, _) | (_, None) => self.directory(path, held),
            (_, Some(name)) => self.entry(path, name, &attributes),
        }
    }

    fn directory(&mut self, path: &VolumePath, held: &Held) -> Result<(), Failure> {
        if !self.options.json && (self.options.recursive || self.options.paths.len() > 1) {
            let gap = if self.first { "" } else { "\n" };
            self.output.bytes(format!("{gap}{}:", path.image.display()).as_bytes())?;
            for name in &path.names {
                self.output.bytes(b"/")?;
                self.output.name(name)?;
            }
            self.output.line(if path.names.is_empty() { "/:" } else { ":" })?;
            self.first = false;
        }
        let (mut entries, read) = held.entries();
        self.keep_going(read.about(path))?;
        entries.retain(|entry| self.options.all || !entry.attributes.flags.contains(DosFlags::HIDDEN));
        entries.sort_by(|one, two| one.name.cmp(&two.name));
        if self.options.by_time {
            entries.sort_by_key(|entry| Reverse(entry.attributes.modified));
        } else if self.options.by_size {
            entries.sort_by_key(|entry| Reverse(entry.attributes.size));
        }
        if self.options.reverse {
            entries.reverse();
        }
        for entry in &entries {
            self.entry(&path.join(&entry.name), &entry.name, &entry.attributes)?;
        }
        if !self.options.recursive {
            return Ok(());
        }
        for entry in entries.iter().filter(|entry| entry.attributes.kind == Kind::Directory) {
            let path = path.join(&entry.name);
            let outcome = if path.names.len() > DEEPEST {
                Err(Failure::new(&path, "directories inside each other without end; run check"))
            } else {
                held.child(&entry.name).about(&path).and_then(|child| self.directory(&path, &child))
            };
            self.keep_going(outcome)?;
        }
        Ok(())
    }

    fn entry(&mut self, path: &VolumePath, name: &Name, attributes: &Attributes) -> Result<(), Failure> {
        if self.options.json {
            self.listed.push(Listed::new(path, name, attributes));
            return Ok(());
        }
        if self.options.long {
            let kind = match attributes.kind {
                Kind::File => '-',
                Kind::Directory => 'd',
                Kind::SymbolicLink => 'l',
            };
            let flags = flag_letters(attributes.flags);
            let time = local_time(attributes.modified);
            let size = match self.options.human_readable {
                true => show_size(attributes.size),
                false => attributes.size.to_string(),
            };
            self.output.bytes(format!("{kind}{flags} {size:>12} {time} ").as_bytes())?;
        }
        self.output.name(name)?;
        self.output.line("")
    }
}
