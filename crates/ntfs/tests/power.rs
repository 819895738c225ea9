//! The power fails at every write of a run. The log is replayed, and the volume is as it was at the last commit: no
//! repair is needed, and data that was synced and not changed since is there.

use crate::common::{USUAL, VOLUMES, Volume, check_clean, open, tested};
use platter_device::{Buffer, Device, OverlayDevice};
use platter_testing::conformance;
use platter_testing::model::outlived::Judge;
use platter_testing::model::seed;
use platter_vfs::{FileSystem, Kind, Names, Node, Plan, SyncScope, Transfers};
use std::sync::Arc;

/// Calls `with` with the judge of power cuts on this kind of volume. The check replays the log on its own.
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

conformance!(power: VOLUMES, judged: judged);

/// Fails the power at each `step`-th write of a run.
fn run(volume: Volume, seed: u64, count: usize, step: usize) -> usize {
    judged(volume, |judge| judge.run(&format!("{volume:?}"), seed, count, step))
}

/// Two writes are under way, the one behind finishes, and the file is synced.
#[test]
fn a_sync_covers_what_was_written_behind_a_write_under_way() {
    let device = USUAL.make();
    let system = open(device.clone());
    let file = system.create(Node::ROOT, &"file".into(), Kind::File).unwrap();
    system.write(file, 0, &[1; 5000]).unwrap();
    let (first, second) = (Buffer::from(&[2; 3584][..]), Buffer::from(&[3; 8192][..]));
    let (mut one, mut two) = (Plan::default(), Plan::default());
    system.plan_write(file, 8192, &first, &mut one).unwrap();
    system.plan_write(file, 11776, &second, &mut two).unwrap();
    let write = |plan: &Plan, data: &[u8]| {
        for segment in &plan.segments {
            let at = segment.at as usize;
            device.write_at(segment.offset, &data[at..at + segment.length as usize]).unwrap();
        }
    };
    write(&two, &second);
    system.finish_write(&mut two, &second, Ok(())).unwrap();
    system.sync(file, SyncScope::All).unwrap();
    let content = |system: &dyn FileSystem| {
        let file = system.lookup(Node::ROOT, &"file".into()).unwrap();
        let mut content = vec![9; 20480];
        let length = system.read(file, 0, &mut content).unwrap();
        system.forget(file, 1);
        content.truncate(length);
        content
    };
    let mut expected = [vec![1; 5000], vec![0; 6776], vec![3; 8192]].concat();
    let cut: Arc<dyn Device> = Arc::new(OverlayDevice::new(device.clone()));
    check_clean(&*cut).unwrap();
    assert!(content(&open(cut)) == expected);
    assert!(content(&system) == expected);
    write(&one, &first);
    system.finish_write(&mut one, &first, Ok(())).unwrap();
    expected[8192..11776].fill(2);
    assert!(content(&system) == expected);
    system.forget(file, 1);
    system.unmount().unwrap();
    check_clean(&*device).unwrap();
    assert!(content(&open(device)) == expected);
}

/// 150 operations on each kind of volume, cut at every write.
#[test]
fn what_was_synced_survives_a_power_cut() {
    let mut cuts = 0;
    for (number, volume) in VOLUMES.into_iter().enumerate() {
        cuts += run(volume, 8664 + number as u64, 150, 1);
    }
    assert!(cuts > 300, "{cuts} cuts");
}

/// 5,000 operations on each kind of volume, in runs of 1,000, cut at every write: `cargo test --release -p platterfs-ntfs
/// --test suite -- --ignored --nocapture every_write`.
#[test]
#[ignore = "a campaign: takes minutes"]
fn what_was_synced_survives_a_power_cut_at_every_write() {
    let seed = seed();
    for run_number in 0..5 {
        for volume in VOLUMES {
            let cuts = run(volume, seed + run_number, 1_000, 1);
            println!("{volume:?}: 1,000 operations of seed {}, {cuts} cuts", seed + run_number);
        }
    }
}
