//! Random operations on raw images in several files, against a copy in memory.

use crate::common::{Folder, Random, content, open, same, use_on};
use std::fs;

fn run(seed: u64, operations: u64) {
    let mut random = Random(seed);
    let folder = Folder::new("split-model");
    let part = (1 + random.below(6 << 11) as usize) << 9;
    let count = 2 + random.below(4) as usize;
    let last = (1 + random.below(part as u64 >> 9) as usize) << 9;
    let mut model = random.bytes(part * (count - 1) + last);
    let name = |number: usize| match seed % 2 {
        0 => format!("disk.{:03}", number + 1),
        _ => format!("disk.a{}", char::from(b'a' + number as u8)),
    };
    for (number, bytes) in model.chunks(part).enumerate() {
        fs::write(folder.path(&name(number)), bytes).unwrap();
    }
    let what = format!("seed {seed}, {count} parts of {part} bytes");
    let first = folder.path(&name(0));
    let device = open(&first, false);
    assert_eq!(device.len(), model.len() as u64, "{what}");
    use_on(&mut random, device, &first, &mut model, operations, &what);
    same(&content(&*open(&first, true)), &model, &what);
    // The files, one after the other, are the disk.
    let files: Vec<Vec<u8>> =
        (0..count).map(|number| fs::read(folder.path(&name(number))).unwrap()).collect();
    same(&files.concat(), &model, &what);
}

#[test]
fn split_images_hold_what_was_written() {
    for seed in 0..6 {
        run(seed, 60);
    }
}

#[test]
#[ignore = "a campaign"]
fn campaign_of_split_images() {
    let seed = std::env::var("PLATTER_SEED").map_or(1 << 20, |seed| seed.parse().unwrap());
    for seed in seed..seed + 20 {
        println!("PLATTER_SEED={seed}");
        run(seed, 10_000);
    }
}
