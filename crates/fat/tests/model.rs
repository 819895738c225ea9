//! Long random sequences of operations, compared with the reference file system.

use crate::common::{VOLUMES, Volume, tested};
use platter_testing::model::{Make, million, verify};

fn run(volume: Volume, seed: u64, count: usize) {
    let make: Make<'_> = &|clock| tested(volume.make(), clock);
    verify(seed, count, 500, &volume.shape(60_000), make);
}

/// Runs 98,000 operations.
#[test]
fn every_kind_agrees_with_the_reference() {
    for (number, volume) in VOLUMES.into_iter().enumerate() {
        for stream in 0..7 {
            run(volume, 100 * stream + number as u64, 2_000);
        }
    }
}

/// A million operations: `cargo test --release -p platter-fat --test suite model:: -- --ignored`. `PLATTER_SEED=n`
/// selects other operations.
#[test]
#[ignore = "a campaign: takes minutes"]
fn a_million_operations_agree_with_the_reference() {
    million(&VOLUMES, run);
}
