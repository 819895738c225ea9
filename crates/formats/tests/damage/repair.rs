//! A repair harms nothing: no file that could be read before is lost or changed by it, even if the power fails during
//! the repair and it is begun anew; a repair can be undone; and it takes bounded memory and time.

use crate::flips::{left, says_the_same, without_numbers};
use crate::tree::Tree;
use crate::volumes::Volume;
use crate::{Failures, Tally, memory};
use platter_device::{
    Device, Fault, Faults, Grain, Operation, OverlayDevice, Survivors, UndoDevice, UndoFile, When,
};
use platter_testing::model::{Random, processor_time, told};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The most bytes of memory that a repair may take.
const MEMORY: u64 = 256 << 20;
/// The most power cuts of one repair, chosen at random among every tenth of its writes.
const CUTS: usize = 10;

pub(crate) fn one(volume: &Volume, seed: u64, tally: &mut Tally) -> Failures {
    let mut random = Random::new(seed);
    let damaged = Arc::new(OverlayDevice::new(volume.device.clone()));
    let damage = volume.places.damage(&damaged, &mut random);
    let damaged: Arc<dyn Device> = damaged;
    let before = volume.read(&damaged);
    let mut failures = Failures::new();
    if let Some(why) = before.faults.first().filter(|why| why.starts_with("it does not open")) {
        tally.note(without_numbers(why), seed);
    }

    let untouched = Arc::new(OverlayDevice::new(damaged.clone()));
    let begun = Instant::now();
    let found = volume.check(&*untouched, false);
    let plain = begun.elapsed();
    if untouched.kept() > 0 {
        failures.push("a check without repair writes".into());
    }

    let recorded = Arc::new(Faults::recording(damaged.clone(), seed, Grain::Logical));
    let worked = || processor_time(std::process::id());
    let (begun, begin) = (Instant::now(), worked());
    let mut repaired = Err(String::new());
    let memory = memory::measure(|| repaired = volume.check(&*recorded, true));
    // On a busy machine elapsed time says little, so the processor time counts if it is less.
    let taken = begun.elapsed().min(worked() - begin);
    if memory > MEMORY {
        failures.push(format!("the repair took {memory} bytes of memory"));
    }
    if taken > 10 * plain + Duration::from_secs(2) {
        failures.push(format!("the repair took {taken:?}, a check {plain:?}"));
    }
    match (&found, &repaired) {
        (Err(_), Err(_)) => tally.note("cannot be checked", seed),
        (Ok(_), Err(error)) => failures.push(format!("it can be checked, and its repair fails: {error}")),
        (Ok(found), Ok(_)) if found.is_clean() => tally.note("nothing found", seed),
        (_, Ok(repaired)) => {
            tally.note(left(repaired).unwrap_or_else(|| "repaired".into()), seed);
            failures.extend(says_the_same(volume, &*recorded, repaired));
        }
    }

    if std::env::var("PLATTER_DAMAGE").is_ok() {
        println!("{}\nreading: {:#?}", damage.told, before.faults);
        println!("found: {}", found.as_ref().map_or_else(Clone::clone, told));
        println!("repaired: {}", repaired.as_ref().map_or_else(Clone::clone, told));
    }

    let log = recorded.log();
    let whole: Arc<dyn Device> = recorded;
    failures.extend(judge(volume, &before, &whole, "the repair", seed, tally));
    let writes = log.writes();
    let tenth = random.below(10) as usize;
    let mut cuts: Vec<usize> = (tenth..writes).step_by(10).collect();
    while cuts.len() > CUTS {
        cuts.swap_remove(random.below(cuts.len() as u64) as usize);
    }
    for cut in cuts {
        let image: Arc<dyn Device> = Arc::new(log.cut(cut, Survivors::Random(seed)));
        let again = volume.check(&*image, true);
        if std::env::var("PLATTER_DAMAGE").is_ok() {
            println!("cut at write {cut}: {}", again.as_ref().map_or_else(Clone::clone, told));
        }
        if let (Ok(_), Err(error)) = (&repaired, again) {
            failures.push(format!("cut at write {cut} of {writes}, a repair fails: {error}"));
        }
        let what = format!("cut at write {cut} of {writes} and repaired");
        failures.extend(judge(volume, &before, &image, &what, seed, tally));
    }
    failures.extend(undo(volume, &damaged, seed, (writes > 0).then(|| random.below(writes as u64))));
    failures.iter().map(|what| format!("{what} ({})", damage.told)).collect()
}

/// Compares what can be read of a volume after a repair with `before`, and returns the failures.
fn judge(
    volume: &Volume,
    before: &Tree,
    device: &Arc<dyn Device>,
    what: &str,
    seed: u64,
    tally: &mut Tally,
) -> Failures {
    let mut failures = Failures::new();
    let after = volume.read(device);
    let mut harmed = BTreeMap::<&str, Vec<&String>>::new();
    for (path, content) in before.files() {
        let is_true = volume.truth.file(path).is_some_and(|truth| truth.is_like(content));
        if after.file(path).is_some_and(|now| now.is_like(content)) {
            continue;
        }
        let now_at: Vec<&String> =
            after.files().filter(|(_, now)| now.is_like(content)).map(|(path, _)| path).collect();
        let was_content = || volume.truth.files().any(|(_, truth)| truth.is_like(content));
        // Where two directory entries lead to one file, or a file has two names that differ, it is not known which one
        // is right.
        let had_others = || before.files().any(|(other, found)| other != path && found.is_like(content));
        let is_beside = || now_at.iter().any(|now| parent(now) == parent(path));
        let mut harm = |how| harmed.entry(how).or_default().push(path);
        match (is_true, now_at.is_empty()) {
            (true, false) if before.twice.contains(path) || had_others() || is_beside() => {
                tally.note("of two names of one file, one is taken", seed)
            }
            (true, false) => harm("moved"),
            (true, true) => harm("lost"),
            (false, false) => tally.note("renamed what had another name by damage", seed),
            (false, true) if was_content() => harm("lost under a name of damage"),
            (false, true) => tally.note("changed or removed what was wrong by damage", seed),
        }
    }
    failures.extend(
        harmed.iter().map(|(how, paths)| format!("{what} {how}: {} files, as {}", paths.len(), paths[0])),
    );
    let again = volume.check(&**device, false);
    if let Ok(again) = again.as_ref().map_err(Clone::clone)
        && again.findings.iter().any(|finding| finding.repaired)
    {
        failures.push("a check without repair says that it repaired".into());
    }
    failures
}

/// Returns the directory that a path is in.
fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// Undoes a whole repair, and one that a failed write ended, and compares the device with the one before the repair.
fn undo(volume: &Volume, damaged: &Arc<dyn Device>, seed: u64, cut: Option<u64>) -> Failures {
    let mut failures = Failures::new();
    for end in [None, cut] {
        let path = Temporary::new(seed);
        let below = Arc::new(Faults::new(Arc::new(OverlayDevice::new(damaged.clone())), seed));
        if let Some(end) = end {
            below.inject(When::from(Operation::Write, end), Fault::Fail);
        }
        let device = UndoDevice::new(below.clone(), &path.0, "a volume");
        let repaired = volume.check(&device, true);
        let finished = device.finish(&String::new);
        drop(device);
        below.heal();
        if end.is_none() && repaired.is_ok() && finished.is_err() {
            failures.push(format!("the undo file is not finished: {finished:?}"));
        }
        if path.0.exists() {
            let restored = UndoFile::open(&path.0).and_then(|mut file| file.restore(&*below, "", false));
            if let Err(error) = restored {
                failures.push(format!("a repair that ends at write {end:?} is not taken back: {error}"));
            }
        }
        if let Some(at) = first_difference(&**damaged, &*below) {
            failures.push(format!("after undo of a repair that ends at write {end:?}, {at:#x} differs"));
        }
    }
    failures
}

/// Returns the offset of the first piece of 64 KiB in which two devices differ.
fn first_difference(one: &dyn Device, two: &dyn Device) -> Option<u64> {
    let mut buffers = [vec![0; 64 << 10], vec![0; 64 << 10]];
    let mut at = 0;
    while at < one.len() {
        at = one.next_data(at).min(two.next_data(at)) / 512 * 512;
        let length = one.len().saturating_sub(at).min(64 << 10) as usize;
        let [first, second] = &mut buffers;
        one.read_at(at.min(one.len()), &mut first[..length]).expect("a device in memory");
        two.read_at(at.min(one.len()), &mut second[..length]).expect("a device in memory");
        if first[..length] != second[..length] {
            return Some(at);
        }
        at = at.saturating_add(64 << 10);
    }
    None
}

/// The path of a temporary file, which is removed on drop.
struct Temporary(PathBuf);

impl Temporary {
    fn new(seed: u64) -> Temporary {
        let name = format!("platter-{}-{seed}.undo", std::process::id());
        let path = std::env::temp_dir().join(name);
        drop(std::fs::remove_file(&path));
        Temporary(path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}
