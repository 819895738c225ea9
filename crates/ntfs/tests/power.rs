//! The power fails at every write of a run. The log is replayed, and the volume is as it was at the last commit: no
//! repair is needed, and what was synced and not changed since is there.

mod common;

use common::{VOLUMES, Volume, check_clean, open, tested};
use platter_device::{Device, Survivors};
use platter_vfs::model::power::{MakeOn, promised, record, tree, verify_promises};
use platter_vfs::model::{Random, seed};
use std::sync::Arc;

/// Fails the power at each `step`-th write of a run.
fn run(volume: Volume, seed: u64, count: usize, step: usize) -> usize {
    let make: MakeOn<'_> = &|device, clock| tested(device, clock);
    let (faults, states) = record(volume.make(), seed, count, &volume.shape(60_000), make);
    let log = faults.log();
    let mut random = Random::new(seed);
    let mut cuts = 0;
    let mut known = (usize::MAX, Vec::new());
    let mut k = random.below(step as u64) as usize;
    while k <= log.writes() {
        let during = states.iter().position(|state| state.writes > k).unwrap_or(states.len());
        if known.0 != during {
            known = (during, promised(&states, during));
        }
        let some = Survivors::First(random.below(log.in_doubt(k) as u64 + 1) as usize);
        for survivors in [Survivors::None, Survivors::All, some, Survivors::Random(random.number())] {
            let what =
                format!("{volume:?} seed {seed}: cut at write {k} in operation {during}, {survivors:?}");
            let device: Arc<dyn Device> = Arc::new(log.cut(k, survivors));
            // The check replays the log on its own.
            check_clean(&*device).unwrap_or_else(|fault| panic!("{what}: {fault}"));
            let system = open(device.clone());
            verify_promises(&what, &system, &known.1);
            tree(&system).unwrap_or_else(|error| panic!("{what}: not all can be read: {error}"));
            drop(system);
            check_clean(&*device).unwrap_or_else(|fault| panic!("{what}: after the replay: {fault}"));
            cuts += 1;
        }
        k += step;
    }
    cuts
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

/// 5,000 operations, cut at every write: `cargo test --release -p platter-ntfs --test power -- --ignored --nocapture`.
#[test]
#[ignore = "a campaign: takes many minutes"]
fn what_was_synced_survives_a_power_cut_at_every_write() {
    let seed = seed();
    for volume in VOLUMES {
        println!("{volume:?}: 1,000 operations, {} cuts", run(volume, seed, 1_000, 1));
    }
}
