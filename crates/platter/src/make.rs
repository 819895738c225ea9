//! Making volumes.

use crate::error::{About, Error, ErrorKind, Result, shown};
use crate::event::Listener;
use crate::opening::{Access, found_mirror, is_block, joined, open_file, wait_until_closed};
use crate::source::Source;
use platter_device::{
    Caching, Device, Error as DeviceError, Fault, Faults, FileDevice, FileOptions, Operation, OverlayDevice,
    Partition, PartitionTable, When, contents, refuse_contents, refuse_in_use,
};
use platter_vfs::{Format, FormatOptions, Progress, Silent};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a new volume is made on, and how.
#[derive(Clone, Debug, Default)]
pub struct MakeOptions {
    /// Size of the image file in bytes, which is made, sparse, if it is not there. `None` takes what is there as it is.
    pub size: Option<u64>,
    /// Overwrite what is there, even if it is in use.
    pub force: bool,
    /// What the format lets choose: cluster size, label and so on.
    pub format: FormatOptions,
    /// Whoever is told what happens to the copies of a mirror.
    pub listener: Listener,
}

/// Makes a volume of the format of this name (`fat`, `fat12`, `fat16`, `fat32`, `exfat`, `ntfs`, `refs`,
/// `refs+integrity`) on an image file, a block device, a partition, or each copy of a mirror. Returns the device, on which
/// the volume can be opened.
///
/// A failure leaves image files as they were: those that were made are removed again.
///
/// # Errors
/// [`Protected`](ErrorKind::Protected) where something would be lost, [`CannotMake`](ErrorKind::CannotMake) and
/// [`Unsupported`](ErrorKind::Unsupported) for what the format cannot do, [`InvalidArgument`](ErrorKind::InvalidArgument)
/// for a format that is not known here, and what the device gives.
pub fn mkfs(
    source: impl AsRef<Path>,
    format: &str,
    options: &MakeOptions,
    progress: &dyn Progress,
) -> Result<Arc<dyn Device>> {
    let source = Source::parse(source)?;
    make(&source, known_format(format)?, options, progress)
}

/// The same for a source that was taken apart.
///
/// # Errors
/// As [`mkfs`].
pub fn make(
    source: &Source,
    format: &dyn Format,
    options: &MakeOptions,
    progress: &dyn Progress,
) -> Result<Arc<dyn Device>> {
    let mut made = Made::default();
    // Each copy is asked before the first is touched.
    source.paths.iter().try_for_each(|path| ask(source, path, options))?;
    let parts =
        source.paths.iter().map(|path| part(source, path, options, &mut made)).collect::<Result<Vec<_>>>()?;
    if !options.force {
        parts.iter().try_for_each(|part| refuse_contents(&**part))?;
    }
    parts.iter().try_for_each(|part| rehearse(format, part.clone(), &options.format))?;
    if options.force {
        parts.iter().try_for_each(|part| wipe(&**part))?;
    }
    let device = joined(source, parts, &options.listener)?;
    format.make(&*device, &options.format, progress).about(device.name())?;
    device.flush()?;
    made.keep()?;
    // A partition is a part of copies, of which the rest stays what it was.
    if source.partition.is_none() {
        found_mirror(source, device.len())?;
    }
    Ok(device)
}

/// The format of this name.
pub(crate) fn known_format(name: &str) -> Result<&'static dyn Format> {
    platter_formats::by_name(name).ok_or_else(|| {
        let names: Vec<_> = platter_formats::registry().iter().map(|format| format.name()).collect();
        let why = format!("no format of this name is here, only {}", names.join(", "));
        Error::refused(ErrorKind::InvalidArgument, name, why)
    })
}

/// Whether an image file or block device can be what the options say, and may be.
fn ask(source: &Source, path: &Path, options: &MakeOptions) -> Result<()> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => Some(metadata),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(error).about(shown(path)),
    };
    wait_until_closed(path);
    let wrong = |kind, why| Err(Error::refused(kind, shown(path), why));
    match (options.size, metadata) {
        (None, None) => wrong(ErrorKind::NotFound, "does not exist; to make it, give its size"),
        (Some(_), Some(_)) if is_block(path) => wrong(
            ErrorKind::InvalidArgument,
            "a block device has the size it has; a size can be given to images",
        ),
        (Some(_), _) if source.partition.is_some() => wrong(
            ErrorKind::InvalidArgument,
            "a partition has the size it has; a size can be given to images",
        ),
        (Some(_), Some(_)) if !options.force => {
            refuse_in_use(path)?;
            // Before its size changes: what it holds may be at the end.
            let options = FileOptions { read_only: true, ..FileOptions::default() };
            Ok(refuse_contents(&FileDevice::open(path, options)?)?)
        }
        _ => Ok(()),
    }
}

/// Opens an image file or block device, after making the image file if that is what is asked for, and in it the
/// partition that is meant.
fn part(source: &Source, path: &Path, options: &MakeOptions, made: &mut Made) -> Result<Arc<dyn Device>> {
    let device = match options.size {
        None => open_file(path, Access::Write { force: options.force }, Caching::default())?,
        Some(size) => {
            let options = FileOptions { exclusive: true, ..FileOptions::default() };
            made.device(path, size, options)?
        }
    };
    let Some(number) = source.partition else { return Ok(device) };
    let Some(table) = PartitionTable::read(&*device)? else {
        return Err(Error::refused(ErrorKind::InvalidArgument, shown(path), "has no partition table"));
    };
    let part = table.open(device, number)?;
    match part.len().checked_sub(part.end()) {
        Some(0) => Ok(Arc::new(part)),
        missing => {
            let missing = missing.unwrap_or(0);
            let why = format!("the device ends {missing} bytes before the partition does");
            Err(Error::refused(ErrorKind::CannotMake, part.name(), why))
        }
    }
}

/// What became of image files for a volume that is not made yet. Unless they are kept, they are as they were before when
/// this is dropped: those that were made are removed, and those that were there have their old length.
#[derive(Default)]
struct Made {
    new: Vec<PathBuf>,
    /// Made longer, with the length before.
    longer: Vec<(PathBuf, u64)>,
    /// To be cut to this length once the volume is made: what is cut off is gone for good.
    shorter: Vec<(PathBuf, u64)>,
}

impl Made {
    /// An image of this size, made if it is not there.
    fn device(&mut self, path: &Path, size: u64, options: FileOptions) -> Result<Arc<dyn Device>> {
        if path.symlink_metadata().is_err() {
            let device = FileDevice::create_new(path, size, options)?;
            self.new.push(path.to_owned());
            return Ok(Arc::new(device));
        }
        let before = fs::metadata(path).about(shown(path))?.len();
        if size < before {
            let whole = Arc::new(FileDevice::open(path, options)?);
            let name = whole.name().to_string();
            self.shorter.push((path.to_owned(), size));
            return Ok(Arc::new(Partition::new(whole, 0, size, name)?));
        }
        let device = FileDevice::create(path, size, options)?;
        if size > before {
            self.longer.push((path.to_owned(), before));
        }
        Ok(Arc::new(device))
    }

    /// The volume is made.
    fn keep(&mut self) -> Result<()> {
        self.new.clear();
        self.longer.clear();
        self.shorter.drain(..).try_for_each(|(path, length)| set_length(&path, length).about(shown(&path)))
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        for path in &self.new {
            let _ = fs::remove_file(path);
        }
        for (path, length) in &self.longer {
            let _ = set_length(path, *length);
        }
    }
}

fn set_length(path: &Path, length: u64) -> std::io::Result<()> {
    fs::File::options().write(true).open(path)?.set_len(length)
}

/// Whether a volume with these options can be made on a device, on which nothing is written: a format writes when it has
/// found nothing wrong, and then this has seen enough.
fn rehearse(format: &dyn Format, device: Arc<dyn Device>, options: &FormatOptions) -> Result<()> {
    let name = device.name().to_string();
    let stage = Faults::new(Arc::new(OverlayDevice::new(device)), 0);
    stage.inject(When::from(Operation::Write, 0), Fault::Fail);
    match format.make(&stage, options, &Silent) {
        Err(platter_vfs::Error::Device(DeviceError::Io { operation: Operation::Write, .. })) => Ok(()),
        done => done.about(name),
    }
}

/// Clears the places where other formats leave their marks, so that nobody takes the device for what it was before.
fn wipe(device: &dyn Device) -> Result<()> {
    const ENDS: u64 = 1 << 20;
    if contents(device)?.is_none() {
        return Ok(());
    }
    let zeroes = vec![0; ENDS.min(device.len()) as usize];
    device.write_at(0, &zeroes)?;
    device.write_at(device.len() - zeroes.len() as u64, &zeroes)?;
    Ok(())
}
