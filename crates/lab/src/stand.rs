//! The device that everything is compared on: how it is opened, divided among the targets, and emptied before each use.

use crate::blocks::Blocks;
pub(crate) use crate::host::is_missing_device;
use crate::image::{self, Contained};
use crate::mark;
use crate::model::Model;
use crate::{Error, Result};
use platter_device::host::is_disk;
use platter_device::model::{ModelDevice, VirtualTime};
use platter_device::{
    Buffer, Caching, Device, FileDevice, FileOptions, MemoryDevice, Mirror, Partition, Recorder, Sectors,
    Stripes,
};
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The device that everything is compared on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stand {
    /// An image file made for the comparison, in this directory, and removed after it.
    TemporaryImage(PathBuf),
    /// An image file or block device that may be overwritten: the caller has made sure of that. An image that does not
    /// exist is made, and removed again if nothing is measured on it. Of a VHDX, VHD, qcow2 or split image it is the
    /// disk in it, and a new file with such a name becomes one.
    Path {
        /// The path of the file or block device.
        path: PathBuf,
        /// Whether it may be used although another program or the kernel uses it.
        force: bool,
    },
    /// Several image files or block devices that all hold the same, as a mirror.
    Mirror {
        /// The paths of the files or block devices.
        paths: Vec<PathBuf>,
        /// Whether they may be used although another program or the kernel uses one of them.
        force: bool,
    },
    /// Memory of this many bytes, of which each target has its share.
    Memory(u64),
    /// A model of a device in virtual time, of which each target has its own.
    Model(Model),
}

impl Stand {
    /// Fails if regions of this device cannot be block devices of the kernel.
    pub(crate) fn check_blocks(&self) -> Result<()> {
        match self {
            Stand::Path { path, .. } if is_contained(path)? => Err(self.no_blocks()),
            Stand::Path { .. } => Ok(()),
            Stand::TemporaryImage(_) => Ok(()),
            Stand::Memory(_) | Stand::Mirror { .. } | Stand::Model(_) => Err(self.no_blocks()),
        }
    }

    /// Begins virtual time for the present thread, if this is a model.
    pub(crate) fn begin_virtual_time(&self) -> Option<VirtualTime> {
        matches!(self, Stand::Model(_)).then(VirtualTime::begin)
    }

    /// What the host's driver of FAT takes for each page of the table that it walks; nothing where no time is virtual.
    pub(crate) fn fat_page(&self) -> Result<Duration> {
        match self {
            Stand::Model(model) => Ok(model.device()?.fat_page()),
            _ => Ok(Duration::ZERO),
        }
    }

    fn no_blocks(&self) -> Error {
        let what = match self {
            Stand::Memory(_) => "memory of this program",
            Stand::Model(_) => "a model in this program",
            Stand::Path { .. } => "the disk in a container",
            _ => "a mirror of this program",
        };
        Error::Job(format!(
            "file systems that are mounted need a device that the kernel knows, a block device or an image; {what} is none"
        ))
    }
}

/// The kind of the device, as reports show it, where no target is on a device.
pub(crate) const NO_DEVICE: &str = "no device";
/// The kind of the device, as reports show it, where it is a model in virtual time.
pub(crate) const MODEL: &str = "model";
/// Bytes of one write of [`OpenStand::provide`].
const PIECE: usize = 1 << 20;

// What is written in pieces are whole sectors.
const _: () = assert!(PIECE.is_multiple_of(4096));

/// The part of an image that is written in advance is at most this many times what the span needs, so that no
/// allocation of space by the host is measured. It is more than once the span, because file systems that write to new
/// places reach all of the device in time. Where several targets share a device, none of them gets a larger region than
/// this either.
const PROVIDED: u64 = 4;
/// Where several targets share a device, each target's region is made of stripes of this many bytes that alternate with
/// those of the others: long enough that hardly any request crosses a boundary, short enough that each target has its
/// share of every part of the disk. Of eight places of 256 MiB on one virtual disk, the fastest wrote 4 KiB blocks at
/// random a quarter faster than the slowest, each time.
pub(crate) const STRIPE: u64 = 16 << 20;
/// The same for memory. Pages that the system gave first were slower than later ones by up to a fifth on one virtual
/// machine, so that stripes have to be short enough that also a small span lies in many of them.
pub(crate) const MEMORY_STRIPE: u64 = 1 << 20;

// A stripe of memory is a part of one of a device.
const _: () = assert!(STRIPE.is_multiple_of(MEMORY_STRIPE));

/// The device that everything is compared on, opened and divided into regions.
pub(crate) struct OpenStand {
    pub device: Arc<dyn Device>,
    pub kind: &'static str,
    pub direct: bool,
    pub caching: Caching,
    /// The device's name in messages and reports.
    pub name: String,
    /// The path by which the hardware below is identified: the device, or the directory of a temporary image.
    pub place: PathBuf,
    /// The regions that targets are made in: one (or one piece of memory) for each target, or a single one that all
    /// targets use one after the other.
    pub places: Vec<Region>,
    /// Where the regions begin on the device: behind its mark, if it has one.
    base: u64,
    mirror: Option<Arc<Mirror>>,
    made: Made,
    /// Keeps the kernel's block devices of all regions. The last field, so that it is dropped after the fields that use
    /// them.
    _blocks: Option<Blocks>,
}

/// The part of the device that a target is made in.
pub(crate) struct Region {
    pub device: Arc<dyn Device>,
    /// Bytes from the beginning of the region that are written before anything is measured and never discarded: see
    /// [`OpenStand::provide`].
    provided: u64,
    /// The region's block device, and the directory below which it may be mounted, if its target is mounted by the
    /// kernel.
    block: Option<(PathBuf, PathBuf)>,
    /// Whether the old content is discarded before a target is made.
    is_discarded: bool,
    /// Counts what reaches the files of the container that the region is in; all regions have the same.
    beneath: Option<Arc<Recorder>>,
}

impl OpenStand {
    /// Opens the device for a comparison that a [`crate::plan`] has checked, in which `targets` targets are on the
    /// device. If that is 0, the device is not touched and no image is made. With `is_mounted`, each region becomes a
    /// block device of the kernel. `share` is the length of each region in memory; without it, or on other devices, the
    /// span decides whether there is room for a region each.
    pub(crate) fn open(
        stand: &Stand,
        span: u64,
        share: Option<u64>,
        targets: u64,
        caching: Caching,
        is_mounted: bool,
    ) -> Result<OpenStand> {
        let opened = OpenStand::opened(stand, span, share, targets, caching, is_mounted, false)?;
        if opened.base > 0 {
            mark::write(&*opened.device)?;
        }
        Ok(opened)
    }

    /// Opens the device of a run that has begun before, and goes on.
    pub(crate) fn again(stand: &Stand, span: u64, caching: Caching) -> Result<OpenStand> {
        OpenStand::opened(stand, span, None, 1, caching, false, true)
    }

    /// Provides `length` bytes of memory, and a region of `share` bytes for each target if that is less.
    fn in_memory(length: u64, share: Option<u64>, targets: u64, caching: Caching) -> Result<OpenStand> {
        let name = format!("mem:{}", typed(length));
        crate::groups::memory_is_there(&name, length, 0)?;
        let device: Arc<dyn Device> = Arc::new(MemoryDevice::provided(length, Sectors::SMALL));
        let places = match share {
            Some(share) if share < length => striped(&device, 0, MEMORY_STRIPE, share, targets, 0)?,
            _ => vec![Region {
                device: device.clone(),
                provided: 0,
                block: None,
                is_discarded: false,
                beneath: None,
            }],
        };
        Ok(OpenStand {
            device,
            kind: "memory",
            direct: true,
            caching,
            name,
            place: PathBuf::new(),
            places,
            base: 0,
            mirror: None,
            made: Made::default(),
            _blocks: None,
        })
    }

    fn opened(
        stand: &Stand,
        span: u64,
        share: Option<u64>,
        targets: u64,
        caching: Caching,
        is_mounted: bool,
        is_begun: bool,
    ) -> Result<OpenStand> {
        if targets == 0 {
            return Ok(OpenStand::nothing(caching));
        }
        if is_mounted {
            return OpenStand::of_blocks(stand, span, targets, caching);
        }
        let length = image_length(span).saturating_mul(targets).saturating_add(mark::LENGTH);
        let claimed = FileOptions { caching, exclusive: true, ..FileOptions::default() };
        match stand {
            Stand::Memory(length) => OpenStand::in_memory(*length, share, targets, caching),
            Stand::Model(model) => OpenStand::of_model(model, targets, caching),
            Stand::TemporaryImage(directory) => {
                let file =
                    FileDevice::temporary(directory, length, FileOptions { exclusive: false, ..claimed })?;
                let name = format!("temporary image in {}", directory.display());
                let opened = OpenStand::on_file(file, 0, span, targets, caching, directory, Made::default())?;
                Ok(OpenStand { name, ..opened })
            }
            Stand::Path { path, force } => {
                let mut made = Made::default();
                let options = FileOptions { beside_kernel: *force, ..claimed };
                if let Some(disk) = in_container(path, length, options, &mut made)? {
                    return OpenStand::on_container(disk, (span, targets), (caching, is_begun), path, made);
                }
                let file = open_file(path, length, options, &mut made)?;
                // A run that began before devices had marks goes on where it began.
                let base = match is_begun && !mark::is_ours(&file)? {
                    true => 0,
                    false => mark::room(file.len()),
                };
                OpenStand::on_file(file, base, span, targets, caching, path, made)
            }
            Stand::Mirror { paths, force } => {
                let options = FileOptions { beside_kernel: *force, ..claimed };
                OpenStand::on_mirror(paths, length, options, span, targets)
            }
        }
    }

    fn on_mirror(
        paths: &[PathBuf],
        length: u64,
        options: FileOptions,
        span: u64,
        targets: u64,
    ) -> Result<OpenStand> {
        refuse_contained(paths)?;
        let mut made = Made::default();
        let files = paths
            .iter()
            .map(|path| open_file(path, length, options, &mut made))
            .collect::<Result<Vec<FileDevice>>>()?;
        let direct = files.iter().all(FileDevice::is_direct);
        let is_image = files.iter().any(FileDevice::is_image);
        let copies = files.into_iter().map(|file| Arc::new(file) as Arc<dyn Device>).collect();
        let mirror = Arc::new(Mirror::new(copies)?);
        let base = mark::room(mirror.len());
        Ok(OpenStand {
            places: divide(&(mirror.clone() as Arc<dyn Device>), base, span, targets, is_image)?,
            base,
            device: mirror.clone(),
            kind: "mirror",
            direct,
            caching: options.caching,
            name: mirror.name().to_string(),
            place: paths.first().cloned().unwrap_or_default(),
            mirror: Some(mirror),
            made,
            _blocks: None,
        })
    }

    /// A device of the model for each target: they have nothing to share.
    fn of_model(model: &Model, targets: u64, caching: Caching) -> Result<OpenStand> {
        if !platter_device::sync::is_virtual() {
            // On a model that takes no time, their figures would be those of memory.
            let why = "programs and endurance do not run in virtual time yet; workloads and loads on files and databases do";
            return Err(Error::Job(format!("{}: {why}", model.shown())));
        }
        let models: Vec<Arc<ModelDevice>> =
            (0..targets).map(|_| Ok(Arc::new(model.device()?))).collect::<Result<_>>()?;
        let region = |device: &Arc<ModelDevice>| Region {
            device: device.clone(),
            provided: 0,
            block: None,
            is_discarded: false,
            beneath: None,
        };
        let Some(first) = models.first() else { return Ok(OpenStand::nothing(caching)) };
        Ok(OpenStand {
            places: models.iter().map(region).collect(),
            device: first.clone(),
            kind: MODEL,
            direct: true,
            caching,
            name: model.shown(),
            place: PathBuf::new(),
            base: 0,
            mirror: None,
            made: Made::default(),
            _blocks: None,
        })
    }

    /// No device: all targets are in directories of the host.
    fn nothing(caching: Caching) -> OpenStand {
        let device: Arc<dyn Device> = Arc::new(MemoryDevice::new(0, Sectors::SMALL));
        OpenStand {
            places: vec![Region {
                device: device.clone(),
                provided: 0,
                block: None,
                is_discarded: false,
                beneath: None,
            }],
            device,
            kind: NO_DEVICE,
            direct: true,
            caching,
            name: "directories of the host".into(),
            place: PathBuf::new(),
            base: 0,
            mirror: None,
            made: Made::default(),
            _blocks: None,
        }
    }

    /// Opens the device with each region as a block device that the kernel can mount. The regions are contiguous and
    /// follow each other, as partitions do.
    fn of_blocks(stand: &Stand, span: u64, targets: u64, caching: Caching) -> Result<OpenStand> {
        let mut made = Made::default();
        let length = image_length(span).saturating_mul(targets).saturating_add(mark::LENGTH);
        stand.check_blocks()?;
        let (path, force, name) = match stand {
            Stand::Path { path, force } => (path.clone(), *force, path.display().to_string()),
            Stand::TemporaryImage(directory) => {
                let path = directory.join(format!(".platter-{}.img", std::process::id()));
                (path, false, format!("temporary image in {}", directory.display()))
            }
            Stand::Memory(_) | Stand::Mirror { .. } | Stand::Model(_) => return Err(stand.no_blocks()),
        };
        let options = FileOptions { caching, exclusive: !force, ..FileOptions::default() };
        let held = open_file(&path, length, options, &mut made)?;
        let is_image = held.is_image();
        // Holding a block device exclusively would keep the kernel from mounting its partitions.
        let held = (!held.is_block_device()).then_some(held);
        let mut blocks = Blocks::open(&path, held, caching)?;
        let place = match stand {
            Stand::TemporaryImage(directory) => {
                // This removes the image by name; the loop device keeps its content until it is detached, also if this
                // process crashes.
                made = Made::default();
                directory
            }
            _ => &path,
        };
        let options = FileOptions { caching, ..FileOptions::default() };
        let file = FileDevice::open(&blocks.whole, options)?;
        let direct = file.is_direct();
        let device: Arc<dyn Device> = Arc::new(file);
        let base = mark::room(device.len());
        let all = (device.len() - base) / STRIPE * STRIPE;
        let (count, length) = match region_length(device.len() - base, span, targets) {
            Some(length) if targets > 1 => (targets, length),
            _ => (1, all),
        };
        let provided = if is_image { provided_length(length, span) } else { 0 };
        let region = |number: u64| {
            let block = blocks.part(base + number * length, length)?;
            let device = Arc::new(FileDevice::open(&block, options)?);
            Ok(Region {
                device,
                provided,
                block: Some((block, blocks.directory.clone())),
                is_discarded: false,
                beneath: None,
            })
        };
        let places = (0..count).map(region).collect::<Result<Vec<Region>>>()?;
        let kind = if is_image { "image" } else { "block device" };
        let place = place.clone();
        Ok(OpenStand {
            device,
            kind,
            direct,
            caching,
            name,
            place,
            places,
            base,
            mirror: None,
            made,
            _blocks: Some(blocks),
        })
    }

    fn on_file(
        file: FileDevice,
        base: u64,
        span: u64,
        targets: u64,
        caching: Caching,
        place: &Path,
        made: Made,
    ) -> Result<OpenStand> {
        let kind = if file.is_block_device() { "block device" } else { "image" };
        let name = file.name().to_string();
        let (direct, is_image) = (file.is_direct(), file.is_image());
        let device: Arc<dyn Device> = Arc::new(file);
        Ok(OpenStand {
            kind,
            direct,
            places: divide(&device, base, span, targets, is_image)?,
            base,
            device,
            caching,
            name,
            place: place.to_owned(),
            mirror: None,
            made,
            _blocks: None,
        })
    }

    fn on_container(
        disk: Contained,
        (span, targets): (u64, u64),
        (caching, is_begun): (Caching, bool),
        path: &Path,
        made: Made,
    ) -> Result<OpenStand> {
        let Contained { device, kind, recorder, is_direct } = disk;
        let base = if is_begun && !mark::is_ours(&*device)? { 0 } else { mark::room(device.len()) };
        let mut places = divide(&device, base, span, targets, true)?;
        places.iter_mut().for_each(|place| place.beneath = Some(recorder.clone()));
        Ok(OpenStand {
            kind: "image",
            direct: is_direct,
            caching,
            places,
            base,
            name: format!("{} ({kind})", path.display()),
            device,
            place: path.to_owned(),
            mirror: None,
            made,
            _blocks: None,
        })
    }

    /// The range of the device that the regions lie in.
    pub(crate) fn used(&self) -> Range<u64> {
        let length: u64 = self.places.iter().map(|place| place.device.len()).sum();
        self.base..self.base + length
    }

    /// Discards the old content of each region before a target is made in it.
    pub(crate) fn discard_first(&mut self) {
        self.places.iter_mut().for_each(|place| place.is_discarded = true);
    }

    /// Keeps an image that was made for the comparison, because something was measured on it.
    pub(crate) fn keep(&mut self) {
        self.made.0.clear();
    }

    /// Writes an image once, as far as targets use it. A host provides an image's space when it is first written, which
    /// costs more than the write itself: a file system that writes to new places would pay for that during the
    /// measurement, and one that overwrites would not. Block devices have no such costs and are not written.
    ///
    /// The writes go from the beginning to the end, so that the stripes of all targets are mixed below as well: a host
    /// that provides space on first write puts together what is written together, and on one virtual disk a region that
    /// was written before the others stayed slower by a tenth.
    pub(crate) fn provide(&self, progress: &mut dyn FnMut(u64, u64) -> Result<()>) -> Result<()> {
        let end = self.places.iter().map(|place| place.provided).sum();
        let mut filler = Buffer::new(PIECE);
        // Random bytes, because some file systems store zeroes as holes.
        fastrand::Rng::with_seed(0).fill(&mut filler);
        for offset in (0..end).step_by(PIECE) {
            let length = (end - offset).min(PIECE as u64);
            self.device.write_at(self.base + offset, &filler[..length as usize])?;
            progress(offset + length, end)?;
        }
        Ok(self.device.flush()?)
    }

    /// Returns a sentence for each copy of the mirror that failed: the others carried on, but the failures took time.
    pub(crate) fn failures(&self) -> Vec<String> {
        let Some(mirror) = &self.mirror else { return Vec::new() };
        let copies = mirror.out_of_service().into_iter().zip(mirror.failed());
        copies
            .enumerate()
            .filter_map(|(copy, (fatal, failed))| match (fatal, failed) {
                (Some(why), _) => Some(format!("copy {copy} of the mirror went out of service: {why}")),
                (None, 0) => None,
                (None, _) => Some(format!("copy {copy} of the mirror failed {failed} transfers")),
            })
            .collect()
    }
}

/// Returns the length in bytes of each target's region on a device of `device` bytes, or `None` if there is no room for
/// a region each: then the targets use the whole device one after the other.
pub(crate) fn region_length(device: u64, span: u64, targets: u64) -> Option<u64> {
    let share = device / targets.max(1) / STRIPE * STRIPE;
    match targets {
        0 | 1 => Some(device),
        _ if share < image_length(span) => None,
        _ => Some(share.min(PROVIDED.saturating_mul(image_length(span)))),
    }
}

/// Returns the length in bytes of each target's region in memory of `length` bytes.
pub(crate) fn memory_share(length: u64, targets: u64) -> u64 {
    match targets {
        0 | 1 => length,
        _ => length / targets / MEMORY_STRIPE * MEMORY_STRIPE,
    }
}

/// Divides the device into a region for each target, made of alternating stripes; returns the whole device as one
/// region where there is one target, or no room for a region each.
fn divide(
    device: &Arc<dyn Device>,
    base: u64,
    span: u64,
    targets: u64,
    is_image: bool,
) -> Result<Vec<Region>> {
    let provided = |length: u64| if is_image { provided_length(length, span) } else { 0 };
    let all = device.len() - base;
    let length = match region_length(all, span, targets) {
        Some(length) if targets > 1 => length,
        _ => {
            let provided = provided(all);
            let name = device.name().to_string();
            let device = match base {
                0 => device.clone(),
                base => Arc::new(Partition::new(device.clone(), base, all, name)?),
            };
            return Ok(vec![Region { device, provided, block: None, is_discarded: false, beneath: None }]);
        }
    };
    striped(device, base, STRIPE, length, targets, provided(length))
}

/// Divides `targets * length` bytes of a device from `base` on into regions of stripes that alternate.
fn striped(
    device: &Arc<dyn Device>,
    base: u64,
    stripe: u64,
    length: u64,
    targets: u64,
    provided: u64,
) -> Result<Vec<Region>> {
    let region = |starts: Vec<u64>| {
        let name = device.name().to_string();
        let device = Arc::new(Stripes::new(device.clone(), stripe, starts, name)?);
        Ok(Region { device, provided, block: None, is_discarded: false, beneath: None })
    };
    starts(base, stripe, length, targets).into_iter().map(region).collect()
}

/// For each target, where on the device the stripes of its region begin.
pub(crate) fn starts(base: u64, stripe: u64, length: u64, targets: u64) -> Vec<Vec<u64>> {
    let mut starts: Vec<Vec<u64>> = vec![Vec::new(); targets as usize];
    let mut rng = fastrand::Rng::with_seed(0);
    let mut order: Vec<usize> = (0..targets as usize).collect();
    for row in 0..length / stripe {
        // Each row of stripes has its own random order, so that no target always has the stripe with the highest
        // offset.
        rng.shuffle(&mut order);
        for (column, target) in (0..).zip(&order) {
            starts[*target].push(base + (row * targets + column) * stripe);
        }
    }
    starts
}

impl Region {
    /// The region's block device, and the directory below which it may be mounted.
    pub(crate) fn block(&self) -> Option<(&Path, &Path)> {
        self.block.as_ref().map(|(block, directory)| (block.as_path(), directory.as_path()))
    }

    /// Returns the device on which a target is made, and what counts the transfers that reach the storage. Over a container
    /// that is not the device that the target uses: it counts beneath, and all regions have one count.
    pub(crate) fn recorded(&self, device: Arc<dyn Device>) -> (Arc<dyn Device>, Arc<Recorder>) {
        match &self.beneath {
            Some(beneath) => (device, beneath.clone()),
            None => {
                let recorder = Arc::new(Recorder::new(device));
                (recorder.clone(), recorder)
            }
        }
    }

    /// If that was asked for, discards the old content of the region, except for the part whose space was provided in
    /// advance. Otherwise a device keeps the state that it was brought into: an SSD of which nothing is in use is faster
    /// than it will ever be again.
    pub(crate) fn discard(&self) -> Result<()> {
        if !self.is_discarded {
            return Ok(());
        }
        let rest: Range<u64> = self.provided..self.device.len();
        Ok(self.device.discard(rest.start, rest.end - rest.start)?)
    }
}

/// The paths of images that were made and that nothing was measured on yet: removed when dropped.
#[derive(Default)]
struct Made(Vec<PathBuf>);

impl Drop for Made {
    fn drop(&mut self) {
        for path in &self.0 {
            // The removal fails if another program has removed the image already, which is just as well.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Fails if one of the copies of a mirror is a disk in a container.
fn refuse_contained(paths: &[PathBuf]) -> Result<()> {
    for path in paths {
        if is_contained(path)? {
            let name = path.display().to_string();
            let reason =
                "is a disk image in a container; the copies of a mirror are raw images and block devices";
            return Err(Error::Input { name, reason: reason.into() });
        }
    }
    Ok(())
}

/// Whether the disk at a path is in a container, or will be when it is made.
fn is_contained(path: &Path) -> Result<bool> {
    match device_path(path)? {
        Some(real) => Ok(image::look(&real)?.is_some()),
        None => Ok(image::is_made_for(path)),
    }
}

/// Opens the disk in a container, which is made if nothing is there and the name is that of one; `None` if the bytes of the
/// file or block device are those of the disk.
fn in_container(
    path: &Path,
    length: u64,
    options: FileOptions,
    made: &mut Made,
) -> Result<Option<Contained>> {
    if !is_contained(path)? {
        return Ok(None);
    }
    let real = match device_path(path)? {
        Some(real) => real,
        None => {
            made.0.push(path.to_owned());
            image::make(path, length)?;
            path.to_owned()
        }
    };
    image::open(&real, options).map(Some)
}

/// Opens an image file or block device; an image that is not there is made.
fn open_file(path: &Path, length: u64, options: FileOptions, made: &mut Made) -> Result<FileDevice> {
    let opened = match device_path(path)? {
        Some(path) => FileDevice::open(path, options),
        None => FileDevice::create_new(path, length, options).inspect(|_| made.0.push(path.to_owned())),
    };
    opened.map_err(|error| match error {
        // The caller has decided about `--force` before; a refusal that remains is one that `--force` cannot lift.
        platter_device::Error::Protected { device, reason } => {
            platter_device::Error::Unusable { device, reason }.into()
        }
        error => error.into(),
    })
}

/// Returns the file or block device that a path names, or `None` if there is nothing. A symbolic link to a block device
/// is followed, as in `/dev/disk`. A symbolic link to anything else is refused, because the user did not name the file
/// that would be overwritten.
///
/// # Errors
/// [`Error::Input`] for a link to anything else, with its destination, and for a path below `/dev` that names nothing;
/// [`Error::Io`] if the path cannot be looked at.
pub fn device_path(path: &Path) -> Result<Option<PathBuf>> {
    let failed = |source| Error::Io { what: path.display().to_string(), source };
    let metadata = match std::fs::symlink_metadata(path) {
        Err(_) if is_missing_device(path) => {
            let name = path.display().to_string();
            return Err(Error::Input { name, reason: "there is no such device".into() });
        }
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        metadata => metadata.map_err(failed)?,
    };
    if !metadata.is_symlink() {
        return Ok(Some(path.to_owned()));
    }
    let leads = match std::fs::canonicalize(path) {
        Ok(real) if is_disk(&real) => {
            return Ok(Some(real));
        }
        Ok(real) => real,
        Err(_) => std::fs::read_link(path).map_err(failed)?,
    };
    Err(Error::Input {
        name: path.display().to_string(),
        reason: format!(
            "a symbolic link to {}; name that itself if its content may be lost",
            leads.display()
        ),
    })
}

/// Returns the length in bytes of an image that is made for a span: room for a file system's own structures, and enough
/// for the 65,525 clusters of FAT32 and for the 320 MiB of the smallest ReFS volume.
pub(crate) fn image_length(span: u64) -> u64 {
    let length = span.saturating_add(span / 8).max(span.saturating_add(384 << 20));
    length.checked_next_multiple_of(STRIPE).unwrap_or(u64::MAX)
}

/// Returns how many bytes of an image of `length` bytes are written in advance for a span.
pub(crate) fn provided_length(length: u64, span: u64) -> u64 {
    length.min(PROVIDED.saturating_mul(image_length(span)))
}

/// Formats a size as a user types it on the command line: `4k`, `16M`.
pub(crate) fn typed(bytes: u64) -> String {
    let units = [(40, "T"), (30, "G"), (20, "M"), (10, "k")];
    let unit = units.iter().find(|(shift, _)| bytes >> shift > 0 && bytes.trailing_zeros() >= *shift);
    unit.map_or_else(|| bytes.to_string(), |(shift, unit)| format!("{}{unit}", bytes >> shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    const M: u64 = 1 << 20;

    fn opened(share: u64, targets: u64) -> OpenStand {
        OpenStand::open(&Stand::Memory(64 * M), 0, Some(share), targets, Caching::DirectIfPossible, false)
            .unwrap()
    }

    /// The place of a target in the list must not decide where its bytes are: each region has one stripe of each row,
    /// and no region has the same place in all of them.
    #[test]
    fn memory_is_one_device_in_stripes_that_alternate() {
        let share = memory_share(64 * M, 3);
        assert_eq!((share, memory_share(64 * M, 1), memory_share(511, 1)), (21 * M, 64 * M, 511));
        let stand = opened(share, 3);
        assert_eq!((stand.device.len(), stand.places.len()), (64 * M, 3));
        for (number, place) in (1..).zip(&stand.places) {
            assert_eq!(place.device.len(), share);
            for stripe in 0..share / M {
                place.device.write_at(stripe * M, &[number; 512]).unwrap();
            }
        }
        let owner = |at: u64| {
            let mut sector = [0; 512];
            stand.device.read_at(at, &mut sector).unwrap();
            sector[0]
        };
        let rows: Vec<[u8; 3]> =
            (0..share / M).map(|row| [0, 1, 2].map(|column| owner((row * 3 + column) * M))).collect();
        for row in &rows {
            let mut all = *row;
            all.sort_unstable();
            assert_eq!(all, [1, 2, 3]);
        }
        for target in 1..=3 {
            for column in 0..3 {
                let often = rows.iter().filter(|row| row[column] == target).count();
                assert!((2..=14).contains(&often), "{target} is {often} times in column {column}");
            }
        }
    }

    /// What a container writes beside the data is the storage's traffic too.
    #[test]
    fn what_reaches_the_file_of_a_container_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.vhdx", "a.vhd", "a.qcow2"] {
            let path = folder.path().join(name);
            let stand = Stand::Path { path: path.clone(), force: false };
            let mut stand = OpenStand::open(&stand, M, None, 2, Caching::DirectIfPossible, false).unwrap();
            assert_eq!((stand.kind, stand.places.len()), ("image", 2), "{name}");
            stand.keep();
            let (device, recorder) = stand.places[0].recorded(stand.places[0].device.clone());
            let before = recorder.traffic();
            device.write_at(100 * M, &[7; 4096]).unwrap();
            device.flush().unwrap();
            let first = recorder.traffic().since(&before);
            assert!(
                first.write.count > 1 && first.write.bytes > 4096 && first.flushes > 0,
                "{name}: {first:?}"
            );
            // Where the space is there, nothing but the data is written.
            let before = recorder.traffic();
            device.write_at(100 * M + 4096, &[7; 4096]).unwrap();
            device.read_at(100 * M, &mut [0; 512]).unwrap();
            let next = recorder.traffic().since(&before);
            assert_eq!((next.write.count, next.write.bytes, next.read.bytes), (1, 4096, 512), "{name}");
            drop((device, stand));
            let disk = platter_images::open(&path, FileOptions::default()).unwrap().device;
            assert!(mark::is_ours(&*disk).unwrap(), "{name}");
        }
    }

    #[test]
    fn reads_that_reach_the_parent_of_an_image_are_counted() {
        use platter_images::{Container, MakeOptions, make};
        let folder = tempfile::tempdir().unwrap();
        let (parent, child) = (folder.path().join("p.vhdx"), folder.path().join("c.vhdx"));
        let options = MakeOptions::new(Container::Vhdx, 64 * M);
        make(&parent, &options).unwrap();
        let opened = platter_images::open(&parent, FileOptions::default()).unwrap().device;
        opened.write_at(0, &[3; 4096]).unwrap();
        opened.flush().unwrap();
        drop(opened);
        make(&child, &MakeOptions { parent: Some(parent), ..options }).unwrap();
        let opened = image::open(&child, FileOptions::default()).unwrap();
        let before = opened.recorder.traffic();
        let mut block = [0; 4096];
        opened.device.read_at(0, &mut block).unwrap();
        assert_eq!(block, [3; 4096]);
        assert!(opened.recorder.traffic().since(&before).read.bytes >= 4096);
    }

    #[test]
    fn a_model_is_refused_where_no_virtual_time_passes() {
        let stand = Stand::Model(Model { name: "wd1003fzex".into(), settings: Vec::new() });
        let open = || OpenStand::open(&stand, 1 << 20, None, 2, Caching::DirectIfPossible, false);
        let why = open().err().unwrap().to_string();
        assert!(why.contains("do not run in virtual time yet"), "{why}");
        let _time = stand.begin_virtual_time();
        assert_eq!(open().unwrap().places.len(), 2);
    }

    #[test]
    fn a_share_of_all_is_the_whole_memory_in_turns() {
        let stand = opened(64 * M, 3);
        assert_eq!((stand.places.len(), stand.places[0].device.len()), (1, 64 * M));
    }
}
