//! The power fails at every write of a run. The log is replayed, and the volume is as it was at the last commit: no
//! repair is needed, and what was synced and not changed since is there.

mod common;

use common::{VOLUMES, Volume, check_clean, open, tested};
use platter_vfs::model::cuts::Judge;
use platter_vfs::model::seed;

/// Calls `with` with how cuts of this kind of volume are judged. The check replays the log on its own.
fn judged<T>(volume: Volume, with: impl FnOnce(Judge<'_>) -> T) -> T {
    with(Judge {
        make: &|| volume.make(),
        subject: &|device, clock| tested(device, clock),
        shape: &volume.shape(60_000),
        open: &|device| Box::new(open(device)),
        check: &check_clean,
        replays: true,
    })
}

/// Fails the power at each `step`-th write of a run.
fn run(volume: Volume, seed: u64, count: usize, step: usize) -> usize {
    judged(volume, |judge| judge.run(&format!("{volume:?}"), seed, count, step))
}

/// Fails the power at random writes of a long run, on average at one of `gap`.
fn long_run(volume: Volume, seed: u64, count: usize, gap: u64) -> usize {
    judged(volume, |judge| judge.long_run(&format!("{volume:?}"), seed, count, gap))
}

/// 150 operations on each kind of volume.
#[test]
fn what_was_synced_survives_a_power_cut() {
    let mut cuts = 0;
    for (number, volume) in VOLUMES.into_iter().enumerate() {
        cuts += run(volume, 8664 + number as u64, 150, 1);
    }
    assert!(cuts > 300, "{cuts} cuts");
}

#[test]
fn a_long_run_survives_power_cuts_at_random() {
    for (number, volume) in VOLUMES.into_iter().enumerate() {
        let cuts = long_run(volume, 8664 + number as u64, 1_500, 8);
        assert!(cuts > 20, "{volume:?}: {cuts} cuts");
    }
}

/// 20,000 cuts at random places of runs of 50,000 operations: `cargo test --release -p platter-ntfs --test power --
/// --ignored --nocapture random_places`, with `PLATTER_SEED=n` for others.
#[test]
#[ignore = "a campaign: takes hours"]
fn long_runs_survive_power_cuts_at_twenty_thousand_random_places() {
    let first = 1000 * seed();
    let (mut runs, mut cuts) = (0, 0);
    while cuts < 20_000 {
        let volume = VOLUMES[runs as usize % VOLUMES.len()];
        let seed = first + runs;
        cuts += long_run(volume, seed, 50_000, 40);
        runs += 1;
        println!("seed {seed}, {volume:?}: {cuts} cuts in {runs} runs");
    }
}

/// 5,000 operations on each kind of volume, in runs of 1,000, cut at every write: `cargo test --release -p platter-ntfs
/// --test power -- --ignored --nocapture every_write`.
#[test]
#[ignore = "a campaign: takes hours"]
fn what_was_synced_survives_a_power_cut_at_every_write() {
    let seed = seed();
    for run_number in 0..5 {
        for volume in VOLUMES {
            let cuts = run(volume, seed + run_number, 1_000, 1);
            println!("{volume:?}: 1,000 operations of seed {}, {cuts} cuts", seed + run_number);
        }
    }
}
