//! Volumes whose device ends before they do: the check reads what is there, and names what is not.

use crate::common::{USUAL, Volume, open};
use platter_device::{Device, MemoryDevice, Partition, Sectors};
use platter_ntfs::{Ntfs, NtfsVolume};
use platter_testing::model::Random;
use platter_vfs::{
    CheckOptions, CheckReport, Error, Extent, FileSystem, Format, Kind, Names, Node, OpenOptions, Place,
    Severity, Silent,
};
use std::collections::BTreeSet;
use std::sync::Arc;

const FILES: u64 = 40;

fn check(device: &dyn Device) -> CheckReport {
    Ntfs.check(device, CheckOptions::default(), &Silent).unwrap_or_else(|error| panic!("{error}"))
}

/// A device with the beginning of an image, shown as long as the volume on it.
fn cut(image: &[u8], end: usize) -> Arc<dyn Device> {
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::from_image(&image[..end], Sectors::SMALL));
    let recognised = Ntfs.recognise(&*device).unwrap().expect("it is recognised");
    let length = recognised.cut_off.expect("it is known to be cut off");
    Arc::new(Partition::reaching(device, 0, length, "cut".into()).unwrap())
}

/// The volume, with files of all sizes that take most of it.
fn filled(volume: &Volume) -> Vec<u8> {
    let device = volume.make();
    let system = open(device.clone());
    let mut random = Random::new(8664);
    let directory = system.create(Node::ROOT, &"d".into(), Kind::Directory).unwrap();
    for number in 0..FILES {
        let length = random.below(if number % 2 == 0 { 2_000 } else { volume.bytes / FILES * 2 });
        let mut bytes = vec![0; length as usize];
        random.fill(&mut bytes);
        let file = system.create(directory, &(&*format!("{number}")).into(), Kind::File).unwrap();
        system.write(file, 0, &bytes).unwrap();
        // Names that take more records, and so are spread over the volume.
        for other in 0..40 {
            system.create(directory, &(&*format!("{number} {other}")).into(), Kind::File).unwrap();
        }
    }
    system.unmount().unwrap();
    device.to_image()
}

/// Whether a file can be read from beginning to end.
fn is_whole(system: &NtfsVolume, path: &str) -> bool {
    let read = || -> Result<(), Error> {
        let directory = system.lookup(Node::ROOT, &"d".into())?;
        let node = system.lookup(directory, &path.into())?;
        let mut bytes = vec![0; system.attributes(node)?.size as usize];
        system.read(node, 0, &mut bytes).map(drop)
    };
    read().is_ok()
}

#[test]
fn what_lies_behind_the_end_of_the_device_is_named() {
    for volume in [USUAL, Volume { cluster: 512, bytes: 24 << 20, ..USUAL }] {
        let image = filled(&volume);
        let (mut random, mut named) = (Random::new(64), 0);
        for _ in 0..25 {
            // The first records must be there; where the rest of `$MFT` is depends on the volume.
            let least = volume.bytes / 20;
            let end = (least + random.below(volume.bytes - 8192 - least)) / 512 * 512;
            let device = cut(&image, end as usize);
            let report = check(&*device);
            let first = &report.findings[0];
            assert_eq!((first.code, first.severity, &first.path), ("cut-off", Severity::DataLoss, &None));
            assert!(first.message.contains("bytes before the volume"), "{first}");
            assert_eq!(report.exit_code(), 4);
            let codes: BTreeSet<&str> = report.findings.iter().map(|finding| finding.code).collect();
            let is_told = |name: &str| {
                let path = format!("/d/{name}");
                report.findings.iter().any(|finding| {
                    let is_its = finding.path.as_deref() == Some(&*path)
                        || finding.message.contains(&format!("name \"{name}\""));
                    is_its && finding.code == "cut-off"
                })
            };
            let is_index_whole = !report
                .findings
                .iter()
                .any(|finding| finding.code == "cut-off" && finding.message.contains("INDEX_ALLOCATION"));
            let Ok(system) = NtfsVolume::open(device.clone(), OpenOptions::default()) else { continue };
            for name in (0..FILES).map(|number| number.to_string()) {
                let (is_whole, is_told) = (is_whole(&system, &name), is_told(&name));
                named += u64::from(is_told);
                // If a part of the directory is missing, no name leads to some files that are there.
                let is_right = if is_index_whole { is_whole != is_told } else { !(is_whole && is_told) };
                assert!(is_right, "cut at {end}: {name}: {:#?}", report.findings);
            }
            // Nothing else is wrong with the volume, and a repair is refused.
            assert_eq!(codes, BTreeSet::from(["cut-off"]), "cut at {end}: {:#?}", report.findings);
            let refused = Ntfs.check(&*device, CheckOptions { repair: true }, &Silent);
            assert!(matches!(&refused, Err(Error::ReadOnly(why)) if why.contains("bytes before the volume")));
        }
        assert!(named > 20, "{named}");
    }
}

/// Files whose records lie behind the end are named by their directory.
#[test]
fn names_without_a_record_are_named() {
    let device = USUAL.make();
    let system = open(device.clone());
    let directory = system.create(Node::ROOT, &"d".into(), Kind::Directory).unwrap();
    // The volume is full but for its end, where `$MFT` grows then.
    let large = system.create(Node::ROOT, &"large".into(), Kind::File).unwrap();
    let mut size = 0;
    while system.write(large, size, &[7; 128 << 10]).is_ok() {
        size += 128 << 10;
    }
    let place = |extent: &Extent| if let Place::Device(at) = extent.place { at + extent.length } else { 0 };
    let last = system.extents(large).unwrap().into_iter().max_by_key(place).unwrap();
    let end = last.offset + last.length;
    system.punch(large, end - (2 << 20)..end).unwrap();
    for number in 0..800 {
        let file = system.create(directory, &(&*format!("{number}")).into(), Kind::File).unwrap();
        system.forget(file, 1);
    }
    system.unmount().unwrap();
    let image = device.to_image();
    let mut most = 0;
    for end in (image.len() / 2..image.len() - 8192).step_by(256 << 10) {
        let report = check(&*cut(&image, end));
        assert!(report.findings.iter().all(|one| one.code == "cut-off"), "{end}: {:#?}", report.findings);
        let without_record = report.findings.iter().filter(|one| one.message.contains("its record")).count();
        assert!(without_record < 800, "{end}");
        most = most.max(without_record);
    }
    assert!(most > 100, "{most}");
}

/// A surface check of what is there takes nothing behind the end for a bad cluster.
#[test]
fn the_surface_ends_where_the_device_does() {
    let image = filled(&USUAL);
    let device = cut(&image, 20 << 20);
    let report = Ntfs.check_surface(&*device, CheckOptions::default(), &Silent).unwrap();
    assert!(report.findings.iter().all(|finding| finding.code == "cut-off"), "{:#?}", report.findings);
}
