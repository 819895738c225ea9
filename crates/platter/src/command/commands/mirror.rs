//! `platter mirror`

use crate::command::failure::{Failure, Outcome, shown};
use crate::command::image::listener;
use crate::command::interrupt;
use crate::command::output::Output;
use crate::command::progress::{Bar, Unit};
use crate::command::volume::refuse_any_mounted;
use clap::{Args, Subcommand};
use platter::mirror::{self, RebuildOptions};
use platter::{ErrorKind, Source};
use platter_device::show_size;
use platter_vfs::Progress;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Show and repair the copies of a mirror
///
/// Each copy has a record: that of an image file stands beside it as IMAGE.mirror, that of a block device in
/// /var/lib/platter/mirrors. A copy that is older than the others, missing, blank or too short is left out until it is
/// rebuilt. One that was written to by itself has diverged, and the mirror is not opened until somebody says which copy
/// is to be kept.
#[derive(Args)]
pub(crate) struct Arguments {
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
    ///
    /// Before that, what is damaged in the content by its checksums is repaired from the other copies.
    Rebuild {
        /// mirror:IMAGE,IMAGE
        mirror: PathBuf,
        /// The copy whose content is kept, whatever the others hold
        #[arg(long, value_name = "IMAGE")]
        from: Option<PathBuf>,
        /// Overwrite also what holds data and has no record of this mirror, and copy damage that no copy can repair
        #[arg(long)]
        force: bool,
    },
    /// Make a further copy, in a new image file or on a device that holds nothing
    Add {
        /// mirror:IMAGE,IMAGE
        mirror: PathBuf,
        /// Image file or block device
        image: PathBuf,
        /// Overwrite also what holds data, and copy damage that no copy can repair
        #[arg(long)]
        force: bool,
    },
    /// Take a copy out of its mirror; it stays a volume by itself
    Drop {
        /// mirror:IMAGE,IMAGE
        mirror: PathBuf,
        /// The copy
        image: PathBuf,
        /// Also the last copy, or the only one that is current
        #[arg(long)]
        force: bool,
    },
}

impl Arguments {
    pub(crate) fn run(self) -> Outcome {
        match self.command {
            Command::Status { mirror } => status(&mirror),
            Command::Rebuild { mirror, from, force } => {
                refuse_mounted(&mirror, None)?;
                let options = RebuildOptions { from, force, listener: listener() };
                copying(|progress| mirror::rebuild(&mirror, &options, progress))
            }
            Command::Add { mirror, image, force } => {
                refuse_mounted(&mirror, Some(&image))?;
                let options = RebuildOptions { from: None, force, listener: listener() };
                copying(|progress| mirror::add(&mirror, &image, &options, progress))
            }
            Command::Drop { mirror, image, force } => drop_copy(&mirror, &image, force),
        }
    }
}

fn status(mirror: &Path) -> Outcome {
    let status = mirror::status(mirror, &listener())?;
    let mut output = Output::new();
    for copy in &status.copies {
        let sessions = match copy.sessions {
            Some(sessions) => format!("{sessions} sessions known"),
            None => "no record".to_string(),
        };
        let doubt = match copy.is_identified {
            true => "",
            false => "; no identity of the device, so the record goes by its name",
        };
        output.line(format_args!("{}: {} ({sessions}{doubt})", copy.name, copy.standing))?;
    }
    if status.is_unclosed {
        output.line("the last session was cut off; the next that writes compares the copies")?;
    }
    output.finish()?;
    Ok(u8::from(!status.is_whole()))
}

/// Refuses a mirror of which this program has mounted a copy, or the image that is to become one.
fn refuse_mounted(mirror: &Path, new: Option<&Path>) -> Result<(), Failure> {
    let mut source = Source::whole(mirror)?;
    source.paths.extend(new.map(Path::to_path_buf));
    refuse_any_mounted(&source)
}

/// A bar that counts what was copied for the last words of the command.
struct Counted {
    bar: Bar,
    done: Arc<AtomicU64>,
}

impl Progress for Counted {
    fn progress(&self, what: &'static str, done: u64, total: u64) {
        self.done.store(done, Ordering::Relaxed);
        self.bar.progress(what, done, total);
    }
}

fn copying(copy: impl FnOnce(&dyn Progress) -> platter::Result<usize>) -> Outcome {
    let progress = Counted { bar: Bar::new(Unit::Bytes), done: Arc::default() };
    let seen = progress.done.clone();
    // The record of a copy that is not rebuilt to its end says so, whatever ends the rebuild.
    interrupt::end_at_once(move || {
        format!(
            "{} were copied; the copies that are not current stay left out until `platter mirror rebuild` is run again",
            show_size(seen.load(Ordering::Relaxed))
        )
    });
    let rebuilt = copy(&progress)?;
    drop(progress);
    let mut output = Output::new();
    output.line(format_args!("{rebuilt} rebuilt"))?;
    output.finish()?;
    Ok(0)
}

fn drop_copy(mirror: &Path, image: &Path, force: bool) -> Outcome {
    mirror::remove(mirror, image, force).map_err(|error| match error.kind() {
        ErrorKind::Protected => {
            let why = error.to_string();
            let why = why.strip_prefix(&format!("{}: ", error.about())).unwrap_or(&why);
            Failure::new(shown(image), format!("{why}; --force takes it out all the same"))
        }
        _ => error.into(),
    })?;
    Ok(0)
}
