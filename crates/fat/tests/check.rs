//! The check on damaged volumes: compared with fsck.fat, and tested for files that must survive a repair.

use crate::damaged::{KINDS, Random, Volume, damage, populated};
use crate::judges::{ImageFile, fsck};
use platter_device::{Fault, Faults, MemoryDevice, Operation, Sectors, When};
use platter_fat::Fat;
use platter_fat::layout::{FatKind, ShortEntry, ShortName};
use platter_testing::model::{losses, told};
use platter_vfs::{CheckOptions, CheckReport, Cursor, Error, Format, Kind, Name, Node, OpenOptions, Silent};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

fn check(device: &MemoryDevice, repair: bool) -> CheckReport {
    Fat::ANY.check(device, CheckOptions { repair }, &Silent).unwrap()
}

/// The results of a campaign.
#[derive(Default)]
struct Tally {
    images: u32,
    agree: u32,
    /// The seeds of images on which Platter's check and fsck.fat disagree, by direction and damage.
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
    // The first kind of damage goes through all kinds in order, so that each occurs often; every second image has up
    // to two more.
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
        // With damage in both FATs no file is sure to survive.
        hit.insert(String::new());
    }
    let what = format!("seed {seed} ({:?}, {})", volume.geometry.kind, kinds.join(" + "));
    let device = MemoryDevice::from_image(&volume.image, Sectors::SMALL);
    let report = check(&device, false);
    // fsck.fat checks the image before and after the repair; only the tests compare the tree.
    let theirs = fsck(&ImageFile::new(&volume.image));
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
        // Findings of Platter that fsck.fat ignores or does not look for: docs/fat.md has the reasons.
        let known = [
            "orphan-long-name",
            "long-name-bit",
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
    // Repair: afterwards both checks must find nothing, and nothing that was not damaged may be lost.
    let repaired = check(&device, true);
    let again = check(&device, false);
    let after = device.to_image();
    let judged = fsck(&ImageFile::new(&after));
    if !again.is_clean() || !judged.clean || repaired.exit_code() > 1 {
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
    for loss in losses(&before, &after, &hit) {
        tally.failures.push(format!("{what}: {loss}\n{}", told(&repaired)));
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

/// Run with `cargo test --release -p platterfs-fat --test suite -- --ignored --nocapture the_campaign`.
#[test]
#[ignore = "a thousand images: run by name"]
fn the_campaign() {
    judge(&campaign(0..1000));
}

/// Flips one bit in the metadata. If Platter's check finds nothing, fsck.fat must find nothing either.
fn flips(seeds: std::ops::Range<u64>) {
    let bases = [FatKind::Fat12, FatKind::Fat16, FatKind::Fat32].map(|kind| Volume::new(populated(kind)));
    let mut failures: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let (mut both, mut ours) = (0, 0);
    for seed in seeds {
        let mut random = Random(seed);
        let volume = &bases[seed as usize % 3];
        let geometry = &volume.geometry;
        let slots: Vec<usize> = volume.found.iter().flat_map(|found| found.slots.iter().copied()).collect();
        let (what, at) = match random.below(10) {
            0..=5 => {
                let inside = random.below(32) as usize;
                let slot = slots[random.below(slots.len() as u64) as usize];
                let kind = if volume.image[slot + 11] == 0x0F { "long" } else { "short" };
                (format!("{kind} entry, byte {inside}"), slot + inside)
            }
            6..=8 => {
                let used = u64::from(geometry.kind.table_bytes(2000) as u32).min(geometry.fat_bytes());
                (
                    "table".to_string(),
                    (geometry.fat_offset(random.below(2) as u32) + random.below(used)) as usize,
                )
            }
            _ => {
                let at = random.below(1024) as usize;
                (format!("boot, byte {at}"), at)
            }
        };
        let mut image = volume.image.clone();
        image[at] ^= 1 << random.below(8);
        let device = MemoryDevice::from_image(&image, Sectors::SMALL);
        let report = Fat::ANY.check(&device, CheckOptions::default(), &Silent);
        // An old label in the boot sector is reported too, but Windows leaves all volumes so.
        let is_label = |report: &CheckReport| report.findings.iter().any(|one| one.code == "label-differs");
        let is_clean = report.as_ref().is_ok_and(|report| report.is_clean() && !is_label(report));
        if !is_clean {
            ours += 1;
            continue;
        }
        let theirs = fsck(&ImageFile::new(&image));
        if theirs.clean {
            both += 1;
        } else {
            let told = report.map_or_else(|error| error.to_string(), |report| told(&report));
            let which = format!("seed {seed} ({:?}), offset {at}:\n{told}{}", geometry.kind, theirs.output);
            failures.entry(what).or_default().push(which);
        }
    }
    println!("{both} flips are clean to both, {ours} are not to the check");
    let list: Vec<String> =
        failures.iter().map(|(what, which)| format!("{} × {what}: {}", which.len(), which[0])).collect();
    assert!(list.is_empty(), "only fsck.fat objects:\n{}", list.join("\n"));
}

#[test]
fn what_the_check_calls_clean_after_a_flip_is_clean_to_fsck() {
    flips(0..300);
}

/// Run with `cargo test --release -p platterfs-fat --test suite -- --ignored --nocapture twenty_thousand_flips`.
#[test]
#[ignore = "a campaign: some minutes"]
fn twenty_thousand_flips() {
    let seed = platter_testing::model::seed() * 100_000;
    flips(seed..seed + 20_000);
}

fn base(kind: FatKind) -> Volume {
    Volume::new(populated(kind))
}

/// Repairs an image and returns the repaired volume and the report; a second check must find nothing.
fn repaired(image: &[u8], what: &str) -> (Volume, CheckReport) {
    let device = MemoryDevice::from_image(image, Sectors::SMALL);
    let report = check(&device, true);
    let again = check(&device, false);
    assert!(again.is_clean(), "{what}: repair\n{}again\n{}", told(&report), told(&again));
    let image = device.to_image();
    let judged = fsck(&ImageFile::new(&image));
    assert!(judged.clean, "{what}: {}\n{}", told(&report), judged.output);
    (Volume::new(image), report)
}

#[test]
fn an_interrupted_move_leaves_one_whole_entry() {
    for seed in 0..24 {
        let mut random = Random(seed);
        let mut volume = base([FatKind::Fat12, FatKind::Fat16][seed as usize % 2]);
        let kind = ["moved-file", "moved-directory"][seed as usize / 2 % 2];
        let before = volume.contents();
        let hit = damage(&mut volume, kind, &mut random);
        let moved = Volume::new(volume.image.clone());
        let (after, report) = repaired(&volume.image, &format!("seed {seed}, {kind}"));
        if moved.found.len() == volume.found.len() {
            continue;
        }
        // Every content exists as often as before: nothing was copied, and nothing was lost.
        let sorted = |contents: BTreeMap<String, Vec<u8>>| {
            let mut contents: Vec<_> = contents.into_values().collect();
            contents.sort();
            contents
        };
        assert!(
            report.findings.iter().any(|finding| finding.code == "duplicate-entry"),
            "seed {seed}: {hit:?}"
        );
        assert!(sorted(after.contents()) == sorted(before), "seed {seed}, {kind} {hit:?}\n{}", told(&report));
    }
}

#[test]
fn of_two_names_the_one_with_its_long_name_is_kept() {
    let mut volume = base(FatKind::Fat16);
    let found = volume.found.iter().find(|found| found.path.ends_with("number 5.data")).unwrap().clone();
    let target = volume.found.iter().find(|found| found.path == "/second").unwrap().chain[0];
    let slots = volume.slots(target);
    let run = slots
        .windows(found.slots.len())
        .find(|run| run.iter().all(|&at| volume.image[at] == 0))
        .unwrap()
        .to_vec();
    for (&from, &to) in found.slots.iter().zip(&run) {
        let slot = volume.slot(from);
        volume.set_slot(to, slot);
    }
    // The removal of the old name was interrupted: one of its parts is deleted.
    volume.image[found.slots[1]] = 0xE5;
    let content = volume.contents()[&found.path].clone();
    let (after, report) = repaired(&volume.image, "torn old name");
    let path = format!("/second{}", found.path);
    assert!(after.contents().get(&path) == Some(&content), "{}", told(&report));
    assert_eq!(after.contents().values().filter(|other| **other == content).count(), 1);
}

#[test]
fn a_lost_directory_comes_back_with_all_that_is_in_it() {
    let mut volume = base(FatKind::Fat16);
    let before = volume.contents();
    let lost = volume.found.iter().find(|found| found.path == "/deep directory").unwrap().clone();
    for &at in &lost.slots {
        volume.image[at] = 0xE5;
    }
    let (after, report) = repaired(&volume.image, "lost directory");
    let after = after.contents();
    for (path, content) in before {
        let path = match path.strip_prefix("/deep directory") {
            Some(rest) => format!("/FSCK0000.DIR{rest}"),
            None => path,
        };
        assert!(after.get(&path) == Some(&content), "{path}\n{}", told(&report));
    }
}

#[test]
fn two_fats_damaged_in_different_places_make_one_good_one() {
    // Not FAT12, whose used entries are all in one sector here.
    for kind in [FatKind::Fat16, FatKind::Fat32] {
        let mut volume = base(kind);
        let before = volume.contents();
        let place = |copy: u32, sector: usize| volume.geometry.fat_offset(copy) as usize + sector * 512;
        let used: Vec<usize> = (1..volume.geometry.fat_bytes() as usize / 512)
            .filter(|&sector| volume.image[place(0, sector)..][..512].iter().any(|&byte| byte != 0))
            .collect();
        assert!(used.len() > 1, "{kind:?} uses {used:?}");
        for at in [place(0, used[0]), place(1, used[used.len() - 1])] {
            volume.image[at..at + 512].fill(0);
        }
        let (after, report) = repaired(&volume.image, "both FATs");
        let lost = losses(&before, &after.contents(), &BTreeSet::new());
        assert!(lost.is_empty(), "{kind:?}: {lost:?}\n{}", told(&report));
    }
}

#[test]
fn a_directory_that_begins_with_rubbish_keeps_what_is_whole() {
    for seed in 0..24 {
        let mut random = Random(seed);
        let mut volume = base([FatKind::Fat12, FatKind::Fat16, FatKind::Fat32][seed as usize % 3]);
        let directories = volume.found.iter().filter(|found| found.entry.attributes.directory());
        let directory = directories.max_by_key(|found| found.chain.len()).unwrap().clone();
        assert!(directory.chain.len() > 2);
        let start = volume.geometry.cluster_offset(directory.chain[0]) as usize;
        let is_hit = |at: &usize| (start..start + 512).contains(at);
        let hit = volume.found.iter().filter(|found| found.slots.iter().any(is_hit));
        let hit: BTreeSet<String> = hit.map(|found| found.path.clone()).collect();
        let before = volume.contents();
        volume.image[start..start + 512].iter_mut().for_each(|byte| *byte = random.next() as u8);
        let (after, report) = repaired(&volume.image, &format!("seed {seed}"));
        let lost = losses(&before, &after.contents(), &hit);
        assert!(lost.is_empty(), "seed {seed}: {lost:?}\n{}", told(&report));
    }
}

#[test]
fn a_shared_chain_that_goes_round_does_not_fill_the_volume() {
    let mut volume = base(FatKind::Fat16);
    let long: Vec<_> = volume.found.iter().filter(|found| found.chain.len() > 8).cloned().collect();
    let (owner, other) = (&long[0], &long[1]);
    volume.set_fat(owner.chain[6], owner.chain[4]);
    volume.set_fat(other.chain[0], owner.chain[4]);
    let at = *other.slots.last().unwrap();
    let mut entry = ShortEntry::from_bytes(&volume.slot(at));
    entry.size = 2 << 20;
    volume.set_slot(at, entry.to_bytes());
    let (after, report) = repaired(&volume.image, "circle");
    let used = |volume: &Volume| volume.found.iter().map(|found| found.chain.len()).sum::<usize>();
    assert!(used(&after) < used(&volume) + 32, "{}", told(&report));
}

#[test]
fn ten_thousand_directories_inside_each_other() {
    let device = MemoryDevice::new(12 << 20, Sectors::SMALL);
    let options = platter_vfs::FormatOptions { cluster: Some(512), ..Default::default() };
    Fat::FAT16.make(&device, &options, &Silent).unwrap();
    let mut volume = Volume::new(device.to_image());
    const DEPTH: u32 = 10_000;
    let entry = |name: &[u8; 11], cluster: u32| {
        let attributes = platter_fat::layout::Attributes(0x10);
        ShortEntry { name: ShortName(*name), attributes, cluster, ..ShortEntry::default() }.to_bytes()
    };
    let root = volume.slots(0)[0];
    volume.set_slot(root, entry(b"D          ", 2));
    for cluster in 2..2 + DEPTH {
        let end = volume.end();
        volume.set_fat(cluster, end);
        let at = volume.geometry.cluster_offset(cluster) as usize;
        volume.set_slot(at, entry(b".          ", cluster));
        volume.set_slot(at + 32, entry(b"..         ", if cluster == 2 { 0 } else { cluster - 1 }));
        // The last directory contains the first: a loop.
        let below = if cluster == 1 + DEPTH { 2 } else { cluster + 1 };
        volume.set_slot(at + 64, entry(b"D          ", below));
    }
    let device = MemoryDevice::from_image(&volume.image, Sectors::SMALL);
    let report = check(&device, true);
    assert_eq!(
        (report.found, report.directories, report.remaining),
        (1, u64::from(DEPTH) + 1, None),
        "{}",
        told(&report)
    );
    assert!(check(&device, false).is_clean());
}

#[test]
fn a_power_cut_in_a_repair_loses_nothing() {
    let clean = base(FatKind::Fat12);
    let before = clean.contents();
    for seed in 0..40 {
        let mut random = Random(seed);
        let mut volume = Volume::new(clean.image.clone());
        let kind =
            ["cross-link", "chain-too-long", "moved-directory", "bad-name", "lost-directory", "lost-chain"]
                [seed as usize % 6];
        let hit = damage(&mut volume, kind, &mut random);
        for writes in 0.. {
            let device = Arc::new(MemoryDevice::from_image(&volume.image, Sectors::SMALL));
            let cut = Faults::new(device.clone(), 0);
            cut.inject(When::from(Operation::Write, writes), Fault::Fail);
            let whole = Fat::ANY.check(&cut, CheckOptions { repair: true }, &Silent).is_ok();
            check(&device, true);
            assert!(check(&device, false).is_clean(), "seed {seed}, {kind}, cut after {writes} writes");
            let after = Volume::new(device.to_image()).contents();
            let lost = losses(&before, &after, &hit);
            assert!(lost.is_empty(), "seed {seed}, {kind}, cut after {writes} writes: {lost:?}");
            if whole {
                break;
            }
        }
    }
}

/// FAT12 and FAT16 have no copy of the boot sector, and no kind of FAT has a checksum of it. A wrong value in a field
/// that places FATs or clusters is recognised because the structures are elsewhere.
#[test]
fn one_flipped_bit_that_moves_fats_or_clusters_costs_nothing() {
    for kind in [FatKind::Fat12, FatKind::Fat16, FatKind::Fat32] {
        let image = populated(kind);
        let before = Volume::new(image.clone()).contents();
        // On FAT32 a number of root entries other than zero is refused anyway.
        let sizes = if kind == FatKind::Fat32 { 36..40 } else { 22..24 };
        for at in (14..19).chain(sizes) {
            for bit in 0..8 {
                let mut damaged = image.clone();
                damaged[at] ^= 1 << bit;
                let what = format!("{kind:?}, byte {at}, bit {bit}");
                let device = MemoryDevice::from_image(&damaged, Sectors::SMALL);
                let opened = Fat::ANY
                    .open(Arc::new(device), OpenOptions { read_only: true, ..OpenOptions::default() });
                match opened {
                    Err(_) => {}
                    // The volume was opened by the copy of the boot sector, which only FAT32 has.
                    Ok(system) => {
                        assert!(kind == FatKind::Fat32, "{what}: opened as if nothing were wrong");
                        assert!(system.lookup(Node::ROOT, &Name::from("second")).is_ok(), "{what}");
                    }
                }
                let device = MemoryDevice::from_image(&damaged, Sectors::SMALL);
                let report = match Fat::ANY.check(&device, CheckOptions { repair: true }, &Silent) {
                    Ok(report) => report,
                    // The check reports an error, and writes nothing.
                    Err(_) => {
                        assert!(device.to_image() == damaged, "{what}: written, and not repaired");
                        continue;
                    }
                };
                assert!(
                    report.findings.iter().any(|finding| finding.code == "boot-sector"),
                    "{what}: {report:?}"
                );
                let repaired = Volume::new(device.to_image());
                assert!(repaired.contents() == before, "{what}: files are lost");
            }
        }
    }
}

/// A FAT32 volume whose boot sector is damaged, but not the copy of it, is read by the copy and repaired from the copy.
#[test]
fn a_damaged_boot_sector_of_fat32_has_a_copy() {
    let sound = populated(FatKind::Fat32);
    let damages: [fn(&mut [u8]); 4] = [
        |image| image[510..512].fill(0),
        |image| image[0] ^= 1,
        |image| image[11..13].fill(0xFF),
        // A larger cluster size, which is valid in itself.
        |image| image[13] = 2,
    ];
    let is_fat = |image: &[u8]| {
        let device = MemoryDevice::from_image(image, Sectors::SMALL);
        Fat::ANY.recognise(&device).unwrap().is_some_and(|recognised| recognised.format == "FAT32")
    };
    for (number, damage) in damages.into_iter().enumerate() {
        let mut image = sound.clone();
        damage(&mut image);
        let device = Arc::new(MemoryDevice::from_image(&image, Sectors::SMALL));
        let system = Fat::ANY.open(device.clone(), OpenOptions::default()).unwrap();
        let second = system.lookup(Node::ROOT, &Name::from("second")).unwrap();
        assert!(system.lookup(second, &Name::from("SHORT7.TXT")).is_ok(), "{number}");
        let error = system.create(Node::ROOT, &Name::from("new"), Kind::File).unwrap_err();
        assert!(matches!(error, Error::ReadOnly(_)), "{number}: {error}");
        system.unmount().unwrap();
        assert!(device.to_image() == image && (number == 3 || is_fat(&image)), "{number}");
        let report = check(&device, true);
        assert!(report.findings.iter().any(|finding| finding.code == "boot-sector"), "{number}");
        assert!(device.to_image() == sound, "{number}: {}", told(&report));
    }
    // A copy that remains under other content does not make the device a FAT volume.
    let mut other = sound.clone();
    other[..512].fill(0);
    assert!(!is_fat(&other));
    other[..4].copy_from_slice(b"PK\x03\x04");
    assert!(!is_fat(&other));
    // Nor does the copy of a volume whose FATs were overwritten.
    let mut other = sound.clone();
    other[510] = 0;
    other[32 * 512..200 * 512].fill(0x77);
    assert!(!is_fat(&other));
}

/// Of two boot sectors that place structures elsewhere, the right one is taken though other damage keeps it from finding
/// everything, too.
#[test]
fn the_better_of_two_boot_sectors_of_fat32_is_taken() {
    let mut sound = populated(FatKind::Fat32);
    let before = Volume::new(sound.clone()).contents();
    // Free clusters keep the content of former files. Read as a FAT, this one has an end mark.
    let free = sound.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    sound[free..].fill(0xA5);
    let directory =
        sound.chunks(512).position(|sector| sector.starts_with(b".          \x10")).unwrap() * 512;
    let fat = usize::from(u16::from_le_bytes([sound[14], sound[15]])) * 512;
    assert!(free < sound.len() / 2);
    assert_eq!((sound[directory], sound[fat]), (b'.', sound[21]));
    // The copy is in sector 6. The fields: reserved sectors, number of FATs, sectors, sectors of a FAT, first cluster of
    // the root directory.
    for of in [0, 6 * 512] {
        for at in (14..17).chain(32..40).chain(44..48) {
            for bit in [0, 3, 6] {
                let mut image = sound.clone();
                image[of + at] ^= 1 << bit;
                image[directory] ^= 1;
                image[fat] ^= 0x80;
                let device = Arc::new(MemoryDevice::from_image(&image, Sectors::SMALL));
                let report = check(&device, true);
                let what = format!("sector at {of}, byte {at}, bit {bit}: {}", told(&report));
                assert!(check(&device, false).is_clean(), "{what}");
                assert!(Volume::new(device.to_image()).contents() == before, "files are lost: {what}");
            }
        }
    }
}

/// FAT12 and FAT16 have no copy of the boot sector, but what marks it can be told without one.
#[test]
fn a_boot_sector_without_its_marks_is_read_where_all_else_is_right() {
    for kind in [FatKind::Fat12, FatKind::Fat16] {
        let sound = populated(kind);
        let damages: [fn(&mut [u8]); 3] = [
            |image| image[510..512].fill(0),
            |image| image[511] ^= 8,
            |image| image[..2].copy_from_slice(&[0x60, 0x38]),
        ];
        for (number, damage) in damages.into_iter().enumerate() {
            let mut image = sound.clone();
            damage(&mut image);
            let what = format!("{kind:?} {number}");
            let device = Arc::new(MemoryDevice::from_image(&image, Sectors::SMALL));
            assert!(Fat::ANY.recognise(&*device).unwrap().is_some(), "{what}");
            let system = Fat::ANY.open(device.clone(), OpenOptions::default()).unwrap();
            let second = system.lookup(Node::ROOT, &Name::from("second")).unwrap();
            assert!(system.lookup(second, &Name::from("SHORT7.TXT")).is_ok(), "{what}");
            let error = system.create(Node::ROOT, &Name::from("new"), Kind::File).unwrap_err();
            assert!(matches!(error, Error::ReadOnly(_)), "{what}: {error}");
            system.unmount().unwrap();
            assert!(device.to_image() == image, "{what}");
            let report = check(&device, true);
            assert!(report.findings.iter().any(|finding| finding.code == "boot-mark"), "{what}");
            assert!(device.to_image() == sound, "{what}: {}", told(&report));
            // With FATs that are no FATs nothing says that this is a volume.
            image[512..1024].fill(0x77);
            let device = MemoryDevice::from_image(&image, Sectors::SMALL);
            assert!(Fat::ANY.recognise(&device).unwrap().is_none(), "{what}");
        }
    }
}

/// Two further faults that fsck.fat reports: a wrong extended signature, and a case bit in a dot entry.
#[test]
fn what_fsck_fat_objects_to_is_found_and_repaired() {
    let mut image = populated(FatKind::Fat12);
    image[0x26] ^= 0x10;
    let mut volume = Volume::new(image);
    let at = volume.slots(volume.directories()[0].chain[0])[1];
    volume.image[at + 12] ^= 0x20;
    let device = MemoryDevice::from_image(&volume.image, Sectors::SMALL);
    let report = check(&device, true);
    let codes: Vec<_> = report.findings.iter().map(|finding| finding.code).collect();
    assert!(codes.contains(&"boot-signature") && codes.contains(&"dot-wrong"), "{codes:?}");
    assert!(check(&device, false).is_clean());
    assert_eq!(device.to_image()[0x26], 0x29);
    assert_eq!(device.to_image()[at + 12] & 0x20, 0);
}

/// Short names with small letters, as some cameras write them, are read as they are and reported as a notice. A repair of
/// other damage puts capitals in their place, with case bits that show the name as before where there are such bits.
#[test]
fn small_letters_in_a_short_name_are_no_damage() {
    let mut volume = base(FatKind::Fat16);
    let before = volume.contents();
    let rename = |volume: &mut Volume, path: &str, name: &[u8; 11]| {
        let at = *volume.found.iter().find(|found| found.path == path).unwrap().slots.last().unwrap();
        volume.image[at..at + 11].copy_from_slice(name);
    };
    rename(&mut volume, "/second/SHORT1.TXT", b"short1  TXT");
    rename(&mut volume, "/second/SHORT2.TXT", b"short2  txt");
    rename(&mut volume, "/second/SHORT3.TXT", b"ShoRT3  TXT");
    let listed = |image: &[u8]| {
        let device = Arc::new(MemoryDevice::from_image(image, Sectors::SMALL));
        let system =
            Fat::ANY.open(device, OpenOptions { read_only: true, ..OpenOptions::default() }).unwrap();
        let second = system.lookup(Node::ROOT, &Name::from("second")).unwrap();
        let mut entries = Vec::new();
        // One call reads all entries, so it also returns an error if any of them is damaged.
        system.read_directory(second, Cursor::START, 1000, &mut entries).unwrap();
        assert!(system.lookup(second, &Name::from("SHORT3.TXT")).is_ok());
        let names = entries.iter().map(|entry| entry.name.to_string());
        names
            .filter(|name| {
                ["SHORT1.", "SHORT2.", "SHORT3."].contains(&&*name[..7.min(name.len())].to_uppercase())
            })
            .collect::<BTreeSet<_>>()
    };
    let expected = ["short1.TXT", "short2.txt", "ShoRT3.TXT"].map(String::from);
    assert_eq!(listed(&volume.image), BTreeSet::from(expected));
    let untouched = MemoryDevice::from_image(&volume.image, Sectors::SMALL);
    assert!(check(&untouched, true).is_clean() && untouched.to_image() == volume.image);
    // The mark of a volume that was not unmounted.
    volume.image[37] |= 1;
    let (after, report) = repaired(&volume.image, "small letters");
    assert!(report.findings.iter().any(|finding| finding.code == "dirty"), "{}", told(&report));
    assert_eq!(report.findings.iter().filter(|finding| finding.code == "small-letters").count(), 3);
    let capitals = |contents: BTreeMap<String, Vec<u8>>| {
        contents.into_iter().map(|(path, content)| (path.to_uppercase(), content)).collect::<BTreeMap<_, _>>()
    };
    assert!(capitals(before) == capitals(after.contents()), "{}", told(&report));
    // No case bits show the third name as before.
    let expected = ["short1.TXT", "short2.txt", "SHORT3.TXT"].map(String::from);
    assert_eq!(listed(&after.image), BTreeSet::from(expected));
}

/// If the short names of two files differ only in the case of letters, no system can reach both files: this is
/// reported, and a repair loses neither file.
#[test]
fn two_short_names_that_are_one_but_for_small_letters_are_told_apart() {
    let mut volume = base(FatKind::Fat16);
    let at =
        *volume.found.iter().find(|found| found.path == "/second/SHORT1.TXT").unwrap().slots.last().unwrap();
    volume.image[at..at + 11].copy_from_slice(b"short2  TXT");
    let (after, report) = repaired(&volume.image, "two names");
    assert!(report.findings.iter().any(|finding| finding.code == "duplicate-name"), "{}", told(&report));
    assert_eq!(after.contents().len(), volume.contents().len());
}

/// An entry for the label that is nothing but spaces, as old versions of fatlabel left it, is no label.
#[test]
fn a_label_of_spaces_is_none() {
    let mut image = populated(FatKind::Fat16);
    let root = Volume::new(image.clone()).geometry.root_offset() as usize;
    assert_eq!(&image[root..root + 12], b"DAMAGED    \x08");
    image[root..root + 11].fill(b' ');
    image[43..54].copy_from_slice(b"NO NAME    ");
    let device = Arc::new(MemoryDevice::from_image(&image, Sectors::SMALL));
    let label = |device: Arc<MemoryDevice>| {
        Fat::ANY.open(device, OpenOptions::default()).unwrap().info().unwrap().label
    };
    assert_eq!(label(device.clone()), "");
    let report = check(&device, true);
    let codes: Vec<_> = report.findings.iter().map(|finding| finding.code).collect();
    assert_eq!(codes, ["blank-label"], "{}", told(&report));
    let repaired = device.to_image();
    assert_eq!((repaired[root], &repaired[43..54]), (0xE5, b"NO NAME    ".as_slice()));
    assert!(check(&device, false).is_clean() && fsck(&ImageFile::new(&repaired)).clean);
    assert_eq!(label(device), "");
    // A label after it is the label.
    let mut volume = Volume::new(image);
    let free = volume.slots(0).into_iter().find(|&at| volume.image[at] == 0).unwrap();
    let mut slot = volume.slot(root);
    slot[..11].copy_from_slice(b"SECOND     ");
    volume.set_slot(free, slot);
    let device = MemoryDevice::from_image(&volume.image, Sectors::SMALL);
    let report = check(&device, true);
    let codes: Vec<_> = report.findings.iter().map(|finding| finding.code).collect();
    assert_eq!(codes, ["blank-label", "label-differs"], "{}", told(&report));
    assert_eq!(&device.to_image()[43..54], b"SECOND     ");
}

/// In the root directory the first character E5 is written as 05. mkfs.fat writes E5 in the boot sector.
#[test]
fn a_label_whose_first_character_is_e5_is_the_same_in_both_places() {
    let mut image = populated(FatKind::Fat16);
    let root = Volume::new(image.clone()).geometry.root_offset() as usize;
    image[root] = 0x05;
    for (first, found) in [(0xE5, 0), (0x05, 0), (b'D', 1)] {
        image[43] = first;
        let device = MemoryDevice::from_image(&image, Sectors::SMALL);
        let report = check(&device, false);
        assert_eq!(report.found, found, "{first:02X}: {}", told(&report));
    }
}

/// Windows changes only the label in the root directory, so it differs from that in the boot sector: the check says so, and
/// a repair changes nothing.
#[test]
fn labels_that_differ_are_no_damage() {
    for kind in [FatKind::Fat12, FatKind::Fat16, FatKind::Fat32] {
        let mut image = populated(kind);
        let (at, sectors) = if kind == FatKind::Fat32 { (71, [0, 6]) } else { (43, [0, 0]) };
        for sector in sectors {
            image[sector * 512 + at..][..11].copy_from_slice(b"NO NAME    ");
        }
        let device = MemoryDevice::from_image(&image, Sectors::SMALL);
        let report = check(&device, true);
        let codes: Vec<_> = report.findings.iter().map(|finding| finding.code).collect();
        assert_eq!((codes, report.exit_code()), (vec!["label-differs"], 0), "{kind:?}: {}", told(&report));
        assert!(device.to_image() == image, "{kind:?}");
    }
}

/// A bit of the FAT that is wrong makes a cluster in use seem free: where a second copy shows it, nothing is written.
#[test]
fn a_volume_whose_fats_differ_is_only_read() {
    for kind in [FatKind::Fat12, FatKind::Fat16, FatKind::Fat32] {
        let mut volume = base(kind);
        let open = |image: &[u8], read_only: bool| {
            let device = Arc::new(MemoryDevice::from_image(image, Sectors::SMALL));
            let options = OpenOptions { read_only, ..OpenOptions::default() };
            Fat::ANY.open(device, options).unwrap()
        };
        assert!(open(&volume.image, false).set_label("NEW").is_ok(), "{kind:?}");
        let file = volume.found.iter().find(|found| found.chain.len() > 2).unwrap().clone();
        let at = volume.geometry.fat_offset(0) as usize;
        let end = at + volume.geometry.fat_bytes() as usize;
        let first = volume.image[at..end].to_vec();
        volume.set_fat(file.chain[1], 0);
        // Only the first copy is damaged.
        let second = volume.geometry.fat_offset(1) as usize;
        volume.image[second..second + first.len()].copy_from_slice(&first);
        assert!(!check(&MemoryDevice::from_image(&volume.image, Sectors::SMALL), false).is_clean());
        let system = open(&volume.image, false);
        let error = system.set_label("NEW").unwrap_err().to_string();
        assert!(error.contains("all copies"), "{kind:?}: {error}");
        // Reading needs no second copy.
        assert!(open(&volume.image, true).info().is_ok());
    }
}

/// The marks of I/O errors are in the boot sector and in FAT entry 1. Such a volume was closed all the same.
#[test]
fn marks_of_failures_are_told() {
    type Mark = fn(&mut Volume);
    let marks: [(FatKind, Mark); 4] = [
        (FatKind::Fat12, |volume| volume.image[37] |= 2),
        (FatKind::Fat16, |volume| volume.set_fat(1, 0xBFFF)),
        (FatKind::Fat32, |volume| volume.set_fat(1, 0x0BFF_FFFF)),
        (FatKind::Fat32, |volume| volume.image[65] |= 2),
    ];
    for (kind, mark) in marks {
        let mut volume = base(kind);
        let facts = |image: &[u8]| {
            let device = Arc::new(MemoryDevice::from_image(image, Sectors::SMALL));
            let info = Fat::ANY.open(device, OpenOptions::default()).unwrap().info().unwrap();
            (info.dirty, info.has_media_failures)
        };
        assert_eq!(facts(&volume.image), (false, false), "{kind:?}");
        mark(&mut volume);
        assert_eq!(facts(&volume.image), (false, true), "{kind:?}");
        let device = MemoryDevice::from_image(&volume.image, Sectors::SMALL);
        assert!(check(&device, true).findings.iter().any(|finding| finding.code == "dirty"), "{kind:?}");
        assert_eq!(facts(&device.to_image()), (false, false), "{kind:?}");
    }
}

/// A file that starts at a directory's cluster has nothing of its own there, but keeps its name.
#[test]
fn a_file_that_starts_at_a_directorys_cluster_keeps_its_name() {
    for (kind, directory, size) in [FatKind::Fat16, FatKind::Fat32].into_iter().flat_map(|kind| {
        let directories = ["/second", "/an empty directory"];
        directories.into_iter().flat_map(move |directory| [0, 7].map(|size| (kind, directory, size)))
    }) {
        let mut volume = base(kind);
        let last = |path: &str| {
            let found = volume.found.iter().find(|found| found.path == path);
            *found.unwrap_or_else(|| panic!("no {path}")).slots.last().unwrap()
        };
        let (at, from) = (last("/second/SHORT1.TXT"), last(directory));
        let mut expected = volume.contents();
        for range in [20..22, 26..28] {
            volume.image.copy_within(from + range.start..from + range.end, at + range.start);
        }
        volume.image[at + 28..at + 32].copy_from_slice(&u32::to_le_bytes(size));
        let what = format!("{kind:?} {directory} {size}");
        let (after, report) = repaired(&volume.image, &what);
        assert_eq!(report.exit_code(), 1, "{what}\n{}", told(&report));
        let mut found = after.contents();
        assert_eq!(found.remove("/second/SHORT1.TXT"), Some(Vec::new()), "{what}\n{}", told(&report));
        expected.remove("/second/SHORT1.TXT");
        // What was the content comes back under another name.
        found.retain(|path, _| !path.contains("FSCK"));
        assert!(found == expected, "{what}\n{}", told(&report));
    }
}
