//! Power cuts at writes under a container with a volume in it: what was synced is there, and both are whole.

use crate::common::Place;
use platter::{Access, OpenOptions, Silent};
use platter_device::{Device, Faults, Grain, Growing, MemoryDevice, OverlayDevice, Sectors, Survivors};
use platter_images::fuzzing::{GrowingDevice, make_on, open_on};
use platter_images::{Container, MakeOptions};
use platter_vfs::FormatOptions;
use std::fs;
use std::sync::Arc;

/// The size of the disk, and of the file that it may fill.
fn sizes(format: &str) -> (u64, u64) {
    if format == "refs" { (384 << 20, 128 << 20) } else { (32 << 20, 48 << 20) }
}

/// The content of the file with this number.
fn content(number: usize) -> Vec<u8> {
    (0..number * 5000 + 300).map(|at| (at * 7 + number * 31) as u8).collect()
}

/// Cuts the power at each `step`th write, and asks qemu-img and `check` at each `sample`th of these cuts.
fn run(format: &str, container: Container, seed: u64, step: usize, sample: usize) {
    let (size, room) = sizes(format);
    let blank = Arc::new(MemoryDevice::new(room, Sectors::SMALL));
    let file = Arc::new(GrowingDevice::new(blank.clone(), 0));
    make_on(&*file, &MakeOptions { block: Some(1 << 20), ..MakeOptions::new(container, size) }).unwrap();
    let disk = open_on(file.clone(), container, false).unwrap();
    let format = platter_formats::by_name(format).unwrap();
    format.make(&*disk, &FormatOptions::default(), &Silent).unwrap();
    disk.flush().unwrap();
    drop(disk);
    let faults = Arc::new(Faults::recording(blank, seed, Grain::Logical));
    let growing = Arc::new(GrowingDevice::new(faults.clone(), file.len()));
    let disk = open_on(growing.clone(), container, false).unwrap();
    let writing = OpenOptions::new().access(Access::Write { force: false });
    let volume = writing.open_on(disk, "disk").unwrap();
    // The number of writes below when each sync had ended.
    let mut synced = Vec::new();
    for number in 0..8 {
        volume.write(format!("file{number}"), &content(number)).unwrap();
        volume.system().sync_all().unwrap();
        synced.push(faults.log().writes());
    }
    drop(volume);
    let (log, length) = (faults.log(), growing.len());
    let place = Place::new("image-power");
    for (turn, cut) in (0..=log.writes()).step_by(step).enumerate() {
        let survivors = [Survivors::None, Survivors::All, Survivors::Random(cut as u64)][turn % 3];
        let what = format!("{container:?} with {}, seed {seed}, cut {cut}, {survivors:?}", format.name());
        let left: Arc<OverlayDevice> = Arc::new(log.cut(cut, survivors));
        if turn % sample == 0 {
            judge(&place, container, &left, length);
        }
        let file: Arc<dyn Growing> = Arc::new(GrowingDevice::new(left, length));
        let disk: Arc<dyn Device> = open_on(file, container, false).unwrap();
        let volume = writing.clone().open_on(disk, "disk").unwrap_or_else(|error| panic!("{what}: {error}"));
        for number in (0..synced.len()).filter(|&number| synced[number] <= cut) {
            let found = volume.read(format!("file{number}"));
            assert!(found.is_ok_and(|found| found == content(number)), "{what}: file{number}");
        }
        // It goes on.
        volume.write("later", b"later").unwrap();
    }
}

/// qemu-img finds no damage after it has replayed a VHDX's log, and `check` finds none in the volume.
fn judge(place: &Place, container: Container, left: &OverlayDevice, length: u64) {
    let (name, kind) = match container {
        Container::Vhdx => ("cut.vhdx", "vhdx"),
        Container::Qcow2 => ("cut.qcow2", "qcow2"),
        _ => ("cut.vhd", "vpc"),
    };
    let mut image = left.to_image().unwrap();
    image.truncate(length as usize);
    fs::write(place.path(name), image).unwrap();
    place.works(&format!("check {name}"));
    match container {
        Container::Vhdx => {
            place.tool("qemu-img", &["check", "-q", "-r", "all", "-f", kind, name]);
            place.tool("qemu-img", &["check", "-q", "-f", kind, name]);
        }
        Container::Qcow2 => {
            let check = place.command("qemu-img", &["check", "-f", kind, name]).output().unwrap();
            // Clusters to which nothing leads may be left, which is code 3.
            assert!([Some(0), Some(3)].contains(&check.status.code()), "{check:?}");
        }
        // qemu-img has no check of a VHD: it reads all of it.
        _ => {
            place.tool("qemu-img", &["convert", "-f", kind, "-O", "raw", name, "cut.raw"]);
        }
    }
    place.works(&format!("check {name}"));
}

#[test]
fn a_volume_in_a_container_loses_nothing_synced() {
    for (seed, container) in (1..).zip([Container::Vhdx, Container::Vhd, Container::Qcow2]) {
        run("ntfs", container, seed, 7, 5);
    }
}

#[test]
#[ignore = "a campaign"]
fn campaign_of_power_cuts_under_volumes_in_containers() {
    let seed = std::env::var("PLATTER_SEED").map_or(1 << 20, |seed| seed.parse().unwrap());
    let count = std::env::var("PLATTER_ROUNDS").map_or(10, |count| count.parse().unwrap());
    for seed in seed..seed + count {
        println!("PLATTER_SEED={seed}");
        for container in [Container::Vhdx, Container::Vhd, Container::Qcow2] {
            run("ntfs", container, seed, 1, 1);
            run("refs", container, seed, 1, 8);
        }
    }
}
