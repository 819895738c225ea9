//! Power cuts at every write under a container: what was flushed is there.

use crate::common::{Folder, Random, content, same};
use platter_device::{
    Device, Faults, Grain, Growing, MemoryDevice, OverlayDevice, Queue, Result, Sectors, Survivors,
};
use platter_images::fuzzing::{GrowingDevice, make_on, open_on};
use platter_images::{Container, MakeOptions};
use std::sync::{Arc, Mutex};

const ROOM: u64 = 24 << 20;

/// What the disk holds at least after a cut.
struct Flushed {
    /// The number of writes below when the flush had ended.
    writes: usize,
    model: Vec<u8>,
}

/// A file whose power fails: it notes how long it was at each flush.
struct File {
    faults: Arc<Faults>,
    growing: GrowingDevice,
    /// The number of writes before each flush, and the length of the file then.
    lengths: Mutex<Vec<(usize, u64)>>,
}

impl Device for File {
    fn name(&self) -> &str {
        "file"
    }

    fn len(&self) -> u64 {
        self.growing.len()
    }

    fn sectors(&self) -> Sectors {
        self.growing.sectors()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.growing.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.growing.write_at(offset, data)
    }

    fn flush(&self) -> Result<()> {
        self.lengths.lock().unwrap().push((self.faults.log().writes(), self.len()));
        self.growing.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        self.growing.discard(offset, length)
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue + '_>> {
        self.growing.queue(depth)
    }
}

impl Growing for File {
    fn grow(&self, length: u64) -> Result<()> {
        self.growing.grow(length)
    }
}

fn run(seed: u64, options: &MakeOptions, step: usize) {
    let mut random = Random(seed);
    let sector = options.sector as usize;
    let blank = Arc::new(MemoryDevice::new(ROOM, Sectors::SMALL));
    let file = GrowingDevice::new(blank.clone(), 0);
    make_on(&file, options).unwrap();
    let length = file.len();
    let faults = Arc::new(Faults::recording(blank, seed, Grain::Logical));
    let growing = GrowingDevice::new(faults.clone(), length);
    let growing = Arc::new(File { faults: faults.clone(), growing, lengths: Mutex::new(vec![(0, length)]) });
    let device = open_on(growing.clone(), options.container, false).unwrap();
    let mut model = vec![0; options.size as usize];
    // All contents that a sector ever had, the last one last.
    let mut history: Vec<(usize, usize, Vec<u8>)> = Vec::new();
    let mut flushes = vec![Flushed { writes: 0, model: model.clone() }];
    for number in 0..28 {
        let start = random.below(options.size / sector as u64) as usize * sector;
        let length = (sector * (1 + random.below(6) as usize)).min(options.size as usize - start);
        let data = random.bytes(length);
        let before = faults.log().writes();
        device.write_at(start as u64, &data).unwrap();
        history.push((before, start, data.clone()));
        model[start..start + length].copy_from_slice(&data);
        if number % 5 == 4 {
            device.flush().unwrap();
            flushes.push(Flushed { writes: faults.log().writes(), model: model.clone() });
        }
    }
    device.flush().unwrap();
    drop(device);
    let last = growing.len();
    flushes.push(Flushed { writes: faults.log().writes(), model });
    let lengths = growing.lengths.lock().unwrap().clone();
    let log = faults.log();
    let folder = Folder::new("power");
    for cut in (0..=log.writes()).step_by(step) {
        let flushed = flushes.iter().rev().find(|flushed| flushed.writes <= cut).unwrap();
        for (number, survivors) in
            [Survivors::None, Survivors::All, Survivors::Random(cut as u64), Survivors::First(1)]
                .into_iter()
                .enumerate()
        {
            let what = format!("seed {seed}, {:?}, cut {cut}, {survivors:?}", options.container);
            let left: Arc<OverlayDevice> = Arc::new(log.cut(cut, survivors));
            // The file may have any length between that of the last flush and the longest.
            let durable = lengths.iter().rev().find(|(writes, _)| *writes <= cut).unwrap().1;
            let length = [durable, last, last, durable][number];
            match options.container {
                Container::Vhdx if cut % 7 == 0 && options.sector == 512 => by_qemu(&folder, &left, length),
                Container::Qcow2 if cut % 7 == 0 => qcow2_by_qemu(&folder, &left, length, &what),
                _ => {}
            }
            for read_only in [true, false] {
                let file: Arc<dyn Growing> = Arc::new(GrowingDevice::new(left.clone(), length));
                let device = open_on(file, options.container, read_only)
                    .unwrap_or_else(|error| panic!("{what}: {error}"));
                let found = content(&*device);
                check(&found, flushed, &history, cut, &what);
                if !read_only {
                    // It goes on: a further write does not disturb the rest.
                    device.write_at(0, &vec![0xA5; sector]).unwrap();
                    device.flush().unwrap();
                    let mut expected = found;
                    expected[..sector].fill(0xA5);
                    same(&content(&*device), &expected, &what);
                }
            }
        }
    }
}

/// Each sector of the device below holds what was flushed or what was written to it since.
fn check(found: &[u8], flushed: &Flushed, history: &[(usize, usize, Vec<u8>)], cut: usize, what: &str) {
    for (number, piece) in found.chunks_exact(512).enumerate() {
        let at = number * 512;
        if piece == &flushed.model[at..at + 512] {
            continue;
        }
        let explains = |(before, start, data): &(usize, usize, Vec<u8>)| {
            (flushed.writes..=cut).contains(before)
                && (*start..start + data.len()).contains(&at)
                && piece == &data[at - start..][..512]
        };
        assert!(history.iter().any(explains), "{what}: the sector at {at} holds what nobody wrote there");
    }
}

/// qemu-img finds no damage, after it has replayed the log.
fn by_qemu(folder: &Folder, left: &OverlayDevice, length: u64) {
    let mut image = left.to_image().unwrap();
    image.truncate(length as usize);
    std::fs::write(folder.path("cut.vhdx"), image).unwrap();
    folder.tool("qemu-img", &["check", "-q", "-r", "all", "-f", "vhdx", "cut.vhdx"]);
    folder.tool("qemu-img", &["check", "-q", "-f", "vhdx", "cut.vhdx"]);
}

/// qemu-img finds no damage; clusters to which nothing leads may be left.
fn qcow2_by_qemu(folder: &Folder, left: &OverlayDevice, length: u64, what: &str) {
    let mut image = left.to_image().unwrap();
    image.truncate(length as usize);
    std::fs::write(folder.path("cut.qcow2"), image).unwrap();
    let mut check = std::process::Command::new("qemu-img");
    let check = check.args(["check", "-f", "qcow2", "cut.qcow2"]).current_dir(&folder.0).output().unwrap();
    assert!([Some(0), Some(3)].contains(&check.status.code()), "{what}: {check:?}");
}

fn options(container: Container, sector: u32) -> MakeOptions {
    MakeOptions { block: Some(1 << 20), sector, ..MakeOptions::new(container, 5 << 20) }
}

#[test]
fn a_vhdx_loses_nothing_flushed() {
    run(1, &options(Container::Vhdx, 512), 2);
    run(2, &options(Container::Vhdx, 4096), 4);
}

#[test]
fn a_vhd_loses_nothing_flushed() {
    run(3, &options(Container::Vhd, 512), 3);
}

#[test]
fn a_qcow2_loses_nothing_flushed() {
    for (seed, cluster) in [(4, 64 << 10), (5, 4096), (6, 512)] {
        let options = MakeOptions { block: Some(cluster), ..MakeOptions::new(Container::Qcow2, 5 << 20) };
        run(seed, &options, 3);
    }
}

#[test]
#[ignore = "a campaign"]
fn campaign_of_power_cuts() {
    let seed = std::env::var("PLATTER_SEED").map_or(1 << 20, |seed| seed.parse().unwrap());
    for seed in seed..seed + 20 {
        println!("PLATTER_SEED={seed}");
        run(seed, &options(Container::Vhdx, [512, 4096][seed as usize % 2]), 1);
        run(seed, &options(Container::Vhd, 512), 1);
        let block = Some(512 << (seed % 9));
        run(seed, &MakeOptions { block, ..MakeOptions::new(Container::Qcow2, 5 << 20) }, 1);
    }
}
