//! What everything is compared on: a device, opened, and how it is made new for each turn.

use crate::target::{free_space, temporary_file};
use crate::{Error, Result};
use platter_device::{
    Buffer, Caching, Device, FileDevice, FileOptions, MemoryDevice, Mirror, Sectors, Stripes,
};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The device that everything is compared on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stand {
    /// An image file made for the comparison, in this directory, and removed after it.
    TemporaryImage(PathBuf),
    /// An image file or block device that may be overwritten: whoever asks has made sure of it. An image that is not
    /// there is made.
    Path(PathBuf),
    /// Several such, which all hold the same.
    Mirror(Vec<PathBuf>),
    /// Memory of this many bytes.
    Memory(u64),
}

/// Bytes of one write while providing.
const PIECE: usize = 1 << 20;
/// How much of a larger image is provided, as a multiple of what the span needs: file systems that write to new places
/// come to all of it in time. A larger device is not used further either where several targets have their regions on it.
const PROVIDED: u64 = 4;
/// Regions of several targets are made of stripes of so many bytes that alternate: long enough that hardly a request lies in
/// two, short enough that each target has its share of every part of the disk. Of eight places of 256 MiB on one virtual
/// disk, the fastest wrote 4 KiB blocks at random a quarter faster than the slowest, each time.
const STRIPE: u64 = 16 << 20;

/// The device, opened.
pub(crate) struct OpenStand {
    pub device: Arc<dyn Device>,
    pub kind: &'static str,
    pub direct: bool,
    pub caching: Caching,
    /// As people call it.
    pub name: String,
    /// What tells about the hardware below: the device, or the directory of a temporary image.
    pub place: PathBuf,
    /// Where targets are made: a region (or memory) for each, or the whole device for one after the other.
    pub places: Vec<Place>,
    mirror: Option<Arc<Mirror>>,
}

/// Where a target is made.
pub(crate) struct Place {
    pub device: Arc<dyn Device>,
    /// Bytes from the beginning whose space is provided before anything is measured and never given back: see
    /// [`OpenStand::provide`].
    pub provided: u64,
}

impl OpenStand {
    /// Opens it for so many targets that lie on the device; `beside` is what the same directory must hold besides a
    /// temporary image, in bytes.
    pub fn open(stand: &Stand, span: u64, targets: u64, beside: u64, caching: Caching) -> Result<OpenStand> {
        // Room for a file system's own structures, and enough that FAT32 can have its 65,525 clusters.
        let region = (span + span / 8).max(span + (256 << 20)).next_multiple_of(STRIPE);
        let length = region * targets.max(1);
        let options = FileOptions { caching, exclusive: true, ..FileOptions::default() };
        let (file, place) = match stand {
            Stand::Memory(length) => {
                let memory = || Arc::new(MemoryDevice::provided(*length, Sectors::SMALL));
                let places: Vec<Place> =
                    (0..targets.max(1)).map(|_| Place { device: memory(), provided: 0 }).collect();
                let device = places[0].device.clone();
                let name = device.name().to_string();
                return Ok(OpenStand {
                    device,
                    kind: "memory",
                    direct: true,
                    caching,
                    name,
                    place: PathBuf::new(),
                    places,
                    mirror: None,
                });
            }
            Stand::Mirror(paths) => {
                let files = paths
                    .iter()
                    .map(|path| open_file(path, length, options))
                    .collect::<Result<Vec<FileDevice>>>()?;
                let direct = files.iter().all(FileDevice::is_direct);
                let is_image = files.iter().any(FileDevice::is_image);
                let copies = files.into_iter().map(|file| Arc::new(file) as Arc<dyn Device>).collect();
                let mirror = Arc::new(Mirror::new(copies)?);
                return Ok(OpenStand {
                    places: divide(mirror.clone(), targets, region, is_image)?,
                    device: mirror.clone(),
                    kind: "mirror",
                    direct,
                    caching,
                    name: mirror.name().to_string(),
                    place: paths.first().cloned().unwrap_or_default(),
                    mirror: Some(mirror),
                });
            }
            Stand::TemporaryImage(directory) => {
                enough_space(directory, length + beside)?;
                (temporary_file(directory, length, options)?, directory)
            }
            Stand::Path(path) => (open_file(path, length, options)?, path),
        };
        let kind = if file.is_block_device() { "block device" } else { "image" };
        let name = match stand {
            Stand::TemporaryImage(directory) => format!("temporary image in {}", directory.display()),
            _ => file.name().to_string(),
        };
        let (direct, is_image) = (file.is_direct(), file.is_image());
        let device: Arc<dyn Device> = Arc::new(file);
        let places = divide(device.clone(), targets, region, is_image)?;
        Ok(OpenStand { device, kind, direct, caching, name, place: place.clone(), places, mirror: None })
    }

    /// Whether there is a place for each of so many targets.
    pub fn has_room_for_all(&self, targets: u64) -> bool {
        self.places.len() as u64 >= targets
    }

    /// Writes an image once, as far as targets use it. Whoever holds an image provides its space when it is first written,
    /// which costs more than the write itself: a file system that writes to new places would pay for that, and one that
    /// overwrites would not. Storage that is there already has no such costs.
    ///
    /// From the beginning to the end, so that the regions of all targets are mixed below too: whoever provides space as it is
    /// first written puts together what is written together, and on one virtual disk a region that was written before the
    /// others stayed slower by a tenth.
    pub fn provide(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        let end = self.places.iter().map(|place| place.provided).sum();
        let mut filler = Buffer::new(PIECE);
        // Not zeroes, which some file systems do not store.
        fastrand::Rng::with_seed(0).fill(&mut filler);
        for offset in (0..end).step_by(PIECE) {
            let length = (end - offset).min(PIECE as u64);
            self.device.write_at(offset, &filler[..length as usize])?;
            progress(offset + length, end);
        }
        Ok(self.device.flush()?)
    }

    /// What copies of a mirror failed to do: the others did it, but took their time.
    pub fn failures(&self) -> Vec<String> {
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

/// A region for each target, with room for at least `needed` bytes, made of stripes that alternate; the whole device where
/// there is one target, or no room for all.
fn divide(device: Arc<dyn Device>, targets: u64, needed: u64, is_image: bool) -> Result<Vec<Place>> {
    let share = device.len() / targets.max(1) / STRIPE;
    let most = PROVIDED * needed;
    let provided = |length: u64| if is_image { length.min(most) } else { 0 };
    if targets <= 1 || share * STRIPE < needed {
        let provided = provided(device.len());
        return Ok(vec![Place { device, provided }]);
    }
    let stripes = share.min(most / STRIPE);
    let mut starts: Vec<Vec<u64>> = vec![Vec::new(); targets as usize];
    let mut rng = fastrand::Rng::with_seed(0);
    let mut order: Vec<usize> = (0..targets as usize).collect();
    for row in 0..stripes {
        // In every row another has the first: no target is always the one further in.
        rng.shuffle(&mut order);
        for (column, target) in (0..).zip(&order) {
            starts[*target].push((row * targets + column) * STRIPE);
        }
    }
    let region = |starts: Vec<u64>| {
        let name = device.name().to_string();
        let device = Arc::new(Stripes::new(device.clone(), STRIPE, starts, name)?);
        Ok(Place { device, provided: provided(stripes * STRIPE) })
    };
    starts.into_iter().map(region).collect()
}

impl Place {
    /// Forgets what was there before, as far as that gives no space back that was provided.
    pub fn discard(&self) -> Result<()> {
        let rest: Range<u64> = self.provided..self.device.len();
        Ok(self.device.discard(rest.start, rest.end - rest.start)?)
    }
}

/// Opens an image file or block device; an image that is not there is made.
fn open_file(path: &Path, length: u64, options: FileOptions) -> Result<FileDevice> {
    Ok(if path.exists() {
        FileDevice::open(path, options)?
    } else {
        FileDevice::create(path, length, options)?
    })
}

fn enough_space(directory: &Path, bytes: u64) -> Result<()> {
    let needed = bytes + (64 << 20);
    match free_space(directory) {
        Some(free) if free < needed => {
            Err(Error::Job(format!("{} has {free} bytes free; {needed} are needed", directory.display())))
        }
        _ => Ok(()),
    }
}
