//! Power cuts at many moments of a recorded run, for formats that need a repair after a power cut.

use super::power::{MakeOn, Moment, Promise, promised, record, verify_interrupted_repair, verify_repair};
use super::{Random, Shape};
use platter_device::{Device, Faults, Grain, Log, Survivors};
use platter_vfs::Format;
use std::sync::Arc;

/// One in this many cuts is also judged by other programs.
const JUDGED: usize = 997;
/// One in this many cuts is followed by a cut at each write of the repair.
const INTERRUPTED: usize = 61;

/// A recorded run, and the counts of its power cuts.
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
    /// Records a run of `count` operations; `what` names it in messages, and `judge` asks other programs about a
    /// device.
    ///
    /// # Panics
    /// If the volume and the reference differ.
    #[allow(clippy::too_many_arguments)] // All of them describe the run.
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

    /// The number of the operation that ran when write `k` was made.
    fn during(&self, k: usize) -> usize {
        self.states.iter().position(|state| state.writes > k).unwrap_or(self.states.len())
    }

    /// Cuts the power at each `step`-th write, each time with five choices of the surviving writes.
    ///
    /// # Panics
    /// If synced content is lost, or a check finds something after the repair.
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

    /// Cuts the power at `points` writes chosen at random.
    ///
    /// # Panics
    /// Like [`Cuts::at_writes`].
    pub fn at_random(&mut self, points: usize) {
        let mut random = Random::new(self.cutter.seed ^ 0xC075);
        for _ in 0..points {
            let k = random.below(self.writes() as u64 + 1) as usize;
            let during = self.during(k);
            let survivors = Survivors::Random(random.number());
            self.cutter.cut(k, during, survivors, &promised(&self.states, during));
        }
    }

    /// The number of writes of the run.
    pub fn writes(&self) -> usize {
        self.cutter.log.writes()
    }

    /// The number of power cuts.
    pub fn count(&self) -> usize {
        self.cutter.cuts
    }

    /// The number of power cuts during repairs.
    pub fn in_repairs(&self) -> usize {
        self.cutter.in_repairs
    }
}

impl Cutter<'_> {
    /// Cuts the power at a write, and judges the device.
    fn cut(&mut self, k: usize, during: usize, survivors: Survivors, promised: &[Promise<'_>]) {
        let what = format!("{}: cut at write {k} in operation {during}, {survivors:?}", self.what);
        let device: Arc<dyn Device> = Arc::new(self.log.cut(k, survivors));
        if self.cuts.is_multiple_of(INTERRUPTED) {
            let seed = self.seed ^ self.cuts as u64;
            let faults = Faults::recording(device.clone(), seed, Grain::Logical);
            self.in_repairs += verify_interrupted_repair(&what, self.format, &faults, promised, seed);
            // The program that wrote was killed before, so that what it had not flushed is in doubt during the repair.
            let (what, faults) = (format!("{what}; killed"), Faults::going_on(&self.log, k));
            self.in_repairs += verify_interrupted_repair(&what, self.format, &faults, promised, seed);
        }
        verify_repair(&what, self.format, &device, promised);
        if self.cuts.is_multiple_of(JUDGED) {
            (self.judge)(&*device).unwrap_or_else(|fault| panic!("{what}: {fault}"));
        }
        self.cuts += 1;
    }
}
