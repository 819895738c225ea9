//! One metadata page after another is lost or damaged. The tests count the files that a repair keeps, and look whether
//! the volume is clean afterwards.

use crate::common::{V3_14, VOLUMES, Volume, content, open};
use crate::damaged::{Of, Surgeon};
use platter_device::{Device, MemoryDevice, OverlayDevice};
use platter_refs::layout::Root;
use platter_refs::layout::bytes::u64_at;
use platter_refs::{Refs, RefsVolume};
use platter_vfs::{CheckOptions, Cursor, FileSystem, Format, Kind, Name, Names, Node, OpenOptions, Silent};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The files by their names, with their content.
type Files = BTreeMap<String, Vec<u8>>;

/// Makes 330 files in three directories, with a commit after every ten, and removes one of each ten.
fn populate(device: Arc<MemoryDevice>) -> Files {
    let system = open(device);
    let mut files = Files::new();
    let mut above = Node::ROOT;
    for depth in 0..3u64 {
        above = system
            .create(above, &Name::from(format!("directory {depth}").as_str()), Kind::Directory)
            .unwrap();
        for number in 0..110u64 {
            let name = format!("file {depth} {number}");
            let node = system.create(above, &Name::from(name.as_str()), Kind::File).unwrap();
            let bytes = content(depth * 1000 + number, (number * number % 9000) as usize);
            system.write(node, 0, &bytes).unwrap();
            system.forget(node, 1);
            files.insert(name, bytes);
            if number % 10 == 9 {
                let gone = format!("file {depth} {}", number - 5);
                system.unlink(above, &Name::from(gone.as_str())).unwrap();
                files.remove(&gone);
                system.sync_all().unwrap();
            }
        }
    }
    system.unmount().unwrap();
    files
}

/// Returns the offset of each page that the newest checkpoint leads to, with the page's tree.
fn pages(device: &MemoryDevice) -> Vec<(u64, Of)> {
    let surgeon = Surgeon::new(device);
    let mut trees: Vec<Of> = Root::ALL.into_iter().map(Of::Root).collect();
    surgeon.each_row(Of::Root(Root::Objects), &mut |key, _| trees.push(Of::Object(u64_at(key, 8))));
    let all = trees.into_iter().flat_map(|of| {
        surgeon
            .pages(of)
            .into_iter()
            .map(|page| (surgeon.offset(page.clusters[0], of), of))
            .collect::<Vec<_>>()
    });
    all.collect()
}

/// Returns the files of a volume by their names; `None` stands for content that cannot be read.
fn read(system: &RefsVolume) -> BTreeMap<String, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![Node::ROOT];
    while let Some(directory) = waiting.pop() {
        let (mut cursor, mut entries) = (Cursor::START, Vec::new());
        while system.read_directory(directory, cursor, 100, &mut entries).is_ok() && !entries.is_empty() {
            cursor = entries.last().unwrap().next;
            for entry in entries.drain(..) {
                let Ok(node) = system.lookup(directory, &entry.name) else { continue };
                if entry.attributes.kind == Kind::Directory {
                    waiting.push(node);
                    continue;
                }
                let mut bytes = vec![0; entry.attributes.size as usize];
                let got = system.read(node, 0, &mut bytes).ok();
                found.insert(entry.name.to_string(), got.map(|got| bytes[..got].to_vec()));
            }
        }
    }
    found
}

/// The results of all cases of one kind of damage.
#[derive(Clone, Copy, Debug, Default)]
struct Outcome {
    cases: u64,
    /// The number of cases in which a repair left nothing to be found.
    clean: u64,
    /// The number of files that were as before, over all cases.
    kept: u64,
    /// The number of files that were there before the damage, over all cases.
    files: u64,
    /// The number of files that had other content after the repair.
    wrong: u64,
    /// The number of files that were not there before the damage.
    more: u64,
    /// The number of files that a recovery found as they were.
    recovered: u64,
}

fn one(
    device: &Arc<MemoryDevice>,
    files: &Files,
    damage: &dyn Fn(&dyn Device),
    outcome: &mut Outcome,
) -> bool {
    let seen: Arc<dyn Device> = Arc::new(OverlayDevice::new(device.clone()));
    damage(&*seen);
    let recovered = Refs::ANY.recover(seen.clone(), &Silent, &mut |found, data| {
        let name = found.path.last().map(ToString::to_string).unwrap_or_default();
        let mut bytes = vec![0; found.size as usize];
        let is_same = !found.deleted && found.kind == Kind::File && data.read(0, &mut bytes).is_ok();
        outcome.recovered += u64::from(is_same && files.get(&name) == Some(&bytes));
        Ok(())
    });
    recovered.unwrap();
    Refs::ANY.check(&*seen, CheckOptions { repair: true }, &Silent).unwrap();
    let report = Refs::ANY.check(&*seen, CheckOptions::default(), &Silent).unwrap();
    let is_clean = report.is_clean();
    outcome.cases += 1;
    outcome.clean += u64::from(is_clean);
    outcome.files += files.len() as u64;
    let read_only = OpenOptions { read_only: true, ..OpenOptions::default() };
    let found = RefsVolume::open(seen, read_only).map(|system| read(&system)).unwrap_or_default();
    for (name, bytes) in &found {
        match (files.get(name), bytes) {
            (Some(expected), Some(bytes)) if expected == bytes => outcome.kept += 1,
            (Some(_), Some(_)) => outcome.wrong += 1,
            (None, _) => outcome.more += 1,
            (Some(_), None) => {}
        }
    }
    is_clean
}

/// Damages one page of each `every`, one at a time. Returns the outcomes with the page zeroed, and with one of its bits
/// wrong.
fn damage_each(volume: Volume, every: usize) -> [Outcome; 2] {
    let device = volume.make();
    let files = populate(device.clone());
    let page = if volume.cluster == 4096 { 16384 } else { 65536 };
    let mut outcomes = [Outcome::default(); 2];
    for (number, (at, of)) in pages(&device).into_iter().enumerate().filter(|(number, _)| number % every == 0)
    {
        let zero = |device: &dyn Device| device.write_at(at, &vec![0; page]).unwrap();
        let flip = |device: &dyn Device| {
            let mut bytes = vec![0; page];
            device.read_at(at, &mut bytes).unwrap();
            bytes[number * 7919 % page] ^= 1 << (number % 8);
            device.write_at(at, &bytes).unwrap();
        };
        for (what, outcome) in outcomes.iter_mut().enumerate() {
            let damage = |device: &dyn Device| if what == 0 { zero(device) } else { flip(device) };
            if !one(&device, &files, &damage, outcome) {
                println!("{volume:?}: {of:?} at {at:#x}: {} leaves damage", ["zeroed", "a bit"][what]);
            }
        }
    }
    for (what, outcome) in ["zeroed", "one bit"].into_iter().zip(&outcomes) {
        println!("{volume:?}, {what}: {outcome:?}");
    }
    outcomes
}

/// A single wrong bit must be put right wherever it is, without any loss. Where a page is gone, the volume must be
/// clean again in nearly all cases, no file may have other content, and about as many files must be kept as a recovery
/// finds.
fn judge([zeroed, flipped]: [Outcome; 2]) {
    assert_eq!(
        (flipped.clean, flipped.kept, flipped.wrong),
        (flipped.cases, flipped.files, 0),
        "{flipped:?}"
    );
    assert!(zeroed.clean * 20 >= zeroed.cases * 19, "{zeroed:?}");
    // Removed files must not come back.
    assert_eq!((zeroed.wrong, zeroed.more), (0, 0), "{zeroed:?}");
    assert!(zeroed.kept * 100 >= zeroed.recovered * 99, "{zeroed:?}");
}

#[test]
fn a_page_that_is_lost_costs_little() {
    judge(damage_each(V3_14, 5));
}

/// Every page of other volumes: `cargo test --release -p platterfs-refs --test suite salvage:: -- --ignored --nocapture`.
#[test]
#[ignore = "a campaign"]
fn each_page_that_is_lost_costs_little() {
    for volume in [VOLUMES[0], VOLUMES[1], VOLUMES[2]] {
        judge(damage_each(volume, 1));
    }
}
