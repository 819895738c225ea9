//! The bodies of the fuzz targets for containers and dynamic disks, and containers on any device; for tests only.

mod hostile;

pub use hostile::{Changes, GoodFile};

use crate::bytes::unusable;
use crate::container::Container;
use crate::guid::Guid;
use crate::parent::{OpenParent, Opened, ParentLink, Source};
use crate::{evidence, ldm, qcow2, vhd, vhdx, vmdk};
use platter_device::{Device, Growing, MemoryDevice, Operation, Queue, Result, Sectors, check_transfer};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A device of which only the first bytes are there at first, as a file that becomes longer; for tests.
pub struct GrowingDevice {
    device: Arc<dyn Device>,
    length: AtomicU64,
}

impl GrowingDevice {
    /// The first `length` bytes of a device.
    pub fn new(device: Arc<dyn Device>, length: u64) -> GrowingDevice {
        GrowingDevice { device, length: AtomicU64::new(length) }
    }
}

impl Device for GrowingDevice {
    fn name(&self) -> &str {
        self.device.name()
    }

    fn len(&self) -> u64 {
        self.length.load(Ordering::Acquire)
    }

    fn sectors(&self) -> Sectors {
        self.device.sectors()
    }

    fn below(&self) -> Option<&dyn Device> {
        Some(&*self.device)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        check_transfer(self, Operation::Read, offset, buffer.len() as u64)?;
        self.device.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        check_transfer(self, Operation::Write, offset, data.len() as u64)?;
        self.device.write_at(offset, data)
    }

    fn flush(&self) -> Result<()> {
        self.device.flush()
    }

    fn discard(&self, _offset: u64, _length: u64) -> Result<()> {
        Ok(())
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue + '_>> {
        self.device.queue(depth)
    }
}

impl Growing for GrowingDevice {
    fn grow(&self, length: u64) -> Result<()> {
        let before = self.len();
        if length < before || length > self.device.len() {
            return Err(unusable(self.name(), format!("cannot be made {length} bytes long")));
        }
        // What a file gets at its end is zeroes, whatever was there before a power cut.
        let zeroes = vec![0; 1 << 20];
        let mut at = before;
        while at < length {
            let part = (zeroes.len() as u64).min(length - at);
            let mut old = vec![0; part as usize];
            self.device.read_at(at, &mut old)?;
            if old.iter().any(|&byte| byte != 0) {
                self.device.write_at(at, &zeroes[..part as usize])?;
            }
            at += part;
        }
        self.length.store(length, Ordering::Release);
        Ok(())
    }
}

/// Opens a container without a parent on any device; for tests.
///
/// # Errors
/// As [`crate::open`].
pub fn open_on(file: Arc<dyn Growing>, container: Container, read_only: bool) -> Result<Arc<dyn Device>> {
    open_with(file, container, read_only, &|_| Err(unusable("the parent", "is not there")))
}

fn open_with(
    file: Arc<dyn Growing>,
    container: Container,
    read_only: bool,
    parent: &OpenParent<'_>,
) -> Result<Arc<dyn Device>> {
    let source = Source { file, read_only };
    let opened = match container {
        Container::Vhdx => vhdx::open(source, parent),
        Container::Vhd => vhd::open(source, parent),
        Container::Qcow2 => qcow2::open(source, parent),
        Container::Vmdk => return vmdk::open_single(source.file),
        Container::E01 => {
            let file: Arc<dyn Device> = source.file;
            return Ok(evidence::open(Box::new(move |_| Ok(file.clone())))?.device);
        }
    };
    Ok(opened?.device)
}

/// Makes a container on a device that is blank; for tests.
///
/// # Errors
/// As [`crate::make`].
pub fn make_on(file: &dyn Growing, options: &crate::MakeOptions) -> Result<()> {
    crate::make::make_on(file, std::path::Path::new("image"), options)
}

/// Treats the bytes as a file with a VHDX or VHD: see [`image`]. The first byte is the kind.
pub fn container(bytes: &[u8]) {
    let Some((kind, _)) = bytes.split_first() else { return };
    image(if kind & 1 == 0 { Container::Vhdx } else { Container::Vhd }, bytes);
}

/// Treats the bytes as a file with a container: opens it, reads from places all over its disk, and writes to some.
///
/// The inputs are short: of the first byte a bit says whether checksums are made right, and then come pieces, each with its offset in units of 512 bytes (4
/// bytes) and its length (2 bytes), little-endian, which are put on a file of 12 MiB.
pub fn image(container: Container, bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else { return };
    let memory = placed(rest, 4 * LENGTH);
    if kind & 2 != 0 {
        mend(&*memory, container);
    }
    // A parent that has whatever its child asks for.
    let parent = |_: &ParentLink| {
        let device: Arc<dyn Device> = Arc::new(MemoryDevice::new(1 << 20, Sectors::SMALL));
        Ok(Opened {
            device,
            identity: Some(Guid::ZERO),
            kind: String::new(),
            container: None,
            hashes: Vec::new(),
        })
    };
    // Any result is right as long as nothing panics.
    for read_only in [true, false] {
        let file = Arc::new(GrowingDevice::new(memory.clone(), LENGTH));
        let Ok(device) = open_with(file, container, read_only, &parent) else { continue };
        let sector = u64::from(device.sectors().logical);
        let mut buffer = vec![0; 4096];
        for part in 0..16 {
            let offset = (device.len() / 16 * part).min(device.len().saturating_sub(4096)) / sector * sector;
            let buffer = &mut buffer[..4096.min(device.len()) as usize / sector as usize * sector as usize];
            let _ = device.read_at(offset, buffer);
            if !read_only && part % 5 == 0 {
                let _ = device.write_at(offset, buffer);
            }
        }
        let _ = device.next_data(device.len() / 2);
        let _ = device.flush();
    }
}

/// Puts right the checksums of the headers of a dynamic disk.
pub fn mend_dynamic_disk(disk: &dyn Device) {
    ldm::mend(disk);
}

/// Treats the bytes, which are as those of [`image`], as a disk: opens the group that it is of if it is a dynamic disk, and reads
/// its volumes.
pub fn disk_group(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else { return };
    let memory = placed(rest, LENGTH);
    if kind & 2 != 0 {
        ldm::mend(&*memory);
    }
    let Ok(group) = ldm::disk_group(vec![memory]) else { return };
    let mut buffer = vec![0; 4096];
    // Without a number, and with those of the first volumes.
    for number in [None].into_iter().chain((0..8).map(Some)) {
        let Ok(volume) = group.open(number) else { continue };
        for part in 0..16 {
            let offset = (volume.len() / 16 * part).min(volume.len().saturating_sub(4096)) / 512 * 512;
            let _ = volume.read_at(offset, &mut buffer);
        }
    }
}

/// The length of the file or disk that the bytes of an input are put on.
const LENGTH: u64 = 12 << 20;

/// Puts the pieces of an input on a new device of this size: see [`image`].
fn placed(mut rest: &[u8], size: u64) -> Arc<MemoryDevice> {
    let memory = Arc::new(MemoryDevice::new(size, Sectors::SMALL));
    while let [a, b, c, d, e, f, behind @ ..] = rest {
        let offset = u64::from(u32::from_le_bytes([*a, *b, *c, *d])) * 512 % LENGTH;
        let length = usize::from(u16::from_le_bytes([*e, *f])).min(behind.len());
        let mut piece = behind[..length].to_vec();
        piece.resize(length.next_multiple_of(512), 0);
        piece.truncate(((LENGTH - offset) as usize).min(piece.len()));
        if !piece.is_empty() {
            let _ = memory.write_at(offset, &piece);
        }
        rest = &behind[length..];
    }
    memory
}

/// Puts right the checksums of the structures, which no fuzzer guesses.
pub fn mend(file: &dyn Device, container: Container) {
    match container {
        Container::Vhdx => vhdx::mend(file),
        Container::Vhd => vhd::mend(file),
        Container::E01 => evidence::mend(file),
        // They have no checksums.
        Container::Qcow2 | Container::Vmdk => {}
    }
}
