//! The check finds nothing on volumes that Windows and ntfs-3g wrote, but that one is marked as to be checked.

use crate::common::{USUAL, Volume, names, open};
use crate::filled::filled;
use crate::judges;
use platter_device::{FileDevice, FileOptions, MemoryDevice, Sectors};
use platter_ntfs::check::check;
use platter_ntfs::layout::{
    Attribute, BootSector, DescriptorHeader, Kind, Record, VolumeInformation, fixup, record_number,
    volume_flags,
};
use platter_vfs::{CheckOptions, CheckReport, Error, FileSystem, Name, Names, Node, Severity, Silent};
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

/// A volume with two files, one of them with its content in its record; the contents, and where each `$DATA` stands.
fn two_files() -> (Vec<u8>, [Vec<u8>; 2], Vec<usize>) {
    let device = USUAL.make();
    let system = open(device.clone());
    let contents = [vec![7; 300], vec![8; 9000]];
    for (number, content) in contents.iter().enumerate() {
        let file = system.create(Node::ROOT, &numbered(number), platter_vfs::Kind::File).unwrap();
        system.write(file, 0, content).unwrap();
    }
    system.unmount().unwrap();
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
    (image, contents, places)
}

fn numbered(number: usize) -> Name {
    Name::from(format!("file {number}").as_str())
}

/// Inverts a bit of an image, and repairs it: the finding is made, and then the volume is clean.
fn repaired(image: &[u8], place: usize, bit: usize, code: &str) -> Arc<MemoryDevice> {
    let mut damaged = image.to_vec();
    damaged[place + bit / 8] ^= 1 << (bit % 8);
    let device = Arc::new(MemoryDevice::from_image(&damaged, Sectors::SMALL));
    let report = check(&*device, CheckOptions { repair: true }, &Silent).unwrap();
    assert!(
        report.findings.iter().any(|found| found.code == code),
        "bit {bit} at {place:#x}:\n{}",
        told(&report)
    );
    let report = check(&*device, CheckOptions::default(), &Silent).unwrap();
    assert_eq!(report.found, 0, "bit {bit} at {place:#x}:\n{}", told(&report));
    device
}

/// A file gets its content back if `$DATA` has one wrong bit in its type, in the byte that says whether it is resident,
/// or in the flag that it is encrypted.
#[test]
fn a_wrong_bit_in_the_header_of_data_is_put_right() {
    let (image, contents, places) = two_files();
    let type_bits = (0..32).map(|bit| (bit, "attribute-type"));
    let residency_bits = (8 * 8 + 1..9 * 8).map(|bit| (bit, "record"));
    let bits = type_bits.chain(residency_bits).chain([(12 * 8 + 14, "encrypted")]);
    for (bit, code) in bits {
        for &place in &places {
            let system = open(repaired(&image, place, bit, code));
            for (number, content) in contents.iter().enumerate() {
                let file = system.lookup(Node::ROOT, &numbered(number)).unwrap();
                let mut read = vec![0; content.len() + 1];
                let length = system.read(file, 0, &mut read).unwrap();
                assert!(read[..length] == content[..], "bit {bit} at {place:#x}: file {number}");
            }
        }
    }
}

/// Everything in the blocks of an index was written: another initialized size is wrong, as some drivers read zeroes
/// behind it.
#[test]
fn the_blocks_of_an_index_are_initialized() {
    let device = USUAL.make();
    let system = open(device.clone());
    for number in 0..80 {
        system.create(Node::ROOT, &numbered(number), platter_vfs::Kind::File).unwrap();
    }
    system.unmount().unwrap();
    let image = device.to_image();
    let geometry = BootSector::from_bytes(&image).unwrap().geometry(image.len() as u64).unwrap();
    let record = geometry.mft * geometry.cluster + record_number::ROOT * u64::from(geometry.record);
    let blocks = |image: &[u8]| {
        let starts = (record as usize..(record + u64::from(geometry.record)) as usize).step_by(8);
        let mut found = starts.filter(|&at| image[at..].starts_with(&[0xA0, 0, 0, 0]) && image[at + 8] == 1);
        let at = found.next().expect("$INDEX_ALLOCATION");
        let sizes =
            [0x30, 0x38].map(|field| u64::from_le_bytes(image[at + field..][..8].try_into().unwrap()));
        (at, sizes)
    };
    let (at, [size, valid]) = blocks(&image);
    assert_eq!(size, valid);
    for bit in (0..64).filter(|bit| size & 1 << bit != 0) {
        let device = repaired(&image, at + 0x38, bit, "size");
        assert_eq!(blocks(&device.to_image()), (at, [size, size]), "bit {bit}");
        assert_eq!(names(&open(device), Node::ROOT).len(), 80);
    }
}

/// The volume's own files keep all their attributes if one of them has one wrong bit in its type.
#[test]
fn a_wrong_bit_in_the_type_of_a_systems_attribute_is_put_right() {
    let device = Volume { bytes: 8 << 20, ..USUAL }.make();
    let system = open(device.clone());
    system.set_label("of the volume").unwrap();
    system.unmount().unwrap();
    let image = device.to_image();
    let geometry = BootSector::from_bytes(&image).unwrap().geometry(image.len() as u64).unwrap();
    let size = geometry.record as usize;
    let attributes = |image: &[u8], number: u64| -> Vec<(usize, Kind, String)> {
        let start = (geometry.mft * geometry.cluster) as usize + number as usize * size;
        let mut bytes = image[start..start + size].to_vec();
        fixup::remove(&mut bytes, "file record", 0).unwrap();
        let record = Record::from_bytes(&bytes, 0).unwrap();
        let mut at = start + usize::from(u16::from_le_bytes([bytes[0x14], bytes[0x15]]));
        let place = |attribute: &Attribute| {
            let found = (at, attribute.kind, String::from_utf16_lossy(&attribute.name));
            at += usize::from(u16::from_le_bytes([image[at + 4], image[at + 5]]));
            found
        };
        record.attributes.iter().map(place).collect()
    };
    let mut wrong = Vec::new();
    for number in (0..=record_number::EXTEND).chain(record_number::FIRST_FREE..record_number::FIRST_FREE + 3)
    {
        let before = attributes(&image, number);
        for (place, kind, name) in &before {
            // The bits that make another type that is known.
            for bit in 4..8 {
                let mut damaged = image.clone();
                damaged[place + bit / 8] ^= 1 << (bit % 8);
                let device = MemoryDevice::from_image(&damaged, Sectors::SMALL);
                check(&device, CheckOptions { repair: true }, &Silent).unwrap();
                let again = check(&device, CheckOptions::default(), &Silent).unwrap();
                let kinds =
                    |all: Vec<(usize, Kind, String)>| all.into_iter().map(|(_, kind, name)| (kind, name));
                let after: Vec<_> = kinds(attributes(&device.to_image(), number)).collect();
                if again.found > 0 || after != kinds(before.clone()).collect::<Vec<_>>() {
                    wrong.push(format!(
                        "record {number}, {kind} {name:?}, bit {bit}: {after:?}\n{}",
                        told(&again)
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}: {}", wrong.len(), wrong.join("\n"));
}

/// Of the two copies of a security descriptor's header, the one counts that the indexes and the files agree with: the
/// hash does not cover the number, nor a length of whole turns of it.
#[test]
fn a_wrong_bit_in_the_number_of_a_descriptor_costs_no_file_its_own() {
    let device = USUAL.make();
    let system = open(device.clone());
    let file = system.create(Node::ROOT, &numbered(0), platter_vfs::Kind::File).unwrap();
    let descriptor = system.security_descriptors().unwrap().get(file).unwrap();
    system.unmount().unwrap();
    let image = device.to_image();
    let starts: Vec<usize> = (20..image.len() - descriptor.len())
        .filter(|&at| image[at..].starts_with(&descriptor))
        .map(|at| at - 20)
        .collect();
    let block = DescriptorHeader::BLOCK as usize;
    let first = *starts.iter().find(|&at| starts.contains(&(at + block))).unwrap();
    for place in [first, first + block] {
        // Number and length.
        for bit in (4 * 8..8 * 8).chain(16 * 8..20 * 8) {
            let system = open(repaired(&image, place, bit, "security-copy"));
            let file = system.lookup(Node::ROOT, &numbered(0)).unwrap();
            let found = system.security_descriptors().unwrap().get(file).unwrap();
            assert_eq!(found, descriptor, "bit {bit} at {place:#x}");
        }
    }
}

/// Where a name differs in a file's record and in its directory, the directory's stays as programs saw it, unless it
/// stands out of order or is less like the names beside it.
#[test]
fn of_two_names_that_differ_the_more_likely_one_stays() {
    let device = USUAL.make();
    let system = open(device.clone());
    for number in [0, 2, 4, 6, 8] {
        let name = Name::from(format!("file {number}x").as_str());
        system.create(Node::ROOT, &name, platter_vfs::Kind::File).unwrap();
    }
    system.unmount().unwrap();
    drop(system);
    let image = device.to_image();
    let geometry = BootSector::from_bytes(&image).unwrap().geometry(image.len() as u64).unwrap();
    let record = geometry.mft * geometry.cluster + record_number::FIRST_FREE * u64::from(geometry.record);
    let records = record as usize..record as usize + 40 * geometry.record as usize;
    let wanted: Vec<u8> = "file 4x".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let is_key = |at: usize| image[at - 2..at] == [7, 3] || image[at - 2..at] == [7, 0];
    let places: Vec<usize> = (2..image.len() - wanted.len())
        .filter(|&at| image[at..].starts_with(&wanted) && is_key(at))
        .collect();
    let (in_record, elsewhere): (Vec<usize>, Vec<usize>) =
        places.into_iter().partition(|at| records.contains(at));
    let list = |device: Arc<MemoryDevice>| -> Vec<String> {
        names(&open(device), Node::ROOT).into_iter().filter(|name| name.starts_with('f')).collect()
    };
    let expected = |third: &str| ["file 0x", "file 2x", third, "file 6x", "file 8x"].map(String::from);
    let [in_record] = in_record[..] else { panic!("one record: {in_record:?}") };
    // The second letter, the digit and the last letter: "fkle 4x" stands out of order, "file 5x" is as likely as the
    // right name, and "file 4y" is less so.
    let (letter, digit, last) = (2 * 8 + 1, 10 * 8, 12 * 8);
    for bit in [letter, digit, last] {
        assert_eq!(list(repaired(&image, in_record, bit, "name-differs")), expected("file 4x"));
    }
    // Of the places outside of the record one is the directory, the others are the log.
    let mut in_directory = 0;
    for place in elsewhere {
        let mut damaged = image.clone();
        damaged[place + digit / 8] ^= 1;
        if list(Arc::new(MemoryDevice::from_image(&damaged, Sectors::SMALL))) == expected("file 5x") {
            in_directory += 1;
            assert_eq!(list(repaired(&image, place, digit, "name-differs")), expected("file 5x"));
            for bit in [letter, last] {
                assert_eq!(list(repaired(&image, place, bit, "entry-dead")), expected("file 4x"));
            }
        }
    }
    assert_eq!(in_directory, 1);
}
