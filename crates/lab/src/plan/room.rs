//! How much room there is: on the device, in a volume on it, in the directories of the host.

use super::{largest_span, refuse};
use crate::stand::{Stand, image_length, provided_length, region_length, typed};
use crate::target::{Target, free_space};
use crate::{Comparison, Error, Result};
use platter_device::{Caching, Device, FileDevice, FileOptions, MemoryDevice, Sectors, show_size};
use platter_vfs::{FormatOptions, OpenOptions, Silent};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The device that volumes are made on.
pub struct Ground {
    pub name: String,
    /// Its size, or `None` for an image that will be made as large as the span asks for.
    pub length: Option<u64>,
    pub sectors: Sectors,
    /// Host directories that it takes bytes of, and how many.
    takes: Vec<(PathBuf, Takes)>,
}

/// What an image takes of the file system that it lies in.
enum Takes {
    /// All that a new image has.
    New,
    /// What has no space yet of an image of this length and these bytes with space.
    Holes { length: u64, there: u64 },
}

/// What one target has for its file.
pub struct Room {
    pub name: String,
    /// Bytes that its file or region can have.
    pub bytes: u64,
    /// Why no more.
    pub why: String,
    pub sector: u64,
    /// What would help where a block does not suit the sector.
    pub hint: &'static str,
    /// The largest file that its format has.
    largest_file: u64,
    /// Whether its I/O goes past the page cache.
    is_direct: bool,
    is_directory: bool,
}

/// All of it.
pub struct Rooms {
    pub ground: Ground,
    pub targets: Vec<Room>,
    /// How many targets lie on the device.
    pub on_device: u64,
    /// Bytes that each of them has of it; `None` for an image that will be made as large as the span asks for.
    region: Option<u64>,
}

/// Looks at the device and at what each target has on it.
pub fn look(comparison: &Comparison, names: &[String], caching: Caching) -> Result<Rooms> {
    let ground = Ground::look(&comparison.stand, caching)?;
    if comparison.targets.iter().any(Target::is_mounted) {
        comparison.stand.check_blocks()?;
    }
    // Of an image that will be made it is enough to know one of the size that the span asks for.
    let asked = largest_span(comparison);
    let on_device = comparison.targets.iter().filter(|target| target.is_on_device()).count() as u64;
    let region = match comparison.stand {
        // Each has memory of its own.
        Stand::Memory(_) => ground.length,
        // Without room for all, each has the whole device in turn.
        _ => ground.length.map(|length| region_length(length, asked, on_device).unwrap_or(length)),
    };
    let length = region.unwrap_or_else(|| image_length(asked));
    let targets = comparison.targets.iter().zip(names);
    let targets = targets
        .map(|(target, name)| Room::look(target, name, &ground, length, caching))
        .collect::<Result<Vec<Room>>>()?;
    Ok(Rooms { ground, targets, on_device, region })
}

impl Ground {
    fn look(stand: &Stand, caching: Caching) -> Result<Ground> {
        let one = |path: &Path| Ground::look_at_path(path, caching);
        match stand {
            Stand::Memory(bytes) => Ok(Ground {
                name: format!("mem:{}", typed(*bytes)),
                length: Some(*bytes / 512 * 512),
                sectors: Sectors::SMALL,
                takes: Vec::new(),
            }),
            Stand::TemporaryImage(directory) => {
                let mut ground = Ground::new_image(directory, caching)?;
                ground.name = format!("a temporary image in {}", directory.display());
                Ok(ground)
            }
            Stand::Path { path, .. } => one(path),
            Stand::Mirror { paths, .. } => {
                let mut copies =
                    paths.iter().map(|path| one(path)).collect::<Result<Vec<Ground>>>()?.into_iter();
                let Some(mut all) = copies.next() else { return refuse("a mirror has at least one copy") };
                for copy in copies {
                    // A new image is as large as the span asks for, and so never the smallest that matters.
                    all.length = all.length.into_iter().chain(copy.length).min();
                    all.sectors.logical = all.sectors.logical.max(copy.sectors.logical);
                    all.sectors.physical = all.sectors.physical.max(copy.sectors.physical);
                    all.name = format!("{}, {}", all.name, copy.name);
                    all.takes.extend(copy.takes);
                }
                Ok(all)
            }
        }
    }

    fn look_at_path(path: &Path, caching: Caching) -> Result<Ground> {
        let Some(path) = crate::stand::device_path(path)? else {
            let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let mut ground = Ground::new_image(directory.unwrap_or(Path::new(".")), caching)?;
            ground.name = path.display().to_string();
            return Ok(ground);
        };
        let options = FileOptions { read_only: true, caching, ..FileOptions::default() };
        let device = FileDevice::open(&path, options)?;
        let mut takes = Vec::new();
        if !device.is_block_device() {
            let there = std::fs::metadata(&path).map_or(0, |data| data.blocks() * 512);
            takes.push((path.clone(), Takes::Holes { length: device.len(), there }));
        }
        Ok(Ground {
            name: path.display().to_string(),
            length: Some(device.len()),
            sectors: device.sectors(),
            takes,
        })
    }

    fn new_image(directory: &Path, caching: Caching) -> Result<Ground> {
        let probe = probe(directory, caching, false)?;
        let takes = vec![(directory.to_owned(), Takes::New)];
        Ok(Ground { name: String::new(), length: None, sectors: probe.sectors(), takes })
    }
}

/// A file without a name, which tells whether a directory can be written, and how.
fn probe(directory: &Path, caching: Caching, bytewise: bool) -> Result<FileDevice> {
    let options = FileOptions { caching, bytewise, ..FileOptions::default() };
    Ok(FileDevice::temporary(directory, 0, options)?)
}

/// The largest device that a volume is tried on in memory: what describes its pieces takes memory too.
const LARGEST_TRIED: u64 = 1 << 40;

impl Room {
    fn look(target: &Target, name: &str, ground: &Ground, length: u64, caching: Caching) -> Result<Room> {
        let device = Room {
            name: name.to_owned(),
            bytes: length,
            why: format!("{} has {} ({length} bytes)", ground.name, show_size(length)),
            sector: u64::from(ground.sectors.logical),
            hint: if caching == Caching::Buffered {
                "; only a directory of the host takes others"
            } else {
                ""
            },
            largest_file: u64::MAX,
            is_direct: true,
            is_directory: false,
        };
        match target {
            Target::Raw | Target::Through { .. } => Ok(device),
            Target::Volume { .. } if length > LARGEST_TRIED => Ok(device),
            Target::Volume { format, cluster } => {
                // The same volume in memory, where nothing is lost and zeroes take no space.
                let memory = Arc::new(MemoryDevice::new(length, ground.sectors));
                let options = FormatOptions { cluster: *cluster, ..FormatOptions::default() };
                let about = |error: platter_vfs::Error| {
                    Error::Job(format!("{name} on {} ({}): {error}", ground.name, show_size(length)))
                };
                format.make(&*memory, &options, &Silent).map_err(about)?;
                let system = format.open(memory, OpenOptions::default()).map_err(about)?;
                let space = system.space().map_err(about)?;
                let bytes = space.free * space.cluster;
                let why =
                    format!("{name} on {} leaves {} ({bytes} bytes) free", ground.name, show_size(bytes));
                let largest_file = system.capabilities().largest_file;
                system.unmount().map_err(about)?;
                Ok(Room { bytes, why, largest_file, ..device })
            }
            Target::Mounted(peer) => {
                peer.check()?;
                // What others take for themselves is known when they are made.
                let bytes = length - length / MARGIN;
                let why = format!("{name} on {} has about {} of it", ground.name, show_size(bytes));
                Ok(Room { bytes, why, largest_file: peer.largest_file(), ..device })
            }
            Target::Directory(path) => {
                let probe = probe(path, caching, true)?;
                let bytes = free_space(path).unwrap_or(u64::MAX);
                Ok(Room {
                    bytes,
                    why: format!("{} has {} ({bytes} bytes) free", path.display(), show_size(bytes)),
                    sector: u64::from(probe.sectors().logical),
                    hint: "; with direct=0 or --buffered it takes others",
                    is_direct: probe.is_direct(),
                    is_directory: true,
                    ..device
                })
            }
        }
    }
}

/// What stays free in a file system of the host: a part of what it is asked for, up to a limit.
const SPARE: (u64, u64) = (16, 64 << 20);
/// What a share of a volume leaves for what the file system itself writes: one part of so many.
const MARGIN: u64 = 16;

impl Rooms {
    /// The bytes that a share is a share of: what every target has. `None` if an image is made for the span.
    pub fn whole(&self) -> Option<u64> {
        let device = self.region?;
        let of_target = |room: &Room| match room.bytes {
            bytes if bytes == device && !room.is_directory => bytes,
            bytes => bytes - bytes / MARGIN,
        };
        self.targets.iter().map(of_target).min()
    }

    /// The largest sector of all, which every span is a multiple of.
    pub fn sector(&self) -> u64 {
        self.targets.iter().map(|room| room.sector).max().unwrap_or(1)
    }

    /// The target with the smallest largest file, and how long that can be, in whole mebibytes.
    pub fn largest_file(&self) -> Option<(&str, u64)> {
        let rooms = self.targets.iter().filter(|room| room.largest_file < u64::MAX);
        rooms
            .min_by_key(|room| room.largest_file)
            .map(|room| (room.name.as_str(), room.largest_file >> 20 << 20))
    }

    /// Whether the host's file systems can hold all that is made in them together.
    pub fn check_space(&self, comparison: &Comparison, span: u64) -> Result<()> {
        let mut needs: BTreeMap<u64, (&Path, u64)> = BTreeMap::new();
        let mut add = |path, bytes: u64| {
            let number = std::fs::metadata(path).map_or(0, |data| data.dev());
            let (_, sum) = needs.entry(number).or_insert((path, 0));
            *sum = sum.saturating_add(bytes);
        };
        // Without a target on it no image is made, and one that is there stays as it is.
        let takes = self.ground.takes.iter().filter(|_| self.on_device > 0);
        for (path, takes) in takes {
            let bytes = match takes {
                Takes::New => image_length(span).saturating_mul(self.on_device),
                Takes::Holes { length, there } => {
                    let region = region_length(*length, span, self.on_device);
                    let regions = if region.is_some() { self.on_device } else { 1 };
                    let provided = provided_length(region.unwrap_or(*length), span);
                    provided.saturating_mul(regions).saturating_sub(*there)
                }
            };
            add(path, bytes);
        }
        for target in &comparison.targets {
            if let Target::Directory(path) = target {
                add(path, span);
            }
        }
        for (path, bytes) in needs.into_values().filter(|(_, bytes)| *bytes > 0) {
            let needed = bytes.saturating_add((bytes / SPARE.0).min(SPARE.1));
            if let Some(free) = free_space(path)
                && free < needed
            {
                return refuse(format!(
                    "{} has {free} bytes ({}) free; {needed} ({}) are needed for the image and the files of a span of {}",
                    path.display(),
                    show_size(free),
                    show_size(needed),
                    show_size(span)
                ));
            }
        }
        Ok(())
    }

    /// What is measured otherwise than asked.
    pub fn warnings(&self, caching: Caching) -> impl Iterator<Item = String> {
        let through_cache =
            move |room: &&Room| room.is_directory && !room.is_direct && caching != Caching::Buffered;
        self.targets.iter().filter(through_cache).map(|room| {
            format!(
                "{} was measured through the page cache: the file system that holds it has no direct I/O",
                room.name
            )
        })
    }
}
