//! What the tests share: a directory, numbers from a seed, and a disk in memory to compare with.

use platter_device::{Device, Error, FileOptions, Kind, Request, Segment};
use platter_images::{Container, MakeOptions};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A temporary directory, which is removed when the test ends.
pub(crate) struct Folder(pub PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("platter-images-{}-{number}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Runs a tool that must succeed; the test also fails if the tool is not installed.
    pub(crate) fn tool(&self, program: &str, arguments: &[&str]) -> String {
        let output = Command::new(program).args(arguments).current_dir(&self.0).output();
        let output = output.unwrap_or_else(|error| panic!("{program} is needed for this test: {error}"));
        assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Numbers that depend on a seed alone (splitmix64).
pub(crate) struct Random(pub u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length + 8);
        while bytes.len() < length {
            bytes.extend(self.next().to_le_bytes());
        }
        bytes.truncate(length);
        bytes
    }

    /// A range of whole sectors: mostly short, and sometimes over several blocks.
    pub(crate) fn range(&mut self, size: u64, sector: u64, most: u64) -> (u64, usize) {
        let sectors = size / sector;
        let start = self.below(sectors);
        let most = if self.below(8) == 0 { most / sector } else { 16 };
        let count = 1 + self.below(most.min(sectors - start));
        (start * sector, (count * sector) as usize)
    }
}

/// Opens an image for this process alone. A program that another test starts has all files of this process for a moment,
/// and with them their locks.
pub(crate) fn open(path: &Path, read_only: bool) -> Arc<dyn Device> {
    let options = FileOptions { read_only, exclusive: true, ..FileOptions::default() };
    for _ in 0..1000 {
        match platter_images::open(path, options) {
            Ok(image) => return image.device,
            Err(Error::Locked { .. }) => std::thread::sleep(std::time::Duration::from_millis(5)),
            Err(error) => panic!("{error}"),
        }
    }
    panic!("{} stays locked", path.display());
}

/// The error for an image that must not be opened.
pub(crate) fn refused(path: &Path) -> String {
    match platter_images::open(path, FileOptions { read_only: true, ..FileOptions::default() }) {
        Ok(_) => panic!("{} is opened", path.display()),
        Err(error) => error.to_string(),
    }
}

pub(crate) fn content(device: &dyn Device) -> Vec<u8> {
    let mut all = vec![0; device.len() as usize];
    device.read_at(0, &mut all).unwrap();
    all
}

/// Fails with the first offset at which two disks differ.
pub(crate) fn same(found: &[u8], expected: &[u8], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    if let Some(at) = (0..found.len()).find(|&at| found[at] != expected[at]) {
        panic!("{what}: differs at offset {at}: found {:#x}, expected {:#x}", found[at], expected[at]);
    }
}

/// A new image of a random kind, without a parent.
pub(crate) fn random_options(random: &mut Random) -> MakeOptions {
    let container = [Container::Vhdx, Container::Vhd, Container::Qcow2][random.below(3) as usize];
    let size = (1 + random.below(24 << 11)) << 9;
    let mut options = MakeOptions::new(container, size);
    options.is_fixed = container != Container::Qcow2 && random.below(4) == 0;
    match container {
        Container::Vhdx => {
            options.sector = [512, 4096][random.below(2) as usize];
            options.size = size.next_multiple_of(options.sector.into());
            options.block = Some(1 << 20 << random.below(4));
        }
        Container::Qcow2 => options.block = Some(512 << random.below(13)),
        _ => options.block = Some(512 << 10 << random.below(4)),
    }
    options
}

/// Uses a disk at random for so many operations, reopens its image now and then, and compares what it reads with the model.
pub(crate) fn use_on(
    random: &mut Random,
    mut device: Arc<dyn Device>,
    path: &Path,
    model: &mut [u8],
    operations: u64,
    what: &str,
) {
    for _ in 0..operations {
        match random.below(20) {
            0 => {
                drop(device);
                device = open(path, false);
            }
            1 => device.flush().unwrap(),
            2..8 => change(random, &*device, model),
            _ => compare(random, &*device, model, what),
        }
    }
}

/// One random change of a disk and of its model.
pub(crate) fn change(random: &mut Random, device: &dyn Device, model: &mut [u8]) {
    let sector = u64::from(device.sectors().logical);
    let (offset, length) = random.range(device.len(), sector, 5 << 20);
    let data = random.bytes(length);
    match random.below(4) {
        0 => through_queue(device, Kind::Write, offset, &data, random.below(2) == 0).map(drop),
        1 => {
            let (one, two) = data.split_at(length / 2 / sector as usize * sector as usize);
            device.write_batch(&[(offset, one), (offset + one.len() as u64, two)])
        }
        _ => device.write_at(offset, &data),
    }
    .unwrap();
    model[offset as usize..][..length].copy_from_slice(&data);
}

/// One random read, compared with the model.
pub(crate) fn compare(random: &mut Random, device: &dyn Device, model: &[u8], what: &str) {
    let sector = u64::from(device.sectors().logical);
    let (offset, length) = random.range(device.len(), sector, 5 << 20);
    let found = match random.below(3) {
        0 => through_queue(device, Kind::Read, offset, &vec![0xEE; length], false).unwrap(),
        1 => {
            let mut found = vec![0xEE; length];
            let (one, two) = found.split_at_mut(length / 2 / sector as usize * sector as usize);
            let second = offset + one.len() as u64;
            device.read_batch(&mut [(second, two), (offset, one)]).unwrap();
            found
        }
        _ => {
            let mut found = vec![0xEE; length];
            device.read_at(offset, &mut found).unwrap();
            found
        }
    };
    same(&found, &model[offset as usize..][..length], &format!("{what}: {length} bytes at {offset}"));
    // What is skipped as never written is zeroes.
    let next = device.next_data(offset).min(offset + length as u64);
    assert!(
        model[offset as usize..next as usize].iter().all(|&byte| byte == 0),
        "{what}: data before {next}"
    );
}

fn through_queue(
    device: &dyn Device,
    kind: Kind,
    offset: u64,
    data: &[u8],
    durable: bool,
) -> platter_device::Result<Vec<u8>> {
    let mut queue = device.queue(2)?;
    let length = data.len() as u32;
    let segments = [Segment { offset, at: 0, length }].into_iter().collect();
    queue.submit(Request { tag: 77, kind, durable, segments, buffer: data.into() });
    let mut done = Vec::new();
    queue.wait(1, &mut done)?;
    let done = done.remove(0);
    assert_eq!((done.tag, done.segments[0].offset), (77, offset));
    done.result?;
    Ok(done.buffer.to_vec())
}
