//! VHDX whose log is to be replayed, since the power was cut: what is read is what qemu-img reads, and they are used on.

use crate::common::{Folder, Random, change, content, open, same, use_on};
use platter_device::{Device, Faults, Grain, MemoryDevice, Sectors, Survivors};
use platter_images::fuzzing::{GrowingDevice, make_on, open_on};
use platter_images::{Container, MakeOptions};
use std::fs;
use std::sync::Arc;

/// Whether the newer header names a log ([MS-VHDX] 2.2.2).
fn is_dirty(image: &[u8]) -> bool {
    let header = |at: usize| &image[at..at + 4096];
    let sequence = |header: &[u8]| u64::from_le_bytes(header[8..16].try_into().unwrap());
    let newer = [64 << 10, 128 << 10].map(header).into_iter().max_by_key(|header| sequence(header)).unwrap();
    newer[48..64] != [0; 16]
}

/// The content of a file that is a VHDX whose log is to be replayed: one that was changed at random until the power was cut.
fn cut_off(random: &mut Random) -> Vec<u8> {
    let options = MakeOptions { block: Some(1 << 20), ..MakeOptions::new(Container::Vhdx, 9 << 20) };
    let blank = Arc::new(MemoryDevice::new(24 << 20, Sectors::SMALL));
    let file = GrowingDevice::new(blank.clone(), 0);
    make_on(&file, &options).unwrap();
    let faults = Arc::new(Faults::recording(blank, random.next(), Grain::Logical));
    let growing = Arc::new(GrowingDevice::new(faults.clone(), file.len()));
    let device = open_on(growing.clone(), options.container, false).unwrap();
    let mut model = vec![0; options.size as usize];
    for number in 0..20 {
        change(random, &*device, &mut model);
        if number % 4 == 3 {
            device.flush().unwrap();
        }
    }
    drop(device);
    let log = faults.log();
    let first = random.below(log.writes() as u64) as usize;
    for cut in (first..=log.writes()).chain(0..first) {
        let mut image = log.cut(cut, Survivors::All).to_image().unwrap();
        image.truncate(growing.len() as usize);
        if is_dirty(&image) {
            return image;
        }
    }
    panic!("a VHDX is changed through its log")
}

/// The disk as qemu-img reads it.
fn theirs(folder: &Folder, name: &str) -> Vec<u8> {
    folder.tool("qemu-img", &["check", "-q", "-f", "vhdx", name]);
    folder.tool("qemu-img", &["convert", "-f", "vhdx", "-O", "raw", name, "theirs.raw"]);
    fs::read(folder.path("theirs.raw")).unwrap()
}

fn run(seed: u64, operations: u64) {
    let what = format!("seed {seed}");
    let mut random = Random(seed);
    let folder = Folder::new("dirty");
    let (path, image) = (folder.path("disk.vhdx"), cut_off(&mut random));
    fs::write(&path, &image).unwrap();
    fs::write(folder.path("theirs.vhdx"), &image).unwrap();
    let mut model = content(&*open(&path, true));
    assert!(fs::read(&path).unwrap() == image, "{what}: reading changes no file");
    folder.tool("qemu-img", &["check", "-q", "-r", "all", "-f", "vhdx", "theirs.vhdx"]);
    same(&model, &theirs(&folder, "theirs.vhdx"), &what);
    let device = open(&path, false);
    same(&content(&*device), &model, &what);
    use_on(&mut random, device, &path, &mut model, operations, &what);
    assert!(!is_dirty(&fs::read(&path).unwrap()), "{what}: closed, it has no log");
    same(&content(&*open(&path, true)), &model, &what);
    same(&theirs(&folder, "disk.vhdx"), &model, &what);
}

#[test]
fn a_vhdx_with_a_log_is_read_and_used_on() {
    (0..3).for_each(|seed| run(seed, 60));
}

#[test]
#[ignore = "a campaign"]
fn campaign_of_logs_to_replay() {
    let seed = std::env::var("PLATTER_SEED").map_or(1 << 20, |seed| seed.parse().unwrap());
    for seed in seed..seed + 10 {
        println!("PLATTER_SEED={seed}");
        run(seed, 10_000);
    }
}
