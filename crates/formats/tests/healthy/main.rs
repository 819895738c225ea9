//! No false alarms: a check finds nothing on undamaged volumes, whatever program made and used them, and a repair of
//! one changes no byte.

mod kernel;
mod mounted;
mod mtools;
mod ours;
#[path = "../damage/tree.rs"]
#[allow(dead_code, reason = "the other test uses the rest")]
mod tree;

use platter_device::{Device, MemoryDevice, OverlayDevice, Sectors};
use platter_formats::by_name;
use platter_testing::model::{ImageFile, Random, judge::Programs, seed, told};
use platter_vfs::{CheckOptions, OpenOptions, Silent};
use std::sync::Arc;
use tree::Tree;

const PROGRAMS: Programs =
    Programs { from: "ntfs-3g, exfatprogs, exfat-fuse, dosfstools, mtools or mount", environment: &[] };

/// Makes a volume and uses it at random. Returns the volume's format and its device.
type Make = fn(&mut Random) -> (String, Arc<dyn Device>);

/// The programs that make volumes and use them.
const MAKERS: [(&str, Make); 10] = [
    ("mkntfs and ntfs-3g", mounted::ntfs),
    ("mkfs.exfat and exfat-fuse", mounted::exfat),
    ("mkfs.fat and mtools", mtools::fat),
    ("fat12", |random| ours::volume("fat12", random)),
    ("fat16", |random| ours::volume("fat16", random)),
    ("fat32", |random| ours::volume("fat32", random)),
    ("exfat", |random| ours::volume("exfat", random)),
    ("ntfs", |random| ours::volume("ntfs", random)),
    ("refs", |random| ours::volume("refs", random)),
    ("refs+integrity", |random| ours::volume("refs+integrity", random)),
];

/// Returns what a check, a repair or a reader finds wrong with an undamaged volume, if anything.
fn judge(format: &str, device: Arc<dyn Device>) -> Option<String> {
    let format = by_name(format).expect("a format of the list");
    for repair in [false, true] {
        let overlay = OverlayDevice::new(device.clone());
        match format.check(&overlay, CheckOptions { repair }, &Silent) {
            Ok(report) if report.found > 0 => return Some(told(&report)),
            Ok(_) if overlay.kept() > 0 => return Some(format!("with repair {repair} something is written")),
            Ok(_) => {}
            Err(error) => return Some(format!("it cannot be checked: {error}")),
        }
    }
    let options = OpenOptions { read_only: true, ..OpenOptions::default() };
    match format.open(device, options) {
        Ok(system) => {
            let faults = Tree::of(&*system).faults;
            (!faults.is_empty()).then(|| format!("it is not read: {:?}", &faults[..faults.len().min(3)]))
        }
        Err(error) => Some(format!("it does not open: {error}")),
    }
}

/// Judges `count` volumes of each maker. `PLATTER_MAKER` selects one maker, and `PLATTER_VOLUME` a single seed.
fn volumes(makers: &[(&str, Make)], count: u64) {
    let only = std::env::var("PLATTER_MAKER").ok();
    let one: Option<u64> = std::env::var("PLATTER_VOLUME").ok().map(|text| text.parse().expect("a number"));
    let first = seed() * 1_000_000;
    let seeds = one.map_or(first..first + count, |one| one..one + 1);
    let mut failures = Vec::new();
    for (maker, make) in makers.iter().filter(|(maker, _)| only.as_deref().is_none_or(|only| only == *maker))
    {
        for seed in seeds.clone() {
            let (format, device) = make(&mut Random::new(seed));
            let wrong = judge(&format, device);
            failures.extend(wrong.map(|wrong| format!("{maker}, seed {seed}, {format}:\n{wrong}")));
        }
        println!("{maker}: seeds {seeds:?}, {} failures so far", failures.len());
    }
    let shown = &failures[..failures.len().min(50)];
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), shown.join("\n"));
}

/// Returns a device in memory with the content of an image file.
fn device(image: &ImageFile) -> Arc<dyn Device> {
    Arc::new(MemoryDevice::from_image(&image.bytes(), Sectors::SMALL))
}

/// Returns a name that nothing else has: short, long, or with letters outside ASCII.
fn name(number: u64, random: &mut Random) -> String {
    match random.below(3) {
        0 => format!("F{number}.TXT"),
        1 => format!("a somewhat longer name {number}.text"),
        _ => format!("Ärger mit ß und € {number}"),
    }
}

#[test]
fn a_few_healthy_volumes_are_left_alone() {
    volumes(&MAKERS, 3);
}

/// `cargo test --release -p platterfs-formats --test healthy -- --ignored --nocapture two_thousand`, with `PLATTER_COUNT`
/// for another number of volumes of each maker.
#[test]
#[ignore = "a campaign: 200 volumes of each of ten makers"]
fn two_thousand_healthy_volumes_are_left_alone() {
    let count = std::env::var("PLATTER_COUNT").map_or(200, |text| text.parse().expect("a number"));
    volumes(&MAKERS, count);
}

/// `cargo test --release -p platterfs-formats --test healthy -- --ignored --nocapture linux`
#[test]
#[ignore = "a campaign: starts Linux twenty times"]
fn what_linux_used_is_left_alone() {
    let count = std::env::var("PLATTER_COUNT").map_or(20, |text| text.parse().expect("a number"));
    volumes(&[("Linux", kernel::volume)], count);
}
