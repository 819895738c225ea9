//! Damaged volumes: no panic and no hang; after a repair the check and ntfs-3g accept the volume, and every file whose
//! records were not hit has its content.

use crate::common::names;
use crate::damaged::{KINDS, Volume, damage};
use crate::filled::{fill, filled};
use crate::judges::{AttributeContent, ImageFile, Mount, ntfsfix};
use platter_device::{MemoryDevice, Sectors};
use platter_ntfs::Ntfs;
use platter_ntfs::check::check;
use platter_testing::model::Random;
use platter_vfs::{
    CheckOptions, CheckReport, FileSystem, Format, FormatOptions, Kind, Node, OpenOptions, Reparse, Silent,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

fn told(report: &CheckReport) -> String {
    report.findings.iter().take(30).map(|finding| format!("  {:?} {finding}\n", finding.severity)).collect()
}

#[derive(Default)]
struct Tally {
    images: u32,
    /// In how many images each code was found.
    codes: BTreeMap<&'static str, u32>,
    /// Volumes that had no way to `$MFT` left, by kind of damage.
    hopeless: BTreeMap<&'static str, u32>,
    failures: Vec<String>,
}

struct Base {
    volume: Volume,
    before: BTreeMap<String, AttributeContent>,
}

fn one(tally: &mut Tally, base: &Base, seed: u64) {
    let kind = KINDS[seed as usize % KINDS.len()];
    let mut volume = base.volume.clone();
    let hit = damage(&mut volume, kind, &mut Random::new(seed));
    let what = format!("seed {seed}, {kind}, records {:?}", hit.records);
    tally.images += 1;
    let device = MemoryDevice::from_image(&volume.image, Sectors::SMALL);
    let found = check(&device, CheckOptions { repair: false }, &Silent);
    assert!(device.to_image() == volume.image, "{what}: written to without repair");
    let found = match found {
        Ok(found) => found,
        Err(_) => {
            *tally.hopeless.entry(kind).or_default() += 1;
            return;
        }
    };
    found.findings.iter().map(|finding| finding.code).collect::<BTreeSet<_>>().into_iter().for_each(|code| {
        *tally.codes.entry(code).or_default() += 1;
    });
    let repaired = check(&device, CheckOptions { repair: true }, &Silent).unwrap();
    let again = check(&device, CheckOptions { repair: false }, &Silent).unwrap();
    let mut fail = |why: String| {
        tally.failures.push(format!(
            "{what}: {why}\nfound:\n{}repair:\n{}again:\n{}",
            told(&found),
            told(&repaired),
            told(&again)
        ));
    };
    if !again.is_clean() {
        return fail("not clean after the repair".into());
    }
    let image = ImageFile::of(&device);
    let verdict = ntfsfix(&image);
    if !verdict.clean {
        return fail(format!("ntfsfix: {}", verdict.output));
    }
    let after = match Mount::reading(&image) {
        Ok(mount) => mount.tree(),
        Err(error) => return fail(error),
    };
    // Compressed data whose runs were changed cannot be unpacked any more.
    let is_told = |path: &str| {
        let mut files = base.volume.files.values();
        files.any(|file| {
            let is_hit = file.records.iter().any(|record| hit.records.contains(record));
            file.is_packed && is_hit && file.paths.iter().any(|own| own == path)
        })
    };
    let unread = after.iter().find(|(path, content)| content.is_err() && !is_told(path));
    if let Some((path, Err(error))) = unread {
        return fail(format!("ntfs-3g: {path}: {error}"));
    }
    let contents: BTreeSet<&AttributeContent> = after.values().collect();
    for file in base.volume.files.values() {
        if file.records.iter().any(|record| hit.records.contains(record)) {
            continue;
        }
        for path in &file.paths {
            // Files below a directory that was hit may be elsewhere.
            if let Some(content) = base.before.get(path)
                && !contents.contains(content)
            {
                return fail(format!("the content of {path} (record {}) is gone", file.records[0]));
            }
        }
    }
    let untouched = hit.records.is_empty() && !matches!(kind, "everything");
    if untouched && after != base.before {
        let gone: Vec<&String> =
            base.before.keys().filter(|path| !after.contains_key(*path)).take(5).collect();
        fail(format!("no record was hit, but files are elsewhere: {gone:?}"));
    }
}

/// Kinds of damage, each with the beginning of a code that the check must report for it, whatever else it finds.
const NAMED: [(&str, &str); 9] = [
    ("record-zero", "records-taken"),
    ("record-garbage", "record-lost"),
    ("index-zero", "index"),
    ("index-garbage", "index"),
    ("boot-copy", "boot-copy"),
    ("bitmap", "bitmap-"),
    ("record-bitmap", "records-"),
    ("mirror", "mirror"),
    ("run-list", "cross-link"),
];

#[test]
fn damage_has_a_name() {
    let bytes = std::fs::read(filled(16 << 20, 4096, 150).path()).unwrap();
    for (kind, code) in NAMED {
        // Some hits are in places that nothing uses.
        let mut hits = 0;
        for seed in 0..12 {
            let mut volume = Volume::new(bytes.clone());
            damage(&mut volume, kind, &mut Random::new(seed));
            let device = MemoryDevice::from_image(&volume.image, Sectors::SMALL);
            let report = check(&device, CheckOptions::default(), &Silent).unwrap();
            hits += u32::from(report.findings.iter().any(|finding| finding.code.starts_with(code)));
            assert!(report.repaired == 0 && device.to_image() == volume.image, "{kind} {seed}");
        }
        assert!(hits >= 3, "{kind}: {hits} of 12 were called {code}");
    }
}

fn campaign(seeds: Range<u64>) -> Tally {
    let ours = MemoryDevice::new(16 << 20, Sectors::SMALL);
    Ntfs.make(&ours, &FormatOptions::default(), &Silent).unwrap();
    let ours = ImageFile::of(&ours);
    fill(&ours, 4096, 150);
    let bases = [filled(16 << 20, 512, 150), filled(16 << 20, 4096, 150), ours].map(|image| {
        let before = Mount::reading(&image).expect("a sound volume").tree();
        let bytes = std::fs::read(image.path()).unwrap();
        let device = MemoryDevice::from_image(&bytes, Sectors::SMALL);
        let report = check(&device, CheckOptions::default(), &Silent).unwrap();
        assert_eq!(report.found, 0, "before the damage:\n{}", told(&report));
        Base { volume: Volume::new(bytes), before }
    });
    let mut tally = Tally::default();
    for seed in seeds {
        one(&mut tally, &bases[seed as usize / KINDS.len() % bases.len()], seed);
    }
    tally
}

fn judge(tally: &Tally) {
    println!("{} damaged volumes", tally.images);
    println!("findings: {:?}", tally.codes);
    println!("without a way to $MFT: {:?}", tally.hopeless);
    let heads = tally.failures.iter().filter_map(|failure| failure.lines().next());
    heads.for_each(|head| println!("{head}"));
    let few = &tally.failures[..tally.failures.len().min(8)];
    assert!(tally.failures.is_empty(), "{} failures:\n{}", tally.failures.len(), few.join("\n"));
}

#[test]
fn a_slice_of_the_campaign() {
    judge(&campaign(0..3 * KINDS.len() as u64));
}

/// Run with `cargo test --release -p platterfs-ntfs --test suite damage:: -- --ignored --nocapture`, with
/// `PLATTER_SEED=n` for other volumes and `PLATTER_COUNT=n` for another number of them.
#[test]
#[ignore = "two thousand images: run by name"]
fn the_campaign() {
    let number = |name: &str, usual: u64| {
        std::env::var(name)
            .map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
    };
    let (seed, count) = (number("PLATTER_SEED", 1), number("PLATTER_COUNT", 2000));
    println!("PLATTER_SEED={seed} PLATTER_COUNT={count}");
    judge(&campaign(seed..seed + count));
}

/// The offsets in an image of the index entries with a name of three letters.
fn entries_of(image: &[u8], name: &str) -> Vec<usize> {
    let units: Vec<u8> = name.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let is_entry = |&at: &usize| {
        // A name is at 0x42 of its key, and the key at 0x10 of its entry, which has the key's length at 0x0A.
        image[at..].starts_with(&units) && image[at - 2] == 3 && image[at - 0x52 + 0x0A..][..2] == [0x48, 0]
    };
    (0x52..image.len() - units.len()).step_by(2).filter(is_entry).map(|at| at - 0x52).collect()
}

/// Returns the device of a new volume, unmounted after `fill` has made files in it.
fn volume_with(fill: impl FnOnce(&dyn FileSystem)) -> Arc<MemoryDevice> {
    volume_made_with(&FormatOptions::default(), fill)
}

fn volume_made_with(options: &FormatOptions, fill: impl FnOnce(&dyn FileSystem)) -> Arc<MemoryDevice> {
    let memory = Arc::new(MemoryDevice::new(16 << 20, Sectors::SMALL));
    Ntfs.make(&*memory, options, &Silent).unwrap();
    let system = Ntfs.open(memory.clone(), OpenOptions::default()).unwrap();
    fill(&*system);
    system.unmount().unwrap();
    memory
}

/// Reading a name whose entry leads to the record of another file fails, and gives no bytes of that other file.
#[test]
fn an_entry_that_leads_to_another_file_is_not_read_as_its_own() {
    let memory = volume_with(|system| {
        let directory = system.create(Node::ROOT, &"directory".into(), Kind::Directory).unwrap();
        for name in ["one", "two"] {
            let file = system.create(directory, &name.into(), Kind::File).unwrap();
            system.write(file, 0, name.as_bytes()).unwrap();
        }
    });
    let mut image = memory.to_image();
    let to = entries_of(&image, "two")[0];
    let reference: [u8; 8] = image[to..to + 8].try_into().unwrap();
    let entries = entries_of(&image, "one");
    assert!(!entries.is_empty());
    entries.iter().for_each(|&at| image[at..at + 8].copy_from_slice(&reference));
    let memory = Arc::new(MemoryDevice::from_image(&image, Sectors::SMALL));
    let read = |name: &str| {
        let options = OpenOptions { read_only: true, ..OpenOptions::default() };
        let system = Ntfs.open(memory.clone(), options)?;
        let directory = system.lookup(Node::ROOT, &"directory".into())?;
        let mut content = [0; 3];
        let length = system.read(system.lookup(directory, &name.into())?, 0, &mut content)?;
        Ok::<_, platter_vfs::Error>(content[..length].to_vec())
    };
    let error = read("one").unwrap_err().to_string();
    assert!(error.contains("expected one with the name \"one\""), "{error}");
    assert_eq!(read("two").unwrap(), b"two");
    let found = check(&*memory, CheckOptions { repair: true }, &Silent).unwrap();
    assert!(!found.is_clean());
    assert_eq!((read("one").unwrap(), read("two").unwrap()), (b"one".to_vec(), b"two".to_vec()));
}

/// Whether an offset in an image of the device is in a record of `$MFT`, and not in a copy of a record in the log.
fn is_in_record(image: &[u8], at: usize) -> bool {
    image[at / 1024 * 1024..].starts_with(b"FILE")
}

/// `$EA_INFORMATION` states the lengths of the extended attributes. A wrong value is found and repaired.
#[test]
fn what_is_said_of_extended_attributes_is_compared_with_them() {
    let memory = volume_with(|system| {
        let file = system.create(Node::ROOT, &"file".into(), Kind::File).unwrap();
        system.extended_attributes().unwrap().set(file, "AN.ATTRIBUTE", Some(b"and its value")).unwrap();
    });
    let sound = memory.to_image();
    assert!(check(&*memory, CheckOptions::default(), &Silent).unwrap().is_clean());
    // 30 bytes when packed (5 + 12 + 13), no attribute that is needed, and 36 bytes as `$EA` stores the attribute.
    let value = [30, 0, 0, 0, 36, 0, 0, 0];
    let places: Vec<usize> = (0..sound.len() - 24)
        .step_by(8)
        .filter(|&at| sound[at] == 0xD0 && sound[at + 24..].starts_with(&value) && is_in_record(&sound, at))
        .collect();
    let [at] = places[..] else { panic!("{places:?}") };
    // One bit is flipped in each of the three numbers, and in both halves of the last one.
    for (at, bit) in [(at + 24, 1), (at + 26, 1), (at + 28, 4), (at + 30, 1)] {
        let mut image = sound.clone();
        image[at] ^= bit;
        let memory = MemoryDevice::from_image(&image, Sectors::SMALL);
        let found = check(&memory, CheckOptions { repair: true }, &Silent).unwrap();
        assert!(
            found.findings.iter().any(|finding| finding.code == "ea-information"),
            "{at}: {}",
            told(&found)
        );
        assert!(check(&memory, CheckOptions::default(), &Silent).unwrap().is_clean());
        assert!(memory.to_image()[places[0] + 24..].starts_with(&value), "{at}");
    }
}

/// The check repairs a name that states a wrong sequence number of its directory, even if the number is 0, which
/// matches every use of a record.
#[test]
fn a_name_has_the_sequence_number_of_its_directory() {
    let memory = volume_with(|system| {
        let directory = system.create(Node::ROOT, &"directory".into(), Kind::Directory).unwrap();
        system.create(directory, &"one".into(), Kind::File).unwrap();
    });
    let sound = memory.to_image();
    let entry = entries_of(&sound, "one")[0];
    let key = &sound[entry + 0x10..entry + 0x10 + 0x48];
    let names: Vec<usize> = (0..sound.len() - key.len())
        .step_by(8)
        .filter(|&at| sound[at..].starts_with(&key[..8]) && sound[at + 0x42..].starts_with(&key[0x42..]))
        .filter(|&at| is_in_record(&sound, at))
        .collect();
    // The name is in the record of the file, and in the index in the record of the directory.
    assert_eq!(names.len(), 2);
    for sequence in [0, 9] {
        for &name in &names {
            let mut image = sound.clone();
            image[name + 6] = sequence;
            let memory = MemoryDevice::from_image(&image, Sectors::SMALL);
            let found = check(&memory, CheckOptions { repair: true }, &Silent).unwrap();
            assert!(!found.is_clean(), "{sequence} at {name:#x}");
            assert!(found.findings.iter().all(|finding| finding.repaired), "{}", told(&found));
            let again = check(&memory, CheckOptions::default(), &Silent).unwrap();
            assert!(again.is_clean(), "{}", told(&again));
        }
    }
}

/// The offset of the record in use that has this name, and no other; records in the log are left out.
fn record_of(image: &[u8], name: &str) -> usize {
    let units: Vec<u8> = name.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let has_name = |at: &usize| {
        let record = &image[*at..*at + 1024];
        record.starts_with(b"FILE")
            && record[0x16] & 1 == 1
            && record.windows(units.len()).any(|part| part == units)
    };
    let table = u64::from_le_bytes(image[48..56].try_into().unwrap()) as usize * 4096;
    let places: Vec<usize> = (table..table + (256 << 10)).step_by(1024).filter(has_name).collect();
    let [at] = places[..] else { panic!("{name}: {places:?}") };
    at
}

/// The offset of the first attribute of a type in the record at an offset.
fn attribute_of(image: &[u8], record: usize, kind: u32) -> usize {
    let word = |at: usize| u32::from_le_bytes(image[at..at + 4].try_into().unwrap());
    let mut at = record + usize::from(image[record + 0x14]);
    while word(at) != kind {
        assert_ne!(word(at), u32::MAX, "no attribute {kind:#x}");
        at += word(at + 4) as usize;
    }
    at
}

/// The content of a file in the root directory.
fn content_of(memory: &Arc<MemoryDevice>, name: &str) -> platter_vfs::Result<Vec<u8>> {
    let options = OpenOptions { read_only: true, ..OpenOptions::default() };
    let system = Ntfs.open(memory.clone(), options)?;
    let node = system.lookup(Node::ROOT, &name.into())?;
    let mut content = vec![0; system.attributes(node)?.size as usize];
    let length = system.read(node, 0, &mut content)?;
    content.truncate(length);
    Ok(content)
}

/// A record of which only the signature, the header of the update sequence or a number of that is wrong keeps its file,
/// in a repair and when what is left is copied out. A record whose attributes are torn as well does not come back.
#[test]
fn a_record_that_only_its_update_sequence_calls_torn_is_kept() {
    let memory = volume_with(|system| {
        let file = system.create(Node::ROOT, &"file".into(), Kind::File).unwrap();
        system.write(file, 0, b"content").unwrap();
    });
    let sound = memory.to_image();
    let at = record_of(&sound, "file");
    type Change = fn(&mut [u8]);
    let changes: [(&str, Change); 6] = [
        ("the mark of a bad record", |record| record[..4].copy_from_slice(b"BAAD")),
        ("one bit of the signature", |record| record[1] ^= 0x40),
        ("the place of the array", |record| record[4] ^= 2),
        ("the length of the array", |record| record[6] = 9),
        ("a number in the first sector", |record| record[511] ^= 0x10),
        ("a number behind the attributes", |record| record[1022] ^= 1),
    ];
    for (what, change) in changes {
        let mut image = sound.clone();
        change(&mut image[at..at + 1024]);
        let memory = Arc::new(MemoryDevice::from_image(&image, Sectors::SMALL));
        let mut left = Vec::new();
        platter_ntfs::recover(memory.clone(), &Silent, &mut |found, data| {
            let mut bytes = vec![0; found.size as usize];
            data.read(0, &mut bytes)?;
            left.push((found.path.last().unwrap().to_string(), found.damaged, bytes));
            Ok(())
        })
        .unwrap();
        assert_eq!(left, [("file".to_owned(), true, b"content".to_vec())], "{what}");
        let found = check(&*memory, CheckOptions::default(), &Silent).unwrap();
        let codes: Vec<&str> = found.findings.iter().map(|finding| finding.code).collect();
        assert_eq!(codes, ["record-torn"], "{what}: {}", told(&found));
        check(&*memory, CheckOptions { repair: true }, &Silent).unwrap();
        assert!(check(&*memory, CheckOptions::default(), &Silent).unwrap().is_clean(), "{what}");
        assert_eq!(content_of(&memory, "file").unwrap(), b"content", "{what}");
    }
    let mut image = sound;
    image[at + 511] ^= 0x10;
    let name = attribute_of(&image, at, 0x30);
    image[name + 4] = 0xFF;
    let memory = Arc::new(MemoryDevice::from_image(&image, Sectors::SMALL));
    check(&*memory, CheckOptions { repair: true }, &Silent).unwrap();
    assert!(check(&*memory, CheckOptions::default(), &Silent).unwrap().is_clean());
    assert!(content_of(&memory, "file").is_err());
}

/// A header that states other virtual clusters than the run list costs no content.
#[test]
fn the_run_list_is_right_where_the_allocated_size_agrees_with_it() {
    let content: Vec<u8> = (0..80_000u32).map(|at| at as u8).collect();
    let memory = volume_with(|system| {
        let file = system.create(Node::ROOT, &"file".into(), Kind::File).unwrap();
        system.write(file, 0, &content).unwrap();
    });
    let sound = memory.to_image();
    let data = attribute_of(&sound, record_of(&sound, "file"), 0x80);
    // The first virtual cluster is at 0x10, the last one at 0x18.
    for (at, bit) in [(0x10, 1), (0x18, 1), (0x18, 4), (0x19, 1)] {
        let mut image = sound.clone();
        image[data + at] ^= bit;
        let memory = Arc::new(MemoryDevice::from_image(&image, Sectors::SMALL));
        let found = check(&*memory, CheckOptions { repair: true }, &Silent).unwrap();
        assert!(found.findings.iter().all(|finding| finding.code == "runs"), "{at}: {}", told(&found));
        assert!(check(&*memory, CheckOptions::default(), &Silent).unwrap().is_clean());
        assert!(content_of(&memory, "file").unwrap() == content, "{at}, {bit}");
    }
}

/// One wrong bit in the header or the name of an attribute of a directory's index moves no file.
#[test]
fn the_index_of_a_directory_keeps_its_name_and_its_entries() {
    let memory = volume_with(|system| {
        let below = system.create(Node::ROOT, &"below".into(), Kind::Directory).unwrap();
        for number in 0..60 {
            let name = format!("a name that takes some room, {number}");
            system.create(below, &(&*name).into(), Kind::File).unwrap();
        }
        let small = system.create(below, &"small".into(), Kind::Directory).unwrap();
        system.create(small, &"file".into(), Kind::File).unwrap();
    });
    let sound = memory.to_image();
    let before = tree_of(&memory);
    assert_eq!(before.len(), 63);
    let root = u64::from_le_bytes(sound[48..56].try_into().unwrap()) as usize * 4096 + 5 * 1024;
    let attributes = [
        attribute_of(&sound, root, 0x90),
        attribute_of(&sound, record_of(&sound, "below"), 0x90),
        attribute_of(&sound, record_of(&sound, "below"), 0xA0),
        attribute_of(&sound, record_of(&sound, "below"), 0xB0),
        attribute_of(&sound, record_of(&sound, "small"), 0x90),
    ];
    for (number, at) in attributes.into_iter().enumerate() {
        let name = at + usize::from(sound[at + 0x0A]);
        assert_eq!(&sound[name..name + 8], b"$\0I\x003\x000\0");
        // The type, whether the content is outside, and the length and the place of the name.
        for byte in (at..at + 4).chain(at + 8..at + 12).chain(name..name + 8) {
            // Of the name's length, 2 is the bit that is set.
            for bit in [0, 2, 4] {
                let mut image = sound.clone();
                image[byte] ^= 1 << bit;
                let memory = Arc::new(MemoryDevice::from_image(&image, Sectors::SMALL));
                let found = check(&*memory, CheckOptions { repair: true }, &Silent).unwrap();
                let what = format!("attribute {number}, byte {:#x}, bit {bit}: {}", byte - at, told(&found));
                let again = check(&*memory, CheckOptions::default(), &Silent).unwrap();
                assert!(again.is_clean(), "{what} again: {}", told(&again));
                assert_eq!(tree_of(&memory), before, "{what}");
            }
        }
    }
}

/// The paths of all files of a volume.
fn tree_of(memory: &Arc<MemoryDevice>) -> BTreeSet<String> {
    let options = OpenOptions { read_only: true, ..OpenOptions::default() };
    let system = Ntfs.open(memory.clone(), options).unwrap();
    let mut paths = BTreeSet::new();
    let mut left = vec![(Node::ROOT, String::new())];
    while let Some((directory, path)) = left.pop() {
        for entry in names(&*system, directory) {
            let path = format!("{path}/{}", entry);
            let node = system.lookup(directory, &(&*entry).into()).unwrap();
            if system.attributes(node).unwrap().kind == Kind::Directory {
                left.push((node, path.clone()));
            }
            paths.insert(path);
        }
    }
    paths
}

/// One bit of the attribute's flags or of its compression unit costs no content, compressed or not.
#[test]
fn a_compression_unit_and_the_flag_of_compression_tell_of_each_other() {
    let content: Vec<u8> = (0..200_000u32).map(|at| (at / 1000) as u8).collect();
    for is_packed in [true, false] {
        let options = FormatOptions { compress: Some(is_packed), ..FormatOptions::default() };
        let memory = volume_made_with(&options, |system| {
            let file = system.create(Node::ROOT, &"file".into(), Kind::File).unwrap();
            system.write(file, 0, &content).unwrap();
        });
        let sound = memory.to_image();
        // The flags are at 0x0C of an attribute, and the unit at 0x22 of one whose clusters are outside.
        let data = attribute_of(&sound, record_of(&sound, "file"), 0x80);
        assert_eq!([sound[data + 0x0C], sound[data + 0x22]], if is_packed { [1, 4] } else { [0, 0] });
        let damages: &[(usize, u8)] = if is_packed {
            &[(0x0C, 1), (0x0C, 2), (0x0C, 32), (0x22, 1), (0x22, 2), (0x22, 16)]
        } else {
            &[(0x0C, 1), (0x0C, 2), (0x0C, 32), (0x22, 1), (0x22, 4), (0x22, 16)]
        };
        for (at, bits) in damages {
            let mut image = sound.clone();
            image[data + at] ^= bits;
            let memory = Arc::new(MemoryDevice::from_image(&image, Sectors::SMALL));
            let found = check(&*memory, CheckOptions { repair: true }, &Silent).unwrap();
            let codes: Vec<_> = found.findings.iter().map(|finding| finding.code).collect();
            assert_eq!(codes, ["compression"], "{}", told(&found));
            assert!(check(&*memory, CheckOptions::default(), &Silent).unwrap().is_clean());
            assert!(
                content_of(&memory, "file").unwrap() == content,
                "compressed: {is_packed}, {at:#x}, {bits}"
            );
            let repaired = memory.to_image();
            assert_eq!(
                [repaired[data + 0x0C], repaired[data + 0x22]],
                [sound[data + 0x0C], sound[data + 0x22]]
            );
        }
    }
}

/// Runs that no 0 ends are put back, although they say where the content is: ntfs-3g refuses a volume with such a file of the
/// system.
#[test]
fn runs_have_an_end() {
    let content = vec![7; 4096];
    let memory = volume_with(|system| {
        let file = system.create(Node::ROOT, &"file".into(), Kind::File).unwrap();
        system.write(file, 0, &content).unwrap();
    });
    let sound = memory.to_image();
    let pairs = attribute_of(&sound, record_of(&sound, "file"), 0x80) + 0x40;
    assert_eq!((sound[pairs], &sound[pairs + 4..pairs + 8]), (0x21, &[0; 4][..]));
    let mut image = sound.clone();
    // The place takes six bytes, and with them all that the attribute has.
    image[pairs] = 0x61;
    let memory = Arc::new(MemoryDevice::from_image(&image, Sectors::SMALL));
    assert!(content_of(&memory, "file").unwrap() == content);
    let found = check(&*memory, CheckOptions { repair: true }, &Silent).unwrap();
    let codes: Vec<_> = found.findings.iter().map(|finding| finding.code).collect();
    assert_eq!(codes, ["runs"], "{}", told(&found));
    assert_eq!(memory.to_image()[pairs..pairs + 8], sound[pairs..pairs + 8]);
    assert!(content_of(&memory, "file").unwrap() == content);
}

/// Of compressed content whole units are written, so its initialized size may lie behind the end of the content.
#[test]
fn compressed_content_may_be_initialized_behind_its_end() {
    let content = vec![7; 100_000];
    let options = FormatOptions { compress: Some(true), ..FormatOptions::default() };
    let memory = volume_made_with(&options, |system| {
        let file = system.create(Node::ROOT, &"file".into(), Kind::File).unwrap();
        system.write(file, 0, &content).unwrap();
    });
    let mut image = memory.to_image();
    let data = attribute_of(&image, record_of(&image, "file"), 0x80);
    image[data + 0x38..data + 0x40].copy_from_slice(&131_072u64.to_le_bytes());
    let memory = Arc::new(MemoryDevice::from_image(&image, Sectors::SMALL));
    assert!(check(&*memory, CheckOptions::default(), &Silent).unwrap().is_clean());
    assert!(content_of(&memory, "file").unwrap() == content);
    let system = Ntfs.open(memory.clone(), OpenOptions::default()).unwrap();
    let file = system.lookup(Node::ROOT, &"file".into()).unwrap();
    system.write(file, 150_000, b"end").unwrap();
    system.unmount().unwrap();
    assert!(check(&*memory, CheckOptions::default(), &Silent).unwrap().is_clean());
    let expected = [&content[..], &[0; 50_000], b"end"].concat();
    assert!(content_of(&memory, "file").unwrap() == expected);
}

/// A reparse point whose data is not inside its value is found and repaired, and the content of its file stays readable.
#[test]
fn a_reparse_point_has_the_data_that_it_states() {
    let memory = volume_with(|system| {
        let file = system.create(Node::ROOT, &"file".into(), Kind::File).unwrap();
        system.write(file, 0, b"content").unwrap();
        // The tag is not Microsoft's, so a GUID comes first.
        let point = Reparse { tag: 0x0000_0042, data: vec![7; 24] };
        system.reparse_points().unwrap().set(file, Some(&point)).unwrap();
        let short = Reparse { tag: 0x0000_0042, data: vec![7; 15] };
        assert!(system.reparse_points().and_then(|part| part.set(file, Some(&short))).is_err());
    });
    let sound = memory.to_image();
    assert!(check(&*memory, CheckOptions::default(), &Silent).unwrap().is_clean());
    let point = attribute_of(&sound, record_of(&sound, "file"), 0xC0);
    // The data's length is in the value at 4, the value's own length in the attribute at 0x10.
    for (at, byte, has_point) in
        [(0x18 + 4, 200, true), (0x10, 20, false), (0x10, 4, false), (0x10, 0, false)]
    {
        let mut image = sound.clone();
        image[point + at] = byte;
        let memory = Arc::new(MemoryDevice::from_image(&image, Sectors::SMALL));
        assert_eq!(content_of(&memory, "file").unwrap(), b"content", "{at:#x}, {byte}");
        let found = check(&*memory, CheckOptions { repair: true }, &Silent).unwrap();
        assert!(found.findings.iter().any(|finding| finding.code == "reparse"), "{}", told(&found));
        assert!(check(&*memory, CheckOptions::default(), &Silent).unwrap().is_clean());
        assert_eq!(content_of(&memory, "file").unwrap(), b"content", "{at:#x}, {byte}");
        let system = Ntfs.open(memory, OpenOptions::default()).unwrap();
        let file = system.lookup(Node::ROOT, &"file".into()).unwrap();
        let point = system.reparse_points().unwrap().get(file).unwrap();
        assert_eq!(point.map(|point| point.data), has_point.then(|| vec![7; 24]), "{at:#x}, {byte}");
        system.unlink(Node::ROOT, &"file".into()).unwrap();
        system.unmount().unwrap();
    }
}
