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
