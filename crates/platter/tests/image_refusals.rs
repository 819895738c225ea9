//! Containers and evidence that look like nothing else: every command that overwrites says what they are and leaves them.

use crate::common::Place;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

const SIZE: u64 = 64 << 20;
/// Where the mark of a DMG is.
const TAIL: u64 = SIZE - 512;

/// Each kind: an ending for its file, the mark by which it is known and the offset of that, and its name.
const KINDS: [(&str, u64, &[u8], &str); 19] = [
    ("vhdx", 0, b"vhdxfile", "a VHDX disk image"),
    ("vhd", 0, b"conectix", "a VHD disk image"),
    ("qcow2", 0, b"QFI\xFB", "a QCOW2 disk image"),
    ("vmdk", 0, b"KDMV", "a VMDK disk image"),
    ("old.vmdk", 0, b"COWD", "a VMDK disk image"),
    ("vdi", 0x40, b"\x7F\x10\xDA\xBE", "a VDI disk image"),
    ("qed", 0, b"QED\0", "a QED disk image"),
    ("hdd", 0, b"WithoutFreeSpace", "a Parallels disk image"),
    ("hds", 0, b"WithouFreSpacExt", "a Parallels disk image"),
    ("dmg", TAIL, b"koly\0\0\0\x04\0\0\x02\0", "a DMG disk image"),
    ("encrypted.dmg", 0, b"encrcdsa", "an encrypted DMG disk image"),
    ("wim", 0, b"MSWIM\0\0\0", "a WIM archive"),
    ("gz", 0, b"\x1F\x8B\x08", "a gzip file"),
    ("zst", 0, b"\x28\xB5\x2F\xFD", "a zstd file"),
    ("E01", 0, b"EVF\t\r\n\xFF\0", "an E01 evidence image"),
    ("Ex01", 0, b"EVF2\r\n\x81\0", "an Ex01 evidence image"),
    ("L01", 0, b"LVF\t\r\n\xFF\0", "L01 logical evidence"),
    ("Lx01", 0, b"LEF2\r\n\x81\0", "Lx01 logical evidence"),
    ("aff", 0, b"AFF10\r\n\0", "an AFF evidence image"),
];
/// The endings of those that are read as the disks in them.
const READ: [&str; 5] = ["vhdx", "vhd", "qcow2", "vmdk", "E01"];

/// Runs a command that must fail, and returns what it says.
fn refused(place: &Place, line: &str) -> String {
    let output = place.platter(line);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(matches!(output.status.code(), Some(1 | 2)), "{line}: {output:?}");
    said
}

#[test]
fn every_kind_is_refused_by_name_wherever_something_is_overwritten() {
    let place = Place::new("image-refusals");
    place.works("mkfs exfat m.img --size 64M");
    place.works("mkfs exfat mirror:one.img,two.img --size 64M");
    File::create(place.path("blank")).unwrap().set_len(SIZE).unwrap();
    let own = fs::read(place.path("m.img")).unwrap();
    for (ending, position, mark, known) in KINDS {
        let name = &*format!("e.{ending}");
        let file = File::create_new(place.path(name)).unwrap();
        file.set_len(SIZE).unwrap();
        file.write_all_at(mark, position).unwrap();
        let before = fs::read(place.path(name)).unwrap();
        let lab = "--workloads overhead --span 1M --time 0.01 --repeat 1";
        let lines = [
            format!("mkfs exfat {name}"),
            format!("mkfs exfat mirror:blank,{name}"),
            format!("endurance --device {name} --time 1s --out e"),
            format!("run overhead --target raw --span 1M --time 0.01 --device {name}"),
            format!("run overhead --target raw --span 1M --time 0.01 --device mirror:blank,{name}"),
            format!("compare --targets raw {lab} --device {name}"),
            format!("compare --targets raw {lab} --device mirror:blank,{name}"),
        ];
        for line in &lines {
            let said = refused(&place, line);
            assert!(said.contains(known) && said.contains("--force"), "{line}: {said}");
        }
        let joining = [format!("mirror add mirror:m.img {name}")];
        let said = refused(&place, &joining[0]);
        assert!(said.contains(known) || READ.contains(&ending), "{said}");
        if known.contains("evidence") {
            for line in lines.iter().chain(&joining) {
                let said = refused(&place, &format!("{line} --force"));
                assert!(said.contains("evidence") || READ.contains(&ending), "{line} --force: {said}");
            }
            let rebuild = format!("mirror rebuild mirror:m.img,{name} --from m.img --force");
            refused(&place, &rebuild);
        }
        // Who only looks is told too, unless what is in it is read; then an error says what is wrong with it.
        for line in [format!("ls {name}"), format!("mkdir {name}:/x"), format!("label {name} x")] {
            let said = refused(&place, &line);
            assert!(said.contains(known) || READ.contains(&ending), "{line}: {said}");
        }
        assert!(fs::read(place.path(name)).unwrap() == before, "{name}");
        fs::remove_file(place.path(name)).unwrap();
    }
    assert!(fs::read(place.path("m.img")).unwrap() == own);
    assert!(fs::read(place.path("blank")).unwrap().iter().all(|&byte| byte == 0));
}
