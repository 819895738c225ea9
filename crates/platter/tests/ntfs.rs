//! NTFS images, used from the command line.

use crate::common::{self, Place, content};
use std::fs;
use std::os::unix::fs::FileExt;

#[test]
fn mkfs_takes_what_the_format_has() {
    let place = Place::new("mkfs-ntfs");
    let said = place.works("mkfs ntfs a.img --size 64M --cluster 2k --mft-record 4k --compress --label Büro");
    assert!(said.contains("NTFS 3.1") && said.contains("2 KiB"), "{said}");
    let info = place.json("info --json a.img");
    let volume = &info["holds"]["volume"];
    assert_eq!((&volume["label"], &volume["cluster"]), (&"Büro".into(), &2048.into()));
    assert_eq!(volume["details"]["file record"], "4096 bytes");
    assert!(place.fails("mkfs ntfs b.img --size 64M --mft-record 2k").contains("4 KiB"));
    assert!(place.fails("mkfs ntfs b.img --size 64M --cluster 4M --force").contains("2 MiB"));
    assert!(
        place.fails("mkfs ntfs b.img --size 64M --checksum crc64 --force").contains("NTFS has no metadata")
    );
    for format in ["fat32", "exfat", "refs"] {
        for (option, what) in [("--mft-record 1k", "records of files"), ("--compress", "compression")] {
            let said = place.fails(&format!("mkfs {format} c.img --size 600M --force {option}"));
            assert!(said.contains(what), "{format}: {said}");
        }
        place.works(&format!("mkfs {format} d.img --size 600M --force"));
        let (_, said) = place.ends(8, "check --surface d.img");
        assert!(said.contains("has no check of the surface"), "{said}");
    }
    let (_, said) = place.ends(2, "mkfs ntfs c.img --mft-record many");
    assert!(said.contains("many"), "{said}");
}

#[test]
fn files_go_in_and_come_out_and_are_recovered() {
    let place = Place::new("ntfs-files");
    fs::create_dir_all(place.path("tree/below")).unwrap();
    let large = content(1, 3_000_000);
    fs::write(place.path("tree/large"), &large).unwrap();
    // Compressed, most of its units take only some of their clusters, and the unit of zeroes takes none.
    let packs: Vec<u8> = (0..50_000_u32).flat_map(|line| [(line % 251) as u8; 20]).collect();
    let packs = [&packs[..], &[0; 1 << 17], &packs].concat();
    fs::write(place.path("tree/packs"), &packs).unwrap();
    fs::write(place.path("tree/below/small"), "small").unwrap();
    for options in ["--label plain", "--compress"] {
        place.works(&format!("mkfs ntfs a.img --size 64M --force {options}"));
        place.works("cp -r tree a.img:/");
        let listed = place.works("ls -lR a.img:/");
        assert!(listed.contains("large") && listed.contains("small"), "{listed}");
        assert_eq!(place.works("cat a.img:/tree/below/small"), "small");
        place.works("cp a.img:/tree/large back");
        assert_eq!(fs::read(place.path("back")).unwrap(), large);
        place.works("cp a.img:/tree/packs back");
        assert_eq!(fs::read(place.path("back")).unwrap(), packs, "{options}");
        place.works("mv a.img:/tree/below a.img:/moved");
        place.works("check a.img");
        place.works("check --surface a.img");
        // Both boot sectors are overwritten.
        let file = fs::File::options().write(true).open(place.path("a.img")).unwrap();
        file.write_all_at(&[0; 512], 0).unwrap();
        file.write_all_at(&[0; 512], (64 << 20) - 512).unwrap();
        drop(fs::remove_dir_all(place.path("rescued")));
        place.works("recover --as ntfs a.img rescued");
        let found = place.tool("find", &["rescued", "-name", "large"]);
        let found = found.lines().next().unwrap_or_else(|| panic!("{options}: large is not there"));
        assert_eq!(fs::read(place.path(found)).unwrap(), large, "{options}");
    }
}

/// A hibernated Windows has the volume's metadata in memory and writes it when it wakes up, so that changes made
/// meanwhile would become damage. Reading is safe.
#[test]
fn what_belongs_to_a_sleeping_windows_is_copied_out_and_never_written() {
    let place = Place::new("ntfs-asleep");
    place.works("mkfs ntfs v.img --size 32M");
    fs::create_dir_all(place.path("tree/sub")).unwrap();
    fs::write(place.path("tree/file"), common::content(1, 100_000)).unwrap();
    fs::write(place.path("tree/sub/small"), "content").unwrap();
    place.works("cp -r tree v.img:/");
    fs::write(place.path("hiberfil.sys"), [b"hibr".as_slice(), &[0; 8000]].concat()).unwrap();
    place.works("cp hiberfil.sys v.img:/");
    let image = || {
        (
            fs::read(place.path("v.img")).unwrap(),
            fs::metadata(place.path("v.img")).unwrap().modified().unwrap(),
        )
    };
    let before = image();
    let (_, told) = place.ends(0, "cp -r v.img:/tree out");
    assert!(told.contains("Windows is hibernated"), "{told}");
    assert_eq!(fs::read(place.path("out/file")).unwrap(), common::content(1, 100_000));
    assert_eq!(fs::read_to_string(place.path("out/sub/small")).unwrap(), "content");
    for line in [
        "cp hiberfil.sys v.img:/new",
        "rm v.img:/tree/file",
        "mkdir v.img:/made",
        "mv v.img:/tree v.img:/moved",
    ] {
        let (_, told) = place.ends(1, line);
        assert!(told.contains("Windows is hibernated"), "{line}: {told}");
    }
    // Checking is safe; a repair is refused, even of damage.
    place.ends(0, "check v.img");
    let repairs = || {
        let before = image();
        let (_, told) = place.ends(8, "check --repair v.img");
        assert!(told.contains("Windows is hibernated"), "{told}");
        assert!(before == image() && !place.path("v.img.undo").exists(), "something was written");
    };
    repairs();
    assert!(before == image(), "something was written");
    let mut damaged = before.0;
    let name: Vec<u8> = "small".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let is_small = |record: &&mut [u8]| {
        record.starts_with(b"FILE") && record.windows(name.len()).any(|part| part == name)
    };
    damaged.chunks_mut(1024).find(is_small).expect("the record of a file")[0] ^= 1;
    fs::write(place.path("v.img"), &damaged).unwrap();
    place.ends(4, "check v.img");
    repairs();
}

/// Puts shadow copies on a volume as Windows does: a header in the boot area that leads to a catalog, which is a file of
/// the volume. `seconds` are their dates, since 1601.
fn add_shadow_copies(place: &Place, image: &str, seconds: &[u64]) {
    const IDENTIFIER: [u8; 16] =
        [0x6B, 0x87, 0x08, 0x38, 0x76, 0xC1, 0x48, 0x4E, 0xB7, 0xAE, 0x04, 0x04, 0x6E, 0x6C, 0xC7, 0x52];
    let put =
        |bytes: &mut [u8], at: usize, number: u64| bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
    let file = fs::File::options().read(true).write(true).open(place.path(image)).unwrap();
    let mut catalog = vec![0; 0x4000];
    catalog[..16].copy_from_slice(&IDENTIFIER);
    put(&mut catalog, 0x10, 1 | 2 << 32);
    for (entry, seconds) in catalog[128..].chunks_exact_mut(128).zip(seconds) {
        put(entry, 0, 2);
        entry[0x10] = *seconds as u8;
        put(entry, 0x30, seconds * 10_000_000);
    }
    fs::write(place.path("catalog"), &catalog).unwrap();
    place.works(&format!("cp catalog {image}:/catalog"));
    let bytes = fs::read(place.path(image)).unwrap();
    let at = bytes.chunks_exact(512).position(|sector| *sector == catalog[..512]).expect("the catalog") * 512;
    let mut header = [0; 512];
    header[..16].copy_from_slice(&IDENTIFIER);
    put(&mut header, 0x10, 1 | 1 << 32);
    put(&mut header, 0x18, 0x1E00);
    put(&mut header, 0x30, at as u64);
    file.write_all_at(&header, 0x1E00).unwrap();
}

/// Windows copies what is overwritten to a shadow copy first. Nobody else does, so a write changes what the shadow copy
/// shows: it is only made if it is asked for.
#[test]
fn shadow_copies_are_named_and_not_lost_unasked() {
    let place = Place::new("ntfs-shadow");
    place.works("mkfs ntfs v.img --size 32M");
    fs::write(place.path("file"), content(1, 100_000)).unwrap();
    place.works("cp file v.img:/");
    add_shadow_copies(&place, "v.img", &[13_030_526_268, 13_030_526_109]);
    let image = || fs::read(place.path("v.img")).unwrap();
    let before = image();
    let info = place.works("info v.img");
    let dates = "1: 2013-12-03 06:35:09 UTC, 2: 2013-12-03 06:37:48 UTC";
    assert!(info.contains("shadow copies") && info.contains(dates), "{info}");
    assert_eq!(place.json("info --json v.img")["holds"]["volume"]["details"]["shadow copies"], dates);
    // Reading is as usual, and says nothing.
    place.works("cp v.img:/file back");
    assert_eq!(fs::read(place.path("back")).unwrap(), content(1, 100_000));
    let writes = [
        "cp file v.img:/new",
        "mkdir v.img:/made",
        "mv v.img:/file v.img:/moved",
        "attr set v.img:/moved stream:a file",
        "attr remove v.img:/moved stream:a",
        "rm v.img:/moved",
    ];
    for line in [writes[0], writes[1], writes[2], "attr set v.img:/file stream:a file", "rm v.img:/file"] {
        let (_, told) = place.ends(1, &format!("{line} --force"));
        assert!(told.contains("2 shadow copies") && told.contains("lose-shadow-copies"), "{line}: {told}");
    }
    // A healthy volume needs no repair; a damaged one is not repaired unasked.
    place.works("check v.img");
    place.works("check --repair v.img");
    assert!(before == image(), "something was written");
    let mut damaged = before.clone();
    let name: Vec<u8> = "file".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let is_it = |record: &&mut [u8]| {
        record.starts_with(b"FILE") && record.windows(name.len()).any(|part| part == name)
    };
    damaged.chunks_mut(1024).filter(is_it).last().expect("the record of a file")[0] ^= 1;
    fs::write(place.path("v.img"), &damaged).unwrap();
    let (_, told) = place.ends(8, "check --repair v.img");
    assert!(told.contains("2 shadow copies") && told.contains("lose-shadow-copies"), "{told}");
    assert!(damaged == image(), "something was written");
    let (_, _) = place.ends(1, "check --repair --no-undo --lose-shadow-copies v.img");
    fs::write(place.path("v.img"), &before).unwrap();
    for line in writes {
        place.works(&format!("{line} --lose-shadow-copies"));
    }
    place.works("check v.img");
    // A volume whose shadow copies are all removed has a header without a catalog, or an empty catalog.
    for empty in [false, true] {
        place.works("mkfs ntfs w.img --size 32M --force");
        add_shadow_copies(&place, "w.img", &[]);
        if !empty {
            let file = fs::File::options().write(true).open(place.path("w.img")).unwrap();
            file.write_all_at(&[0; 8], 0x1E30).unwrap();
        }
        assert!(!place.works("info w.img").contains("shadow"));
        place.works("cp file w.img:/");
    }
    // A new volume has none of those of the one before it.
    add_shadow_copies(&place, "w.img", &[13_030_526_268]);
    assert!(place.works("info w.img").contains("shadow copies"));
    place.works("mkfs ntfs w.img --force");
    place.works("cp file w.img:/");
}

#[test]
fn a_mount_of_a_volume_with_shadow_copies_is_for_reading() {
    let place = Place::new("ntfs-shadow-mount");
    fs::create_dir(place.path("m")).unwrap();
    place.works("mkfs ntfs v.img --size 32M");
    add_shadow_copies(&place, "v.img", &[13_030_526_268]);
    let before = fs::read(place.path("v.img")).unwrap();
    let (_, told) = place.ends(0, "mount v.img m");
    assert!(told.contains("mounted for reading") && told.contains("a shadow copy"), "{told}");
    let refused = fs::write(place.path("m/new"), "x");
    place.works("umount m");
    assert!(refused.is_err());
    assert!(before == fs::read(place.path("v.img")).unwrap(), "something was written");
    place.works("mount -o ro v.img m");
    place.works("umount m");
    place.works("mount -o lose_shadow_copies v.img m");
    let written = fs::write(place.path("m/new"), "x");
    place.works("umount m");
    written.unwrap();
    assert_eq!(place.works("cat v.img:/new"), "x");
}

#[test]
fn a_volume_without_a_change_journal_says_so() {
    let place = Place::new("ntfs-journal");
    place.works("mkfs ntfs v.img --size 32M");
    assert!(place.fails("journal v.img").contains("v.img: has no change journal"));
    let (said, _) = place.ends(1, "journal --json v.img");
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&said["records"], &said["next"]), (&serde_json::json!([]), &0.into()));
    place.works("mkfs exfat e.img --size 32M");
    assert!(place.fails("journal e.img").contains("no change journal"));
}
