//! Fields with extreme values, and every checksum right: whatever a field says, the work of each operation is bounded by what
//! is on the device, and nothing panics.

use crate::budget::{Budget, Guard, MEMORY};
use crate::volumes::Volume;
use crate::{Failures, Tally, memory};
use platter_device::{Device, OverlayDevice, UndoDevice, UndoFile};
use platter_refs::fuzzing::Unsealed;
use platter_testing::model::Random;
use platter_vfs::{CheckOptions, Kind, Name, Node, OpenOptions, ScrubOptions, Silent, Stretch};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// The size of a sector in bytes.
const SECTOR: u64 = 512;

/// Sets one field in 80 of 100 cases, and two or three in the others; then carries out every operation.
pub(crate) fn one(volume: &Volume, seed: u64, tally: &mut Tally) -> Failures {
    let mut random = Random::new(seed);
    let count = if random.chance(80) { 1 } else { 2 + random.below(2) };
    let (device, told) = match volume.name.starts_with("refs") {
        true => in_pages(volume, count, &mut random),
        false => in_sectors(volume, count, &mut random),
    };
    let failures = operations(volume, &device, seed, tally);
    failures.into_iter().map(|what| format!("{what} ({})", told.join(", "))).collect()
}

/// An extreme value of a field of this many bytes.
fn value(width: usize, length: u64, random: &mut Random) -> u64 {
    let most = u64::MAX >> (64 - 8 * width);
    let sign = most / 2 + 1;
    let clusters = [SECTOR, 1024, 4096, 65_536].map(|size| length / size);
    let of_length = *random.pick(&[length, length, clusters[0], clusters[1], clusters[2], clusters[3]]);
    let values = [
        0,
        1,
        most,
        most - 1,
        sign,
        sign - 1,
        1 << 31,
        (1 << 31) - 1,
        1 << 32,
        1 << 40,
        1 << 52,
        of_length,
        of_length + 1,
        of_length - 1,
    ];
    loop {
        let value = *random.pick(&values);
        if value <= most {
            return value;
        }
    }
}

/// The width of a field in bytes.
fn width(random: &mut Random) -> usize {
    *random.pick(&[1, 2, 4, 4, 8, 8, 8])
}

/// Sets fields of FAT, exFAT or NTFS.
fn in_sectors(volume: &Volume, count: u64, random: &mut Random) -> (Arc<OverlayDevice>, Vec<String>) {
    let device = Arc::new(OverlayDevice::new(volume.device.clone()));
    let mut told = Vec::new();
    for _ in 0..count {
        let sector = sector(volume, random);
        let width = width(random);
        let mut bytes = vec![0; SECTOR as usize];
        device.read_at(sector, &mut bytes).expect("a device in memory");
        let Some(at) = field(&bytes, width, volume.name, random) else { continue };
        let value = value(width, device.len(), random);
        bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
        device.write_at(sector, &bytes).expect("a device in memory");
        if volume.name == "exfat" {
            exfat::seal(&device, sector + at as u64);
        }
        told.push(format!("{width} bytes at {:#x} are {value:#x}", sector + at as u64));
    }
    (device, told)
}

/// Returns the offset of a sector of metadata; of NTFS mostly one that begins a record or index block, as the log and what
/// is in other clusters have fewer fields.
fn sector(volume: &Volume, random: &mut Random) -> u64 {
    let mut sector = volume.places.metadata(random);
    for _ in 0..8 {
        let mut start = [0; SECTOR as usize];
        volume.device.read_at(sector, &mut start).expect("a device in memory");
        if !volume.name.starts_with("ntfs") || [b"FILE", b"INDX"].iter().any(|mark| start.starts_with(*mark))
        {
            break;
        }
        sector = volume.places.metadata(random);
    }
    sector
}

/// Returns the place of a field in a sector, mostly of one that is not zero.
fn field(bytes: &[u8], width: usize, format: &str, random: &mut Random) -> Option<usize> {
    let is_protected = |at: usize| {
        // The update sequence of a block of NTFS shows only that it was written whole.
        let is_block = [b"FILE", b"INDX", b"RSTR", b"RCRD"].iter().any(|mark| bytes.starts_with(*mark));
        let array = usize::from(bytes[4]) + 256 * usize::from(bytes[5]);
        let end = array + 2 * usize::from(bytes[6]);
        format.starts_with("ntfs")
            && (at + width > 510 || is_block && (at < 8 || at < end && at + width > array))
    };
    for attempt in 0..200 {
        let at = random.below(SECTOR - width as u64 + 1) as usize;
        let at = if random.chance(80) { at / width * width } else { at };
        let is_set = bytes[at..at + width].iter().any(|&byte| byte != 0);
        if (is_set || attempt % 5 == 0) && !is_protected(at) {
            return Some(at);
        }
    }
    None
}

/// A volume of ReFS whose pages have no checksums, with its structures.
type Pages = (Arc<OverlayDevice>, Unsealed);

/// Sets fields of ReFS.
fn in_pages(volume: &Volume, count: u64, random: &mut Random) -> (Arc<OverlayDevice>, Vec<String>) {
    static KNOWN: Mutex<BTreeMap<&str, Arc<Pages>>> = Mutex::new(BTreeMap::new());
    let pages = KNOWN
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .entry(volume.name)
        .or_insert_with(|| {
            let device = Arc::new(OverlayDevice::new(volume.device.clone()));
            let unsealed = Unsealed::of(device.clone());
            Arc::new((device, unsealed))
        })
        .clone();
    let (below, unsealed) = &*pages;
    let device = Arc::new(OverlayDevice::new(below.clone()));
    let mut told = Vec::new();
    for _ in 0..count {
        // The first four are boot record, superblock and checkpoints.
        let places = unsealed.places();
        let place =
            if random.chance(20) { random.below(4) } else { random.below(places.len() as u64) } as usize;
        let (offset, size) = places[place];
        let mut bytes = vec![0; size];
        device.read_at(offset, &mut bytes).expect("a device in memory");
        let width = width(random);
        let mut at = 0;
        for attempt in 0..200 {
            at = random.below((size - width) as u64 + 1) as usize;
            at = if random.chance(80) { at / width * width } else { at };
            if bytes[at..at + width].iter().any(|&byte| byte != 0) || attempt % 20 == 19 {
                break;
            }
        }
        let value = value(width, device.len(), random);
        bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
        unsealed.seal(place, &mut bytes);
        device.write_at(offset, &bytes).expect("a device in memory");
        told.push(format!("{width} bytes at {:#x} are {value:#x}", offset + at as u64));
    }
    (device, told)
}

/// Carries out every operation on copies of a volume, and returns those that did not end within their bounds.
fn operations(volume: &Volume, damaged: &Arc<OverlayDevice>, seed: u64, tally: &mut Tally) -> Failures {
    let mut failures = Failures::new();
    let mut run = |what: &'static str, operation: &mut dyn FnMut(Arc<dyn Device>)| {
        let budget = Arc::new(Budget::new(Arc::new(OverlayDevice::new(damaged.clone()))));
        let guard = Guard::new(format!("{}, seed {seed}: {what}", volume.name));
        let memory = memory::measure(|| operation(budget.clone()));
        drop(guard);
        if let Some(why) = budget.exceeded() {
            failures.push(format!("{what}: {why}"));
        }
        if memory > MEMORY {
            failures.push(format!("{what}: {memory} bytes of memory"));
        }
    };
    let format = volume.format;
    run("check", &mut |device| {
        let found = format.check(&*device, CheckOptions { repair: false }, &Silent);
        let is_clean = found.as_ref().is_ok_and(|report| report.is_clean());
        tally.note(if is_clean { "clean" } else { "found" }, seed);
    });
    run("open, list and read", &mut |device| drop(volume.read(&device)));
    run("repair", &mut |device| drop(format.check(&*device, CheckOptions { repair: true }, &Silent)));
    run("scrub", &mut |device| {
        drop(format.scrub(device.clone(), &ScrubOptions::default(), &Silent));
        let salvage = ScrubOptions { salvage: true, ..ScrubOptions::default() };
        drop(format.scrub(device, &salvage, &Silent));
    });
    run("recover", &mut |device| drop(recover(volume, device)));
    run("write", &mut |device| drop(write(volume, device)));
    if seed.is_multiple_of(8) {
        run("undo", &mut |device| undo(volume, device, seed));
    }
    failures
}

/// Recovers all files, and reads of each as much as is there.
fn recover(volume: &Volume, device: Arc<dyn Device>) -> platter_vfs::Result<()> {
    const STEPS: u64 = 1 << 16;
    let mut buffer = vec![0; 65_536];
    let report = volume.format.recover(device, &Silent, &mut |found, data| {
        // As a copy reads it: from one part that may hold something to the next.
        let (mut at, mut steps) = (0, 0);
        while at < found.size && steps < STEPS {
            let (stretch, end) = data.stretch(at);
            let end = end.min(found.size).max(at + 1);
            if stretch == Stretch::Content {
                let length = (end - at).min(buffer.len() as u64) as usize;
                let _ = data.read(at, &mut buffer[..length]);
                at += length as u64;
            } else {
                at = end;
            }
            steps += 1;
        }
        assert!(steps < STEPS, "{:?} of {} bytes has no end of data", found.path, found.size);
        Ok(())
    })?;
    assert!(report.files < 1 << 20, "{} files", report.files);
    Ok(())
}

/// Opens a volume and writes to it.
fn write(volume: &Volume, device: Arc<dyn Device>) -> platter_vfs::Result<()> {
    let system = volume.format.open(device, OpenOptions::default())?;
    let fill = || -> platter_vfs::Result<()> {
        let file = system.create(Node::ROOT, &Name::from("written with the value"), Kind::File)?;
        system.write(file, 0, &[0xA5; 20_000])?;
        system.sync_all()
    };
    drop(fill());
    let mut entries = Vec::new();
    drop(system.read_directory(Node::ROOT, platter_vfs::Cursor::START, 16, &mut entries));
    for entry in entries {
        if let Ok(node) = system.lookup(Node::ROOT, &entry.name) {
            drop(system.write(node, entry.attributes.size / 2, &[0x5A; 700]));
            drop(system.unlink(Node::ROOT, &entry.name));
        }
    }
    drop(system.sync_all());
    system.unmount()
}

/// Repairs a volume with an undo file, sets a value in the undo file or not, and takes the repair back.
fn undo(volume: &Volume, device: Arc<dyn Device>, seed: u64) {
    let path: PathBuf = std::env::temp_dir().join(format!("platter-values-{}-{seed}", std::process::id()));
    let undo = Arc::new(UndoDevice::new(device.clone(), &path, "damaged"));
    drop(volume.format.check(&*undo, CheckOptions { repair: true }, &Silent));
    drop(undo.finish(&|| "stamp".to_string()));
    drop(undo);
    if let Ok(mut bytes) = std::fs::read(&path) {
        let mut random = Random::new(seed);
        if random.chance(70) && bytes.len() > 16 {
            let width = width(&mut random);
            let at = random.below((bytes.len() - width) as u64) as usize;
            let value = value(width, device.len(), &mut random);
            bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
            std::fs::write(&path, bytes).expect("a file of this test");
        }
        if let Ok(mut file) = UndoFile::open(&path) {
            drop(file.restore(&*device, "stamp", true));
        }
    }
    let _ = std::fs::remove_file(&path);
}

/// The checksums of exFAT.
mod exfat {
    use super::SECTOR;
    use platter_device::{Device, OverlayDevice};

    /// Bytes of a directory entry.
    const SLOT: u64 = 32;
    /// The sectors of a boot region that its checksum covers, and those of the whole region (exFAT 3.1.3).
    const SUMMED: u64 = 11;
    const REGION: u64 = 12;

    /// Corrects the checksum of the boot region or entry set that a changed byte is in.
    pub(super) fn seal(device: &OverlayDevice, changed: u64) {
        if changed < 2 * REGION * SECTOR {
            boot(device, changed / (REGION * SECTOR) * REGION * SECTOR);
        } else {
            entry_set(device, changed / SLOT * SLOT);
        }
    }

    fn boot(device: &OverlayDevice, start: u64) {
        let mut bytes = vec![0; (SUMMED * SECTOR) as usize];
        device.read_at(start, &mut bytes).expect("a device in memory");
        let covered = bytes.iter().enumerate().filter(|(at, _)| !matches!(at, 106 | 107 | 112));
        let sum = covered.fold(0_u32, |sum, (_, byte)| sum.rotate_right(1).wrapping_add(u32::from(*byte)));
        let sector: Vec<u8> = sum.to_le_bytes().repeat(SECTOR as usize / 4);
        device.write_at(start + SUMMED * SECTOR, &sector).expect("a device in memory");
    }

    /// Corrects the checksum (exFAT 6.3.3) of the entry set with the slot at this place, if there is one.
    fn entry_set(device: &OverlayDevice, slot: u64) {
        const FILE: u8 = 0x85;
        const MOST: u64 = 18;
        for back in 0..=MOST.min(slot / SLOT) {
            let first = slot - back * SLOT;
            let start = first / SECTOR * SECTOR;
            let length = ((first + (MOST + 1) * SLOT).next_multiple_of(SECTOR)).min(device.len()) - start;
            let mut bytes = vec![0; length as usize];
            device.read_at(start, &mut bytes).expect("a device in memory");
            let inside = (first - start) as usize;
            let count = 1 + usize::from(bytes[inside + 1]).min(MOST as usize);
            if bytes[inside] != FILE || (back as usize) >= count {
                continue;
            }
            let end = (inside + count * SLOT as usize).min(bytes.len());
            let covered = bytes[inside..end].iter().enumerate().filter(|(at, _)| !matches!(at, 2 | 3));
            let sum =
                covered.fold(0_u16, |sum, (_, byte)| sum.rotate_right(1).wrapping_add(u16::from(*byte)));
            bytes[inside + 2..inside + 4].copy_from_slice(&sum.to_le_bytes());
            device.write_at(start, &bytes).expect("a device in memory");
            return;
        }
    }
}
