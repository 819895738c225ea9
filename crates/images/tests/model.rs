//! Random operations on images of every kind, against a copy in memory.

use crate::common::{Folder, Random, change, compare, content, open, random_options, same, use_on};
use platter_images::{Container, MakeOptions, make};

fn run(seed: u64, operations: u64) {
    let mut random = Random(seed);
    let folder = Folder::new("model");
    let options = random_options(&mut random);
    let what = format!("seed {seed}, {options:?}");
    let path = folder.path("disk");
    make(&path, &options).unwrap_or_else(|error| panic!("{what}: {error}"));
    let mut model = vec![0; options.size as usize];
    let device = open(&path, false);
    assert_eq!((device.len(), device.sectors().logical), (options.size, options.sector), "{what}");
    use_on(&mut random, device, &path, &mut model, operations, &what);
    same(&content(&*open(&path, true)), &model, &what);
}

#[test]
fn images_of_every_kind_hold_what_was_written() {
    for seed in 0..12 {
        run(seed, 120);
    }
}

#[test]
#[ignore = "a campaign"]
fn campaign_of_random_operations() {
    let seed = std::env::var("PLATTER_SEED").map_or(1 << 20, |seed| seed.parse().unwrap());
    for seed in seed..seed + 60 {
        println!("PLATTER_SEED={seed}");
        run(seed, 10_000);
    }
}

#[test]
fn a_child_has_its_changes_and_leaves_its_parents_alone() {
    chain(500, Container::Vhdx, 40);
    chain(501, Container::Vhd, 40);
}

/// Where a disk of many small clusters has data is asked of each image of a chain: the work must not multiply.
#[test]
fn a_chain_of_empty_images_is_soon_known_to_have_no_data() {
    let folder = Folder::new("empty-chain");
    let options = MakeOptions { block: Some(512), ..MakeOptions::new(Container::Qcow2, 32 << 20) };
    make(&folder.path("0"), &options).unwrap();
    for number in 1..4 {
        let (parent, own) = (format!("{}", number - 1), format!("{number}"));
        let create = ["create", "-q", "-f", "qcow2", "-F", "qcow2", "-o", "cluster_size=512", "-b"];
        folder.tool("qemu-img", &[&create[..], &[&parent, &own]].concat());
    }
    let device = open(&folder.path("3"), true);
    let mut at = 0;
    while at < device.len() {
        let next = device.next_data(at);
        // What may be data is read, and found to be none.
        at = next.max(at) + 512;
    }
    assert_eq!(content(&*device).iter().filter(|&&byte| byte != 0).count(), 0);
}

#[test]
#[ignore = "a campaign"]
fn campaign_of_random_operations_on_children() {
    let seed = std::env::var("PLATTER_SEED").map_or(1 << 20, |seed| seed.parse().unwrap());
    for seed in seed..seed + 10 {
        println!("PLATTER_SEED={seed}");
        chain(seed, Container::Vhdx, 10_000);
        chain(seed, Container::Vhd, 10_000);
    }
}

/// A chain of three images, of which the oldest is a dynamic disk, with so many operations on each.
fn chain(seed: u64, container: Container, operations: u64) {
    let mut random = Random(seed);
    let folder = Folder::new("chain");
    let mut options = MakeOptions::new(container, (9 << 20) + 512 * 3);
    options.block = Some(1 << 20);
    let names = ["grandparent", "parent", "child"];
    let mut models: Vec<Vec<u8>> = Vec::new();
    for name in names {
        make(&folder.path(name), &options).unwrap();
        let mut model = models.last().cloned().unwrap_or(vec![0; options.size as usize]);
        let device = open(&folder.path(name), false);
        for _ in 0..operations {
            match random.below(2) {
                0 => change(&mut random, &*device, &mut model),
                _ => compare(&mut random, &*device, &model, name),
            }
        }
        drop(device);
        models.push(model);
        options.parent = Some(folder.path(name));
    }
    for (name, model) in names.iter().zip(&models) {
        same(&content(&*open(&folder.path(name), true)), model, &format!("{container:?} {name}"));
    }
    // A parent that was changed since is not the parent any more.
    if container == Container::Vhdx {
        open(&folder.path("parent"), false).write_at(0, &[9; 512]).unwrap();
        let error =
            platter_images::open(&folder.path("child"), Default::default()).err().unwrap().to_string();
        assert!(error.contains("is not the parent that it was made from"), "{error}");
    }
}

/// A VHD would be half as fast if its blocks began in the middle of the pages of the host's cache.
#[test]
fn the_blocks_of_a_vhd_begin_at_a_page() {
    const TABLE: usize = 512 + 1024;
    let folder = Folder::new("aligned");
    let path = folder.path("disk");
    make(&path, &MakeOptions::new(Container::Vhd, 16 << 20)).unwrap();
    let device = open(&path, false);
    for block in [3, 0, 6] {
        device.write_at(block * (2 << 20) + 4608, &[7; 512]).unwrap();
        device.flush().unwrap();
    }
    drop(device);
    let file = std::fs::read(&path).unwrap();
    for block in [3, 0, 6] {
        let entry: [u8; 4] = file[TABLE + 4 * block..][..4].try_into().unwrap();
        let content = u32::from_be_bytes(entry) as usize * 512 + 512;
        assert_eq!(content % 4096, 0, "block {block}");
        assert_eq!(file[content + 4608..][..512], [7; 512], "block {block}");
    }
}
