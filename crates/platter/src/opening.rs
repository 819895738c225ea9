//! Opening the devices that sources name.

use crate::error::{Error, ErrorKind, Result, shown};
use crate::event::{Event, Listener};
use crate::keys::Keys;
use crate::source::{Source, SourceKind};
use platter_device::{
    BlankFirstSector, Caching, Device, Error as DeviceError, FileOptions, FileRecord, Mirror, MirrorCopy,
    MirrorRecord, MirrorSet, Standing, is_encrypted, is_ending, refuse_in_use, refuse_unlike_copies,
    select_partition, writer_of,
};
use platter_vfs::{Error as SystemError, FileSystem, is_in_doubt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// How a caller accesses a device, and which access other processes have meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Read, even if another process writes.
    #[default]
    Read,
    /// Read, while no other process may write.
    ReadAlone,
    /// Write, while no other process may. Fails if another process has locked the device.
    Write {
        /// Whether to write even to a volume that was not closed, or to copies that differ. What the kernel uses is never
        /// written to.
        force: bool,
    },
}

impl Access {
    /// Whether the device is opened for writing.
    pub fn writes(self) -> bool {
        matches!(self, Access::Write { .. })
    }

    /// Whether other processes are kept from writing.
    fn claims(self) -> bool {
        !matches!(self, Access::Read)
    }
}

/// Why a volume is not written to that was not closed and cannot recover by itself.
pub const IN_DOUBT: &str = "it was not closed, so clusters of files may be taken for free; check --repair puts that \
                            right, --force writes to it all the same";

/// Refuses to write to a volume that was not closed and cannot recover by itself, unless the access is forced.
///
/// # Errors
/// [`SystemError::ReadOnly`], and the errors of reading the volume's state.
pub fn refuse_in_doubt(system: &dyn FileSystem, access: Access) -> std::result::Result<(), SystemError> {
    match access {
        Access::Write { force: false } if is_in_doubt(system)? => Err(SystemError::ReadOnly(IN_DOUBT.into())),
        _ => Ok(()),
    }
}

/// The options of opening a device.
#[derive(Clone, Debug, Default)]
pub struct DeviceOptions {
    /// How the device is accessed.
    pub access: Access,
    /// Whether reads and writes go through the host's page cache.
    pub caching: Caching,
    /// The listener that is told of events of a mirror's copies.
    pub listener: Listener,
    /// Whether a copy of a mirror is opened by itself whose rebuild was cut off: it holds parts of two contents. The
    /// listener is told.
    pub unfinished: bool,
    /// The keys of encrypted volumes.
    pub keys: Keys,
}

impl DeviceOptions {
    /// Options for this kind of access, through the page cache, without a listener.
    pub fn new(access: Access) -> DeviceOptions {
        DeviceOptions { access, ..DeviceOptions::default() }
    }
}

/// Opens the image file or block device that a source names, or several as a mirror, and returns the partition with
/// the volume, or the whole device if it has no partitions.
///
/// # Errors
/// [`InUse`](crate::ErrorKind::InUse) and [`Locked`](crate::ErrorKind::Locked) if it is opened for writing
/// while another process uses it, and the errors of the device.
pub fn open_device(source: &Source, options: &DeviceOptions) -> Result<Arc<dyn Device>> {
    let partition = if source.kind == SourceKind::Dynamic { None } else { source.partition };
    part_of(open_whole(source, options)?, partition, options)
}

/// Opens the dynamic disks that a source names, which are only read.
///
/// # Errors
/// As [`open_device`], and for a disk that is no dynamic disk, is of another group or is damaged.
pub fn open_group(source: &Source, options: &DeviceOptions) -> Result<platter_images::DiskGroup> {
    let disks = source.paths.iter().map(|path| open_file(path, Access::Read, options.caching));
    Ok(platter_images::disk_group(disks.collect::<Result<_>>()?)?)
}

/// Refuses to read a volume beside a process that has it open for writing, as a mount has: much of what programs wrote is
/// in that process still, and what is on the device is an older state of it, or a mixture.
///
/// # Errors
/// [`Locked`](crate::ErrorKind::Locked), with the process where the system tells it.
pub fn refuse_beside_writer(source: &Source) -> Result<()> {
    for path in &source.paths {
        if let Some(who) = writer_of(path) {
            let why = format!(
                "{who} has it open for writing, so the newest state is not on it; read it where it is mounted"
            );
            return Err(Error::refused(ErrorKind::Locked, shown(path), why));
        }
    }
    Ok(())
}

/// Like [`open_device`], but returns the whole device. Of dynamic disks that is the volume that is named.
///
/// # Errors
/// As [`open_device`].
pub fn open_whole(source: &Source, options: &DeviceOptions) -> Result<Arc<dyn Device>> {
    if source.kind == SourceKind::Mirror {
        return open_mirror(source, options);
    }
    if source.kind == SourceKind::Dynamic {
        return Ok(open_group(source, options)?.open(source.partition)?);
    }
    let path = &source.paths[0];
    look_at_rebuild(path, options)?;
    let device = open_file(path, options.access, options.caching)?;
    if options.access.writes() {
        note_alone(path, &options.listener)?;
    }
    Ok(device)
}

/// Refuses a copy of a mirror that is rebuilt only in part: it begins like a volume, and behind that may hold anything.
fn look_at_rebuild(path: &Path, options: &DeviceOptions) -> Result<()> {
    if !is_unfinished(path) {
        return Ok(());
    }
    if !options.unfinished && options.access != (Access::Write { force: true }) {
        let why = "is a copy of a mirror whose rebuild was not completed, so it holds parts of two contents; `platter \
                   mirror rebuild` completes it, --force reads it as it is";
        return Err(Error::refused(ErrorKind::Unfinished, shown(path), why));
    }
    options.listener.tell(&Event::Unfinished(path));
    Ok(())
}

/// Whether an image file or block device is a copy of a mirror whose rebuild was not completed, by the record that stands
/// beside it or, for a loop device, beside the file behind it. A record that cannot be read says nothing.
pub fn is_unfinished(path: &Path) -> bool {
    let says = |path: &Path| MirrorSet::is_unfinished(&mirror_record(path)).unwrap_or(false);
    says(path) || platter_device::file_behind(path).is_some_and(|file| says(&file))
}

/// The record of a copy of a mirror, whose stamp covers what every writer of a volume has to change.
pub fn mirror_record(path: &Path) -> FileRecord {
    FileRecord::of(path).with_sum(platter_formats::metadata_sum)
}

/// Opens one image file or block device, or the disk in a container, without regard to a mirror that it may be a copy of.
///
/// # Errors
/// As [`open_device`].
pub fn open_file(path: &Path, access: Access, caching: Caching) -> Result<Arc<dyn Device>> {
    patiently(&[path], || open_once(path, access, caching))
}

fn open_once(path: &Path, access: Access, caching: Caching) -> Result<Arc<dyn Device>> {
    if access != Access::Read {
        refuse_in_use(path)?;
    }
    let (read_only, exclusive) = (!access.writes(), access.claims());
    let options = FileOptions { read_only, exclusive, caching, ..FileOptions::default() };
    Ok(platter_images::open(path, options)?.device)
}

/// Opens one of these devices with `open`, again and again while a process has it that no mount and no other use can be seen
/// of: as long as that process says that it is about to close it, and otherwise for up to 2 seconds. umount(8) returns
/// before the process that served the mount has closed the volume; and a program that looks whether a device is claimed,
/// as `platter umount` and udev do, claims it itself for that moment.
pub(crate) fn patiently<T>(paths: &[impl AsRef<Path>], mut open: impl FnMut() -> Result<T>) -> Result<T> {
    const PATIENCE: Duration = Duration::from_secs(2);
    let start = Instant::now();
    loop {
        match open() {
            Err(error)
                if error.is_taken_by_somebody()
                    && (start.elapsed() < PATIENCE || paths.iter().any(|path| is_ending(path.as_ref()))) =>
            {
                thread::sleep(Duration::from_millis(10));
            }
            outcome => return outcome,
        }
    }
}

/// Returns the partition of an open device that holds the volume, or the whole device if it has no partitions; of a dynamic
/// disk the volume that lies on it alone. Of a volume that is encrypted, this is the one in it.
///
/// # Errors
/// As [`open_device`], and [`Encrypted`](crate::ErrorKind::Encrypted) if no key opens the volume.
pub fn part_of(
    device: Arc<dyn Device>,
    partition: Option<u32>,
    options: &DeviceOptions,
) -> Result<Arc<dyn Device>> {
    let known = |device: &dyn Device| {
        is_encrypted(device).unwrap_or(false) || matches!(platter_formats::recognise(device), Ok(Some(_)))
    };
    let device = with_first_sector(device, options);
    // Which volumes a dynamic disk has, its table does not say; but that it is one.
    let part = match platter_images::is_dynamic(&*device)? {
        true => platter_images::disk_group(vec![device])?.open(partition)?,
        false => select_partition(device, partition, &known)?,
    };
    let part = options.keys.unlock(with_first_sector(part, options))?;
    look_at_copies(&*part, options)?;
    Ok(part)
}

/// Returns the device, with zeroes in place of its first sector if that cannot be read: what has a copy of it can then
/// be found by the copy.
fn with_first_sector(device: Arc<dyn Device>, options: &DeviceOptions) -> Arc<dyn Device> {
    match BlankFirstSector::fault(&*device) {
        None => device,
        Some(error) => {
            options.listener.tell(&Event::BlankFirstSector(&error));
            Arc::new(BlankFirstSector::new(device))
        }
    }
}

/// Refuses to write to a mirror whose copies hold different volumes. For reading, the listener is told.
///
/// # Errors
/// [`Protected`](crate::ErrorKind::Protected) if the device is opened for writing.
pub fn look_at_copies(device: &dyn Device, options: &DeviceOptions) -> Result<()> {
    match (options.access, refuse_unlike_copies(device)) {
        (Access::Write { force: true }, _) | (_, Ok(())) => {}
        (Access::Write { force: false }, Err(error)) => return Err(error.into()),
        // Copies that cannot be read at all are reported by the reads that follow.
        (Access::Read | Access::ReadAlone, Err(error @ DeviceError::Protected { .. })) => {
            options.listener.tell(&Event::Unlike(&error));
        }
        (Access::Read | Access::ReadAlone, Err(_)) => {}
    }
    Ok(())
}

/// Opens the copies that a source names, and finds out which are current. A copy that cannot be opened is left out; a
/// copy that another process has locked is an error.
///
/// # Errors
/// As [`open_device`].
pub fn look_at_mirror(source: &Source, options: &DeviceOptions) -> Result<MirrorSet> {
    let copies = source.paths.iter().map(|path| copy(path, options)).collect::<Result<_>>()?;
    Ok(MirrorSet::look(copies, &platter_formats::Judge))
}

fn copy(path: &Path, options: &DeviceOptions) -> Result<MirrorCopy> {
    let record = Arc::new(mirror_record(path));
    let is_there = path.exists();
    let device = match open_file(path, options.access, options.caching) {
        Ok(device) => Ok(device),
        Err(_) if !is_there => Err("it is missing".to_string()),
        // A path that is no disk, or a copy that another process uses, is an error: the copy has not failed.
        Err(error) if refuses(path, options.access) => return Err(error),
        Err(error) => Err(error.to_string()),
    };
    Ok(MirrorCopy { name: shown(path).to_string(), device, record })
}

/// Whether a path cannot be opened because it is no disk or because another process uses it, and not because it
/// failed.
fn refuses(path: &Path, access: Access) -> bool {
    let Ok(data) = path.metadata() else { return false };
    let is_disk = data.is_file() || is_block(path);
    !is_disk || access.writes() && open_file(path, Access::Read, Caching::default()).is_ok()
}

fn open_mirror(source: &Source, options: &DeviceOptions) -> Result<Arc<dyn Device>> {
    let set = look_at_mirror(source, options)?;
    let writes = options.access.writes();
    for (name, standing) in set.names().zip(set.standings()) {
        if matches!(standing, Standing::LeftOut(_) | Standing::Damaged) {
            options.listener.tell(&Event::Copy { name, standing });
        }
    }
    if set.is_unclosed() {
        options.listener.tell(&Event::Unclosed { writes });
    }
    Ok(watched(set.open(writes)?, &options.listener))
}

/// Returns a mirror that passes the events of its copies to the listener.
fn watched(mirror: Mirror, listener: &Listener) -> Arc<dyn Device> {
    let listener = listener.clone();
    Arc::new(mirror.on_event(move |event| listener.tell(&Event::Mirror(event))))
}

/// Returns the device of a source, given the opened devices of its paths, in the same order.
pub(crate) fn joined(
    source: &Source,
    mut opened: Vec<Arc<dyn Device>>,
    listener: &Listener,
) -> Result<Arc<dyn Device>> {
    if source.kind != SourceKind::Mirror && opened.len() == 1 {
        return Ok(opened.remove(0));
    }
    Ok(watched(Mirror::new(opened)?, listener))
}

/// Notes in the record of a copy that it is about to be written to by itself.
fn note_alone(path: &Path, listener: &Listener) -> Result<()> {
    match MirrorSet::note_alone(&mirror_record(path)) {
        Ok(false) => Ok(()),
        Ok(true) => {
            listener.tell(&Event::WrittenAlone(path));
            Ok(())
        }
        Err(error) => Err(Error::host(shown(path), error)),
    }
}

/// Records a new mirror of copies that were just made alike; for a single device, removes the record of a mirror that
/// it belonged to.
pub(crate) fn found_mirror(source: &Source, length: u64) -> Result<()> {
    let records = || source.paths.iter().map(|path| mirror_record(path));
    if source.kind != SourceKind::Mirror {
        return records().try_for_each(|record| {
            record.remove().map_err(|error| Error::host(shown(record.place()), error))
        });
    }
    let records: Vec<Arc<dyn MirrorRecord>> =
        records().map(|record| Arc::new(record) as Arc<dyn MirrorRecord>).collect();
    MirrorSet::found(&records, length).map_err(|error| Error::host("the record of the mirror", error))
}

/// Returns a text that changes whenever a source, or a copy of a mirror, is written to.
pub fn stamp(source: &Source) -> String {
    // What the kernel has counted holds only until the system starts anew.
    const WORDS: usize = 4;
    let lasting = |stamp: String| stamp.split(' ').take(WORDS).collect::<Vec<_>>().join(" ");
    let of = |path: &PathBuf| match platter_images::stamp(path) {
        Some(stamp) => stamp,
        None => lasting(FileRecord::of(path).stamp().unwrap_or_default()),
    };
    let stamps = source.paths.iter().map(of);
    stamps.collect::<Vec<_>>().join("; ")
}

/// Whether a path names a block device.
pub(crate) fn is_block(path: &Path) -> bool {
    platter_device::host::is_disk(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_device::{Fault, Faults, MemoryDevice, Operation, Sectors, When};

    #[test]
    fn copies_become_one_device() {
        let memory = || Arc::new(MemoryDevice::new(8192, Sectors::SMALL)) as Arc<dyn Device>;
        let nobody = Listener::default();
        let plain = joined(&Source::whole("a").unwrap(), vec![memory()], &nobody).unwrap();
        assert_eq!(plain.name(), "mem:8192");
        let faults = Arc::new(Faults::new(memory(), 1));
        faults.inject(When::from(Operation::Read, 0), Fault::Fail);
        let mirror = Source::whole("mirror:a,b").unwrap();
        let mirror = joined(&mirror, vec![faults.clone(), memory()], &nobody).unwrap();
        assert_eq!((mirror.name(), mirror.copies()), ("mirror:mem:8192,mem:8192", 2));
        mirror.read_at(0, &mut [0; 512]).unwrap();
    }
}
