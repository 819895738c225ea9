//! Flipped bits. A volume that the check passes opens and can be read; wrong content is read without an error only
//! where the format has no means to notice it; and a repaired volume passes a second check and the checkers of other
//! programs.

use crate::places::Damage;
use crate::tree::{Content, Tree};
use crate::volumes::Volume;
use crate::{Failures, Tally, memory};
use platter_device::{Device, OverlayDevice};
use platter_testing::model::{Random, told};
use platter_vfs::{CheckReport, Finding, Kind, Name, Node, OpenOptions, ScrubOptions, Severity, Silent};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The most bytes of memory that a check and reading all files may take.
const MEMORY: u64 = 250 << 20;

/// Flips one bit in 80 of 100 cases, and 20 bits in the others.
pub(crate) fn one(volume: &Volume, seed: u64, tally: &mut Tally) -> Failures {
    let mut random = Random::new(seed);
    let count = if random.chance(80) { 1 } else { 20 };
    flipped(volume, seed, tally, |device| volume.places.flip(device, count, &mut random))
}

/// Flips 20 bits at once.
pub(crate) fn twenty(volume: &Volume, seed: u64, tally: &mut Tally) -> Failures {
    flipped(volume, seed, tally, |device| volume.places.flip(device, 20, &mut Random::new(seed)))
}

/// Flips the bit with this number.
pub(crate) fn bit(volume: &Volume, number: u64, tally: &mut Tally) -> Failures {
    flipped(volume, number, tally, |device| volume.places.flip_bit(device, number))
}

fn flipped(
    volume: &Volume,
    seed: u64,
    tally: &mut Tally,
    flip: impl FnOnce(&OverlayDevice) -> Damage,
) -> Failures {
    let damaged = Arc::new(OverlayDevice::new(volume.device.clone()));
    let damage = flip(&damaged);
    let device: Arc<dyn Device> = damaged;
    let mut failures = Failures::new();
    let (mut found, mut tree) = (Err(String::new()), Default::default());
    let memory = memory::measure(|| {
        found = volume.check(&*device, false);
        tree = volume.read(&device);
    });
    if memory > MEMORY {
        failures.push(format!("checking and reading took {memory} bytes of memory"));
    }
    if let Err(error) = &found
        && volume.opens(&device)
    {
        failures.push(format!("it opens, and cannot be checked: {error}"));
    }
    let where_ = if damage.is_data { "content" } else { "metadata" };
    let is_clean = found.as_ref().is_ok_and(|report| report.is_clean());
    // A check does not read the content of files, a scrub does.
    let is_unread = damage.is_data && volume.has_integrity();
    if is_clean && !tree.faults.is_empty() && !is_unread && !volume.is_packed_content(&tree) {
        failures.push(format!(
            "the check passes what is not read: {:?}",
            &tree.faults[..tree.faults.len().min(3)]
        ));
    }
    let differences = volume.truth.differences(&tree);
    if std::env::var("PLATTER_DAMAGE").is_ok() {
        println!("{}\nreading: {:#?}", damage.told, tree.faults);
        println!("read otherwise: {:#?}", volume.truth.otherwise(&tree));
        println!("found: {}", found.as_ref().map_or_else(Clone::clone, told));
    }
    if tree.faults.is_empty() && !differences.is_empty() {
        let check = if is_clean { "the check too" } else { "the check tells" };
        tally.note(format!("{where_}: read wrong without a word ({check}): {differences:?}"), seed);
        let has_means = match volume.name {
            // Metadata of ReFS has checksums, and so has content with integrity.
            "refs" | "refs+integrity" => !damage.is_data || volume.has_integrity(),
            // Entry sets of exFAT have checksums, and everything else that leads to content is there twice, so that a
            // check can compare it.
            "exfat" => !damage.is_data && is_clean,
            // Names, sizes and times of FAT have no checksums. A check compares the structures that lead to content.
            "fat12" | "fat16" | "fat32" => {
                !damage.is_data
                    && is_clean
                    && ["content", "kind or target"].iter().any(|what| differences.contains(what))
            }
            // NTFS has no checksums of what only a record holds, such as content of small files, targets of links and
            // times. The structures that lead to all other content are there twice, so that a check can compare them.
            _ => !damage.is_data && is_clean && !volume.is_all_in_records(&tree),
        };
        if has_means {
            failures.push(format!("read wrong without a word: {differences:?}"));
        }
    } else if tree.faults.is_empty() {
        tally.note(format!("{where_}: harmless, {}", if is_clean { "clean" } else { "found" }), seed);
    } else {
        tally.note(format!("{where_}: told by reading"), seed);
    }
    if is_unread && !tree.faults.is_empty() {
        let scrub = volume.format.scrub(device.clone(), &ScrubOptions::default(), &Silent);
        if scrub.is_ok_and(|report| report.lost == 0) {
            failures.push("the scrub passes what is not read".into());
        }
    }
    if found.as_ref().is_ok_and(|report| report.found == 0)
        && let Some(complaint) = volume.complaint(&*device)
    {
        failures.push(format!("the check passes what others object to:\n{complaint}"));
    }
    failures.extend(repair(volume, &device, is_clean, seed, tally));
    failures.extend(write(volume, &device, &tree, seed, tally, 3));
    failures.iter().map(|what| format!("{what} ({})", damage.told)).collect()
}

/// Writes to a copy of the damaged volume, and returns the failures that the result shows: whatever is wrong with an
/// allocator or another structure that a write relies on, the write is refused, or no file that could be read before is
/// changed by it. `files` are written, or as many as there is room for.
pub(crate) fn write(
    volume: &Volume,
    device: &Arc<dyn Device>,
    before: &Tree,
    seed: u64,
    tally: &mut Tally,
    files: u64,
) -> Failures {
    let copy: Arc<dyn Device> = Arc::new(OverlayDevice::new(device.clone()));
    let Ok(system) = volume.format.open(copy.clone(), OpenOptions::default()) else { return Failures::new() };
    let fill = || -> platter_vfs::Result<()> {
        for number in 0..files {
            let name = Name::from(format!("written after the damage {number}").as_str());
            let file = system.create(Node::ROOT, &name, Kind::File)?;
            system.write(file, 0, &vec![0xA5; 20_000])?;
        }
        system.sync_all()
    };
    let written = fill();
    drop(system.unmount());
    drop(system);
    tally.note(if written.is_ok() { "a write is made" } else { "a write is refused" }, seed);
    let after = volume.read(&copy);
    let is_same = |(path, content): &(&String, &Content)| {
        let is_true = volume.truth.file(path).is_some_and(|truth| truth.is_like(content));
        !is_true || after.file(path).is_some_and(|now| now.is_like(content))
    };
    let changed: Vec<&String> = before.files().filter(|file| !is_same(file)).map(|(path, _)| path).collect();
    match changed.first() {
        Some(first) => {
            vec![format!("a write to what is damaged changes {} files, as {first}", changed.len())]
        }
        None => Failures::new(),
    }
}

/// Repairs a copy of the damaged volume, and returns the failures that the result shows.
fn repair(
    volume: &Volume,
    device: &Arc<dyn Device>,
    is_clean: bool,
    seed: u64,
    tally: &mut Tally,
) -> Failures {
    let mut failures = Failures::new();
    let repaired = Arc::new(OverlayDevice::new(device.clone()));
    let report = match volume.check(&*repaired, true) {
        Ok(report) => report,
        Err(error) => {
            tally.note(format!("cannot be checked: {}", without_numbers(&error)), seed);
            return failures;
        }
    };
    if repaired.kept() == 0 {
        // The repair wrote nothing, so the volume is as it was when it was checked and read.
        failures.extend((!is_clean && left(&report).is_none()).then(|| {
            format!("what a check found is neither repaired nor said to be left:\n{}", told(&report))
        }));
        tally.note(left(&report).unwrap_or_else(|| "nothing to repair".into()), seed);
        return failures;
    }
    // The changes in a log of NTFS belong to a volume that is well, and a repair carries them out.
    let is_logged = report.findings.iter().any(|found| (volume.format.name(), found.code) == ("ntfs", "log"));
    if report.found == 0 || is_clean && !is_logged {
        failures.push(format!("what the check passes is written to by a repair:\n{}", told(&report)));
    }
    let again = match volume.check(&*repaired, false) {
        Ok(again) => again,
        Err(error) => {
            failures.push(format!("what was repaired is not checked: {error}"));
            return failures;
        }
    };
    failures.extend(new_findings(&report, &again));
    if let Some(left) = left(&report) {
        tally.note(left, seed);
        return failures;
    }
    if !again.is_clean() {
        failures.push(format!("after a repair of all:\n{}then:\n{}", told(&report), told(&again)));
    }
    let shared: Arc<dyn Device> = repaired.clone();
    let tree = volume.read(&shared);
    if !tree.faults.is_empty() && !volume.has_integrity() && !volume.is_packed_content(&tree) {
        let faults = &tree.faults[..tree.faults.len().min(3)];
        failures.push(format!("after a repair of all it is not read: {faults:?}"));
    }
    if !is_clean && let Some(complaint) = volume.complaint(&*repaired) {
        failures.push(format!("after a repair others object:\n{}{complaint}", told(&report)));
    }
    failures
}

/// Returns the kinds of damage that a repair reports as left, if any.
pub(crate) fn left(report: &CheckReport) -> Option<String> {
    let codes: BTreeSet<_> = remaining(report).map(|finding| finding.code).collect();
    (!codes.is_empty()).then(|| format!("left after a repair: {codes:?}"))
}

fn remaining(report: &CheckReport) -> impl Iterator<Item = &Finding> {
    report.findings.iter().filter(|finding| !finding.repaired && finding.severity > Severity::Notice)
}

/// Returns a failure if a second check finds damage that the repair has not reported as left.
pub(crate) fn says_the_same(volume: &Volume, repaired: &dyn Device, report: &CheckReport) -> Failures {
    match volume.check(repaired, false) {
        Ok(again) => new_findings(report, &again),
        Err(error) => vec![format!("what was repaired is not checked: {error}")],
    }
}

/// Returns a failure if `again`, a check after the repair `report`, finds damage that the repair has not reported as
/// left.
fn new_findings(report: &CheckReport, again: &CheckReport) -> Failures {
    let told_before: Vec<_> = remaining(report).collect();
    // A repair that leaves something also says why: there is no room for it.
    let is_same = |told: &Finding, finding: &Finding| {
        (told.code, &told.path) == (finding.code, &finding.path) && told.message.starts_with(&finding.message)
    };
    let is_new = |finding: &&Finding| !told_before.iter().any(|told| is_same(told, finding));
    match remaining(again).find(is_new) {
        Some(new) => vec![format!("after a repair:\n{}a check finds besides:\n{new}", told(report))],
        None => Vec::new(),
    }
}

/// Returns a message with all numbers made the same, so that messages of one kind are counted together.
pub(crate) fn without_numbers(message: &str) -> String {
    message
        .split(' ')
        .map(|word| if word.contains(|letter: char| letter.is_ascii_digit()) { "#" } else { word })
        .collect::<Vec<_>>()
        .join(" ")
}
