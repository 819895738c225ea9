//! Long random sequences of operations, compared with the reference file system.

use crate::common::{VOLUMES, Volume, tested};
use platter_testing::conformance;
use platter_testing::model::{Make, verify};

fn run(volume: Volume, seed: u64, count: usize) {
    let make: Make<'_> = &|clock| tested(volume.make(), clock, true);
    verify(seed, count, 500, &volume.shape(60_000), make);
}

conformance!(model: VOLUMES, streams: 1, operations: 1_200, run: run);
