//! `platter mirror`

use crate::command::failure::{About, Failure, Outcome, shown};
use crate::command::host;
use crate::command::interrupt;
use crate::command::output::Output;
use crate::command::progress::{Bar, Unit};
use crate::command::volume::{device_options, refuse_any_mounted};
use clap::{Args, Subcommand};
use platter::{Access, Source, SourceKind, look_at_mirror, mirror_record, open_file};
use platter_device::host::read_exact_at;
use platter_device::{
    Caching, Device, FileDevice, FileOptions, FileRecord, MirrorCopy, MirrorRecord, MirrorSet, Standing,
    refuse_any_data, refuse_contents, refuse_evidence, show_size,
};
use platter_vfs::Progress;
use std::fs::{self, File};
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
            Command::Status { mirror } => status(&parse(&mirror)?),
            Command::Rebuild { mirror, from, force } => rebuild(&parse(&mirror)?, from.as_deref(), force),
            Command::Add { mirror, image, force } => add(&parse(&mirror)?, &image, force),
            Command::Drop { mirror, image, force } => drop_copy(&parse(&mirror)?, &image, force),
        }
    }
}

fn parse(argument: &Path) -> Result<Source, Failure> {
    if let (_, Some(number)) = Source::split_partition(argument) {
        let why = format!("names partition {number}; a mirror is of whole images or block devices");
        return Err(Failure::new(shown(argument), why));
    }
    let image = Source::whole(argument)?;
    match image.kind {
        SourceKind::Mirror => Ok(image),
        _ => Err(Failure::new(shown(argument), "a mirror is written mirror:IMAGE,IMAGE")),
    }
}

fn look(image: &Source, access: Access) -> Result<MirrorSet, Failure> {
    if access.writes() {
        refuse_any_mounted(image)?;
        image.paths.iter().try_for_each(|path| refuse_evidence_at(path))?;
    }
    Ok(look_at_mirror(image, &device_options(access, Caching::default()))?)
}

/// Evidence is no copy of a mirror, whatever is forced.
fn refuse_evidence_at(path: &Path) -> Result<(), Failure> {
    if !path.is_file() {
        return Ok(());
    }
    let file = FileDevice::open(path, FileOptions { read_only: true, ..FileOptions::default() })?;
    Ok(refuse_evidence(&file)?)
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
        let doubt = match set.is_identified(copy) {
            true => "",
            false => "; no identity of the device, so the record goes by its name",
        };
        output.line(format_args!("{name}: {standing} ({events}{doubt})"))?;
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

fn rebuild(image: &Source, from: Option<&Path>, force: bool) -> Outcome {
    let from = match from {
        None => None,
        Some(path) => Some(position(image, path)?),
    };
    finish(&image.paths, look(image, WRITE)?, from, force)
}

/// Rebuilds the copies that are not current. Nothing of them changes before it is known that all may be overwritten.
fn finish(paths: &[PathBuf], mut set: MirrorSet, from: Option<usize>, force: bool) -> Outcome {
    if !force {
        let with_standing = paths.iter().zip(set.standings());
        let left_out = with_standing.filter(|(_, standing)| matches!(standing, Standing::LeftOut(_)));
        { left_out }.try_for_each(|(path, _)| refuse_rest(path))?;
    }
    set.prepare(from, force)?;
    grow(paths, &mut set, from)?;
    copy_over(set, from)
}

/// Returns the index of the copy that a path names.
fn position(image: &Source, path: &Path) -> Result<usize, Failure> {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let found = image.paths.iter().position(|copy| real(copy) == real(path));
    found.ok_or_else(|| Failure::new(shown(path), "is no copy of this mirror"))
}

/// Refuses a file without a record that holds data behind its last whole sector, which its device does not have.
fn refuse_rest(path: &Path) -> Result<(), Failure> {
    const SECTOR: u64 = 4096;
    let is_file = fs::metadata(path).is_ok_and(|data| data.is_file());
    if !is_file || FileRecord::of(path).load().about(shown(path))?.is_some() {
        return Ok(());
    }
    let file = File::open(path).about(shown(path))?;
    let length = file.metadata().about(shown(path))?.len();
    let start = length / SECTOR * SECTOR;
    let mut rest = vec![0; (length - start) as usize];
    read_exact_at(&file, &mut rest, start).about(shown(path))?;
    match rest.iter().position(|&byte| byte != 0) {
        None => Ok(()),
        Some(at) => {
            let at = start + at as u64;
            let why =
                format!("has no record of this mirror and holds data at offset {at}; --force overwrites it");
            Err(Failure::new(shown(path), why))
        }
    }
}

/// Makes image files that are missing, and lengthens those that are too short, to the length of the mirror.
fn grow(paths: &[PathBuf], set: &mut MirrorSet, from: Option<usize>) -> Result<(), Failure> {
    let (Some(length), Some(source)) = (set.length(), set.source(from)) else { return Ok(()) };
    let mode = mode(&paths[source])?;
    for (copy, path) in paths.iter().enumerate() {
        let is_short = path.metadata().map_or(true, |data| data.is_file() && data.len() < length);
        if is_short && matches!(set.standings()[copy], Standing::LeftOut(_)) {
            set.renew(copy, || made(path, length, mode))?;
        }
    }
    Ok(())
}

/// The permissions of an image file, or those of a block device without the right to execute.
fn mode(path: &Path) -> Result<u32, Failure> {
    let data = fs::metadata(path).about(shown(path))?;
    Ok(host::mode(&data).unwrap_or(0o600) & 0o666)
}

/// Opens an image file for writing, made with these permissions if need be, and lengthens it.
fn made(path: &Path, length: u64, mode: u32) -> platter_device::Result<Arc<dyn Device>> {
    // The new copy of a secret is as secret from the first moment.
    host::make_with_mode(path, mode);
    let options = FileOptions { exclusive: true, ..FileOptions::default() };
    Ok(Arc::new(FileDevice::create(path, length, options)?))
}

fn copy_over(set: MirrorSet, from: Option<usize>) -> Outcome {
    let bar = Bar::new(Unit::Bytes);
    let total = set.length().unwrap_or(0);
    let done = Arc::new(AtomicU64::new(0));
    let seen = done.clone();
    // The record of a copy that is not rebuilt to its end says so, whatever ends the rebuild.
    interrupt::end_at_once(move || {
        format!(
            "{} were copied; the copies that are not current stay left out until `platter mirror rebuild` is run again",
            show_size(seen.load(Ordering::Relaxed))
        )
    });
    let rebuilt = set.rebuild(from, &mut |bytes| {
        let done = done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        bar.progress("rebuilding", done, total.max(done));
    })?;
    drop(bar);
    let mut output = Output::new();
    output.line(format_args!("{rebuilt} rebuilt"))?;
    output.finish()?;
    Ok(0)
}

fn add(image: &Source, new: &Path, force: bool) -> Outcome {
    if position(image, new).is_ok() {
        return Err(Failure::new(shown(new), "is a copy of this mirror already"));
    }
    let joined = image.clone().with_copy(new.to_path_buf())?;
    refuse_any_mounted(&joined)?;
    refuse_evidence_at(new)?;
    if let (Some(first), false) = (platter_images::later_part(new), force) {
        let why =
            format!("is a part of the split image that begins with {}; --force overwrites it", shown(&first));
        return Err(Failure::new(shown(new), why));
    }
    let mut set = look(image, WRITE)?;
    let device = match new.exists() {
        true => Ok(open_file(new, WRITE, Caching::default())?),
        false => Err("it is missing".to_string()),
    };
    if let (Ok(device), false) = (&device, force) {
        refuse_contents(&**device)?;
        if new.is_file() {
            refuse_any_data(&**device)?;
        }
    }
    let record = Arc::new(mirror_record(new));
    set.add(MirrorCopy { name: shown(new).to_string(), device, record });
    finish(&joined.paths, set, None, force)
}

fn drop_copy(image: &Source, path: &Path, force: bool) -> Outcome {
    let copy = position(image, path)?;
    if !force {
        refuse_last(&look(image, Access::Read)?, copy, path)?;
    }
    FileRecord::of(path).remove().about(shown(path))?;
    Ok(0)
}

/// Refuses to take out the copy without which the mirror has nothing, or no longer its present content.
fn refuse_last(set: &MirrorSet, copy: usize, path: &Path) -> Result<(), Failure> {
    let is_in_use = |standing: &Standing| matches!(standing, Standing::Current | Standing::Damaged);
    let others = || set.standings().iter().enumerate().filter(|(other, _)| *other != copy);
    let why = if others().next().is_none() {
        "is the last copy of its mirror"
    } else if is_in_use(&set.standings()[copy]) && !others().any(|(_, one)| *one == Standing::Current) {
        "is the only current copy of its mirror; `platter mirror rebuild` copies it over the others"
    } else {
        return Ok(());
    };
    Err(Failure::new(shown(path), format!("{why}; --force takes it out all the same")))
}
