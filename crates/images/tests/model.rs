//! Random operations on images of every kind, against a copy in memory.

use crate::common::{Folder, Random, change, compare, content, open, random_options, same};
use platter_images::{Container, MakeOptions, make};

fn run(seed: u64, operations: u64) {
    let mut random = Random(seed);
    let folder = Folder::new("model");
    let options = random_options(&mut random);
    let what = format!("seed {seed}, {options:?}");
    let path = folder.path("disk");
    make(&path, &options).unwrap_or_else(|error| panic!("{what}: {error}"));
    let mut model = vec![0; options.size as usize];
    let mut device = open(&path, false);
    assert_eq!((device.len(), device.sectors().logical), (options.size, options.sector), "{what}");
    for _ in 0..operations {
        match random.below(20) {
            0 => {
                drop(device);
                device = open(&path, false);
            }
            1 => device.flush().unwrap(),
            2..8 => change(&mut random, &*device, &mut model),
            _ => compare(&mut random, &*device, &model, &what),
        }
    }
    drop(device);
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

/// A chain of three images: the oldest is a dynamic disk.
#[test]
fn a_child_has_its_changes_and_leaves_its_parents_alone() {
    for (number, container) in [Container::Vhdx, Container::Vhd].into_iter().enumerate() {
        let mut random = Random(500 + number as u64);
        let folder = Folder::new("chain");
        let mut options = MakeOptions::new(container, (9 << 20) + 512 * 3);
        options.block = Some(1 << 20);
        let names = ["grandparent", "parent", "child"];
        let mut models: Vec<Vec<u8>> = Vec::new();
        for name in names {
            make(&folder.path(name), &options).unwrap();
            let mut model = models.last().cloned().unwrap_or(vec![0; options.size as usize]);
            let device = open(&folder.path(name), false);
            for _ in 0..40 {
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
}
