//! Files and directories that grow on a small, full and fragmented volume.

use crate::common::{VOLUMES, Volume, tested};
use platter_fat::Fat;
use platter_testing::model::{Make, Part, RUN, grow, grow_all, grow_long};

fn run(volume: Volume, part: Part) {
    let make: Make<'_> = &|clock| tested(volume.make(), clock);
    // The space that is left free: enough for some of the growth, or for hardly any.
    let leave = if part.seed.is_multiple_of(2) { volume.bytes / 6 } else { volume.bytes / 60 };
    grow(part.seed, part.count, leave, part.attempts, platter_testing::scale!(), make);
}

/// Runs 5,000 operations, on the volumes that fsck.fat checks quickly.
#[test]
fn what_grows_is_refused_or_kept() {
    let small: Vec<Volume> = VOLUMES.into_iter().filter(|volume| volume.bytes < 100 << 20).collect();
    grow_all(&small, RUN / small.len(), run);
}

/// 200,000 operations on each kind of volume and each cluster size: `cargo test --release -p platter-fat --test
/// suite growth:: -- --ignored --nocapture`. `PLATTER_SEED=n` selects other operations, and `PLATTER_PART=i/n` a part of
/// them.
#[test]
#[ignore = "a campaign: takes hours"]
fn what_grows_is_refused_or_kept_200_000_times() {
    let sizes = (9..=16).map(|bits| {
        let cluster = 1 << bits;
        Volume { format: Fat::FAT12, cluster, bytes: cluster * 1000, sector: 512 }
    });
    grow_long(&VOLUMES.into_iter().chain(sizes).collect::<Vec<_>>(), run);
}
