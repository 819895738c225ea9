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
    assert!(place.fails("mkfs ntfs b.img --size 64M --mft-record 2k").contains("4,096"));
    assert!(place.fails("mkfs ntfs b.img --size 64M --cluster 4M --force").contains("2097152"));
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
