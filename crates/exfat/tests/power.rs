//! The power fails at every write of a run. What was synced and not changed since is there, before a repair and after.

mod common;
mod judges;

use common::{VOLUMES, Volume, tested};
use judges::ImageFile;
use platter_device::{Device, Log, Survivors};
use platter_exfat::Exfat;
use platter_vfs::model::power::{MakeOn, Promise, State, promised, record, verify_repair};
use platter_vfs::model::{Random, seed};
use std::sync::Arc;

/// A recorded run.
struct Run {
    volume: Volume,
    seed: u64,
    log: Log,
    states: Vec<State>,
    cuts: usize,
}

impl Run {
    fn new(volume: Volume, seed: u64, count: usize) -> Run {
        let make: MakeOn<'_> = &|device, clock| tested(device, clock, false);
        let (faults, states) = record(volume.make(), seed, count, &volume.shape(12_000), make);
        Run { volume, seed, log: faults.log(), states, cuts: 0 }
    }

    /// Which operation ran when write `k` was to come.
    fn during(&self, k: usize) -> usize {
        self.states.iter().position(|state| state.writes > k).unwrap_or(self.states.len())
    }

    /// Cuts the power at a write, and sees what is left.
    fn cut(&self, k: usize, survivors: Survivors, promised: &[Promise<'_>]) {
        let Run { volume, seed, .. } = self;
        let what = format!(
            "{volume:?} seed {seed}: cut at write {k} in operation {}, {survivors:?}",
            self.during(k)
        );
        let device: Arc<dyn Device> = Arc::new(self.log.cut(k, survivors));
        verify_repair(&what, &Exfat, &device, promised);
        if self.cuts.is_multiple_of(997) {
            let verdict = judges::fsck(&ImageFile::of(&*device));
            assert!(verdict.clean, "{what}: {}", verdict.output);
        }
    }

    /// Cuts at each `step`-th write, with several ways of what survives.
    fn at_writes(&mut self, step: usize) -> usize {
        let mut random = Random::new(self.seed);
        for k in (0..=self.log.writes()).step_by(step) {
            let promised = promised(&self.states, self.during(k));
            let some = Survivors::First(random.below(self.log.in_doubt(k) as u64 + 1) as usize);
            let seeds = [Survivors::Random(random.number()), Survivors::Random(random.number())];
            for survivors in [Survivors::None, Survivors::All, some, seeds[0], seeds[1]] {
                self.cut(k, survivors, &promised);
            }
            drop(promised);
            self.cuts += 5;
        }
        self.cuts
    }

    /// Cuts at so many writes picked at random.
    fn at_random(&mut self, points: usize) {
        let mut random = Random::new(self.seed ^ 0xC075);
        for _ in 0..points {
            let k = random.below(self.log.writes() as u64 + 1) as usize;
            let promised = promised(&self.states, self.during(k));
            self.cut(k, Survivors::Random(random.number()), &promised);
            drop(promised);
            self.cuts += 1;
        }
    }
}

/// Volumes on which every write is cut.
const CUT: [Volume; 3] = [VOLUMES[0], VOLUMES[1], VOLUMES[2]];

#[test]
fn what_was_synced_survives_a_power_cut() {
    for volume in CUT {
        let cuts = Run::new(volume, 8664, 400).at_writes(1);
        assert!(cuts > 200, "{cuts} cuts");
    }
}

/// 5,000 operations, cut at every write: `cargo test --release -p platter-exfat --test power -- --ignored --nocapture`.
#[test]
#[ignore = "a campaign: takes many minutes"]
fn what_was_synced_survives_a_power_cut_at_every_write() {
    let seed = seed();
    for (volume, count) in CUT.into_iter().zip([2_000, 2_000, 1_000]) {
        let cuts = Run::new(volume, seed, count).at_writes(1);
        println!("{volume:?}: {count} operations, {cuts} cuts");
    }
}

/// 20,000 points of longer runs.
#[test]
#[ignore = "a campaign: takes many minutes"]
fn what_was_synced_survives_a_power_cut_at_random_points() {
    let seed = seed();
    for (volume, points) in CUT.into_iter().zip([8_000, 8_000, 4_000]) {
        let mut run = Run::new(volume, seed + 1, 5_000);
        run.at_random(points);
        println!("{volume:?}: {points} random points of {} writes", run.log.writes());
    }
}
