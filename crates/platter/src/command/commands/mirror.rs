//! `platter mirror`

use crate::command::failure::{About, Failure, Outcome, shown};
use crate::command::output::Output;
use crate::command::progress::{Bar, Unit};
use crate::command::volume::{device_options, refuse_any_mounted};
use clap::{Args, Subcommand};
use platter::{Access, Source, look_at_mirror};
use platter_device::{Caching, FileDevice, FileOptions, FileRecord, MirrorSet, Standing, refuse_contents};
use platter_vfs::Progress;
use std::path::{Path, PathBuf};

/// Show and repair the copies of a mirror
///
/// Each copy has a record: that of an image file stands beside it as IMAGE.mirror, that of a block device in
/// /var/lib/platter/mirrors. A copy that is older than the others, missing, blank or too short is left out until it is
/// rebuilt. One that was written to by itself has diverged, and the mirror is not opened until somebody says which copy
/// is to be kept.
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show whether each copy is current; exit code 1 if one is not
    Status {
        /// mirror:IMAGE,IMAGE
        mirror: PathBuf,
    },
    /// Copy the current content over every copy that is not current
    Rebuild {
        /// mirror:IMAGE,IMAGE
        mirror: PathBuf,
        /// The copy whose content is kept, whatever the others hold
        #[arg(long, value_name = "IMAGE")]
        from: Option<PathBuf>,
    },
    /// Make a further copy, in a new image file or on a device that holds nothing
    Add {
        /// mirror:IMAGE,IMAGE
        mirror: PathBuf,
        /// Image file or block device
        image: PathBuf,
    },
    /// Take a copy out of its mirror; it stays a volume by itself
    Drop {
        /// mirror:IMAGE,IMAGE
        mirror: PathBuf,
        /// The copy
        image: PathBuf,
    },
}

impl Arguments {
    pub fn run(self) -> Outcome {
        match self.command {
            Command::Status { mirror } => status(&parse(&mirror)?),
            Command::Rebuild { mirror, from } => rebuild(&parse(&mirror)?, from.as_deref()),
            Command::Add { mirror, image } => add(parse(&mirror)?, image),
            Command::Drop { mirror, image } => drop_copy(&parse(&mirror)?, &image),
        }
    }
}

fn parse(argument: &Path) -> Result<Source, Failure> {
    let image = Source::whole(argument)?;
    match image.is_mirror {
        true => Ok(image),
        false => Err(Failure::new(shown(argument), "a mirror is written mirror:IMAGE,IMAGE")),
    }
}

fn look(image: &Source, access: Access) -> Result<MirrorSet, Failure> {
    if access.writes() {
        refuse_any_mounted(image)?;
    }
    Ok(look_at_mirror(image, &device_options(access, Caching::default()))?)
}

fn status(image: &Source) -> Outcome {
    let set = look(image, Access::Read)?;
    let mut output = Output::new();
    let mut code = 0;
    for (copy, (name, standing)) in set.names().zip(set.standings()).enumerate() {
        let events = match set.events(copy) {
            Some(events) => format!("{events} sessions known"),
            None => "no record".to_string(),
        };
        output.line(format_args!("{name}: {standing} ({events})"))?;
        if *standing != Standing::Current {
            code = 1;
        }
    }
    if set.is_unclosed() {
        output.line("the last session was cut off; the next that writes compares the copies")?;
        code = 1;
    }
    output.finish()?;
    Ok(code)
}

const WRITE: Access = Access::Write { force: false };

fn rebuild(image: &Source, from: Option<&Path>) -> Outcome {
    let from = match from {
        None => None,
        Some(path) => Some(position(image, path)?),
    };
    grow(image)?;
    copy_over(look(image, WRITE)?, from)
}

/// Returns the index of the copy that a path names.
fn position(image: &Source, path: &Path) -> Result<usize, Failure> {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let found = image.paths.iter().position(|copy| real(copy) == real(path));
    found.ok_or_else(|| Failure::new(shown(path), "is no copy of this mirror"))
}

/// Makes image files that are missing, and lengthens those that are too short, to the length of the mirror.
fn grow(image: &Source) -> Result<(), Failure> {
    let set = look(image, Access::Read)?;
    let Some(length) = set.length() else { return Ok(()) };
    for (path, standing) in image.paths.iter().zip(set.standings()) {
        let is_file = path.metadata().map_or(true, |data| data.is_file() && data.len() < length);
        if matches!(standing, Standing::LeftOut(_)) && is_file {
            MirrorSet::note_unfinished(&FileRecord::of(path)).about(shown(path))?;
            FileDevice::create(path, length, FileOptions { exclusive: true, ..FileOptions::default() })?;
        }
    }
    Ok(())
}

fn copy_over(set: MirrorSet, from: Option<usize>) -> Outcome {
    let bar = Bar::new(Unit::Bytes);
    let total = set.length().unwrap_or(0);
    let mut done = 0;
    let rebuilt = set.rebuild(from, &mut |bytes| {
        done += bytes;
        bar.progress("rebuilding", done, total.max(done));
    })?;
    drop(bar);
    let mut output = Output::new();
    output.line(format_args!("{rebuilt} rebuilt"))?;
    output.finish()?;
    Ok(0)
}

fn add(image: Source, new: PathBuf) -> Outcome {
    if position(&image, &new).is_ok() {
        return Err(Failure::new(shown(&new), "is a copy of this mirror already"));
    }
    if new.exists() {
        let options = FileOptions { read_only: true, ..FileOptions::default() };
        refuse_contents(&FileDevice::open(&new, options)?)?;
    }
    FileRecord::of(&new).remove().about(shown(&new))?;
    rebuild(&image.with_copy(new), None)
}

fn drop_copy(image: &Source, path: &Path) -> Outcome {
    position(image, path)?;
    FileRecord::of(path).remove().about(shown(path))?;
    Ok(0)
}
