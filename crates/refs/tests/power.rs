//! The power fails at every write of a run. The volume is as it was at the last commit: no repair is needed, and what
//! was synced and not changed since is there.

use crate::common::{self, VOLUMES, Volume, open, tested};
use platter_device::{Fault, Faults, Operation as DeviceOperation, When};
use platter_testing::model::outlived::Judge;
use platter_testing::model::seed;
use platter_vfs::{Error, FileSystem, Kind, Names, Node, SyncScope};
use std::sync::Arc;

/// Calls `with` with a judge of power cuts on this kind of volume.
fn judged<T>(volume: Volume, with: impl FnOnce(Judge<'_>) -> T) -> T {
    with(Judge {
        make: &|| volume.make(),
        subject: &|device, clock| tested(device, clock),
        shape: &volume.shape(60_000),
        open: &|device| Box::new(open(device)),
        check: &common::check_clean,
        replays: false,
    })
}

/// Fails the power at each `step`-th write of a run. Returns the number of cuts.
fn run(volume: Volume, seed: u64, count: usize, step: usize) -> usize {
    judged(volume, |judge| judge.run(&format!("{volume:?}"), seed, count, step))
}

/// Fails the power at random writes of a long run, on average at one of `gap`. Returns the number of cuts.
fn long_run(volume: Volume, seed: u64, count: usize, gap: u64) -> usize {
    judged(volume, |judge| judge.long_run(&format!("{volume:?}"), seed, count, gap))
}

#[test]
fn after_a_failed_commit_nothing_more_is_written() {
    for nth in 0..4 {
        let device = VOLUMES[1].make();
        let faults = Arc::new(Faults::new(device.clone(), 1));
        let system = open(faults.clone());
        let file = system.create(Node::ROOT, &"file".into(), Kind::File).unwrap();
        system.write(file, 0, &[7; 50_000]).unwrap();
        let failing = faults.count(DeviceOperation::Write) + nth;
        faults.inject(When::nth(DeviceOperation::Write, failing), Fault::Fail);
        assert!(matches!(system.sync_all(), Err(Error::Device(_))), "write {nth}");
        let written = faults.count(DeviceOperation::Write);
        assert!(matches!(system.sync(file, SyncScope::All), Err(Error::ReadOnly(_))));
        assert!(matches!(system.create(Node::ROOT, &"other".into(), Kind::File), Err(Error::ReadOnly(_))));
        assert_eq!(faults.count(DeviceOperation::Write), written);
        // Changes in memory can still be read, and the volume on the device is as it was before the commit.
        let mut content = [0; 50_000];
        assert_eq!(system.read(file, 0, &mut content).unwrap(), 50_000);
        assert_eq!(content, [7; 50_000]);
        common::check_clean(&*device).unwrap_or_else(|fault| panic!("write {nth}: {fault}"));
    }
}

#[test]
fn what_was_synced_survives_a_power_cut() {
    for volume in [VOLUMES[0], VOLUMES[1], VOLUMES[3], VOLUMES[5]] {
        let cuts = run(volume, 8664, 500, 2);
        assert!(cuts > 100, "{cuts} cuts");
    }
}

#[test]
fn a_long_run_survives_power_cuts_at_random() {
    for (number, volume) in VOLUMES.into_iter().enumerate() {
        let cuts = long_run(volume, 8664 + number as u64, 1_500, 8);
        assert!(cuts > 20, "{volume:?}: {cuts} cuts");
    }
}

#[test]
fn a_volume_that_is_opened_before_all_is_flushed_survives_power_cuts() {
    for (number, volume) in VOLUMES.into_iter().enumerate() {
        let seed = 8664 + number as u64;
        let cuts = judged(volume, |judge| judge.opened_again(&format!("{volume:?}"), seed, 600, 20));
        assert!(cuts > 20, "{volume:?}: {cuts} cuts");
    }
}

/// 20,000 cuts at random places of runs of 50,000 operations: `cargo test --release -p platter-refs --test suite --
/// --ignored --nocapture random_places`, with `PLATTER_SEED=n` for other seeds.
#[test]
#[ignore = "a campaign: takes many minutes"]
fn long_runs_survive_power_cuts_at_twenty_thousand_random_places() {
    let first = 1000 * seed();
    let (mut runs, mut cuts) = (0, 0);
    while cuts < 20_000 {
        let volume = VOLUMES[runs as usize % VOLUMES.len()];
        let seed = first + runs;
        cuts += long_run(volume, seed, 50_000, 8);
        runs += 1;
        println!("seed {seed}, {volume:?}: {cuts} cuts in {runs} runs");
    }
}

/// 5,000 operations, cut at every write: `cargo test --release -p platter-refs --test suite power:: -- --ignored`.
#[test]
#[ignore = "a campaign: takes minutes"]
fn what_was_synced_survives_a_power_cut_at_every_write() {
    let seed = seed();
    for volume in [VOLUMES[0], VOLUMES[1]] {
        let cuts = run(volume, seed, 5_000, 1);
        println!("{volume:?}: {cuts} cuts");
    }
}

/// Kills of the program at many writes of runs of 2,000 operations, each followed by power cuts at every write:
/// `cargo test --release -p platter-refs --test suite -- --ignored --nocapture opened_before`.
#[test]
#[ignore = "a campaign: takes many minutes"]
fn volumes_that_are_opened_before_all_is_flushed_survive_power_cuts() {
    let seed = seed();
    for run_number in 0..5 {
        for volume in VOLUMES {
            let seed = seed + run_number;
            let cuts = judged(volume, |judge| judge.opened_again(&format!("{volume:?}"), seed, 2_000, 10));
            println!("{volume:?}: 2,000 operations of seed {seed}, {cuts} cuts");
        }
    }
}
