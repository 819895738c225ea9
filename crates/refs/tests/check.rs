//! The check: what a sound volume looks like to it, what damage it finds, and what a repair leaves.

mod common;

use common::{VOLUMES, Volume, open};
use platter_device::{Device, MemoryDevice};
use platter_refs::Refs;
use platter_vfs::{CheckOptions, CheckReport, FileSystem, Format, Integrity, Kind, Name, Node, Silent};
use std::sync::Arc;

fn check(device: &dyn Device, repair: bool) -> CheckReport {
    Refs::ANY.check(device, CheckOptions { repair }, &Silent).unwrap()
}

fn told(report: &CheckReport) -> String {
    report.findings.iter().map(|finding| format!("  {finding}\n")).collect()
}

fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

fn file(volume: &impl FileSystem, directory: Node, name: &str, content: &[u8]) -> Node {
    let node = volume.create(directory, &Name::from(name), Kind::File).unwrap();
    volume.write(node, 0, content).unwrap();
    node
}

fn directory(volume: &impl FileSystem, above: Node, name: &str) -> Node {
    volume.create(above, &Name::from(name), Kind::Directory).unwrap()
}

/// A volume with everything that the format has.
fn populated(volume: &Volume) -> Arc<MemoryDevice> {
    let device = volume.make();
    populate(&open(device.clone()), volume.cluster);
    device
}

fn populate(volume: &impl FileSystem, cluster: u64) {
    let (root, unit) = (Node::ROOT, cluster as usize);
    file(volume, root, "empty", &[]);
    file(volume, root, "small", &bytes(1, 100));
    file(volume, root, "nearly outside", &bytes(2, 0x7FF));
    file(volume, root, "just outside", &bytes(3, 0x800));
    let large = file(volume, root, "large", &bytes(4, 40 * unit + 5));
    let sparse = file(volume, root, "sparse", &bytes(5, unit));
    volume.write(sparse, 100 * cluster, &bytes(6, 2 * unit)).unwrap();
    volume.punch(large, 3 * cluster..7 * cluster).unwrap();
    for (name, length) in [("short", 50), ("long", 3 * unit + 1), ("another", 2 * unit)] {
        let stream = volume.stream(large, &Name::from(name), true).unwrap();
        volume.write(stream, 0, &bytes(7, length)).unwrap();
    }
    volume.symlink(root, &Name::from("link"), "deep/er/and deeper").unwrap();
    let mut above = root;
    for name in ["deep", "er", "and deeper", "ÄÖÜ ß €", "the end"] {
        above = directory(volume, above, name);
        file(volume, above, "in it", &bytes(8, 3000));
    }
    volume.link(large, above, &Name::from("large too")).unwrap();
    volume.link(large, root, &Name::from("LARGE AGAIN")).unwrap();
    let small = volume.lookup(root, &Name::from("small")).unwrap();
    volume.link(small, above, &Name::from("small too")).unwrap();
    volume.set_extended_attribute(small, "user.color", Some(b"green")).unwrap();
    let many = directory(volume, root, "many");
    for index in 0..300 {
        let node =
            file(volume, many, &format!("file number {index:04}"), &bytes(index, 10 + 13 * index as usize));
        volume.forget(node, 1);
    }
    for index in (0..300).step_by(3) {
        volume.unlink(many, &Name::from(&*format!("file number {index:04}"))).unwrap();
    }
    let scattered = file(volume, root, "scattered", &[]);
    for index in 0..600 {
        volume.write(scattered, 2 * index * cluster, &bytes(index, unit)).unwrap();
    }
    let plain = file(volume, root, "checked later", &bytes(9, 20 * unit));
    volume.set_integrity(plain, Integrity { enabled: true, enforced: true }).unwrap();
    volume
        .rename(root, &Name::from("just outside"), above, &Name::from("moved"), Default::default())
        .unwrap();
    volume.unmount().unwrap();
}

#[test]
fn a_new_volume_is_clean() {
    for volume in VOLUMES {
        let report = check(&*volume.make(), false);
        assert_eq!(report.found, 0, "{volume:?}\n{}", told(&report));
    }
}

#[test]
fn a_populated_volume_is_clean() {
    for volume in VOLUMES {
        let device = populated(&volume);
        let report = check(&*device, false);
        assert_eq!(report.found, 0, "{volume:?}\n{}", told(&report));
    }
}
