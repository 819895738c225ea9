//! Files and directories that grow on a small, full and fragmented volume.

use crate::common::{VOLUMES, Volume, tested};
use platter_testing::model::{Make, Part, RUN, grow, grow_all, grow_long};

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

/// Runs 5,000 operations.
#[test]
fn what_grows_is_refused_or_kept() {
    grow_all(&VOLUMES[..4], RUN / 4, run);
}

/// 200,000 operations on each kind of volume and each cluster size: `cargo test --release -p platter-exfat --test
/// suite growth:: -- --ignored --nocapture`. `PLATTER_SEED=n` selects other operations, and `PLATTER_PART=i/n` a part
/// of them.
#[test]
#[ignore = "a campaign: takes hours"]
fn what_grows_is_refused_or_kept_200_000_times() {
    let known = |cluster: &u64| VOLUMES.iter().any(|volume| volume.cluster == *cluster);
    let sizes = (9..=21).map(|bits| 1 << bits).filter(|cluster| !known(cluster)).map(|cluster| Volume {
        cluster,
        bytes: (cluster * 1000).clamp(6 << 20, 256 << 20),
        sector: 512,
    });
    grow_long(&VOLUMES.into_iter().chain(sizes).collect::<Vec<_>>(), run);
}
