//! Files and directories that grow on a small, full and fragmented volume.

use crate::common::{VOLUMES, Volume, tested};
use platter_testing::conformance;
use platter_testing::model::{Make, Part, RUN, grow};

fn run(volume: Volume, part: Part) {
    // Smaller, because the whole content is compared again and again.
    let volume = Volume { bytes: volume.bytes.min(448 << 20), ..volume };
    // fsck.exfat 1.2.0 reads two clusters of a directory at once. With clusters of 512 bytes, the entries of a name
    // of 255 units may be in three, which it reports as damage.
    let is_judged = volume.cluster > 512;
    let make: Make<'_> = &|clock| tested(volume.make(), clock, is_judged);
    // The space that is left free: enough for some of the growth, or for hardly any.
    let leave = if part.seed.is_multiple_of(2) { volume.bytes / 6 } else { volume.bytes / 60 };
    grow(part.seed, part.count, leave, part.attempts, platter_testing::scale!(), make);
}

/// All volumes, and one of each size of clusters.
fn all() -> Vec<Volume> {
    let known = |cluster: &u64| VOLUMES.iter().any(|volume| volume.cluster == *cluster);
    let sizes = (9..=21).map(|bits| 1 << bits).filter(|cluster| !known(cluster)).map(|cluster| Volume {
        cluster,
        bytes: (cluster * 1000).clamp(6 << 20, 256 << 20),
        sector: 512,
    });
    VOLUMES.into_iter().chain(sizes).collect::<Vec<_>>()
}

conformance!(growth: VOLUMES[..4], operations: RUN / 4, campaign: all(), run: run);
