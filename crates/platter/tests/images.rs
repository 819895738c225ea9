//! Volumes on disks in containers: every command takes them as it takes a raw image.

use crate::common::mount::Mount;
use crate::common::{Place, content};
use platter_images::{Container, MakeOptions};
use std::fs;

/// What a VHDX holds, as qemu-img reads it.
fn raw(place: &Place, image: &str, format: &str) {
    place.tool("qemu-img", &["convert", "-f", format, "-O", "raw", image, "raw.img"]);
}

#[test]
fn a_volume_on_a_new_container_is_made_written_and_read_by_others() {
    let place = Place::new("containers");
    fs::write(place.path("file"), content(3, 3_000_001)).unwrap();
    for (system, image, format) in [
        ("refs", "a.vhdx", "vhdx"),
        ("ntfs", "b.vhd", "vpc"),
        ("exfat", "c.VHDX", "vhdx"),
        ("fat32", "d.vhd", "vpc"),
        ("ntfs", "e.qcow2", "qcow2"),
    ] {
        place.works(&format!("mkfs {system} {image} --size 2G"));
        assert!(fs::metadata(place.path(image)).unwrap().len() < 1 << 30, "{image} grows as it is written");
        let info = place.json(&format!("info --json {image}"));
        assert_eq!(info["partitions"][0]["type"], "basic data", "{image}: {info}");
        let kinds = [("vhdx", "VHDX, dynamic"), ("vpc", "VHD, dynamic"), ("qcow2", "qcow2")];
        assert!(kinds.contains(&(format, info["container"].as_str().unwrap())), "{image}: {info}");
        place.works(&format!("cp file {image}:/file"));
        place.works(&format!("mkdir {image}@1:/directory"));
        assert_eq!(place.works(&format!("ls {image}")).lines().count(), 2);
        assert_eq!(place.platter(&format!("cat {image}:/file")).stdout, content(3, 3_000_001));
        place.works(&format!("check {image}"));
        if format != "vpc" {
            place.tool("qemu-img", &["check", "-q", image]);
        }
        raw(&place, image, format);
        place.tool("sfdisk", &["--verify", "raw.img"]);
        assert_eq!(place.platter("cat raw.img:/file").stdout, content(3, 3_000_001), "{image}");
        place.works("check raw.img");
        place.works(&format!("recover {image} out-{image}"));
        assert_eq!(fs::read(place.path(&format!("out-{image}/file"))).unwrap(), content(3, 3_000_001));
        fs::create_dir_all(place.path("m")).unwrap();
        place.works(&format!("mount {image} m"));
        fs::write(place.path("m/new"), "from a program").unwrap();
        place.works("umount m");
        assert_eq!(place.platter(&format!("cat {image}:/new")).stdout, b"from a program");
    }
}

#[test]
fn a_repair_on_a_container_can_be_taken_back() {
    let place = Place::new("container-undo");
    place.works("mkfs fat32 d.vhdx --size 64M");
    fs::write(place.path("file"), content(3, 100_001)).unwrap();
    place.works("cp file d.vhdx:/file");
    // In the first FAT.
    place.tool("qemu-io", &["-f", "vhdx", "-c", "write -q -P 8 1064960 512", "d.vhdx"]);
    raw(&place, "d.vhdx", "vhdx");
    let before = fs::read(place.path("raw.img")).unwrap();
    place.ends(4, "check d.vhdx");
    place.ends(1, "check --repair --undo u.undo d.vhdx");
    place.works("check d.vhdx");
    place.works("undo u.undo d.vhdx");
    raw(&place, "d.vhdx", "vhdx");
    assert!(fs::read(place.path("raw.img")).unwrap() == before);
    place.ends(1, "check --repair --undo v.undo d.vhdx");
    place.works("mkdir d.vhdx:/later");
    assert!(place.fails("undo v.undo d.vhdx").contains("written to after the changes"));
}

#[test]
fn a_container_is_a_device_of_the_lab_that_is_overwritten_with_force_alone() {
    let place = Place::new("lab");
    let run = "run overhead --target raw --span 1M --time 0.01 --repeat 1 --json --device";
    for (name, kind) in [("a.vhdx", "VHDX, dynamic"), ("b.vhd", "VHD, dynamic"), ("c.qcow2", "qcow2")] {
        // A new file with such a name becomes one; a second run finds the mark of the first.
        for _ in 0..2 {
            let report: serde_json::Value =
                serde_json::from_str(&place.works(&format!("{run} {name}"))).unwrap();
            let device = &report["environment"]["device"];
            assert_eq!(device["kind"], "image");
            let shown = device["name"].as_str().unwrap();
            assert!(shown.contains(kind), "{shown}");
        }
        place.works(&format!("mkfs exfat {name} --force"));
        let said = place.fails(&format!("{run} {name}"));
        assert!(said.contains("--force"), "{said}");
        assert!(place.works(&format!("info {name}")).contains("exFAT"));
        place.works(&format!("{run} {name} --force"));
        place.fails(&format!("info {name}@1"));
    }
    // An empty container is nobody's, and what the kernel must mount is none.
    place.tool("qemu-img", &["create", "-q", "-f", "vhdx", "e.vhdx", "64M"]);
    place.works(&format!("{run} e.vhdx"));
    place.tool("qemu-img", &["check", "-q", "-f", "vhdx", "e.vhdx"]);
    let refused = |line: String| {
        let output = place.platter(&line);
        assert!(!output.status.success(), "{line}");
        String::from_utf8(output.stderr).unwrap()
    };
    let said =
        refused("compare --targets ext4 --workloads overhead --span 1M --device e.vhdx --force".into());
    assert!(said.contains("the disk in a container is none"), "{said}");
    let said = refused(format!("{run} mirror:e.vhdx,n.img --force"));
    assert!(said.contains("in a container"), "{said}");
    assert!(refused(format!("{run} n.vmdk")).contains("qemu-img create -f vmdk"));
    assert!(refused(format!("{run} n.E01")).contains("which only programs make"));
    assert!(!place.path("n.vmdk").exists() && !place.path("n.E01").exists() && !place.path("n.img").exists());
    fs::write(place.path("s.001"), vec![0; 64 << 20]).unwrap();
    fs::write(place.path("s.002"), vec![0; 64 << 20]).unwrap();
    assert!(place.fails(&format!("{run} s.002")).contains("begins with"));
    assert!(place.works(&format!("{run} s.001")).contains("raw, in 2 files"));
}

#[test]
fn what_is_only_read_is_listed_copied_checked_and_recovered() {
    let place = Place::new("read-kinds");
    place.works("mkfs ntfs disk.raw --size 24M");
    fs::write(place.path("file"), content(3, 2_000_001)).unwrap();
    place.works("cp file disk.raw:/file");
    place.tool("qemu-img", &["convert", "-f", "raw", "-O", "vmdk", "disk.raw", "d.vmdk"]);
    let stream =
        ["convert", "-f", "raw", "-O", "vmdk", "-o", "subformat=streamOptimized", "disk.raw", "s.vmdk"];
    place.tool("qemu-img", &stream);
    let raw = place.path("disk.raw").display().to_string();
    place.tool("ewfacquire", &["-u", "-q", "-t", "e", "-S", "5M", &raw]);
    place.tool("split", &["-b", "8M", "-a", "3", "--numeric-suffixes=1", "disk.raw", "t."]);
    fs::create_dir(place.path("m")).unwrap();
    for name in ["d.vmdk", "s.vmdk", "e.E01", "t.001"] {
        let before = fs::read(place.path(name)).unwrap();
        assert!(place.works(&format!("ls {name}")).contains("file"), "{name}");
        assert!(place.platter(&format!("cat {name}:/file")).stdout == content(3, 2_000_001), "{name}");
        place.works(&format!("cp {name}:/file copy-{name}"));
        assert!(fs::read(place.path(&format!("copy-{name}"))).unwrap() == content(3, 2_000_001), "{name}");
        place.works(&format!("check {name}"));
        let to = format!("recovered-{name}");
        assert!(place.platter(&format!("recover {name} {to}")).status.success(), "{name}");
        place.works(&format!("mount {name} m -o ro"));
        assert!(fs::read(place.path("m/file")).unwrap() == content(3, 2_000_001), "{name}");
        assert!(fs::write(place.path("m/new"), "x").is_err(), "{name}");
        place.works("umount m");
        if name != "t.001" {
            for line in [
                format!("mkdir {name}:/x"),
                format!("check --repair --force {name}"),
                format!("rm {name}:/file"),
            ] {
                assert!(!place.platter(&line).status.success(), "{line}");
            }
            assert!(fs::read(place.path(name)).unwrap() == before, "{name}");
        }
    }
    place.works("mkfs refs+integrity refs.raw --size 352M");
    place.works("cp file refs.raw:/file");
    place.tool("qemu-img", &["convert", "-f", "raw", "-O", "vmdk", "refs.raw", "r.vmdk"]);
    place.works("scrub r.vmdk");
}

#[test]
fn a_disk_of_a_storage_pool_says_what_is_missing() {
    let place = Place::new("pool");
    place.tool("truncate", &["-s", "64M", "p.img"]);
    let script = "printf 'label: gpt\\ntype=E75CAF8F-F680-4CEE-AFA3-B001E56EFC2D\\n' | sfdisk -q p.img";
    place.tool("sh", &["-c", script]);
    let said = place.works("info p.img");
    assert!(said.contains("Storage Spaces") && said.contains("are not public"), "{said}");
}

#[test]
fn volumes_on_dynamic_disks_are_read_and_nothing_is_made_on_them() {
    use platter_images::making::{DATA, Made, disk, records};
    let place = Place::new("dynamic");
    place.works("mkfs exfat s.img --size 7M");
    fs::write(place.path("file"), content(3, 3_000_001)).unwrap();
    place.works("cp file s.img:/file");
    let volume = fs::read(place.path("s.img")).unwrap();
    // Stripes of 64 KiB on two disks.
    let (stripe, half) = (128, volume.len() as u64 / 1024);
    let parts = vec![(2, 100, 0, half, 0), (1, 300, 0, half, 1)];
    let made = [Made { size: 2 * half, components: vec![(1, Some(stripe), parts)] }];
    let records = records(2, &made);
    let mut data = [(); 2].map(|()| vec![0; DATA as usize * 512]);
    for (number, bytes) in volume.chunks(64 << 10).enumerate() {
        let (column, row) = (number % 2, number / 2);
        let at = [100, 300][column] * 512 + row * (64 << 10);
        data[1 - column][at..at + bytes.len()].copy_from_slice(bytes);
    }
    fs::write(place.path("d1"), disk(1, &data[0], &records)).unwrap();
    fs::write(place.path("d2"), disk(2, &data[1], &records)).unwrap();
    // In a container too.
    place.tool("qemu-img", &["convert", "-O", "vhdx", "-f", "raw", "d2", "d2.vhdx"]);
    let seen = place.platter("cat dynamic:d1,d2.vhdx@1:/file");
    assert!(seen.stdout == content(3, 3_000_001), "{}", String::from_utf8_lossy(&seen.stderr));
    place.works("check dynamic:d2.vhdx,d1");
    place.works("check dynamic:d2,d1@1");
    let said = place.works("info dynamic:d1,d2");
    assert!(said.contains("volume 1: Volume1, striped") && said.contains("exFAT"), "{said}");
    let said = place.works("info d1");
    assert!(said.contains("without Disk2") && said.contains("Disk2 {06060606-"), "{said}");
    assert!(place.fails("ls d1").contains("lacks Disk2"));
    let before = [fs::read(place.path("d1")).unwrap(), fs::read(place.path("d2")).unwrap()];
    for line in
        ["mkfs exfat dynamic:d1,d2 --force", "mkdir dynamic:d1,d2:/x", "mkfs exfat d1", "mkdir d1@1:/x"]
    {
        place.fails(line);
    }
    let line = "run overhead --target raw --span 1M --time 0.01 --repeat 1 --device dynamic:d1,d2 --force";
    assert!(!place.platter(line).status.success());
    assert!(before == [fs::read(place.path("d1")).unwrap(), fs::read(place.path("d2")).unwrap()]);
    // A dynamic disk with damaged headers is no disk without volumes.
    let mut damaged = before[0].clone();
    let copies: Vec<usize> =
        (0..damaged.len()).step_by(512).filter(|&at| damaged[at..].starts_with(b"PRIVHEAD")).collect();
    assert_eq!(copies.len(), 3);
    copies.iter().for_each(|at| damaged[at + 0x30] ^= 1);
    fs::write(place.path("d3"), damaged).unwrap();
    let said = place.fails("ls d3");
    assert!(said.contains("the private header of a dynamic disk at offset 3072"), "{said}");
}

#[test]
fn what_is_in_a_container_is_overwritten_with_force_alone() {
    let place = Place::new("container-refusals");
    place.works("mkfs ntfs d.vhdx --size 64M");
    let before = fs::read(place.path("d.vhdx")).unwrap();
    for line in
        ["mkfs exfat d.vhdx", "mkfs exfat d.vhdx@1", "mkfs exfat d.vhdx --size 64M", "mkfs exfat d.vhdx@2"]
    {
        place.fails(line);
        assert!(fs::read(place.path("d.vhdx")).unwrap() == before, "{line}");
    }
    place.works("mkfs exfat d.vhdx@1 --force");
    place.works("mkfs fat32 d.vhdx --force");
    assert!(place.works("info d.vhdx").contains("FAT32"));
    // An empty container is nobody's.
    place.tool("qemu-img", &["create", "-q", "-f", "vhdx", "e.vhdx", "64M"]);
    place.works("mkfs ntfs e.vhdx");
    assert!(place.works("info e.vhdx").contains("basic data"));
    // What is no volume is not overwritten by joining a mirror either.
    place.works("mkfs exfat m.img --size 64M");
    let mut film = vec![0; 64 << 20];
    fs::write(place.path("blank"), &film).unwrap();
    film[5 << 20] = 1;
    fs::write(place.path("film"), &film).unwrap();
    assert!(place.fails("mirror add mirror:m.img film").contains("holds data"));
}

#[test]
fn evidence_is_read_and_verified_and_never_written_to() {
    let place = Place::new("evidence");
    place.works("mkfs ntfs disk.raw --size 24M");
    fs::write(place.path("file"), content(3, 1_000_001)).unwrap();
    place.works("cp file disk.raw:/file");
    let raw = place.path("disk.raw").display().to_string();
    place.tool("ewfacquire", &["-u", "-q", "-t", "e", "-d", "sha1", "-S", "1048576", &raw]);
    let before: Vec<_> = ["e.E01", "e.E02"].map(|name| fs::read(place.path(name)).unwrap()).into();
    assert_eq!(place.platter("cat e.E01:/file").stdout, content(3, 1_000_001));
    assert!(place.works("info e.E01").contains("E01 evidence, in "));
    let said = place.works("check --data e.E01");
    assert!(said.contains("the MD5 of the disk is the one stored") && said.contains("SHA-1"), "{said}");
    for line in ["mkdir e.E01:/x", "mkfs exfat e.E01 --force", "mkfs exfat e.E02 --size 9M --force"] {
        let said = place.fails(line);
        assert!(said.contains("never written to") || said.contains("is not written to"), "{line}: {said}");
    }
    place.ends(8, "check --repair e.E01");
    for (name, before) in ["e.E01", "e.E02"].iter().zip(&before) {
        assert!(fs::read(place.path(name)).unwrap() == *before, "{name}");
    }
    // A hash that is not that of the disk.
    let last =
        fs::read_dir(place.path("")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let last = last.filter(|name| name.starts_with("e.E")).max().unwrap();
    let mut changed = fs::read(place.path(&last)).unwrap();
    for (kind, length) in [(&b"digest\0"[..], 80), (b"hash\0", 36)] {
        let at = changed.windows(16).position(|name| name.starts_with(kind)).unwrap() + 76;
        changed[at] ^= 1;
        let sum = adler(&changed[at..at + length - 4]);
        changed[at + length - 4..at + length].copy_from_slice(&sum.to_le_bytes());
    }
    fs::write(place.path(&last), changed).unwrap();
    place.ends(4, "check --data e.E01");
    fs::remove_file(place.path("e.E02")).unwrap();
    let said = place.fails("ls e.E01");
    assert!(said.contains("e.E02: is missing: it is segment 2"), "{said}");
    // What is packed as a whole names the command that unpacks it.
    place.tool("gzip", &["-k", "disk.raw"]);
    assert!(place.fails("ls disk.raw.gz").contains("which `gunzip -k` unpacks"));
}

/// The checksum of RFC 1950.
fn adler(bytes: &[u8]) -> u32 {
    let (mut one, mut two) = (1_u32, 0_u32);
    for byte in bytes {
        one = (one + u32::from(*byte)) % 65521;
        two = (two + one) % 65521;
    }
    two << 16 | one
}

#[test]
fn compressed_qcow2_and_its_child_are_read_and_the_child_is_written_to() {
    let place = Place::new("qcow2");
    place.works("mkfs refs d.qcow2 --size 4G");
    fs::write(place.path("file"), content(3, 3_000_001)).unwrap();
    place.works("cp file d.qcow2:/file");
    place.tool(
        "qemu-img",
        &["convert", "-c", "-O", "qcow2", "-o", "compression_type=zstd", "d.qcow2", "base.qcow2"],
    );
    assert!(place.fails("mkdir base.qcow2:/x").contains("has compressed clusters"));
    place
        .tool("qemu-img", &["create", "-q", "-f", "qcow2", "-b", "base.qcow2", "-F", "qcow2", "child.qcow2"]);
    let before = fs::read(place.path("base.qcow2")).unwrap();
    place.works("mkdir child.qcow2:/later");
    place.works("check --data child.qcow2");
    place.tool("qemu-img", &["check", "-q", "child.qcow2"]);
    assert_eq!(place.platter("cat child.qcow2:/file").stdout, content(3, 3_000_001));
    assert_eq!(place.works("ls child.qcow2").lines().count(), 2);
    assert!(fs::read(place.path("base.qcow2")).unwrap() == before);
}

#[test]
fn a_split_image_is_one_disk_and_no_part_of_it_is_overwritten() {
    let place = Place::new("split");
    place.works("mkfs ntfs s.img --size 20M");
    fs::write(place.path("file"), content(3, 9_000_001)).unwrap();
    place.works("cp file s.img:/file");
    place.tool("split", &["-b", "8M", "-a", "3", "--numeric-suffixes=1", "s.img", "t."]);
    assert_eq!(place.platter("cat t.001:/file").stdout, content(3, 9_000_001));
    place.works("mkdir t.001:/directory");
    place.works("check t.001");
    assert!(place.works("info t.001").contains("raw, in 3 files"));
    // A part may be blank all the same.
    fs::write(place.path("t.003"), vec![0; 4 << 20]).unwrap();
    for line in ["mkfs exfat t.001", "mkfs exfat t.002", "mkfs exfat t.003"] {
        assert!(place.fails(line).contains("--force"), "{line}");
    }
    fs::remove_file(place.path("t.002")).unwrap();
    assert!(place.fails("ls t.001").contains("t.002: is missing"));
}

/// 10,000 random changes through a mount on each kind of image that is written to; qemu-img, or the parts one after the other,
/// then have a volume without damage with the same content.
#[test]
#[ignore = "a campaign"]
fn campaign_of_changes_through_mounts_on_images() {
    let seed = std::env::var("PLATTER_SEED").map_or(5, |seed| seed.parse().unwrap());
    println!("PLATTER_SEED={seed}");
    for image in
        ["a.vhdx", "fixed.vhdx", "child.vhdx", "a.vhd", "child.vhd", "a.qcow2", "child.qcow2", "t.001"]
    {
        for format in ["ntfs", "refs"] {
            changed(image, format, seed);
            println!("{image}, {format}");
        }
    }
}

/// Makes an image with a volume; a child has the volume from its parent.
fn made(place: &Place, image: &str, format: &str) {
    const SIZE: u64 = 384 << 20;
    let (name, ending) = image.rsplit_once('.').unwrap();
    let container = match ending {
        "vhdx" => Container::Vhdx,
        "vhd" => Container::Vhd,
        _ => Container::Qcow2,
    };
    let options = MakeOptions { is_fixed: name == "fixed", ..MakeOptions::new(container, SIZE) };
    match (name, ending) {
        (_, "001") => {
            place.works(&format!("mkfs {format} disk.raw --size 384M"));
            place.tool("split", &["-b", "100M", "-a", "3", "--numeric-suffixes=1", "disk.raw", "t."]);
        }
        ("child", ending) => {
            let parent = format!("parent.{ending}");
            place.works(&format!("mkfs {format} {parent} --size 384M"));
            if container == Container::Qcow2 {
                let create = ["create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", &parent, image];
                place.tool("qemu-img", &create);
                return;
            }
            let parent = Some(place.path(&parent));
            platter_images::make(&place.path(image), &MakeOptions { parent, ..options }).unwrap();
        }
        _ => {
            platter_images::make(&place.path(image), &options).unwrap();
            place.works(&format!("mkfs {format} {image}"));
        }
    }
}

fn changed(image: &'static str, format: &str, seed: u64) {
    let place = Place::new("image-campaign");
    made(&place, image, format);
    fs::create_dir(place.path("m")).unwrap();
    let mount = Mount { place, format: format.into(), source: image };
    mount.mount("");
    mount.exercise(10_000, seed);
    let content = fs::read(mount.at("file")).unwrap();
    mount.end();
    let place = &mount.place;
    match image.rsplit('.').next().unwrap() {
        "001" => drop(place.tool("sh", &["-ec", "cat t.??? > raw.img"])),
        // qemu-img knows no VHD and no VHDX with a parent.
        "vhd" | "vhdx" if image.starts_with("child") => return,
        "vhd" => raw(place, image, "vpc"),
        kind => raw(place, image, kind),
    }
    place.works("check raw.img");
    assert!(place.platter("cat raw.img:/file").stdout == content, "{image}, {format}");
}
