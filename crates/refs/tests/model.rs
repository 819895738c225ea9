//! Long random streams of operations, compared with the reference file system in memory.

use crate::common::{VOLUMES, Volume, tested};
use platter_testing::conformance;
use platter_testing::model::{Make, verify};

fn run(volume: Volume, seed: u64, count: usize) {
    let make: Make<'_> = &|clock| tested(volume.make(), clock);
    verify(seed, count, 500, &volume.shape(300_000), make);
}

conformance!(model: VOLUMES, streams: 2, operations: 2_000, run: run);
