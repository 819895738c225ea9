//! Volumes in doubt: the sound files are read and copied, the doubt is reported once, and an unreadable file is
//! reported by its name.

use crate::common::{Place, content};
use std::fs;

/// Makes a volume with a few files.
fn volume(test: &str, format: &str) -> Place {
    let place = Place::new(&format!("doubt-{test}-{format}"));
    fs::create_dir(place.path("d")).unwrap();
    for number in 0..4 {
        let letters: Vec<u8> = content(number, 40_000).iter().map(|byte| b'a' + byte % 26).collect();
        fs::write(place.path(&format!("d/{number}")), letters).unwrap();
    }
    let size = if format == "refs" { "512M" } else { "32M" };
    place.works(&format!("mkfs {format} v.img --size {size}"));
    place.works("cp -r d v.img:/");
    place
}

fn change(place: &Place, with: impl FnOnce(&mut Vec<u8>)) {
    let mut image = fs::read(place.path("v.img")).unwrap();
    with(&mut image);
    fs::write(place.path("v.img"), image).unwrap();
}

/// Checks that everything is listed and copied, and that one line reports the doubt.
fn is_read_with(place: &Place, doubt: &str) {
    let _ = fs::remove_dir_all(place.path("out"));
    for line in ["ls v.img:/d", "cat v.img:/d/1 v.img:/d/2", "cp -r v.img:/d out"] {
        let (_, said) = place.ends(0, line);
        assert!(
            said.lines().count() == 1 && said.contains(doubt) && said.contains("v.img: "),
            "{line}: {said}"
        );
    }
    place.tool("diff", &["-r", "d", "out"]);
}

#[test]
fn a_boot_region_of_exfat_has_a_backup() {
    let place = volume("boot", "exfat");
    // A byte of the serial number, so that only the checksum of the boot region is wrong.
    change(&place, |image| image[100] ^= 1);
    is_read_with(&place, "boot checksum");
    // A byte of the serial number in the backup too, so that both checksums are wrong; then, with the backup
    // restored, an invalid sector size (byte 108) in the main boot region.
    let sound = fs::read(place.path("v.img")).unwrap();
    change(&place, |image| image[12 * 512 + 100] ^= 2);
    is_read_with(&place, "boot checksum");
    fs::write(place.path("v.img"), &sound).unwrap();
    change(&place, |image| image[108] = 3);
    is_read_with(&place, "boot");
}

#[test]
fn reading_exfat_goes_without_bitmap_and_upper_case_letters() {
    let place = volume("tables", "exfat");
    let sound = fs::read(place.path("v.img")).unwrap();
    let entry = |image: &[u8], kind: u8| {
        (0..image.len()).step_by(32).skip(1 << 10).find(|at| {
            let first = u32::from_le_bytes(image[at + 20..at + 24].try_into().unwrap());
            image[*at] == kind && (2..10_000).contains(&first) && image[at + 1] == 0
        })
    };
    let (bitmap, upcase) = (entry(&sound, 0x81).unwrap(), entry(&sound, 0x82).unwrap());
    for (at, doubt) in [(bitmap, "allocation bitmap"), (upcase, "up-case table")] {
        change(&place, |image| image[at] ^= 0x80);
        is_read_with(&place, doubt);
        fs::write(place.path("v.img"), &sound).unwrap();
    }
    change(&place, |image| image[upcase + 4] ^= 1);
    is_read_with(&place, "up-case table");
}

#[test]
fn a_volume_that_was_not_closed_is_read_and_that_is_said() {
    let place = volume("open", "exfat");
    change(&place, |image| image[106] |= 2);
    is_read_with(&place, "was not closed");
    let place = volume("open", "fat16");
    change(&place, |image| image[37] |= 1);
    is_read_with(&place, "was not closed");
}

#[test]
fn no_copy_of_the_first_structures_of_refs_need_be_whole() {
    let place = volume("first", "refs");
    change(&place, |image| {
        let places: Vec<usize> = (0..image.len())
            .step_by(4096)
            .filter(|at| [b"SUPB", b"CHKP"].iter().any(|kind| image[*at..].starts_with(&kind[..])))
            .collect();
        assert_eq!(places.len(), 5);
        for (number, at) in places.into_iter().enumerate() {
            image[at + 0x60 + 5 * number] ^= 1 << number;
            image[at + 0x120 + 3 * number] ^= 4;
        }
    });
    for line in ["ls v.img:/d", "cp -r v.img:/d out"] {
        let (_, said) = place.ends(0, line);
        assert!(said.lines().count() == 1 && said.contains("superblock"), "{said}");
    }
    place.tool("diff", &["-r", "d", "out"]);
    place.ends(1, "check --repair v.img");
    place.works("check v.img");
}

#[test]
fn reading_ntfs_goes_without_what_only_writing_needs() {
    let place = volume("system", "ntfs");
    let sound = fs::read(place.path("v.img")).unwrap();
    // The file records of $Volume, $Bitmap and $UpCase, found by their names.
    for (name, doubt) in [("$Volume", "version"), ("$Bitmap", "what is free"), ("$UpCase", "upper-case")] {
        let units: Vec<u8> = name.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let records = (0..sound.len()).step_by(1024).filter(|at| sound[*at..].starts_with(b"FILE"));
        let records: Vec<usize> = records
            .filter(|at| sound[*at..*at + 512].windows(units.len()).any(|part| part == units))
            .collect();
        assert!(!records.is_empty(), "{name}");
        change(&place, |image| records.iter().for_each(|at| image[*at] = b'X'));
        is_read_with(&place, doubt);
        fs::write(place.path("v.img"), &sound).unwrap();
    }
}

/// Files that cannot be read do not keep `cat` from printing the files after them.
#[test]
fn cat_prints_what_can_be_printed() {
    let place = volume("cat", "exfat");
    let (printed, said) = place.ends(1, "cat v.img:/d/1 v.img:/d/none v.img:/none v.img:/d/2");
    assert_eq!(said.lines().count(), 2, "{said}");
    assert!(said.contains("/d/none") && said.contains("v.img:/none"), "{said}");
    assert_eq!(printed.len(), 80_000);
}

/// Damages one place of a file of ReFS with integrity, and of its named stream, one after the other.
#[test]
fn what_is_around_a_damaged_place_is_kept() {
    let place = Place::new("doubt-places");
    let letters = |seed: u64, length: usize| -> String {
        content(seed, length).iter().map(|byte| char::from(b'a' + byte % 26)).collect()
    };
    let (file, stream) = (letters(1, 40_000), letters(2, 3000));
    fs::write(place.path("f"), &file).unwrap();
    place.tool("setfattr", &["-n", "user.DosStream.s:$DATA", "-v", &stream, "f"]);
    place.works("mkfs refs+integrity v.img --size 512M");
    place.works("cp f v.img:/f");
    let sound = fs::read(place.path("v.img")).unwrap();
    let damage = |text: &str, offset: usize| {
        let mut clusters = (0..sound.len()).step_by(4096);
        let start = clusters.find(|at| sound[*at..].starts_with(&text.as_bytes()[..32])).unwrap();
        let mut image = sound.clone();
        image[start + offset] ^= 1;
        fs::write(place.path("v.img"), image).unwrap();
    };
    damage(&stream, 1000);
    let (_, said) = place.ends(1, "cp v.img:/f copy");
    assert!(said.lines().count() == 1 && said.contains("v.img:/f:s: "), "{said}");
    assert_eq!(fs::read(place.path("copy")).unwrap(), file.as_bytes());
    damage(&file, 21_000);
    let (printed, said) = place.ends(1, "cat v.img:/f");
    assert!(said.lines().count() == 1 && printed == file[..20_480], "{} bytes: {said}", printed.len());
    let (_, said) = place.ends(1, "cp v.img:/f none");
    assert!(said.contains("v.img:/f: ") && !place.path("none").exists(), "{said}");
}

/// Nothing is written to a volume that was not closed and cannot recover by itself: clusters of files may be recorded as
/// free. Reading goes on, and `--force` writes all the same.
#[test]
fn a_volume_that_was_not_closed_is_not_written_to() {
    for (format, flags) in [("exfat", 106), ("fat16", 37)] {
        let place = volume("unclosed", format);
        change(&place, |image| image[flags] |= if format == "exfat" { 2 } else { 1 });
        let before = fs::read(place.path("v.img")).unwrap();
        for line in ["cp d/0 v.img:/new", "mkdir v.img:/new", "rm v.img:/d/0", "mv v.img:/d/0 v.img:/d/x"] {
            let said = place.fails(line);
            assert!(said.contains("was not closed") && said.contains("check --repair"), "{format}: {said}");
        }
        assert!(platter::open_rw(place.path("v.img")).is_err(), "{format}");
        assert!(fs::read(place.path("v.img")).unwrap() == before, "{format}: it was written to");
        is_read_with(&place, "was not closed");
        place.ends(0, "cp --force d/0 v.img:/forced");
        place.ends(1, "check --repair v.img");
        place.works("cp d/0 v.img:/new");
    }
}
