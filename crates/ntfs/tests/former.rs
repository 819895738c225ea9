//! Volumes as former versions, which had fewer limits, left them: every file that has its record is found again.

use crate::common::{check_clean, names, open};
use platter_device::{MemoryDevice, Sectors};
use platter_ntfs::{Ntfs, NtfsVolume};
use platter_vfs::{CheckOptions, FileSystem, Format, Name, Names, Node, Silent};
use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Arc;

fn image(name: &str) -> Arc<MemoryDevice> {
    let path = format!("{}/tests/data/{name}.raw.xz", env!("CARGO_MANIFEST_DIR"));
    let output = Command::new("xz").args(["-dc", &path]).output().expect("xz, from xz-utils");
    assert!(output.status.success(), "{path}");
    Arc::new(MemoryDevice::from_image(&output.stdout, Sectors::SMALL))
}

/// Repairs a volume, and returns the codes of what was found.
fn repaired(device: &MemoryDevice) -> BTreeSet<&'static str> {
    let before = Ntfs.check(device, CheckOptions::default(), &Silent).unwrap();
    assert!(before.found > 0);
    let report = Ntfs.check(device, CheckOptions { repair: true }, &Silent).unwrap();
    assert_eq!(report.found, report.repaired, "{:#?}", report.findings);
    check_clean(device).unwrap();
    report.findings.iter().map(|finding| finding.code).collect()
}

fn long(number: u64) -> Name {
    Name::from(&*format!("{number:05}{}", "n".repeat(250)))
}

/// The numbers of a file's streams with long names, each of which must have its content.
fn streams(volume: &NtfsVolume, file: Node) -> BTreeSet<u64> {
    let known = volume.streams().unwrap().list(file).unwrap().into_iter();
    known
        .map(|stream| {
            let number: u64 = stream.name.to_string()[..5].parse().unwrap();
            let node = volume.streams().unwrap().open(file, &long(number), false).unwrap();
            let mut content = [0; 8];
            assert_eq!(volume.read(node, 0, &mut content).unwrap(), 8);
            assert_eq!(content, number.to_le_bytes());
            volume.forget(node, 1);
            number
        })
        .collect()
}

/// Pieces of `$MFT`'s runs are in records that only these pieces lead to, and records lie in two clusters each.
#[test]
fn a_table_of_records_that_only_it_leads_to_is_found() {
    let device = image("former-mft-512");
    assert!(repaired(&device).contains("mft-runs"));
    let volume = open(device.clone());
    let directory = volume.lookup(Node::ROOT, &"many".into()).unwrap();
    let expected: BTreeSet<String> = (0..1800).map(|number| format!("{number:05}")).collect();
    assert_eq!(names(&volume, directory), expected);
    // `$MFT` can grow further.
    for number in 0..300 {
        match volume.create(directory, &Name::from(&*format!("new {number}")), platter_vfs::Kind::File) {
            Ok(file) => volume.forget(file, 1),
            Err(error) => assert!(error.is_full(), "{error}"),
        }
    }
    volume.unmount().unwrap();
    check_clean(&*device).unwrap();
    assert!(names(&open(device), Node::ROOT).contains("many"));
}

/// Only the first clusters of an attribute list are there.
#[test]
fn an_attribute_list_that_was_cut_off_is_made_anew() {
    let device = image("former-scattered");
    assert!(repaired(&device).contains("list"));
    let volume = open(device);
    let file = volume.lookup(Node::ROOT, &"file".into()).unwrap();
    assert_eq!(streams(&volume, file), (0..60).collect());
}

/// A file has more streams than an attribute list of 256 KiB can name: the repair puts the others into another file.
#[test]
fn streams_beyond_the_longest_list_get_a_file_of_their_own() {
    let device = image("former-long");
    assert!(repaired(&device).contains("streams-parted"));
    let volume = open(device);
    let file = volume.lookup(Node::ROOT, &"file".into()).unwrap();
    let mut found = streams(&volume, file);
    let beyond = volume.lookup(Node::ROOT, &"found.000".into()).unwrap();
    for name in names(&volume, beyond) {
        let file = volume.lookup(beyond, &Name::from(&*name)).unwrap();
        found.extend(streams(&volume, file));
    }
    assert_eq!(found, (0..495).collect());
}

/// A file with 300 long names on a volume with the smallest log: its names can be removed one by one, which former
/// versions could not do.
#[test]
fn many_names_are_removed_with_a_small_log() {
    let device = image("former-links");
    let volume = open(device.clone());
    assert_eq!(names(&volume, Node::ROOT).len(), 301);
    volume.unlink(Node::ROOT, &"file".into()).unwrap();
    volume.sync_all().unwrap();
    for number in 0..300 {
        volume.unlink(Node::ROOT, &long(number)).unwrap();
    }
    volume.sync_all().unwrap();
    volume.unmount().unwrap();
    check_clean(&*device).unwrap();
    assert!(names(&open(device), Node::ROOT).is_empty());
}
