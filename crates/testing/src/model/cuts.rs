//! A recorded run of which the power is cut again and again, for formats that a check puts right.

use super::power::{MakeOn, Moment, Promise, promised, record, verify_interrupted_repair, verify_repair};
use super::{Random, Shape};
use platter_device::{Device, Log, Survivors};
use platter_vfs::Format;
use std::sync::Arc;

/// Of how many cuts one is judged by others too.
const JUDGED: usize = 997;
/// Of how many cuts one is followed by a cut at each write of the repair.
const INTERRUPTED: usize = 61;

/// A run, and what its cuts left.
pub struct Cuts<'a> {
    states: Vec<Moment>,
    cutter: Cutter<'a>,
}

struct Cutter<'a> {
    what: String,
    format: &'a dyn Format,
    judge: &'a dyn Fn(&dyn Device) -> Result<(), String>,
    seed: u64,
    log: Log,
    cuts: usize,
    in_repairs: usize,
}

impl<'a> Cuts<'a> {
    /// Records a run of so many operations; `what` names it, `judge` says what others think of a device.
    ///
    /// # Panics
    /// If the volume and the reference differ.
    #[allow(clippy::too_many_arguments)] // Each is another part of what a run is.
    pub fn new(
        what: &str,
        format: &'a dyn Format,
        device: Arc<dyn Device>,
        seed: u64,
        count: usize,
        shape: &Shape,
        subject: MakeOn<'_>,
        judge: &'a dyn Fn(&dyn Device) -> Result<(), String>,
    ) -> Cuts<'a> {
        let (faults, states) = record(device, seed, count, shape, subject);
        let (what, log) = (format!("{what} seed {seed}"), faults.log());
        Cuts { states, cutter: Cutter { what, format, judge, seed, log, cuts: 0, in_repairs: 0 } }
    }

    /// Which operation ran when write `k` was to come.
    fn during(&self, k: usize) -> usize {
        self.states.iter().position(|state| state.writes > k).unwrap_or(self.states.len())
    }

    /// Cuts at each `step`-th write, each time with five choices of what survives.
    ///
    /// # Panics
    /// If something that was synced is lost, or a repair leaves something to find.
    pub fn at_writes(&mut self, step: usize) {
        let mut random = Random::new(self.cutter.seed);
        let mut known = (usize::MAX, Vec::new());
        for k in (0..=self.writes()).step_by(step) {
            let during = self.during(k);
            if known.0 != during {
                known = (during, promised(&self.states, during));
            }
            let some = Survivors::First(random.below(self.cutter.log.in_doubt(k) as u64 + 1) as usize);
            let seeds = [Survivors::Random(random.number()), Survivors::Random(random.number())];
            for survivors in [Survivors::None, Survivors::All, some, seeds[0], seeds[1]] {
                self.cutter.cut(k, during, survivors, &known.1);
            }
        }
    }

    /// Cuts at so many writes picked at random.
    ///
    /// # Panics
    /// As [`Cuts::at_writes`].
    pub fn at_random(&mut self, points: usize) {
        let mut random = Random::new(self.cutter.seed ^ 0xC075);
        for _ in 0..points {
            let k = random.below(self.writes() as u64 + 1) as usize;
            let during = self.during(k);
            let survivors = Survivors::Random(random.number());
            self.cutter.cut(k, during, survivors, &promised(&self.states, during));
        }
    }

    /// How many writes the device saw.
    pub fn writes(&self) -> usize {
        self.cutter.log.writes()
    }

    /// How often the power was cut.
    pub fn count(&self) -> usize {
        self.cutter.cuts
    }

    /// How often it was cut in repairs.
    pub fn in_repairs(&self) -> usize {
        self.cutter.in_repairs
    }
}

impl Cutter<'_> {
    /// Cuts the power at a write, and sees what is left.
    fn cut(&mut self, k: usize, during: usize, survivors: Survivors, promised: &[Promise<'_>]) {
        let what = format!("{}: cut at write {k} in operation {during}, {survivors:?}", self.what);
        let device: Arc<dyn Device> = Arc::new(self.log.cut(k, survivors));
        if self.cuts.is_multiple_of(INTERRUPTED) {
            let seed = self.seed ^ self.cuts as u64;
            self.in_repairs += verify_interrupted_repair(&what, self.format, &device, promised, seed);
        }
        verify_repair(&what, self.format, &device, promised);
        if self.cuts.is_multiple_of(JUDGED) {
            (self.judge)(&*device).unwrap_or_else(|fault| panic!("{what}: {fault}"));
        }
        self.cuts += 1;
    }
}
