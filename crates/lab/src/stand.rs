//! What everything is compared on: a device, opened, and how it is made new for each turn.

use crate::target::free_space;
use crate::{Error, Result};
use platter_device::{Buffer, Caching, Device, FileDevice, FileOptions, MemoryDevice, Mirror, Sectors};
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
/// come to all of it in time.
const PROVIDED: u64 = 4;

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
    mirror: Option<Arc<Mirror>>,
    /// Bytes from the beginning whose space is provided before the first turn and never given back: see
    /// [`OpenStand::provide`].
    provided: u64,
}

impl OpenStand {
    /// Opens it; `beside` is what the same directory must hold besides a temporary image, in bytes.
    pub fn open(stand: &Stand, span: u64, beside: u64, caching: Caching) -> Result<OpenStand> {
        // Room for a file system's own structures, and enough that FAT32 can have its 65,525 clusters.
        let length = (span + span / 8).max(span + (256 << 20)).next_multiple_of(1 << 20);
        let options = FileOptions { caching, exclusive: true, ..FileOptions::default() };
        let (file, place) = match stand {
            Stand::Memory(length) => {
                let device = Arc::new(MemoryDevice::provided(*length, Sectors::SMALL));
                let name = device.name().to_string();
                return Ok(OpenStand {
                    device,
                    kind: "memory",
                    direct: true,
                    caching,
                    name,
                    place: PathBuf::new(),
                    mirror: None,
                    provided: 0,
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
                    provided: if is_image { mirror.len().min(PROVIDED * length) } else { 0 },
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
                (FileDevice::temporary(directory, length, options)?, directory)
            }
            Stand::Path(path) => (open_file(path, length, options)?, path),
        };
        let kind = if file.is_block_device() { "block device" } else { "image" };
        let name = match stand {
            Stand::TemporaryImage(directory) => format!("temporary image in {}", directory.display()),
            _ => file.name().to_string(),
        };
        let direct = file.is_direct();
        let place = place.clone();
        let provided = if file.is_image() { file.len().min(PROVIDED * length) } else { 0 };
        Ok(OpenStand { device: Arc::new(file), kind, direct, caching, name, place, mirror: None, provided })
    }

    /// Writes an image once, up to [`PROVIDED`]. Whoever holds an image provides its space when it is first written,
    /// which costs more than the write itself: a file system that writes to new places would pay for that, and one that
    /// overwrites would not. Storage that is there already has no such costs.
    pub fn provide(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        let mut filler = Buffer::new(PIECE);
        // Not zeroes, which some file systems do not store.
        fastrand::Rng::with_seed(0).fill(&mut filler);
        for offset in (0..self.provided).step_by(PIECE) {
            let length = (self.provided - offset).min(PIECE as u64);
            self.device.write_at(offset, &filler[..length as usize])?;
            progress(offset + length, self.provided);
        }
        Ok(self.device.flush()?)
    }

    /// Forgets what the last turn left, as far as that gives no space back that was provided.
    pub fn discard(&self) -> Result<()> {
        let rest: Range<u64> = self.provided..self.device.len();
        Ok(self.device.discard(rest.start, rest.end - rest.start)?)
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
