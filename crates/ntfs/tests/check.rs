//! The check finds nothing on volumes that Windows and ntfs-3g wrote, but that one is marked as to be checked.

mod common;
mod filled;
mod judges;

use common::{USUAL, open};
use filled::filled;
use platter_device::{FileDevice, FileOptions, MemoryDevice, Sectors};
use platter_ntfs::check::check;
use platter_ntfs::layout::{
    Attribute, BootSector, Kind, Record, VolumeInformation, fixup, record_number, volume_flags,
};
use platter_vfs::{CheckOptions, CheckReport, Error, FileSystem, Node, Severity, Silent};
use std::sync::Arc;

fn told(report: &CheckReport) -> String {
    report.findings.iter().map(|finding| format!("  {:?} {finding}\n", finding.severity)).collect()
}

#[test]
fn what_windows_writes_is_clean() {
    let report = check(&judges::windows(), CheckOptions::default(), &Silent).unwrap();
    assert_eq!(report.found, 0, "{}", told(&report));
    assert_eq!((report.files, report.directories), (26, 10));
}

#[test]
fn what_ntfs_3g_writes_is_clean() {
    for cluster in [512, 4096, 65536] {
        let image = filled(96 << 20, cluster, 1500);
        let device = FileDevice::open(image.path(), FileOptions::default()).unwrap();
        let report = check(&device, CheckOptions::default(), &Silent).unwrap();
        assert_eq!(report.found, 0, "clusters of {cluster}:\n{}", told(&report));
        assert!(report.files > 1000 && report.directories > 12, "{report:?}");
    }
}

/// Marks the volume in an image as to be checked, in the record of `$Volume` and its copy.
fn mark(image: &mut [u8]) {
    let geometry = BootSector::from_bytes(image).unwrap().geometry(image.len() as u64).unwrap();
    for first in [geometry.mft, geometry.mirror] {
        let at = (first * geometry.cluster + record_number::VOLUME * u64::from(geometry.record)) as usize;
        let bytes = &mut image[at..at + geometry.record as usize];
        fixup::remove(bytes, "", 0).unwrap();
        let mut record = Record::from_bytes(bytes, 0).unwrap();
        let value = record.find(Kind::VOLUME_INFORMATION, "").and_then(Attribute::value).unwrap();
        let mut information = VolumeInformation::from_bytes(value, 0).unwrap();
        information.flags |= volume_flags::DIRTY;
        let marked = Attribute::resident(Kind::VOLUME_INFORMATION, information.to_bytes());
        record.attributes.retain(|attribute| attribute.kind != Kind::VOLUME_INFORMATION);
        record.add(marked);
        record.attributes.sort_by_key(|attribute| attribute.kind);
        bytes.copy_from_slice(&record.to_bytes(bytes.len()).unwrap());
        fixup::apply(bytes);
    }
}

/// Nobody writes to a volume that is marked as to be checked, so the mark is a finding, the only one, until a repair.
#[test]
fn the_mark_that_a_volume_is_to_be_checked_is_found_and_removed() {
    let mut image = USUAL.make().to_image();
    mark(&mut image);
    let device = Arc::new(MemoryDevice::from_image(&image, Sectors::SMALL));
    let system = open(device.clone());
    let refused = system.create(Node::ROOT, &"file".into(), platter_vfs::Kind::File);
    assert!(matches!(refused, Err(Error::ReadOnly(_))), "{refused:?}");
    drop(system);

    let only = |report: &CheckReport, repaired| {
        let found: Vec<_> =
            report.findings.iter().map(|found| (found.code, found.severity, found.repaired)).collect();
        assert_eq!(found, [("dirty", Severity::Inconsistent, repaired)], "{}", told(report));
    };
    let report = check(&*device, CheckOptions::default(), &Silent).unwrap();
    only(&report, false);
    assert_eq!(report.exit_code(), 4);
    assert!(device.to_image() == image, "a check writes nothing");
    let report = check(&*device, CheckOptions { repair: true }, &Silent).unwrap();
    only(&report, true);
    assert_eq!(report.exit_code(), 1);

    let report = check(&*device, CheckOptions::default(), &Silent).unwrap();
    assert_eq!(report.found, 0, "{}", told(&report));
    let system = open(device.clone());
    system.create(Node::ROOT, &"file".into(), platter_vfs::Kind::File).unwrap();
    system.unmount().unwrap();
}

/// A file of which the type of `$DATA` has one wrong bit gets its content back.
#[test]
fn a_wrong_bit_in_the_type_of_an_attribute_is_put_right() {
    let device = USUAL.make();
    let system = open(device.clone());
    let contents = [vec![7; 300], vec![8; 9000]];
    let files: Vec<Node> = contents
        .iter()
        .enumerate()
        .map(|(number, content)| {
            let name = format!("file {number}").as_str().into();
            let file = system.create(Node::ROOT, &name, platter_vfs::Kind::File).unwrap();
            system.write(file, 0, content).unwrap();
            file
        })
        .collect();
    drop(files);
    system.unmount().unwrap();
    drop(system);
    let image = device.to_image();
    let geometry = BootSector::from_bytes(&image).unwrap().geometry(image.len() as u64).unwrap();
    let number = |at: usize| usize::from(u16::from_le_bytes([image[at], image[at + 1]]));
    let places: Vec<usize> = (record_number::FIRST_FREE..40)
        .map(|record| (geometry.mft * geometry.cluster + record * u64::from(geometry.record)) as usize)
        .filter(|&record| image[record + 0x16] == 1)
        .filter_map(|record| {
            let mut at = record + number(record + 0x14);
            while image[at] != 0xFF && image[at..at + 4] != [0x80, 0, 0, 0] {
                at += number(at + 4);
            }
            (image[at] == 0x80).then_some(at)
        })
        .collect();
    assert_eq!(places.len(), contents.len());
    for (place, bit) in places.iter().flat_map(|place| (0..32).map(move |bit| (place, bit))) {
        let mut damaged = image.clone();
        damaged[place + bit / 8] ^= 1 << (bit % 8);
        let device = Arc::new(MemoryDevice::from_image(&damaged, Sectors::SMALL));
        let report = check(&*device, CheckOptions { repair: true }, &Silent).unwrap();
        assert!(report.findings.iter().any(|found| found.code == "attribute-type"), "{}", told(&report));
        let report = check(&*device, CheckOptions::default(), &Silent).unwrap();
        assert_eq!(report.found, 0, "bit {bit}: {}", told(&report));
        let system = open(device.clone());
        for (number, content) in contents.iter().enumerate() {
            let name = format!("file {number}").as_str().into();
            let file = system.lookup(Node::ROOT, &name).unwrap();
            let mut read = vec![0; content.len() + 1];
            let length = system.read(file, 0, &mut read).unwrap();
            assert!(read[..length] == content[..], "bit {bit} at {place:#x}: {name:?}");
        }
    }
}
