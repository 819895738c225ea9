//! Power cuts for formats that need no repair: after each cut the volume must be in the state of a single moment, with
//! everything that was synced.

use super::power::{
    MakeOn, Moment, Promise, Recording, is_of_one_moment, promised, record, tree, verify_promises,
};
use super::{Random, Shape};
use platter_device::{Device, Faults, Survivors};
use platter_vfs::{Error, FileSystem, Kind, Name, Node};
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

    /// Kills the program at random writes of a run, on average at one of `gap`, while the power stays on. Opens the
    /// volume again, makes files, and cuts the power at each write of that. Returns the number of cuts judged.
    ///
    /// # Panics
    /// If a volume is not as it must be after a cut.
    pub fn opened_again(&self, what: &str, seed: u64, count: usize, gap: u64) -> usize {
        let (faults, states) = record((self.make)(), seed, count, self.shape, self.subject);
        let log = faults.log();
        let mut random = Random::new(seed);
        let (mut cuts, mut at) = (0, 0);
        loop {
            at += 1 + random.below(2 * gap) as usize;
            if at > log.writes() {
                return cuts;
            }
            let during = states.iter().position(|state| state.writes > at).unwrap_or(states.len());
            let known = promised(&states, during);
            let what = format!("{what} seed {seed}: killed at write {at} in operation {during}");
            let again = Arc::new(Faults::going_on(&log, at));
            let first = again.log().writes();
            make_files(&what, &*(self.open)(again.clone()));
            let again = again.log();
            for k in first..=again.writes() {
                let some = Survivors::First(random.below(again.in_doubt(k) as u64 + 1) as usize);
                for survivors in [Survivors::None, some, Survivors::Random(random.number())] {
                    let what = format!("{what}, cut at write {k} from there, {survivors:?}");
                    self.judge(&what, Arc::new(again.cut(k, survivors)), &known, None);
                    cuts += 1;
                }
            }
        }
    }
}

/// Makes files until some space is taken, and makes them durable.
fn make_files(what: &str, system: &dyn FileSystem) {
    let make = || {
        for number in 0..4 {
            let node =
                system.create(Node::ROOT, &Name::from(format!("again {number}").as_str()), Kind::File)?;
            let wrote = system.write(node, 0, &vec![0xA6; 30_000]);
            system.forget(node, 1);
            wrote?;
        }
        Ok(())
    };
    match make() {
        Ok(()) | Err(Error::NoSpace) => {}
        Err(error) => panic!("{what}: {error}"),
    }
    system.sync_all().unwrap_or_else(|error| panic!("{what}: {error}"));
}
