//! The copies of a mirror: where each stands, and bringing them up to date.
//!
//! A volume is made on a mirror, opened, checked and scrubbed as on any [`Source`], written `mirror:IMAGE,IMAGE`. Each copy
//! has a record: that of an image file stands beside it as `IMAGE.mirror`. A copy that is older than the others, missing,
//! blank or too short is left out until it is rebuilt. One that was written to by itself has diverged, and the mirror is not
//! opened until somebody says which copy is to be kept.
//!
//! ```
//! use platter::mirror::{self, RebuildOptions};
//! use platter::{Listener, MakeOptions, Silent};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # #[cfg(feature = "ntfs")] {
//! # let directory = std::env::temp_dir().join(format!("platter-mirror-page-{}", std::process::id()));
//! # std::fs::create_dir_all(&directory)?;
//! # let (a, b) = (directory.join("a.img"), directory.join("b.img"));
//! # let source = format!("mirror:{},{}", a.display(), b.display());
//! let options = MakeOptions { size: Some(16 << 20), ..MakeOptions::default() };
//! platter::mkfs(&source, "ntfs", &options, &Silent)?; // source is "mirror:a.img,b.img"
//!
//! // The second disk is lost and replaced.
//! std::fs::remove_file(&b)?;
//! let status = mirror::status(&source, &Listener::default())?;
//! assert!(!status.copies[1].is_current());
//! assert_eq!(mirror::rebuild(&source, &RebuildOptions::default(), &Silent)?, 1);
//! assert!(mirror::status(&source, &Listener::default())?.is_whole());
//! # std::fs::remove_dir_all(&directory)?;
//! # }
//! # Ok(())
//! # }
//! ```

use crate::error::{About, Error, ErrorKind, Result, shown};
use crate::event::Listener;
use crate::opening::{Access, DeviceOptions, look_at_mirror, mirror_record, open_file};
use crate::source::{Source, SourceKind};
use platter_device::host::{make_with_mode, permissions, read_exact_at};
use platter_device::{
    Caching, Device, FileDevice, FileOptions, FileRecord, MirrorCopy, MirrorRecord, MirrorSet, Standing,
    refuse_any_data, refuse_contents, refuse_evidence,
};
use platter_vfs::Progress;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where the copies of a mirror stand.
#[derive(Clone, Debug)]
pub struct MirrorStatus {
    /// The copies, in the order in which the source names them.
    pub copies: Vec<CopyStatus>,
    /// Whether the last session that wrote to the mirror was cut off; the next one compares the copies.
    pub is_unclosed: bool,
}

impl MirrorStatus {
    /// Whether every copy is current, and the mirror was closed.
    pub fn is_whole(&self) -> bool {
        !self.is_unclosed && self.copies.iter().all(CopyStatus::is_current)
    }
}

/// Where one copy of a mirror stands.
#[derive(Clone, Debug)]
pub struct CopyStatus {
    /// The path of the image or block device.
    pub name: String,
    /// Whether it is current, and if not, why.
    pub standing: Standing,
    /// The number of sessions that its record knows; `None` if it has no record.
    pub sessions: Option<usize>,
    /// Whether the record is found by an identity of the device. If not, it goes by the name, which another device may
    /// have had.
    pub is_identified: bool,
}

impl CopyStatus {
    /// Whether this copy has the present content.
    pub fn is_current(&self) -> bool {
        self.standing == Standing::Current
    }
}

/// The options of [`rebuild`] and [`add`].
#[derive(Clone, Debug, Default)]
pub struct RebuildOptions {
    /// The copy whose content is kept, whatever the others hold; `None` takes the soundest that is current.
    pub from: Option<PathBuf>,
    /// Whether to overwrite also what holds data and has no record of this mirror, and to copy damage that no copy can
    /// repair.
    pub force: bool,
    /// The listener that is told of events of the copies.
    pub listener: Listener,
}

/// Returns where each copy of a mirror stands. Nothing is written.
///
/// # Errors
/// [`InvalidArgument`](ErrorKind::InvalidArgument) if the source is no mirror of whole images or devices, and the errors of
/// opening a copy; one that is missing or fails is left out.
pub fn status(source: impl AsRef<Path>, listener: &Listener) -> Result<MirrorStatus> {
    let source = parse(source)?;
    let set = look(&source, Access::Read, listener)?;
    let one = |(copy, (name, standing)): (usize, (&str, &Standing))| CopyStatus {
        name: name.to_string(),
        standing: standing.clone(),
        sessions: set.events(copy),
        is_identified: set.is_identified(copy),
    };
    let copies = set.names().zip(set.standings()).enumerate().map(one).collect();
    Ok(MirrorStatus { copies, is_unclosed: set.is_unclosed() })
}

/// Copies the current content over every copy that is not current, and returns their number. Image files that are missing are
/// made. Before that, what is damaged in the content by its checksums is repaired from the other copies. No copy may be open.
///
/// # Errors
/// [`Protected`](ErrorKind::Protected) if something would be overwritten of which it is not known that it is a copy of this
/// mirror, or damage would be copied that no copy can repair; [`InvalidArgument`](ErrorKind::InvalidArgument) for a source
/// that is no mirror, or a `from` that is no copy of it; [`Stopped`](ErrorKind::Stopped) if `progress` asks for the end while
/// content is copied: what is not whole stays left out until the next rebuild. Also the errors of the devices.
pub fn rebuild(source: impl AsRef<Path>, options: &RebuildOptions, progress: &dyn Progress) -> Result<usize> {
    let source = parse(source)?;
    let from = options.from.as_ref().map(|path| position(&source, path)).transpose()?;
    let set = look(&source, WRITE, &options.listener)?;
    finish(&source.paths, set, from, options.force, progress)
}

/// Makes a further copy of a mirror, in a new image file or on a device that holds nothing, and brings all copies up to date
/// as [`rebuild`] does. `options.from` does not count.
///
/// # Errors
/// [`Exists`](ErrorKind::Exists) if it is a copy of this mirror already, [`Protected`](ErrorKind::Protected) if it holds
/// something, and as [`rebuild`].
pub fn add(
    source: impl AsRef<Path>,
    new: impl AsRef<Path>,
    options: &RebuildOptions,
    progress: &dyn Progress,
) -> Result<usize> {
    let (source, new) = (parse(source)?, new.as_ref());
    if position(&source, new).is_ok() {
        return Err(Error::refused(ErrorKind::Exists, shown(new), "is a copy of this mirror already"));
    }
    let joined = source.clone().with_copy(new.to_path_buf())?;
    refuse_evidence_at(new)?;
    if let (Some(first), false) = (platter_images::later_part(new), options.force) {
        let why = format!("is a part of the split image that begins with {}", shown(&first));
        return Err(Error::refused(ErrorKind::Protected, shown(new), why));
    }
    let mut set = look(&source, WRITE, &options.listener)?;
    let device = match new.exists() {
        true => Ok(open_file(new, WRITE, Caching::default())?),
        false => Err("it is missing".to_string()),
    };
    if let (Ok(device), false) = (&device, options.force) {
        refuse_contents(&**device)?;
        if new.is_file() {
            refuse_any_data(&**device)?;
        }
    }
    let record = Arc::new(mirror_record(new));
    set.add(MirrorCopy { name: shown(new).to_string(), device, record });
    finish(&joined.paths, set, None, options.force, progress)
}

/// Takes a copy out of its mirror, by removing its record; it stays a volume by itself.
///
/// # Errors
/// [`InvalidArgument`](ErrorKind::InvalidArgument) if it is no copy of this mirror, and without `force`
/// [`Protected`](ErrorKind::Protected) if it is the last copy, or the only one that is current.
pub fn remove(source: impl AsRef<Path>, copy: impl AsRef<Path>, force: bool) -> Result<()> {
    let (source, path) = (parse(source)?, copy.as_ref());
    let copy = position(&source, path)?;
    if !force {
        refuse_last(&look(&source, Access::Read, &Listener::default())?, copy, path)?;
    }
    FileRecord::of(path).remove().about(shown(path))
}

const WRITE: Access = Access::Write { force: false };

/// Returns the source that a text names, which must be a mirror of whole images or devices.
fn parse(text: impl AsRef<Path>) -> Result<Source> {
    let text = text.as_ref();
    let refused = |why: &str| Error::refused(ErrorKind::InvalidArgument, shown(text), why);
    if let (_, Some(number)) = Source::split_partition(text) {
        return Err(refused(&format!(
            "names partition {number}; a mirror is of whole images or block devices"
        )));
    }
    let source = Source::whole(text)?;
    match source.kind {
        SourceKind::Mirror => Ok(source),
        _ => Err(refused("a mirror is written mirror:IMAGE,IMAGE")),
    }
}

fn look(source: &Source, access: Access, listener: &Listener) -> Result<MirrorSet> {
    if access.writes() {
        source.paths.iter().try_for_each(|path| refuse_evidence_at(path))?;
    }
    let options = DeviceOptions { access, listener: listener.clone(), ..DeviceOptions::default() };
    look_at_mirror(source, &options)
}

/// Evidence is no copy of a mirror, whatever is forced.
fn refuse_evidence_at(path: &Path) -> Result<()> {
    if !path.is_file() {
        return Ok(());
    }
    let file = FileDevice::open(path, FileOptions { read_only: true, ..FileOptions::default() })?;
    Ok(refuse_evidence(&file)?)
}

/// Rebuilds the copies that are not current. Nothing of them changes before it is known that all may be overwritten.
fn finish(
    paths: &[PathBuf],
    mut set: MirrorSet,
    from: Option<usize>,
    force: bool,
    progress: &dyn Progress,
) -> Result<usize> {
    if !force {
        let with_standing = paths.iter().zip(set.standings());
        let mut left_out = with_standing.filter(|(_, standing)| matches!(standing, Standing::LeftOut(_)));
        left_out.try_for_each(|(path, _)| refuse_rest(path))?;
    }
    set.prepare(from, force)?;
    grow(paths, &mut set, from)?;
    let total = set.length().unwrap_or(0);
    let mut done = 0;
    let rebuilt = set.rebuild(from, &mut |bytes| {
        done += bytes;
        // Several copies have that many bytes each.
        progress.step("rebuilding", done, total.max(done)).is_ok()
    });
    Ok(rebuilt?)
}

/// Returns the index of the copy that a path names.
fn position(source: &Source, path: &Path) -> Result<usize> {
    let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let found = source.paths.iter().position(|copy| real(copy) == real(path));
    found.ok_or_else(|| Error::refused(ErrorKind::InvalidArgument, shown(path), "is no copy of this mirror"))
}

/// Refuses a file without a record that holds data behind its last whole sector, which its device does not have.
fn refuse_rest(path: &Path) -> Result<()> {
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
            let why = format!("has no record of this mirror and holds data at offset {at}");
            Err(Error::refused(ErrorKind::Protected, shown(path), why))
        }
    }
}

/// Makes image files that are missing, and lengthens those that are too short, to the length of the mirror.
fn grow(paths: &[PathBuf], set: &mut MirrorSet, from: Option<usize>) -> Result<()> {
    let (Some(length), Some(source)) = (set.length(), set.source(from)) else { return Ok(()) };
    for (copy, path) in paths.iter().enumerate() {
        let is_short = path.metadata().map_or(true, |data| data.is_file() && data.len() < length);
        if is_short && matches!(set.standings()[copy], Standing::LeftOut(_)) {
            set.renew(copy, || made(path, length, mode(&paths[source])))?;
        }
    }
    Ok(())
}

/// The permissions of an image file, or those of a block device, without the right to execute.
fn mode(path: &Path) -> u32 {
    permissions(path).map_or(0o600, |(mode, _)| mode) & 0o666
}

/// Opens an image file for writing, made with these permissions if need be, and lengthens it.
fn made(path: &Path, length: u64, mode: u32) -> platter_device::Result<Arc<dyn Device>> {
    // The new copy of a secret is as secret from the first moment.
    make_with_mode(path, mode);
    let options = FileOptions { exclusive: true, ..FileOptions::default() };
    Ok(Arc::new(FileDevice::create(path, length, options)?))
}

/// Refuses to take out the copy without which the mirror has nothing, or no longer its present content.
fn refuse_last(set: &MirrorSet, copy: usize, path: &Path) -> Result<()> {
    let is_in_use = |standing: &Standing| matches!(standing, Standing::Current | Standing::Damaged);
    let others = || set.standings().iter().enumerate().filter(|(other, _)| *other != copy);
    let why = if others().next().is_none() {
        "is the last copy of its mirror"
    } else if is_in_use(&set.standings()[copy]) && !others().any(|(_, one)| *one == Standing::Current) {
        "is the only current copy of its mirror; `platter mirror rebuild` copies it over the others"
    } else {
        return Ok(());
    };
    Err(Error::refused(ErrorKind::Protected, shown(path), why))
}
