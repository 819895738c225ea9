//! `mkfs(8)` and `fsck(8)` calling the program by its helper names.

use crate::common::Place;
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Output;

/// Makes a directory with links to the program by its helper names.
fn place(name: &str) -> Place {
    let place = Place::new(name);
    fs::create_dir(place.path("bin")).unwrap();
    for helper in ["mkfs.platter", "fsck.platter", "fsck.fuse.platter"] {
        symlink(env!("CARGO_BIN_EXE_platter"), place.path("bin").join(helper)).unwrap();
    }
    place
}

/// Runs a program with a `PATH` on which it finds the helpers.
fn run(place: &Place, line: &str) -> Output {
    let words: Vec<&str> = line.split(' ').collect();
    let path = format!("{}:{}:/sbin:/usr/sbin", place.path("bin").display(), std::env::var("PATH").unwrap());
    let mut command = place.command(words[0], &words[1..]);
    command.env("PATH", path).env("LIBMOUNT_FSTAB", place.path("fstab"));
    command.output().unwrap_or_else(|error| panic!("{} is needed for this test: {error}", words[0]))
}

/// Runs a program, which must end with this exit code and print this text.
fn ends(place: &Place, code: i32, said: &str, line: &str) {
    let output = run(place, line);
    let text = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned();
    assert!(output.status.code() == Some(code) && text.contains(said), "{line}: {said}: {output:?}");
}

#[test]
fn mkfs_calls_it_and_it_takes_the_options_of_checkers() {
    let place = place("helpers");
    fs::File::create(place.path("v.img")).unwrap().set_len(64 << 20).unwrap();
    // mkfs(8) drops an operand that follows options, whatever the type.
    ends(&place, 0, "NTFS", "mkfs -t platter -- ntfs --cluster 512 v.img");
    ends(&place, 0, "FAT32", "mkfs -t platter --cluster 512 --force fat32 v.img");
    ends(&place, 2, "possible values: fat,", "mkfs -t platter v.img");
    ends(&place, 0, "no damage", "fsck.platter v.img");
    ends(&place, 0, "was closed and is not checked", "fsck.platter -a v.img");
    ends(&place, 0, "no damage", "fsck.platter v.img -p -f");
    // Bit 3 of the upper half of the second FAT entry is cleared, which means that the volume was not closed (FAT
    // specification, 4.2).
    for table in [32, 32 + fat_sectors(&place)] {
        let mut image = fs::read(place.path("v.img")).unwrap();
        image[table * 512 + 7] &= !0x08;
        fs::write(place.path("v.img"), image).unwrap();
    }
    let damaged = fs::read(place.path("v.img")).unwrap();
    for line in ["fsck.platter v.img", "fsck.platter v.img -n", "fsck.platter -n -a v.img"] {
        ends(&place, 4, "1 found, nothing repaired", line);
        assert!(fs::read(place.path("v.img")).unwrap() == damaged, "{line}");
    }
    for options in ["-a", "-p", "-y", "-f -y", "-C0 -a", "-a -v"] {
        fs::write(place.path("v.img"), &damaged).unwrap();
        ends(&place, 1, "1 found, 1 repaired", &format!("fsck.platter {options} v.img"));
        ends(&place, 0, "no damage", "fsck.platter v.img");
    }
    ends(&place, 0, env!("CARGO_PKG_VERSION"), "fsck.platter -V");
    ends(&place, 16, "unexpected argument", "fsck.platter -b 8193 v.img");
    ends(&place, 8, "missing.img", "fsck.platter missing.img");
}

/// The check at system start: `fsck -A` takes the type and the last column (the pass number) from `/etc/fstab`.
#[test]
fn a_line_of_fstab_is_checked_in_its_pass() {
    let place = place("helpers-fstab");
    place.works("mkfs exfat v.img --size 64M");
    let image = place.path("v.img");
    let line = |kind: &str, pass: u32| format!("{} /mnt {kind} noauto 0 {pass}\n", image.display());
    // The volume flags are at byte 106 of the boot sector; bit 1 is set while the volume is open (exFAT
    // specification, 3.1.13).
    let mut bytes = fs::read(&image).unwrap();
    bytes[106] |= 2;
    for kind in ["platter", "fuse.platter"] {
        fs::write(&image, &bytes).unwrap();
        fs::write(place.path("fstab"), line(kind, 0)).unwrap();
        ends(&place, 4, "1 found, nothing repaired", &format!("fsck {}", image.display()));
        ends(&place, 0, "", "fsck -A -T -a");
        assert!(fs::read(&image).unwrap() == bytes, "{kind}: pass 0 is no check");
        fs::write(place.path("fstab"), line(kind, 2)).unwrap();
        ends(&place, 1, "1 repaired", "fsck -A -T -a");
        ends(&place, 0, "was closed and is not checked", "fsck -A -T -a");
    }
}

/// Returns the number of sectors of one FAT (BPB_FATSz32, at byte 36 of the boot sector).
fn fat_sectors(place: &Place) -> usize {
    let image = fs::read(place.path("v.img")).unwrap();
    u32::from_le_bytes(image[36..40].try_into().unwrap()) as usize
}
