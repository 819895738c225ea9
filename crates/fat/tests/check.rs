//! The check, judged by fsck.fat on damaged volumes, and by what must survive a repair.

mod damaged;
mod judges;

use damaged::{KINDS, Random, Volume, damage, populated};
use judges::{ImageFile, fsck};
use platter_device::{MemoryDevice, Sectors};
use platter_fat::Fat;
use platter_fat::layout::FatKind;
use platter_vfs::{CheckOptions, CheckReport, Format, Silent};
use std::collections::{BTreeMap, BTreeSet};

fn check(device: &MemoryDevice, repair: bool) -> CheckReport {
    Fat::ANY.check(device, CheckOptions { repair }, &Silent).unwrap()
}

fn told(report: &CheckReport) -> String {
    report.findings.iter().map(|finding| format!("  {finding}\n")).collect()
}

/// Figures of a campaign.
#[derive(Default)]
struct Tally {
    images: u32,
    agree: u32,
    /// Seeds of disagreements by direction and damage.
    differ: BTreeMap<String, Vec<u64>>,
    codes: BTreeMap<&'static str, u32>,
    failures: Vec<String>,
}

fn campaign(seeds: std::ops::Range<u64>) -> Tally {
    let bases = [FatKind::Fat12, FatKind::Fat16, FatKind::Fat32].map(populated);
    let mut tally = Tally::default();
    for seed in seeds {
        one(&bases, seed, &mut tally);
    }
    tally
}

fn one(bases: &[Vec<u8>; 3], seed: u64, tally: &mut Tally) {
    let mut random = Random(seed);
    let mut volume = Volume::new(bases[seed as usize % 3].clone());
    let before = volume.contents();
    // The first kind goes round, so that each is met often; every second image has up to two more.
    let mut kinds = vec![KINDS[(seed / 3) as usize % KINDS.len()]];
    for _ in 0..random.below(4).saturating_sub(1) {
        kinds.push(KINDS[random.below(KINDS.len() as u64) as usize]);
    }
    let mut hit = BTreeSet::new();
    for kind in &kinds {
        if Volume::readable(&volume.image) {
            hit.append(&mut damage(&mut volume, kind, &mut random));
        }
    }
    if kinds.iter().any(|kind| kind.contains("fat-1")) && kinds.iter().any(|kind| kind.contains("fat-2")) {
        // With damage in both FATs nothing is sure to survive.
        hit.insert(String::new());
    }
    let what = format!("seed {seed} ({:?}, {})", volume.geometry.kind, kinds.join(" + "));
    let device = MemoryDevice::from_image(&volume.image, Sectors::SMALL);
    let report = check(&device, false);
    // What fsck.fat says before and after is the judgement; the tree that must survive is read by the tests alone.
    let theirs = fsck(&ImageFile::new(&volume.image), &["-n"]);
    tally.images += 1;
    assert!(device.to_image() == volume.image, "{what}: a check without repair wrote");
    for finding in &report.findings {
        *tally.codes.entry(finding.code).or_default() += 1;
    }
    if report.is_clean() == theirs.clean {
        tally.agree += 1;
    } else {
        let direction = if theirs.clean { "only Platter objects" } else { "only fsck.fat objects" };
        let codes: BTreeSet<_> = report.findings.iter().map(|finding| finding.code).collect();
        // Where fsck.fat knows of the damage and leaves it, or does not look: docs/fat.md has the reasons.
        let known = [
            "orphan-long-name",
            "boot-backup",
            "second-label",
            "misplaced-label",
            "bad-attributes",
            "fat-entry-0",
        ];
        if !theirs.clean || !codes.iter().all(|code| known.contains(code)) {
            tally.failures.push(format!("{what}: {direction}\n{}{}", told(&report), theirs.output));
        }
        let key = format!("{direction}: {kinds:?} {codes:?}");
        tally.differ.entry(key).or_default().push(seed);
    }
    // Repair: then both must be content, and nothing that was not damaged may be lost.
    let repaired = check(&device, true);
    let again = check(&device, false);
    let after = device.to_image();
    let judged = fsck(&ImageFile::new(&after), &["-n"]);
    if !again.is_clean() || !judged.clean || repaired.remaining.is_some() {
        tally.failures.push(format!(
            "{what}: not clean after repair\nfound:\n{}repair:\n{}again:\n{}fsck.fat:\n{}",
            told(&report),
            told(&repaired),
            told(&again),
            judged.output
        ));
        return;
    }
    let after = Volume::new(after).contents();
    for (path, content) in before {
        if hit.iter().any(|hit| path.starts_with(hit.as_str())) {
            continue;
        }
        if after.get(&path) != Some(&content) {
            let how = if after.contains_key(&path) { "changed" } else { "lost" };
            tally.failures.push(format!("{what}: {path} was {how}\n{}", told(&repaired)));
        }
    }
}

fn judge(tally: &Tally) {
    println!("{} images, {} verdicts agree with fsck.fat", tally.images, tally.agree);
    println!("findings: {:?}", tally.codes);
    for (key, seeds) in &tally.differ {
        println!("{} × {key}: seeds {seeds:?}", seeds.len());
    }
    assert!(
        tally.failures.is_empty(),
        "{} failures:\n{}",
        tally.failures.len(),
        tally.failures[..tally.failures.len().min(8)].join("\n")
    );
}

#[test]
fn a_slice_of_the_campaign() {
    judge(&campaign(0..135));
}

/// `cargo test --release -p platter-fat --test check -- --ignored --nocapture the_campaign`
#[test]
#[ignore = "a thousand images: run by name"]
fn the_campaign() {
    judge(&campaign(0..1000));
}
