//! Power cuts for formats that need no repair: after each cut the volume must be in the state of a single moment, with
//! everything that was synced.

use super::power::{
    MakeOn, Moment, Promise, Recording, is_of_one_moment, promised, record, tree, verify_promises,
};
use super::{Random, Shape};
use platter_device::{Device, Survivors};
use platter_vfs::FileSystem;
use std::sync::Arc;

/// The functions by which volumes of a format are made and judged.
#[derive(Clone, Copy)]
pub struct Judge<'a> {
    /// Makes a new volume.
    pub make: &'a dyn Fn() -> Arc<dyn Device>,
    /// Makes the subject of a stream of operations on a device.
    pub subject: MakeOn<'a>,
    /// The shape of the streams of operations.
    pub shape: &'a Shape,
    /// Opens a volume.
    pub open: &'a dyn Fn(Arc<dyn Device>) -> Box<dyn FileSystem>,
    /// Checks a volume; the error says what is wrong.
    pub check: &'a dyn Fn(&dyn Device) -> Result<(), String>,
    /// Whether opening a volume writes to it, so that it is checked once more after it was opened.
    pub replays: bool,
}

impl Judge<'_> {
    /// Judges a device after a power cut.
    fn judge(&self, what: &str, device: Arc<dyn Device>, known: &[Promise<'_>], states: Option<&[Moment]>) {
        (self.check)(&*device).unwrap_or_else(|fault| panic!("{what}: {fault}"));
        let system = (self.open)(device.clone());
        verify_promises(what, &*system, known);
        let found = tree(&*system);
        let found = found.unwrap_or_else(|error| panic!("{what}: not all can be read: {error}"));
        if let Some(states) = states {
            is_of_one_moment(&found, states).unwrap_or_else(|fault| panic!("{what}: {fault}"));
        }
        drop(system);
        if self.replays {
            (self.check)(&*device).unwrap_or_else(|fault| panic!("{what}: opened once: {fault}"));
        }
    }

    /// Cuts the power at each `step`-th write of a run of `count` operations, with four choices of survivors. Returns
    /// the number of cuts judged.
    ///
    /// # Panics
    /// If a volume is not as it must be after a cut.
    pub fn run(&self, what: &str, seed: u64, count: usize, step: usize) -> usize {
        let (faults, states) = record((self.make)(), seed, count, self.shape, self.subject);
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
                    format!("{what} seed {seed}: cut at write {k} in operation {during}, {survivors:?}");
                self.judge(&what, Arc::new(log.cut(k, survivors)), &known.1, None);
                cuts += 1;
            }
            k += step;
        }
        cuts
    }

    /// Cuts the power at random writes of a long run, on average at one of `gap`. Returns the number of cuts judged.
    ///
    /// # Panics
    /// If a volume is not as it must be after a cut.
    pub fn long_run(&self, what: &str, seed: u64, count: usize, gap: u64) -> usize {
        let mut run = Recording::new((self.make)(), seed, count, self.shape, self.subject);
        let mut random = Random::new(seed);
        let (mut cuts, mut next) = (0, random.below(2 * gap));
        while run.step() {
            let states = run.states();
            let during = states.len() - 1;
            let end = states[during].writes;
            if next as usize >= end {
                run.forget_past();
                continue;
            }
            let (log, known) = (run.log(), promised(states, during));
            while (next as usize) < end {
                let k = next as usize;
                let survivors = match random.below(8) {
                    0 => Survivors::None,
                    1 => Survivors::All,
                    2..4 => Survivors::First(random.below(log.in_doubt(k) as u64 + 1) as usize),
                    _ => Survivors::Random(random.number()),
                };
                let what = format!("{what} seed {seed}: cut at write {k} of a long run, {survivors:?}");
                self.judge(&what, Arc::new(log.cut(k, survivors)), &known, Some(states));
                cuts += 1;
                next += 1 + random.below(2 * gap);
            }
            run.forget_past();
        }
        cuts
    }
}
