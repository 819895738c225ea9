//! Everything that can grow does so on a small, full and fragmented volume.

use crate::common::{VOLUMES, Volume, tested};
use platter_testing::conformance;
use platter_testing::model::{Make, Part, RUN, grow};

fn run(volume: Volume, part: Part) {
    let make: Make<'_> = &|clock| tested(volume.make(), clock);
    // Even seeds leave enough free space for data, odd ones hardly any.
    let leave = if part.seed.is_multiple_of(2) { 40 << 20 } else { 6 << 20 };
    grow(part.seed, part.count, leave, part.attempts, platter_testing::scale!(), make);
}

conformance!(growth: VOLUMES, operations: RUN / VOLUMES.len(), campaign: VOLUMES, run: run);
