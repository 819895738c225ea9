//! The power fails at every write of a run. What was synced and not changed since is there, before a repair and after.

mod common;
mod judges;

use common::{VOLUMES, Volume, tested};
use judges::ImageFile;
use platter_device::{Fault, Faults, Grain, Operation as DeviceOperation, Survivors, When};
use platter_fat::Fat;
use platter_vfs::model::power::{MakeOn, promised, record, verify_repair};
use platter_vfs::model::{Random, seed};
use platter_vfs::{CheckOptions, Error, FileSystem, Format, Kind, Name, Node, Silent, SyncScope};
use std::sync::Arc;

/// Fails the power at each `step`-th write of a run.
fn run(volume: Volume, seed: u64, count: usize, step: usize) -> usize {
    let make: MakeOn<'_> = &|device, clock| tested(device, clock);
    let (faults, states) = record(volume.make(), seed, count, &volume.shape(12_000), make);
    let log = faults.log();
    let mut random = Random::new(seed);
    let mut cuts = 0;
    let mut known = (usize::MAX, Vec::new());
    for k in (0..=log.writes()).step_by(step) {
        let during = states.iter().position(|state| state.writes > k).unwrap_or(states.len());
        if known.0 != during {
            known = (during, promised(&states, during));
        }
        let promised = &known.1;
        let some = Survivors::First(random.below(log.in_doubt(k) as u64 + 1) as usize);
        let seeds = [Survivors::Random(random.number()), Survivors::Random(random.number())];
        for survivors in [Survivors::None, Survivors::All, some, seeds[0], seeds[1]] {
            let what =
                format!("{volume:?} seed {seed}: cut at write {k} in operation {during}, {survivors:?}");
            let device: Arc<dyn platter_device::Device> = Arc::new(log.cut(k, survivors));
            verify_repair(&what, &Fat::ANY, &device, promised);
            if cuts % 997 == 0 {
                let verdict = judges::fsck(&ImageFile::of(&*device));
                assert!(verdict.clean, "{what}: {}", verdict.output);
            }
            cuts += 1;
        }
    }
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
        // What is in memory can still be read, and what is on disk be put right.
        let mut content = [0; 5000];
        assert_eq!(system.read(file, 0, &mut content).unwrap(), 5000);
        assert_eq!(content, [7; 5000]);
        Fat::ANY.check(&*device, CheckOptions { repair: true }, &Silent).unwrap();
        common::check_clean(&*device).unwrap_or_else(|fault| panic!("write {nth}: {fault}"));
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
        assert!(cuts > 400, "{cuts} cuts");
    }
}

/// 2,000 operations on each kind, cut at every write: `cargo test --release -p platter-fat --test power -- --ignored`.
#[test]
#[ignore = "a campaign: takes many minutes"]
fn what_was_synced_survives_a_power_cut_at_every_write() {
    let seed = seed();
    for volume in [VOLUMES[0], VOLUMES[2], VOLUMES[5]] {
        let cuts = run(volume, seed, 2_000, 1);
        println!("{volume:?}: {cuts} cuts");
    }
}
