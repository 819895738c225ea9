//! Everything that can grow grows on a small, full and fragmented volume.

use crate::common::{USUAL, VOLUMES, Volume, check_clean, checked_by};
use crate::judges::{ImageFile, ntfsfix, readers};
use platter_device::Device;
use platter_ntfs::NtfsVolume;
use platter_testing::conformance;
use platter_testing::model::{Make, Part, RUN, grow};
use platter_vfs::OpenOptions;
use std::sync::Arc;

fn run(volume: Volume, part: Part) {
    let make: Make<'_> = &|clock| checked_by(volume.make(), clock, judge);
    // Half of the seeds leave room enough for some of the operations, the others hardly any.
    let leave = if part.seed.is_multiple_of(2) { volume.bytes / 6 } else { volume.bytes / 60 };
    grow(part.seed, part.count, leave, part.attempts, platter_testing::scale!(), make);
}

/// Fails unless this crate's check and ntfsfix find nothing, and ntfs-3g reads the same as this crate.
fn judge(device: &Arc<dyn Device>) -> Result<(), String> {
    check_clean(&**device)?;
    let image = ImageFile::of(&**device);
    let verdict = ntfsfix(&image);
    if !verdict.clean {
        return Err(verdict.output);
    }
    let options = OpenOptions { read_only: true, ..OpenOptions::default() };
    let system = NtfsVolume::open(device.clone(), options).map_err(|error| error.to_string())?;
    let tree = readers::ours_by(&system, readers::quick_sum);
    readers::assert_same("ntfs-3g", &tree, &readers::ntfs_3g_by(&image, &tree, readers::quick_sum));
    Ok(())
}

/// This stream of operations once changed a time for which there was no room: an index in a crowded record was moved to
/// a block on a full volume, although the entry in it became no longer.
#[test]
fn a_time_has_room_in_a_crowded_record() {
    run(Volume { cluster: 16384, bytes: 24 << 20, ..USUAL }, Part { seed: 9032, count: RUN, attempts: 250 });
}

/// All volumes, and one of each size of clusters.
fn all() -> Vec<Volume> {
    let known = |cluster: &u64| VOLUMES.iter().any(|volume| volume.cluster == *cluster);
    let sizes = (9..=21).map(|bits| 1 << bits).filter(|cluster| !known(cluster)).map(|cluster| Volume {
        cluster,
        bytes: (cluster * 1000).max(24 << 20),
        ..USUAL
    });
    VOLUMES.into_iter().chain(sizes).collect::<Vec<_>>()
}

conformance!(growth: VOLUMES, operations: RUN / 5, campaign: all(), run: run);
