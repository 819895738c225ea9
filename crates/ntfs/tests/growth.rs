//! Everything grows on a small, full and fragmented volume.

mod common;

use common::{VOLUMES, Volume, tested};
use platter_vfs::model::{Make, RUN, grow, grow_all};

fn run(volume: Volume, seed: u64, count: usize) {
    let make: Make<'_> = &|clock| tested(volume.make(), clock);
    // With room enough for some of it, and with hardly any.
    let leave = if seed.is_multiple_of(2) { volume.bytes / 6 } else { volume.bytes / 60 };
    grow(seed, count, leave, make);
}

/// 5,000 operations.
#[test]
fn what_grows_is_refused_or_kept() {
    grow_all(&VOLUMES, RUN / 5, run);
}

/// 200,000 operations on each kind of volume: `cargo test --release -p platter-ntfs --test growth -- --ignored`, with
/// `PLATTER_SEED=n` for others.
#[test]
#[ignore = "a campaign: takes many minutes"]
fn what_grows_is_refused_or_kept_200_000_times() {
    grow_all(&VOLUMES, 200_000, run);
}
