//! Containers whose fields lie: errors that say what is wrong, and nothing of theirs decides how much is read.

use crate::common::{Folder, Random, content, open, refused};
use platter_device::{FileOptions, MemoryDevice, Sectors};
use platter_images::fuzzing::{GrowingDevice, open_on};
use platter_images::{Container, MakeOptions, make};
use std::sync::Arc;

fn vhdx(folder: &Folder) -> Vec<u8> {
    let path = folder.path("disk.vhdx");
    make(&path, &MakeOptions { block: Some(1 << 20), ..MakeOptions::new(Container::Vhdx, 8 << 20) }).unwrap();
    open(&path, false).write_at(1 << 20, &[7; 4096]).unwrap();
    std::fs::read(path).unwrap()
}

/// The table of the disks that are made here begins after 3 MiB.
const TABLE: usize = 3 << 20;

#[test]
fn an_entry_that_leads_out_of_the_file_is_an_error_and_no_zeroes() {
    let folder = Folder::new("outside");
    let mut image = vhdx(&folder);
    let end = image.len() as u64;
    let path = folder.path("disk.vhdx");
    image[TABLE + 8..TABLE + 16].copy_from_slice(&(end | 6).to_le_bytes());
    std::fs::write(&path, &image).unwrap();
    let device = open(&path, true);
    let error = device.read_at(1 << 20, &mut [0; 512]).unwrap_err().to_string();
    assert!(
        error.contains("block 1") && error.contains("inside the file's") && error.contains("3145736"),
        "{error}"
    );
    device.read_at(0, &mut [0; 512]).unwrap();
    drop(device);
    // A write elsewhere would put a new block where this entry leads.
    assert!(platter_images::open(&path, FileOptions::default()).is_err());
    // Two blocks in one place.
    image[TABLE + 8..TABLE + 16].copy_from_slice(&((4 << 20) + 6_u64).to_le_bytes());
    image[TABLE + 16..TABLE + 24].copy_from_slice(&((4 << 20) + 6_u64).to_le_bytes());
    std::fs::write(&path, &image).unwrap();
    content(&*open(&path, true));
    let error = platter_images::open(&path, FileOptions::default()).err().unwrap().to_string();
    assert!(error.contains("block 1 and block 2"), "{error}");
    // A block in the place of the metadata.
    image[TABLE + 16..TABLE + 24].copy_from_slice(&((2 << 20) + 6_u64).to_le_bytes());
    std::fs::write(&path, &image).unwrap();
    assert!(platter_images::open(&path, FileOptions::default()).is_err());
    // Cut off in the middle of the block.
    let image = vhdx(&Folder::new("cut"));
    std::fs::write(&path, &image[..image.len() - 4096]).unwrap();
    assert!(open(&path, true).read_at(1 << 20, &mut [0; 512]).is_err());
}

#[test]
fn one_copy_of_each_structure_is_enough() {
    let folder = Folder::new("copies");
    let image = vhdx(&folder);
    let path = folder.path("disk.vhdx");
    let with = |places: &[usize]| {
        let mut image = image.clone();
        places.iter().for_each(|&place| image[place + 100] ^= 1);
        std::fs::write(&path, &image).unwrap();
    };
    for places in [&[64 << 10][..], &[128 << 10], &[192 << 10], &[256 << 10]] {
        with(places);
        let mut found = [0; 512];
        open(&path, true).read_at(1 << 20, &mut found).unwrap();
        assert_eq!(found, [7; 512]);
    }
    with(&[64 << 10, 128 << 10]);
    assert!(refused(&path).contains("the header at offset 65536 is damaged: expected the checksum"));
    with(&[192 << 10, 256 << 10]);
    assert!(refused(&path).contains("the table of regions at offset 196608"));
}

#[test]
fn parents_are_read_from_the_directory_of_the_image_only() {
    for container in [Container::Vhdx, Container::Vhd] {
        let folder = Folder::new("parents");
        let elsewhere = Folder::new("elsewhere");
        let mut options = MakeOptions { block: Some(1 << 20), ..MakeOptions::new(container, 4 << 20) };
        make(&folder.path("base"), &options).unwrap();
        options.parent = Some(folder.path("base"));
        make(&folder.path("child"), &options).unwrap();
        open(&folder.path("child"), true);
        assert!(make(&elsewhere.path("child"), &options).is_err(), "a parent in another directory");
        std::fs::rename(folder.path("base"), elsewhere.path("base")).unwrap();
        let error = refused(&folder.path("child"));
        assert!(error.contains("base") && error.contains("not beside it"), "{error}");
        // A link is the user's word.
        std::os::unix::fs::symlink(elsewhere.path("base"), folder.path("base")).unwrap();
        open(&folder.path("child"), true);
        // Another disk of that name is not the parent.
        std::fs::remove_file(folder.path("base")).unwrap();
        options.parent = None;
        make(&folder.path("base"), &options).unwrap();
        let error = refused(&folder.path("child"));
        assert!(error.contains("is not the parent that it was made from"), "{error}");
        // The image itself under its parent's name.
        std::fs::remove_file(folder.path("base")).unwrap();
        std::os::unix::fs::symlink(folder.path("child"), folder.path("base")).unwrap();
        let error = refused(&folder.path("child"));
        assert!(error.contains("its own parent"), "{error}");
        // A file of another kind.
        std::fs::remove_file(folder.path("base")).unwrap();
        std::fs::write(folder.path("base"), [1; 4096]).unwrap();
        let error = refused(&folder.path("child"));
        assert!(error.contains("and is none itself"), "{error}");
    }
}

#[test]
fn any_change_of_a_structure_is_an_error_or_is_read() {
    let mut random = Random(9);
    for container in [Container::Vhdx, Container::Vhd] {
        let folder = Folder::new("changed");
        let path = folder.path("disk");
        make(&path, &MakeOptions { block: Some(1 << 20), ..MakeOptions::new(container, 4 << 20) }).unwrap();
        open(&path, false).write_at(0, &[7; 4096]).unwrap();
        let image = std::fs::read(path).unwrap();
        let places: &[(usize, usize)] = match container {
            Container::Vhdx => &[
                (0, 8),
                (64 << 10, 80),
                (128 << 10, 80),
                (2 << 20, 256),
                ((2 << 20) + (64 << 10), 80),
                (TABLE, 40),
            ],
            _ => &[(0, 84), (512, 600), (1536, 32)],
        };
        for round in 0..400 {
            let mut changed = image.clone();
            for _ in 0..1 + random.below(3) {
                let (start, length) = places[random.below(places.len() as u64) as usize];
                let at = start + random.below(length as u64) as usize;
                changed[at] = random.next() as u8;
            }
            let memory = Arc::new(MemoryDevice::from_image(&changed, Sectors::SMALL));
            // The end of a VHD has another footer, which stays.
            let length = if round % 2 == 0 { changed.len() } else { changed.len() - 512 };
            for read_only in [true, false] {
                let file = Arc::new(GrowingDevice::new(memory.clone(), length as u64));
                let Ok(device) = open_on(file, container, read_only) else { continue };
                let _ = device.read_at(0, &mut vec![0; 4096.min(device.len()) as usize / 4096 * 4096]);
                let _ = device.next_data(0);
            }
        }
    }
}

/// Every kept input of the fuzzer, and many that differ from it in a few bytes.
#[test]
fn kept_containers_are_opened_without_a_panic() {
    use platter_images::fuzzing::{container, disk_group, image};
    let mut random = Random(77);
    type Target<'t> = (&'t str, &'t dyn Fn(&[u8]));
    let targets: [Target<'_>; 5] = [
        ("container", &container),
        ("qcow2", &|bytes| image(Container::Qcow2, bytes)),
        ("vmdk", &|bytes| image(Container::Vmdk, bytes)),
        ("evidence", &|bytes| image(Container::E01, bytes)),
        ("dynamic_disk", &disk_group),
    ];
    for (name, open) in targets {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
        let inputs: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(!inputs.is_empty());
        for input in inputs {
            let bytes = std::fs::read(input).unwrap();
            open(&bytes);
            for _ in 0..rounds() {
                let mut changed = bytes.clone();
                for _ in 0..1 + random.below(4) {
                    let at = random.below(changed.len() as u64) as usize;
                    changed[at] =
                        [random.next() as u8, 0, 0xFF, 1 << random.below(8)][random.below(4) as usize];
                }
                changed[0] = bytes[0];
                open(&changed);
            }
        }
    }
}

/// How often each input is changed; a campaign says more.
fn rounds() -> u64 {
    std::env::var("PLATTER_ROUNDS").map_or(40, |rounds| rounds.parse().unwrap())
}

#[test]
fn parts_of_a_split_image_are_one_disk() {
    let folder = Folder::new("split");
    let mut random = Random(4);
    let whole = random.bytes(5 * 4096 + 1024);
    for (first, endings) in [("001", ["001", "002", "003"]), ("aa", ["aa", "ab", "ac"])] {
        for (part, ending) in whole.chunks(2 * 4096).zip(endings) {
            std::fs::write(folder.path(&format!("disk.{ending}")), part).unwrap();
        }
        let path = folder.path(&format!("disk.{first}"));
        assert_eq!(content(&*open(&path, true)), whole);
        let device = open(&path, false);
        device.write_at(2 * 4096 - 512, &whole[..1024]).unwrap();
        device.flush().unwrap();
        drop(device);
        let second = std::fs::read(folder.path(&format!("disk.{}", endings[1]))).unwrap();
        assert_eq!(second[..512], whole[512..1024]);
        assert_eq!(
            platter_images::later_part(&folder.path(&format!("disk.{}", endings[1]))),
            Some(path.clone())
        );
        assert_eq!(platter_images::later_part(&path), None);
        std::fs::write(folder.path(&format!("disk.{}", endings[1])), &second[..4096]).unwrap();
        assert!(refused(&path).contains("is part 2 of 3"));
        std::fs::remove_file(folder.path(&format!("disk.{}", endings[1]))).unwrap();
        assert!(refused(&path).contains("is missing"));
    }
}
