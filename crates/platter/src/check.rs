//! Checking volumes and repairing them.

use crate::copies;
use crate::error::{About, Error, ErrorKind, Result, shown};
use crate::event::{Event, Listener};
use crate::keys::Keys;
use crate::make::known_format;
use crate::opening::{Access, DeviceOptions, is_block, open_device, open_whole, part_of, stamp};
use crate::source::{Source, SourceKind};
use platter_device::host::{directory_of_records, name_of_disk, permissions};
use platter_device::{Caching, Device, Error as DeviceError, FileOptions, Stoppable, UndoDevice};
use platter_vfs::{CheckReport, Finding, Format, Progress, ScrubOptions, ScrubReport, Severity};
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The options of a check.
#[derive(Clone, Debug, Default)]
pub struct CheckOptions {
    /// Whether to repair the damage that can be repaired. If false, nothing is written.
    pub repair: bool,
    /// Whether to read every cluster of the volume too.
    pub surface: bool,
    /// Whether to read the data of all files too, and verify the data that has a checksum; and of evidence (E01) the hashes.
    pub data: bool,
    /// The name of the format to take the volume for; `None` recognises the format.
    pub format: Option<String>,
    /// Where a repair saves what it overwrites.
    pub undo: Undo,
    /// Whether to check although another process works on the device, or repair although the kernel uses the device.
    pub force: bool,
    /// Whether to repair a volume of which Windows keeps shadow copies, which show something else then.
    pub lose_shadow_copies: bool,
    /// The listener that is told of events during the check.
    pub listener: Listener,
    /// The keys of encrypted volumes.
    pub keys: Keys,
}

/// Where a repair saves what it overwrites, so that it can be taken back byte for byte.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Undo {
    /// Beside the image, under the first name that is free (`IMAGE.undo`, `IMAGE.undo-2` and so on); for a block
    /// device in `/var/lib/platter/undo`.
    #[default]
    Beside,
    /// In this file, which must not exist yet.
    At(PathBuf),
    /// Nowhere: the repair cannot be taken back.
    Nowhere,
}

/// The result of a check.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The device's name.
    pub device: String,
    /// The format that the volume was recognised as, or that the caller named.
    pub format: String,
    /// The findings, and the numbers of files, directories and clusters that the check counted.
    pub report: CheckReport,
    /// The undo file and the number of bytes saved in it; `None` if the repair overwrote nothing.
    pub undo: Option<(PathBuf, u64)>,
}

/// Checks the volume that a source names, and repairs it if `options` say so. The volume must not be open.
///
/// ```
/// use platter::{CheckOptions, Progress};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # #[cfg(feature = "fat")] {
/// # let directory = std::env::temp_dir().join(format!("platter-check-page-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
/// # let image = directory.join("disk.img");
/// # let options = platter::MakeOptions { size: Some(8 << 20), ..Default::default() };
/// # platter::mkfs(&image, "fat", &options, &platter::Silent)?;
/// /// Prints how far the check has come, and ends it when somebody asks for that.
/// struct Told;
///
/// impl Progress for Told {
///     fn progress(&self, step: &'static str, done: u64, total: u64) {
///         println!("{step}: {done} of {total}");
///     }
///
///     fn is_stopped(&self) -> bool {
///         false
///     }
/// }
///
/// let options = CheckOptions { repair: true, ..CheckOptions::default() };
/// let checked = platter::check(&image, &options, &Told)?; // image is "disk.img"
/// for finding in &checked.report.findings {
///     println!("{finding}");
/// }
/// assert!(checked.report.is_clean() && checked.undo.is_none());
/// # std::fs::remove_dir_all(&directory)?;
/// # }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`NotAVolume`](ErrorKind::NotAVolume) if no volume is recognised, [`CannotSave`](ErrorKind::CannotSave) if a
/// repair could not save what it was about to overwrite, [`ReadOnly`](ErrorKind::ReadOnly) if a volume with shadow copies
/// needs a repair, [`Stopped`](ErrorKind::Stopped) if `progress` asks for the end, and the errors of opening the device.
/// Damage is no error: the report lists it.
///
/// A repair that is stopped leaves the volume as a power cut would, and the undo file, if there is one, with what takes it
/// back.
pub fn check(source: impl AsRef<Path>, options: &CheckOptions, progress: &dyn Progress) -> Result<Checked> {
    check_source(&Source::parse(source)?, options, progress)
}

/// Like [`check`], for a source that is parsed already.
///
/// # Errors
/// As [`check`].
pub fn check_source(source: &Source, options: &CheckOptions, progress: &dyn Progress) -> Result<Checked> {
    let access = match (options.repair, options.force) {
        (true, force) => Access::Write { force },
        // A change that another process makes during the check would look like damage.
        (false, false) => Access::ReadAlone,
        (false, true) => Access::Read,
    };
    let opening = DeviceOptions {
        access,
        caching: Caching::default(),
        listener: options.listener.clone(),
        unfinished: options.force,
        keys: options.keys.clone(),
    };
    let reading = DeviceOptions { access: Access::Read, ..opening.clone() };
    // Before the mirror is opened: the records of an open mirror look as if it had not been closed.
    let (standings, comparable) = match source.kind {
        SourceKind::Mirror => copies::look(source, &reading)?,
        _ => Default::default(),
    };
    if options.repair
        && !options.force
        && let Some(reason) = copies::unlike(source, &comparable, &reading, progress)?
    {
        return Err(DeviceError::Protected { device: source.to_string().into(), reason }.into());
    }
    let whole = open_whole(source, &opening)?;
    let saves = options.repair && options.undo != Undo::Nowhere;
    let undo = saves.then(|| undo_device(source, &whole, &options.undo)).transpose()?;
    let whole = undo.as_ref().map_or(whole, |(undo, _)| undo.clone() as Arc<dyn Device>);
    let partition = source.partition.filter(|_| source.kind != SourceKind::Dynamic);
    let device = part_of(whole, partition, &opening)?;
    let hashes = if options.data { verify_hashes(source, progress)? } else { Vec::new() };
    // Of evidence the hashes are what is verified, where the format has no checksums of its own.
    let needs_checksums = hashes.is_empty();
    let checked = check_device(&source, device, options, needs_checksums, progress).map(|mut checked| {
        standings.into_iter().chain(hashes).for_each(|finding| checked.report.add(finding));
        checked
    });
    if let Some(undo) = undo {
        return finish_undo(undo, checked, options, &|| stamp(source));
    }
    let mut checked = checked?;
    if !options.repair
        && !checked.report.is_clean()
        && let Some(message) = copies::unlike(source, &comparable, &reading, progress)?
    {
        let (code, severity) = ("copies-differ", Severity::Inconsistent);
        checked.report.add(Finding { code, severity, path: None, message, repaired: false });
    }
    Ok(checked)
}

/// Like [`check`], for the volume on a device of the caller's, or on its only partition with one. A repair needs a place for
/// what it overwrites: [`Undo::At`], or [`Undo::Nowhere`]; [`undo_on`](crate::undo_on) takes it back.
///
/// ```
/// use platter::device::{MemoryDevice, Sectors};
/// use platter::{CheckOptions, MakeOptions, Silent};
/// use std::sync::Arc;
///
/// # fn main() -> platter::Result<()> {
/// # #[cfg(feature = "fat")] {
/// let device = Arc::new(MemoryDevice::new(8 << 20, Sectors::SMALL));
/// platter::mkfs_on(device.clone(), "fat", &MakeOptions::default(), &Silent)?;
/// assert!(platter::check_on(device, &CheckOptions::default(), &Silent)?.report.is_clean());
/// # }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As [`check`], and [`InvalidArgument`](ErrorKind::InvalidArgument) for a repair without such a place.
pub fn check_on(device: Arc<dyn Device>, options: &CheckOptions, progress: &dyn Progress) -> Result<Checked> {
    let name = device.name().to_string();
    let undo = match (&options.undo, options.repair) {
        (_, false) | (Undo::Nowhere, true) => None,
        (Undo::At(path), true) => {
            refuse_existing(path)?;
            Some((Arc::new(UndoDevice::new(device.clone(), path, &name)), path.clone()))
        }
        (Undo::Beside, true) => {
            let why =
                "is no image file: say where what a repair overwrites is to be saved, or that it is not";
            return Err(Error::refused(ErrorKind::InvalidArgument, name, why));
        }
    };
    let whole = undo.as_ref().map_or(device, |(undo, _)| undo.clone() as Arc<dyn Device>);
    let opening = DeviceOptions {
        access: if options.repair { Access::Write { force: options.force } } else { Access::Read },
        listener: options.listener.clone(),
        keys: options.keys.clone(),
        ..DeviceOptions::default()
    };
    let device = part_of(whole, None, &opening)?;
    let checked = check_device(&name, device, options, true, progress);
    match undo {
        Some(undo) => finish_undo(undo, checked, options, &String::new),
        None => checked,
    }
}

/// Completes the undo file of a repair.
fn finish_undo(
    (undo, path): (Arc<UndoDevice>, PathBuf),
    checked: Result<Checked>,
    options: &CheckOptions,
    stamp: &dyn Fn() -> String,
) -> Result<Checked> {
    match checked {
        Ok(checked) => {
            let saved = undo.finish(stamp).map_err(|error| match undo.why_failed() {
                Some(_) => cannot_save(&error),
                None => error.into(),
            })?;
            Ok(Checked { undo: saved, ..checked })
        }
        Err(error) if undo.why_failed().is_some() => Err(cannot_save(&error)),
        Err(error) => {
            if path.exists() {
                options.listener.tell(&Event::UndoKept(&path));
            }
            Err(error)
        }
    }
}

/// Compares the content of evidence with the hashes that were stored when it was made; nothing for other images.
fn verify_hashes(source: &Source, progress: &dyn Progress) -> Result<Vec<Finding>> {
    let reading = FileOptions { read_only: true, ..FileOptions::default() };
    let [path] = &source.paths[..] else { return Ok(Vec::new()) };
    let image = platter_images::open(path, reading)?;
    if image.hashes.is_empty() {
        return Ok(Vec::new());
    }
    let length = image.device.len();
    let step = |done| progress.step("verifying the hashes", done, length).is_ok();
    let verified = platter_images::verify(&*image.device, &image.hashes, step)?;
    let finding = |hash: &platter_images::VerifiedHash| {
        let (algorithm, found) = (hash.algorithm, &hash.found);
        let (code, severity, message) = match hash.is_right() {
            true => {
                let message =
                    format!("the {algorithm} of the disk is the one stored in the evidence, {found}");
                ("evidence-verified", Severity::Notice, message)
            }
            false => {
                let message = format!(
                    "the {algorithm} of the disk is not the one stored in the evidence: expected {}, found {found}",
                    hash.expected
                );
                ("evidence-hash", Severity::DataLoss, message)
            }
        };
        Finding { code, severity, path: None, message, repaired: false }
    };
    Ok(verified.iter().map(finding).collect())
}

fn check_device(
    source: &dyn Display,
    device: Arc<dyn Device>,
    options: &CheckOptions,
    needs_checksums: bool,
    progress: &dyn Progress,
) -> Result<Checked> {
    let (device, format, name) = meant(source, device, options.format.as_deref())?;
    let kept = match options.repair && !options.lose_shadow_copies {
        true => format.why_kept(&*device),
        false => None,
    };
    let how = platter_vfs::CheckOptions { repair: options.repair && kept.is_none() };
    // Nothing that is read or written after the end was asked for counts.
    let is_asked = || progress.is_stopped();
    let stoppable = Stoppable::new(&*device, &is_asked);
    let report = match options.surface {
        true => format.check_surface(&stoppable, how, progress),
        false => format.check(&stoppable, how, progress),
    };
    if stoppable.has_refused() {
        return Err(Error::new(device.name(), platter_vfs::Error::Stopped));
    }
    let mut report = report.about(device.name())?;
    if let Some(why) = kept.filter(|_| !report.is_clean()) {
        let why = format!("it is damaged and not repaired: {why}");
        return Err(Error::new(device.name(), platter_vfs::Error::ReadOnly(why)));
    }
    if options.data {
        let options = ScrubOptions { checksums_only: true, ..ScrubOptions::default() };
        let read = match format.scrub(device.clone(), &options, progress) {
            Err(platter_vfs::Error::Unsupported { .. }) if !needs_checksums => ScrubReport::default(),
            read => read.about(device.name())?,
        };
        if read.stopped {
            return Err(Error::new(device.name(), platter_vfs::Error::Stopped));
        }
        read.damaged.into_iter().filter(|one| one.range.is_some()).for_each(|one| report.add(one.finding));
        report.unread = 0;
    }
    if options.repair {
        device.flush()?;
    }
    Ok(Checked { device: device.name().to_string(), format: name, report, undo: None })
}

/// Returns the device cut to the length of the volume on it, the format, and the format's name: the named format, or
/// else the recognised one.
fn meant(
    source: &dyn Display,
    device: Arc<dyn Device>,
    format: Option<&str>,
) -> Result<(Arc<dyn Device>, &'static dyn Format, String)> {
    let recognised = platter_formats::recognise(&*device).about(source)?;
    let device = match &recognised {
        Some((_, recognised)) => platter_formats::whole(device, recognised).about(source)?,
        None => device,
    };
    match (format, recognised) {
        (Some(name), _) => Ok((device, known_format(name)?, name.to_string())),
        (None, Some((format, recognised))) => Ok((device, format, recognised.format)),
        (None, None) => Err(Error::new(source, platter_formats::unknown(&*device).about(source)?)),
    }
}

/// The result of a scrub.
#[derive(Clone, Debug)]
pub struct Scrubbed {
    /// The device's name.
    pub device: String,
    /// The format that the volume was recognised as.
    pub format: String,
    /// The damaged ranges, and the numbers of bytes that the scrub verified.
    pub report: ScrubReport,
}

/// Reads everything that has a checksum, from every copy of a mirror, past the page cache where that is possible, and
/// verifies it. Data that is damaged in one copy is repaired from another. The volume must not be open. If `progress` asks for the
/// end, the report is of what was scrubbed until then, and says where to continue.
///
/// ```
/// use platter::{ScrubOptions, Silent};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # #[cfg(feature = "refs")] {
/// # let directory = std::env::temp_dir().join(format!("platter-scrub-page-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
/// # let image = directory.join("disk.img");
/// # let options = platter::MakeOptions { size: Some(400 << 20), ..Default::default() };
/// # platter::mkfs(&image, "refs+integrity", &options, &platter::Silent)?;
/// let volume = platter::open_rw(&image)?; // image is "disk.img"
/// volume.write("file", &[7; 1 << 20])?;
/// volume.close()?;
///
/// // In parts, as a machine does that has other work.
/// let mut options = ScrubOptions { limit: Some(512 << 10), ..ScrubOptions::default() };
/// loop {
///     let report = platter::scrub(&image, &options, &Silent)?.report;
///     assert_eq!((report.found, report.lost), (0, 0));
///     options.from = report.next;
///     if options.from.is_none() {
///         break;
///     }
/// }
/// # std::fs::remove_dir_all(&directory)?;
/// # }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Unsupported`](ErrorKind::Unsupported) if the format has no checksums; otherwise as [`check`].
pub fn scrub(source: impl AsRef<Path>, options: &ScrubOptions, progress: &dyn Progress) -> Result<Scrubbed> {
    scrub_source(&Source::parse(source)?, options, &DeviceOptions::default(), progress)
}

/// Like [`scrub`], for a source that is parsed already; with `opening.unfinished` also if the kernel uses the device. Of
/// `opening`, access and caching do not count.
///
/// # Errors
/// As [`scrub`].
pub fn scrub_source(
    source: &Source,
    options: &ScrubOptions,
    opening: &DeviceOptions,
    progress: &dyn Progress,
) -> Result<Scrubbed> {
    let writes = options.salvage || source.kind == SourceKind::Mirror;
    let access = if writes { Access::Write { force: opening.unfinished } } else { Access::Read };
    let opening = DeviceOptions { access, caching: Caching::DirectIfPossible, ..opening.clone() };
    scrub_part(source, open_device(source, &opening)?, options, progress)
}

/// Like [`scrub`], for the volume on a device of the caller's, or on its only partition with one. The keys and the listener of
/// `opening` count.
///
/// # Errors
/// As [`scrub`].
pub fn scrub_on(
    device: Arc<dyn Device>,
    options: &ScrubOptions,
    opening: &DeviceOptions,
    progress: &dyn Progress,
) -> Result<Scrubbed> {
    let name = device.name().to_string();
    let writes = options.salvage || device.copies() > 1;
    let access = if writes { Access::Write { force: false } } else { Access::Read };
    let device = part_of(device, None, &DeviceOptions { access, ..opening.clone() })?;
    scrub_part(&name, device, options, progress)
}

fn scrub_part(
    source: &dyn Display,
    device: Arc<dyn Device>,
    options: &ScrubOptions,
    progress: &dyn Progress,
) -> Result<Scrubbed> {
    let (device, format, name) = meant(source, device, None)?;
    let about = device.name().to_string();
    let report = format.scrub(device, options, progress).about(&about)?;
    Ok(Scrubbed { device: about, format: name, report })
}

/// Returns the device wrapped so that old content is saved before it is overwritten, and the path of the undo file.
fn undo_device(source: &Source, whole: &Arc<dyn Device>, undo: &Undo) -> Result<(Arc<UndoDevice>, PathBuf)> {
    let path = match undo {
        Undo::At(path) => {
            refuse_existing(path)?;
            path.clone()
        }
        Undo::Beside | Undo::Nowhere => default_undo(source)?,
    };
    let undo = UndoDevice::new(whole.clone(), &path, &source.to_string());
    let undo = match sharing(source) {
        Some((mode, group)) => undo.shared(mode, group),
        None => undo,
    };
    Ok((Arc::new(undo), path))
}

fn refuse_existing(path: &Path) -> Result<()> {
    match path.exists() {
        true => {
            let why = "is there already; an undo file is a new one";
            Err(Error::refused(ErrorKind::Exists, shown(path), why))
        }
        false => Ok(()),
    }
}

/// Returns the permissions and the group of an undo file, with which nobody can read in it what they cannot read in the
/// images. `None` for block devices: only who makes the file can read it.
fn sharing(source: &Source) -> Option<(u32, u32)> {
    const PERMISSIONS: u32 = 0o666;
    let images = source.paths.iter().map(|path| permissions(path).filter(|_| path.is_file()));
    let images = images.collect::<Option<Vec<_>>>()?;
    let group = images.first()?.1;
    let is_one = images.iter().all(|image| image.1 == group);
    let mode = images.iter().fold(PERMISSIONS, |mode, image| mode & image.0);
    // Who repairs reads and writes the images, whatever their owner may do.
    Some((0o600 | mode & if is_one { PERMISSIONS } else { !0o070 }, group))
}

/// Returns the default path of an undo file: beside the image (of a mirror: beside its first copy). For
/// a block device it is in the directory for records: `/dev` does not survive a restart.
fn default_undo(source: &Source) -> Result<PathBuf> {
    let first = &source.paths[0];
    let beside = if is_block(first) {
        let directory = directory_of_records().join("undo");
        fs::create_dir_all(&directory).about(shown(&directory)).map_err(|error| cannot_save(&error))?;
        directory.join(name_of_disk(first))
    } else {
        first.clone()
    };
    let numbered = |number: u32| {
        let mut path = beside.clone();
        path.as_mut_os_string().push(if number == 1 {
            ".undo".to_string()
        } else {
            format!(".undo-{number}")
        });
        path
    };
    // A dangling symbolic link counts as existing too.
    let path = (1..u32::MAX).map(numbered).find(|path| path.symlink_metadata().is_err());
    Ok(path.expect("a directory does not hold so many files"))
}

/// Returns the error of a repair that could not save the bytes that it was about to overwrite.
fn cannot_save(why: &dyn std::fmt::Display) -> Error {
    Error::refused(ErrorKind::CannotSave, why, "nothing is overwritten that was not saved")
}
