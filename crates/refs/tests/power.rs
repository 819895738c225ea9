//! The power fails at every write of a run. The volume is as it was at the last commit: no repair is needed, and what
//! was synced and not changed since is there.

use crate::common::{self, VOLUMES, Volume, open, tested};
use platter_device::{Fault, Faults, Operation as DeviceOperation, When};
use platter_testing::conformance;
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

conformance!(power: VOLUMES, judged: judged);

/// Fails the power at each `step`-th write of a run. Returns the number of cuts.
fn run(volume: Volume, seed: u64, count: usize, step: usize) -> usize {
    judged(volume, |judge| judge.run(&format!("{volume:?}"), seed, count, step))
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

/// 5,000 operations, cut at every write: `cargo test --release -p platterfs-refs --test suite power:: -- --ignored`.
#[test]
#[ignore = "a campaign: takes minutes"]
fn what_was_synced_survives_a_power_cut_at_every_write() {
    let seed = seed();
    for volume in [VOLUMES[0], VOLUMES[1]] {
        let cuts = run(volume, seed, 5_000, 1);
        println!("{volume:?}: {cuts} cuts");
    }
}
