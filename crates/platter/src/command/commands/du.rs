//! `platter du`

use crate::command::failure::{About, Failure, Outcome};
use crate::command::output::Output;
use crate::command::volume::{ReadOptions, VolumePath, Volumes};
use clap::Args;
use platter::{Access, DEEPEST, Held};
use platter_device::show_size;
use platter_vfs::{Kind, Node};
use std::collections::HashSet;
use std::ffi::OsString;

/// Show how much space files and directories take on the volume
///
/// A file with several names is counted once. Clusters that files share (ReFS) are counted with each of them, and what
/// the directories themselves take is not counted.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    /// IMAGE:/PATH, or IMAGE for its root directory
    #[arg(required = true, value_name = "IMAGE[:/PATH]")]
    paths: Vec<OsString>,
    /// Only a line for each argument
    #[arg(short, long)]
    summarize: bool,
    /// Files too
    #[arg(short, long, conflicts_with = "summarize")]
    all: bool,
    /// Bytes, without units
    #[arg(short, long)]
    bytes: bool,
    /// The length of files instead of the space that they take
    #[arg(long)]
    apparent_size: bool,
    /// Sizes with units, as always
    #[arg(short = 'h', long, hide = true)]
    human_readable: bool,
    #[command(flatten)]
    volume: ReadOptions,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// One run of counting.
struct Counting<'a> {
    options: &'a Arguments,
    output: Output,
    /// The files with several names that were counted, by volume and node.
    counted: HashSet<(usize, Node)>,
    /// They are held, so that their numbers are not given to other files.
    held: Vec<Held>,
    failed: bool,
}

impl Arguments {
    pub(crate) fn run(self) -> Outcome {
        let mut volumes = Volumes::new(&self.volume);
        let (counted, held) = (HashSet::new(), Vec::new());
        let mut counting = Counting { options: &self, output: Output::new(), counted, held, failed: false };
        for argument in &self.paths {
            let outcome = VolumePath::parse_or_root(argument).and_then(|path| {
                let system = volumes.volume(&path.image, Access::Read)?;
                counting.count(&path, path.find(&system)?, true)
            });
            if let Err(failure) = outcome {
                counting.fail(failure)?;
            }
        }
        let Counting { output, failed, .. } = counting;
        output.finish()?;
        Ok(u8::from(failed))
    }
}

impl Counting<'_> {
    fn fail(&mut self, failure: Failure) -> Result<(), Failure> {
        if failure.is_silent() {
            return Err(failure);
        }
        failure.print();
        self.failed = true;
        Ok(())
    }

    /// Returns the bytes of a file, or of everything in a directory, and prints them where the options ask for that.
    fn count(&mut self, path: &VolumePath, held: Held, is_named: bool) -> Result<u64, Failure> {
        let attributes = held.system.attributes(held.node).about(path)?;
        if attributes.kind != Kind::Directory {
            if attributes.links > 1 {
                let is_new = self.counted.insert((held.volume(), held.node));
                if !is_new {
                    return Ok(0);
                }
                self.held.push(held);
            }
            let bytes = if self.options.apparent_size { attributes.size } else { attributes.allocated };
            if is_named || self.options.all {
                self.tell(bytes, path)?;
            }
            return Ok(bytes);
        }
        if path.names.len() > DEEPEST {
            return Err(Failure::new(path, "directories inside each other without end; run check"));
        }
        let (entries, read) = held.entries();
        let mut total = 0u64;
        for entry in entries {
            let path = path.join(&entry.name);
            let counted =
                held.child(&entry.name).about(&path).and_then(|child| self.count(&path, child, false));
            match counted {
                Ok(bytes) => total = total.saturating_add(bytes),
                Err(failure) => self.fail(failure)?,
            }
        }
        if let Err(failure) = read.about(path) {
            self.fail(failure)?;
        }
        if is_named || !self.options.summarize {
            self.tell(total, path)?;
        }
        Ok(total)
    }

    fn tell(&mut self, bytes: u64, path: &VolumePath) -> Result<(), Failure> {
        let size = if self.options.bytes { bytes.to_string() } else { show_size(bytes) };
        self.output.line(format_args!("{size:>12}  {path}"))
    }
}
