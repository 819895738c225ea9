//! Long random streams of operations, against the reference.

mod common;

use common::{Tested, VOLUMES, Volume};
use platter_vfs::model::{Make, verify};

fn run(volume: Volume, seed: u64, count: usize) {
    let make: Make<'_> = &|clock| Box::new(Tested::new(volume.make(), clock));
    verify(seed, count, 500, &volume.shape(60_000), make);
}

#[test]
fn every_kind_agrees_with_the_reference() {
    for (number, volume) in VOLUMES.into_iter().enumerate() {
        for seed in 0..2 {
            run(volume, 8664 + seed * 100 + number as u64, 1_000);
        }
    }
}
