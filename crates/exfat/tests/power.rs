//! The power fails at every write of a run. Files that were synced and not changed since are there, before a repair
//! and after it, even if the power fails again during the repair.

use crate::common::{VOLUMES, Volume, judge, tested};
use platter_exfat::Exfat;
use platter_testing::model::power::MakeOn;
use platter_testing::model::{Cuts, seed};

fn recorded(volume: Volume, seed: u64, count: usize) -> Cuts<'static> {
    let make: MakeOn<'_> = &|device, clock| tested(device, clock, false);
    let shape = volume.shape(12_000);
    Cuts::new(&format!("{volume:?}"), &Exfat, volume.make(), seed, count, &shape, make, &judge)
}

/// The volumes on which the power is cut at every write.
const CUT: [Volume; 3] = [VOLUMES[0], VOLUMES[1], VOLUMES[2]];

#[test]
fn what_was_synced_survives_a_power_cut() {
    for volume in CUT {
        let mut cuts = recorded(volume, 8664, 400);
        cuts.at_writes(1);
        assert!(cuts.count() > 200 && cuts.in_repairs() > 50, "{} {}", cuts.count(), cuts.in_repairs());
    }
}

/// 5,000 operations, cut at every write: `cargo test --release -p platterfs-exfat --test suite power:: -- --ignored
/// --nocapture`.
#[test]
#[ignore = "a campaign: takes many minutes"]
fn what_was_synced_survives_a_power_cut_at_every_write() {
    let seed = seed();
    for (volume, count) in CUT.into_iter().zip([2_000, 2_000, 1_000]) {
        let mut cuts = recorded(volume, seed, count);
        cuts.at_writes(1);
        println!("{volume:?}: {count} operations, {} cuts, {} in repairs", cuts.count(), cuts.in_repairs());
    }
}

/// Power cuts at 20,000 random points of longer runs.
#[test]
#[ignore = "a campaign: takes many minutes"]
fn what_was_synced_survives_a_power_cut_at_random_points() {
    let seed = seed();
    for (volume, points) in CUT.into_iter().zip([8_000, 8_000, 4_000]) {
        let mut cuts = recorded(volume, seed + 1, 5_000);
        cuts.at_random(points);
        println!(
            "{volume:?}: {points} random points of {} writes, {} in repairs",
            cuts.writes(),
            cuts.in_repairs()
        );
    }
}
