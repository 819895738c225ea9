//! `platter diff`

use crate::command::copying::source;
use crate::command::failure::{Failure, Outcome};
use crate::command::output::{Output, grouped};
use crate::command::volume::{Location, ReadOptions, Volumes};
use clap::Args;
use platter::copy::{Origin, What};
use platter::{Access, DEEPEST};
use platter_device::show_size;
use platter_vfs::Name;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// The number of bytes compared at a time.
const PIECE: usize = 1 << 20;
/// Exit code if something could not be compared, as diff(1) has it.
const TROUBLE: u8 = 2;

/// Compare the content of two directories or files, on volumes or on the host
///
/// Names, kinds, sizes, the bytes of files and the targets of symbolic links are compared; times, flags, owners and
/// streams are not. Each difference is a line. After a copy it shows that all arrived: platter diff photos
/// disk.img:/photos
///
/// Exit codes are those of diff(1): 0 no difference, 1 differences, 2 something could not be compared.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Directory or file of the host, IMAGE:/PATH, or IMAGE for its root directory
    #[arg(value_name = "ONE")]
    one: OsString,
    /// The other
    #[arg(value_name = "OTHER")]
    other: OsString,
    /// Print nothing; only the exit code tells
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    volume: ReadOptions,
}

/// One run of comparing.
struct Differences {
    output: Output,
    quiet: bool,
    found: u64,
    failed: bool,
}

impl Arguments {
    pub(crate) fn run(self) -> Outcome {
        let trouble = |failure: Failure| failure.with_code(TROUBLE);
        let mut volumes = Volumes::new(&self.volume);
        let one = open(&self.one, &mut volumes).map_err(trouble)?;
        let other = open(&self.other, &mut volumes).map_err(trouble)?;
        let mut differences =
            Differences { output: Output::new(), quiet: self.quiet, found: 0, failed: false };
        differences.compare(&one, &other, 0)?;
        let Differences { output, found, failed, .. } = differences;
        output.finish()?;
        Ok(if failed { TROUBLE } else { u8::from(found > 0) })
    }
}

/// Returns what an argument names; an image without a path means the root directory of its volume.
fn open(argument: &OsStr, volumes: &mut Volumes) -> Result<Origin, Failure> {
    let place = match Location::parse(argument)? {
        Location::Host(path) if !path.is_dir() && volumes.volume(&path, Access::Read).is_ok() => {
            let mut root = argument.to_os_string();
            root.push(":/");
            Location::parse(&root)?
        }
        place => place,
    };
    Ok(source(&place, argument, volumes)?.0)
}

impl Differences {
    fn tell(&mut self, line: String) -> Result<(), Failure> {
        self.found += 1;
        if self.quiet { Ok(()) } else { self.output.line(line) }
    }

    fn fail(&mut self, failure: impl Into<Failure>) {
        failure.into().print();
        self.failed = true;
    }

    /// Compares two sources; only an error of the output ends the comparison.
    fn compare(&mut self, one: &Origin, other: &Origin, depth: usize) -> Result<(), Failure> {
        let (facts, other_facts) = match (one.facts(depth), other.facts(depth)) {
            (Ok(one), Ok(other)) => (one, other),
            (one, other) => {
                [one.err(), other.err()].into_iter().flatten().for_each(|failure| self.fail(failure));
                return Ok(());
            }
        };
        if facts.what != other_facts.what {
            let (is, is_other) = (word(facts.what), word(other_facts.what));
            return self.tell(format!("{one} is {is}, {other} is {is_other}"));
        }
        match facts.what {
            What::Directory if depth > DEEPEST => {
                self.fail(Failure::new(one, "directories inside each other without end; run check"));
                Ok(())
            }
            What::Directory => self.directories(one, other, depth),
            What::File if facts.size != other_facts.size => {
                let (size, other_size) = (bytes(facts.size), bytes(other_facts.size));
                self.tell(format!("{one} has {size}, {other} has {other_size}"))
            }
            What::File => match first_difference(one, other) {
                Ok(None) => Ok(()),
                Ok(Some(at)) => {
                    self.tell(format!("{one} and {other} differ from byte {} on", grouped(at + 1)))
                }
                Err(failure) => {
                    self.fail(failure);
                    Ok(())
                }
            },
            What::Link => match (one.target(), other.target()) {
                (Ok(target), Ok(other_target)) if target == other_target => Ok(()),
                (Ok(target), Ok(other_target)) => self.tell(format!(
                    "{one} leads to {}, {other} to {}",
                    String::from_utf8_lossy(&target),
                    String::from_utf8_lossy(&other_target)
                )),
                (target, other_target) => {
                    [target.err(), other_target.err()]
                        .into_iter()
                        .flatten()
                        .for_each(|failure| self.fail(failure));
                    Ok(())
                }
            },
            What::Special(_) => Ok(()),
        }
    }

    fn directories(&mut self, one: &Origin, other: &Origin, depth: usize) -> Result<(), Failure> {
        let mut others = self.children(other);
        for (name, child) in self.children(one) {
            match others.remove(&name) {
                Some(other) => self.compare(&child, &other, depth + 1)?,
                None => self.tell(format!("only in {one}: {name}"))?,
            }
        }
        others.into_keys().try_for_each(|name| self.tell(format!("only in {other}: {name}")))
    }

    fn children(&mut self, directory: &Origin) -> BTreeMap<Name, Origin> {
        let mut children = BTreeMap::new();
        directory.children(|child| match child {
            Ok((name, child)) => drop(children.insert(name, child)),
            Err(failure) => self.fail(failure),
        });
        children
    }
}

fn word(what: What) -> &'static str {
    match what {
        What::File => "a file",
        What::Directory => "a directory",
        What::Link => "a symbolic link",
        What::Special(_) => "a FIFO, socket or device",
    }
}

fn bytes(size: u64) -> String {
    match size {
        0..1024 => show_size(size),
        _ => format!("{} ({} bytes)", show_size(size), grouped(size)),
    }
}

/// Returns the offset of the first byte in which two files differ.
fn first_difference(one: &Origin, other: &Origin) -> Result<Option<u64>, Failure> {
    let (reader, other_reader) = (one.reader()?, other.reader()?);
    let (mut piece, mut other_piece) = (vec![0; PIECE], vec![0; PIECE]);
    let mut at = 0;
    loop {
        let read = reader.read(at, &mut piece)?;
        let other_read = other_reader.read(at, &mut other_piece)?;
        let most = read.min(other_read);
        if let Some(differs) = (0..most).find(|&byte| piece[byte] != other_piece[byte]) {
            return Ok(Some(at + differs as u64));
        }
        if read != other_read {
            return Ok(Some(at + most as u64));
        }
        if read == 0 {
            return Ok(None);
        }
        at += read as u64;
    }
}
