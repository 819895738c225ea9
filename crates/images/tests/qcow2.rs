//! qcow2 images of qemu-img: read, written to where that is safe, and refused with a reason elsewhere.

use crate::common::{Folder, Random, change, compare, content, open, refused, same};
use platter_device::{Device, FileOptions};
use platter_images::{Container, MakeOptions, make};
use std::fs;
use std::sync::Arc;

/// A disk of which parts are written, some of them so that they can be compressed.
fn disk(random: &mut Random) -> Vec<u8> {
    let mut disk = vec![0; (1 + random.below(24 << 11) as usize) << 9];
    for _ in 0..12 {
        let at = random.below(disk.len() as u64) as usize;
        let length = (random.below(1 << 20) as usize).min(disk.len() - at);
        match random.below(2) {
            0 => disk[at..at + length].copy_from_slice(&random.bytes(length)),
            _ => (0..length).for_each(|number| disk[at + number] = (number / 9) as u8),
        }
    }
    disk
}

/// Writes to an image at random, and has qemu-img read and check what became of it.
fn written(folder: &Folder, random: &mut Random, model: &mut [u8], what: &str) {
    let device = open(&folder.path("disk"), false);
    assert_eq!(device.why_read_only(), None, "{what}");
    for _ in 0..16 {
        change(random, &*device, model);
        compare(random, &*device, model, what);
    }
    drop(device);
    folder.tool("qemu-img", &["check", "-q", "-f", "qcow2", "disk"]);
    folder.tool("qemu-img", &["convert", "-f", "qcow2", "-O", "raw", "disk", "after"]);
    same(&fs::read(folder.path("after")).unwrap(), model, what);
}

/// An image that qemu-img makes.
fn theirs(seed: u64) {
    let mut random = Random(seed);
    let mut model = disk(&mut random);
    let folder = Folder::new("qcow2");
    fs::write(folder.path("raw"), &model).unwrap();
    let compression = [None, None, Some("zlib"), Some("zstd")][random.below(4) as usize];
    let is_old = compression != Some("zstd") && random.below(4) == 0;
    let cluster = 512 << random.below(13);
    let mut options = format!("cluster_size={cluster},compat={}", if is_old { "0.10" } else { "1.1" });
    if !is_old {
        options += &format!(",refcount_bits={}", 1 << random.below(7));
    }
    let mut arguments = vec!["convert", "-f", "raw", "-O", "qcow2"];
    match compression {
        Some(kind) => {
            arguments.push("-c");
            if !is_old {
                options += &format!(",compression_type={kind}");
            }
        }
        None => {
            let kind = ["off", "metadata", "falloc", "full"][random.below(4) as usize];
            options += &format!(",preallocation={kind}");
        }
    }
    folder.tool("qemu-img", &[&arguments[..], &["-o", &options, "raw", "disk"]].concat());
    let what = format!("seed {seed}, {options}");
    let device = open(&folder.path("disk"), true);
    same(&content(&*device), &model, &what);
    (0..10).for_each(|_| compare(&mut random, &*device, &model, &what));
    drop(device);
    let device = open(&folder.path("disk"), false);
    let why = device.why_read_only();
    drop(device);
    match compression {
        None => written(&folder, &mut random, &mut model, &what),
        // Nothing of it was worth compressing, or it is read and no more.
        Some(_) => assert!(why.is_none_or(|why| why.contains("compressed clusters")), "{what}"),
    }
}

#[test]
fn images_of_qemu_are_read_and_written() {
    (0..12).for_each(theirs);
}

/// A chain of images over one that is raw or compressed: all are read, the last is written to.
fn chain(seed: u64) {
    let mut random = Random(seed);
    let folder = Folder::new("qcow2-chain");
    let mut model = disk(&mut random);
    fs::write(folder.path("raw"), &model).unwrap();
    let mut base = ("raw", "raw");
    if random.below(2) == 0 {
        let kind = format!("compression_type={}", ["zlib", "zstd"][random.below(2) as usize]);
        folder.tool("qemu-img", &["convert", "-c", "-O", "qcow2", "-o", &kind, "-f", "raw", "raw", "base"]);
        base = ("base", "qcow2");
    }
    let before = fs::read(folder.path(base.0)).unwrap();
    // The disk may have become longer since.
    let longer = model.len() as u64 + random.below(3) * 512 * 999;
    model.resize(longer as usize, 0);
    let options = format!("cluster_size={}", 4096 << random.below(8));
    let create = |name: &str, (base, format): (&str, &str)| {
        let size = longer.to_string();
        folder.tool(
            "qemu-img",
            &["create", "-q", "-f", "qcow2", "-o", &options, "-b", base, "-F", format, name, &size],
        );
    };
    create("middle", base);
    let what = format!("seed {seed}, {base:?}, {options}");
    for number in 0..6 {
        let (at, length) = random.range(longer, 512, 1 << 20);
        model[at as usize..][..length].fill(number + 1);
        let mut command = format!("write -q -P {} {at} {length}", number + 1);
        if number == 5 {
            model[at as usize..][..length].fill(0);
            command = format!("write -q -z {at} {length}");
        }
        folder.tool("qemu-io", &["-f", "qcow2", "-c", &command, "middle"]);
    }
    same(&content(&*open(&folder.path("middle"), true)), &model, &what);
    create("disk", ("middle", "qcow2"));
    let middle = fs::read(folder.path("middle")).unwrap();
    written(&folder, &mut random, &mut model, &what);
    assert!(fs::read(folder.path(base.0)).unwrap() == before, "{what}: the base");
    assert!(fs::read(folder.path("middle")).unwrap() == middle, "{what}: the middle");
}

#[test]
fn backing_files_are_followed_and_left_alone() {
    (0..4).for_each(chain);
}

#[test]
#[ignore = "a campaign"]
fn campaign_of_qcow2() {
    let seed = std::env::var("PLATTER_SEED").map_or(1 << 20, |seed| seed.parse().unwrap());
    for seed in seed..seed + 200 {
        println!("PLATTER_SEED={seed}");
        theirs(seed);
        chain(seed);
    }
}

/// Opens for writing, and returns why it is not written to.
fn why(folder: &Folder, name: &str) -> String {
    open(&folder.path(name), false).why_read_only().unwrap_or_default()
}

#[test]
fn what_cannot_be_written_to_safely_is_read_and_says_why() {
    let folder = Folder::new("qcow2-why");
    let create = |options: &str, name: &str| {
        folder.tool("qemu-img", &["create", "-q", "-f", "qcow2", "-o", options, name, "8M"]);
        folder.tool("qemu-io", &["-f", "qcow2", "-c", "write -q -P 7 1M 1M", name]);
    };
    create("cluster_size=64k", "snapshot");
    folder.tool("qemu-img", &["snapshot", "-c", "one", "snapshot"]);
    assert_eq!(why(&folder, "snapshot"), "it is a qcow2 image that has 1 snapshots of QEMU in it");
    let device = open(&folder.path("snapshot"), false);
    assert!(device.write_at(0, &[1; 512]).is_err());
    let mut found = [0; 512];
    device.read_at(1 << 20, &mut found).unwrap();
    assert_eq!(found, [7; 512]);
    drop(device);
    create("lazy_refcounts=on", "dirty");
    let with = |name: &str, at: usize, bytes: &[u8]| {
        let mut image = fs::read(folder.path(name)).unwrap();
        image[at..at + bytes.len()].copy_from_slice(bytes);
        fs::write(folder.path("changed"), image).unwrap();
    };
    with("dirty", 79, &[1]);
    assert!(why(&folder, "changed").contains("was not closed"));
    with("dirty", 79, &[2]);
    assert!(why(&folder, "changed").contains("is marked as damaged"));
    with("dirty", 79, &[4]);
    assert!(refused(&folder.path("changed")).contains("keeps its data in another file"));
    with("dirty", 78, &[1]);
    assert!(refused(&folder.path("changed")).contains("features that are not known here, 0x100"));
    with("dirty", 35, &[2]);
    assert!(refused(&folder.path("changed")).contains("is encrypted by QEMU"));
    create("extended_l2=on", "extended");
    assert!(refused(&folder.path("extended")).contains("has subclusters"));
    // Two clusters of the disk in one of the file.
    create("cluster_size=64k", "plain");
    let image = fs::read(folder.path("plain")).unwrap();
    let number = |at: usize| u64::from_be_bytes(image[at..at + 8].try_into().unwrap());
    let table = (number(number(40) as usize) & 0xFF_FFFF_FFFF_FE00) as usize;
    with("plain", table, &number(table + 16 * 8).to_be_bytes());
    assert!(why(&folder, "changed").contains("more than one thing is in the cluster at offset"));
}

#[test]
fn a_cluster_outside_the_file_is_an_error_and_no_zeroes() {
    let folder = Folder::new("qcow2-outside");
    for compressed in [false, true] {
        let mut random = Random(3);
        let mut disk = vec![0; 4 << 20];
        disk[1 << 20..2 << 20].copy_from_slice(&random.bytes(1 << 20));
        (0..1 << 20).for_each(|at| disk[(2 << 20) + at] = (at / 3000) as u8);
        fs::write(folder.path("raw"), &disk).unwrap();
        let how = if compressed { &["convert", "-c"][..] } else { &["convert"] };
        folder.tool("qemu-img", &[how, &["-f", "raw", "-O", "qcow2", "raw", "disk"]].concat());
        same(&content(&*open(&folder.path("disk"), true)), &disk, "whole");
        let image = fs::read(folder.path("disk")).unwrap();
        for part in [image.len() / 2, image.len() * 3 / 4, image.len() - (128 << 10)] {
            fs::write(folder.path("cut"), &image[..part]).unwrap();
            let Ok(image) = platter_images::open(
                &folder.path("cut"),
                FileOptions { read_only: true, ..FileOptions::default() },
            ) else {
                continue;
            };
            let mut wrong = 0;
            for at in (0..4 << 20).step_by(65536) {
                let mut found = vec![0; 65536];
                match image.device.read_at(at as u64, &mut found) {
                    Ok(()) => same(&found, &disk[at..at + 65536], "a part"),
                    Err(error) => {
                        let said = error.to_string();
                        assert!(said.contains("cut: the") && said.contains("offset"), "{said}");
                        wrong += 1;
                    }
                }
            }
            assert!(wrong > 0, "{part} bytes are enough");
        }
    }
}

#[test]
fn backing_files_are_read_from_the_directory_of_the_image_only() {
    let (folder, elsewhere) = (Folder::new("qcow2-backing"), Folder::new("elsewhere"));
    fs::write(elsewhere.path("base"), vec![7; 1 << 20]).unwrap();
    let base = elsewhere.path("base").display().to_string();
    folder.tool("qemu-img", &["create", "-q", "-f", "qcow2", "-b", &base, "-F", "raw", "disk"]);
    let said = refused(&folder.path("disk"));
    assert!(said.contains(&base) && said.contains("not beside it"), "{said}");
    std::os::unix::fs::symlink(&base, folder.path("base")).unwrap();
    assert!(content(&*open(&folder.path("disk"), true)).iter().all(|&byte| byte == 7));
    // What it says is raw is not looked into, and what has no whole sectors would be read in part.
    make(&elsewhere.path("inner"), &MakeOptions::new(Container::Qcow2, 1 << 20)).unwrap();
    fs::remove_file(folder.path("base")).unwrap();
    fs::copy(elsewhere.path("inner"), folder.path("base")).unwrap();
    assert_eq!(content(&*open(&folder.path("disk"), true))[..4], *b"QFI\xFB");
    fs::write(folder.path("base"), vec![7; 1000]).unwrap();
    assert!(refused(&folder.path("disk")).contains("1000 bytes, which are not whole sectors"));
    // An image that is its own base.
    let create = ["create", "-q", "-u", "-f", "qcow2", "-b", "self", "-F", "qcow2", "other", "1M"];
    folder.tool("qemu-img", &create);
    fs::rename(folder.path("other"), folder.path("self")).unwrap();
    assert!(refused(&folder.path("self")).contains("its own parent"));
}

/// Bits by which others know that what they keep beside the disk is up to date are cleared by the first write.
#[test]
fn bitmaps_of_changes_are_no_longer_trusted_after_a_write() {
    let folder = Folder::new("qcow2-bitmaps");
    folder.tool("qemu-img", &["create", "-q", "-f", "qcow2", "disk", "8M"]);
    folder.tool("qemu-img", &["bitmap", "--add", "disk", "one"]);
    assert_eq!(fs::read(folder.path("disk")).unwrap()[95], 1);
    let device: Arc<dyn Device> = open(&folder.path("disk"), false);
    assert_eq!(fs::read(folder.path("disk")).unwrap()[95], 1);
    device.write_at(0, &[1; 512]).unwrap();
    drop(device);
    assert_eq!(fs::read(folder.path("disk")).unwrap()[95], 0);
}
