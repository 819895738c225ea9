//! VMDK of qemu-img: every form is read, none is written to, and what is missing is an error.

use crate::common::{Folder, Random, compare, content, open, refused, same};
use std::fs;

/// A disk of a form that the seed decides, and so many reads at random.
fn theirs(seed: u64, reads: u64) {
    let mut random = Random(seed);
    let mut model = vec![0; (1 + random.below(24 << 11) as usize) << 9];
    for _ in 0..10 {
        let at = random.below(model.len() as u64) as usize;
        let length = (random.below(1 << 20) as usize).min(model.len() - at);
        match random.below(2) {
            0 => model[at..at + length].copy_from_slice(&random.bytes(length)),
            _ => model[at..at + length].fill(random.next() as u8),
        }
    }
    let folder = Folder::new("vmdk");
    fs::write(folder.path("raw"), &model).unwrap();
    let kinds = [
        "monolithicSparse",
        "monolithicFlat",
        "twoGbMaxExtentSparse",
        "twoGbMaxExtentFlat",
        "streamOptimized",
    ];
    let kind = kinds[seed as usize % kinds.len()];
    let mut options = format!("subformat={kind}");
    if !kind.ends_with("Flat") && random.below(2) == 0 {
        options += ",zeroed_grain=on";
    }
    let what = format!("seed {seed}, {options}, {} bytes", model.len());
    folder.tool("qemu-img", &["convert", "-f", "raw", "-O", "vmdk", "-o", &options, "raw", "disk.vmdk"]);
    let device = open(&folder.path("disk.vmdk"), true);
    same(&content(&*device), &model, &what);
    (0..reads).for_each(|_| compare(&mut random, &*device, &model, &what));
    drop(device);
    let device = open(&folder.path("disk.vmdk"), false);
    assert!(device.why_read_only().unwrap().contains("is only read"), "{what}");
    assert!(device.write_at(0, &[1; 512]).is_err() && device.discard(0, 512).is_err(), "{what}");
}

#[test]
fn disks_of_every_form_are_read() {
    (0..10).for_each(|seed| theirs(seed, 10));
}

#[test]
#[ignore = "a campaign"]
fn campaign_of_vmdk() {
    let seed = std::env::var("PLATTER_SEED").map_or(1 << 20, |seed| seed.parse().unwrap());
    for seed in seed..seed + 20 {
        println!("PLATTER_SEED={seed}");
        theirs(seed, 10_000);
    }
}

#[test]
fn a_missing_extent_a_cut_off_file_and_an_extent_alone_are_errors() {
    let folder = Folder::new("vmdk-damage");
    let disk = Random(3).bytes(3 << 20);
    fs::write(folder.path("raw"), &disk).unwrap();
    let make = |kind: &str| {
        let options = format!("subformat={kind}");
        folder.tool("qemu-img", &["convert", "-f", "raw", "-O", "vmdk", "-o", &options, "raw", "disk.vmdk"]);
    };
    make("monolithicFlat");
    let flat = folder.path("disk-flat.vmdk");
    fs::File::options().write(true).open(&flat).unwrap().set_len(1 << 20).unwrap();
    assert!(refused(&folder.path("disk.vmdk")).contains("disk-flat.vmdk: ends after 1048576 bytes"));
    fs::remove_file(&flat).unwrap();
    assert!(refused(&folder.path("disk.vmdk")).contains("disk-flat.vmdk: is missing: it is extent 1 of"));
    make("twoGbMaxExtentSparse");
    assert!(refused(&folder.path("disk-s001.vmdk")).contains("is an extent of a VMDK: name the descriptor"));
    for kind in ["monolithicSparse", "streamOptimized"] {
        make(kind);
        let image = fs::read(folder.path("disk.vmdk")).unwrap();
        for part in [image.len() / 3, image.len() - (200 << 10), image.len() - 1024] {
            fs::write(folder.path("cut.vmdk"), &image[..part]).unwrap();
            let options = platter_device::FileOptions { read_only: true, ..Default::default() };
            match platter_images::open(&folder.path("cut.vmdk"), options) {
                Err(error) => assert!(error.to_string().contains("offset"), "{error}"),
                Ok(image) => {
                    let error = image.device.read_at(0, &mut vec![0; 3 << 20]).unwrap_err().to_string();
                    assert!(error.contains("cut.vmdk: the") && error.contains("offset"), "{error}");
                }
            }
        }
    }
    folder.tool("qemu-img", &["create", "-q", "-f", "vmdk", "-b", "disk.vmdk", "-F", "vmdk", "child.vmdk"]);
    assert!(refused(&folder.path("child.vmdk")).contains("has a parent, which is not supported"));
}
