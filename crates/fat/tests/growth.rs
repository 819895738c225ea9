//! Files and directories that grow on a small, full and fragmented volume.

use crate::common::{VOLUMES, Volume, tested};
use platter_fat::Fat;
use platter_testing::conformance;
use platter_testing::model::{Make, Part, RUN, grow};

fn run(volume: Volume, part: Part) {
    let make: Make<'_> = &|clock| tested(volume.make(), clock);
    // The space that is left free: enough for some of the growth, or for hardly any.
    let leave = if part.seed.is_multiple_of(2) { volume.bytes / 6 } else { volume.bytes / 60 };
    grow(part.seed, part.count, leave, part.attempts, platter_testing::scale!(), make);
}

/// The volumes that fsck.fat checks quickly.
fn small() -> Vec<Volume> {
    VOLUMES.into_iter().filter(|volume| volume.bytes < 100 << 20).collect()
}

/// All volumes, and one of each size of clusters.
fn all() -> Vec<Volume> {
    let sizes = (9..=16).map(|bits| {
        let cluster = 1 << bits;
        Volume { format: Fat::FAT12, cluster, bytes: cluster * 1000, sector: 512 }
    });
    VOLUMES.into_iter().chain(sizes).collect::<Vec<_>>()
}

conformance!(growth: small(), operations: RUN / small().len(), campaign: all(), run: run);
