//! The power fails at every write of a run. Files that were synced and not changed since are there, before a repair
//! and after it, even if the power fails again during the repair.

use crate::common::{self, VOLUMES, Volume, judge, tested};
use platter_device::{Fault, Faults, Grain, Operation as DeviceOperation, Survivors, When};
use platter_fat::Fat;
use platter_testing::model::power::MakeOn;
use platter_testing::model::{Cuts, seed};
use platter_vfs::{
    CheckOptions, Error, FileSystem, Format, Kind, Name, Names, Node, Plan, Silent, SyncScope, Transfers,
};
use std::sync::Arc;

/// A run in which the power fails at each `step`-th write.
fn run(volume: Volume, seed: u64, count: usize, step: usize) -> Cuts<'static> {
    let make: MakeOn<'_> = &|device, clock| tested(device, clock);
    let (what, shape) = (format!("{volume:?}"), volume.shape(12_000));
    let mut cuts = Cuts::new(&what, &Fat::ANY, volume.make(), seed, count, &shape, make, &judge);
    cuts.at_writes(step);
    cuts
}

#[test]
fn after_a_failed_commit_nothing_more_is_written() {
    for nth in 0..6 {
        let device = VOLUMES[2].make();
        let faults = Arc::new(Faults::new(device.clone(), 1));
        let system = common::open(faults.clone());
        let file = system.create(Node::ROOT, &"file".into(), Kind::File).unwrap();
        system.write(file, 0, &[7; 5000]).unwrap();
        let failing = faults.count(DeviceOperation::Write) + nth;
        faults.inject(When::nth(DeviceOperation::Write, failing), Fault::Fail);
        assert!(matches!(system.sync_all(), Err(Error::Device(_))), "write {nth}");
        let written = faults.count(DeviceOperation::Write);
        assert!(matches!(system.sync_all(), Err(Error::ReadOnly(_))));
        assert!(matches!(system.sync(file, SyncScope::All), Err(Error::ReadOnly(_))));
        assert!(matches!(system.create(Node::ROOT, &"other".into(), Kind::File), Err(Error::ReadOnly(_))));
        assert!(matches!(system.unmount(), Err(Error::ReadOnly(_))));
        assert_eq!(faults.count(DeviceOperation::Write), written);
        // The content in memory can still be read, and the volume on disk can be repaired.
        let mut content = [0; 5000];
        assert_eq!(system.read(file, 0, &mut content).unwrap(), 5000);
        assert_eq!(content, [7; 5000]);
        Fat::ANY.check(&*device, CheckOptions { repair: true }, &Silent).unwrap();
        common::check_clean(&*device).unwrap_or_else(|fault| panic!("write {nth}: {fault}"));
    }
}

/// A sync zeroes what lies before a finished write, also where another write is in flight. If that fails half-way, the
/// write in flight is there all the same once it has finished.
#[test]
fn a_sync_that_fails_costs_a_write_in_flight_nothing() {
    for seed in 0..16 {
        let faults = Arc::new(Faults::new(VOLUMES[2].make(), seed));
        let system = common::open(faults.clone());
        let file = system.create(Node::ROOT, &"file".into(), Kind::File).unwrap();
        system.write(file, 0, &[1; 1024]).unwrap();
        let (mut early, mut late) = (Plan::default(), Plan::default());
        system.plan_write(file, 2048, &[2; 1024], &mut early).unwrap();
        system.plan_write(file, 4096, &[3; 512], &mut late).unwrap();
        early.write_to(&*faults, &[2; 1024]).unwrap();
        late.write_to(&*faults, &[3; 512]).unwrap();
        system.finish_write(&mut late, &[3; 512], Ok(())).unwrap();
        let failing = faults.count(DeviceOperation::Write);
        faults.inject(When::nth(DeviceOperation::Write, failing), Fault::Tear);
        assert!(matches!(system.sync(file, SyncScope::All), Err(Error::Device(_))), "seed {seed}");
        faults.heal();
        system.finish_write(&mut early, &[2; 1024], Ok(())).unwrap();
        let mut found = [0xEE; 4608];
        assert_eq!(system.read(file, 0, &mut found).unwrap(), 4608);
        let expected = [vec![1; 1024], vec![0; 1024], vec![2; 1024], vec![0; 1024], vec![3; 512]].concat();
        assert!(found[..] == expected, "seed {seed}");
    }
}

#[test]
fn syncing_a_directory_keeps_its_names() {
    for scope in [SyncScope::Data, SyncScope::All] {
        let faults = Arc::new(Faults::recording(VOLUMES[5].make(), 1, Grain::Logical));
        let system = common::open(faults.clone());
        let directory = system.create(Node::ROOT, &"directory".into(), Kind::Directory).unwrap();
        system.sync(directory, scope).unwrap();
        for (number, at) in [directory, Node::ROOT].into_iter().enumerate() {
            let name = Name::from(format!("file {number}").as_str());
            let file = system.create(at, &name, Kind::File).unwrap();
            system.forget(file, 1);
            system.sync(at, scope).unwrap();
            let log = faults.log();
            let after = common::open(Arc::new(log.cut(log.writes(), Survivors::None)));
            let place = match at {
                Node::ROOT => Node::ROOT,
                _ => after.lookup(Node::ROOT, &"directory".into()).unwrap(),
            };
            after.lookup(place, &name).unwrap_or_else(|error| panic!("{scope:?} {name:?}: {error}"));
        }
    }
}

#[test]
fn what_was_synced_survives_a_power_cut() {
    for volume in [VOLUMES[0], VOLUMES[2], VOLUMES[5]] {
        let cuts = run(volume, 8664, 700, 2);
        assert!(cuts.count() > 400 && cuts.in_repairs() > 50, "{} {}", cuts.count(), cuts.in_repairs());
    }
}

/// 2,000 operations on each kind, cut at every write: `cargo test --release -p platterfs-fat --test suite power:: --
/// --ignored`.
#[test]
#[ignore = "a campaign: takes many minutes"]
fn what_was_synced_survives_a_power_cut_at_every_write() {
    let seed = seed();
    for volume in [VOLUMES[0], VOLUMES[2], VOLUMES[5]] {
        let cuts = run(volume, seed, 2_000, 1);
        println!("{volume:?}: {} cuts, {} in repairs", cuts.count(), cuts.in_repairs());
    }
}
