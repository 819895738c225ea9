//! Directories that are damaged in part: the readable entries are listed and copied, and the unreadable ones are
//! reported.

use crate::common::Place;
use std::fs;

const FILES: usize = 300;

fn name(number: usize) -> String {
    format!("a file with a longer name {number:03}.txt")
}

/// Makes a volume with a directory of many files.
fn volume(test: &str, format: &str, size: &str) -> Place {
    let place = Place::new(&format!("damage-{test}"));
    fs::create_dir(place.path("d")).unwrap();
    for number in 0..FILES {
        fs::write(place.path("d").join(name(number)), format!("content {number}")).unwrap();
    }
    place.works(&format!("mkfs {format} v.img --size {size}"));
    place.works("cp -r d v.img:/");
    place
}

/// Returns the positions of a text in UTF-16 in the image.
fn places(image: &[u8], text: &str) -> Vec<usize> {
    let units: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    (0..image.len() - units.len()).filter(|at| image[*at..].starts_with(&units)).collect()
}

/// Checks that `cp -r` ends with exit code 1 and loses at most `lost` files, and that `ls` leaves out a number of
/// files within `unlisted`, with an error if there are any.
fn gives_the_rest(place: &Place, unlisted: std::ops::RangeInclusive<usize>, lost: usize) {
    let (listed, said) = place.ends(if *unlisted.end() > 0 { 1 } else { 0 }, "ls v.img:/d");
    let missing = FILES - listed.lines().count();
    assert!(unlisted.contains(&missing), "{missing} are not listed: {said}");
    assert_eq!(said.lines().count(), usize::from(*unlisted.end() > 0), "{said}");
    let (_, said) = place.ends(1, "cp -r v.img:/d out");
    let copied = |number: &usize| {
        fs::read(place.path("out").join(name(*number)))
            .is_ok_and(|bytes| bytes == format!("content {number}").as_bytes())
    };
    let whole = (0..FILES).filter(copied).count();
    assert!((FILES - lost..FILES).contains(&whole), "{whole} of {FILES} are copied: {said}");
    assert!(
        said.lines().count() <= FILES - whole + 1 && said.lines().all(|line| line.contains("v.img:/d")),
        "{said}"
    );
}

fn change(place: &Place, with: impl FnOnce(&mut Vec<u8>)) {
    let mut image = fs::read(place.path("v.img")).unwrap();
    with(&mut image);
    fs::write(place.path("v.img"), image).unwrap();
}

#[test]
fn a_damaged_record_of_ntfs_is_one_file() {
    let place = volume("ntfs-record", "ntfs", "32M");
    change(&place, |image| {
        let records = places(image, &name(150)).into_iter().map(|at| at / 1024 * 1024);
        let records: Vec<usize> = records.filter(|at| image[*at..].starts_with(b"FILE")).collect();
        records.iter().for_each(|at| image[*at] = b'X');
        assert_eq!(records.len(), 1);
    });
    gives_the_rest(&place, 0..=0, 1);
}

#[test]
fn a_damaged_index_block_of_ntfs_is_its_files() {
    let place = volume("ntfs-block", "ntfs", "32M");
    change(&place, |image| {
        let blocks = places(image, &name(150)).into_iter().map(|at| at / 4096 * 4096);
        let blocks: Vec<usize> = blocks.filter(|at| image[*at..].starts_with(b"INDX")).collect();
        blocks.iter().for_each(|at| image[*at] = b'X');
        assert!(!blocks.is_empty());
    });
    gives_the_rest(&place, 1..=40, 40);
}

/// A flipped bit anywhere in an index block never hides an entry without an error, and never makes a listing endless.
#[test]
fn a_flipped_bit_in_an_index_of_ntfs_hides_nothing_in_silence() {
    let place = volume("ntfs-flips", "ntfs", "32M");
    let sound = fs::read(place.path("v.img")).unwrap();
    let blocks: Vec<usize> = places(&sound, &name(150)).into_iter().map(|at| at / 4096 * 4096).collect();
    let block = blocks.into_iter().find(|at| sound[*at..].starts_with(b"INDX")).unwrap();
    let mut image = sound.clone();
    for number in 0..60 {
        let at = block + 0x40 + number * 61 % 3000;
        image[at] ^= 1 << (number % 8);
        fs::write(place.path("v.img"), &image).unwrap();
        image[at] = sound[at];
        let output = place.platter("ls v.img:/d");
        let listed = String::from_utf8_lossy(&output.stdout).lines().count();
        let code = output.status.code();
        assert!(code == Some(1) || code == Some(0) && listed == FILES, "offset {at}: {listed}, {output:?}");
    }
}

#[test]
fn a_damaged_page_of_refs_is_its_files() {
    let place = volume("refs", "refs", "512M");
    change(&place, |image| {
        const PAGE: usize = 16 << 10;
        let pages = places(image, &name(150)).into_iter().map(|at| at / PAGE * PAGE);
        let pages: Vec<usize> = pages.filter(|at| image[*at..].starts_with(b"MSB+")).collect();
        pages.iter().for_each(|at| image[at + 100] ^= 1);
        assert!(!pages.is_empty());
    });
    gives_the_rest(&place, 1..=60, 60);
}

#[test]
fn a_damaged_entry_of_exfat_is_one_file() {
    let place = volume("exfat", "exfat", "32M");
    change(&place, |image| {
        let [at] = places(image, "onger name 150.")[..] else { panic!("one entry") };
        image[at] ^= 1;
    });
    gives_the_rest(&place, 1..=1, 1);
}

#[test]
fn a_damaged_entry_of_fat_is_told() {
    for (format, size) in [("fat12", "8M"), ("fat16", "32M"), ("fat32", "64M")] {
        let place = volume(format, format, size);
        let sound = fs::read(place.path("v.img")).unwrap();
        // The short entry follows the parts of the long name. These attributes make it a volume label (0x28) or a
        // part of a long name (0x0F).
        let first = *places(&sound, "a fil").last().unwrap() / 32 * 32;
        for attributes in [0x28, 0x0F] {
            let mut image = sound.clone();
            image[first + 32 + 11] = attributes;
            fs::write(place.path("v.img"), &image).unwrap();
            let (listed, said) = place.ends(1, "ls v.img:/d");
            assert!(listed.lines().count() == FILES - 1 && said.lines().count() == 1, "{format}: {said}");
        }
        fs::write(place.path("v.img"), &sound).unwrap();
        assert_eq!(place.works("ls v.img:/d").lines().count(), FILES);
    }
}

#[test]
fn a_name_that_cannot_be_copied_does_not_stop_the_rest() {
    let place = Place::new("damage-name");
    place.works("mkfs ntfs v.img --size 32M");
    fs::create_dir(place.path("d")).unwrap();
    for name in ["a", "b:c", "d"] {
        fs::write(place.path("d").join(name), name).unwrap();
    }
    let (_, said) = place.ends(1, "cp -r d v.img:/");
    assert!(said.contains("b:c") && said.lines().count() == 1, "{said}");
    assert_eq!(place.works("ls v.img:/d"), "a\nd\n");
}
