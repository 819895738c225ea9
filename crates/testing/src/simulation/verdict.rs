//! The judgement when all callers have ended: of the files, of the volume after unmounting, and of the volume after
//! power cuts.

use super::history::History;
use super::judge::{self, Cut};
use super::names;
use super::setting::{Setting, content, hold, named_content};
use super::stage::Stage;
use crate::model::Random;
use platter_device::{Device, Faults, Log, Survivors};
use platter_vfs::{Error, FileSystem, OpenOptions, ScrubOptions, Severity, Silent};
use std::sync::Arc;

/// The outcome of a run; the error is the finding.
pub(super) type Outcome = Result<(), String>;

/// The state of the volume after the last call of the last caller.
pub(super) struct End {
    contents: Vec<Option<Vec<u8>>>,
    /// Whether unmounting succeeded.
    unmounted: bool,
    /// The number of free clusters that the volume reported then.
    free: u64,
}

impl End {
    /// Reads the files and unmounts the volume.
    pub(super) fn of(stage: &Stage) -> End {
        let system = &*stage.system;
        for node in std::mem::take(&mut stage.history().held) {
            system.forget(node, 1);
        }
        let of = |file: usize| match stage.removed[file] {
            Some(node) => content(system, node),
            None => named_content(system, file),
        };
        let contents = (0..stage.files).map(|file| of(file).ok()).collect();
        stage.removed.iter().flatten().for_each(|node| system.forget(*node, 1));
        let unmounted = match system.unmount() {
            Ok(()) => true,
            Err(_) if stage.fails => false,
            Err(error) => {
                stage.fault(format!("unmount: {error}"));
                false
            }
        };
        let free = system.space().map_or(0, |space| space.free);
        End { contents, unmounted, free }
    }
}

/// Judges a run whose callers have ended.
pub(super) fn judge_all(
    setting: &Setting,
    kept: &Faults,
    history: &History,
    end: End,
    fails: bool,
    random: &mut Random,
) -> Outcome {
    for (file, last) in end.contents.iter().enumerate() {
        let may_be_gone = history.unmounts && history.may_be_removed(file, usize::MAX);
        if last.is_none() && !fails && !may_be_gone {
            return Err(format!("file {file} cannot be read at the end"));
        }
    }
    judge::judge_run(history, &end.contents)?;
    names::judge(&history.names)?;
    let log = kept.log();
    if end.unmounted {
        judge_unmounted(setting, &log, history, &end, fails)
            .map_err(|found| format!("after unmount: {found}"))?;
    }
    let promised = history.promised();
    let mut cuts: Vec<usize> = (0..random.below(3))
        .map(|_| match promised.is_empty() || random.chance(50) {
            true => random.below(log.writes() as u64 + 1) as usize,
            // Just after a promise is the strictest moment: everything that was not flushed is in doubt.
            false => *random.pick(&promised),
        })
        .collect();
    // A promise after a failure may be wrong until a commit writes the data anew.
    cuts.extend(history.promised_in_spite());
    for write in cuts {
        let survivors = match random.below(4) {
            0 => Survivors::None,
            1 => Survivors::All,
            _ => Survivors::Random(random.number()),
        };
        judge_cut(setting, history, log.cut(write, survivors), write)
            .map_err(|found| format!("power cut at write {write} ({survivors:?}): {found}"))?;
    }
    // A copy of a device in use, made at one moment, is what a power cut leaves that loses nothing.
    for &write in history.looks.iter().take(2) {
        let image = Arc::new(log.cut(write, Survivors::All));
        judge_copy(setting, image)
            .map_err(|found| format!("a copy of the device at write {write}: {found}"))?;
    }
    Ok(())
}

fn judge_unmounted(setting: &Setting, log: &Log, history: &History, end: &End, fails: bool) -> Outcome {
    let image = Arc::new(log.cut(log.writes(), Survivors::None));
    setting.check(&*image, false)?;
    let read_only = OpenOptions { read_only: true, ..OpenOptions::default() };
    let system = setting.volume.format.open(image, read_only).map_err(|error| error.to_string())?;
    let free = system.space().map_err(|error| error.to_string())?.free;
    if free != end.free {
        return Err(format!("{free} clusters are free, and it was said that {} are", end.free));
    }
    for (file, last) in end.contents.iter().enumerate() {
        if history.is_removed(file, u64::MAX) {
            match hold(&*system, file, false) {
                Err(Error::NotFound) => continue,
                _ if fails => continue,
                found => return Err(format!("file {file} was removed, and it is looked up: {found:?}")),
            }
        }
        let left = named_content(&*system, file).map_err(|error| format!("file {file}: {error}"))?;
        if last.as_ref().is_some_and(|last| *last != left) && !fails {
            return Err(format!("file {file} is another: {}", difference(last.as_ref(), &left)));
        }
    }
    Ok(())
}

/// Repairs the volume if the format needs it, and checks and scrubs it.
fn judge_copy(setting: &Setting, image: Arc<dyn Device>) -> Outcome {
    if setting.volume.repairs {
        setting.check(&*image, true)?;
    }
    setting.check(&*image, false)?;
    match setting.volume.format.scrub(image, &ScrubOptions::default(), &Silent) {
        // A notice is no fault: a place that was about to be written may be torn.
        Ok(report) if report.damaged.iter().any(|damaged| damaged.finding.severity > Severity::Notice) => {
            Err(report.damaged.iter().map(|damaged| format!("\n    {}", damaged.finding)).collect())
        }
        Ok(_) | Err(Error::Unsupported { .. }) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

fn judge_cut(setting: &Setting, history: &History, image: impl Device + 'static, write: usize) -> Outcome {
    let image = Arc::new(image);
    if setting.volume.repairs {
        setting.check(&*image, true)?;
    }
    setting.check(&*image, false)?;
    let opened = setting.volume.format.open(image, OpenOptions::default());
    let system: Arc<dyn FileSystem> = opened.map_err(|error| error.to_string())?;
    for file in 0..setting.volume.abilities.files() {
        let told = |found: String| format!("file {file}: {found}");
        let must_be_gone = history.is_removed(file, history.covered(None, write));
        match named_content(&*system, file) {
            Ok(_) if must_be_gone => return Err(told("its removal was synced, and it is there".into())),
            Ok(left) => judge::judge_cut(history, file, Cut { write }, &left).map_err(told)?,
            Err(Error::NotFound) if history.may_be_removed(file, write) => {}
            Err(error) => return Err(told(error.to_string())),
        }
    }
    Ok(())
}

fn difference(one: Option<&Vec<u8>>, other: &[u8]) -> String {
    let Some(one) = one else { return String::new() };
    let at = one.iter().zip(other).position(|(one, other)| one != other);
    format!("{} and {} bytes, first different at {at:?}", one.len(), other.len())
}
