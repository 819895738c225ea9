//! Damaged volumes: the check finds the damage, fsck.exfat accepts the repaired volume, and nothing is lost that was
//! not damaged.

use crate::damaged::{KINDS, Volume, damage, populated};
use crate::judges::{ImageFile, Verdict, fsck};
use platter_device::{MemoryDevice, Sectors};
use platter_exfat::Exfat;
use platter_exfat::layout::{SLOT, set_checksum};
use platter_testing::model::{Random, losses, seed, told};
use platter_vfs::{CheckOptions, CheckReport, Format, FormatOptions, Kind, Node, OpenOptions, Silent};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

fn check(device: &MemoryDevice, repair: bool) -> CheckReport {
    Exfat.check(device, CheckOptions { repair }, &Silent).unwrap()
}

#[derive(Default)]
struct Tally {
    images: u32,
    /// How often each finding occurs.
    codes: BTreeMap<&'static str, u32>,
    /// The number of images, by kind of damage, in which Platter's check finds something and fsck.exfat does not; and
    /// in `theirs_only`, the opposite cases.
    ours_only: BTreeMap<&'static str, u32>,
    theirs_only: Vec<String>,
    failures: Vec<String>,
}

/// Returns the verdict of fsck.exfat, without one message: exfatprogs 1.2.0 would delete benign entries of unknown
/// types, which must be kept (8.2).
fn judged(image: &[u8]) -> Verdict {
    let verdict = fsck(&ImageFile::new(image));
    let kept = |line: &str| line.contains("ERROR") && line.contains("unknown entry type 0xa6");
    let output: String =
        verdict.output.lines().filter(|line| !kept(line)).map(|line| format!("{line}\n")).collect();
    let clean = verdict.clean || (output != verdict.output && !output.contains("ERROR"));
    Verdict { clean, output }
}

fn one(tally: &mut Tally, base: &[u8], seed: u64) {
    let (kind, harm) = KINDS[seed as usize % KINDS.len()];
    let mut random = Random::new(seed);
    let mut volume = Volume::new(base.to_vec());
    let before = volume.contents();
    let hit = damage(&mut volume, harm, &mut random);
    let what = format!("seed {seed}, {kind} {hit:?}");
    let device = MemoryDevice::from_image(&volume.image, Sectors::SMALL);
    let report = check(&device, false);
    assert!(device.to_image() == volume.image, "{what}: written to without repair");
    report.findings.iter().for_each(|finding| *tally.codes.entry(finding.code).or_default() += 1);
    let verdict = judged(&volume.image);
    match (report.is_clean(), verdict.clean) {
        (false, true) => *tally.ours_only.entry(kind).or_default() += 1,
        // Some faults, such as a wrong checksum of the backup region, are only notices in Platter's check.
        (true, false) => tally.theirs_only.push(format!("{what}\n{}{}", told(&report), verdict.output)),
        _ => {}
    }
    tally.images += 1;
    let repaired = check(&device, true);
    let again = check(&device, false);
    let after = device.to_image();
    let verdict = judged(&after);
    if !again.is_clean() || !verdict.clean || repaired.exit_code() > 1 {
        tally.failures.push(format!(
            "{what}: not clean after repair\nfound:\n{}repair:\n{}again:\n{}fsck.exfat:\n{}",
            told(&report),
            told(&repaired),
            told(&again),
            verdict.output
        ));
        return;
    }
    let after = Volume::new(after).contents();
    for loss in losses(&before, &after, &hit) {
        tally.failures.push(format!("{what}: {loss}\n{}", told(&repaired)));
    }
}

fn campaign(seeds: Range<u64>) -> Tally {
    let bases = [512, 4096].map(populated);
    for base in &bases {
        let judged = fsck(&ImageFile::new(base));
        assert!(judged.clean, "the volume to be damaged: {}", judged.output);
    }
    let mut tally = Tally::default();
    for seed in seeds {
        one(&mut tally, &bases[seed as usize / KINDS.len() % 2], seed);
    }
    tally
}

fn judge(tally: &Tally) {
    println!("{} damaged volumes", tally.images);
    println!("findings: {:?}", tally.codes);
    println!("found here, not by fsck.exfat: {:?}", tally.ours_only);
    println!("{} found by fsck.exfat only", tally.theirs_only.len());
    assert!(
        tally.failures.is_empty(),
        "{} failures:\n{}",
        tally.failures.len(),
        tally.failures[..tally.failures.len().min(6)].join("\n")
    );
    let few = &tally.theirs_only[..tally.theirs_only.len().min(6)];
    assert!(few.is_empty(), "fsck.exfat finds more:\n{}", few.join("\n"));
}

#[test]
fn a_slice_of_the_campaign() {
    judge(&campaign(0..3 * KINDS.len() as u64));
}

/// Run with `cargo test --release -p platterfs-exfat --test suite check:: -- --ignored --nocapture`; `PLATTER_SEED=n`
/// selects other images.
#[test]
#[ignore = "a thousand images: run by name"]
fn the_campaign() {
    let seed = seed();
    judge(&campaign(seed..seed + 1000));
}

/// The first sector of a directory is overwritten with random bytes: the check keeps all files whose entries are
/// elsewhere.
#[test]
fn a_directory_that_begins_with_rubbish_keeps_what_is_whole() {
    let base = populated(512);
    for seed in 0..24 {
        let mut random = Random::new(seed);
        let mut volume = Volume::new(base.clone());
        let directory = volume.found.iter().find(|found| found.path == "/second").unwrap().clone();
        assert!(directory.chain.len() > 2);
        let start = volume.geometry.heap.offset(directory.chain[0]) as usize;
        let is_hit = |at: &usize| (start..start + 512).contains(at);
        let hit = volume.found.iter().filter(|found| found.slots.iter().any(is_hit));
        let hit: BTreeSet<String> = hit.map(|found| found.path.clone()).collect();
        let before = volume.contents();
        random.fill(&mut volume.image[start..start + 512]);
        let device = MemoryDevice::from_image(&volume.image, Sectors::SMALL);
        let report = check(&device, true);
        assert!(check(&device, false).is_clean(), "seed {seed}: {}", told(&report));
        let lost = losses(&before, &Volume::new(device.to_image()).contents(), &hit);
        assert!(lost.is_empty(), "seed {seed}: {lost:?}\n{}", told(&report));
    }
}

/// Some programs use the reserved bytes after a label too. Other programs read such labels, so the check reports only
/// a notice.
#[test]
fn a_label_of_fifteen_units_is_no_damage() {
    let device = MemoryDevice::new(64 << 20, Sectors::SMALL);
    let options = FormatOptions { label: Some("LABEL".into()), ..FormatOptions::default() };
    Exfat.make(&device, &options, &Silent).unwrap();
    let mut image = device.to_image();
    let entry: Vec<u8> = [0x83, 5].into_iter().chain("LABEL".bytes().flat_map(|byte| [byte, 0])).collect();
    let at = image.windows(entry.len()).position(|bytes| bytes == entry).unwrap();
    image[at + 1] = 15;
    for (unit, byte) in "LABEL OF FIFTEE".bytes().enumerate() {
        image[at + 2 + unit * 2] = byte;
    }
    let device = MemoryDevice::from_image(&image, Sectors::SMALL);
    let report = check(&device, true);
    assert_eq!((report.exit_code(), report.found, report.notices, report.repaired), (0, 1, 1, 0));
    assert!(device.to_image() == image);
    let recognised = Exfat.recognise(&device).unwrap().unwrap();
    assert_eq!(recognised.label.as_deref(), Some("LABEL OF FIFTEE"));
    // An entry has no room for more than 15 units.
    image[at + 1] = 16;
    assert_eq!(check(&MemoryDevice::from_image(&image, Sectors::SMALL), false).exit_code(), 4);
}

/// Where the first entry set of the file `/name.txt` is, in a volume that has only this file.
fn volume_with_one_file() -> (Vec<u8>, usize) {
    let memory = Arc::new(MemoryDevice::new(64 << 20, Sectors::SMALL));
    Exfat.make(&*memory, &FormatOptions::default(), &Silent).unwrap();
    let system = Exfat.open(memory.clone(), OpenOptions::default()).unwrap();
    let file = system.create(Node::ROOT, &"name.txt".into(), Kind::File).unwrap();
    system.write(file, 0, b"content").unwrap();
    system.unmount().unwrap();
    let image = memory.to_image();
    let part: Vec<u8> = [0xC1, 0].into_iter().chain("name.txt".bytes().flat_map(|byte| [byte, 0])).collect();
    let at = (0..image.len()).step_by(32).find(|&at| image[at..].starts_with(&part)).unwrap();
    (image, at - 64)
}

/// Writes the checksum of the entry set at an offset.
fn seal(image: &mut [u8], at: usize) {
    let count = 1 + usize::from(image[at + 1]);
    let sum = set_checksum(image[at..at + count * SLOT].as_chunks::<SLOT>().0);
    image[at + 2..at + 4].copy_from_slice(&sum.to_le_bytes());
}

/// What stands behind the end of a name is no damage where the hash says which end is right.
#[test]
fn units_behind_a_name_whose_hash_is_right_are_no_damage() {
    let (mut image, at) = volume_with_one_file();
    // The name's 8 units begin at 2 of the third slot, which has room for 15.
    image[at + 64 + 2 + 16..at + 96].fill(0xFF);
    seal(&mut image, at);
    let device = MemoryDevice::from_image(&image, Sectors::SMALL);
    let report = check(&device, false);
    assert_eq!((report.exit_code(), report.found, report.notices), (0, 1, 1), "{}", told(&report));
    // With another length the hash is wrong too.
    image[at + 32 + 3] = 9;
    seal(&mut image, at);
    assert_eq!(check(&MemoryDevice::from_image(&image, Sectors::SMALL), false).exit_code(), 4);
}

/// A driver of Linux wrote names of 256 units, with 0 as their length: the file keeps its content and as much of its name
/// as a name may have.
#[test]
fn a_name_longer_than_its_length_can_say_is_cut() {
    let (mut image, at) = volume_with_one_file();
    let unit = |index: usize| b'a' + (index % 26) as u8;
    for part in 0..18 {
        let slot = at + 64 + part * 32;
        assert!(part == 0 || image[slot..slot + 32].iter().all(|&byte| byte == 0));
        image[slot..slot + 2].copy_from_slice(&[0xC1, 0]);
        for index in 0..15 {
            let number = part * 15 + index;
            image[slot + 2 + 2 * index] = if number < 256 { unit(number) } else { 0 };
        }
    }
    (image[at + 1], image[at + 32 + 3]) = (19, 0);
    seal(&mut image, at);
    let device = MemoryDevice::from_image(&image, Sectors::SMALL);
    assert_eq!(check(&device, false).exit_code(), 4);
    let report = check(&device, true);
    let codes: Vec<&str> = report.findings.iter().map(|finding| finding.code).collect();
    assert_eq!(codes, ["set-damaged"], "{}", told(&report));
    assert_eq!(check(&device, false).exit_code(), 0);
    let system = Exfat.open(Arc::new(device), OpenOptions::default()).unwrap();
    let name: String = (0..255).map(|index| char::from(unit(index))).collect();
    let node = system.lookup(Node::ROOT, &name.as_str().into()).unwrap();
    let mut content = [0; 16];
    assert_eq!(system.read(node, 0, &mut content).unwrap(), 7);
    assert_eq!(&content[..7], b"content");
}

/// A set with a critical entry that is not known is left alone, and the check says so.
#[test]
fn a_set_with_an_unknown_entry_is_told_of() {
    let (mut image, at) = volume_with_one_file();
    let end = at + 96;
    assert!(image[end..end + 32].iter().all(|&byte| byte == 0));
    (image[end], image[at + 1]) = (0xC2, 3);
    seal(&mut image, at);
    let device = MemoryDevice::from_image(&image, Sectors::SMALL);
    let report = check(&device, true);
    let codes: Vec<&str> = report.findings.iter().map(|finding| finding.code).collect();
    assert_eq!((codes, report.exit_code()), (vec!["unknown-entry"], 0), "{}", told(&report));
    assert!(device.to_image() == image);
}

/// A file that starts at a directory's cluster has nothing of its own there, but keeps its name.
#[test]
fn a_file_that_starts_at_a_directorys_cluster_keeps_its_name() {
    let memory = Arc::new(MemoryDevice::new(64 << 20, Sectors::SMALL));
    Exfat.make(&*memory, &FormatOptions::default(), &Silent).unwrap();
    let system = Exfat.open(memory.clone(), OpenOptions::default()).unwrap();
    let above = system.create(Node::ROOT, &"above".into(), Kind::Directory).unwrap();
    let beside = system.create(Node::ROOT, &"beside".into(), Kind::Directory).unwrap();
    for directory in [above, beside] {
        let inside = system.create(directory, &"inside".into(), Kind::File).unwrap();
        system.write(inside, 0, b"inside").unwrap();
    }
    let file = system.create(above, &"name.txt".into(), Kind::File).unwrap();
    system.write(file, 0, b"content").unwrap();
    system.unmount().unwrap();
    let image = memory.to_image();
    let entry = |name: &str| {
        let part: Vec<u8> = [0xC1, 0].into_iter().chain(name.bytes().flat_map(|byte| [byte, 0])).collect();
        (0..image.len()).step_by(32).find(|&at| image[at..].starts_with(&part)).unwrap() - 64
    };
    let cluster = |at: usize| -> [u8; 4] { image[at + 52..at + 56].try_into().unwrap() };
    let at = entry("name.txt");
    for (start, length) in ["above", "beside"].into_iter().flat_map(|name| [(name, 0), (name, 7)]) {
        let mut damaged = image.clone();
        damaged[at + 52..at + 56].copy_from_slice(&cluster(entry(start)));
        (damaged[at + 40], damaged[at + 56]) = (length, length);
        seal(&mut damaged, at);
        let device = Arc::new(MemoryDevice::from_image(&damaged, Sectors::SMALL));
        let report = check(&device, true);
        assert!(!report.is_clean() && report.exit_code() == 1, "{start} {length}\n{}", told(&report));
        let report = check(&device, false);
        assert!(report.is_clean(), "{start} {length}\n{}", told(&report));
        let system = Exfat.open(device, OpenOptions::default()).unwrap();
        for (directory, name, expected) in
            [("above", "name.txt", 0), ("above", "inside", 6), ("beside", "inside", 6)]
        {
            let directory = system.lookup(Node::ROOT, &directory.into()).unwrap();
            let file = system.lookup(directory, &name.into()).unwrap();
            assert_eq!(system.attributes(file).unwrap().size, expected, "{start} {length}: {name}");
        }
    }
}

/// What the check calls damage of the bitmap or of the up-case table makes the volume read-only: a bitmap of another length
/// or with another chain, and system structures in clusters that are free or another's.
#[test]
fn a_volume_with_a_broken_system_structure_is_only_read() {
    let image = populated(512);
    let is_writable = |image: &[u8]| {
        let device = Arc::new(MemoryDevice::from_image(image, Sectors::SMALL));
        Exfat.open(device, OpenOptions::default()).is_ok_and(|volume| volume.set_label("new").is_ok())
    };
    assert!(is_writable(&image));
    let volume = Volume::new(image.clone());
    let entry = |kind: u8| volume.root_slots().into_iter().find(|&at| image[at] == kind).unwrap();
    for at in [entry(0x81), entry(0x82)] {
        for bit in 0..256 {
            let mut damaged = image.clone();
            damaged[at + bit / 8] ^= 1 << (bit % 8);
            let device = MemoryDevice::from_image(&damaged, Sectors::SMALL);
            let is_damage = check(&device, false).exit_code() != 0;
            let is_unseen = is_damage && is_writable(&damaged);
            assert!(!is_unseen, "byte {} of {:02X}: only the check finds damage", bit / 8, image[at]);
        }
    }
    for first in [entry(0x81), entry(0x82)] {
        let cluster = u32::from_le_bytes(image[first + 20..first + 24].try_into().unwrap());
        for (value, what) in [(0, "free"), (cluster, "a loop"), (cluster + 1, "longer")] {
            let mut volume = Volume::new(image.clone());
            let last = *volume.chain(cluster, None).last().unwrap();
            volume.set_fat(last, value);
            assert!(!is_writable(&volume.image), "{what}");
        }
    }
}
