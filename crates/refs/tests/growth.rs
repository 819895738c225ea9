//! Everything that can grow does so on a small, full and fragmented volume.

use crate::common::{VOLUMES, Volume, tested};
use platter_testing::model::{Make, Part, RUN, grow, grow_all, grow_long};

fn run(volume: Volume, part: Part) {
    let make: Make<'_> = &|clock| tested(volume.make(), clock);
    // Even seeds leave enough free space for data, odd ones hardly any.
    let leave = if part.seed.is_multiple_of(2) { 40 << 20 } else { 6 << 20 };
    grow(part.seed, part.count, leave, part.attempts, platter_testing::scale!(), make);
}

/// 5,000 operations.
#[test]
fn what_grows_is_refused_or_kept() {
    grow_all(&VOLUMES, RUN / VOLUMES.len(), run);
}

/// 200,000 operations on each kind of volume: `cargo test --release -p platter-refs --test suite growth:: -- --ignored
/// --nocapture`, with `PLATTER_SEED=n` for other seeds, and `PLATTER_PART=i/n` for a part of the operations.
#[test]
#[ignore = "a campaign: takes hours"]
fn what_grows_is_refused_or_kept_200_000_times() {
    grow_long(&VOLUMES, run);
}
