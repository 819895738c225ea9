//! How much room there is: on the device, in a volume on it, in the directories of the host.

use super::{largest_span, refuse};
use crate::host;
use crate::mark;
use crate::stand::{Stand, image_length, memory_share, provided_length, region_length, typed};
use crate::target::{Target, free_space};
use crate::{Comparison, Error, Result};
use platter_device::{Caching, Device, FileDevice, FileOptions, MemoryDevice, Sectors, show_size};
use platter_vfs::{FormatOptions, OpenOptions, Silent};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The device that targets are made on, as far as the checks need it.
pub(super) struct Ground {
    pub name: String,
    /// The size of the device in bytes, or `None` for an image that will be made as large as the span asks for.
    pub length: Option<u64>,
    pub sectors: Sectors,
    /// The host directories that hold images, and how much space the images will take there.
    takes: Vec<(PathBuf, Takes)>,
}

/// How much space of the host's file system an image will still take.
enum Takes {
    /// A new image: all that is written to it.
    New,
    /// An existing image of `length` bytes, of which `there` bytes have space already: the part that has none yet.
    Holes { length: u64, there: u64 },
}

/// The room that one target has for its test file.
pub(super) struct Room {
    pub name: String,
    /// The greatest length in bytes of the target's file or region.
    pub bytes: u64,
    /// The reason for that limit, for messages.
    pub why: String,
    pub sector: u64,
    /// A hint for messages about blocks that are not multiples of the sector.
    pub hint: &'static str,
    /// The size in bytes of the largest file that the target's format can hold.
    largest_file: u64,
    /// Whether the target's I/O goes past the page cache.
    is_direct: bool,
    is_directory: bool,
}

/// The room of all targets, and the device that they are made on.
pub(super) struct Rooms {
    pub ground: Ground,
    pub targets: Vec<Room>,
    /// The number of targets on the device.
    pub on_device: u64,
    /// The bytes of the device that each of them has; `None` for an image that will be made as large as the span asks
    /// for.
    region: Option<u64>,
}

/// Examines the device, and how much room each target has on it.
pub(super) fn look(comparison: &Comparison, names: &[String], caching: Caching) -> Result<Rooms> {
    let ground = Ground::look(&comparison.stand, caching)?;
    if comparison.targets.iter().any(Target::is_mounted) {
        comparison.stand.check_blocks()?;
    }
    // An image that will be made has the size that the span asks for, so that size is examined.
    let asked = largest_span(comparison);
    let on_device = comparison.targets.iter().filter(|target| target.is_on_device()).count() as u64;
    let rooms_of = |length: u64| {
        let targets = comparison.targets.iter().zip(names);
        targets
            .map(|(target, name)| Room::look(target, name, &ground, length, caching))
            .collect::<Result<Vec<Room>>>()
    };
    let is_memory = matches!(comparison.stand, Stand::Memory(_));
    if let (true, 2.., Some(all)) = (is_memory, on_device, ground.length) {
        // Memory has no room to spare, so that each target has a share of it wherever it can be made there and has room
        // for the span. What a directory has does not depend on the share.
        let share = memory_share(all, on_device);
        let has_room = |room: &Room| room.is_directory || room.bytes >= asked;
        if let Ok(targets) = rooms_of(share)
            && targets.iter().all(has_room)
        {
            return Ok(Rooms { ground, targets, on_device, region: Some(share) });
        }
    }
    // Without room for a region each, every target has the whole device, one after the other.
    let region = match is_memory || matches!(comparison.stand, Stand::Model(_)) {
        true => ground.length,
        false => ground.length.map(|length| region_length(length, asked, on_device).unwrap_or(length)),
    };
    let targets = rooms_of(region.unwrap_or_else(|| image_length(asked)))?;
    Ok(Rooms { ground, targets, on_device, region })
}

/// Checks that the device has a region for each of the targets that are on it, and the host space for what is made, without
/// examining the targets: for loads that use files of their own.
pub(crate) fn check_regions(stand: &Stand, targets: &[Target], span: u64) -> Result<()> {
    let on_device = targets.iter().filter(|target| target.is_on_device()).count() as u64;
    if on_device == 0 {
        return Ok(());
    }
    let ground = Ground::look(stand, Caching::DirectIfPossible)?;
    let region = match stand {
        // Each target has a device of its own.
        Stand::Model(_) => ground.length.map(Some),
        _ => ground.length.map(|length| region_length(length, span, on_device)),
    };
    if let (Some(None), Some(length)) = (region, ground.length) {
        return refuse(format!(
            "{} has {}, which is no room for {on_device} targets with files of {} each; choose another with --span",
            ground.name,
            show_size(length),
            show_size(span)
        ));
    }
    let on_host = Comparison::new(stand.clone(), Vec::new(), Vec::new());
    Rooms { ground, targets: Vec::new(), on_device, region: region.flatten() }.check_space(&on_host, span)
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
            Stand::Model(model) => {
                let device = model.device()?;
                let (name, length, sectors) = (model.shown(), Some(device.len()), device.sectors());
                Ok(Ground { name, length, sectors, takes: Vec::new() })
            }
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
                    // A new image is as large as the span asks for, so it never limits the size of the mirror.
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
        if let Some((length, sectors)) = crate::image::look(&path)? {
            let there = host::allocated(&path);
            return Ok(Ground {
                name: path.display().to_string(),
                length: Some(length - mark::room(length)),
                sectors,
                takes: vec![(path, Takes::Holes { length, there })],
            });
        }
        let options = FileOptions { read_only: true, caching, ..FileOptions::default() };
        let device = FileDevice::open(&path, options)?;
        let mut takes = Vec::new();
        if !device.is_block_device() {
            let there = host::allocated(&path);
            takes.push((path.clone(), Takes::Holes { length: device.len(), there }));
        }
        Ok(Ground {
            name: path.display().to_string(),
            length: Some(device.len() - mark::room(device.len())),
            sectors: device.sectors(),
            takes,
        })
    }

    fn new_image(directory: &Path, caching: Caching) -> Result<Ground> {
        let probe = probe(directory, caching, false, false)?;
        let takes = vec![(directory.to_owned(), Takes::New)];
        Ok(Ground { name: String::new(), length: None, sectors: probe.sectors(), takes })
    }
}

/// Makes a file without a name, to learn whether the directory can be written and whether it allows direct I/O.
fn probe(directory: &Path, caching: Caching, bytewise: bool, integrity: bool) -> Result<FileDevice> {
    let options = FileOptions { caching, bytewise, integrity, ..FileOptions::default() };
    Ok(FileDevice::temporary(directory, 0, options)?)
}

/// The largest device for which a volume is made in memory as a trial: the bookkeeping of a sparse memory device takes
/// memory too.
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
                // A trial volume in memory, which destroys no data; zeroes take no space there.
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
                // The overhead of file systems of other projects is not known before they are made, so it is estimated.
                let bytes = length - length / MARGIN;
                let why = format!("{name} on {} has about {} of it", ground.name, show_size(bytes));
                Ok(Room { bytes, why, largest_file: peer.largest_file(), ..device })
            }
            Target::Directory { .. } | Target::ByWindows(_) => {
                let Some((path, integrity)) = target.host_directory()? else { return Ok(device) };
                let probe = probe(path, caching, true, integrity)?;
                let bytes = free_space(path).unwrap_or(u64::MAX);
                Ok(Room {
                    bytes,
                    why: format!("{} has {} ({bytes} bytes) free", path.display(), show_size(bytes)),
                    sector: u64::from(probe.sectors().logical),
                    hint: "; with direct=0 or --buffered it takes others",
                    is_direct: probe.is_direct(),
                    is_directory: true,
                    largest_file: match target {
                        Target::ByWindows(peer) => peer.largest_file(),
                        _ => device.largest_file,
                    },
                    ..device
                })
            }
        }
    }
}

/// The space that must stay free in a file system of the host: this fraction of the bytes to be written (one in so
/// many), and the upper limit of it in bytes.
const SPARE: (u64, u64) = (16, 64 << 20);
/// A share of a volume leaves one part in this many for what the file system itself writes.
const MARGIN: u64 = 16;

impl Rooms {
    /// The bytes of the device that each target has; `None` for an image that will be made as large as the span asks
    /// for.
    pub(super) fn region(&self) -> Option<u64> {
        self.region
    }

    /// The bytes that a share is a share of: the room of the smallest target. `None` if an image is made for the span.
    pub(super) fn whole(&self) -> Option<u64> {
        let device = self.region?;
        let of_target = |room: &Room| match room.bytes {
            bytes if bytes == device && !room.is_directory => bytes,
            bytes => bytes - bytes / MARGIN,
        };
        self.targets.iter().map(of_target).min()
    }

    /// The largest sector size of all targets; every span is a multiple of it.
    pub(super) fn sector(&self) -> u64 {
        self.targets.iter().map(|room| room.sector).max().unwrap_or(1)
    }

    /// The target whose format has the smallest limit on file sizes, and that limit in bytes, rounded down to a whole
    /// mebibyte.
    pub(super) fn largest_file(&self) -> Option<(&str, u64)> {
        let rooms = self.targets.iter().filter(|room| room.largest_file < u64::MAX);
        rooms
            .min_by_key(|room| room.largest_file)
            .map(|room| (room.name.as_str(), room.largest_file >> 20 << 20))
    }

    /// Checks that the host's file systems have space for all images and files that are made in them together.
    pub(super) fn check_space(&self, comparison: &Comparison, span: u64) -> Result<()> {
        let mut needs: BTreeMap<u64, (&Path, u64)> = BTreeMap::new();
        let mut add = |path, bytes: u64| {
            let number = host::file_system_number(path);
            let (_, sum) = needs.entry(number).or_insert((path, 0));
            *sum = sum.saturating_add(bytes);
        };
        // If no target is on the device, no image is made and an existing one is not written.
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
            if let Some((path, _)) = target.host_directory()? {
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

    /// Warnings about targets that are measured otherwise than asked for.
    pub(super) fn warnings(&self, caching: Caching) -> impl Iterator<Item = String> {
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
