//! Long random sequences of operations, compared with the reference file system.

use crate::common::{VOLUMES, Volume, tested};
use platter_testing::model::{Make, million, verify};

fn run(volume: Volume, seed: u64, count: usize) {
    let make: Make<'_> = &|clock| tested(volume.make(), clock, true);
    verify(seed, count, 500, &volume.shape(60_000), make);
}

#[test]
fn every_size_of_cluster_agrees_with_the_reference() {
    for (number, volume) in VOLUMES.into_iter().enumerate() {
        run(volume, number as u64, 1_200);
    }
}

/// A million operations: `cargo test --release -p platter-exfat --test suite model:: -- --ignored --nocapture`.
/// `PLATTER_SEED=n` selects other operations.
#[test]
#[ignore = "a campaign: takes minutes"]
fn a_million_operations_agree_with_the_reference() {
    million(&VOLUMES, run);
}
