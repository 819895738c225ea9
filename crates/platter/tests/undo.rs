//! Undoing repairs: the image gets back every byte that it had before.

use crate::common::{Place, content};
use std::fs;

const FORMATS: [&str; 5] = ["refs", "ntfs", "exfat", "fat32", "fat --size 8M"];

/// Makes a volume with damage whose repair writes to the volume.
fn damaged(test: &str, format: &str) -> Place {
    let place = Place::new(&format!("undo-{test}-{}", &format[..3]));
    let size = match format {
        "refs" => " --size 320M",
        "ntfs" | "exfat" | "fat32" => " --size 64M",
        _ => "",
    };
    fs::create_dir(place.path("tree")).unwrap();
    for number in 0..40 {
        fs::write(place.path(&format!("tree/file {number}")), content(number, 5000)).unwrap();
    }
    place.works(&format!("mkfs {format} a.img{size}"));
    place.works("cp -r tree a.img:/");
    let mut bytes = fs::read(place.path("a.img")).unwrap();
    if format == "refs" {
        // The first superblock and the first boot record are damaged; ReFS has further copies of both.
        bytes[0x1E * 4096 + 0x60] ^= 1;
        bytes[0x30] ^= 1;
        fs::write(place.path("a.img"), bytes).unwrap();
        return place;
    }
    if format.starts_with("fat") {
        // Entries of the first FAT are cleared. The number of reserved sectors, which are before it, is at byte 14 of
        // the boot sector.
        let table = usize::from(u16::from_le_bytes([bytes[14], bytes[15]])) * 512;
        bytes[table + 64..table + 128].fill(0);
        fs::write(place.path("a.img"), bytes).unwrap();
        return place;
    }
    // The 30 bytes before the names of some files are overwritten at all their places: in entries, records and index
    // blocks.
    for number in [7, 11, 23] {
        let name: Vec<u8> = format!("file {number}").bytes().flat_map(|byte| [byte, 0]).collect();
        let places: Vec<usize> =
            (0..bytes.len() - name.len()).filter(|&at| bytes[at..at + name.len()] == name[..]).collect();
        for at in places {
            bytes[at - 30..at].fill(0xE5);
        }
    }
    fs::write(place.path("a.img"), bytes).unwrap();
    place
}

#[test]
fn a_repair_is_taken_back_byte_for_byte() {
    for format in FORMATS {
        let place = damaged("back", format);
        let before = fs::read(place.path("a.img")).unwrap();
        let output = place.platter("check --repair a.img");
        assert!(matches!(output.status.code(), Some(1 | 4)), "{format}: {output:?}");
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.contains("`platter undo a.img.undo a.img` takes the repair back"), "{format}: {said}");
        let repaired = fs::read(place.path("a.img")).unwrap();
        assert!(repaired != before, "{format}");

        let said = place.works("undo a.img.undo a.img");
        assert!(said.contains("as it was before the repair of"), "{said}");
        assert!(fs::read(place.path("a.img")).unwrap() == before, "{format}");
        assert!(place.works("undo a.img.undo a.img").contains("already"));
        // The same repair is made again, with the next undo file. If the image was written to after the repair, an
        // undo is refused without `--force`.
        let found = place.platter("check --repair --json a.img").stdout;
        let found: serde_json::Value = serde_json::from_slice(&found).unwrap();
        assert_eq!(found["undo"], "a.img.undo-2", "{format}");
        assert!(fs::read(place.path("a.img")).unwrap() != before, "{format}");
        if place.platter("cp tree a.img:/other -r").status.success() {
            let now = fs::read(place.path("a.img")).unwrap();
            let refused = place.fails("undo a.img.undo-2 a.img");
            assert!(refused.contains("written to after") && refused.contains("--force"), "{refused}");
            assert!(fs::read(place.path("a.img")).unwrap() == now);
        }
    }
}

#[test]
fn a_repair_that_has_nothing_to_do_leaves_nothing_behind() {
    for format in FORMATS {
        let place = Place::new(&format!("undo-healthy-{}", &format[..3]));
        let size = if format.contains("--size") { "" } else { " --size 320M" };
        place.works(&format!("mkfs {format} a.img{size}"));
        let before = fs::read(place.path("a.img")).unwrap();
        place.works("check --repair a.img");
        assert!(fs::read(place.path("a.img")).unwrap() == before, "{format}");
        assert_eq!(fs::read_dir(&place.0).unwrap().count(), 1, "{format}");
    }
}

#[test]
fn nothing_is_repaired_that_cannot_be_taken_back_unless_that_is_asked_for() {
    let place = damaged("unsaved", "exfat");
    let before = fs::read(place.path("a.img")).unwrap();
    fs::write(place.path("there"), "somebody's").unwrap();
    for (undo, said) in [("absent/file", "--no-undo"), ("there", "there already")] {
        let (_, error) = place.ends(8, &format!("check --repair --undo {undo} a.img"));
        assert!(error.contains(said), "{error}");
        assert!(fs::read(place.path("a.img")).unwrap() == before);
    }
    assert_eq!(fs::read(place.path("there")).unwrap(), b"somebody's");
    place.ends(16, "check --undo file a.img");
    place.platter("check --repair --no-undo a.img");
    assert!(fs::read(place.path("a.img")).unwrap() != before && !place.path("a.img.undo").exists());
    assert!(place.fails("undo there a.img").contains("is no undo file"));
}

/// What stood in an image can be read in its undo file by nobody who cannot read the image.
#[test]
fn an_undo_file_has_the_permissions_of_its_image() {
    let place = damaged("modes", "exfat");
    let before = fs::read(place.path("a.img")).unwrap();
    for (number, mode) in ["600", "640", "444"].into_iter().enumerate() {
        fs::write(place.path("a.img"), &before).unwrap();
        place.tool("chmod", &[mode, "a.img"]);
        place.platter(&format!("check --repair --undo u{number} a.img"));
        let expected = if mode == "444" { "644" } else { mode };
        assert_eq!(place.tool("stat", &["-c", "%a", &format!("u{number}")]).trim(), expected);
    }
}

/// A repair that was ended before it wrote to the image leaves an empty undo file at most.
#[test]
fn an_undo_file_that_was_not_begun_takes_back_nothing() {
    let place = damaged("empty", "exfat");
    let before = fs::read(place.path("a.img")).unwrap();
    fs::write(place.path("u"), "").unwrap();
    assert!(place.works("undo u a.img").contains("before it changed anything"));
    fs::write(place.path("u"), "PLATTER UNDO 1\n\0 and no more").unwrap();
    assert!(place.fails("undo u a.img").contains("cut off"));
    assert!(fs::read(place.path("a.img")).unwrap() == before);
}
