//! One run: its callers, the injected failure, and the judgement afterwards.

use super::caller::Caller;
use super::habits::scripts;
use super::history::History;
use super::order::Order;
use super::script::Step;
use super::setting::{Setting, hold};
use super::stage::Stage;
use super::verdict::{End, Outcome, judge_all};
use super::{SimulatedDevice, Tasks};
use crate::model::Random;
use platter_device::sync::simulate;
use platter_device::{Device, Fault, Faults, Grain, Mirror, Operation, Survivors, When};
use platter_vfs::OpenOptions;
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

/// Runs one schedule and judges it.
///
/// # Errors
/// The finding, with the history that shows it.
pub fn run(setting: &Arc<Setting>, seed: u64) -> Outcome {
    run_scripts(setting, seed, Arc::new(scripts_of(setting, seed)))
}

/// The steps of each caller of a schedule.
pub(super) fn scripts_of(setting: &Setting, seed: u64) -> Vec<Vec<Step>> {
    let sector = u64::from(setting.image.sectors().logical);
    let cluster = setting.volume.options.cluster.expect("each setting says so");
    scripts(&mut Random::new(seed), sector, cluster, setting.volume.abilities)
}

/// An injected failure: the transfer `after` so many others of the same operation fails in this way.
#[derive(Clone, Copy, Debug)]
struct Failure {
    operation: Operation,
    after: u64,
    fault: Fault,
}

impl Failure {
    /// Chooses a failure, in about a third of all schedules.
    fn of(random: &mut Random) -> Option<Failure> {
        random.chance(35).then(|| {
            let (operation, fault) = *random.pick(&[
                (Operation::Flush, Fault::Fail),
                (Operation::Flush, Fault::Fail),
                (Operation::Flush, Fault::Fail),
                (Operation::Write, Fault::Fail),
                (Operation::Write, Fault::Tear),
                (Operation::Read, Fault::Fail),
            ]);
            let bound = if operation == Operation::Flush { *random.pick(&[3, 8]) } else { 60 };
            Failure { operation, after: random.below(bound), fault }
        })
    }
}

/// The devices of a run.
struct Storage {
    /// The device that is examined afterwards.
    kept: Arc<Faults>,
    /// The device with the failure: the same one, or the other copy of a mirror.
    failing: Arc<Faults>,
}

impl Storage {
    fn new(setting: &Setting, seed: u64) -> Storage {
        let recording = |seed| Arc::new(Faults::recording(setting.image.clone(), seed, Grain::Logical));
        let kept = recording(seed);
        let failing = if setting.volume.mirrored { recording(!seed) } else { kept.clone() };
        Storage { kept, failing }
    }

    /// The device on which the volume is opened.
    fn device(&self, setting: &Setting, seed: u64) -> Arc<dyn Device> {
        let simulated = |faults: &Arc<Faults>, seed| -> Arc<dyn Device> {
            Arc::new(SimulatedDevice::new(faults.clone(), seed))
        };
        let kept = simulated(&self.kept, seed);
        match setting.volume.mirrored {
            true => Arc::new(Mirror::new(vec![simulated(&self.failing, !seed), kept]).expect("two alike")),
            false => kept,
        }
    }
}

/// Returns all that a schedule did, as text: the record of the calls and, if `with_image`, the content of the device.
/// The text is the same for the same seed.
///
/// # Panics
/// If the schedule panics.
pub fn trace(setting: &Arc<Setting>, seed: u64, with_image: bool) -> String {
    let mut random = Random::new(seed ^ 0x5EED);
    let scripts = Arc::new(scripts_of(setting, seed));
    let Simulated { storage, history, .. } =
        simulated(setting, seed, scripts, &mut random).unwrap_or_else(|panic| panic!("{panic}"));
    let log = storage.kept.log();
    let calls = history.calls.iter().map(|call| format!("{call:?}\n")).collect::<String>();
    let (writes, flushes, syncs, names) = (log.writes(), log.flushes(), &history.syncs, &history.names);
    let mut text = format!("{calls}{syncs:?}\n{names:?}\n{writes} writes, {flushes} flushes\n");
    if with_image {
        let image = log.cut(log.writes(), Survivors::All);
        let mut data = vec![0; 1 << 16];
        for offset in (0..image.len()).step_by(data.len()) {
            let length = data.len().min((image.len() - offset) as usize);
            image.read_at(offset, &mut data[..length]).expect("it reads");
            if data[..length].iter().any(|byte| *byte != 0) {
                let sum = data[..length].iter().fold(0u64, |sum, byte| sum.rotate_left(5) ^ u64::from(*byte));
                text += &format!("at {offset}: {sum:x}\n");
            }
        }
    }
    text
}

/// The result of running a schedule, before it is judged.
struct Simulated {
    storage: Arc<Storage>,
    failure: Option<Failure>,
    fails: bool,
    history: History,
    end: Option<End>,
}

/// Runs these steps in the order that the seed decides, and judges the result.
pub(super) fn run_scripts(setting: &Arc<Setting>, seed: u64, scripts: Arc<Vec<Vec<Step>>>) -> Outcome {
    let mut random = Random::new(seed ^ 0x5EED);
    let Simulated { storage, failure, fails, mut history, end } =
        simulated(setting, seed, scripts, &mut random)?;
    if fails {
        history.doubt_planned();
    }
    history.copy_failed = setting.volume.mirrored && failure.is_some();
    if let Some(fault) = history.faults.first() {
        return Err(fault.clone());
    }
    let Some(end) = end else { return Ok(()) };
    judge_all(setting, &storage.kept, &history, end, fails, &mut random).map_err(|found| match failure {
        Some(failure) => format!("{found}\n  where this failed: {failure:?}"),
        None => found,
    })
}

/// Runs these steps in the order that the seed decides.
///
/// # Errors
/// The message of a caller's panic.
fn simulated(
    setting: &Arc<Setting>,
    seed: u64,
    scripts: Arc<Vec<Vec<Step>>>,
    random: &mut Random,
) -> Result<Simulated, String> {
    let storage = Arc::new(Storage::new(setting, seed));
    let failure = Failure::of(random);
    // A failure of one copy of a mirror is hidden by the other.
    let fails = failure.is_some() && !setting.volume.mirrored;
    let result: Arc<Mutex<Option<Ran>>> = Arc::default();
    let is_point = Arc::<AtomicBool>::default();
    let execution = {
        let is_point = is_point.clone();
        let (setting, storage, result) = (setting.clone(), storage.clone(), result.clone());
        move || {
            let _simulated = simulate(Rc::new(Tasks::new(seed, is_point.clone())));
            let outcome = execute(&setting, &storage, &scripts, seed, failure, fails);
            *result.lock().expect("nothing panics with it") = Some(outcome);
        }
    };
    let mut config = Config::new();
    config.stack_size = 1 << 20;
    config.failure_persistence = FailurePersistence::None;
    config.max_steps = MaxSteps::FailAfter(400_000);
    config.silence_warnings = true;
    let order = Order::new(seed, is_point);
    let ran = catch_unwind(AssertUnwindSafe(|| Runner::new(order, config).run(execution)));
    if let Err(panic) = ran {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()));
        return Err(format!("panic: {}", text.unwrap_or_default()));
    }
    let (history, end) = result.lock().expect("it ended").take().expect("it ended");
    Ok(Simulated { storage, failure, fails, history, end })
}

/// The history of the callers, and the state at the end if the volume could be opened.
type Ran = (History, Option<End>);

fn execute(
    setting: &Arc<Setting>,
    storage: &Storage,
    scripts: &[Vec<Step>],
    seed: u64,
    failure: Option<Failure>,
    fails: bool,
) -> Ran {
    let system = match setting.volume.format.open(storage.device(setting, seed), OpenOptions::default()) {
        Ok(system) => system,
        Err(error) => {
            let faults = vec![format!("the volume does not open: {error}")];
            return (History { faults, ..History::default() }, None);
        }
    };
    let files = setting.volume.abilities.files();
    let is_removed = |file| scripts.iter().flatten().any(|step| *step == Step::Remove(file));
    let removed =
        (0..files).map(|file| is_removed(file).then(|| hold(&*system, file, false).expect("it is there")));
    let removed: Vec<_> = removed.collect();
    // Injected only after opening: a table that cannot be read when a volume is opened counts as damaged from then on.
    if let Some(Failure { operation, after, fault }) = failure {
        let first = storage.failing.count(operation) + after;
        storage.failing.inject(When::nth(operation, first), fault);
    }
    let stage = Arc::new(Stage {
        system,
        kept: storage.kept.clone(),
        history: Mutex::default(),
        fails,
        files,
        crowd: setting.volume.abilities.crowd,
        removed,
        next_id: 1.into(),
    });
    let callers: Vec<_> = scripts
        .iter()
        .enumerate()
        .map(|(number, script)| {
            let (stage, script) = (stage.clone(), script.clone());
            shuttle::thread::spawn(move || Caller::live(&stage, number, &script, seed))
        })
        .collect();
    for caller in callers {
        caller.join().expect("a caller that panics ends the run");
    }
    let end = End::of(&stage);
    let history = std::mem::take(&mut *stage.history());
    (history, Some(end))
}
