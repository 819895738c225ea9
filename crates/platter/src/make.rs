//! Making volumes.

use crate::error::{About, Error, ErrorKind, Result, shown};
use crate::event::Listener;
use crate::opening::{Access, found_mirror, is_block, joined, open_file, patiently};
use crate::source::Source;
use platter_device::{
    Caching, Device, Error as DeviceError, Fault, Faults, FileDevice, FileOptions, Operation, OverlayDevice,
    Partition, PartitionTable, When, contents, gpt_partition, make_gpt, refuse_any_data, refuse_contents,
    refuse_data, refuse_evidence, refuse_in_use,
};
use platter_images::{Container, Guid};
use platter_vfs::{Format, FormatOptions, Progress, Silent};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The options of making a volume.
#[derive(Clone, Debug, Default)]
pub struct MakeOptions {
    /// The size of the image file in bytes; a file that does not exist is made, sparse, and with the ending `.vhdx` or
    /// `.vhd` as a container with a disk of this size. `None` takes the existing file or device at its present size.
    pub size: Option<u64>,
    /// Whether to overwrite existing content. What is in use is never overwritten.
    pub force: bool,
    /// The options of the format: cluster size, label and so on.
    pub format: FormatOptions,
    /// The listener that is told of events of a mirror's copies.
    pub listener: Listener,
}

/// Makes a volume of the format of this name (`fat`, `fat12`, `fat16`, `fat32`, `exfat`, `ntfs`, `refs`,
/// `refs+integrity`) on an image file, a block device, a partition, or each copy of a mirror. Returns the device, on
/// which the volume can be opened.
///
/// The disk in a container gets a partition table first, since Windows mounts nothing else, unless a partition is named:
/// the volume is then on its only partition, which is the device returned.
///
/// After a failure, image files are as they were before: files that were made are removed again.
///
/// ```
/// use platter::{FormatOptions, MakeOptions, Silent};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # #[cfg(feature = "ntfs")] {
/// # let directory = std::env::temp_dir().join(format!("platter-mkfs-page-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
/// # let image = directory.join("disk.img");
/// let format = FormatOptions { label: Some("DATA".into()), cluster: Some(4096), ..FormatOptions::default() };
/// let options = MakeOptions { size: Some(16 << 20), format, ..MakeOptions::default() };
/// platter::mkfs(&image, "ntfs", &options, &Silent)?; // image is "disk.img"
/// assert_eq!(platter::open(&image)?.info()?.label, "DATA");
/// # std::fs::remove_dir_all(&directory)?;
/// # }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Protected`](ErrorKind::Protected) where content would be lost, [`InUse`](ErrorKind::InUse), [`CannotMake`](ErrorKind::CannotMake) and
/// [`Unsupported`](ErrorKind::Unsupported) for options that the format does not support,
/// [`InvalidArgument`](ErrorKind::InvalidArgument) for a format that this build does not have, and the errors of the
/// device.
pub fn mkfs(
    source: impl AsRef<Path>,
    format: &str,
    options: &MakeOptions,
    progress: &dyn Progress,
) -> Result<Arc<dyn Device>> {
    let source = Source::parse(source)?;
    make(&source, known_format(format)?, options, progress)
}

/// Like [`mkfs`], for a source that is parsed already.
///
/// # Errors
/// As [`mkfs`].
pub fn make(
    source: &Source,
    format: &dyn Format,
    options: &MakeOptions,
    progress: &dyn Progress,
) -> Result<Arc<dyn Device>> {
    source.refuse_single_copy()?;
    source.refuse_dynamic()?;
    let mut made = Made::default();
    // All copies are checked before the first is changed.
    source.paths.iter().try_for_each(|path| ask(source, path, options))?;
    source.paths.iter().try_for_each(|path| ask_of_content(source, path, options))?;
    let grounds = source
        .paths
        .iter()
        .map(|path| ground(source, path, options, &mut made))
        .collect::<Result<Vec<_>>>()?;
    let wholes = || grounds.iter().map(|ground| ground.disk.as_ref().unwrap_or(&ground.part));
    if !options.force {
        wholes().try_for_each(|whole| refuse_contents(&**whole))?;
    }
    grounds.iter().try_for_each(|ground| rehearse(format, ground.part.clone(), &options.format))?;
    if options.force {
        wholes().try_for_each(|whole| wipe(&**whole))?;
    }
    for disk in grounds.iter().filter_map(|ground| ground.disk.as_ref()) {
        make_gpt(&**disk, Guid::random().0, Guid::random().0)?;
    }
    let length = wholes().next().map_or(0, |whole| whole.len());
    let parts = grounds.into_iter().map(|ground| ground.part).collect();
    let device = joined(source, parts, &options.listener)?;
    format.make(&*device, &options.format, progress).about(device.name())?;
    device.flush()?;
    made.keep()?;
    // A mirror's record is about whole copies, so it is not changed where only a partition of them was made anew.
    if source.partition.is_none() {
        found_mirror(source, length)?;
    }
    Ok(device)
}

/// Like [`mkfs`], on a device of the caller's, which is taken as it is: whole, and at its size.
///
/// # Errors
/// As [`mkfs`], and [`InvalidArgument`](ErrorKind::InvalidArgument) if `options` have a size.
pub fn mkfs_on(
    device: Arc<dyn Device>,
    format: &str,
    options: &MakeOptions,
    progress: &dyn Progress,
) -> Result<()> {
    let format = known_format(format)?;
    if options.size.is_some() {
        let why = "has the size it has; a size can be given to images";
        return Err(Error::refused(ErrorKind::InvalidArgument, device.name(), why));
    }
    let device = writable(device)?;
    if !options.force {
        refuse_contents(&*device)?;
        refuse_any_data(&*device)?;
    }
    rehearse(format, device.clone(), &options.format)?;
    if options.force {
        wipe(&*device)?;
    }
    format.make(&*device, &options.format, progress).about(device.name())?;
    Ok(device.flush()?)
}

/// Where a volume is to be made.
struct Ground {
    part: Arc<dyn Device>,
    /// The disk that gets a partition table, if it is one in a container: `part` is its only partition then.
    disk: Option<Arc<dyn Device>>,
}

/// Returns the format with this name; the error for an unknown name lists the formats of this build.
pub(crate) fn known_format(name: &str) -> Result<&'static dyn Format> {
    platter_formats::by_name(name).ok_or_else(|| {
        let names: Vec<_> = platter_formats::registry().iter().map(|format| format.name()).collect();
        let why = format!("no format of this name is here, only {}", names.join(", "));
        Error::refused(ErrorKind::InvalidArgument, name, why)
    })
}

/// Fails if the image file or block device does not fit the options, or is in use.
fn ask(source: &Source, path: &Path, options: &MakeOptions) -> Result<()> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => Some(metadata),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(error).about(shown(path)),
    };
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
        (Some(_), Some(_)) if Container::of_name(path).is_some() => wrong(
            ErrorKind::Exists,
            "is there already, and its size is not changed; without a size the disk in it is used",
        ),
        (_, Some(_)) => patiently(&[path], || Ok(refuse_in_use(path)?)),
        _ => Ok(()),
    }
}

/// Fails if an image file or block device that is there has content that must not be lost. Before the size changes: the
/// content may be at the end.
fn ask_of_content(source: &Source, path: &Path, options: &MakeOptions) -> Result<()> {
    if !path.exists() {
        return Ok(());
    }
    let reading = FileOptions { read_only: true, ..FileOptions::default() };
    let file = FileDevice::open(path, reading)?;
    refuse_evidence(&file)?;
    // With a partition, the image is one that has a partition table.
    if options.force || source.partition.is_some() {
        return Ok(());
    }
    let protected = |reason: String| Err(Error::refused(ErrorKind::Protected, shown(path), reason));
    if let Some(first) = platter_images::later_part(path) {
        return protected(format!("is a part of the split image that begins with {}", shown(&first)));
    }
    let Some(container) = Container::of_content(&file)?.filter(|_| !file.is_block_device()) else {
        refuse_contents(&file)?;
        return Ok(refuse_data(&file)?);
    };
    if options.size.is_some() {
        return protected(format!("holds {container}, whose size cannot be changed here"));
    }
    // A container is there for a disk to be used: it counts what that has.
    match platter_images::open(path, reading) {
        Ok(image) => {
            refuse_contents(&*image.device)?;
            Ok(refuse_any_data(&*image.device)?)
        }
        Err(error) => protected(format!("holds {container} that cannot be opened ({error})")),
    }
}

/// Opens an image file or block device, made first if need be, and returns the source's partition of it, or the whole
/// device if the source names none; of a disk in a container that is the partition that it is to get.
fn ground(source: &Source, path: &Path, options: &MakeOptions, made: &mut Made) -> Result<Ground> {
    if source.partition.is_some() {
        return Ok(Ground { part: part(source, path, options, made)?, disk: None });
    }
    let container = match (options.size, path.symlink_metadata().is_ok()) {
        (Some(size), false) => match Container::of_name(path) {
            Some(container) => {
                made.container(path, size, container)?;
                Some(container)
            }
            None => None,
        },
        (_, true) if !is_block(path) => Container::of_content(&FileDevice::open(
            path,
            FileOptions { read_only: true, ..FileOptions::default() },
        )?)?,
        _ => None,
    };
    // What is forced on a container of another name with another size is a plain image in its place.
    let is_new = made.new.iter().any(|new| new == path);
    if container.is_none() || options.size.is_some() && !is_new {
        return Ok(Ground { part: part(source, path, options, made)?, disk: None });
    }
    let disk = writable(open_file(path, Access::Write { force: options.force }, Caching::default())?)?;
    let range = gpt_partition(&*disk)?;
    let name = format!("{} partition 1", disk.name());
    let part = Arc::new(Partition::new(disk.clone(), range.start, range.end - range.start, name)?);
    Ok(Ground { part, disk: Some(disk) })
}

/// Fails if a device is only read, as evidence is whatever is forced.
fn writable(device: Arc<dyn Device>) -> Result<Arc<dyn Device>> {
    match device.why_read_only() {
        None => Ok(device),
        Some(why) => {
            Err(Error::refused(ErrorKind::ReadOnly, device.name(), format!("cannot be written: {why}")))
        }
    }
}

/// Opens an image file or block device, made first if need be, and returns the source's partition of it, or the whole
/// device.
fn part(source: &Source, path: &Path, options: &MakeOptions, made: &mut Made) -> Result<Arc<dyn Device>> {
    let device = match options.size {
        None => writable(open_file(path, Access::Write { force: options.force }, Caching::default())?)?,
        Some(size) => {
            let options = FileOptions { exclusive: true, ..FileOptions::default() };
            patiently(&[path], || made.device(path, size, options))?
        }
    };
    let Some(number) = source.partition else { return Ok(device) };
    let Some(table) = PartitionTable::read(&*device)? else {
        return Err(Error::refused(ErrorKind::InvalidArgument, shown(path), "has no partition table"));
    };
    // A volume on an image of a disk with larger sectors must be one that can be used on that disk.
    let part = table.open(device, number)?.with_sectors(table.sector as u32);
    match part.len().checked_sub(part.end()) {
        Some(0) => Ok(Arc::new(part)),
        missing => {
            let missing = missing.unwrap_or(0);
            let why = format!("the device ends {missing} bytes before the partition does");
            Err(Error::refused(ErrorKind::CannotMake, part.name(), why))
        }
    }
}

/// The changes of image files for a volume that is being made. Unless [`keep`](Made::keep) is called, dropping this
/// undoes them: new files are removed, and existing files get their old length.
#[derive(Default)]
struct Made {
    new: Vec<PathBuf>,
    /// Files that were lengthened, with their length before.
    longer: Vec<(PathBuf, u64)>,
    /// Files that are to be truncated to this length once the volume is made; truncating earlier could not be undone.
    shorter: Vec<(PathBuf, u64)>,
}

impl Made {
    /// Makes a container with a disk of this size where there is no file.
    fn container(&mut self, path: &Path, size: u64, container: Container) -> Result<()> {
        // The file is noted before it gets its content, which may not fit.
        self.new.push(path.to_owned());
        let done = platter_images::make(path, &platter_images::MakeOptions::new(container, size));
        Ok(done?)
    }

    /// Opens an image with this size; the file is made if it does not exist.
    fn device(&mut self, path: &Path, size: u64, options: FileOptions) -> Result<Arc<dyn Device>> {
        if path.symlink_metadata().is_err() {
            // The file is noted before it gets its size, which may be more than the host holds.
            fs::File::options().write(true).create_new(true).open(path).about(shown(path))?;
            self.new.push(path.to_owned());
            return Ok(Arc::new(FileDevice::create(path, size, options)?));
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

    /// Keeps the changes, because the volume is made, and truncates the files that are to be shorter.
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

/// Fails if a volume with these options cannot be made on a device, without writing to the device. A format writes
/// only once it has accepted the options, so the injected failure of the first write means success.
fn rehearse(format: &dyn Format, device: Arc<dyn Device>, options: &FormatOptions) -> Result<()> {
    let name = device.name().to_string();
    let stage = Faults::new(Arc::new(OverlayDevice::new(device)), 0);
    stage.inject(When::from(Operation::Write, 0), Fault::Fail);
    match format.make(&stage, options, &Silent) {
        Err(platter_vfs::Error::Device(DeviceError::Io { operation: Operation::Write, .. })) => Ok(()),
        done => done.about(name),
    }
}

/// Clears the places where other formats have their signatures, so that the device is not recognised as what it was
/// before.
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
